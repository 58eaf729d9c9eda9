//! A text as pieces, and how sequences are cut from them.

use std::collections::HashSet;

use semfocus_text::{Corpus, Division, Tokenizer};

use super::settings::Form;
use crate::split::SplitName;
use crate::task::Token;

/// A text, cut into pieces by a tokenizer. Trials share it.
#[derive(Clone, Debug)]
pub struct Text {
    /// What cut it.
    pub tokenizer: Tokenizer,
    /// The pieces of each split.
    splits: [Pieces; 3],
    /// Units of held-out and test that are also units of train.
    repeated: [usize; 3],
    checksum: u64,
    train_checksum: u64,
}

/// The pieces of a split, unit after unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    all: Vec<Token>,
    ends: Vec<usize>,
    characters: usize,
    unknown: usize,
}

impl Text {
    /// Cuts a text into pieces.
    pub fn new(corpus: &Corpus, tokenizer: Tokenizer) -> Self {
        let (mut encoder, unknown) = (tokenizer.encoder(), tokenizer.unknown());
        let splits = corpus.units.each_ref().map(|units| {
            let mut pieces = Pieces::default();
            for unit in units {
                pieces.all.extend(encoder.encode(unit));
                pieces.ends.push(pieces.all.len());
                pieces.characters += unit.chars().count();
            }
            pieces.unknown = pieces.all.iter().filter(|&&piece| Some(piece) == unknown).count();
            pieces
        });
        let train: HashSet<&str> = corpus.units[0].iter().map(String::as_str).collect();
        let repeated =
            corpus.units.each_ref().map(|units| units.iter().filter(|unit| train.contains(unit.as_str())).count());
        let (checksum, train_checksum) = (corpus.checksum(), corpus.train_checksum());
        Text { splits, repeated, checksum, train_checksum, tokenizer }
    }

    /// A checksum of the text of all splits, as it was divided.
    pub fn checksum(&self) -> u64 {
        self.checksum
    }

    /// A checksum of the training text, from which a tokenizer is made.
    pub fn train_checksum(&self) -> u64 {
        self.train_checksum
    }

    pub(super) fn split(&self, name: SplitName) -> &Pieces {
        &self.splits[name as usize]
    }

    /// How many units of a split are also in train.
    pub(super) fn repeated(&self, name: SplitName) -> usize {
        self.repeated[name as usize]
    }
}

impl Pieces {
    /// Number of units.
    pub(super) fn units(&self) -> usize {
        self.ends.len()
    }

    /// Number of pieces.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Pieces of a unit in the mean, without what follows the point.
    pub(super) fn mean(&self) -> usize {
        self.len() / self.units().max(1)
    }

    /// Pieces of the longest unit.
    pub(super) fn longest(&self) -> usize {
        self.iter().map(<[Token]>::len).max().unwrap_or(0)
    }

    /// Characters of a piece in the mean; none without pieces.
    pub(super) fn characters(&self) -> Option<f64> {
        (self.len() > 0).then(|| self.characters as f64 / self.len() as f64)
    }

    /// The share of pieces that the tokenizer does not know.
    pub(super) fn unknown(&self) -> f64 {
        self.unknown as f64 / self.len().max(1) as f64
    }

    fn iter(&self) -> impl Iterator<Item = &[Token]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.all[start..end])
    }
}

/// How sequences are cut from the units of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) window: usize,
    /// From the start of a sequence to the start of the next one.
    stride: usize,
    /// Pieces that a unit needs from the start of a sequence on: what is seen and what is asked for.
    needed: usize,
}

impl Cut {
    /// Windows of a whole number of pieces begin at every piece, as in the study, or one after the other in running text. Where every
    /// piece is asked for, sequences follow one another, and the last one of a unit may be shorter.
    pub(super) fn new(form: Form, division: Division, window: usize) -> Self {
        match form {
            Form::Window if division == Division::Documents => Cut { window, stride: window, needed: window + 1 },
            Form::Window => Cut { window, stride: 1, needed: window + 1 },
            Form::Causal => Cut { window, stride: window, needed: 2 },
        }
    }

    /// Pieces that a unit needs for a sequence.
    pub(super) fn needed(self) -> usize {
        self.needed
    }

    /// How many sequences a unit with so many pieces makes.
    fn count(self, pieces: usize) -> usize {
        if pieces < self.needed { 0 } else { (pieces - self.needed) / self.stride + 1 }
    }

    /// How many sequences there are.
    pub(super) fn sequences(self, pieces: &Pieces) -> usize {
        pieces.iter().map(|unit| self.count(unit.len())).sum()
    }

    /// Some of the sequences, evenly spread over the text: what is seen, and what follows each of its pieces.
    pub(super) fn chosen(self, pieces: &Pieces, wanted: usize) -> impl Iterator<Item = (&[Token], &[Token])> {
        let all = self.sequences(pieces).max(1) as u128;
        let wanted = all.min(wanted as u128);
        // Of the first `count` sequences, this many are taken.
        let taken = move |count: usize| count as u128 * wanted / all;
        let starts = pieces.iter().flat_map(move |unit| (0..self.count(unit.len())).map(move |number| (unit, number)));
        let chosen = starts.enumerate().filter(move |(index, _)| taken(index + 1) > taken(*index));
        chosen.map(move |(_, (unit, number))| {
            let start = number * self.stride;
            let end = (start + self.window).min(unit.len() - 1);
            (&unit[start..end], &unit[start + 1..=end])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(units: &[&[Token]]) -> Pieces {
        let mut pieces = Pieces::default();
        for unit in units {
            pieces.all.extend_from_slice(unit);
            pieces.ends.push(pieces.all.len());
        }
        pieces
    }

    fn sequences(form: Form, division: Division, window: usize, wanted: usize) -> Vec<(Vec<Token>, Vec<Token>)> {
        let pieces = pieces(&[&[1, 2, 3, 4, 5], &[], &[6], &[7, 8], &[10, 11, 12, 13]]);
        let cut = Cut::new(form, division, window);
        let all: Vec<_> = cut.chosen(&pieces, wanted).map(|(seen, next)| (seen.to_vec(), next.to_vec())).collect();
        assert_eq!(all.len(), cut.sequences(&pieces).min(wanted));
        all
    }

    #[test]
    fn windows_never_cross_units() {
        let windows = sequences(Form::Window, Division::Lines, 3, 100);
        let expected: [(&[Token], Token); 3] = [(&[1, 2, 3], 4), (&[2, 3, 4], 5), (&[10, 11, 12], 13)];
        assert!(windows.iter().map(|(seen, next)| (&seen[..], next[2])).eq(expected));
        let windows = sequences(Form::Window, Division::Documents, 2, 100);
        let expected: [(&[Token], Token); 3] = [(&[1, 2], 3), (&[3, 4], 5), (&[10, 11], 12)];
        assert!(windows.iter().map(|(seen, next)| (&seen[..], next[1])).eq(expected));
        assert!(sequences(Form::Window, Division::Lines, 5, 100).is_empty());
    }

    #[test]
    fn every_piece_but_the_first_is_asked_for_once() {
        let sequences = sequences(Form::Causal, Division::Lines, 3, 100);
        let expected: [(&[Token], &[Token]); 4] =
            [(&[1, 2, 3], &[2, 3, 4]), (&[4], &[5]), (&[7], &[8]), (&[10, 11, 12], &[11, 12, 13])];
        assert!(sequences.iter().map(|(seen, next)| (&seen[..], &next[..])).eq(expected));
    }

    #[test]
    fn fewer_sequences_are_spread_over_the_text() {
        let firsts = |wanted| -> Vec<Token> {
            sequences(Form::Window, Division::Lines, 1, wanted).iter().map(|(seen, _)| seen[0]).collect()
        };
        assert_eq!(firsts(100), [1, 2, 3, 4, 7, 10, 11, 12]);
        assert_eq!(firsts(4), [2, 4, 10, 12]);
        assert_eq!(firsts(3), [3, 10, 12]);
        assert_eq!(firsts(1), [12]);
        assert!(firsts(0).is_empty());
    }
}
