//! Running jobs with progress on the terminal: the same for `run`, `work` and the commands that measure.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use semfocus_core::Allocation;
use semfocus_lab::jobs::{Executor, Job, Sharing};
use semfocus_lab::{Device, Lab};
use semfocus_nn::InstructionSet;
use semfocus_store::{End, Locks, Program, Session};

use crate::progress::Progress;
use crate::talk::say;
use crate::text::to_resume;
use crate::{Error, Exit};

/// What all jobs of a process share.
pub(crate) struct Execution<'a> {
    pub(crate) lab: &'a Lab,
    pub(crate) device: &'a Device,
    pub(crate) locks: &'a Locks,
    pub(crate) stop: &'a Arc<AtomicBool>,
    /// Whether nothing is shown.
    pub(crate) is_quiet: bool,
}

impl Execution<'_> {
    /// Works on all jobs and says how each ended; those not begun when the run was stopped have no end.
    pub(crate) fn run(&self, jobs: &[&dyn Job], sharing: Sharing) -> Vec<Option<End>> {
        let Execution { lab, device, locks, stop, is_quiet } = self;
        let progress = Progress::new(jobs, sharing, *is_quiet, (*stop).clone());
        let program = Program {
            version: crate::VERSION.to_owned(),
            commit: crate::COMMIT.map(str::to_owned),
            instruction_set: InstructionSet::current().name().to_owned(),
            device: device.name().to_owned(),
            own: lab.program.clone(),
        };
        let session = Session::here(program, sharing.threads, sharing.jobs);
        let memory = Allocation::here().memory;
        let ends = Executor { lab, device, session, sharing, stop, memory, locks, observer: &progress }.run(jobs);
        progress.finish();
        ends
    }

    /// Works on jobs one after the other, each on this many threads or all cores. Gives those that are over, and the exit code of the
    /// program: some may have failed or been interrupted. If nothing else is over, a failure is an error.
    pub(crate) fn one_by_one<'j, J: Job>(
        &self,
        jobs: &'j [J],
        threads: Option<usize>,
    ) -> Result<(Vec<&'j J>, Exit), Error> {
        let ends = self.run(&as_jobs(jobs), Sharing::one_by_one(threads));
        let (mut over, mut failed) = (Vec::new(), Vec::new());
        for (job, end) in jobs.iter().zip(&ends) {
            match end {
                Some(End::Over(_)) => over.push(job),
                Some(End::Failed(message)) => failed.push((job, message)),
                Some(End::Interrupted) | None => {}
            }
        }
        match &failed[..] {
            [(_, message), ..] if over.is_empty() => return Err(message.as_str().into()),
            failed => failed.iter().for_each(|(job, message)| say!("failed: {}: {message}", job.title())),
        }
        if over.len() + failed.len() < jobs.len() {
            say!("Interrupted; progress is saved.{}", to_resume());
            return Ok((over, Exit::Interrupted));
        }
        Ok((over, if failed.is_empty() { Exit::Done } else { Exit::SomeFailed }))
    }
}

/// Jobs as the executor takes them.
pub(crate) fn as_jobs<J: Job>(jobs: &[J]) -> Vec<&dyn Job> {
    jobs.iter().map(|job| job as &dyn Job).collect()
}
