//! A run of two trials that takes some hundredths of a second and writes every kind of file.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::noisy::NOISY;
use semfocus_core::{Experiment, Measurement, TrialSettings};
use semfocus_lab::jobs::{Executor, Job, JobError, Observer, Sharing, Train};
use semfocus_lab::{ChoiceError, ChosenModels, Device, Lab, Plan};
use semfocus_store::disk::{Answer, Operation, Watcher, watch};
use semfocus_store::{End, Event, JobId, Locks, Program, Session, State, Store, StoreError};

const EXPERIMENT: &str = r#"
name = "small"
claim = "Nothing: it is small."
task = "noisy"
mechanisms = ["full", "topk:2"]
seeds = 1
probe_every = 2
probe_samples = 3
data = { length = 6, train = 12, held_out = 6, test = 6 }
model = { blocks = 1, d_model = 4, d_mlp = 4, dropout = 0.1 }
training = { epochs = 3, momentum = 0.9, batch = 6, schedule = "cosine", warmup = 2 }
"#;

struct Nobody;

impl Observer for Nobody {
    fn event(&self, _job: &JobId, _event: &Event) {}
}

/// What every attack starts from.
pub(crate) struct SmallRun {
    lab: Lab,
    device: Device,
    experiment: Experiment,
    plan: Plan,
    /// A checkpoint after every step, not only after every epoch.
    saves_every_step: bool,
    locks: Locks,
}

impl SmallRun {
    pub(crate) fn new(saves_every_step: bool) -> Self {
        SmallRun { saves_every_step, ..SmallRun::with_seeds("1") }
    }

    /// The same with another line of seeds.
    pub(crate) fn with_seeds(seeds: &str) -> Self {
        let lab = Lab::standard().with(NOISY);
        let text = EXPERIMENT.replace("seeds = 1", &format!("seeds = {seeds}"));
        let experiment = Experiment::from_toml("small.toml", &text).unwrap();
        let plan = lab.plan(&experiment).unwrap();
        SmallRun { lab, device: Device::cpu(), experiment, plan, saves_every_step: false, locks: Locks::flock() }
    }

    /// The same with leases, as on file systems that several machines share.
    pub(crate) fn sharing_by_leases(self) -> Self {
        SmallRun { locks: Locks::lease(), ..self }
    }

    pub(crate) fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Runs it in a folder, or continues with what is there.
    pub(crate) fn train(&self, dir: &Path) -> Result<Vec<End>, StoreError> {
        let created = Store::create(dir, &self.experiment, &self.plan.index(), &self.locks, &mut |_| true)?;
        let store = created.expect("it waits for other processes").store;
        let save_every = if self.saves_every_step { Duration::ZERO } else { Duration::MAX };
        let job =
            |trial: &semfocus_lab::Trial| Train::new(trial.clone(), store.trial(trial.id)).saving_every(save_every);
        let jobs: Vec<Train> = self.plan.trials.iter().map(job).collect();
        Ok(self.execute(&jobs.iter().map(|job| job as &dyn Job).collect::<Vec<_>>()))
    }

    /// Makes a measurement on its trained models.
    pub(crate) fn measure(&self, dir: &Path, measurement: &Measurement) -> Result<Vec<End>, JobError> {
        let mut chosen = ChosenModels::default();
        chosen.of_run(&self.lab, &Store::open(dir)?, measurement.models()).map_err(|error| match error {
            ChoiceError::Store(error) => JobError::Store(error),
            other => panic!("{other}"),
        })?;
        let jobs = semfocus_lab::jobs::jobs(measurement, &chosen.models)?;
        Ok(self.execute(&jobs.iter().map(|job| &**job).collect::<Vec<_>>()))
    }

    fn execute(&self, jobs: &[&dyn Job]) -> Vec<End> {
        let text = || "test".to_owned();
        let program = Program { version: text(), commit: None, instruction_set: text(), device: text(), own: None };
        let sharing = Sharing { threads: 1, jobs: 1 };
        let session = Session::here(program, 1, 1);
        let stop = AtomicBool::new(false);
        let executor = Executor {
            lab: &self.lab,
            device: &self.device,
            session,
            sharing,
            stop: &stop,
            memory: None,
            locks: &self.locks,
            observer: &Nobody,
        };
        executor.run(jobs).into_iter().flatten().collect()
    }

    /// Runs it to the end and gives its results. Panics if it does not get there.
    pub(crate) fn finish(&self, dir: &Path, context: &dyn std::fmt::Display) -> Results {
        let ends = self.train(dir).unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(ends, vec![End::Over(State::Finished); 2], "{context}");
        results(dir)
    }
}

/// The contents of the files of a run that are the same whenever it is repeated, times left out.
pub(crate) type Results = BTreeMap<PathBuf, Vec<u8>>;

pub(crate) fn results(dir: &Path) -> Results {
    let mut results = Results::new();
    for path in files(dir) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let contents = std::fs::read(dir.join(&path)).unwrap();
        let text = || String::from_utf8(contents.clone()).unwrap();
        let contents = match name {
            "experiment.toml" | "trials.csv" | "slices.csv" | "last.safetensors" | "best.safetensors" => contents,
            // The order of its lines means nothing, and the id vouches for the settings that results depend on.
            "trial.toml" => {
                let settings = TrialSettings::from_table(&text().parse().unwrap()).unwrap();
                settings.to_table_of_results().to_string().into_bytes()
            }
            "epochs.csv" => without_times(&text()).into_bytes(),
            "probes.jsonl" | "status.json" => without_fields(&text()).into_bytes(),
            _ if name.starts_with("epoch-") && name.ends_with(".safetensors") => contents,
            _ => continue,
        };
        results.insert(path, contents);
    }
    results
}

/// Asserts that two runs have the same results, and shows the first files that differ.
pub(crate) fn assert_same(found: &Results, expected: &Results, context: &str) {
    let all: BTreeSet<&PathBuf> = found.keys().chain(expected.keys()).collect();
    let differs = |path: &&&PathBuf| found.get(**path) != expected.get(**path);
    let shown = |path: &&PathBuf| {
        let text = |results: &Results| {
            results.get(*path).map(|bytes| String::from_utf8_lossy(bytes).chars().take(2000).collect::<String>())
        };
        format!("{}: {:?} instead of {:?}", path.display(), text(found), text(expected))
    };
    let different: Vec<String> = all.iter().filter(differs).take(3).map(shown).collect();
    assert!(different.is_empty(), "{context}: {}", different.join("; "));
}

/// The paths of all files below a folder.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    fn collect(dir: &Path, below: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            if entry.path().is_dir() { collect(&entry.path(), &path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    if !dir.exists() {
        return found;
    }
    collect(dir, Path::new(""), &mut found);
    found.sort();
    found
}

/// Files that were set aside.
pub(crate) fn refused(dir: &Path) -> Vec<PathBuf> {
    files(dir).into_iter().filter(|path| path.to_string_lossy().contains(".refused")).collect()
}

/// `epochs.csv` without the columns `seconds` and `check`.
fn without_times(text: &str) -> String {
    let columns: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    let line = |line: &str| {
        let fields = line.split(',').zip(&columns).filter(|(_, name)| !["seconds", "check"].contains(name));
        fields.map(|(field, _)| field).collect::<Vec<_>>().join(",") + "\n"
    };
    text.lines().map(line).collect()
}

/// JSON, whole or line by line, without the fields that tell the time or depend on it.
fn without_fields(text: &str) -> String {
    fn clean(value: &mut serde_json::Value) {
        if let Some(fields) = value.as_object_mut() {
            // A field that is absent means the same as one without a value.
            fields.retain(|name, value| !["seconds", "check", "updated"].contains(&name.as_str()) && !value.is_null());
            fields.values_mut().for_each(clean);
        }
    }
    let values = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let shown = values.map(|value| {
        let mut value = value.unwrap();
        clean(&mut value);
        value.to_string() + "\n"
    });
    shown.collect()
}

/// Changes a digit near the end of a file.
pub(crate) fn change_a_digit(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
    bytes[digits[digits.len() * 3 / 4]] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// The folders of the trials of a run.
pub(crate) fn trials(dir: &Path) -> Vec<PathBuf> {
    let store = Store::at(dir);
    let mut found: Vec<PathBuf> =
        store.index().unwrap().iter().map(|entry| store.trial(entry.id).path().to_owned()).collect();
    found.sort();
    found
}

/// Copies a folder with everything in it, empty folders too: they say which claims were given up.
pub(crate) fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, target).unwrap();
        }
    }
}

/// A watcher that is a function of the number of the operation.
struct Counting<F>(Mutex<usize>, F);

impl<F: Fn(usize, &Operation<'_>) -> Answer + Send + Sync> Watcher for Counting<F> {
    fn before(&self, operation: &Operation<'_>) -> Answer {
        let number = {
            let mut count = self.0.lock().unwrap();
            *count += 1;
            *count - 1
        };
        (self.1)(number, operation)
    }
}

/// Watches the operations below a folder while something is done; gives its result and the number of operations.
pub(crate) fn watched<T>(
    dir: &Path,
    answer: impl Fn(usize, &Operation<'_>) -> Answer + Send + Sync + 'static,
    work: impl FnOnce() -> T,
) -> (T, usize) {
    let watcher = Arc::new(Counting(Mutex::new(0), answer));
    let guard = watch(dir, watcher.clone());
    let result = work();
    drop(guard);
    let count = *watcher.0.lock().unwrap();
    (result, count)
}

/// An error that the system may give for any operation.
pub(crate) fn system_error(number: usize) -> io::Error {
    let codes = [libc::EIO, libc::EMFILE, libc::ENOSPC, libc::EACCES, libc::ENOMEM];
    io::Error::from_raw_os_error(codes[number % codes.len()])
}
