//! What follows training: probes, surfaces, sharpness, regions of the theory, and the figures that a run is made for.

use std::io::{self, Write};
use std::path::Path;

use semfocus_core::experiment::Step;
use semfocus_core::{Experiment, ExperimentError};
use semfocus_lab::estimate::Estimator;
use semfocus_lab::{Lab, Trial};
use semfocus_report::{regions, write_picture};
use semfocus_store::files::create_folder;

use crate::commands::{landscape, probe, sharpness};
use crate::measure::arguments;
use crate::talk::say;
use crate::{Error, Exit};

/// A command that follows training, with its arguments.
enum Following {
    Probe(probe::Args),
    Landscape(landscape::Args),
    Sharpness(sharpness::Args),
    Regions,
}

/// The commands that follow the training of an experiment.
pub(super) struct After(Vec<(String, Following)>);

impl After {
    /// Checks the options of all steps, before anything is trained.
    pub(super) fn new(experiment: &Experiment, dir: &Path, device: &str) -> Result<Self, ExperimentError> {
        let following = experiment.after.steps.iter().map(|step| {
            let words = std::iter::once(step.command.clone()).chain(step.arguments());
            Ok((words.collect::<Vec<_>>().join(" "), Following::new(step, dir, device)?))
        });
        following.collect::<Result<_, _>>().map(After)
    }

    /// The commands in words, one for each step.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(words, _)| words.as_str())
    }

    /// Seconds with this many threads that the surfaces take, by estimate. The other steps take little time beside training.
    pub(super) fn seconds(&self, estimator: &mut Estimator<'_>, trials: &[&Trial], threads: usize) -> f64 {
        let landscapes = self.0.iter().filter_map(|(_, following)| match following {
            Following::Landscape(args) => Some(args),
            _ => None,
        });
        let seconds = |args: &landscape::Args| -> f64 {
            let models = args.models_among(trials).into_iter();
            models.map(|trial| estimator.evaluation(trial, args.evaluations(trial))).sum()
        };
        landscapes.map(seconds).sum::<f64>() / threads as f64
    }

    /// Runs the steps, one after the other. What they print is left out if nobody is to read it.
    pub(super) fn run(&self, dir: &Path, lab: &Lab, is_shown: bool, out: &mut dyn Write) -> Result<Exit, Error> {
        let mut nowhere = io::sink();
        for (words, following) in &self.0 {
            let out: &mut dyn Write = if is_shown { &mut *out } else { &mut nowhere };
            if is_shown {
                out.flush()?;
                say!("then: {words}");
                writeln!(out)?;
            }
            let exit = match following {
                Following::Probe(args) => probe::run(args, lab, out)?,
                Following::Landscape(args) => landscape::run(args, lab, out)?,
                Following::Sharpness(args) => sharpness::run(args, lab, out)?,
                Following::Regions => {
                    let folder = dir.join("figures");
                    create_folder(&folder)?;
                    regions::pictures().iter().try_for_each(|picture| write_picture(&folder, picture))?;
                    Exit::Done
                }
            };
            out.flush()?;
            if exit != Exit::Done {
                return Ok(exit);
            }
        }
        Ok(Exit::Done)
    }
}

impl Following {
    fn new(step: &Step, dir: &Path, device: &str) -> Result<Self, ExperimentError> {
        match step.command.as_str() {
            "probe" => parsed(step, dir, device).map(Following::Probe),
            "landscape" => parsed(step, dir, device).map(Following::Landscape),
            "sharpness" => parsed(step, dir, device).map(Following::Sharpness),
            _ if step.options.is_empty() => Ok(Following::Regions),
            _ => Err(step.error(format!("`after.{}` has no options", step.command))),
        }
    }
}

/// The arguments of a command about the run in a folder.
fn parsed<A: clap::Args>(step: &Step, dir: &Path, device: &str) -> Result<A, ExperimentError> {
    let own = ["--device".to_owned(), device.to_owned()];
    let options = step.arguments().into_iter().chain(own).collect();
    arguments(options, dir).map_err(|reason| step.error(format!("`after.{}`: {reason}", step.command)))
}

/// Names the figures and tables that the run is made for, after the report was written.
pub(super) fn show(experiment: &Experiment, dir: &Path) {
    for name in &experiment.after.shows {
        let (figure, table) = (dir.join("figures").join(name), dir.join("tables").join(name));
        if figure.with_extension("svg").is_file() {
            say!("figure: {}.{{svg,png,pdf}}", figure.display());
        }
        if table.with_extension("csv").is_file() {
            say!("table: {}.{{csv,md,tex}}", table.display());
        }
    }
}
