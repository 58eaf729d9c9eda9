//! `semfocus landscape` and `semfocus sharpness`, on models that were just trained.

mod common;

use std::path::{Path, PathBuf};

use common::transcript::Transcript;
use common::{Output, SMALL, Scratch, epochs, semfocus, signal, start, trials, wait_until};

const MECHANISMS: &str = r#"["full", "topk:3"]"#;

/// A run of full and top-k attention with one seed and two epochs, its models kept along the way.
fn trained(scratch: &Scratch, name: &str) -> String {
    let file = scratch.file("small.toml", &SMALL.replace("seeds = 2", "seeds = 1"));
    let dir = scratch.path(name);
    let output = semfocus(&["run", &file, "-o", &dir, "--epochs", "2", "-s", "probe_every=1", "--quiet"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    dir
}

fn landscape(dir: &str, arguments: &[&str]) -> Output {
    semfocus(&[&["landscape", dir, "--grid", "5"], arguments].concat())
}

/// The files of all surfaces, by trial and name.
fn cells(dir: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for trial in trials(dir) {
        for entry in std::fs::read_dir(trial.join("surfaces")).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(entry.path().join("cells.csv")).unwrap_or_default();
            let name = trial.file_name().unwrap().to_owned();
            found.push((Path::new(&name).join(entry.file_name()), text));
        }
    }
    found.sort();
    found
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.code, 0, "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap()
}

#[test]
fn a_surface_has_the_trained_model_in_its_middle() {
    let scratch = Scratch::new("landscape");
    let dir = trained(&scratch, "run");
    // More examples than there are: all of them.
    let report = json(&landscape(&dir, &["--json"]));
    let found = report["list"].as_array().unwrap();
    assert_eq!(found.len(), 2);
    for entry in found {
        let trial = PathBuf::from(entry["trial"].as_str().unwrap());
        let last = epochs(&trial).last().unwrap().clone();
        let columns: Vec<f64> = last.split(',').map(|text| text.parse().unwrap()).collect();
        let (loss, accuracy) = (entry["loss"].as_f64().unwrap(), entry["accuracy"].as_f64().unwrap());
        assert!(
            (loss - columns[2]).abs() < 1e-9 && (accuracy - columns[3]).abs() < 1e-12,
            "{loss}, not {}",
            columns[2]
        );
        assert_eq!(entry["lipschitz"]["radii"].as_array().unwrap().len(), 2);
    }
    let table = landscape(&dir, &[]);
    assert!(table.stdout.lines().all(|line| line.chars().count() <= 80), "{}", table.stdout);
    // All directions; those of the path lead past the kept models.
    for arguments in [&["--directions", "filter", "--draws", "2"][..], &["--directions", "path"], &["--best"]] {
        assert_eq!(landscape(&dir, arguments).code, 0);
    }
    let trial = &trials(&dir)[0];
    let snapshots = [0, 1].map(|epoch| trial.join(format!("snapshots/epoch-{epoch}.safetensors")));
    let [zero, one] = snapshots.map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(landscape(trial.to_str().unwrap(), &["--through", &zero, &one]).code, 0);
    assert_eq!(semfocus(&["sharpness", &dir, "--samples", "20", "--probes", "2", "--along-training"]).code, 0);
    assert_eq!(semfocus(&["report", &dir]).code, 0);
    let page = std::fs::read_to_string(Path::new(&dir).join("report.html")).unwrap();
    for part in [
        "id=\"surface\"",
        "surface-contours.svg",
        "surface-map.svg",
        "surface-lipschitz.svg",
        "sharpness.svg",
        "<canvas",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn the_path_of_a_long_training_can_be_followed_and_is_evaluated_once() {
    let scratch = Scratch::new("landscape-path");
    let file = scratch.file("small.toml", SMALL);
    let dir = scratch.path("run");
    let run = ["run", &file, "-o", &dir, "--epochs", "20", "--mechanisms", "topk:3", "--quiet"];
    let output = semfocus(&[&run[..], &["-s", "probe_every=1", "-s", "probe_samples=5"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    for trial in trials(&dir) {
        assert_eq!(
            std::fs::read_dir(trial.join("snapshots")).unwrap().count(),
            21,
            "one before training, one per epoch"
        );
    }
    let arguments = ["--directions", "path", "--seeds", "2", "--samples", "50", "--json"];
    let first = landscape(&dir, &arguments);
    let report = json(&first);
    let entries = report["list"].as_array().unwrap();
    assert_eq!(entries.len(), 2, "one for each seed: {report}");
    for entry in entries {
        let path = entry["settings"]["path"].as_array().unwrap();
        assert_eq!((path.len(), path[20][0].as_u64()), (21, Some(20)), "{path:?}");
        let last: Vec<f64> = path[20].as_array().unwrap()[1..].iter().map(|x| x.as_f64().unwrap()).collect();
        assert!(last.iter().all(|coordinate| coordinate.abs() < 1e-6), "the path ends at the model: {last:?}");
    }
    let expected = cells(&dir);
    assert_eq!(expected.len(), 2);
    let again = landscape(&dir, &arguments);
    assert_eq!((again.code, again.stdout), (0, first.stdout), "{}", again.stderr);
    assert_eq!(cells(&dir), expected);
    for trial in trials(&dir) {
        for surface in std::fs::read_dir(trial.join("surfaces")).unwrap() {
            let events = std::fs::read_to_string(surface.unwrap().path().join("events.jsonl")).unwrap();
            assert_eq!(events.matches("\"job_started\"").count(), 1, "nothing was evaluated again: {events}");
        }
    }
}

#[test]
fn threads_and_interruptions_change_nothing() {
    let scratch = Scratch::new("landscape-kill");
    let dir = trained(&scratch, "run");
    let arguments = ["landscape", &dir, "--grid", "9", "--samples", "400"];
    assert_eq!(semfocus(&[&arguments[..], &["-j", "1"]].concat()).code, 0);
    let expected = cells(&dir);
    assert_eq!(expected.len(), 2);
    let text = &expected[0].1;
    assert!(text.starts_with("cell,x,y,loss,accuracy,check,format\n0,-1,-1,") && text.lines().count() == 82, "{text}");
    let clear = || trials(&dir).iter().for_each(|trial| std::fs::remove_dir_all(trial.join("surfaces")).unwrap());
    // Stopped when it has evaluated some cells, and resumed.
    clear();
    let child = start(&[&arguments[..], &["-j", "2"]].concat());
    let evaluated = || cells(&dir).iter().map(|(_, text)| text.lines().count()).sum::<usize>();
    wait_until("some cells are evaluated", || evaluated() > 4);
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 130)), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(semfocus(&arguments).code, 0);
    assert_eq!(cells(&dir), expected);
    // A line that was being written is computed again; nonsense is kept aside, and evaluated again.
    let file = trials(&dir)[0].join("surfaces").read_dir().unwrap().next().unwrap().unwrap().path().join("cells.csv");
    std::fs::write(&file, format!("{}80,1,1,0.", text_of_first_lines(&file, 40))).unwrap();
    assert_eq!(semfocus(&arguments).code, 0);
    assert_eq!(cells(&dir), expected);
    std::fs::write(&file, "cell,x,y,loss,accuracy,format\n1,nonsense\n").unwrap();
    assert_eq!(semfocus(&arguments).code, 0);
    assert!(file.with_file_name("cells.csv.refused").is_file());
    assert_eq!(cells(&dir), expected);
}

fn text_of_first_lines(file: &Path, count: usize) -> String {
    std::fs::read_to_string(file).unwrap().lines().take(count).map(|line| format!("{line}\n")).collect()
}

#[test]
fn bad_input_is_explained_and_leaves_nothing_behind() {
    let scratch = Scratch::new("landscape-bad");
    let dir = trained(&scratch, "run");
    let mut messages = Transcript::new(&scratch);
    messages.refuse(
        2,
        &[
            &["landscape", "run", "--grid", "1"],
            &["landscape", "run", "--grid", "1000000"],
            &["landscape", "run", "--range", "0"],
        ],
    );
    messages.refuse(
        1,
        &[
            &["landscape", "run", "--directions", "path", "--draws", "2"],
            &["landscape", "run", "--mechanisms", "topk:4"],
            &["landscape", "nowhere"],
        ],
    );
    // A run that has not begun, one that diverged, and one of another shape.
    let small = SMALL.replace("seeds = 2", "seeds = 1");
    let one = small.replace(MECHANISMS, r#"["full"]"#);
    let wild = scratch.file("wild.toml", &one.replace("epochs = 6", "epochs = 1"));
    let diverged = scratch.path("diverged");
    let run = semfocus(&[
        "run",
        &wild,
        "-o",
        &diverged,
        "-s",
        "training.learning_rate=1e30",
        "-s",
        "training.clip=inf",
        "--quiet",
    ]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let name = |trial: &Path| trial.strip_prefix(scratch.path("")).unwrap().to_str().unwrap().to_owned();
    let trial = name(&trials(&diverged)[0]);
    messages.refuse(1, &[&["landscape", "diverged"], &["sharpness", &trial]]);
    let other = scratch.path("other");
    assert_eq!(semfocus(&["run", &wild, "-o", &other, "-s", "model.blocks=3", "--epochs", "1", "--quiet"]).code, 0);
    messages.refuse(
        1,
        &[
            &["landscape", "run", "other"],
            &["landscape", "other", "--directions", "path"],
            &["sharpness", "other", "--along-training"],
        ],
    );
    for trial in trials(&other) {
        std::fs::remove_file(trial.join("last.safetensors")).unwrap();
        messages.refuse(1, &[&["landscape", &name(&trial)]]);
    }
    messages.check("landscape-refused");
    assert!(cells(&dir).is_empty() && cells(&diverged).is_empty(), "nothing was written");
}
