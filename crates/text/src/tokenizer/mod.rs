//! Tokenizers: from a text to pieces.

mod charsmap;
mod cut;
mod json;
mod lattice;
mod merges;
mod normal;
mod protobuf;
mod sentencepiece;

use std::collections::HashMap;
use std::path::Path;

use semfocus_core::fnv_1a;

use crate::error::{MAX_PIECES, TextError};
use json::Pipeline;
pub(crate) use lattice::Trie;
use sentencepiece::SentencePiece;

/// Bytes of the largest tokenizer that is read.
const MAX_BYTES: u64 = 256 << 20;

/// The format of a tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `tokenizer.json` of Hugging Face; trained tokenizers have it too.
    Json,
    /// A `.model` of SentencePiece.
    SentencePiece,
}

/// A tokenizer.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    contents: Vec<u8>,
    names: Vec<String>,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Json(Box<Pipeline>),
    SentencePiece(Box<SentencePiece>),
}

impl Format {
    /// The end of the name of such a file.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::SentencePiece => "model",
        }
    }

    /// The format that the end of a file's name says.
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "model" => Some(Format::SentencePiece),
            "json" => Some(Format::Json),
            _ => None,
        }
    }
}

impl Tokenizer {
    /// Reads a tokenizer that somebody else trained.
    pub fn read(path: &Path) -> Result<Self, TextError> {
        let file = path.display().to_string();
        let format = Format::of(path).ok_or_else(|| TextError::UnknownFormat { file: file.clone() })?;
        Tokenizer::parse(&file, crate::read_file(path, MAX_BYTES)?, format)
    }

    /// Reads the contents of a file.
    pub fn parse(file: &str, contents: Vec<u8>, format: Format) -> Result<Self, TextError> {
        let wrong = |reason| TextError::Tokenizer { file: file.to_owned(), reason };
        let (names, form) = match format {
            Format::Json => {
                let pipeline = Pipeline::parse(&contents).map_err(wrong)?;
                (pipeline.names(), Form::Json(Box::new(pipeline)))
            }
            Format::SentencePiece => {
                let model = SentencePiece::parse(&contents).map_err(wrong)?;
                (model.names(), Form::SentencePiece(Box::new(model)))
            }
        };
        if names.len() > MAX_PIECES {
            let help = "take a tokenizer with fewer pieces, or let the task `text` train one";
            return Err(TextError::TooManyPieces { pieces: names.len(), help });
        }
        Ok(Tokenizer { contents, names, form })
    }

    /// The contents of its file.
    pub fn contents(&self) -> &[u8] {
        &self.contents
    }

    /// FNV-1a of the contents of its file.
    pub fn checksum(&self) -> u64 {
        fnv_1a(self.contents.iter().copied())
    }

    /// How its pieces are written; the id of a piece is its place.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The piece for what it does not know, if it has one.
    pub fn unknown(&self) -> Option<u16> {
        let id = match &self.form {
            Form::Json(pipeline) => pipeline.unknown(),
            Form::SentencePiece(model) => Some(model.unknown()),
        };
        id.and_then(|id| u16::try_from(id).ok())
    }

    /// The format of its file.
    pub fn format(&self) -> Format {
        match &self.form {
            Form::Json(_) => Format::Json,
            Form::SentencePiece(_) => Format::SentencePiece,
        }
    }

    /// An encoder, which remembers words that it has seen.
    pub fn encoder(&self) -> Encoder<'_> {
        Encoder { tokenizer: self, known: HashMap::new(), ids: Vec::new() }
    }

    /// The pieces as people read them: without blanks, and bytes as characters where they make some.
    pub fn readable_names(&self) -> Vec<String> {
        let characters: HashMap<char, u8> = (0..=255).map(|byte| (cut::byte_character(byte), byte)).collect();
        // Only a tokenizer of bytes has a piece for a blank that is written so.
        let has_bytes =
            self.names.iter().any(|name| name == "\u{120}") && self.names.iter().all(|name| !name.contains(' '));
        let readable = |name: &String| {
            let bytes: Option<Vec<u8>> = name.chars().map(|character| characters.get(&character).copied()).collect();
            let text = bytes.filter(|_| has_bytes).and_then(|bytes| String::from_utf8(bytes).ok());
            let visible = |character: char| match character {
                ' ' => "\u{2581}".to_owned(),
                character if character.is_whitespace() || character.is_control() => {
                    character.escape_default().to_string()
                }
                character => character.to_string(),
            };
            text.as_ref().unwrap_or(name).chars().map(visible).collect()
        };
        self.names.iter().map(readable).collect()
    }
}

/// Encodes texts.
#[derive(Debug)]
pub struct Encoder<'a> {
    tokenizer: &'a Tokenizer,
    known: HashMap<String, Vec<u32>>,
    ids: Vec<u32>,
}

impl Encoder<'_> {
    /// The pieces of a text.
    pub fn encode(&mut self, text: &str) -> Vec<u16> {
        self.ids.clear();
        match &self.tokenizer.form {
            Form::Json(pipeline) => pipeline.encode(text, &mut self.known, &mut self.ids),
            Form::SentencePiece(model) => model.encode(text, &mut self.ids),
        }
        self.ids.iter().map(|&id| u16::try_from(id).expect("there are at most MAX_PIECES pieces")).collect()
    }
}
