//! Trains tokenizers. The same text gives the same bytes on every machine: one thread, sorted words, ties broken by ids. The result is a
//! `tokenizer.json` that the library of Hugging Face reads too.

mod merges;
mod unigram;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::error::{MAX_PIECES, TextError};
use crate::tokenizer::{Format, Tokenizer};

/// A kind of tokenizer that can be trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Byte-pair encoding over characters: the most frequent pair of neighbours becomes a piece, again and again.
    Bpe,
    /// The unigram model: pieces that make the text most probable if they are drawn independently of each other.
    Unigram,
    /// The most frequent words between blanks.
    Word,
    /// All characters.
    Char,
}

/// The piece for what is unknown: the first one of every trained tokenizer.
const UNKNOWN: &str = "<unk>";

/// What stands for the blank before a word.
const BLANK: char = '\u{2581}';

impl Kind {
    /// The kinds and how they are written.
    pub const NAMES: &'static [(&'static str, Kind)] =
        &[("bpe", Kind::Bpe), ("unigram", Kind::Unigram), ("word", Kind::Word), ("char", Kind::Char)];

    /// How it is written.
    pub fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The number of pieces unless another one is asked for; none for all that the text has.
    pub fn default_size(self) -> Option<usize> {
        match self {
            Kind::Bpe | Kind::Unigram => Some(4096),
            Kind::Word | Kind::Char => None,
        }
    }
}

impl Tokenizer {
    /// Trains a tokenizer with `size` pieces, the one for unknown characters or words included; without a size, with the usual number of
    /// its kind. The same units give the same contents everywhere, in whatever order they are.
    ///
    /// # Errors
    /// If the text does not have that many pieces, or has more characters than pieces were asked for.
    pub fn train(kind: Kind, size: Option<usize>, units: &[String]) -> Result<Self, TextError> {
        Tokenizer::parse("the trained tokenizer", train(kind, size, units)?, Format::Json)
    }
}

fn train(kind: Kind, size: Option<usize>, units: &[String]) -> Result<Vec<u8>, TextError> {
    let size = size.or(kind.default_size());
    if let Some(pieces) = size.filter(|size| *size > MAX_PIECES) {
        return Err(TextError::TooManyPieces { pieces, help: "give a smaller `vocabulary`" });
    }
    let model = match kind {
        Kind::Char => {
            let characters: BTreeSet<char> = units.iter().flat_map(|unit| unit.chars()).collect();
            let pieces = checked(kind, characters.into_iter().map(String::from).collect(), size)?;
            bpe(&pieces, &[])
        }
        Kind::Word => {
            let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
            units
                .iter()
                .flat_map(|unit| unit.split_whitespace())
                .for_each(|word| *counts.entry(word).or_default() += 1);
            counts.remove(UNKNOWN);
            let mut words: Vec<(&str, u64)> = counts.into_iter().collect();
            words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let pieces = checked(kind, words.into_iter().map(|(word, _)| word.to_owned()).collect(), size)?;
            json!({"type": "WordLevel", "vocab": numbered(&pieces), "unk_token": UNKNOWN})
        }
        Kind::Bpe | Kind::Unigram => {
            let words = words(units);
            let characters: BTreeSet<char> = words.keys().flat_map(|word| word.chars()).collect();
            let size = size.unwrap_or(MAX_PIECES);
            if characters.len() >= size {
                return Err(TextError::TooManyCharacters { characters: characters.len() });
            }
            if kind == Kind::Bpe {
                let (pieces, pairs) = merges::train(&words, &characters, size);
                let pieces = checked(kind, pieces.into_iter().skip(1).collect(), Some(size))?;
                bpe(&pieces, &pairs)
            } else {
                let scored = unigram::train(&words, &characters, size - 1);
                checked(kind, scored.iter().map(|(piece, _)| piece.clone()).collect(), Some(size))?;
                let vocabulary = std::iter::once((UNKNOWN.to_owned(), 0.0)).chain(scored);
                let vocabulary: Vec<Value> = vocabulary.map(|(piece, score)| json!([piece, score])).collect();
                json!({"type": "Unigram", "unk_id": 0, "vocab": vocabulary, "byte_fallback": false})
            }
        }
    };
    let words_with_blanks = json!({"type": "Sequence", "pretokenizers": [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": false},
    ]});
    let (cutter, decoder) = match kind {
        Kind::Char => (Value::Null, json!({"type": "Fuse"})),
        Kind::Word => (json!({"type": "WhitespaceSplit"}), Value::Null),
        Kind::Bpe | Kind::Unigram => (
            words_with_blanks,
            json!({"type": "Metaspace", "replacement": BLANK, "prepend_scheme": "always", "split": false}),
        ),
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": cutter, "post_processor": null, "decoder": decoder, "model": model,
    });
    let mut bytes = serde_json::to_vec_pretty(&tokenizer).expect("texts and numbers can be written");
    bytes.push(b'\n');
    Ok(bytes)
}

/// The pieces with the one for what is unknown before them: all, or as many as were asked for, if there are as many.
fn checked(kind: Kind, mut pieces: Vec<String>, size: Option<usize>) -> Result<Vec<String>, TextError> {
    pieces.insert(0, UNKNOWN.to_owned());
    match size {
        Some(asked) if asked > pieces.len() => {
            return Err(TextError::TooFewPieces { kind: kind.name(), asked, found: pieces.len() });
        }
        Some(asked) if kind == Kind::Char && asked < pieces.len() => {
            return Err(TextError::TooManyCharacters { characters: pieces.len() - 1 });
        }
        Some(asked) => pieces.truncate(asked),
        None if pieces.len() > MAX_PIECES => {
            let help = "give a smaller `vocabulary`, or take another `tokenizer`";
            return Err(TextError::TooManyPieces { pieces: pieces.len(), help });
        }
        None => {}
    }
    Ok(pieces)
}

/// The words between blanks, each with the sign for a blank before it, and how often they occur.
fn words(units: &[String]) -> BTreeMap<String, u64> {
    let mut plain: std::collections::HashMap<&str, u64> = std::collections::HashMap::new();
    units.iter().flat_map(|unit| unit.split_whitespace()).for_each(|word| *plain.entry(word).or_default() += 1);
    let with_blank = |word: &str| if word.starts_with(BLANK) { word.to_owned() } else { format!("{BLANK}{word}") };
    let mut words = BTreeMap::new();
    for (word, count) in plain {
        *words.entry(with_blank(word)).or_default() += count;
    }
    words
}

fn numbered(pieces: &[String]) -> Value {
    pieces
        .iter()
        .enumerate()
        .map(|(id, piece)| (piece.clone(), Value::from(id)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn bpe(pieces: &[String], merges: &[(String, String)]) -> Value {
    let merges: Vec<Value> = merges.iter().map(|(left, right)| json!([left, right])).collect();
    json!({
        "type": "BPE", "dropout": null, "unk_token": UNKNOWN, "continuing_subword_prefix": null, "end_of_word_suffix": null,
        "fuse_unk": false, "byte_fallback": false, "ignore_merges": false, "vocab": numbered(pieces), "merges": merges,
    })
}
