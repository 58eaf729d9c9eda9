//! `semfocus landscape`: the loss around trained models.

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use clap::{Args as ClapArgs, ValueEnum};
use semfocus_analysis::surface::directions::{Plane, Scaling};
use semfocus_analysis::surface::landscape::{Cell, Evaluator, Grid, evaluate};
use semfocus_analysis::surface::record::{SurfaceFolder, SurfaceSettings, fingerprint, surfaces};
use semfocus_analysis::surface::steepness::{PERCENTILES, Steepness};
use semfocus_lab::trained::Trained;
use semfocus_tasks::Split;
use serde::Serialize;

use crate::counter::Counter;
use crate::signals::stop_on_signals;
use crate::targets::{ModelArgs, Target};
use crate::text::{clock, counted, shell_quoted, short};
use crate::{Error, Exit};

/// Finished cells are written this often.
const SAVE_EVERY: Duration = Duration::from_millis(200);

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    models: ModelArgs,
    /// Cells along each side of the grid
    #[arg(long, value_name = "N", default_value_t = 41, value_parser = clap::value_parser!(u16).range(3..=501))]
    grid: u16,
    /// How far the grid reaches: 1 is as far as the weights are long
    #[arg(long, value_name = "R", default_value_t = 1.0, value_parser = positive)]
    range: f64,
    /// Training examples that the loss is taken over, the first ones
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    samples: u32,
    /// Draws of random directions
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    draws: u16,
    /// How directions are chosen
    #[arg(long, value_enum, default_value_t = Directions::Tensor)]
    directions: Directions,
    /// Directions to two other checkpoint files of the same trial instead, which lie at (1, 0) and (0, 1)
    #[arg(long, value_names = ["FILE", "FILE"], num_args = 2, conflicts_with = "directions")]
    through: Option<Vec<PathBuf>>,
    /// Seed of random directions
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Threads; as many as there are cores unless given
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Directions {
    /// Random; the part of every parameter is as long as that parameter, as in the study
    Tensor,
    /// Random; the part of every unit is as long as that unit's weights
    Filter,
    /// The two principal directions of the training path, from the models that probes kept
    Path,
}

fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number above 0".to_owned())?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("expected a number above 0".to_owned()) }
}

/// A surface to evaluate.
struct Job<'a> {
    target: &'a Target,
    split: &'a Split,
    plane: Plane,
    settings: SurfaceSettings,
    folder: SurfaceFolder,
}

#[derive(Serialize)]
struct Entry {
    trial: PathBuf,
    mechanism: String,
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

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let stop = stop_on_signals()?;
    let targets = args.models.targets()?;
    check_comparable(&targets)?;
    let splits = targets.iter().map(training_examples).collect::<Result<Vec<Split>, Error>>()?;
    let mut jobs = Vec::new();
    for (target, split) in targets.iter().zip(&splits) {
        jobs.extend(jobs_of(args, target, split)?);
    }
    let all: usize = jobs.iter().map(|job| job.settings.grid.cells()).sum();
    let missing: usize = jobs.iter().map(|job| job.folder.missing().len()).sum();
    let threads = args.jobs.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let mut counter = Counter::new("cells", all, all - missing);
    let mut entries = Vec::new();
    for job in jobs {
        entries.push((job.target, job.settings.clone()));
        if !fill(job, threads, &stop, &mut counter)? {
            counter.finish();
            let command: Vec<String> = std::env::args().map(|argument| shell_quoted(&argument)).collect();
            eprintln!("interrupted; finished cells are kept. To go on: {}", command.join(" "));
            return Ok(Exit::Interrupted);
        }
    }
    let seconds = counter.finish();
    if missing > 0 {
        eprintln!("{} in {}", counted(missing, "cell"), clock(seconds));
    }
    let entries =
        entries.into_iter().map(|(target, settings)| entry(target, settings)).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        serde_json::to_writer_pretty(&mut *out, &entries)?;
        writeln!(out)?;
    } else {
        print(&entries, out)?;
    }
    Ok(Exit::Done)
}

/// Surfaces side by side mean something only for models of one shape on the same task.
fn check_comparable(targets: &[Target]) -> Result<(), Error> {
    let Some((first, rest)) = targets.split_first() else { return Ok(()) };
    let differences = |one: &Trained, other: &Trained| {
        let (a, b) = (&one.trial.settings, &other.trial.settings);
        let (shape_a, shape_b) = (&a.model, &b.model);
        let numbers = [
            ("blocks", shape_a.blocks, shape_b.blocks),
            ("d_model", shape_a.d_model, shape_b.d_model),
            ("d_mlp", shape_a.d_mlp, shape_b.d_mlp),
            ("heads", shape_a.heads, shape_b.heads),
            ("d_head", shape_a.head_width(), shape_b.head_width()),
        ];
        let number = numbers.into_iter().find(|(_, a, b)| a != b).map(|(name, a, b)| format!("{name} {a} and {b}"));
        let task = || (a.task != b.task).then(|| format!("tasks {} and {}", a.task, b.task));
        let length = || (a.data.length != b.data.length).then(|| "sequences of different lengths".to_owned());
        number.or_else(task).or_else(length)
    };
    for other in rest {
        if let Some(difference) = differences(&first.trained, &other.trained) {
            let (a, b) = (first.folder.path().display(), other.folder.path().display());
            let message = format!("{a} and {b} cannot be compared: they have {difference}");
            return Err(format!("{message}. Give them in separate commands, or choose trials of one kind").into());
        }
    }
    Ok(())
}

fn training_examples(target: &Target) -> Result<Split, Error> {
    let settings = &target.trained.trial.settings;
    Ok(target.trained.trial.source.dataset(&settings.data, settings.seed)?.train)
}

fn jobs_of<'a>(args: &Args, target: &'a Target, split: &'a Split) -> Result<Vec<Job<'a>>, Error> {
    let model = &target.trained.model;
    let is_random = args.through.is_none() && args.directions != Directions::Path;
    if !is_random && args.draws > 1 {
        return Err("`--draws` needs random directions: there is one plane along a path or through checkpoints".into());
    }
    let mut jobs = Vec::new();
    for draw in 0..usize::from(args.draws) {
        let (words, plane) = match (&args.through, args.directions) {
            (Some(files), _) => {
                let read = |file: &PathBuf| Trained::of(&target.trained.trial, file).map(|trained| trained.model);
                let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                (format!("through {}", names.join(" ")), Plane::through(model, &read(&files[0])?, &read(&files[1])?)?)
            }
            (None, Directions::Tensor) => ("tensor".to_owned(), Plane::random(model, Scaling::Tensor, args.seed, draw)),
            (None, Directions::Filter) => ("filter".to_owned(), Plane::random(model, Scaling::Filter, args.seed, draw)),
            (None, Directions::Path) => {
                ("path".to_owned(), Plane::of_path(model, &Trained::along_training(&target.folder)?)?)
            }
        };
        let settings = SurfaceSettings {
            epoch: target.trained.epoch,
            weights: fingerprint(&plane.centre),
            directions: words,
            seed: if is_random { args.seed } else { 0 },
            draw,
            grid: Grid { side: usize::from(args.grid), range: args.range },
            samples: split.len().min(args.samples as usize),
            path: plane.path.clone(),
        };
        let folder = SurfaceFolder::open(&target.folder, &settings)?;
        jobs.push(Job { target, split, plane, settings, folder });
    }
    Ok(jobs)
}

/// Evaluates the missing cells of a surface; whether it came to the end.
fn fill(mut job: Job<'_>, threads: usize, stop: &AtomicBool, counter: &mut Counter) -> Result<bool, Error> {
    let missing = job.folder.missing();
    let evaluator = Evaluator::new(&job.target.trained.model, job.split, job.settings.samples);
    let (mut unsaved, mut saved_at): (Vec<Cell>, Instant) = (Vec::new(), Instant::now());
    let folder = &mut job.folder;
    evaluate(&evaluator, &job.plane, &job.settings.grid, &missing, threads, stop, |cell| {
        unsaved.push(cell);
        counter.add(1);
        if saved_at.elapsed() >= SAVE_EVERY {
            folder.add(&unsaved)?;
            (unsaved, saved_at) = (Vec::new(), Instant::now());
        }
        Ok::<(), Error>(())
    })?;
    folder.add(&unsaved)?;
    let is_complete = folder.missing().is_empty();
    if is_complete && !missing.is_empty() {
        job.folder.finish()?;
    }
    Ok(is_complete)
}

fn entry(target: &Target, settings: SurfaceSettings) -> Result<Entry, Error> {
    let stored = surfaces(target.folder.path())?.into_iter().find(|surface| surface.settings == settings);
    let stored = stored.ok_or("the surface was removed while it was evaluated")?;
    let losses: Vec<f64> = stored.values.iter().map(|value| value.loss).collect();
    let middle = stored.values[losses.len() / 2];
    let trial = &target.trained.trial.settings;
    Ok(Entry {
        trial: target.folder.path().to_owned(),
        mechanism: trial.mechanism.clone(),
        trial_seed: trial.seed,
        loss: middle.loss,
        accuracy: middle.accuracy,
        undefined: losses.iter().filter(|loss| !loss.is_finite()).count(),
        percentiles: PERCENTILES,
        lipschitz: Steepness::of(&settings.grid, &losses),
        settings,
    })
}

fn print(entries: &[Entry], out: &mut dyn Write) -> Result<(), Error> {
    let width = entries.iter().map(|entry| entry.mechanism.chars().count()).max().unwrap_or(0).max(9);
    let range = entries.first().map_or(1.0, |entry| entry.settings.grid.range);
    let radii = [range / 4.0, range / 2.0, range];
    writeln!(out, "empirical Lipschitz constants, 50th / 95th percentile, within squares")?;
    writeln!(out)?;
    let heads: Vec<String> = radii.iter().map(|radius| format!("{:>13}", format!("±{radius:.2}"))).collect();
    writeln!(out, "{:width$}       seed  draw      loss{}", "mechanism", heads.concat())?;
    for Entry { mechanism, trial_seed, settings, loss, lipschitz, .. } in entries {
        let at = |radius: &f64| match lipschitz.within(*radius) {
            Some([p50, _, p95, _]) => format!("{:>13}", format!("{} / {}", short(p50), short(p95))),
            None => format!("{:>13}", "–"),
        };
        let cells: String = radii.iter().map(at).collect();
        writeln!(out, "{mechanism:width$}  {trial_seed:>9}  {:>4}  {:>8}{cells}", settings.draw, short(*loss))?;
    }
    let undefined: usize = entries.iter().map(|entry| entry.undefined).sum();
    if undefined > 0 {
        writeln!(out, "\nthe loss is infinite or undefined in {}", counted(undefined, "cell"))?;
    }
    writeln!(out, "\n`semfocus report RUN` shows the surfaces.")?;
    Ok(())
}
