//! Which tokens of a sequence its label depends on.

use crate::task::{TaskInfo, Token};

impl TaskInfo {
    /// The relevant positions of a legal sequence: those where replacing the token alone can give a legal sequence with
    /// another label. Pad tokens at the end are never relevant.
    ///
    /// This uses only the evaluator, so it means the same for every task: the first and the last bit in even-pairs, the
    /// counterpart of the hidden bit in missing-duplicate, every bit in parity.
    pub fn relevant_positions(&self, tokens: &[Token]) -> Vec<usize> {
        let mut sequence = self.without_padding(tokens).to_vec();
        let Ok(label) = self.label(tokens) else { return Vec::new() };
        let mut relevant = Vec::new();
        for position in 0..sequence.len() {
            let present = sequence[position];
            let others = (0..self.alphabet.len() as Token).filter(|&token| token != present);
            let changes = |token| {
                sequence[position] = token;
                (self.evaluate)(&sequence).is_ok_and(|other| other != label)
            };
            if others.into_iter().any(changes) {
                relevant.push(position);
            }
            sequence[position] = present;
        }
        relevant
    }
}

#[cfg(test)]
mod tests {
    use crate::task::Tasks;

    fn relevant(task: &str, tokens: &[u16]) -> Vec<usize> {
        Tasks::standard().find(task).unwrap().relevant_positions(tokens)
    }

    #[test]
    fn positions_that_decide_the_label_by_hand() {
        assert_eq!(relevant("even-pairs", &[0, 1, 1, 0, 1, 0, 1]), [0, 6], "the first and the last bit");
        assert_eq!(relevant("even-pairs", &[0, 1, 1, 2, 2]), [0, 2], "padding is ignored");
        assert_eq!(relevant("missing-duplicate", &[0, 1, 1, 0, 2, 1]), [1], "the counterpart of the hidden bit");
        assert_eq!(relevant("missing-duplicate", &[2, 1, 0, 1]), [2]);
        assert_eq!(relevant("parity", &[0, 1, 1]), [0, 1, 2], "every bit");
        // POP turns the stack 0 1 into 0. Changing the first bit, the second to POP, or POP to PUSH gives another top.
        assert_eq!(relevant("stack-manipulation", &[0, 1, 2]), [0, 1, 2]);
        assert_eq!(relevant("stack-manipulation", &[0, 1, 0, 4]), [3], "what was pushed last is on top");
        assert_eq!(relevant("parity", &[7, 1, 1]), [0usize; 0], "illegal sequences have none");
    }
}
