//! Trains byte-pair encoding: the most frequent pair of neighbours becomes a piece, until there are enough. Of equally frequent pairs,
//! the one with the lower ids comes first, as in the library of Hugging Face.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use super::UNKNOWN;

type Pair = (u32, u32);

/// The pieces, the one for unknown characters first, and the merges in their order.
pub(super) fn train(
    words: &BTreeMap<String, u64>,
    characters: &BTreeSet<char>,
    size: usize,
) -> (Vec<String>, Vec<(String, String)>) {
    let mut pieces: Vec<String> = vec![UNKNOWN.to_owned()];
    pieces.extend(characters.iter().map(|&character| String::from(character)));
    let mut ids: HashMap<String, u32> = (0..).zip(&pieces).map(|(id, piece)| (piece.clone(), id)).collect();
    let mut sequences: Vec<(Vec<u32>, i64)> = words
        .iter()
        .map(|(word, &count)| {
            let ids = word.chars().map(|character| ids[character.encode_utf8(&mut [0; 4]) as &str]).collect();
            (ids, i64::try_from(count).unwrap_or(i64::MAX))
        })
        .collect();
    let mut counts: HashMap<Pair, i64> = HashMap::new();
    let mut places: HashMap<Pair, Vec<usize>> = HashMap::new();
    for (place, (sequence, count)) in sequences.iter().enumerate() {
        for pair in sequence.windows(2) {
            *counts.entry((pair[0], pair[1])).or_default() += count;
            places.entry((pair[0], pair[1])).or_default().push(place);
        }
    }
    let mut heap: BinaryHeap<(i64, Reverse<Pair>)> =
        counts.iter().map(|(pair, count)| (*count, Reverse(*pair))).collect();
    let mut merges = Vec::new();
    while pieces.len() < size
        && let Some((count, Reverse(pair))) = heap.pop()
    {
        // Counts in the heap may be old.
        let now = counts.get(&pair).copied().unwrap_or(0);
        if now != count {
            if now > 0 {
                heap.push((now, Reverse(pair)));
            }
            continue;
        }
        let (left, right) = (pieces[pair.0 as usize].clone(), pieces[pair.1 as usize].clone());
        let merged = format!("{left}{right}");
        let id = *ids.entry(merged.clone()).or_insert_with(|| {
            pieces.push(merged);
            pieces.len() as u32 - 1
        });
        merges.push((left, right));
        counts.remove(&pair);
        let mut touched = places.remove(&pair).unwrap_or_default();
        touched.sort_unstable();
        touched.dedup();
        let mut grown = BTreeSet::new();
        for place in touched {
            let (sequence, count) = &mut sequences[place];
            merge(sequence, pair, id, |changed, change| {
                if changed != pair {
                    *counts.entry(changed).or_default() += change * *count;
                    if change > 0 {
                        places.entry(changed).or_default().push(place);
                        grown.insert(changed);
                    }
                }
            });
        }
        heap.extend(grown.into_iter().map(|pair| (counts[&pair], Reverse(pair))).filter(|(count, _)| *count > 0));
    }
    (pieces, merges)
}

/// Merges a pair wherever it occurs in a sequence, and tells which pairs of neighbours that adds and removes.
fn merge(sequence: &mut Vec<u32>, pair: Pair, id: u32, mut tell: impl FnMut(Pair, i64)) {
    let mut merged: Vec<u32> = Vec::with_capacity(sequence.len());
    let mut at = 0;
    while at < sequence.len() {
        if sequence.get(at..at + 2) != Some(&[pair.0, pair.1]) {
            merged.push(sequence[at]);
            at += 1;
            continue;
        }
        if let Some(&before) = merged.last() {
            tell((before, pair.0), -1);
            tell((before, id), 1);
        }
        if let Some(&after) = sequence.get(at + 2) {
            tell((pair.1, after), -1);
            tell((id, after), 1);
        }
        merged.push(id);
        at += 2;
    }
    *sequence = merged;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_pairs_are_merged_first() {
        let words = BTreeMap::from([("abab".to_owned(), 3), ("abc".to_owned(), 2), ("aaa".to_owned(), 4)]);
        let characters = "abc".chars().collect();
        let (pieces, merges) = train(&words, &characters, 100);
        // ab occurs 3 · 2 + 2 = 8 times, aa 4 · 2 = 8 times: its ids are lower. What is left of aaa is aa, a.
        assert_eq!(pieces, ["<unk>", "a", "b", "c", "aa", "ab", "aaa", "abab", "abc"]);
        let merges: Vec<String> = merges.iter().map(|(left, right)| format!("{left} {right}")).collect();
        assert_eq!(merges, ["a a", "a b", "aa a", "ab ab", "ab c"]);
        assert_eq!(train(&words, &characters, 6).0.len(), 6);
    }
}
