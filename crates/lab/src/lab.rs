//! What a laboratory has: mechanisms and tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use semfocus_core::spec::Parts;
use semfocus_core::{DataSettings, FileSet, Names, Schedule, TrialSettings};
use semfocus_nn::{Attention, MechanismInfo, Registry, SpecError};
use semfocus_store::OwnProgram;
use semfocus_tasks::{Source, SourceError, TaskInfo, Tasks, TextSettings};

use crate::texts::Texts;
use crate::{AttentionError, TextSourceError, Tokenizers, TrialAttention};

/// The mechanisms and tasks that can be named. There is no global list: code that runs trials is given a value of this
/// type, and a program of your own adds its parts to the standard ones.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The mechanisms.
    pub mechanisms: Registry,
    /// The tasks.
    pub tasks: Tasks,
    /// The program, if it is not semfocus itself.
    pub program: Option<OwnProgram>,
    /// What does not come with semfocus, by kind and name, with its version if its author gives one.
    pub(crate) own: BTreeMap<(String, String), Option<String>>,
    texts: Texts,
}

/// Why a trial has no examples.
#[derive(Debug, thiserror::Error)]
pub enum NoExamples {
    /// There is no such task, or its data files cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The text of the task `text` cannot be used.
    #[error(transparent)]
    Text(#[from] TextSourceError),
}

/// Something that a laboratory can be extended with.
#[derive(Debug)]
pub enum Part {
    /// An attention mechanism.
    Mechanism(MechanismInfo),
    /// A task.
    Task(TaskInfo),
}

impl From<MechanismInfo> for Part {
    fn from(info: MechanismInfo) -> Self {
        Part::Mechanism(info)
    }
}

impl From<TaskInfo> for Part {
    fn from(info: TaskInfo) -> Self {
        Part::Task(info)
    }
}

impl Lab {
    /// The mechanisms and tasks that come with semfocus.
    pub fn standard() -> Self {
        Lab {
            mechanisms: Registry::standard(),
            tasks: Tasks::standard(),
            program: None,
            own: BTreeMap::new(),
            texts: Texts::default(),
        }
    }

    /// The same with one more mechanism or task. Its code is known by a hash of the whole program: when the program changes, trials
    /// with this part are not continued.
    ///
    /// # Panics
    /// If the name is taken or cannot be written in a spec.
    pub fn with(self, part: impl Into<Part>) -> Self {
        self.add(part.into(), None)
    }

    /// The same with one more mechanism or task, whose author vouches that all programs that call it by this version give the same
    /// results.
    ///
    /// # Panics
    /// If the name is taken or cannot be written in a spec.
    pub fn with_version(self, part: impl Into<Part>, version: &str) -> Self {
        self.add(part.into(), Some(version.to_owned()))
    }

    fn add(mut self, part: Part, version: Option<String>) -> Self {
        let key = match part {
            Part::Mechanism(info) => {
                let name = info.name;
                self.mechanisms = self.mechanisms.with(info);
                ("mechanism", name)
            }
            Part::Task(info) => {
                let name = info.name;
                self.tasks = self.tasks.with(info);
                ("task", name)
            }
        };
        self.own.insert((key.0.to_owned(), key.1.to_owned()), version);
        self
    }

    /// The mechanism that a text such as `topk:5` names.
    pub fn attention(&self, text: &str) -> Result<Attention, SpecError> {
        self.mechanisms.parse(text)
    }

    /// The attention of a trial: what each epoch is trained with, and what the model is evaluated with.
    pub fn trial_attention(&self, settings: &TrialSettings) -> Result<TrialAttention, AttentionError> {
        TrialAttention::new(settings, &self.mechanisms)
    }

    /// Where the examples of a trial come from. Each text is read once, also for many trials.
    pub fn source(&self, settings: &TrialSettings, tokenizers: &Tokenizers) -> Result<Source, NoExamples> {
        if TextSettings::is_named(&settings.task) {
            return Ok(Source::Text(Arc::new(self.texts.find(settings, tokenizers)?)));
        }
        Ok(Source::find(&settings.task, &self.tasks, &settings.data.files)?)
    }
}

impl Names for Lab {
    fn mechanism(&self, text: &str) -> Result<Schedule, String> {
        self.mechanisms.schedule(text).map_err(|error| error.to_string())
    }

    fn task(&self, text: &str) -> Option<String> {
        if TextSettings::is_named(text) {
            return Some(TextSettings::parse(text).map_or_else(|_| text.to_owned(), |values| values.spec.to_string()));
        }
        match self.tasks.find(text) {
            Ok(task) => Some(task.spec.to_string()),
            // Wrong values are explained when the trials are planned.
            Err(_) => self.tasks.get(Parts::new(text).name).map(|_| text.to_owned()),
        }
    }

    fn default_length(&self, task: &str) -> Option<String> {
        self.tasks.find(task).ok().map(|task| task.task.default_length().to_string())
    }

    fn longest_sequence(&self, file: &str) -> Result<Option<usize>, String> {
        let source = Source::find(file, &self.tasks, &FileSet::default()).map_err(|error| error.to_string())?;
        Ok(Some(source.length(&DataSettings::default())))
    }
}
