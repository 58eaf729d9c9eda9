//! Trains a unigram model, as described by Kudo (2018): many substrings are candidates; expectation maximisation gives them
//! probabilities, and those that the text loses least without are dropped, a quarter at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::tokenizer::Trie;

/// Characters of the longest candidate.
const LONGEST: usize = 16;
/// Candidates for every piece that is asked for.
const CANDIDATES: usize = 20;
/// Rounds of expectation maximisation between two prunings, and the share that a pruning keeps.
const ROUNDS: usize = 2;
const KEPT: f64 = 0.75;
/// Pieces that are expected less often than this are dropped.
const RARE: f64 = 0.5;

/// Pieces with their logarithmic probabilities, the most probable first: `size` of them, or all that the text has.
pub(super) fn train(words: &BTreeMap<String, u64>, characters: &BTreeSet<char>, size: usize) -> Vec<(String, f64)> {
    let words: Vec<(&str, f64)> = words.iter().map(|(word, &count)| (word.as_str(), count as f64)).collect();
    let mut model = Model::candidates(&words, characters, size);
    loop {
        for _ in 0..ROUNDS {
            model.improve(&words, size);
        }
        if model.pieces.len() <= size {
            break;
        }
        model.prune(&words, size.max((model.pieces.len() as f64 * KEPT) as usize));
    }
    let mut scored: Vec<(String, f64)> = model.pieces.into_iter().map(|piece| (piece.text, piece.score)).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    scored
}

struct Piece {
    text: String,
    score: f64,
    /// Characters always stay.
    is_character: bool,
}

struct Model {
    pieces: Vec<Piece>,
    trie: Trie,
}

impl Model {
    fn new(pieces: Vec<Piece>) -> Self {
        let mut trie = Trie::default();
        (0..).zip(&pieces).for_each(|(id, piece)| trie.insert(&piece.text, id));
        Model { pieces, trie }
    }

    /// All characters, and the substrings of words that cover most of the text: those that occur twice or more.
    fn candidates(words: &[(&str, f64)], characters: &BTreeSet<char>, size: usize) -> Self {
        let mut counts: HashMap<&str, f64> = HashMap::new();
        for (word, count) in words {
            let bounds: Vec<usize> = word.char_indices().map(|(at, _)| at).chain([word.len()]).collect();
            for (start, &from) in bounds.iter().enumerate() {
                for &to in bounds.iter().skip(start + 2).take(LONGEST - 1) {
                    *counts.entry(&word[from..to]).or_default() += count;
                }
            }
        }
        let covers = |text: &str, count: f64| count * text.chars().count() as f64;
        let mut substrings: Vec<(&str, f64)> = counts.into_iter().filter(|(_, count)| *count >= 2.0).collect();
        substrings.sort_by(|a, b| covers(b.0, b.1).total_cmp(&covers(a.0, a.1)).then_with(|| a.0.cmp(b.0)));
        substrings.truncate(size.saturating_mul(CANDIDATES));
        let mut singles: BTreeMap<char, f64> = characters.iter().map(|character| (*character, 0.0)).collect();
        for (word, count) in words {
            word.chars().for_each(|character| *singles.entry(character).or_default() += count);
        }
        let singles = singles.into_iter().map(|(character, count)| (String::from(character), count, true));
        let several = substrings.into_iter().map(|(text, count)| (text.to_owned(), covers(text, count), false));
        let all: Vec<(String, f64, bool)> = singles.chain(several).collect();
        let total = all.iter().map(|(_, weight, _)| weight).sum::<f64>().ln();
        let piece = |(text, weight, is_character): (String, f64, bool)| Piece {
            text,
            score: weight.ln() - total,
            is_character,
        };
        Model::new(all.into_iter().map(piece).collect())
    }

    /// A round of expectation maximisation. Rare pieces are dropped as long as more than `size` are left.
    fn improve(&mut self, words: &[(&str, f64)], size: usize) {
        let mut expected = vec![0.0; self.pieces.len()];
        for (word, count) in words {
            self.expect(word, *count, &mut expected);
        }
        let is_wanted = |id: &usize| expected[*id] >= RARE || self.pieces[*id].is_character;
        let (mut wanted, mut rare): (Vec<usize>, Vec<usize>) = (0..expected.len()).partition(is_wanted);
        rare.sort_by(|a, b| expected[*b].total_cmp(&expected[*a]).then(a.cmp(b)));
        wanted.extend(rare.into_iter().take(size.saturating_sub(wanted.len())));
        wanted.sort_unstable();
        let mut pieces: Vec<Option<Piece>> = std::mem::take(&mut self.pieces).into_iter().map(Some).collect();
        let kept =
            wanted.into_iter().filter_map(|id| Some(Piece { score: expected[id].max(RARE), ..pieces[id].take()? }));
        let mut kept: Vec<Piece> = kept.collect();
        let total = digamma(kept.iter().map(|piece| piece.score).sum());
        // The digamma function takes more from rare pieces than the logarithm does.
        kept.iter_mut().for_each(|piece| piece.score = digamma(piece.score) - total);
        *self = Model::new(kept);
    }

    /// Adds how often pieces are expected in a word that occurs `count` times.
    fn expect(&self, word: &str, count: f64, expected: &mut [f64]) {
        let length = word.len();
        let (mut forward, mut backward) = (vec![f64::NEG_INFINITY; length + 1], vec![f64::NEG_INFINITY; length + 1]);
        (forward[0], backward[length]) = (0.0, 0.0);
        let mut edges = Vec::new();
        for (start, _) in word.char_indices() {
            for (length, id) in self.trie.prefixes(&word.as_bytes()[start..]) {
                let end = start + length;
                edges.push((start, end, id as usize));
                forward[end] = log_sum(forward[end], forward[start] + self.pieces[id as usize].score);
            }
        }
        for &(start, end, id) in edges.iter().rev() {
            backward[start] = log_sum(backward[start], backward[end] + self.pieces[id].score);
        }
        for (start, end, id) in edges {
            let probability = forward[start] + self.pieces[id].score + backward[end] - forward[length];
            expected[id] += count * probability.exp();
        }
    }

    /// The most probable pieces of a text, without those of the whole text if `is_cut`.
    fn best(&self, text: &str, is_cut: bool) -> Option<Vec<usize>> {
        let mut best: Vec<Option<(f64, usize, usize)>> = vec![None; text.len() + 1];
        best[0] = Some((0.0, 0, 0));
        for (start, _) in text.char_indices() {
            let Some((till_here, ..)) = best[start] else { continue };
            for (length, id) in self.trie.prefixes(&text.as_bytes()[start..]) {
                if is_cut && length == text.len() {
                    continue;
                }
                let score = till_here + self.pieces[id as usize].score;
                let place = &mut best[start + length];
                if place.is_none_or(|(known, ..)| score > known) {
                    *place = Some((score, start, id as usize));
                }
            }
        }
        let (mut ids, mut end) = (Vec::new(), text.len());
        while end > 0 {
            let (_, start, id) = best[end]?;
            ids.push(id);
            end = start;
        }
        Some(ids)
    }

    /// Keeps the characters and the pieces without which the text would lose most, `count` in all.
    fn prune(&mut self, words: &[(&str, f64)], count: usize) {
        let mut used = vec![0.0; self.pieces.len()];
        for (word, count) in words {
            self.best(word, false).into_iter().flatten().for_each(|id| used[id] += count);
        }
        let total: f64 = used.iter().sum();
        let loss = |id: usize| {
            let Some(parts) = self.best(&self.pieces[id].text, true).filter(|_| used[id] > 0.0) else { return 0.0 };
            let others = (total + used[id] * (parts.len() as f64 - 1.0)).ln();
            let without: f64 = parts.iter().map(|part| (used[*part] + used[id]).ln() - others).sum();
            used[id] / total * (used[id].ln() - total.ln() - without)
        };
        let mut order: Vec<(bool, f64, usize)> =
            self.pieces.iter().enumerate().map(|(id, piece)| (!piece.is_character, -loss(id), id)).collect();
        order.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        let mut is_kept = vec![false; self.pieces.len()];
        order.into_iter().take(count).for_each(|(.., id)| is_kept[id] = true);
        let mut ids = 0..;
        self.pieces.retain(|_| is_kept[ids.next().unwrap_or(0)]);
        *self = Model::new(std::mem::take(&mut self.pieces));
    }
}

/// `ln(exp(a) + exp(b))`.
fn log_sum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// The derivative of the logarithm of the gamma function.
fn digamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 7.0 {
        sum -= 1.0 / x;
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    sum + x.ln()
        - 0.5 / x
        - inverse * (1.0 / 12.0 - inverse * (1.0 / 120.0 - inverse * (1.0 / 252.0 - inverse / 240.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digamma_has_its_known_values() {
        assert!((digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-10);
        assert!((digamma(0.5) + 1.963_510_026_021_423_5).abs() < 1e-9);
        assert!((digamma(10.0) - 2.251_752_589_066_721).abs() < 1e-10);
    }

    #[test]
    fn expectations_count_every_way_to_cut_a_word() {
        let piece = |text: &str, probability: f64| Piece {
            text: text.to_owned(),
            score: probability.ln(),
            is_character: false,
        };
        let model = Model::new(vec![piece("a", 0.5), piece("b", 0.25), piece("ab", 0.25)]);
        let mut expected = vec![0.0; 3];
        model.expect("ab", 3.0, &mut expected);
        // Cut: 1/8; whole: 1/4.
        assert!(expected.iter().zip([1.0, 1.0, 2.0]).all(|(got, want): (&f64, f64)| (got - want).abs() < 1e-12));
        assert_eq!(model.best("ab", false), Some(vec![2]));
        assert_eq!(model.best("ab", true), Some(vec![1, 0]));
    }

    #[test]
    fn frequent_words_become_pieces() {
        let words = [("xaxb", 1), ("thing", 50), ("other", 40), ("ab", 2), ("thingother", 3)];
        let words: BTreeMap<String, u64> = words.map(|(word, count)| (word.to_owned(), count)).into();
        let characters: BTreeSet<char> = words.keys().flat_map(|word| word.chars()).collect();
        let pieces = train(&words, &characters, characters.len() + 2);
        let texts: Vec<&str> = pieces.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts.len(), characters.len() + 2);
        assert_eq!(texts[..2], ["thing", "other"]);
        assert!(characters.iter().all(|&character| texts.contains(&String::from(character).as_str())));
        assert!(pieces.iter().map(|(_, score)| score.exp()).sum::<f64>() < 1.0);
    }
}
