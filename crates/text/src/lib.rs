//! Texts to train on: from files to units, and from units to pieces. No Burn, and nothing about tasks.
//!
//! | to find | look in |
//! |---|---|
//! | files, documents, lines and sentences; how documents are split | [`corpus`] |
//! | tokenizers of Hugging Face and SentencePiece: reading, encoding | [`tokenizer`] |
//! | training a tokenizer | [`training`] |
//! | what can be wrong | [`error`] |
//!
//! Tokenizers are read and trained by code of this crate. The crate `tokenizers` would read more kinds, but it switches on features of
//! crates below Burn and brings 33 further crates. What is not supported is refused, so pieces are always those of the original.
//!
//! ```
//! use semfocus_text::{Kind, Tokenizer};
//!
//! let units = ["the cat and the hat".to_owned()];
//! let tokenizer = Tokenizer::train(Kind::Bpe, Some(13), &units)?;
//! assert_eq!(tokenizer.names()[9..], ["at", "he", "the", "▁the"].map(str::to_owned));
//! assert_eq!(tokenizer.encoder().encode("the cat"), [12, 8, 2, 9]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod corpus;
pub mod error;
pub mod tokenizer;
pub mod training;

use std::fs::File;
use std::path::Path;

pub use corpus::{Corpus, Division, Files};
pub use error::{MAX_PIECES, TextError};
use semfocus_core::file::{Links, open, read_from};
pub use tokenizer::{Encoder, Format, Tokenizer};
pub use training::Kind;

/// The contents of a file that a person names.
fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, TextError> {
    let read =
        open(path, File::options().read(true), Links::Followed).and_then(|mut file| read_from(&mut file, 0, limit));
    read.map_err(|error| TextError::io(path, error))
}
