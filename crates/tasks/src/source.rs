//! Where examples come from: a task of the registry, or a file of your own.

use std::path::Path;

use crate::generate::{Dataset, GenerateError};
use crate::lines::ReadError;
use crate::own::OwnData;
use crate::registry::{Registry, TaskInfo, Token, UnknownTask};
use crate::settings::Settings;

/// A task or a file.
#[derive(Clone, Debug)]
pub enum Source {
    /// A task of the registry.
    Task(Box<TaskInfo>),
    /// The contents of a data file.
    Own(OwnData),
}

/// Why a name stands for no source.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// Neither a task nor a path.
    #[error(transparent)]
    Unknown(#[from] UnknownTask),
    /// A path whose file is no data file.
    #[error(transparent)]
    File(#[from] ReadError),
}

impl Source {
    /// A task of the registry, or the file at a path.
    pub fn find(name: &str) -> Result<Self, SourceError> {
        let path = Path::new(name);
        let looks_like_a_path = name.contains(['/', '\\', '.']) || path.exists();
        match Registry::standard().find(name) {
            Ok(task) => Ok(Source::Task(Box::new(task.clone()))),
            Err(_) if looks_like_a_path => Ok(Source::Own(OwnData::read(path)?)),
            Err(error) => Err(error.into()),
        }
    }

    /// The splits under a seed.
    pub fn dataset(&self, settings: &Settings, seed: u64) -> Result<Dataset, GenerateError> {
        match self {
            Source::Task(task) => Dataset::generate(task, settings, seed),
            Source::Own(own) => Ok(own.dataset(&settings.sizes, seed)),
        }
    }

    /// Number of token ids, the pad token included.
    pub fn vocabulary(&self) -> usize {
        usize::from(self.pad()) + 1
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        match self {
            Source::Task(task) => task.classes.len(),
            Source::Own(own) => own.classes.len(),
        }
    }

    /// Id of the pad token.
    pub fn pad(&self) -> Token {
        match self {
            Source::Task(task) => task.pad(),
            Source::Own(own) => own.pad(),
        }
    }

    /// Tokens of an example with its padding.
    pub fn width(&self, settings: &Settings) -> usize {
        match self {
            Source::Task(task) => settings.length_for(task).width(),
            Source::Own(own) => own.width(),
        }
    }

    /// A number that stands for the contents of a file; none for a task, whose name says it all.
    pub fn checksum(&self) -> Option<u64> {
        match self {
            Source::Task(_) => None,
            Source::Own(own) => Some(own.checksum()),
        }
    }
}
