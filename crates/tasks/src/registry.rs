//! The list of tasks, and how `listops:depth=5` becomes one. Help texts, `semfocus list tasks` and tests are generated from it.

use semfocus_core::spec::{Named, SpecError, Table};

use crate::task::{BuiltTask, TaskInfo};
use crate::tasks;

/// The tasks that can be named.
#[derive(Clone, Debug)]
pub struct Tasks(Table<TaskInfo>);

impl Tasks {
    /// The tasks of this crate.
    pub fn standard() -> Self {
        Tasks(Table::new(tasks::all()))
    }

    /// The same with one more task, for instance one defined in another crate.
    ///
    /// # Panics
    /// If the name is taken, or it or a key contains anything but lower-case letters, digits and hyphens.
    pub fn with(self, info: TaskInfo) -> Self {
        Tasks(self.0.with(info))
    }

    /// The entries, in the order in which they are listed.
    pub fn iter(&self) -> impl Iterator<Item = &TaskInfo> {
        self.0.iter()
    }

    /// The entry of this name.
    pub fn get(&self, name: &str) -> Option<&TaskInfo> {
        self.0.get(name)
    }

    /// Builds the task that a text such as `parity` or `listops:depth=5` names.
    pub fn find(&self, text: &str) -> Result<BuiltTask, SpecError> {
        let (info, spec, values) = self.0.read(text)?;
        BuiltTask::new(info, spec, &values)
            .map_err(|reason| SpecError::Refused { text: text.trim().to_owned(), reason })
    }

    /// One task of each kind, with the values of its documentation if it needs any.
    ///
    /// # Panics
    /// If a task cannot be built from the values that its own entry gives as an example.
    pub fn examples(&self) -> impl Iterator<Item = BuiltTask> {
        self.iter().map(|info| self.find(&info.example().to_string()).expect("the example of an entry is valid"))
    }
}
