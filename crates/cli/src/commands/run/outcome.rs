//! How a run ended.

use std::io::Write;

use semfocus_analysis::evidence::Evidence;
use semfocus_analysis::evidence::claim::Claim;
use semfocus_core::Experiment;
use semfocus_lab::jobs::Job;
use semfocus_store::{End, State, Store};
use serde::Serialize;

use super::Args;
use super::describe::About;
use crate::commands::explain::print_summary;
use crate::output::emit;
use crate::talk::say;
use crate::text::{command_on, counted, duration, to_resume};
use crate::{Error, Exit, evidence};

/// The result of a run.
#[derive(Serialize)]
pub(super) struct Outcome<'a> {
    #[serde(flatten)]
    about: About<'a>,
    /// Those that did all their epochs or reached their target.
    finished: usize,
    diverged: Vec<String>,
    failed: Vec<Failure>,
    interrupted: bool,
    comparison: Vec<evidence::Row<'a>>,
    /// Whether the claim holds, and why.
    answer: &'a Claim,
    /// Seconds that all probes took.
    probe_seconds: f64,
    /// Seconds that all epochs took.
    training_seconds: f64,
    #[serde(skip)]
    pub(super) evidence: &'a Evidence,
}

#[derive(Serialize)]
struct Failure {
    trial: String,
    message: String,
}

impl<'a> Outcome<'a> {
    pub(super) fn new(
        experiment: &'a Experiment,
        store: &'a Store,
        jobs: &[&dyn Job],
        ends: &[Option<End>],
        interrupted: bool,
        evidence: &'a Evidence,
    ) -> Self {
        let ends = jobs.iter().zip(ends).filter_map(|(job, end)| Some((*job, end.as_ref()?)));
        let failed = ends.clone().filter_map(|(job, end)| match end {
            End::Failed(message) => Some(Failure { trial: job.title(), message: message.clone() }),
            _ => None,
        });
        let diverged = ends.clone().filter(|(_, end)| **end == End::Over(State::Diverged)).map(|(job, _)| job.title());
        let over = ends.clone().filter(|(_, end)| matches!(end, End::Over(_))).count();
        let diverged: Vec<String> = diverged.collect();
        Outcome {
            about: About::new(experiment, store.dir(), jobs.len()),
            finished: over - diverged.len(),
            diverged,
            failed: failed.collect(),
            interrupted: interrupted && over < jobs.len(),
            comparison: evidence::rows(evidence, false),
            answer: evidence.claim(),
            probe_seconds: evidence.trials().flat_map(|o| &o.trial.probes).filter_map(|probe| probe.seconds).sum(),
            training_seconds: evidence.trials().flat_map(|o| &o.trial.curve).filter_map(|point| point.seconds).sum(),
            evidence,
        }
    }

    /// Whether nothing is left to do.
    pub(super) fn is_over(&self) -> bool {
        self.finished + self.diverged.len() == self.about.trials
    }

    pub(super) fn exit(&self) -> Exit {
        if self.interrupted {
            Exit::Interrupted
        } else if self.failed.is_empty() && self.diverged.is_empty() {
            Exit::Done
        } else {
            Exit::SomeFailed
        }
    }

    pub(super) fn print(&self, args: &Args, out: &mut dyn Write) -> Result<(), Error> {
        for Failure { trial, message } in &self.failed {
            say!("{trial}: failed: {message}");
        }
        // What is left out here can be had from `compare`; of an interrupted run it would be noise.
        if args.json || !self.interrupted {
            emit(out, args.json, self, |out| {
                evidence::print(self.evidence, out)?;
                print_summary(self.evidence, out)?;
                // Without --quiet, the last line of all says where they are.
                if args.quiet { Ok(writeln!(out, "\nresults    {}", self.about.dir.display())?) } else { Ok(()) }
            })?;
        }
        out.flush()?;
        // Without --quiet, the progress lines have already said so.
        if args.quiet {
            for trial in &self.diverged {
                say!("{trial}: diverged");
            }
        }
        let Outcome { about: About { trials, dir, .. }, finished, diverged, .. } = self;
        let mut done = format!("{finished} of {} done", counted(*trials, "trial"));
        if !diverged.is_empty() {
            done += &format!(", {} diverged", diverged.len());
        }
        if self.interrupted {
            say!("Interrupted with {done}; progress is saved.{}", to_resume());
            if finished + diverged.len() > 0 && !args.quiet {
                say!("To see what is there:\n  {}", command_on("compare", dir));
            }
        } else if !args.quiet {
            let left = trials - finished - diverged.len();
            let left = if left == 0 { String::new() } else { format!(", {left} not finished") };
            say!("{done}{left}; all files are in {}", dir.display());
        }
        if self.probe_seconds > 0.0 && !args.quiet {
            let share = 100.0 * self.probe_seconds / self.training_seconds;
            say!("probes took {} of core time, {share:.0} % as much as the epochs", duration(self.probe_seconds));
        }
        Ok(())
    }
}
