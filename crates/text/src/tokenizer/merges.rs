//! Byte-pair encoding: neighbours are merged in the order of their ranks until nothing is left to merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A part of a text that may be merged with its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Its piece; none if it has none.
    pub(crate) id: Option<u32>,
}

const NONE: usize = usize::MAX;

/// Merges symbols. `find` says which piece two neighbours make, and its rank: low ranks first, and of equal ones the leftmost.
pub(crate) fn merge(symbols: &mut Vec<Symbol>, find: impl Fn(&Symbol, &Symbol) -> Option<(u32, u32)>) {
    let count = symbols.len();
    let mut next: Vec<usize> = (1..=count).map(|index| if index < count { index } else { NONE }).collect();
    let mut previous: Vec<usize> = (0..count).map(|index| index.checked_sub(1).unwrap_or(NONE)).collect();
    let mut is_gone = vec![false; count];
    let mut heap: BinaryHeap<Reverse<(u32, usize, u32)>> = BinaryHeap::new();
    for left in 1..count {
        if let Some((rank, id)) = find(&symbols[left - 1], &symbols[left]) {
            heap.push(Reverse((rank, left - 1, id)));
        }
    }
    while let Some(Reverse((rank, left, id))) = heap.pop() {
        let right = next[left];
        // The neighbours may have been merged with others since.
        if is_gone[left] || right == NONE || find(&symbols[left], &symbols[right]) != Some((rank, id)) {
            continue;
        }
        symbols[left] = Symbol { start: symbols[left].start, end: symbols[right].end, id: Some(id) };
        is_gone[right] = true;
        next[left] = next[right];
        if next[left] != NONE {
            previous[next[left]] = left;
        }
        for (one, other) in [(previous[left], left), (left, next[left])] {
            if one != NONE
                && other != NONE
                && let Some((rank, id)) = find(&symbols[one], &symbols[other])
            {
                heap.push(Reverse((rank, one, id)));
            }
        }
    }
    let mut index = 0;
    symbols.retain(|_| {
        index += 1;
        !is_gone[index - 1]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_ranks_are_merged_first() {
        // b+c before a+b before a+bc.
        let merges = [(1, 2, 10), (0, 1, 11), (0, 10, 12)];
        let find = |left: &Symbol, right: &Symbol| {
            let rank = merges.iter().position(|(a, b, _)| (Some(*a), Some(*b)) == (left.id, right.id))?;
            Some((rank as u32, merges[rank].2))
        };
        let merged = |ids: &[u32]| {
            let mut symbols: Vec<Symbol> =
                (0..).zip(ids).map(|(at, id)| Symbol { start: at, end: at + 1, id: Some(*id) }).collect();
            merge(&mut symbols, find);
            symbols.iter().map(|symbol| (symbol.id.unwrap(), symbol.end - symbol.start)).collect::<Vec<_>>()
        };
        assert_eq!(merged(&[0, 1, 2]), [(12, 3)]);
        assert_eq!(merged(&[0, 1, 0, 1, 2, 2]), [(11, 2), (12, 3), (2, 1)]);
        assert_eq!(merged(&[]), []);
    }
}
