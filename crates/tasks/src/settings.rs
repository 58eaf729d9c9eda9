//! Which settings of a data set go with a task.

use std::ops::RangeInclusive;

use semfocus_core::data::{DataSettings, Length, ListOps, MAX_EXAMPLES, MAX_LENGTH, Sizes};

use crate::generate::SplitName;
use crate::task::TaskInfo;

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum SettingsError {
    #[error("`{task}` needs sequences of at least {min} token{}, got length {length}", if *.min == 1 { "" } else { "s" })]
    TooShort { task: String, min: usize, length: Length },
    #[error("no length lies strictly between the bounds of `{length}`; `{task}` excludes both")]
    NothingBetween { task: String, length: Length },
    #[error("lengths go up to {MAX_LENGTH}, got {length}")]
    TooLong { length: Length },
    #[error("a ListOps expression has 1 token or at least 4, never {length}")]
    NoSuchExpression { length: Length },
    #[error("`{field}` must be {rule}, got {value}")]
    ListOps { field: &'static str, rule: &'static str, value: String },
    #[error("the {split} split can have at most {MAX_EXAMPLES} examples, got {size}")]
    TooMany { split: SplitName, size: usize },
}

impl SplitName {
    /// How many examples the split has.
    pub fn size_in(self, sizes: &Sizes) -> usize {
        match self {
            SplitName::Train => sizes.train,
            SplitName::HeldOut => sizes.held_out,
            SplitName::Test => sizes.test,
        }
    }
}

impl TaskInfo {
    /// The lengths of the sequences: those asked for, or the task's default.
    pub fn length_for(&self, settings: &DataSettings) -> Length {
        settings.length.unwrap_or(self.default_length)
    }

    /// Checks settings against the task and returns the lengths that its sequences may have.
    pub fn check(&self, settings: &DataSettings) -> Result<RangeInclusive<usize>, SettingsError> {
        for split in SplitName::ALL {
            let size = split.size_in(&settings.sizes);
            if size > MAX_EXAMPLES {
                return Err(SettingsError::TooMany { split, size });
            }
        }
        check_listops(&settings.listops)?;
        let length = self.length_for(settings);
        let lengths = self.lengths(length);
        let name = || self.name.to_owned();
        if length.width() > MAX_LENGTH {
            return Err(SettingsError::TooLong { length });
        }
        if lengths.is_empty() {
            return Err(SettingsError::NothingBetween { task: name(), length });
        }
        if *lengths.start() < self.min_length {
            return Err(SettingsError::TooShort { task: name(), min: self.min_length, length });
        }
        if self.name == crate::tasks::listops::INFO.name && *lengths.start() > 1 && *lengths.end() < 4 {
            return Err(SettingsError::NoSuchExpression { length });
        }
        Ok(lengths)
    }
}

fn check_listops(listops: &ListOps) -> Result<(), SettingsError> {
    let ListOps { max_depth, max_args, operator_probability } = *listops;
    let wrong = |field, rule, value| Err(SettingsError::ListOps { field, rule, value });
    if !(1..=100).contains(&max_depth) {
        return wrong("max_depth", "from 1 to 100", max_depth.to_string());
    }
    if !(2..=1000).contains(&max_args) {
        return wrong("max_args", "from 2 to 1000", max_args.to_string());
    }
    if !(0.0..=1.0).contains(&operator_probability) {
        return wrong("operator_probability", "from 0 to 1", operator_probability.to_string());
    }
    Ok(())
}
