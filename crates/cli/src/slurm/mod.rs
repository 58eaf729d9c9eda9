//! Slurm, as far as the program has to know it: its commands, what it tells a job, and what is kept of a submission.
//!
//! | to find | look in |
//! |---|---|
//! | starting `sbatch`, `squeue` and others, with a time limit | [`call`] |
//! | the job that this process runs in: its name, its time left | [`job`] |
//! | what `squeue` and `sacct` print, which states are ends | [`queue`] |
//! | the text of job scripts | [`script`] |
//! | the jobs that were submitted for a run | [`submission`] |

pub(crate) mod call;
pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod script;
pub(crate) mod submission;
