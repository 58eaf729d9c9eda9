//! Targets of fuzzing: everything that reads what anybody may have written. A target panics if the program would, or if what
//! it accepts does not come back the same.
//!
//! `cargo fuzz run NAME` in the folder `fuzz` tries them for as long as one likes, with a nightly compiler. The tests of this
//! crate try each with a bounded number of mutated examples.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use semfocus_core::mechanism::split_list;
use semfocus_core::{AnyName, DataSettings, Experiment, Goal, Request, Schedule, TrialSettings};
use semfocus_fixture::{Fixture, Scratch, jump, probe};
use semfocus_store::checkpoint::{Progress, Values};
use semfocus_store::{Checkpoint, Contents, State, Store, StoredTrial};
use semfocus_tasks::{Lines, OwnData};

/// A target.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What is tried.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub examples: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "experiment", run: experiment, examples: experiment_examples },
    Target { name: "setting", run: setting, examples: || texts(&["model.blocks=3", "data.length=20..40", "seeds=2"]) },
    Target {
        name: "data",
        run: data,
        examples: || {
            texts(&["Source,Target\n0 1 1,1\n1 0,0\n", "{\"tokens\":[1,2],\"label\":0}\n", "1 2\t0\n2 1\t1\n"])
        },
    },
    Target {
        name: "mechanism",
        run: mechanism,
        examples: || texts(&["topk:5,ties=random", "banded:3+g2", "full@0,moba:block=8,k=2@10", "topp:0.9/full"]),
    },
    Target { name: "goal", run: goal, examples: || texts(&["train_accuracy >= 0.95", "heldout_loss<=1e-3"]) },
    Target { name: "store", run: store, examples: store_examples },
    Target { name: "checkpoint", run: checkpoint, examples: checkpoint_examples },
];

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// An experiment file. One that is accepted is written and read again.
pub fn experiment(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(experiment) = Experiment::from_toml("fuzzed.toml", text) else { return };
    let again = Experiment::from_toml("again.toml", &experiment.to_toml()).expect("what is written can be read");
    assert_eq!(again.to_toml(), experiment.to_toml());
    let points = experiment.points();
    if let (Some(point), Some(mechanism), Some(seed)) =
        (points.first(), experiment.mechanisms.first(), experiment.seeds.first())
        && let Ok(settings) = experiment.settings_at(point, mechanism, *seed)
    {
        let table = settings.to_table();
        let again = TrialSettings::from_table(&table).expect("what is written can be read");
        assert_eq!(again, settings);
    }
}

fn experiment_examples() -> Vec<Vec<u8>> {
    let own = "claim = \"x\"\ntask = \"parity\"\nmechanisms = [\"full\", \"topk:3\"]\nseeds = [1, 2]\n[grid]\n\
               model.blocks = [1, 2]\n[scale.quick]\ntraining.epochs = 3\n[model]\nd_model = 16\n";
    texts(&[own, "base = \"even-pairs\"\n[training]\nstop_when = \"train_accuracy >= 0.9\"\n"])
}

/// A setting on the command line.
pub fn setting(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let request =
        Request { experiment: "even-pairs".to_owned(), overrides: vec![text.to_owned()], ..Request::default() };
    let _ = Experiment::resolve(&request, &AnyName);
}

/// A data file.
pub fn data(input: &[u8]) {
    let Ok(own) = OwnData::parse("fuzzed".to_owned(), Lines::new("fuzzed", input)) else { return };
    assert!(own.iter().all(|(tokens, _)| tokens.len() <= own.length()));
    if own.len() <= 1000 && own.length() <= 1000 {
        let _ = own.dataset(&DataSettings::default(), 1);
    }
}

/// The attention of a model. One that is accepted is written and read again, alone and in a list.
pub fn mechanism(input: &[u8]) {
    let Some(schedule) = std::str::from_utf8(input).ok().and_then(|text| text.parse::<Schedule>().ok()) else {
        return;
    };
    let text = schedule.to_string();
    assert_eq!(text.parse::<Schedule>().as_ref(), Ok(&schedule));
    assert_eq!(split_list(&format!("full,{text},full")), ["full", &text, "full"]);
}

/// A target. One that is accepted is written and read again.
pub fn goal(input: &[u8]) {
    let Some(goal) = std::str::from_utf8(input).ok().and_then(|text| text.parse::<Goal>().ok()) else { return };
    assert_eq!(goal.to_string().parse::<Goal>().as_ref(), Ok(&goal));
}

/// A file of a run: the first byte says which, the rest is its contents. Reading accepts what was written, or says what is
/// wrong.
pub fn store(input: &[u8]) {
    let Some((kind, contents)) = input.split_first() else { return };
    // One run for each thread that fuzzes.
    thread_local! { static RUN: Run = Run::new(); }
    RUN.with(|run| run.read_with(&run.files[usize::from(*kind) % run.files.len()], contents));
}

/// A finished run, and what reading it gives.
struct Run {
    folder: Scratch,
    files: Vec<PathBuf>,
    shown: Vec<String>,
}

impl Run {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let folder = Scratch::new(&format!("fuzzed-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let text =
            "claim = \"x\"\ntask = \"parity\"\nmechanisms = [\"full\", \"topk:2\"]\nseeds = 1\ntraining.epochs = 2\n";
        let experiment = Experiment::from_toml("small.toml", text).expect("the example is right");
        let invent = |_: &TrialSettings| {
            let records = vec![jump(1, Some(2), 0.75), jump(2, Some(2), 0.75)];
            Some(Fixture { records, state: State::Finished, probes: vec![probe(2, 2, 1.0, Some(0.5), 2.0)] })
        };
        let store = semfocus_fixture::store(folder.path(), &experiment, invent).expect("the folder can be written");
        let read = store.read().expect("the example is right");
        assert!(read.damage.is_empty(), "{:?}", read.damage);
        let trial = read.trials[0].folder.path().strip_prefix(folder.path()).expect("it is in the folder").to_owned();
        let of_trial = ["trial.toml", "epochs.csv", "status.json", "probes.jsonl"].map(|name| trial.join(name));
        let files = ["experiment.toml", "trials.csv"].map(PathBuf::from).into_iter().chain(of_trial).collect();
        Run { folder, files, shown: shown(&read) }
    }

    /// Reads the run with other contents of a file.
    fn read_with(&self, file: &Path, contents: &[u8]) {
        let path = self.folder.path().join(file);
        let before = std::fs::read(&path).expect("the example is there");
        std::fs::write(&path, contents).expect("the example can be changed");
        let store = Store::open(self.folder.path()).expect("it has an experiment");
        let _ = store.damage();
        if let Ok(read) = store.read()
            && read.damage.is_empty()
        {
            let is_old_format = !contents.windows(5).any(|text| text == b"check");
            assert!(
                shown(&read) == self.shown || is_old_format,
                "{} was accepted: {}",
                file.display(),
                String::from_utf8_lossy(contents)
            );
        }
        std::fs::write(&path, before).expect("the example can be changed back");
    }
}

/// What results are computed from.
fn shown(read: &Contents) -> Vec<String> {
    let trial =
        |trial: &StoredTrial| format!("{:?} {:?} {:?} {:?}", trial.entry, trial.state, trial.records, trial.probes);
    read.trials.iter().map(trial).collect()
}

fn store_examples() -> Vec<Vec<u8>> {
    let run = Run::new();
    let example = |(kind, file): (usize, &PathBuf)| {
        let contents = std::fs::read(run.folder.path().join(file)).expect("the example is there");
        [vec![kind as u8], contents].concat()
    };
    run.files.iter().enumerate().map(example).collect()
}

/// A checkpoint. One that is accepted is written and read again.
pub fn checkpoint(input: &[u8]) {
    let Ok(checkpoint) = Checkpoint::from_bytes(input, None) else { return };
    let again =
        Checkpoint::from_bytes(&checkpoint.to_bytes(), Some(checkpoint.trial)).expect("what is written can be read");
    // NaN is not equal to itself.
    assert_eq!(again.to_bytes(), checkpoint.to_bytes());
}

fn checkpoint_examples() -> Vec<Vec<u8>> {
    let checkpoint = Checkpoint {
        trial: "a1".parse().expect("it is an id"),
        settings: "task = \"parity\"\n".to_owned(),
        progress: Progress { epoch: 2, step: 1, total_steps: 9, ..Progress::default() },
        record: Some("00".to_owned()),
        optimizer_steps: 9,
        tensors: [("embedding".to_owned(), Values { shape: vec![2, 3], values: vec![0.5; 6] })].into(),
    };
    vec![checkpoint.to_bytes()]
}
