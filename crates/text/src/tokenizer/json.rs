//! Tokenizers in the format of Hugging Face: `tokenizer.json`. Whatever would give other pieces than the original is refused.

use std::collections::HashMap;

use regex::Regex;
use serde_json::Value;

use super::cut::Cutter;
use super::lattice::Lattice;
use super::merges::{Symbol, merge};
use super::normal::Normalizer;

/// A tokenizer that was read.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    added: Vec<Added>,
    normalizer: Option<Normalizer>,
    cutter: Option<Cutter>,
    model: Model,
    ids: HashMap<String, u32>,
    names: Vec<String>,
}

/// A token that stands for itself wherever it occurs.
#[derive(Clone, Debug)]
struct Added {
    text: String,
    id: u32,
    is_word: bool,
    takes_left: bool,
    takes_right: bool,
}

#[derive(Clone, Debug)]
enum Model {
    Bpe(Bpe),
    Unigram { lattice: Lattice, unknown: Option<u32>, has_bytes: bool },
    WordPiece { unknown: u32, prefix: String, longest: usize },
    Words { unknown: u32 },
}

#[derive(Clone, Debug)]
struct Bpe {
    /// Rank and result of a pair.
    merges: HashMap<(u32, u32), (u32, u32)>,
    unknown: Option<u32>,
    joins_unknown: bool,
    prefix: String,
    suffix: String,
    has_bytes: bool,
    takes_words: bool,
}

impl Pipeline {
    /// Reads the contents of a `tokenizer.json`.
    pub(crate) fn parse(contents: &[u8]) -> Result<Self, String> {
        let value: Value =
            serde_json::from_slice(contents).map_err(|error| format!("it is not valid JSON: {error}"))?;
        let model = value.get("model").filter(|model| model.is_object()).ok_or("it has no `model`")?;
        let kind = match model.get("type") {
            Some(_) => text(model, "type")?,
            // Older files leave it out where it shows.
            None if model.get("merges").is_some() => "BPE",
            None => return Err("its model has no `type`".to_owned()),
        };
        let mut ids = HashMap::new();
        let mut scores = Vec::new();
        if kind == "Unigram" {
            for (id, entry) in (0..).zip(model["vocab"].as_array().ok_or("its model has no `vocab`")?) {
                let (piece, score) = entry[0].as_str().zip(entry[1].as_f64()).ok_or("a piece has no text or score")?;
                ids.insert(piece.to_owned(), id);
                scores.push((piece.to_owned(), id, score));
            }
        } else {
            for (piece, id) in model["vocab"].as_object().ok_or("its model has no `vocab`")? {
                let id = id.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| *id < 1 << 24);
                ids.insert(piece.clone(), id.ok_or_else(|| format!("the id of `{piece}` is not a small number"))?);
            }
        }
        let model = match kind {
            "BPE" => Model::Bpe(Bpe::parse(model, &ids)?),
            "Unigram" => {
                let lowest = scores.iter().map(|(.., score)| *score).fold(f64::INFINITY, f64::min);
                let pieces = scores.iter().map(|(text, id, score)| (text.as_str(), *id, *score));
                let unknown = model["unk_id"].as_u64().and_then(|id| u32::try_from(id).ok());
                if unknown.is_some_and(|id| id as usize >= scores.len()) {
                    return Err("its `unk_id` is not the id of a piece".to_owned());
                }
                let lattice = Lattice::new(pieces, lowest, false);
                Model::Unigram { lattice, unknown, has_bytes: flag(model, "byte_fallback", false)? }
            }
            "WordPiece" => Model::WordPiece {
                unknown: unknown(model, &ids)?.ok_or("its model has no `unk_token`")?,
                prefix: model["continuing_subword_prefix"].as_str().unwrap_or("##").to_owned(),
                longest: model["max_input_chars_per_word"].as_u64().unwrap_or(100) as usize,
            },
            "WordLevel" => Model::Words { unknown: unknown(model, &ids)?.ok_or("its model has no `unk_token`")? },
            other => return refuse("model", other),
        };
        let added = match value.get("added_tokens") {
            None | Some(Value::Null) => Vec::new(),
            Some(_) => list(&value, "added_tokens", |token| Added::parse(token).map(Some))?,
        };
        let mut added: Vec<Added> = added.into_iter().filter(|token| !token.text.is_empty()).collect();
        for token in &added {
            ids.insert(token.text.clone(), token.id);
        }
        added.sort_by_key(|token| std::cmp::Reverse(token.text.len()));
        let count = ids.values().max().map_or(0, |id| *id as usize + 1);
        if ids.is_empty() || count > 1 << 24 {
            return Err("it has no pieces".to_owned());
        }
        let mut names = vec![String::new(); count];
        for (piece, &id) in &ids {
            names[id as usize].clone_from(piece);
        }
        let normalizer = Normalizer::parse(&value["normalizer"])?;
        let cutter = Cutter::parse(&value["pre_tokenizer"])?;
        Ok(Pipeline { added, normalizer, cutter, model, ids, names })
    }

    /// How each piece is written.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// The piece for what it does not know.
    pub(crate) fn unknown(&self) -> Option<u32> {
        match &self.model {
            Model::Bpe(bpe) => bpe.unknown,
            Model::Unigram { unknown, .. } => *unknown,
            Model::WordPiece { unknown, .. } | Model::Words { unknown } => Some(*unknown),
        }
    }

    /// The pieces of a text. Parts that were seen before are looked up in `known`.
    pub(crate) fn encode(&self, text: &str, known: &mut HashMap<String, Vec<u32>>, ids: &mut Vec<u32>) {
        let mut rest = text;
        while !rest.is_empty() {
            let (plain, token, after) = self.next_added(text, rest);
            if !plain.is_empty() {
                let is_start = plain.as_ptr() == text.as_ptr();
                self.encode_plain(plain, is_start, known, ids);
            }
            ids.extend(token);
            rest = after;
        }
    }

    /// The text before the next added token, the token, and the text after it.
    fn next_added<'a>(&self, text: &'a str, rest: &'a str) -> (&'a str, Option<u32>, &'a str) {
        let offset = rest.as_ptr() as usize - text.as_ptr() as usize;
        let is_word_character = |character: char| character.is_alphanumeric() || character == '_';
        let stands_alone = |start: usize, end: usize| {
            !text[..start].ends_with(is_word_character) && !text[end..].starts_with(is_word_character)
        };
        let mut first: Option<(usize, &Added)> = None;
        for token in &self.added {
            let mut places = rest.match_indices(&token.text).map(|(at, _)| at);
            let place = places.find(|at| !token.is_word || stands_alone(offset + at, offset + at + token.text.len()));
            if let Some(place) = place
                && first.is_none_or(|(known, _)| place < known)
            {
                first = Some((place, token));
            }
        }
        let Some((at, token)) = first else { return (rest, None, "") };
        let (mut plain, mut after) = (&rest[..at], &rest[at + token.text.len()..]);
        if token.takes_left {
            plain = plain.trim_end();
        }
        if token.takes_right {
            after = after.trim_start();
        }
        (plain, Some(token.id), after)
    }

    fn encode_plain(&self, text: &str, is_start: bool, known: &mut HashMap<String, Vec<u32>>, ids: &mut Vec<u32>) {
        let text = self.normalizer.as_ref().map_or_else(|| text.to_owned(), |steps| steps.apply(text.to_owned()));
        let Some(cutter) = &self.cutter else {
            self.model.encode(&text, &self.ids, ids);
            return;
        };
        for part in cutter.apply(vec![text], is_start) {
            match known.get(&part) {
                Some(pieces) => ids.extend(pieces),
                None => {
                    let from = ids.len();
                    self.model.encode(&part, &self.ids, ids);
                    known.insert(part, ids[from..].to_vec());
                }
            }
        }
    }
}

impl Added {
    fn parse(value: &Value) -> Result<Self, String> {
        let id = value["id"].as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| *id < 1 << 24);
        Ok(Added {
            text: text(value, "content")?.to_owned(),
            id: id.ok_or("an added token has no id")?,
            is_word: flag(value, "single_word", false)?,
            takes_left: flag(value, "lstrip", false)?,
            takes_right: flag(value, "rstrip", false)?,
        })
    }
}

impl Bpe {
    fn parse(model: &Value, ids: &HashMap<String, u32>) -> Result<Self, String> {
        if model["dropout"].as_f64().is_some_and(|dropout| dropout > 0.0) {
            return Err("its model has dropout, which would give other pieces every time".to_owned());
        }
        let word = |key: &str| model[key].as_str().unwrap_or("").to_owned();
        let (prefix, suffix) = (word("continuing_subword_prefix"), word("end_of_word_suffix"));
        let mut merges = HashMap::new();
        for (rank, pair) in (0..).zip(model["merges"].as_array().ok_or("its model has no `merges`")?) {
            let (left, right) = match pair {
                Value::String(pair) => pair.split_once(' ').ok_or_else(|| format!("the merge `{pair}` is no pair"))?,
                pair => pair[0].as_str().zip(pair[1].as_str()).ok_or("a merge is no pair")?,
            };
            let id = |piece: &str| {
                ids.get(piece).copied().ok_or_else(|| format!("a merge needs `{piece}`, which is no piece"))
            };
            let merged = format!("{left}{}", right.strip_prefix(&prefix).unwrap_or(right));
            merges.insert((id(left)?, id(right)?), (rank, id(&merged)?));
        }
        Ok(Bpe {
            merges,
            unknown: unknown(model, ids)?,
            joins_unknown: flag(model, "fuse_unk", false)?,
            prefix,
            suffix,
            has_bytes: flag(model, "byte_fallback", false)?,
            takes_words: flag(model, "ignore_merges", false)?,
        })
    }

    fn encode(&self, text: &str, ids: &HashMap<String, u32>, out: &mut Vec<u32>) {
        if let Some(id) = ids.get(text).filter(|_| self.takes_words) {
            out.push(*id);
            return;
        }
        let mut symbols: Vec<Symbol> = Vec::new();
        let (mut was_unknown, mut written) = (false, String::new());
        for (start, character) in text.char_indices() {
            let end = start + character.len_utf8();
            written.clear();
            if start > 0 {
                written.push_str(&self.prefix);
            }
            written.push(character);
            if end == text.len() {
                written.push_str(&self.suffix);
            }
            let is_known = match ids.get(&written) {
                Some(&id) => {
                    symbols.push(Symbol { start, end, id: Some(id) });
                    true
                }
                None => match bytes_of(&written, ids).filter(|_| self.has_bytes) {
                    Some(bytes) => {
                        symbols.extend(bytes.into_iter().map(|id| Symbol { start, end, id: Some(id) }));
                        true
                    }
                    None => {
                        if let Some(id) = self.unknown.filter(|_| !(was_unknown && self.joins_unknown)) {
                            symbols.push(Symbol { start, end, id: Some(id) });
                        }
                        false
                    }
                },
            };
            was_unknown = !is_known;
        }
        merge(&mut symbols, |left, right| self.merges.get(&(left.id?, right.id?)).copied());
        out.extend(symbols.iter().filter_map(|symbol| symbol.id));
    }
}

impl Model {
    fn encode(&self, text: &str, ids: &HashMap<String, u32>, out: &mut Vec<u32>) {
        match self {
            Model::Bpe(bpe) => bpe.encode(text, ids, out),
            Model::Words { unknown } => out.push(ids.get(text).copied().unwrap_or(*unknown)),
            Model::WordPiece { unknown, prefix, longest } => {
                let from = out.len();
                let mut rest = text;
                while !rest.is_empty() && text.chars().count() <= *longest {
                    let start = if rest.len() == text.len() { "" } else { prefix };
                    let ends = rest.char_indices().map(|(at, character)| at + character.len_utf8()).rev();
                    let found = ends
                        .map(|end| (end, ids.get(&format!("{start}{}", &rest[..end]))))
                        .find(|(_, id)| id.is_some());
                    let Some((end, Some(&id))) = found else { break };
                    out.push(id);
                    rest = &rest[end..];
                }
                if !rest.is_empty() {
                    out.truncate(from);
                    out.push(*unknown);
                }
            }
            Model::Unigram { lattice, unknown, has_bytes } => {
                let mut pending: Option<(usize, usize)> = None;
                let finish = |pending: &mut Option<(usize, usize)>, out: &mut Vec<u32>| {
                    let Some((start, end)) = pending.take() else { return };
                    match bytes_of(&text[start..end], ids).filter(|_| *has_bytes) {
                        Some(bytes) => out.extend(bytes),
                        None => out.extend(*unknown),
                    }
                };
                for part in lattice.best(text) {
                    match part.id.filter(|id| Some(*id) != *unknown) {
                        None => pending = Some((pending.map_or(part.start, |(start, _)| start), part.end)),
                        Some(id) => {
                            finish(&mut pending, out);
                            out.push(id);
                        }
                    }
                }
                finish(&mut pending, out);
            }
        }
    }
}

/// The pieces that stand for the bytes of a text, if all of them are there.
fn bytes_of(text: &str, ids: &HashMap<String, u32>) -> Option<Vec<u32>> {
    text.bytes().map(|byte| ids.get(&format!("<0x{byte:02X}>")).copied()).collect()
}

fn unknown(model: &Value, ids: &HashMap<String, u32>) -> Result<Option<u32>, String> {
    let Some(piece) = model["unk_token"].as_str() else { return Ok(None) };
    ids.get(piece)
        .copied()
        .map(Some)
        .ok_or_else(|| format!("its piece for what is unknown, `{piece}`, is not in its `vocab`"))
}

/// The text at a key.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> Result<&'a str, String> {
    value[key].as_str().ok_or_else(|| format!("it has no text at `{key}`"))
}

/// The flag at a key.
pub(super) fn flag(value: &Value, key: &str, default: bool) -> Result<bool, String> {
    match &value[key] {
        Value::Null => Ok(default),
        value => value.as_bool().ok_or_else(|| format!("`{key}` is neither true nor false")),
    }
}

/// The entries of the list at a key.
pub(super) fn list<T>(
    value: &Value,
    key: &str,
    read: impl Fn(&Value) -> Result<Option<T>, String>,
) -> Result<Vec<T>, String> {
    let entries = value[key].as_array().ok_or_else(|| format!("it has no list at `{key}`"))?;
    Ok(entries.iter().map(read).collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// The pattern of a step: a text, or a regular expression.
pub(super) fn pattern(value: &Value) -> Result<Regex, String> {
    let pattern = &value["pattern"];
    let written = match (pattern["String"].as_str(), pattern["Regex"].as_str()) {
        (Some(plain), _) => regex::escape(plain),
        (None, Some(pattern)) => pattern.to_owned(),
        (None, None) => return Err("a step has no pattern".to_owned()),
    };
    Regex::new(&written).map_err(|error| format!("its pattern `{written}` is not supported: {error}"))
}

pub(super) fn refuse<T>(what: &str, kind: &str) -> Result<T, String> {
    Err(format!("its {what} `{kind}` is not supported"))
}
