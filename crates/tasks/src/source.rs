//! Where examples come from: a generated task, or data files of your own.

use std::path::Path;
use std::sync::Arc;

use semfocus_core::Fact;
use semfocus_core::data::{DataSettings, FileSet, Sizes};
use semfocus_core::spec::{Parts, SpecError};

use crate::generate::{Dataset, Examples, GenerateError};
use crate::lines::ReadError;
use crate::own::OwnData;
use crate::registry::Tasks;
use crate::split::Split;
use crate::task::{BuiltTask, Evaluator, Token, TrivialRule};
use crate::text::TextData;

/// A task or data files.
#[derive(Clone, Debug)]
pub enum Source {
    /// A task that generates its examples.
    Task(Arc<BuiltTask>),
    /// The contents of data files.
    Own(Arc<OwnData>),
    /// What the task `text` makes of a text.
    Text(Arc<TextData>),
}

/// Why there are no examples under a name.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The name is neither that of a task nor a path, or the task does not take these values.
    #[error("{0}{hint}", hint = if matches!(.0, SpecError::Unknown { .. }) { "; to use a data file, give its path" } else { "" })]
    Task(#[from] SpecError),
    /// A file cannot be read or used.
    #[error(transparent)]
    File(#[from] ReadError),
    /// There is a train file but no held-out file.
    #[error("`data.train_file` is set but `data.held_out_file` is not; both are needed")]
    NoHeldOutFile,
    /// There is a held-out or test file but no train file.
    #[error("`data.{0}` is set but `data.train_file` is not")]
    NoTrainFile(&'static str),
}

impl Source {
    /// Finds a task by its name, or reads data files.
    ///
    /// If `files` names a train file, the examples are those of the files, and `name` is whatever the data set is to be
    /// called; if empty, it is called like the train file. Otherwise `name` is that of a task or the path of a single data
    /// file, which is split.
    pub fn find(name: &str, tasks: &Tasks, files: &FileSet) -> Result<Self, SourceError> {
        match files {
            FileSet { train: Some(train), held_out: Some(held_out), test } => {
                let test = test.as_ref().map(Path::new);
                Ok(Source::Own(Arc::new(OwnData::read_files(name, Path::new(train), Path::new(held_out), test)?)))
            }
            FileSet { train: Some(_), held_out: None, .. } => Err(SourceError::NoHeldOutFile),
            FileSet { held_out: Some(_), .. } => Err(SourceError::NoTrainFile("held_out_file")),
            FileSet { test: Some(_), .. } => Err(SourceError::NoTrainFile("test_file")),
            FileSet { train: None, held_out: None, test: None } => Source::find_by_name(name, tasks),
        }
    }

    fn find_by_name(name: &str, tasks: &Tasks) -> Result<Self, SourceError> {
        let path = Path::new(name);
        // Values of a task may have a point in them.
        let is_task = tasks.get(Parts::new(name).name).is_some();
        let looks_like_a_path = path.exists() || (!is_task && name.contains(['/', '\\', '.']));
        match tasks.find(name) {
            Ok(task) => Ok(Source::Task(Arc::new(task))),
            Err(_) if looks_like_a_path => Ok(Source::Own(Arc::new(OwnData::read(path)?))),
            Err(error) => Err(error.into()),
        }
    }

    /// The sizes to use where none are asked for: all examples if every split has its file, otherwise the usual 5,000,
    /// 2,000 and 0.
    pub fn default_sizes(&self) -> Sizes {
        match self {
            Source::Own(own) => own.file_sizes().unwrap_or_default(),
            Source::Text(text) => text.all_sizes(),
            Source::Task(_) => Sizes::default(),
        }
    }

    /// The splits that a trial sees. They depend on `settings.seed` or, without it, on the trial's seed. With data files
    /// the sizes are upper limits.
    pub fn dataset(&self, settings: &DataSettings, trial_seed: u64) -> Result<Dataset, GenerateError> {
        match self {
            Source::Task(task) => Dataset::generate(task, settings, trial_seed),
            Source::Own(own) => Ok(own.dataset(settings, trial_seed)),
            Source::Text(text) => Ok(text.dataset(settings)),
        }
    }

    /// New training examples for a step of online training: see [`Examples::for_step`].
    ///
    /// # Errors
    /// If the examples come from a file, or the task fails to generate them.
    pub fn draw(
        &self,
        settings: &DataSettings,
        trial_seed: u64,
        step: u64,
        count: usize,
    ) -> Result<Split, GenerateError> {
        match self {
            Source::Task(task) => Examples::for_step(task, settings, trial_seed, step)?.take_split(count),
            Source::Own(own) => Err(GenerateError::NotGenerated { name: own.name.clone() }),
            Source::Text(text) => Err(GenerateError::NotGenerated { name: text.settings.spec.to_string() }),
        }
    }

    /// Whether its data sets have a [fact](Dataset::facts) about their splits.
    pub fn has(&self, fact: Fact) -> bool {
        match (fact, self) {
            (Fact::Unigram, _) => true,
            (Fact::Floor, Source::Task(task)) => task.task.evaluator() != Evaluator::Estimate,
            (Fact::Characters, source) => matches!(source, Source::Text(_)),
            (Fact::Floor, Source::Own(_) | Source::Text(_)) => false,
        }
    }

    /// Number of token ids, including the pad token.
    pub fn vocabulary(&self) -> usize {
        usize::from(self.pad()) + 1
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        match self {
            Source::Task(task) => task.classes.len(),
            Source::Own(own) => own.classes.len(),
            Source::Text(text) => text.names().len(),
        }
    }

    /// Id of the pad token.
    pub fn pad(&self) -> Token {
        match self {
            Source::Task(task) => task.pad(),
            Source::Own(own) => own.pad(),
            Source::Text(text) => text.pad(),
        }
    }

    /// The length to which every sequence is padded.
    pub fn length(&self, settings: &DataSettings) -> usize {
        match self {
            Source::Task(task) => task.length_for(settings).max(),
            Source::Own(own) => own.length(),
            Source::Text(text) => text.length(),
        }
    }

    /// Trivial rules of the task's own that an audit tries.
    pub fn trivial_rules(&self) -> Vec<TrivialRule> {
        match self {
            Source::Task(task) => task.task.trivial_rules(),
            Source::Own(_) | Source::Text(_) => Vec::new(),
        }
    }

    /// What a user should know about how data files were read.
    pub fn notes(&self) -> &[String] {
        match self {
            Source::Task(_) => &[],
            Source::Own(own) => own.notes(),
            Source::Text(text) => text.notes(),
        }
    }

    /// A checksum of the tokenizer, if there is one.
    pub fn tokenizer_checksum(&self) -> Option<u64> {
        match self {
            Source::Text(text) => Some(text.text.tokenizer.checksum()),
            Source::Task(_) | Source::Own(_) => None,
        }
    }

    /// A checksum of the contents of all data files; none for a task, which is determined by its name.
    pub fn checksum(&self) -> Option<u64> {
        match self {
            Source::Task(_) => None,
            Source::Own(own) => Some(own.checksum()),
            Source::Text(text) => Some(text.text.checksum()),
        }
    }
}
