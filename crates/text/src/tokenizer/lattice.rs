//! The most probable way to cut a text into pieces: the unigram model.

use std::collections::HashMap;

/// Below the score of the least probable piece: what a character without a piece costs. Both SentencePiece and Hugging Face have it.
const UNKNOWN_PENALTY: f64 = 10.0;

/// A tree of byte strings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Nodes that follow, by byte.
    children: Vec<(u8, u32)>,
    /// The piece that ends here.
    id: Option<u32>,
}

impl Trie {
    pub(crate) fn insert(&mut self, text: &str, id: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut node = 0;
        for byte in text.bytes() {
            let next = self.nodes.len() as u32;
            let children = &mut self.nodes[node].children;
            node = match children.binary_search_by_key(&byte, |child| child.0) {
                Ok(at) => children[at].1,
                Err(at) => {
                    children.insert(at, (byte, next));
                    self.nodes.push(Node::default());
                    next
                }
            } as usize;
        }
        self.nodes[node].id.get_or_insert(id);
    }

    /// The pieces with which a text begins, short ones first: length and id.
    pub(crate) fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> + 'a {
        let mut node = self.nodes.first();
        text.iter()
            .enumerate()
            .map_while(move |(at, byte)| {
                let children = &node?.children;
                let child = children.binary_search_by_key(byte, |child| child.0).ok()?;
                node = self.nodes.get(children[child].1 as usize);
                Some(node?.id.map(|id| (at + 1, id)))
            })
            .flatten()
    }
}

/// A part of a text: one piece, or something that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The piece; none for a character without one.
    pub(crate) id: Option<u32>,
}

/// Pieces with their scores.
#[derive(Clone, Debug)]
pub(crate) struct Lattice {
    trie: Trie,
    /// The score of each piece.
    scores: HashMap<u32, f64>,
    unknown_score: f64,
    /// Whether sums are rounded to single precision, as in SentencePiece.
    is_single: bool,
}

impl Lattice {
    /// Pieces as text, id and score; `lowest` is the score of the least probable one.
    pub(crate) fn new<'a>(pieces: impl Iterator<Item = (&'a str, u32, f64)>, lowest: f64, is_single: bool) -> Self {
        let (mut trie, mut scores) = (Trie::default(), HashMap::new());
        for (text, id, score) in pieces.filter(|(text, ..)| !text.is_empty()) {
            trie.insert(text, id);
            scores.insert(id, score);
        }
        Lattice { trie, scores, unknown_score: lowest - UNKNOWN_PENALTY, is_single }
    }

    fn sum(&self, a: f64, b: f64) -> f64 {
        if self.is_single { f64::from(a as f32 + b as f32) } else { a + b }
    }

    /// The most probable parts of a text. Of equally probable ones, those with the longer last part.
    pub(crate) fn best(&self, text: &str) -> Vec<Part> {
        // Of each position: the best score so far, where the last part starts, and its piece.
        let mut best: Vec<Option<(f64, usize, Option<u32>)>> = vec![None; text.len() + 1];
        best[0] = Some((0.0, 0, None));
        for (start, character) in text.char_indices() {
            let till_here = best[start].map_or(0.0, |(score, ..)| score);
            let single = character.len_utf8();
            let mut has_single = false;
            let mut offer = |length: usize, score: f64, id: Option<u32>| {
                let (score, place) = (self.sum(score, till_here), &mut best[start + length]);
                if place.is_none_or(|(known, ..)| score > known) {
                    *place = Some((score, start, id));
                }
            };
            for (length, id) in self.trie.prefixes(&text.as_bytes()[start..]) {
                offer(length, self.scores[&id], Some(id));
                has_single |= length == single;
            }
            if !has_single {
                offer(single, self.unknown_score, None);
            }
        }
        let (mut parts, mut end) = (Vec::new(), text.len());
        while end > 0 {
            let Some((_, start, id)) = best[end] else { break };
            parts.push(Part { start, end, id });
            end = start;
        }
        parts.reverse();
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_probable_parts_win() {
        let pieces = [("a", 0, -1.0), ("b", 1, -1.0), ("ab", 2, -1.5), ("abc", 3, -9.0)];
        let lattice = Lattice::new(pieces.into_iter(), -9.0, false);
        let ids = |text: &str| lattice.best(text).iter().map(|part| part.id).collect::<Vec<_>>();
        assert_eq!(ids("abab"), [Some(2), Some(2)]);
        assert_eq!(ids("ba"), [Some(1), Some(0)]);
        // "abc" costs 9, "ab" and an unknown character 1.5 + 19.
        assert_eq!(ids("abc"), [Some(3)]);
        assert_eq!(ids("cé"), [None, None]);
        assert_eq!(ids(""), []);
    }
}
