//! What a run leaves on the disk, stores of programs with other mechanisms, and devices that are not there.

mod common;

use std::path::Path;
use std::process::Command;

use common::{SMALL, Scratch, semfocus, trials};
use semfocus_core::TrialSettings;
use semfocus_fixture::{Fixture, jump};
use semfocus_store::{State, Store};

#[test]
fn a_run_writes_nothing_outside_its_folder() {
    let scratch = Scratch::new("outside");
    for name in ["home", "tmp", "work"] {
        std::fs::create_dir(scratch.path(name)).unwrap();
    }
    scratch.file("work/small.toml", &SMALL.replace("epochs = 12", "epochs = 2"));
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(scratch.path(folder)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let program = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semfocus"));
        command.args(arguments).current_dir(scratch.path("work")).stdin(std::process::Stdio::null());
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
            command.env(name, scratch.path("home"));
        }
        let output = command.env("TMPDIR", scratch.path("tmp")).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    program(&["run", "small.toml", "-o", "run", "-s", "probe_every=1"]);
    program(&["landscape", "run", "--grid", "3", "--samples", "10"]);
    program(&["sharpness", "run", "--samples", "5", "--probes", "2"]);
    program(&["report", "run"]);
    // Only the cache of step times is elsewhere.
    assert_eq!(
        (names("home"), names("home/semfocus"), names("tmp")),
        (vec!["semfocus".to_owned()], vec!["step-costs.toml".to_owned()], Vec::new())
    );
    assert_eq!(names("work"), ["run", "small.toml"]);
    assert_eq!(names(""), ["home", "tmp", "work"]);
    // Inside, there is what the page on files says, and nothing half-written.
    assert_eq!(names("work/run"), ["experiment.toml", "figures", "report.html", "tables", "trials", "trials.csv"]);
}

/// The experiment of a file as a fixture takes it.
fn invented(dir: &str, state: impl Fn(&TrialSettings) -> State) {
    let request = semfocus_core::Request { experiment: "even-pairs".to_owned(), seeds: Some(2), ..Default::default() };
    let experiment = semfocus_core::Experiment::resolve(&request, &semfocus_lab::Lab::standard()).unwrap();
    let invent = |settings: &TrialSettings| {
        let at = match settings.mechanism.as_str() {
            "full" => 9,
            "topk:5" => 4,
            _ => 30,
        };
        let state = state(settings);
        let epochs = if state == State::Failed { 10 } else { 16 };
        let records = (1..=epochs).map(|epoch| jump(epoch, Some(at), 1.0)).collect();
        Some(Fixture { records, state, probes: Vec::new() })
    };
    semfocus_fixture::store(Path::new(dir), &experiment, invent).unwrap();
}

#[test]
fn without_a_test_no_mechanism_is_called_faster() {
    let scratch = Scratch::new("status-untested");
    std::fs::create_dir(scratch.path("runs")).unwrap();
    invented(&scratch.path("runs/two-seeds"), |_| State::Finished);
    let line = common::semfocus_in(&scratch.path(""), &["status"], "").stdout;
    assert!(line.contains("topk:5: 2 of 2 seeds faster (2.2×)") && line.contains("not tested"), "{line}");
    assert!(line.contains("banded:5: 0 of 2 seeds faster") && !line.contains(">1.0×"), "{line}");
}

#[test]
fn failures_come_first_and_nothing_is_concluded() {
    let scratch = Scratch::new("failed-first");
    let dir = scratch.path("run");
    invented(&dir, |settings| if settings.mechanism == "topk:5" { State::Failed } else { State::Finished });
    let output = semfocus(&["compare", &dir]);
    let first = output.stdout.lines().find(|line| {
        !["experiment", "reduced", "changed", "missing", "   "].iter().any(|label| line.starts_with(label))
    });
    assert!(first.unwrap().starts_with("failed     2 of 8 trials: topk:5 seed 1, topk:5 seed 2."), "{}", output.stdout);
    for conclusion in ["answer", "claim", "learns ", "Train longer", "faster with"] {
        assert!(!output.stdout.contains(conclusion), "{conclusion}: {}", output.stdout);
    }
}

#[test]
fn all_runs_of_a_folder_can_be_watched() {
    let scratch = Scratch::new("watch-all");
    std::fs::create_dir(scratch.path("runs")).unwrap();
    for name in ["one", "two"] {
        invented(&scratch.path(&format!("runs/{name}")), |_| State::Finished);
    }
    let output = common::semfocus_in(&scratch.path(""), &["status", "--watch"], "");
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    for name in ["runs/one", "runs/two"] {
        let line =
            output.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{}", output.stdout));
        assert!(line.contains("8 of 8") && line.contains("128 of 128"), "{line}");
    }
}

#[test]
fn where_a_trial_is_needed_a_run_is_told_from_a_missing_folder() {
    let scratch = Scratch::new("run-for-trial");
    let dir = scratch.path("run");
    invented(&dir, |_| State::Finished);
    let name = trials(&dir)[0].file_name().unwrap().to_str().unwrap()[..8].to_owned();
    for command in ["show", "predict"] {
        let output = semfocus(&[command, &dir]);
        assert_eq!((output.code, output.stdout.as_str()), (1, ""));
        let message = format!("{dir} is a run; name one of its trials\n");
        assert!(output.stderr.contains(&message), "{}", output.stderr);
        assert!(output.stderr.contains(&format!("\n  {dir}/{name}  ")), "{name}: {}", output.stderr);
    }
    // What it lists can be shown.
    assert_eq!(semfocus(&["show", &format!("{dir}/{name}")]).code, 0);
}

#[test]
fn the_best_epoch_and_that_of_the_target_are_shown() {
    let scratch = Scratch::new("show-epochs");
    let dir = scratch.path("run");
    let text = SMALL.replace("epochs = 12", "epochs = 60");
    let experiment = semfocus_core::Request { experiment: scratch.file("small.toml", &text), ..Default::default() };
    let experiment = semfocus_core::Experiment::resolve(&experiment, &semfocus_lab::Lab::standard()).unwrap();
    let records = || (1..=60).map(|epoch| jump(epoch, Some(15), 0.9)).collect();
    let invent = |_: &TrialSettings| Some(Fixture { records: records(), state: State::Finished, probes: Vec::new() });
    semfocus_fixture::store(Path::new(&dir), &experiment, invent).unwrap();
    let shown = semfocus(&["show", trials(&dir)[0].to_str().unwrap()]).stdout;
    let epochs = shown.lines().filter_map(|line| line.trim_start().split(' ').next()?.parse::<usize>().ok());
    let epochs: Vec<usize> = epochs.collect();
    assert_eq!(epochs.iter().filter(|epoch| [14, 15, 16].contains(epoch)).collect::<Vec<_>>(), [&15, &16], "{shown}");
    assert!(epochs.contains(&60) && shown.contains("Of 60 epochs, one in 3 is shown"), "{shown}");
}

/// A finished run with trials of `magic:3`, as a program with another mechanism would have written it.
fn foreign(scratch: &Scratch) -> String {
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let arguments = ["--epochs", "2", "--mechanisms", "full", "-s", "probe_every=1", "--quiet"];
    let output = semfocus(&[&["run", &file, "-o", &dir], &arguments[..]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    let mut experiment = Store::open(Path::new(&dir)).unwrap().experiment().unwrap();
    experiment.mechanisms.push("magic:3".to_owned());
    let invent = |settings: &TrialSettings| {
        let records = (1..=2).map(|epoch| jump(epoch, None, 0.5)).collect();
        (settings.mechanism == "magic:3").then(|| Fixture { records, state: State::Finished, probes: Vec::new() })
    };
    let known = trials(&dir).remove(0);
    semfocus_fixture::store(Path::new(&dir), &experiment, invent).unwrap();
    for (trial, name) in trials(&dir).iter().flat_map(|trial| [(trial, "last"), (trial, "best")]) {
        let name = format!("{name}.safetensors");
        if !trial.join(&name).exists() {
            std::fs::copy(known.join(&name), trial.join(&name)).unwrap();
        }
    }
    dir
}

#[test]
fn a_store_with_an_unknown_mechanism_can_be_read() {
    let scratch = Scratch::new("foreign");
    let dir = foreign(&scratch);
    let trial = trials(&dir)
        .into_iter()
        .find(|trial| std::fs::read_to_string(trial.join("trial.toml")).unwrap().contains("magic:3"));
    let trial = trial.unwrap().to_str().unwrap().to_owned();
    for (arguments, words) in [
        (&["status", &dir][..], "magic:3"),
        (&["status", &dir, "--json"], "\"magic:3\""),
        (&["compare", &dir], "magic:3"),
        (&["report", &dir], "report.html"),
        (&["show", &trial], "magic:3 on even-pairs"),
    ] {
        let output = semfocus(arguments);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(output.stdout.contains(words), "{arguments:?}: {}", output.stdout);
    }
    assert!(std::fs::read_to_string(Path::new(&dir).join("report.html")).unwrap().contains("magic:3"));

    let stored = Path::new(&dir).join("experiment.toml");
    let unknown = "unknown attention mechanism `magic`";
    for (arguments, code) in [
        (&["run", stored.to_str().unwrap(), "-o", &dir][..], 2),
        (&["probe", &trial, "--samples", "5"], 1),
        (&["landscape", &trial, "--grid", "3"], 1),
        (&["sharpness", &trial], 1),
        (&["predict", &trial], 1),
    ] {
        let output = semfocus(arguments);
        assert_eq!((output.code, output.stdout.as_str()), (code, ""), "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(unknown), "{arguments:?}: {}", output.stderr);
    }
    // The trials that are known are measured, and the exit code says that some were not.
    let output = semfocus(&["probe", &dir, "--samples", "5"]);
    assert!(output.code == 3 && output.stderr.contains(unknown), "{}: {}", output.code, output.stderr);
    assert!(output.stdout.contains("\nfull ") && !output.stdout.contains("magic"), "{}", output.stdout);
    assert_eq!(semfocus(&["probe", &dir, "--mechanisms", "full", "--samples", "5"]).code, 0);
}

#[test]
fn devices_that_are_not_there_are_explained() {
    let is_built =
        |device: &str| device != "cpu:1" && semfocus_lab::Device::KINDS.contains(&device.split(':').next().unwrap());
    let devices = [
        ("gpu", "there is no device `gpu`; this program has cpu"),
        ("cuda", "this program was built without cuda; build it with `cargo build --release --features cuda`"),
        ("wgpu:0", "this program was built without wgpu"),
        ("cuda:first", "`first` in `cuda:first` is not a number"),
        ("cpu:1", "the CPU has no index: write `cpu`"),
    ];
    for (device, message) in devices.into_iter().filter(|(device, _)| !is_built(device)) {
        for command in [&["run", "even-pairs"][..], &["probe", "runs/none"], &["predict", "runs/none/a1"]] {
            let output = semfocus(&[command, &["--device", device]].concat());
            assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{device}: {}", output.stderr);
            assert!(output.stderr.contains(message), "{device}: {}", output.stderr);
        }
    }
}
