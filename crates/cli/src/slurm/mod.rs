//! Slurm, as far as the program has to know it: its commands and what it tells a job. What is kept of a submission is in the store.
//!
//! | to find | look in |
//! |---|---|
//! | starting `sbatch`, `squeue` and others, with a time limit | [`call`] |
//! | the job that this process runs in: its name, its time left | [`job`] |
//! | what `squeue` and `sacct` print, which states are ends | [`queue`] |
//! | the text of job scripts | [`script`] |

pub(crate) mod call;
pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod script;
