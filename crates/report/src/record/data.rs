//! A run as the record keeps it: a few small files from which everything that the record shows is computed again.
//!
//! ```text
//! NAME/experiment.toml   the experiment, as the run has it
//! NAME/provenance.toml   command, version, processor, dates, core-hours
//! NAME/trials.csv        one line per trial, with what follows from its curve
//! NAME/curves.csv        one line per trial and epoch
//! NAME/probes.csv        quantiles of the scores, one line per probe and statistic; if the run was probed
//! NAME/surfaces.csv      one line per loss surface; if there are any
//! NAME/sharpness.csv     one line per measurement of the Hessian; if there are any
//! ```
//!
//! Accuracies keep all their digits, so that verdicts are those of the run itself. Losses are rounded.

use std::collections::HashMap;
use std::path::Path;

use semfocus_analysis::evidence::{Evidence, GOAL, Measures};
use semfocus_core::experiment::presets;
use semfocus_core::{Activation, EpochRecord, Evaluation, Experiment, Goal, Known, Request, Scale, TrialId, fnv_1a};
use semfocus_store::files::{create_folder, write_whole};
use semfocus_store::records::{ModelNorms, ProbeRecord, QUANTILES, Summary};
use semfocus_store::{
    Contents, Grid, IndexEntry, Sharpness, SharpnessRecord, State, Status, Store, StoredSurface, StoredTrial,
    SurfaceSettings, TestResult,
};

use super::RecordError;
use super::provenance::Provenance;
use super::rows::{Row, Rows, list, rounded};
use crate::surface::Measured;
use crate::tables::to_csv;

/// Significant digits of losses in curves, and of statistics of scores.
const DIGITS: usize = 4;

/// Significant digits of losses on surfaces, whose differences are divided by the distance of cells.
const SURFACE_DIGITS: usize = 6;

/// Columns of `trials.csv` before and after the axes of the grid.
const NAMES: [&str; 3] = ["trial", "mechanism", "seed"];
const NUMBERS: [&str; 13] = [
    "task",
    "state",
    "planned_epochs",
    "epochs",
    "epochs_to_target",
    "best_heldout_accuracy",
    "best_epoch",
    "last_heldout_accuracy",
    "majority",
    "test_accuracy",
    "epoch_flops",
    "steps",
    "seconds",
];

/// A recorded run.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    /// Name of its folder.
    pub name: String,
    /// What it shows, computed from its files.
    pub evidence: Evidence,
    /// How it came about.
    pub provenance: Provenance,
    /// What it has different from the full scale, in words.
    pub reduced: Vec<String>,
    measured: HashMap<TrialId, Measured>,
}

impl RecordedRun {
    /// Loss surfaces and sharpness of a trial.
    pub(super) fn measured(&self, trial: &StoredTrial) -> Measured {
        self.measured.get(&trial.entry.id).cloned().unwrap_or_default()
    }

    /// Reads the files of a run. `known` says what the published experiment is where presets leave it to the task.
    pub fn read(dir: &Path, known: &dyn Known) -> Result<Self, RecordError> {
        let name = dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let path = dir.join("experiment.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| RecordError::io(&path, &error))?;
        let experiment = Experiment::from_toml(&path.display().to_string(), &text)?;
        let reduced = reduced(&experiment, known)?;
        let path = dir.join("provenance.toml");
        let provenance = Provenance::read(&path)?;
        if provenance.checksum != checksum(dir)? {
            let message = "the files beside it have changed since `semfocus record add` wrote them; add the run again";
            return Err(RecordError::wrong(&path, message));
        }
        let goal = provenance.goal().map_err(|message| RecordError::wrong(&path, message))?;
        let listed = Rows::read(&dir.join("trials.csv"))?;
        let mut trials = listed.rows.iter().map(|row| trial(row, &experiment)).collect::<Result<Vec<_>, _>>()?;
        let count = trials.len();
        let index = |row: &Row| {
            let number: usize = row.get("trial")?;
            let index = number.checked_sub(1).filter(|index| *index < count);
            index.ok_or_else(|| row.error("`trial` is not the number of a line of trials.csv"))
        };
        for row in &Rows::read(&dir.join("curves.csv"))?.rows {
            add_epoch(row, &mut trials[index(row)?])?;
        }
        for row in &Rows::read_if_there(&dir.join("probes.csv"))?.rows {
            add_probe(row, &mut trials[index(row)?])?;
        }
        let mut measured: HashMap<TrialId, Measured> = HashMap::new();
        for row in &Rows::read_if_there(&dir.join("surfaces.csv"))?.rows {
            measured.entry(trials[index(row)?].entry.id).or_default().surfaces.push(surface(row)?);
        }
        for row in &Rows::read_if_there(&dir.join("sharpness.csv"))?.rows {
            measured.entry(trials[index(row)?].entry.id).or_default().sharpness.push(sharpness(row)?);
        }
        for (row, trial) in listed.rows.iter().zip(&mut trials) {
            complete(row, trial, goal)?;
        }
        let evidence = Evidence::new(Contents { experiment, trials, damage: Vec::new() }, goal, None)?;
        Ok(RecordedRun { name, evidence, provenance, reduced, measured })
    }
}

/// How an experiment differs from the full scale of its preset, which is the published one for experiments of the study. One that is no
/// preset has only what the command line changed.
fn reduced(experiment: &Experiment, known: &dyn Known) -> Result<Vec<String>, RecordError> {
    if !presets().iter().any(|preset| preset.name == experiment.name) {
        return Ok(experiment.changed.clone());
    }
    let request = Request { experiment: experiment.name.clone(), scale: Some(Scale::Full), ..Request::default() };
    let published = Experiment::resolve(&request, known)?;
    Ok(experiment.design_differences(&published, known)?)
}

/// Writes what the record keeps of a run into a folder. Gives the run as it will be read from there.
pub(super) fn write(
    store: &Store,
    dir: &Path,
    goal: Option<Goal>,
    known: &dyn Known,
) -> Result<RecordedRun, RecordError> {
    let path = dir.join("provenance.toml");
    let goal = match goal {
        Some(goal) => goal,
        None if path.exists() => Provenance::read(&path)?.goal().map_err(|error| RecordError::wrong(&path, error))?,
        None => GOAL,
    };
    let evidence = Evidence::read(store, goal)?;
    if let Some(damage) = evidence.damage.first() {
        return Err(RecordError::Damaged { run: store.dir().to_owned(), damage: damage.clone() });
    }
    if evidence.trials().all(|observed| observed.measures.is_none()) {
        return Err(RecordError::Empty { run: store.dir().to_owned() });
    }
    // In the order of the plan, which that of the points may differ from.
    let mut trials: Vec<(&StoredTrial, Option<&Measures>)> = Vec::new();
    for entry in store.index()? {
        let found = evidence.trials().find(|observed| observed.trial.entry.id == entry.id);
        trials.extend(found.map(|observed| (&observed.trial, observed.measures.as_ref())));
    }
    create_folder(dir)?;
    let put = |name: &str, text: &str| write_whole(&dir.join(name), text.as_bytes()).map_err(RecordError::from);
    put("experiment.toml", &evidence.experiment.to_toml())?;
    put("trials.csv", &trials_csv(&trials))?;
    put("curves.csv", &curves_csv(&trials))?;
    let optional = [
        ("probes.csv", probes_csv(&trials)),
        ("surfaces.csv", surfaces_csv(&trials)?),
        ("sharpness.csv", sharpness_csv(&trials)?),
    ];
    for (name, text) in optional {
        match text {
            Some(text) => put(name, &text)?,
            None if dir.join(name).exists() => {
                std::fs::remove_file(dir.join(name)).map_err(|error| RecordError::io(&dir.join(name), &error))?;
            }
            None => {}
        }
    }
    // Last, because it has the checksum of the others.
    let provenance = Provenance { checksum: checksum(dir)?, ..Provenance::new(&evidence) };
    write_whole(&path, provenance.to_toml().as_bytes())?;
    RecordedRun::read(dir, known)
}

/// A checksum of the files of a run but its provenance. It finds accidents, not forgers.
fn checksum(dir: &Path) -> Result<String, RecordError> {
    let mut bytes = Vec::new();
    for name in ["experiment.toml", "trials.csv", "curves.csv", "probes.csv", "surfaces.csv", "sharpness.csv"] {
        let path = dir.join(name);
        if path.exists() {
            bytes.extend(name.bytes());
            bytes.extend(std::fs::read(&path).map_err(|error| RecordError::io(&path, &error))?);
        }
    }
    Ok(format!("{:016x}", fnv_1a(bytes.into_iter())))
}

type Trials<'a> = [(&'a StoredTrial, Option<&'a Measures>)];

fn csv_of(rows: &[Vec<String>]) -> String {
    to_csv(rows.iter().map(|row| row.iter().map(String::as_str).collect()))
}

/// The file, unless it would have no rows.
fn unless_empty(rows: Vec<Vec<String>>) -> Option<String> {
    (rows.len() > 1).then(|| csv_of(&rows))
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// What follows from the curve of a trial, as it is written.
fn summary(measures: Option<&Measures>) -> [String; 5] {
    let time = measures.map(|measures| measures.time_to_target).filter(|time| time.reached);
    [
        measures.map_or(0, |measures| measures.epochs).to_string(),
        shown(time.map(|time| time.time)),
        shown(measures.map(|measures| measures.best_heldout_accuracy)),
        shown(measures.map(|measures| measures.best_epoch)),
        shown(measures.map(|measures| measures.last_heldout_accuracy)),
    ]
}

fn trials_csv(trials: &Trials) -> String {
    let axes = trials.first().map_or(&[][..], |(trial, _)| &trial.entry.point).iter().map(|(path, _)| path.as_str());
    let mut rows: Vec<Vec<String>> = vec![NAMES.into_iter().chain(axes).chain(NUMBERS).map(str::to_owned).collect()];
    for (number, (trial, measures)) in (1..).zip(trials) {
        let StoredTrial { entry, status, records, .. } = trial;
        let seconds: f64 = trial.curve().map(|record| record.seconds).sum();
        let status = status.as_ref();
        let mut row = vec![number.to_string(), entry.mechanism.clone(), entry.seed.to_string()];
        row.extend(entry.point.iter().map(|(_, value)| value.clone()));
        row.extend([entry.task.clone(), trial.state.name().to_owned(), entry.epochs.to_string()]);
        row.extend(summary(*measures));
        row.extend([
            shown(status.and_then(|status| status.majority)),
            shown(status.and_then(|status| status.test).map(|test| test.best.accuracy)),
            shown(status.and_then(|status| status.epoch_flops).map(|flops| rounded(flops, DIGITS))),
            shown(records.last().map(|record| record.steps)),
            rounded(seconds, DIGITS),
        ]);
        rows.push(row);
    }
    csv_of(&rows)
}

/// A trial without its curve.
fn trial(row: &Row, experiment: &Experiment) -> Result<StoredTrial, RecordError> {
    let (mechanism, seed) = (row.text("mechanism")?, row.get("seed")?);
    let written = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let at = |point: &Vec<(&'static str, toml::Value)>| -> Result<bool, RecordError> {
        let mut is_here = true;
        for (path, value) in point {
            is_here &= row.text(path)? == written(value);
        }
        Ok(is_here)
    };
    let mut place = None;
    for point in experiment.points() {
        if at(&point)? {
            place = Some(point);
        }
    }
    let place = place.ok_or_else(|| row.error("experiment.toml has no such point of the grid"))?;
    if !experiment.mechanisms.iter().any(|name| name == mechanism) || !experiment.seeds.contains(&seed) {
        return Err(row.error("experiment.toml has no such mechanism or seed"));
    }
    let settings = experiment.settings_at(&place, mechanism, seed)?;
    let state = row.text("state")?;
    let states = [
        State::Waiting,
        State::Running,
        State::Interrupted,
        State::Finished,
        State::Stopped,
        State::Diverged,
        State::Failed,
        State::Unreadable,
    ];
    let state = states.into_iter().find(|known| known.name() == state);
    let state = state.ok_or_else(|| row.error("`state` is not a state of a trial"))?;
    let test = row.find("test_accuracy")?.map(|accuracy| {
        let best = Evaluation { loss: f64::NAN, accuracy };
        TestResult { last: best, best }
    });
    let entry = IndexEntry {
        id: TrialId::new(&settings),
        epochs: row.get("planned_epochs")?,
        task: row.text("task")?.to_owned(),
        mechanism: mechanism.to_owned(),
        seed,
        point: place.iter().map(|(path, value)| ((*path).to_owned(), written(value))).collect(),
    };
    let status = Status {
        state,
        epoch: row.get("epochs")?,
        epochs: entry.epochs,
        best: None,
        diverged_in: None,
        message: None,
        probes: 0,
        epoch_flops: row.find("epoch_flops")?,
        majority: row.find("majority")?,
        held_out: None,
        test_split: None,
        test,
        updated: String::new(),
    };
    Ok(StoredTrial {
        folder: Store::at(Path::new("")).trial(entry.id),
        entry,
        settings: Some(settings),
        state,
        status: Some(status),
        untrained: None,
        records: Vec::new(),
        probes: Vec::new(),
        environment: None,
    })
}

/// Divides the time and the steps of a trial evenly among its epochs, and checks what follows from its curve.
fn complete(row: &Row, trial: &mut StoredTrial, goal: Goal) -> Result<(), RecordError> {
    let epochs = trial.records.len();
    let (seconds, steps): (f64, u64) = (row.get("seconds")?, row.find("steps")?.unwrap_or_default());
    for record in &mut trial.records {
        record.seconds = seconds / epochs as f64;
        record.steps = steps * record.epoch as u64 / epochs as u64;
    }
    let expected = summary(Measures::new(trial, goal).as_ref());
    for (column, expected) in NUMBERS[3..8].iter().zip(expected) {
        if row.text(column)? != expected {
            let found = row.text(column)?;
            return Err(row.error(&format!("`{column}` is `{found}`, but the curve in curves.csv gives `{expected}`")));
        }
    }
    Ok(())
}

fn curves_csv(trials: &Trials) -> String {
    let header = ["trial", "epoch", "train_loss", "train_accuracy", "heldout_loss", "heldout_accuracy"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (number, (trial, _)) in (1..).zip(trials) {
        for record in trial.curve() {
            let EpochRecord { epoch, train_loss, train_accuracy, heldout_loss, heldout_accuracy, .. } = record;
            rows.push(vec![
                number.to_string(),
                epoch.to_string(),
                rounded(*train_loss, DIGITS),
                train_accuracy.to_string(),
                rounded(*heldout_loss, DIGITS),
                heldout_accuracy.to_string(),
            ]);
        }
    }
    csv_of(&rows)
}

fn add_epoch(row: &Row, trial: &mut StoredTrial) -> Result<(), RecordError> {
    let record = EpochRecord {
        epoch: row.get("epoch")?,
        lr: 0.0,
        train_loss: row.get("train_loss")?,
        train_accuracy: row.get("train_accuracy")?,
        heldout_loss: row.get("heldout_loss")?,
        heldout_accuracy: row.get("heldout_accuracy")?,
        grad_norm: 0.0,
        seconds: 0.0,
        steps: 0,
    };
    match record.epoch {
        0 if trial.untrained.is_none() && trial.records.is_empty() => trial.untrained = Some(record),
        epoch if epoch == trial.records.len() + 1 => trial.records.push(record),
        _ => return Err(row.error("expected the next epoch of the trial")),
    }
    Ok(())
}

/// The statistics of scores that the conditions of the theory are about.
type Statistic = (&'static str, fn(&Summary) -> &Vec<f64>, fn(&mut Summary) -> &mut Vec<f64>);

const STATISTICS: [Statistic; 3] = [
    ("dispersion", |summary| &summary.dispersion, |summary| &mut summary.dispersion),
    ("separation", |summary| &summary.separation, |summary| &mut summary.separation),
    ("sink", |summary| &summary.sink, |summary| &mut summary.sink),
];

fn quantile_column(quantile: f64) -> String {
    format!("q{quantile}")
}

fn probes_csv(trials: &Trials) -> Option<String> {
    let header = ["trial", "epoch", "samples", "length", "kept", "min_kept", "statistic"].map(str::to_owned);
    let mut rows = vec![header.into_iter().chain(QUANTILES.map(quantile_column)).collect::<Vec<String>>()];
    for (number, (trial, _)) in (1..).zip(trials) {
        for probe in &trial.probes {
            // The conditions speak of softmax only, and the record keeps no layers that would say what they are.
            let is_softmax = probe.layers.iter().all(|layer| layer.is_softmax);
            for (name, values, _) in STATISTICS {
                let values = values(&probe.pooled);
                if values.is_empty() || (name == "separation" && !is_softmax) {
                    continue;
                }
                let ProbeRecord { epoch, samples, length, kept, min_kept, .. } = probe;
                let mut row =
                    [number, *epoch, *samples, *length, *kept, *min_kept].map(|n: usize| n.to_string()).to_vec();
                row.push(name.to_owned());
                row.extend(values.iter().map(|value| rounded(*value, DIGITS)));
                rows.push(row);
            }
        }
    }
    unless_empty(rows)
}

fn add_probe(row: &Row, trial: &mut StoredTrial) -> Result<(), RecordError> {
    let (epoch, name) = (row.get("epoch")?, row.text("statistic")?);
    let values: Result<Vec<f64>, _> = QUANTILES.iter().map(|quantile| row.get(&quantile_column(*quantile))).collect();
    let known = STATISTICS.iter().find(|(known, ..)| *known == name);
    let (_, _, place) = known.ok_or_else(|| row.error("`statistic` is none that is recorded"))?;
    if trial.probes.last().is_none_or(|probe| probe.epoch != epoch) {
        trial.probes.push(ProbeRecord {
            epoch,
            samples: row.get("samples")?,
            length: row.get("length")?,
            kept: row.get("kept")?,
            min_kept: row.get("min_kept")?,
            seconds: 0.0,
            pooled: Summary::default(),
            layers: Vec::new(),
            norms: no_norms(),
        });
    }
    if let Some(probe) = trial.probes.last_mut() {
        *place(&mut probe.pooled) = values?;
    }
    Ok(())
}

/// The record keeps no norms.
fn no_norms() -> ModelNorms {
    ModelNorms {
        width: 0,
        activation: Activation::Relu,
        score_scale: 0.0,
        layers: Vec::new(),
        classifier: 0.0,
        embedding: 0.0,
    }
}

fn surfaces_csv(trials: &Trials) -> Result<Option<String>, RecordError> {
    let header =
        ["trial", "epoch", "directions", "seed", "draw", "side", "range", "samples", "attention_dropout", "losses"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (number, (trial, _)) in (1..).zip(trials) {
        let (surfaces, wrong) = trial.folder.surfaces();
        if let Some(error) = wrong.into_iter().next() {
            return Err(error.into());
        }
        for StoredSurface { settings, values } in surfaces {
            let SurfaceSettings { epoch, directions, seed, draw, grid, samples, attention_dropout, .. } = settings;
            rows.push(vec![
                number.to_string(),
                epoch.to_string(),
                directions,
                seed.to_string(),
                draw.to_string(),
                grid.side.to_string(),
                grid.range.to_string(),
                samples.to_string(),
                attention_dropout.to_string(),
                list(values.iter().map(|value| value.loss), SURFACE_DIGITS),
            ]);
        }
    }
    Ok(unless_empty(rows))
}

fn surface(row: &Row) -> Result<StoredSurface, RecordError> {
    let settings = SurfaceSettings {
        epoch: row.get("epoch")?,
        weights: String::new(),
        directions: row.text("directions")?.to_owned(),
        seed: row.get("seed")?,
        draw: row.get("draw")?,
        grid: Grid { side: row.get("side")?, range: row.get("range")? },
        samples: row.get("samples")?,
        attention_dropout: row.get("attention_dropout")?,
        path: Vec::new(),
    };
    let losses = row.numbers("losses")?;
    if losses.len() != settings.grid.cells() {
        return Err(row.error(&format!("expected {} losses, one for each cell", settings.grid.cells())));
    }
    let values = losses.into_iter().map(|loss| Evaluation { loss, accuracy: f64::NAN }).collect();
    Ok(StoredSurface { settings, values })
}

fn sharpness_csv(trials: &Trials) -> Result<Option<String>, RecordError> {
    let header = ["trial", "epoch", "samples", "exact", "probes", "loss", "trace", "trace_error", "eigenvalues"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for (number, (trial, _)) in (1..).zip(trials) {
        for SharpnessRecord { epoch, samples, exact, probes, sharpness, .. } in trial.folder.sharpness()? {
            let Sharpness { loss, trace, trace_error, eigenvalues, .. } = sharpness;
            let mut row =
                vec![number.to_string(), epoch.to_string(), samples.to_string(), exact.to_string(), probes.to_string()];
            row.extend([loss, trace, trace_error].map(|value| rounded(value, DIGITS)));
            row.push(list(eigenvalues.into_iter(), DIGITS));
            rows.push(row);
        }
    }
    Ok(unless_empty(rows))
}

fn sharpness(row: &Row) -> Result<SharpnessRecord, RecordError> {
    let sharpness = Sharpness {
        eigenvalues: row.numbers("eigenvalues")?,
        residuals: Vec::new(),
        min: f64::NAN,
        min_residual: f64::NAN,
        trace: row.get("trace")?,
        trace_error: row.get("trace_error")?,
        products: 0,
        gradient_norm: f64::NAN,
        loss: row.get("loss")?,
    };
    Ok(SharpnessRecord {
        epoch: row.get("epoch")?,
        samples: row.get("samples")?,
        exact: row.get("exact")?,
        probes: row.get("probes")?,
        sharpness,
        seconds: 0.0,
    })
}
