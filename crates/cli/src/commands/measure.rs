//! `semfocus probe`, `landscape`, `sharpness` and `evaluate`: arguments become a [`Measurement`], the measurement becomes jobs, and
//! what is on record afterwards is printed. `run` makes the measurements of `[after]` in the same way.

pub(crate) mod evaluate;
pub(crate) mod landscape;
pub(crate) mod probe;
pub(crate) mod sharpness;

use std::io::Write;

use semfocus_core::Measurement;
use semfocus_lab::jobs::{self, Job, MeasureSharpness, Probe, Surface};
use semfocus_lab::{Lab, ModelRef};
use serde::Serialize;

use crate::execute::Execution;
use crate::models::{Entry, ModelArgs};
use crate::output::emit;
use crate::{Error, Exit};

/// How a measurement is made and shown. By default as after training.
#[derive(Default)]
pub(crate) struct View {
    /// Whether probes that are on record are made again.
    again: bool,
    /// Threads of a job; by default all cores.
    threads: Option<usize>,
    /// Whether every layer of a probe is shown.
    layers: bool,
    json: bool,
}

/// Makes a measurement on the models of the command line.
fn run(
    measurement: &Measurement,
    models: &ModelArgs,
    view: &View,
    lab: &Lab,
    out: &mut dyn Write,
) -> Result<Exit, Error> {
    measurement.check()?;
    let (chosen, left_out) = models.models(lab, measurement.models())?;
    models.execute(lab, left_out, |execution| measure(measurement, &chosen, execution, view, out))
}

/// Makes a measurement, and prints what is on record then.
pub(crate) fn measure(
    measurement: &Measurement,
    models: &[ModelRef],
    execution: &Execution<'_>,
    view: &View,
    out: &mut dyn Write,
) -> Result<Exit, Error> {
    let show = Show { execution, view, out };
    match measurement {
        Measurement::Probe(options) => {
            let jobs = Probe::all(options, models).into_iter();
            let jobs: Vec<Probe> = jobs.map(|job| if view.again { job.again() } else { job }).collect();
            show.results(&jobs, probe::entry, probe::Report::new, |report, out| report.print(view.layers, out))
        }
        Measurement::Surface(options) => {
            let entry =
                |job: &Surface| Entry::new(job.model(), job.record().map(|found| found.map(landscape::Shown::new)));
            show.results(
                &Surface::all(options, models)?,
                entry,
                |entries| entries,
                |entries, out| landscape::print(entries, out),
            )
        }
        Measurement::Sharpness(options) => {
            let entry = |job: &MeasureSharpness| Entry::new(job.model(), job.record());
            let jobs = MeasureSharpness::all(options, models)?;
            show.results(&jobs, entry, |entries| entries, |entries, out| sharpness::print(entries, out))
        }
        Measurement::Evaluate(options) => {
            let entry = |job: &jobs::Evaluate| Entry::new(job.model(), job.record());
            let jobs = jobs::Evaluate::all(options, models);
            show.results(&jobs, entry, |entries| entries, |entries, out| evaluate::print(entries, out))
        }
    }
}

/// What jobs are run with, and where their results go.
struct Show<'a> {
    execution: &'a Execution<'a>,
    view: &'a View,
    out: &'a mut dyn Write,
}

impl Show<'_> {
    /// Runs the jobs, then prints what is on record for them.
    fn results<J: Job, R, T: Serialize>(
        self,
        jobs: &[J],
        entry: impl FnMut(&J) -> Result<Entry<R>, Error>,
        report: impl FnOnce(Vec<Entry<R>>) -> T,
        print: impl FnOnce(&T, &mut dyn Write) -> Result<(), Error>,
    ) -> Result<Exit, Error> {
        let (over, exit) = self.execution.one_by_one(jobs, self.view.threads)?;
        if exit == Exit::Interrupted {
            return Ok(exit);
        }
        let report = report(over.into_iter().map(entry).collect::<Result<_, _>>()?);
        emit(self.out, self.view.json, &report, |out| print(&report, out))?;
        Ok(exit)
    }
}
