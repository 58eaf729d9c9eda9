//! `semfocus landscape`: the loss around trained models.

use std::io::Write;
use std::path::PathBuf;
use std::rc::Rc;

use clap::{Args as ClapArgs, ValueEnum};
use semfocus_analysis::steepness::{PERCENTILES, Steepness};
use semfocus_core::Point;
use semfocus_core::study::seed_name;
use semfocus_lab::jobs::{Job, Surface};
use semfocus_lab::surface::directions::{Plane, Scaling};
use semfocus_lab::surface::fingerprint;
use semfocus_lab::{Lab, TrainedModel, Trial};
use semfocus_store::{Grid, SurfaceFolder, SurfaceSettings};
use serde::Serialize;

use crate::models::{ModelArgs, Target, mechanism_width, run_jobs};
use crate::output::emit;
use crate::text::{counted, paragraph, rows_by_point, short};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    models: ModelArgs,
    /// Cells along each side of the grid
    #[arg(long, value_name = "N", default_value_t = 41, value_parser = clap::value_parser!(u16).range(3..=501))]
    grid: u16,
    /// How far the grid extends, in units of the norm of the weights
    #[arg(long, value_name = "R", default_value_t = 1.0, value_parser = positive)]
    range: f64,
    /// Compute the loss over the first N training examples
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Leave dropout of the attention weights on, drawn afresh for every cell, as the published code does
    ///
    /// This adds noise to the loss of every cell, and the empirical Lipschitz constants divide it by the distance of the
    /// cells.
    #[arg(long)]
    attention_dropout: bool,
    /// How many pairs of random directions to draw
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    draws: u16,
    /// How directions are chosen
    #[arg(long, value_enum, default_value_t = Directions::Tensor)]
    directions: Directions,
    /// Use the plane through the model and two other checkpoint files of its trial, which lie at (1, 0) and (0, 1)
    #[arg(long, value_names = ["FILE", "FILE"], num_args = 2, conflicts_with = "directions")]
    through: Option<Vec<PathBuf>>,
    /// Seed of random directions
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Threads [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The trials whose models have surfaces.
    pub(crate) fn models_among<'a>(&self, trials: &[&'a Trial]) -> Vec<&'a Trial> {
        self.models.among(trials, SEEDS)
    }

    /// How many examples the surfaces of a model are evaluated on, over all cells.
    pub(crate) fn evaluations(&self, trial: &Trial) -> f64 {
        let examples = (self.samples as usize).min(trial.settings.data.sizes.train);
        f64::from(self.grid).powi(2) * examples as f64 * f64::from(self.draws)
    }
}

/// Seeds of each mechanism that surfaces are made of unless more are asked for.
const SEEDS: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Directions {
    /// Random, with each parameter tensor scaled to the norm of its weights, as in the study
    Tensor,
    /// Random, with the part of each unit scaled to the norm of that unit's weights
    Filter,
    /// The two principal directions of the training path, from the models that probes saved
    Path,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number above 0".to_owned())?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("expected a number above 0".to_owned()) }
}

#[derive(Serialize)]
struct Entry {
    trial: PathBuf,
    mechanism: String,
    /// Values on the axes of the grid.
    point: Point,
    #[serde(rename = "seed")]
    trial_seed: u64,
    settings: SurfaceSettings,
    /// At the trained model, or the cell nearest to it.
    loss: f64,
    accuracy: f64,
    /// Cells whose loss is infinite or undefined.
    undefined: usize,
    percentiles: [f64; 4],
    lipschitz: Steepness,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let surfaces = surfaces(args, lab)?;
    let jobs: Vec<&dyn Job> = surfaces.iter().map(|(_, _, job)| job as &dyn Job).collect();
    let threads = args.jobs.map(usize::from);
    if let Some(exit) = run_jobs(lab, &args.models, &jobs, "cells", threads)? {
        return Ok(exit);
    }
    let entries = surfaces.into_iter().map(|(target, settings, _)| entry(&target, settings));
    let entries = entries.collect::<Result<Vec<_>, _>>()?;
    emit(out, args.json, &entries, |out| print(&entries, out))?;
    Ok(Exit::Done)
}

/// The surfaces that are asked for, each with its model and its settings.
fn surfaces(args: &Args, lab: &Lab) -> Result<Vec<(Rc<Target>, SurfaceSettings, Surface)>, Error> {
    let targets = args.models.targets(lab, SEEDS)?;
    let comparable: Vec<_> = targets.iter().map(|target| (&target.folder, &target.trained.trial)).collect();
    semfocus_lab::surface::check_comparable(&comparable)?;
    let mut surfaces = Vec::new();
    for target in targets.into_iter().map(Rc::new) {
        for (plane, settings) in planes(args, lab, &target)? {
            let folder = SurfaceFolder::new(&target.folder, settings.clone());
            surfaces.push((target.clone(), settings, Surface::new(target.trained.clone(), plane, folder)));
        }
    }
    Ok(surfaces)
}

/// The jobs for several processes that share them.
pub(crate) fn jobs(args: &Args, lab: &Lab) -> Result<Vec<Box<dyn Job>>, Error> {
    Ok(surfaces(args, lab)?.into_iter().map(|(_, _, job)| Box::new(job) as Box<dyn Job>).collect())
}

/// The planes that are asked for, and the settings of their surfaces.
fn planes(args: &Args, lab: &Lab, target: &Target) -> Result<Vec<(Plane, SurfaceSettings)>, Error> {
    let (TrainedModel { trial, model, epoch }, device) = (&target.trained, &args.models.device.device);
    let is_random = args.through.is_none() && args.directions != Directions::Path;
    if !is_random && args.draws > 1 {
        return Err(
            "`--draws` needs random directions: there is only one plane along a path or through checkpoints".into()
        );
    }
    let mut planes = Vec::new();
    for draw in 0..usize::from(args.draws) {
        let (words, plane) = match (&args.through, args.directions) {
            (Some(files), _) => {
                let read = |file: &PathBuf| TrainedModel::read_file(lab, device, trial, file).map(|found| found.model);
                let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                (format!("through {}", names.join(" ")), Plane::through(model, &read(&files[0])?, &read(&files[1])?)?)
            }
            (None, Directions::Tensor) => ("tensor".to_owned(), Plane::random(model, Scaling::Tensor, args.seed, draw)),
            (None, Directions::Filter) => ("filter".to_owned(), Plane::random(model, Scaling::Filter, args.seed, draw)),
            (None, Directions::Path) => {
                let path = TrainedModel::along_training(lab, device, &target.folder)?;
                ("path".to_owned(), Plane::along_path(model, &path)?)
            }
        };
        let settings = SurfaceSettings {
            epoch: *epoch,
            weights: fingerprint(&plane.centre),
            directions: words,
            seed: if is_random { args.seed } else { 0 },
            draw,
            grid: Grid { side: usize::from(args.grid), range: args.range },
            samples: trial.settings.data.sizes.train.min(args.samples as usize),
            attention_dropout: args.attention_dropout,
            path: plane.path.clone(),
        };
        planes.push((plane, settings));
    }
    Ok(planes)
}

fn entry(target: &Target, settings: SurfaceSettings) -> Result<Entry, Error> {
    let stored = target.folder.surface(&settings.name())?;
    let stored = stored.ok_or_else(|| format!("the surface {} is incomplete", settings.name()))?;
    let losses: Vec<f64> = stored.values.iter().map(|value| value.loss).collect();
    let middle = stored.values[losses.len() / 2];
    let trial = &target.trained.trial.settings;
    Ok(Entry {
        trial: target.folder.path().to_owned(),
        mechanism: trial.mechanism.clone(),
        point: target.point.clone(),
        trial_seed: trial.seed,
        loss: middle.loss,
        accuracy: middle.accuracy,
        undefined: losses.iter().filter(|loss| !loss.is_finite()).count(),
        percentiles: PERCENTILES,
        lipschitz: Steepness::new(&settings.grid, &losses),
        settings,
    })
}

fn print(entries: &[Entry], out: &mut dyn Write) -> Result<(), Error> {
    let width = mechanism_width(entries.iter().map(|entry| &entry.mechanism));
    let range = entries.first().map_or(1.0, |entry| entry.settings.grid.range);
    let radii = [range / 4.0, range / 2.0, range];
    let text = "Change of the loss from cell to cell divided by the distance (empirical Lipschitz constant): 50th / 95th \
                percentile over the cells of a square around the model.";
    paragraph(out, "", text)?;
    writeln!(out)?;
    let heads: Vec<String> = radii.iter().map(|radius| format!("{:>13}", format!("±{radius:.2}"))).collect();
    writeln!(out, "{:width$}  {:>4}  draw      loss{}", "mechanism", "seed", heads.concat())?;
    rows_by_point(
        out,
        entries,
        |entry| &entry.point,
        |out, entry| {
            let Entry { mechanism, trial_seed, settings, loss, lipschitz, .. } = entry;
            let at = |radius: &f64| match lipschitz.within(*radius) {
                Some([p50, _, p95, _]) => format!("{:>13}", format!("{} / {}", short(p50), short(p95))),
                None => format!("{:>13}", "–"),
            };
            let cells: String = radii.iter().map(at).collect();
            let (seed, draw, loss) = (seed_name(*trial_seed), settings.draw, short(*loss));
            Ok(writeln!(out, "{mechanism:width$}  {seed:>4}  {draw:>4}  {loss:>8}{cells}")?)
        },
    )?;
    let undefined: usize = entries.iter().map(|entry| entry.undefined).sum();
    if undefined > 0 {
        writeln!(out, "\nthe loss is infinite or undefined in {}", counted(undefined, "cell"))?;
    }
    writeln!(out, "\n`semfocus report RUN` draws the surfaces.")?;
    Ok(())
}
