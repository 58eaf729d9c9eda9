//! What can be wrong with a text or a tokenizer.

use std::io;
use std::path::Path;

/// The number of pieces that a vocabulary can have: tokens have two bytes, and one id is left for padding.
pub const MAX_PIECES: usize = 65_535;

/// Why there is no text, or no tokenizer.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum TextError {
    #[error("cannot read {file}: {error}")]
    Io { file: String, error: io::Error },
    #[error(
        "{file}, line {line}: byte {byte} of the file (0x{value:02x}) is not UTF-8 text; convert the file to UTF-8"
    )]
    NotUtf8 { file: String, line: usize, byte: usize, value: u8 },
    #[error("{file} holds no text")]
    Empty { file: String },
    #[error("`data.test_file` is set but `data.held_out_file` is not")]
    NoHeldOutFile,
    #[error("{folder} is a folder without .txt files")]
    NoFiles { folder: String },
    #[error(
        "{file} is one document, which cannot be split; give a folder with several .txt files, a file with blank lines between \
         its documents, or `data.train_file` and `data.held_out_file`"
    )]
    OneDocument { file: String },
    #[error(
        "{file} has {documents} documents, and none of them belongs to the {split} split; give more documents, or \
         `data.train_file` and `data.held_out_file`"
    )]
    NoDocument { file: String, documents: usize, split: &'static str },
    #[error(
        "a vocabulary of {asked} pieces is larger than the text allows: `{kind}` finds {found}; write `vocabulary={found}` or less, \
         as in `text:vocabulary={found}`"
    )]
    TooFewPieces { kind: &'static str, asked: usize, found: usize },
    #[error(
        "the text has {characters} different characters, and with <unk> each needs a piece of its own; write \
         `vocabulary={0}` or more, as in `text:vocabulary={0}`", .characters + 1
    )]
    TooManyCharacters { characters: usize },
    #[error(
        "the vocabulary has {pieces} pieces, and at most {MAX_PIECES} are possible because tokens and labels have two bytes; {help}"
    )]
    TooManyPieces { pieces: usize, help: &'static str },
    #[error("{file} is not a tokenizer that can be read: {reason}")]
    Tokenizer { file: String, reason: String },
    #[error("{file} ends in neither .model (SentencePiece) nor .json (Hugging Face)")]
    UnknownFormat { file: String },
}

impl TextError {
    pub(crate) fn io(file: &Path, error: io::Error) -> Self {
        TextError::Io { file: file.display().to_string(), error }
    }
}
