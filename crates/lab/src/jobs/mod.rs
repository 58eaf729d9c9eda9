//! Jobs: training and all measurements are jobs of one system.
//!
//! A job knows its folder, whether anything is left to do, and how to do it. The [executor](Executor) does the rest for all of
//! them: it takes the lease of the folder, skips what is over, waits for other processes, shares the threads, catches
//! failures, and passes every [`Event`] on, to the observer and to `events.jsonl` in the folder.
//!
//! | to find | look in |
//! |---|---|
//! | many jobs side by side | [`Executor`], [`Sharing`] |
//! | whether there is time for another epoch | [`Deadline`] |
//! | training a trial | [`Train`] |
//! | where a trial continues | `resume.rs` |
//! | what measurements of a stored model have in common | [`Measuring`] |
//! | a probe of a stored model | [`Probe`] |
//! | the cells of a loss surface | [`Surface`] |
//! | Hessian eigenvalues of a stored model | [`MeasureSharpness`] |
//! | a stored model on other data | [`Evaluate`] |

mod deadline;
mod evaluate;
mod executor;
mod measuring;
mod probe;
mod resume;
mod sharpness;
mod surface;
mod train;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use semfocus_core::{Measurement, UnknownFact};
use semfocus_store::{End, Event, JobId, Lease, Session, State, StoreError};

pub use deadline::Deadline;
pub use evaluate::Evaluate;
pub use executor::{Executor, Observer, Sharing};
pub use measuring::{Measure, Measuring};
pub use probe::Probe;
pub use sharpness::MeasureSharpness;
pub use surface::Surface;
pub use train::Train;

use crate::surface::NotComparable;
use crate::surface::directions::NoPlane;
use crate::training::TrainingError;
use crate::{Device, Lab, ModelError, ModelRef, OtherCode, TrainedModel};

/// A piece of work that can be interrupted and resumed, and is done once.
pub trait Job: Sync {
    /// What it is known by.
    fn id(&self) -> JobId;

    /// What a person calls it.
    fn title(&self) -> String;

    /// The folder it writes to. It holds the lease of the folder while it runs.
    fn folder(&self) -> &Path;

    /// Units of work in all, as far as they are known before it starts: steps, cells, products.
    fn units(&self) -> usize;

    /// What its units are called.
    fn unit(&self) -> &'static str;

    /// Epochs that its units make; 0 if it does not train.
    fn epochs(&self) -> usize {
        0
    }

    /// Estimated bytes of memory that it needs on a number of threads; 0 if that is too little to matter.
    fn memory(&self, _threads: usize) -> u64 {
        0
    }

    /// How it ended, as far as a quick look tells: whether all its files are in order takes longer.
    fn seems_over(&self) -> Option<State> {
        None
    }

    /// Units that are on record before it starts, and the seconds they took if that is known, as far as a quick look tells.
    fn units_recorded(&self) -> (usize, f64) {
        (0, 0.0)
    }

    /// How it ended, if nothing is left to do.
    fn state_if_over(&self) -> Result<Option<State>, JobError>;

    /// Works to the end or until it is asked to stop.
    fn run(&self, context: &Context<'_>) -> Result<End, JobError>;

    /// Records that it failed, if readers of the store should know. The lease is that of its folder.
    fn note_failure(&self, _lease: &Lease, _message: &str) {}
}

/// The jobs of a measurement on these models. What is on record is not measured again.
pub fn jobs(measurement: &Measurement, models: &[ModelRef]) -> Result<Vec<Box<dyn Job>>, JobError> {
    fn boxed<J: Job + 'static>(jobs: Vec<J>) -> Vec<Box<dyn Job>> {
        jobs.into_iter().map(|job| Box::new(job) as Box<dyn Job>).collect()
    }
    Ok(match measurement {
        Measurement::Probe(options) => boxed(Probe::all(options, models)),
        Measurement::Surface(options) => boxed(Surface::all(options, models)?),
        Measurement::Sharpness(options) => boxed(MeasureSharpness::all(options, models)?),
        Measurement::Evaluate(options) => boxed(Evaluate::all(options, models)),
    })
}

/// What a job may use.
pub struct Context<'a> {
    /// Mechanisms and tasks.
    pub lab: &'a Lab,
    /// Where the arithmetic runs.
    pub device: &'a Device,
    /// This process.
    pub session: &'a Session,
    /// The threads it may use.
    pub threads: &'a dyn Threads,
    /// Set when it should stop soon.
    pub stop: &'a AtomicBool,
    /// The right to write into its folder.
    pub lease: &'a Lease,
    emit: &'a (dyn Fn(Event) + Sync),
}

impl Context<'_> {
    /// Passes an event on.
    pub fn emit(&self, event: Event) {
        (self.emit)(event);
    }

    /// Loads a model.
    pub fn load(&self, model: &ModelRef) -> Result<TrainedModel, JobError> {
        Ok(model.load(self.lab, self.device)?)
    }

    /// Tells a person something.
    pub fn warn(&self, text: String) {
        self.emit(Event::Warning { text });
    }

    /// Whether it should stop soon.
    pub fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Threads that a job may use. Asked for again for every epoch, so that a job that is left alone gets the cores of those
/// that are over; the results do not depend on it.
pub trait Threads: Sync {
    /// How many there are now.
    fn count(&self) -> usize;

    /// Runs work on them.
    fn run(&self, work: &mut (dyn FnMut() + Send));
}

/// Why a job failed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// It does not fit into the memory of the machine.
    #[error(
        "it needs about {} of memory, but this process has {}; give it more (`ulimit -v`, the memory of the job), or make the \
         model, the batch, the data or the sequences smaller",
        amount(*needed), amount(*limit)
    )]
    TooLarge {
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that there are.
        limit: u64,
    },
    /// Something is wrong with the files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Other code of a mechanism or task of one's own made what is on record.
    #[error("other code made what is on record: {}; choose a fresh folder, or add --accept-code", .0.in_words())]
    OtherCode(OtherCode),
    /// The trial could not be begun.
    #[error(transparent)]
    Training(#[from] TrainingError),
    /// Its target means nothing for its data.
    #[error(transparent)]
    Target(#[from] UnknownFact),
    /// There is no such model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// There is no such plane through the model.
    #[error(transparent)]
    Plane(#[from] NoPlane),
    /// The models cannot be compared.
    #[error(transparent)]
    NotComparable(#[from] NotComparable),
    /// The folder is that of the surface around the model after another epoch.
    #[error("{title}: only the model after epoch {epoch} can be read; `semfocus run RUN` repairs the trial")]
    OtherEpoch {
        /// What was to be measured.
        title: String,
        /// The epoch of the model that can be read.
        epoch: usize,
    },
    /// Nothing was saved during training.
    #[error("{} has no models saved during training: train with `-s probe_every=N`", .0.display())]
    NoPath(PathBuf),
    /// The data comes from a file.
    #[error("{0} comes from a file: its models cannot be evaluated with other settings of the data")]
    FixedData(String),
    /// There is no data.
    #[error(transparent)]
    Data(#[from] semfocus_tasks::GenerateError),
    /// The sharpness cannot be measured.
    #[error(transparent)]
    Sharpness(#[from] crate::surface::hessian::SharpnessError),
}

fn amount(bytes: u64) -> String {
    let (amount, unit) = if bytes < 1_000_000_000 { (1e-6, "MB") } else { (1e-9, "GB") };
    let amount = bytes as f64 * amount;
    if amount < 10.0 { format!("{amount:.1} {unit}") } else { format!("{amount:.0} {unit}") }
}
