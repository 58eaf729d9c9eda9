//! Which tokens of a sequence its answers depend on.

use semfocus_core::RelevantKeys;
use semfocus_core::question::{Answers, At};

use crate::generate::GenerateError;
use crate::task::{BuiltTask, Token};

impl BuiltTask {
    /// The relevant positions of a legal sequence, in ascending order. Pad tokens at the end are never relevant, and illegal
    /// sequences have no relevant positions.
    ///
    /// A position is relevant if replacing its token alone can give a legal sequence with other answers. This uses only the
    /// evaluator, so it means the same for every task: the first and the last bit in even-pairs, the counterpart of the
    /// hidden bit in missing-duplicate, every bit in parity.
    ///
    /// A task can have a rule of its own instead, [`Task::relevant`](crate::Task::relevant). Flip-flop has one: if a bit that was written is
    /// read again, replacing one of the two is illegal, although each of them alone is the answer. In associative recall, replacing a key
    /// is illegal if the key is asked for.
    pub fn relevant_positions(&self, tokens: &[Token]) -> Vec<usize> {
        let Ok(answers) = self.answers(tokens) else { return Vec::new() };
        let sequence = self.without_padding(tokens);
        self.task.relevant(sequence).unwrap_or_else(|| self.replaceable_positions(sequence, &answers))
    }

    /// The relevant keys of each query of a legal sequence, for mechanisms that ask and for probes.
    ///
    /// If the task asks at tokens and [knows it](crate::Task::relevant_to_questions), each query at which it asks has the positions
    /// that hold what this answer has to be looked up from. Otherwise all queries share the
    /// [relevant positions](Self::relevant_positions) of the sequence.
    ///
    /// # Errors
    /// If the task does not give one ascending list of positions of the sequence for each question.
    pub fn relevant_keys(&self, tokens: &[Token]) -> Result<RelevantKeys, GenerateError> {
        let Ok(answers) = self.answers(tokens) else { return Ok(RelevantKeys::default()) };
        let sequence = self.without_padding(tokens);
        let Some(lists) = self.task.relevant_to_questions(sequence) else {
            return Ok(RelevantKeys::shared(self.relevant_positions(sequence)));
        };
        self.check_lists(sequence, &answers, &lists)?;
        let asked = answers.questions.iter().zip(lists);
        Ok(RelevantKeys::of_queries(asked.filter_map(|(question, keys)| match question.at {
            At::Token(query) => Some((query as usize, keys)),
            At::Mean => None,
        })))
    }

    /// What a task says of its questions has to have the right shape.
    fn check_lists(&self, sequence: &[Token], answers: &Answers, lists: &[Vec<usize>]) -> Result<(), GenerateError> {
        let (questions, length) = (answers.questions.len(), sequence.len());
        let is_wrong =
            |list: &&Vec<usize>| !list.is_sorted_by(|a, b| a < b) || list.last().is_some_and(|&last| last >= length);
        let problem = match lists.iter().find(is_wrong) {
            _ if lists.len() != questions => {
                format!("it asks {questions} questions and gives relevant positions for {}", lists.len())
            }
            Some(list) => format!(
                "the relevant positions {list:?} of a question are not positions of its {length} tokens in ascending order"
            ),
            None => return Ok(()),
        };
        Err(GenerateError::WrongTask { task: self.spec.to_string(), sequence: self.written(sequence), problem })
    }

    /// Where replacing the token alone can give a legal sequence with other answers than these.
    fn replaceable_positions(&self, sequence: &[Token], answers: &Answers) -> Vec<usize> {
        let mut sequence = sequence.to_vec();
        let mut relevant = Vec::new();
        for position in 0..sequence.len() {
            let present = sequence[position];
            let others = (0..self.alphabet.len() as Token).filter(|&token| token != present);
            let changes = |token| {
                sequence[position] = token;
                self.task.answers(&sequence).is_ok_and(|other| other != *answers)
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
    use crate::{DataSettings, Examples, Length, Tasks, single_label};

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
        // W 0 I 1 R ?; W 0 W 1 I 0 R 1 I 1 R ? with padding.
        assert_eq!(relevant("flip-flop", &[2, 0, 3, 1, 4, 5]), [1], "the bit that was written");
        assert_eq!(
            relevant("flip-flop", &[2, 0, 2, 1, 3, 0, 4, 1, 3, 1, 4, 5, 6]),
            [3, 7],
            "and where it is read again"
        );
        assert_eq!(relevant("flip-flop", &[2, 0, 4, 1, 4, 5]), [0usize; 0], "illegal");
    }

    /// The rule of flip-flop: every relevant bit is the answer, and the rest of the sequence does not tell it.
    #[test]
    fn relevant_bits_of_flip_flop_are_the_answer_and_nothing_else_tells_it() {
        let tasks = Tasks::standard();
        let task = tasks.find("flip-flop").unwrap();
        let settings = DataSettings::with_length(Length::Between(4, 40));
        let mut several = 0;
        for example in Examples::new(&task, &settings, 1, None).unwrap().take(2000).map(Result::unwrap) {
            let positions = task.relevant_positions(&example.tokens);
            let label = single_label(&example.answers).unwrap();
            assert!(!positions.is_empty() && positions.is_sorted());
            assert!(positions.iter().all(|&position| example.tokens[position] == label), "{example:?}");
            let flipped = |count: usize| {
                let mut tokens = example.tokens.clone();
                positions[..count].iter().for_each(|&position| tokens[position] = 1 - tokens[position]);
                task.answers(&tokens).ok().and_then(|answers| single_label(&answers))
            };
            assert_eq!(flipped(positions.len()), Some(1 - label), "{example:?}");
            assert!((1..positions.len()).all(|count| flipped(count).is_none()), "{example:?}");
            several += usize::from(positions.len() > 1);
        }
        assert!(several > 500, "{several} examples with more than one relevant position");
    }
}
