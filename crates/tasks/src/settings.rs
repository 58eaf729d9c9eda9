//! Which settings of a data set go with a task.

use semfocus_core::data::{DataSettings, Length, MAX_EXAMPLES, MAX_LENGTH};

use crate::split::SplitName;
use crate::task::{BuiltTask, Lengths};

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum SettingsError {
    #[error("`{task}` needs sequences of at least {min} token{}, got length {length}", if *.min == 1 { "" } else { "s" })]
    TooShort { task: String, min: usize, length: Length },
    #[error("lengths go up to {MAX_LENGTH}, got {length}")]
    TooLong { length: Length },
    #[error("{0}")]
    Lengths(String),
    #[error("the {split} split can have at most {MAX_EXAMPLES} examples, got {size}")]
    TooMany { split: SplitName, size: usize },
}

impl BuiltTask {
    /// The lengths of the sequences: those asked for, or the task's default.
    pub fn length_for(&self, settings: &DataSettings) -> Length {
        settings.length.unwrap_or_else(|| self.task.default_length())
    }

    /// Checks settings against the task and returns the lengths that its sequences may have.
    pub fn check(&self, settings: &DataSettings) -> Result<Lengths, SettingsError> {
        for split in SplitName::ALL {
            let size = split.size_in(&settings.sizes);
            if size > MAX_EXAMPLES {
                return Err(SettingsError::TooMany { split, size });
            }
        }
        let (length, min) = (self.length_for(settings), self.task.min_length());
        if length.max() > MAX_LENGTH {
            return Err(SettingsError::TooLong { length });
        }
        let lengths = self.task.lengths(length).map_err(SettingsError::Lengths)?;
        if *lengths.start() < min {
            return Err(SettingsError::TooShort { task: self.spec.to_string(), min, length });
        }
        Ok(lengths)
    }
}
