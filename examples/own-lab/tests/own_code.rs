//! The main loop of somebody who has a mechanism of her own: run, edit the code, run again. Results of the code before are never given
//! for those of the code now.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("own-code-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const FIRST: &str = env!("CARGO_BIN_EXE_own-lab");

/// The program after an edit: another byte at its end, which the system does not run.
fn edited(folder: &Path) -> PathBuf {
    let path = folder.join("edited-lab");
    std::fs::copy(FIRST, &path).unwrap();
    let mut bytes = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut bytes, &[0]).unwrap();
    path
}

fn attempt(program: impl AsRef<Path>, folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(program.as_ref()).args(arguments).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Standard error of a command that must succeed.
fn run(program: impl AsRef<Path>, folder: &Path, arguments: &[&str]) -> String {
    let (code, _, err) = attempt(program, folder, arguments);
    assert_eq!(code, Some(0), "{}: {err}", arguments.join(" "));
    err
}

/// Standard error of a command that must be refused before it does anything.
fn refused(program: impl AsRef<Path>, folder: &Path, arguments: &[&str]) -> String {
    let (code, _, err) = attempt(program, folder, arguments);
    assert_eq!(code, Some(2), "{}: {err}", arguments.join(" "));
    err
}

/// The arguments of a small run with this number of epochs into the folder `mine`.
fn small<'a>(epochs: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let mechanisms = ["run", "even-pairs", "--mechanisms", "full,within:2", "-o", "mine"];
    let size = ["-s", "data.train=100", "-s", "data.held_out=50", "--epochs", epochs];
    let seeds: &[&str] = if more.contains(&"--seeds") { &[] } else { &["--seeds", "1"] };
    [&mechanisms[..], &size, seeds, more].concat()
}

fn folders_of_trials(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("mine/trials")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect()
}

/// Everything in the folders of trials.
fn trials(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = Vec::new();
    for trial in folders_of_trials(folder) {
        for file in std::fs::read_dir(trial).unwrap() {
            let path = file.unwrap().path();
            files.extend(std::fs::read(&path).ok().map(|bytes| (path, bytes)));
        }
    }
    files.sort();
    files
}

/// The folder of the trial of a mechanism, once it has one.
fn trial_of(folder: &Path, mechanism: &str) -> Option<PathBuf> {
    let trials = std::fs::read_dir(folder.join("mine/trials")).into_iter().flatten().flatten();
    let is_it = |trial: &PathBuf| {
        std::fs::read_to_string(trial.join("trial.toml")).is_ok_and(|text| text.contains(&format!("\"{mechanism}\"")))
    };
    trials.map(|trial| trial.path()).find(is_it)
}

fn environment(folder: &Path, mechanism: &str) -> serde_json::Value {
    let path = trial_of(folder, mechanism).unwrap().join("env.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn other_code_is_refused_until_it_is_accepted() {
    let scratch = Scratch::new("finished");
    let folder = &scratch.0;
    let edited = edited(folder);
    run(FIRST, folder, &small("1", &[]));
    let code = environment(folder, "within:2");
    assert!(code["own_code"]["mechanism within"].as_str().unwrap().starts_with("program "), "{code}");
    assert_eq!((&code["program"]["name"], &code["program"]["version"]), (&"own-lab".into(), &"0.1.0".into()));
    assert!(environment(folder, "full").get("own_code").is_none(), "a standard mechanism has no code of its own");
    // The same program continues, and grows.
    assert!(run(FIRST, folder, &small("1", &[])).contains("2 of 2 trials"));
    run(FIRST, folder, &small("2", &[]));
    let before = trials(folder);
    for (arguments, what) in [
        (small("2", &[]), "the same again"),
        (small("3", &[]), "more epochs"),
        (small("2", &["--seeds", "2"]), "more seeds"),
        (vec!["run", "mine"], "by its folder"),
    ] {
        let err = refused(&edited, folder, &arguments);
        assert!(
            err.contains("other code made 1 trial in mine") && err.contains("mechanism within was program"),
            "{what}: {err}"
        );
        assert!(
            err.contains("-o DIR") && err.contains("--accept-code") && err.contains("with_version"),
            "{what}: {err}"
        );
    }
    let (code, _, err) = attempt(&edited, folder, &["probe", "mine", "--samples", "5"]);
    assert!(code != Some(0) && err.contains("mechanism within was program"), "{err}");
    let (code, _, err) = attempt(&edited, folder, &["work", "mine"]);
    assert!(code == Some(3) && err.contains("other code made what is on record"), "{err}");
    // The probe measured the standard mechanism; nothing else has changed.
    let after: BTreeMap<PathBuf, Vec<u8>> = trials(folder).into_iter().collect();
    for (path, then) in &before {
        let is_log = ["lock", "events.jsonl"].iter().any(|name| path.ends_with(name));
        assert!(is_log || after.get(path) == Some(then), "{} has changed", path.display());
    }
    let new: Vec<&PathBuf> = after.keys().filter(|path| !before.iter().any(|(old, _)| old == *path)).collect();
    assert_eq!(new, [&trial_of(folder, "full").unwrap().join("probes.jsonl")]);
    // A fresh folder is fine, and so is the comparison of standard mechanisms in the old one.
    let fresh = small("2", &[]).into_iter().map(|argument| if argument == "mine" { "fresh" } else { argument });
    run(&edited, folder, &fresh.collect::<Vec<_>>());
    // Two runs that different code made are compared with a note.
    let (code, out, _) = attempt(FIRST, folder, &["compare", "mine", "fresh"]);
    let words: Vec<&str> = out.split_whitespace().collect();
    assert_eq!(code, Some(0));
    assert!(words.join(" ").contains("note different code of the mechanism within made these trials"), "{out}");
    let (_, json, _) = attempt(FIRST, folder, &["compare", "mine", "fresh", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let notes: Vec<&str> = json["notes"].as_array().unwrap().iter().filter_map(|note| note.as_str()).collect();
    let note = notes.iter().find(|note| note.contains("different code of the mechanism within")).unwrap();
    assert!(note.contains("fresh: program ") && note.contains("mine: program "), "{note}");
    let (_, out, _) = attempt(FIRST, folder, &["compare", "mine", "mine"]);
    assert!(!out.contains("different code"), "{out}");
    // What is accepted for finished trials is on record, and nothing else of them changes.
    let fresh = |more: &[&'static str]| {
        let arguments = small("2", more).into_iter();
        arguments.map(|argument| if argument == "mine" { "fresh" } else { argument }).collect::<Vec<_>>()
    };
    refused(FIRST, folder, &fresh(&[]));
    let weights = || {
        let trials = std::fs::read_dir(folder.join("fresh/trials")).unwrap().map(|entry| entry.unwrap().path());
        let files = trials.filter(|path| path.is_dir()).flat_map(|trial| {
            ["epochs.csv", "last.safetensors", "status.json"].map(|name| std::fs::read(trial.join(name)).unwrap())
        });
        files.collect::<Vec<_>>()
    };
    let before = weights();
    assert!(run(FIRST, folder, &fresh(&["--accept-code"])).contains("accepted with --accept-code"));
    assert!(!run(FIRST, folder, &fresh(&[])).contains("--accept-code"));
    run(FIRST, folder, &["probe", "fresh", "--samples", "5"]);
    run(&edited, folder, &fresh(&[]));
    assert!(weights() == before, "the trials stay as they are");
    let accepted = run(&edited, folder, &small("3", &["--accept-code"]));
    assert!(accepted.contains("accepted with --accept-code"), "{accepted}");
    assert!(std::fs::read_to_string(folder.join("mine/experiment.toml")).unwrap().contains("--accept-code"));
    let sessions = environment(folder, "within:2");
    let earlier = sessions["earlier"].as_array().unwrap();
    assert_ne!(sessions["own_code"], earlier.last().unwrap()["own_code"], "both programs are on record");
    let (_, out, _) = attempt(FIRST, folder, &["compare", "mine"]);
    let words: Vec<&str> = out.split_whitespace().collect();
    assert!(words.join(" ").contains("different code of the mechanism within made these trials"), "{out}");
    // From now on it is a run of the edited program.
    run(&edited, folder, &small("3", &[]));
    refused(FIRST, folder, &small("3", &[]));
}

#[test]
fn a_half_trained_trial_is_not_continued_by_other_code() {
    let scratch = Scratch::new("half");
    let folder = &scratch.0;
    let edited = edited(folder);
    let long = small("100000", &["--yes", "--quiet", "-j", "2"]);
    let mut process = Command::new(FIRST)
        .args(&long)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let is_half_trained = || trial_of(folder, "within:2").is_some_and(|trial| trial.join("last.safetensors").exists());
    while !is_half_trained() && began.elapsed() < Duration::from_secs(300) {
        assert!(process.try_wait().unwrap().is_none(), "it trains");
        std::thread::sleep(Duration::from_millis(20));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(refused(&edited, folder, &long).contains("mechanism within was program"));
}

#[test]
fn runs_that_do_not_say_which_code_made_them_are_noted() {
    let scratch = Scratch::new("unknown");
    let folder = &scratch.0;
    run(FIRST, folder, &small("1", &[]));
    // As version 0.2.0 wrote it.
    for trial in folders_of_trials(folder) {
        let path = trial.join("env.json");
        let mut json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        json.as_object_mut().unwrap().remove("own_code");
        json.as_object_mut().unwrap().remove("program");
        std::fs::write(&path, serde_json::to_string_pretty(&json).unwrap() + "\n").unwrap();
    }
    let said = run(FIRST, folder, &small("1", &[]));
    let words: Vec<&str> = said.split_whitespace().collect();
    assert!(words.join(" ").contains("it is not on record which code made 1 trial"), "{said}");
}

#[test]
fn the_program_has_its_own_name_and_version() {
    let (code, out, _) = attempt(FIRST, Path::new("."), &["--version"]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("own-lab 0.1.0 (semfocus "), "{out}");
}
