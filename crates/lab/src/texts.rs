//! Texts and their tokenizers: each is read once in a process, and a tokenizer is made once for a run.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use semfocus_core::{TrialSettings, fnv_1a};
use semfocus_store::{Store, StoreError, StoredTokenizer};
use semfocus_tasks::text::TextTaskError;
use semfocus_tasks::{Text, TextData, TextSettings};
use semfocus_text::{Corpus, Format, TextError, Tokenizer};

/// Where the tokenizers of a run come from.
#[derive(Clone, Debug)]
pub enum Tokenizers {
    /// They are made: nothing is kept anywhere.
    New,
    /// Those that a run keeps, and what it does not have is made: for whoever prepares a run.
    Prepared(Store),
    /// Those that a run keeps, and no others: for whoever works on it.
    Kept(Store),
}

/// Why a text cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TextSourceError {
    /// The task does not take these values.
    #[error(transparent)]
    Spec(#[from] semfocus_nn::SpecError),
    /// The text or its tokenizer cannot be used.
    #[error(transparent)]
    Task(#[from] TextTaskError),
    /// The run cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A run without the tokenizer of its trials.
    #[error(
        "{dir} has no tokenizer for this text: its files have changed, or the tokenizer is lost\nhelp: `semfocus run {dir}` tells more"
    )]
    NotKept {
        /// The folder of the run.
        dir: String,
    },
    /// The run was prepared with another tokenizer.
    #[error(
        "{file} is not the tokenizer with which {dir} was prepared: its checksum is {here:016x}, and that of the run's copy {kept:016x}"
    )]
    Other {
        /// The file.
        file: String,
        /// The folder of the run.
        dir: String,
        /// The checksum of the file.
        here: u64,
        /// The checksum of the copy.
        kept: u64,
    },
}

impl From<TextError> for TextSourceError {
    fn from(error: TextError) -> Self {
        TextSourceError::Task(error.into())
    }
}

/// The texts that were read in this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts(Arc<Mutex<HashMap<String, Arc<Text>>>>);

impl Texts {
    /// The examples of the task `text` with these settings.
    pub(crate) fn find(&self, settings: &TrialSettings, tokenizers: &Tokenizers) -> Result<TextData, TextSourceError> {
        let TrialSettings { task, data, tokenizer_checksum, .. } = settings;
        let values = TextSettings::parse(task)?;
        let given = data.tokenizer_file.as_deref();
        if given.is_some() && values.names_tokenizer() {
            return Err(TextTaskError::TwoTokenizers { given: task.clone() }.into());
        }
        let files = values.files(data)?;
        let cutter = match (tokenizer_checksum, given) {
            (Some(checksum), _) => checksum.clone(),
            (None, Some(file)) => format!("{file} {tokenizers:?}"),
            (None, None) => format!("{:?} {:?} {tokenizers:?}", values.kind, values.vocabulary),
        };
        let key = format!("{files:?} {:?} {cutter}", values.division);
        // Whoever asks for the same text meanwhile waits for it.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = match known.get(&key) {
            Some(text) => text.clone(),
            None => {
                let corpus = values.read(data)?;
                let tokenizer = tokenizer(&values, settings, &corpus, tokenizers)?;
                known.entry(key).or_insert(Arc::new(Text::new(&corpus, tokenizer))).clone()
            }
        };
        Ok(TextData::new(values, text, &data.files)?)
    }
}

/// The tokenizer of a text.
fn tokenizer(
    values: &TextSettings,
    settings: &TrialSettings,
    corpus: &Corpus,
    tokenizers: &Tokenizers,
) -> Result<Tokenizer, TextSourceError> {
    let given = settings.data.tokenizer_file.as_deref();
    let make = || match given {
        Some(file) => Tokenizer::read(Path::new(file)),
        None => values.train(corpus),
    };
    let (store, may_make) = match tokenizers {
        Tokenizers::New => return Ok(make()?),
        Tokenizers::Prepared(store) => (store, true),
        Tokenizers::Kept(store) => (store, false),
    };
    let checksum = settings.tokenizer_checksum.as_ref().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let kept = match checksum {
        Some(checksum) => store.tokenizer_with(checksum),
        None => store.tokenizer_for(key(values, given, corpus.train_checksum())),
    };
    let dir = || store.dir().display().to_string();
    match kept {
        Ok(Some(kept)) => {
            let here = given.and_then(|file| Some((file, Tokenizer::read(Path::new(file)).ok()?)));
            match here.filter(|(_, here)| here.checksum() != kept.checksum) {
                Some((file, here)) => {
                    let (file, here) = (file.to_owned(), here.checksum());
                    Err(TextSourceError::Other { file, dir: dir(), here, kept: kept.checksum })
                }
                None => Ok(parse(kept)?),
            }
        }
        Ok(None) if !may_make => Err(TextSourceError::NotKept { dir: dir() }),
        // A damaged copy is written again.
        Err(error) if !(may_make && matches!(error, StoreError::Damaged { .. })) => Err(error.into()),
        Ok(None) | Err(_) => Ok(make()?),
    }
}

fn parse(kept: StoredTokenizer) -> Result<Tokenizer, TextError> {
    let format = if kept.extension == Format::Json.extension() { Format::Json } else { Format::SentencePiece };
    Tokenizer::parse("the tokenizer of the run", kept.contents, format)
}

/// What the tokenizer of a run is known by: the file that was named, or the training text and what was asked for.
pub(crate) fn key(values: &TextSettings, given: Option<&str>, train_checksum: u64) -> u64 {
    let what = match given {
        Some(file) => format!("file {file}"),
        None => format!("{} {:?} {train_checksum:016x}", values.kind.name(), values.vocabulary),
    };
    fnv_1a(what.bytes())
}
