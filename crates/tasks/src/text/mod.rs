//! The task `text`: language models on a text of the user's own.
//!
//! | to find | look in |
//! |---|---|
//! | the values of the task | [`TextSettings`] |
//! | a text as pieces; how sequences are cut from them | `pieces.rs` |
//! | what is wrong with a text for a task; the splits of a trial | [`TextData`] |
//!
//! Files, sentences and tokenizers are in the crate `semfocus-text`; who reads a text once for many trials, and where the tokenizer of a
//! run is kept, in the crate `semfocus-lab`.

mod pieces;
mod settings;

use std::path::PathBuf;
use std::sync::Arc;

use semfocus_core::data::{DataSettings, FileSet, Sizes};
use semfocus_core::question::{Answers, At, Question, Target};
use semfocus_text::{Corpus, Division, Files, Kind, TextError, Tokenizer};

use crate::generate::Dataset;
use crate::split::{Split, SplitName};
use crate::task::{Token, label};
use pieces::Cut;
pub use pieces::Text;
pub use settings::{Form, TextInfo, TextSettings};

/// Why a text cannot be learned from.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum TextTaskError {
    #[error(
        "`text` needs a text of yours: any will do, such as -s data.train_file=train.txt -s data.held_out_file=held-out.txt; the study \
         took ptb.train.txt and ptb.valid.txt of Penn Treebank, which is licensed and does not come with this program (docs/text.md names \
         a free text)"
    )]
    NoFiles,
    #[error("`data.{0}` is set but `data.train_file` is not")]
    NoTrainFile(&'static str),
    #[error(
        "{0} looks like a file of labelled examples, and the task `text` reads plain text; if the data set is only called `text`, give it \
         another name with `task = \"…\"`"
    )]
    Labelled(String),
    #[error("`{given}` and `data.tokenizer_file` both say what cuts the text; give one of them")]
    TwoTokenizers { given: String },
    #[error("the {split} text says nothing that the training text does not: {}", if *.is_same { "they are the same" } else { "all of its parts occur there" })]
    NothingNew { split: SplitName, is_same: bool },
    #[error(
        "the tokenizer does not fit the text: it knows only {known:.0} % of the {split} pieces; take one that was made for such a text"
    )]
    Unfit { split: SplitName, known: f64 },
    #[error("the tokenizer makes no piece of the {0} text")]
    NoPieces(SplitName),
    #[error(
        "a window of {window} pieces is longer than the {split} text allows: the longest {unit} has {longest} pieces, and {needed} are \
         needed; give a smaller `window`, or divide the text in another way with `split`"
    )]
    TooShort { split: SplitName, window: usize, unit: &'static str, longest: usize, needed: usize },
    #[error(transparent)]
    Text(#[from] TextError),
}

impl TextSettings {
    /// The files of a text. A single one is divided by documents; which of them belong to train depends on `data.seed`, and never on the
    /// seed of a trial, because all trials share a tokenizer.
    ///
    /// # Errors
    /// If none is given, or they are not files of text.
    pub fn files(&self, data: &DataSettings) -> Result<Files, TextTaskError> {
        let FileSet { train, held_out, test } = &data.files;
        let labelled = |path: &&String| {
            let end = path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
            ["csv", "tsv", "jsonl", "ndjson"].contains(&end.as_str())
        };
        if let Some(path) = [train, held_out, test].into_iter().flatten().find(labelled) {
            return Err(TextTaskError::Labelled(path.clone()));
        }
        let path = |text: &String| PathBuf::from(text);
        match (train, held_out, test) {
            (None, None, None) => Err(TextTaskError::NoFiles),
            (None, Some(_), _) => Err(TextTaskError::NoTrainFile("held_out_file")),
            (None, None, Some(_)) => Err(TextTaskError::NoTrainFile("test_file")),
            (Some(train), None, None) => Ok(Files::Together(path(train), data.seed.unwrap_or(0))),
            (Some(train), held_out, test) => {
                Ok(Files::Separate([Some(path(train)), held_out.as_ref().map(path), test.as_ref().map(path)]))
            }
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// If it cannot be read, or held-out or test hold nothing but what is in train.
    pub fn read(&self, data: &DataSettings) -> Result<Corpus, TextTaskError> {
        let files = self.files(data)?;
        if matches!(files, Files::Separate([_, None, _])) {
            return Err(TextError::NoHeldOutFile.into());
        }
        let corpus = Corpus::read(&files, self.division)?;
        for split in [SplitName::HeldOut, SplitName::Test] {
            let [train, other] = [&corpus.units[0], &corpus.units[split as usize]];
            if !other.is_empty() && train == other {
                return Err(TextTaskError::NothingNew { split, is_same: true });
            }
        }
        Ok(corpus)
    }

    /// Whether its values say which tokenizer is trained.
    pub fn names_tokenizer(&self) -> bool {
        self.kind != Kind::Bpe || self.vocabulary.is_some()
    }

    /// Trains the tokenizer that these values ask for on the training text.
    pub fn train(&self, corpus: &Corpus) -> Result<Tokenizer, TextError> {
        Tokenizer::train(self.kind, self.vocabulary, &corpus.units[0])
    }

    /// What one part of the text is called that sequences never cross.
    fn unit(&self) -> &'static str {
        match self.division {
            Division::Lines => "line",
            Division::Sentences => "sentence",
            Division::Documents => "document",
        }
    }

    /// Pieces that the model sees: as many as asked for. Otherwise the integer part of the mean number of pieces of a training line or
    /// sentence, as in the study, and 64 in running text.
    fn window_for(&self, text: &Text) -> usize {
        const RUNNING: usize = 64;
        self.window.unwrap_or_else(|| match self.division {
            Division::Lines | Division::Sentences => text.split(SplitName::Train).mean().max(1),
            Division::Documents => RUNNING,
        })
    }
}

/// The examples that the task makes of a text.
#[derive(Clone, Debug)]
pub struct TextData {
    /// The values of the task.
    pub settings: TextSettings,
    /// The text.
    pub text: Arc<Text>,
    cut: Cut,
    is_divided: bool,
    names: Vec<String>,
    notes: Vec<String>,
}

impl TextData {
    /// The examples that a task makes of a text.
    ///
    /// # Errors
    /// If train or held-out would have none, or the tokenizer does not know the text.
    pub fn new(settings: TextSettings, text: Arc<Text>, files: &FileSet) -> Result<Self, TextTaskError> {
        let cut = Cut::new(settings.form, settings.division, settings.window_for(&text));
        let has_test = files.test.is_some();
        for split in SplitName::ALL.into_iter().filter(|split| *split != SplitName::Test || has_test) {
            let pieces = text.split(split);
            if pieces.len() == 0 {
                return Err(TextTaskError::NoPieces(split));
            }
            if pieces.unknown() > 0.5 {
                return Err(TextTaskError::Unfit { split, known: 100.0 * (1.0 - pieces.unknown()) });
            }
            if split != SplitName::Train && text.repeated(split) == pieces.units() {
                return Err(TextTaskError::NothingNew { split, is_same: false });
            }
            if cut.sequences(pieces) == 0 {
                let (unit, longest) = (settings.unit(), pieces.longest());
                let (window, needed) = (cut.window, cut.needed());
                return Err(TextTaskError::TooShort { split, window, unit, longest, needed });
            }
        }
        let mut data = TextData {
            names: text.tokenizer.readable_names(),
            is_divided: files.held_out.is_none(),
            notes: Vec::new(),
            settings,
            text,
            cut,
        };
        data.notes = data.describe();
        Ok(data)
    }

    /// What a user should know about the text, in words.
    fn describe(&self) -> Vec<String> {
        let TextData { settings, text, cut, .. } = self;
        let mut notes = Vec::new();
        let what = match settings.form {
            Form::Window => format!("windows of {} pieces, each with the piece that follows", cut.window),
            Form::Causal => format!("sequences of up to {} pieces, each with the piece that follows it", cut.window),
        };
        notes.push(format!("the text is cut into {} different pieces; the model sees {what}", self.names.len()));
        for split in SplitName::ALL {
            let pieces = text.split(split);
            if pieces.units() == 0 {
                continue;
            }
            let unknown = 100.0 * pieces.unknown();
            let mut note = format!(
                "{split}: {} {}s, {} pieces of {:.2} characters, {} {}",
                pieces.units(),
                settings.unit(),
                pieces.len(),
                pieces.characters().unwrap_or_default(),
                cut.sequences(pieces),
                if settings.form == Form::Window { "windows" } else { "sequences" },
            );
            if unknown > 0.0 {
                note += &format!("; {unknown:.2} % of the pieces are unknown to the tokenizer");
            }
            if split != SplitName::Train && text.repeated(split) > 0 {
                note += &format!("; {} {}s are in train too", text.repeated(split), settings.unit());
            }
            notes.push(note);
        }
        notes
    }

    /// What a user should know about the text, in words.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// How pieces are written, as people read them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The id of the pad token: the first one after the pieces.
    pub fn pad(&self) -> Token {
        self.names.len() as Token
    }

    /// Pieces that the model sees at most.
    pub fn length(&self) -> usize {
        self.cut.window
    }

    /// All sequences that the text makes. Of one text that is shared out, test is not used unless it is asked for.
    pub fn all_sizes(&self) -> Sizes {
        let [train, held_out, test] = SplitName::ALL.map(|split| self.cut.sequences(self.text.split(split)));
        Sizes { train, held_out, test: if self.is_divided { 0 } else { test } }
    }

    /// How many sequences the splits have if no more than these are asked for.
    pub fn sizes(&self, asked: &Sizes) -> Sizes {
        let size = |split: SplitName| split.size_in(asked).min(self.cut.sequences(self.text.split(split)));
        let [train, held_out, test] = SplitName::ALL.map(size);
        Sizes { train, held_out, test }
    }

    /// The pieces of a text, for a prediction of what follows.
    pub fn encode(&self, text: &str) -> Vec<Token> {
        self.text.tokenizer.encoder().encode(text)
    }

    /// The splits, in the order of the text. If fewer sequences are asked for than there are, they are evenly spread over it.
    pub fn dataset(&self, settings: &DataSettings) -> Dataset {
        let (length, classes, pad) = (self.length(), self.names.len(), self.pad());
        let split = |name: SplitName| {
            let (pieces, mut split) = (self.text.split(name), Split::new(length, classes));
            for (seen, next) in self.cut.chosen(pieces, name.size_in(&settings.sizes)) {
                let answers = match (self.settings.form, next) {
                    (Form::Window, [.., last]) => label(*last),
                    (_, next) => (0..).zip(next).map(at_token).collect::<Answers>(),
                };
                split.push(seen, &answers, pad);
            }
            split.characters = pieces.characters().filter(|_| !split.is_empty());
            split
        };
        let [train, held_out, test] = SplitName::ALL.map(split);
        Dataset {
            name: self.settings.spec.to_string(),
            vocabulary: classes + 1,
            classes,
            class_names: self.names.clone(),
            answers_are_drawn: true,
            is_generated: false,
            pad,
            length,
            train,
            held_out,
            test,
        }
    }
}

/// Which piece follows the token at a position?
fn at_token((position, next): (u32, &Token)) -> Question {
    Question { at: At::Token(position), target: Target::Class(*next), weight: 1.0 }
}
