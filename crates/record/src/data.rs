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
//! Accuracies keep all their digits, and so does the loss that the target is about, so that verdicts are those of the run itself. Other
//! losses are rounded.

use std::path::Path;

use semfocus_analysis::evidence::{Evidence, GOAL, Measures, Observed};
use semfocus_core::experiment::presets;
use semfocus_core::metric::MetricInfo;
use semfocus_core::{
    DataFacts, Difference, Experiment, Goal, Metric, Metrics, Names, Request, Scale, SplitFacts, TrialId, fnv_1a,
};
use semfocus_store::files::{create_folder, write_whole};
use semfocus_store::records::{ProbeRecord, QUANTILES, Summary};
use semfocus_store::{
    CurvePoint, Grid, IndexEntry, RunData, SharpnessData, State, Store, SurfaceData, SurfaceSettings, TrialData,
};
use serde::{Deserialize, Serialize};

use crate::RecordError;
use crate::provenance::Provenance;
use crate::rows::{self, Exact, List, Row, rounded, to_csv, to_csv_with};

/// Losses in curves, and statistics of scores.
type Rounded = rows::Rounded<LOSS_DIGITS>;

const LOSS_DIGITS: usize = 4;

/// Losses on surfaces, whose differences are divided by the distance of cells.
type Losses = List<6>;

/// A recorded run.
#[derive(Clone, Debug)]
pub struct RecordedRun {
    /// Name of its folder.
    pub name: String,
    /// What it shows, computed from its files.
    pub evidence: Evidence,
    /// How it came about.
    pub provenance: Provenance,
    /// What it has different from the full scale.
    pub reduced: Vec<Difference>,
}

impl RecordedRun {
    /// Reads the files of a run. `known` says what the published experiment is where presets leave it to the task.
    pub fn read(dir: &Path, known: &dyn Names) -> Result<Self, RecordError> {
        let name = dir.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let path = dir.join("experiment.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| RecordError::io(&path, &error))?;
        let experiment = Experiment::from_toml(&path.display().to_string(), &text)?;
        let reduced = reduced(&experiment, known)?;
        let path = dir.join("provenance.toml");
        let provenance = Provenance::read(&path)?;
        if provenance.checksum != checksum(dir)? {
            let message = "the files next to it have changed since `semfocus record add` wrote them; add the run again";
            return Err(RecordError::wrong(&path, message));
        }
        let goal = provenance.goal().map_err(|message| RecordError::wrong(&path, message))?;
        let listed: Vec<Row<TrialRow>> = rows::read(&dir.join("trials.csv"))?;
        let mut trials = listed.iter().map(|row| trial(row, &experiment)).collect::<Result<Vec<_>, _>>()?;
        for row in rows::read::<CurveRow>(&dir.join("curves.csv"))? {
            let trial = of_trial(&mut trials, row.values.trial, &row)?;
            add_to_curve(&row, trial)?;
        }
        for row in rows::read_if_there::<ProbeRow>(&dir.join("probes.csv"))? {
            let quantiles = quantile_columns().iter().map(|column| row.number(column)).collect::<Result<_, _>>()?;
            row.values.add_to(of_trial(&mut trials, row.values.trial, &row)?, quantiles);
        }
        for row in rows::read_if_there::<SurfaceRow>(&dir.join("surfaces.csv"))? {
            let data = row.values.clone().data().map_err(|message| row.error(&message))?;
            of_trial(&mut trials, row.values.trial, &row)?.surfaces.push(data);
        }
        for row in rows::read_if_there::<SharpnessRow>(&dir.join("sharpness.csv"))? {
            of_trial(&mut trials, row.values.trial, &row)?.sharpness.push(row.values.clone().data());
        }
        for (row, trial) in listed.iter().zip(&trials) {
            check(row, trial, goal)?;
        }
        let evidence = Evidence::new(RunData { experiment, trials, damage: Vec::new() }, goal, None)?;
        Ok(RecordedRun { name, evidence, provenance, reduced })
    }
}

/// The trial with a number.
fn of_trial<'a, T>(trials: &'a mut [TrialData], number: usize, row: &Row<T>) -> Result<&'a mut TrialData, RecordError> {
    let trial = number.checked_sub(1).and_then(|index| trials.get_mut(index));
    trial.ok_or_else(|| row.error("`trial` is not the number of a line of trials.csv"))
}

/// How an experiment differs from the full scale of its preset, which is the published one for experiments of the study. One that is no
/// preset has only what the command line changed.
fn reduced(experiment: &Experiment, known: &dyn Names) -> Result<Vec<Difference>, RecordError> {
    if !presets().iter().any(|preset| preset.name == experiment.name) {
        return Ok(experiment.changed.clone());
    }
    let request = Request { experiment: experiment.name.clone(), scale: Some(Scale::Full), ..Request::default() };
    let published = Experiment::resolve(&request, known)?;
    Ok(experiment.design_differences(&published, known)?)
}

/// Writes what the record keeps of a run into a folder. Gives the run as it will be read from there.
pub(crate) fn write(
    store: &Store,
    dir: &Path,
    goal: Option<Goal>,
    known: &dyn Names,
) -> Result<RecordedRun, RecordError> {
    let path = dir.join("provenance.toml");
    let run: RunData = store.read_all()?.into();
    let goal = match goal {
        Some(goal) => goal,
        None if path.exists() => Provenance::read(&path)?.goal().map_err(|error| RecordError::wrong(&path, error))?,
        None => run.experiment.target.unwrap_or(GOAL),
    };
    let plan: Vec<TrialId> = run.trials.iter().map(|trial| trial.entry.id).collect();
    let evidence = Evidence::new(run, goal, None)?;
    if let Some(damage) = evidence.damage.first() {
        return Err(RecordError::Damaged { run: store.dir().to_owned(), damage: damage.text.clone() });
    }
    if evidence.trials().all(|observed| observed.measures.is_none()) {
        return Err(RecordError::Empty { run: store.dir().to_owned() });
    }
    // In the order of the plan, which that of the points may differ from.
    let mut observed: Vec<&Observed> = evidence.trials().collect();
    observed.sort_by_cached_key(|observed| plan.iter().position(|id| *id == observed.trial.entry.id));
    let listed: Vec<TrialRow> =
        (1..).zip(&observed).map(|(number, of)| TrialRow::new(number, &of.trial, of.measures.as_ref())).collect();
    let axes: Vec<&str> = observed[0].trial.entry.point.iter().map(|(path, _)| path.as_str()).collect();
    let place = |of: &&Observed| of.trial.entry.point.iter().map(|(_, value)| value.clone()).collect();
    let places: Vec<Vec<String>> = observed.iter().map(place).collect();
    create_folder(dir)?;
    let put = |name: &str, text: &str| match dir.join(name) {
        path if !text.is_empty() => write_whole(&path, text.as_bytes()).map_err(RecordError::from),
        old if old.exists() => std::fs::remove_file(&old).map_err(|error| RecordError::io(&old, &error)),
        _ => Ok(()),
    };
    put("experiment.toml", &evidence.experiment.to_toml())?;
    put("trials.csv", &to_csv_with(&listed, AXES_AT, &axes, &places))?;
    put("curves.csv", &curves((1..).zip(observed.iter().map(|of| &of.trial)), goal.quantity.base()))?;
    let (quantiles, probes): (Vec<Vec<String>>, Vec<ProbeRow>) = (1..)
        .zip(&observed)
        .flat_map(|(number, of)| of.trial.probes.iter().flat_map(move |probe| ProbeRow::all(number, probe)))
        .unzip();
    let columns = quantile_columns();
    put("probes.csv", &to_csv_with(&probes, usize::MAX, &columns.each_ref().map(String::as_str), &quantiles))?;
    put(
        "surfaces.csv",
        &all(&observed, |number, trial| trial.surfaces.iter().map(|data| SurfaceRow::new(number, data)).collect()),
    )?;
    put(
        "sharpness.csv",
        &all(&observed, |number, trial| trial.sharpness.iter().map(|data| SharpnessRow::new(number, data)).collect()),
    )?;
    // Last, because it has the checksum of the others.
    let provenance = Provenance { checksum: checksum(dir)?, ..Provenance::new(&evidence) };
    write_whole(&path, provenance.to_toml().as_bytes())?;
    RecordedRun::read(dir, known)
}

/// A file with some rows for each trial, given its number.
fn all<T: Serialize>(observed: &[&Observed], rows: impl Fn(usize, &TrialData) -> Vec<T>) -> String {
    let rows: Vec<T> = (1..).zip(observed).flat_map(|(number, of)| rows(number, &of.trial)).collect();
    to_csv(&rows)
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

/// A line of `trials.csv`. After the first three columns the file has one for each axis of the grid.
#[derive(Debug, Serialize, Deserialize)]
struct TrialRow {
    trial: usize,
    mechanism: String,
    seed: u64,
    task: String,
    state: State,
    planned_epochs: usize,
    epochs: usize,
    epochs_to_target: Option<Exact>,
    best_heldout_accuracy: Option<Exact>,
    best_epoch: Option<usize>,
    last_heldout_accuracy: Option<Exact>,
    majority: Option<Exact>,
    /// What is known of the data; runs that were added before that was written down do not say.
    train_floor: Option<Exact>,
    train_characters: Option<Exact>,
    heldout_floor: Option<Exact>,
    heldout_unigram: Option<Exact>,
    heldout_characters: Option<Exact>,
    /// Independent held-out sequences; runs that were added before copies were counted do not say.
    heldout_sequences: Option<usize>,
    test_accuracy: Option<Exact>,
    test_sequences: Option<usize>,
    epoch_flops: Option<Rounded>,
    steps: Option<u64>,
    seconds: Rounded,
}

const AXES_AT: usize = 3;

/// What follows from the curve of a trial: columns of [`TrialRow`] and what is in them.
fn summary(row: &TrialRow) -> [(&'static str, String); 5] {
    let text = |value: Option<Exact>| value.map_or_else(String::new, |value| value.0.to_string());
    [
        ("epochs", row.epochs.to_string()),
        ("epochs_to_target", text(row.epochs_to_target)),
        ("best_heldout_accuracy", text(row.best_heldout_accuracy)),
        ("best_epoch", row.best_epoch.map_or_else(String::new, |epoch| epoch.to_string())),
        ("last_heldout_accuracy", text(row.last_heldout_accuracy)),
    ]
}

impl TrialRow {
    fn new(number: usize, trial: &TrialData, measures: Option<&Measures>) -> Self {
        let DataFacts { train, held_out, .. } = trial.data_facts();
        let time = measures.map(|measures| measures.time_to_target).filter(|time| time.reached);
        TrialRow {
            trial: number,
            mechanism: trial.entry.mechanism.clone(),
            seed: trial.entry.seed,
            task: trial.entry.task.clone(),
            state: trial.state,
            planned_epochs: trial.entry.epochs,
            epochs: measures.map_or(0, |measures| measures.epochs),
            epochs_to_target: time.map(|time| Exact(time.time)),
            best_heldout_accuracy: measures.map(|measures| Exact(measures.best_heldout_accuracy)),
            best_epoch: measures.map(|measures| measures.best_epoch),
            last_heldout_accuracy: measures.map(|measures| Exact(measures.last_heldout_accuracy)),
            majority: trial.majority.map(Exact),
            train_floor: train.floor.map(Exact),
            train_characters: train.characters.map(Exact),
            heldout_floor: held_out.floor.map(Exact),
            heldout_unigram: held_out.unigram.map(Exact),
            heldout_characters: held_out.characters.map(Exact),
            heldout_sequences: trial.held_out,
            test_accuracy: trial.test_accuracy.map(Exact),
            test_sequences: trial.test_split,
            epoch_flops: trial.epoch_flops.map(rows::Rounded),
            steps: trial.steps,
            seconds: rows::Rounded(trial.curve_from_start().filter_map(|point| point.seconds).sum()),
        }
    }
}

impl TrialRow {
    /// What the record keeps of the facts about the data: what losses on training and held-out examples are read by.
    fn facts(&self) -> Option<DataFacts> {
        let number = |value: &Option<Exact>| value.as_ref().map(|value| value.0);
        let train = SplitFacts {
            floor: number(&self.train_floor),
            characters: number(&self.train_characters),
            ..SplitFacts::default()
        };
        let held_out = SplitFacts {
            floor: number(&self.heldout_floor),
            unigram: number(&self.heldout_unigram),
            characters: number(&self.heldout_characters),
        };
        let facts = DataFacts { train, held_out, ..DataFacts::default() };
        (facts != DataFacts::default()).then_some(facts)
    }
}

/// A trial without its curve.
fn trial(row: &Row<TrialRow>, experiment: &Experiment) -> Result<TrialData, RecordError> {
    let TrialRow { mechanism, seed, .. } = &row.values;
    let written = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut place = None;
    for point in experiment.points() {
        let mut is_here = true;
        for (path, value) in &point {
            is_here &= row.text(path)? == written(value);
        }
        if is_here {
            place = Some(point);
        }
    }
    let place = place.ok_or_else(|| row.error("experiment.toml has no such point of the grid"))?;
    if !experiment.mechanisms.contains(mechanism) || !experiment.seeds.contains(seed) {
        return Err(row.error("experiment.toml has no such mechanism or seed"));
    }
    let settings = experiment.settings_at(&place, mechanism, *seed)?;
    let entry = IndexEntry {
        id: TrialId::new(&settings),
        epochs: row.values.planned_epochs,
        task: row.values.task.clone(),
        mechanism: mechanism.clone(),
        seed: *seed,
        point: place.iter().map(|(path, value)| ((*path).to_owned(), written(value))).collect(),
    };
    Ok(TrialData {
        settings: Some(settings),
        state: row.values.state,
        steps: row.values.steps,
        epoch_flops: row.values.epoch_flops.map(|flops| flops.0),
        majority: row.values.majority.map(|share| share.0),
        held_out: row.values.heldout_sequences,
        facts: row.values.facts(),
        test_split: row.values.test_sequences,
        test_accuracy: row.values.test_accuracy.map(|accuracy| accuracy.0),
        ..TrialData::new(entry)
    })
}

/// Checks what follows from the curve of a trial.
fn check(row: &Row<TrialRow>, trial: &TrialData, goal: Goal) -> Result<(), RecordError> {
    let target = goal.threshold(&trial.data_facts()).map_err(|unknown| row.error(&unknown.to_string()))?;
    let expected = TrialRow::new(row.values.trial, trial, Measures::new(trial, target).as_ref());
    for ((column, found), (_, expected)) in summary(&row.values).into_iter().zip(summary(&expected)) {
        if found != expected {
            return Err(row.error(&format!("`{column}` is `{found}`, but the curve in curves.csv gives `{expected}`")));
        }
    }
    Ok(())
}

/// A line of `curves.csv`. After these columns the file has one for each metric of quality.
#[derive(Debug, Serialize, Deserialize)]
struct CurveRow {
    trial: usize,
    epoch: usize,
}

const METRICS_AT: usize = 2;

/// The file `curves.csv`, in which the metric of the target keeps all its digits.
fn curves<'a>(trials: impl Iterator<Item = (usize, &'a TrialData)>, of_target: Metric) -> String {
    let points = trials.flat_map(|(number, trial)| trial.curve_from_start().map(move |point| (number, point)));
    let (rows, cells): (Vec<CurveRow>, Vec<Vec<String>>) = points
        .map(|(trial, CurvePoint { epoch, metrics, .. })| {
            let cell = |info: &MetricInfo| match metrics[info.metric] {
                exact if info.is_share || info.metric == of_target => exact.to_string(),
                loss => rows::rounded(loss, LOSS_DIGITS),
            };
            (CurveRow { trial, epoch: *epoch }, Metric::of_quality().map(cell).collect())
        })
        .unzip();
    let names: Vec<&str> = Metric::of_quality().map(|info| info.name).collect();
    to_csv_with(&rows, METRICS_AT, &names, &cells)
}

/// Adds a line to the curve of its trial.
fn add_to_curve(row: &Row<CurveRow>, trial: &mut TrialData) -> Result<(), RecordError> {
    let mut metrics = Metrics::new(|_| f64::NAN);
    for info in Metric::of_quality() {
        let value = row.text(info.name)?.parse();
        metrics[info.metric] = value.map_err(|_| row.error(&format!("`{}`: expected a number", info.name)))?;
    }
    let point = CurvePoint { epoch: row.values.epoch, metrics, seconds: None };
    match point.epoch {
        0 if trial.untrained.is_none() && trial.curve.is_empty() => trial.untrained = Some(point),
        epoch if epoch == trial.curve.len() + 1 => trial.curve.push(point),
        _ => return Err(row.error("expected the next epoch of the trial")),
    }
    Ok(())
}

/// The statistics of scores that the conditions of the theory are about.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Statistic {
    Dispersion,
    Separation,
    Sink,
}

impl Statistic {
    const ALL: [Statistic; 3] = [Statistic::Dispersion, Statistic::Separation, Statistic::Sink];

    fn of(self, summary: &mut Summary) -> &mut Vec<f64> {
        match self {
            Statistic::Dispersion => &mut summary.dispersion,
            Statistic::Separation => &mut summary.separation,
            Statistic::Sink => &mut summary.sink,
        }
    }
}

/// A line of `probes.csv`. After these columns the file has one for each of the [`QUANTILES`] of the statistic.
#[derive(Debug, Serialize, Deserialize)]
struct ProbeRow {
    trial: usize,
    epoch: usize,
    samples: usize,
    length: usize,
    kept: usize,
    min_kept: usize,
    statistic: Statistic,
}

fn quantile_columns() -> [String; QUANTILES.len()] {
    QUANTILES.map(|share| format!("q{share}"))
}

impl ProbeRow {
    /// The rows of a probe, each with its quantiles.
    fn all(trial: usize, probe: &ProbeRecord) -> Vec<(Vec<String>, Self)> {
        // The conditions speak of softmax only, and the record keeps no layers that would say what they are.
        let is_softmax = probe.layers.iter().all(|layer| layer.is_softmax);
        let kept = Statistic::ALL.into_iter().filter(|statistic| *statistic != Statistic::Separation || is_softmax);
        let ProbeRecord { epoch, samples, length, kept: keys, min_kept, .. } = *probe;
        let mut pooled = probe.pooled.clone();
        let row = |statistic: Statistic| {
            let quantiles: Vec<String> = statistic.of(&mut pooled).iter().map(|value| rounded(*value, 4)).collect();
            let row = ProbeRow { trial, epoch, samples, length, kept: keys, min_kept, statistic };
            (quantiles.len() == QUANTILES.len()).then_some((quantiles, row))
        };
        kept.filter_map(row).collect()
    }

    fn add_to(&self, trial: &mut TrialData, quantiles: Vec<f64>) {
        let Self { epoch, samples, length, kept, min_kept, statistic, .. } = *self;
        if trial.probes.last().is_none_or(|probe| probe.epoch != epoch) {
            let (pooled, layers, seconds, norms) = (Summary::default(), Vec::new(), None, None);
            trial.probes.push(ProbeRecord {
                epoch,
                samples,
                length,
                kept,
                min_kept,
                seconds,
                pooled,
                layers,
                norms,
                asks_at_tokens: false,
            });
        }
        if let Some(probe) = trial.probes.last_mut() {
            *statistic.of(&mut probe.pooled) = quantiles;
        }
    }
}

/// A line of `surfaces.csv`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SurfaceRow {
    trial: usize,
    epoch: usize,
    directions: String,
    seed: u64,
    draw: usize,
    side: usize,
    range: Exact,
    samples: usize,
    attention_dropout: bool,
    losses: Losses,
}

impl SurfaceRow {
    fn new(trial: usize, SurfaceData { settings, losses }: &SurfaceData) -> Self {
        let SurfaceSettings { epoch, directions, seed, draw, grid, samples, attention_dropout, .. } = settings.clone();
        let (side, range, losses) = (grid.side, Exact(grid.range), List(losses.clone()));
        SurfaceRow { trial, epoch, directions, seed, draw, side, range, samples, attention_dropout, losses }
    }

    fn data(self) -> Result<SurfaceData, String> {
        let SurfaceRow { epoch, directions, seed, draw, samples, attention_dropout, losses, .. } = self;
        let (grid, losses) = (Grid { side: self.side, range: self.range.0 }, losses.0);
        if losses.len() != grid.cells() {
            return Err(format!("expected {} losses, one for each cell", grid.cells()));
        }
        let (weights, path) = (String::new(), Vec::new());
        let settings =
            SurfaceSettings { epoch, weights, directions, seed, draw, grid, samples, attention_dropout, path };
        Ok(SurfaceData { settings, losses })
    }
}

/// A line of `sharpness.csv`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SharpnessRow {
    trial: usize,
    epoch: usize,
    samples: usize,
    exact: bool,
    probes: usize,
    loss: Rounded,
    trace: Rounded,
    trace_error: Rounded,
    eigenvalues: List<4>,
}

impl SharpnessRow {
    fn new(trial: usize, data: &SharpnessData) -> Self {
        let SharpnessData { epoch, samples, exact, probes, eigenvalues, .. } = data.clone();
        let [loss, trace, trace_error] = [data.loss, data.trace, data.trace_error].map(rows::Rounded);
        SharpnessRow { trial, epoch, samples, exact, probes, loss, trace, trace_error, eigenvalues: List(eigenvalues) }
    }

    fn data(self) -> SharpnessData {
        let SharpnessRow { epoch, samples, exact, probes, eigenvalues, .. } = self;
        let [loss, trace, trace_error] = [self.loss, self.trace, self.trace_error].map(|number| number.0);
        SharpnessData { epoch, samples, exact, probes, loss, trace, trace_error, eigenvalues: eigenvalues.0 }
    }
}
