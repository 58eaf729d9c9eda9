//! `semfocus slurm cancel`.

use std::path::Path;

use semfocus_store::Store;

use crate::slurm::call::call;
use crate::slurm::queue::{self, Task};
use crate::talk::say;
use crate::{Error, Exit};

pub(super) fn run(dir: &Path) -> Result<Exit, Error> {
    let submissions = Store::open(dir)?.submissions()?;
    if submissions.is_empty() {
        say!("nothing was submitted for {}", dir.display());
        return Ok(Exit::Done);
    }
    let tasks = queue::tasks(&submissions)?;
    let mut cancelled = Vec::new();
    for submission in &submissions {
        let is_alive = |job: &&str| tasks.iter().any(|task: &Task| task.job == **job && !task.is_over());
        let alive: Vec<&str> = submission.jobs().filter(is_alive).collect();
        if alive.is_empty() {
            continue;
        }
        let cluster = submission.cluster.as_deref().map(|cluster| ["-M", cluster]);
        let arguments: Vec<&str> = cluster.iter().flatten().copied().chain(alive.iter().copied()).collect();
        call("scancel", &arguments, "")?;
        cancelled.extend(alive);
    }
    if cancelled.is_empty() {
        say!("no job of {} is left to cancel", dir.display());
    } else {
        say!(
            "cancelled {}; running workers save their progress and end. `semfocus slurm submit` continues from there.",
            cancelled.join(", ")
        );
    }
    Ok(Exit::Done)
}
