//! What the commands print, one snapshot each. A better sentence is an accepted snapshot: see CONTRIBUTING.md.

mod common;

use common::transcript::Transcript;
use common::{SMALL, Scratch, semfocus, trials};

/// Runs commands that must succeed without a word on standard error, and compares what they print with a snapshot.
fn assert_prints(name: &str, commands: &[&[&str]]) {
    let scratch = Scratch::new(&format!("text-{name}"));
    let mut transcript = Transcript::new(&scratch);
    for arguments in commands {
        let output = transcript.run(arguments);
        assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{arguments:?}");
        let widest = output.stdout.lines().max_by_key(|line| line.chars().count()).unwrap_or_default();
        assert!(widest.chars().count() <= 80, "{arguments:?}: a line is too long: {widest}");
    }
    transcript.check(name);
}

#[test]
fn a_run_from_its_plan_to_its_growth() {
    let scratch = Scratch::new("text-run");
    scratch.file("small.toml", SMALL);
    let mut transcript = Transcript::of_trained_models(&scratch);
    let run = ["run", "small.toml", "-o", "run", "-j", "1", "--epochs", "2"];
    for (more, code) in
        [(&["--dry-run"][..], 0), (&["--seeds", "1"], 0), (&[], 0), (&[], 0), (&["-s", "model.blocks=1"], 1)]
    {
        let output = transcript.run(&[&run[..], more].concat());
        assert_eq!(output.code, code, "{more:?}: {}", output.stderr);
    }
    transcript.check("run");
}

#[test]
fn a_run_that_is_over() {
    let scratch = Scratch::new("text-over");
    let file = scratch.file("small.toml", SMALL);
    let run = ["run", &file, "-o", &scratch.path("runs/small"), "--epochs", "2", "--quiet"];
    assert_eq!(semfocus(&run).code, 0);
    let trial = trials(&scratch.path("runs/small"))[0].file_name().unwrap().to_str().unwrap().to_owned();
    let trial = format!("runs/small/{}", &trial[..6]);
    for (name, commands) in [
        ("status", &[&["status"][..], &["status", "runs/small"], &["status", "runs"]][..]),
        ("show", &[&["show", &trial]]),
        ("verify", &[&["verify", "runs/small"]]),
        ("report", &[&["report", "runs/small"]]),
        ("probe", &[&["probe", "runs/small", "--samples", "5"]]),
        ("landscape", &[&["landscape", "runs/small", "--grid", "3", "--samples", "5"]]),
        ("sharpness", &[&["sharpness", "runs/small", "--samples", "5", "--probes", "2"]]),
    ] {
        let mut transcript = Transcript::of_trained_models(&scratch);
        for arguments in commands {
            let output = transcript.run(arguments);
            assert_eq!(output.code, 0, "{arguments:?}: {}", output.stderr);
            // Paths and commands are not broken.
            let is_command = |line: &str| line.starts_with("command ");
            let fits = |line: &str| {
                line.chars().count() <= 80 || is_command(line) || line.split(' ').any(|word| word.len() > 50)
            };
            assert!(output.stdout.lines().all(fits), "{}", output.stdout);
        }
        transcript.check(name);
    }
}

#[test]
fn no_runs() {
    assert_prints("status-of-nothing", &[&["status"], &["status", "--json"]]);
}

#[test]
fn lists() {
    assert_prints("list-mechanisms", &[&["list", "mechanisms"]]);
    assert_prints("list-settings", &[&["list", "settings"]]);
    assert_prints("list-tasks", &[&["list", "tasks"]]);
    assert_prints("list-experiment", &[&["list", "experiments", "figure-27c"]]);
}

#[test]
fn data() {
    assert_prints("data-show", &[&["data", "show", "parity"], &["data", "show", "listops"]]);
    assert_prints("data-audit", &[&["data", "audit", "even-pairs", "--train", "500", "--held-out", "100"]]);
    assert_prints(
        "data-generate",
        &[
            &["data", "generate", "stack-manipulation", "-n", "3", "--length", "6", "--format", "text"],
            &["data", "generate", "parity", "-n", "2", "--length", "3..5", "--json"],
        ],
    );
}

#[test]
fn theory() {
    let numbers = ["--dispersion", "2", "--kept-dispersion", "1", "--separation", "0.1"];
    let statistics = ["--full-dispersion", "8.6", "--dispersion", "3.5", "--separation", "0.02", "--sink", "0.2"];
    assert_prints(
        "theory",
        &[&[&["theory", "stability"], &numbers[..]].concat(), &[&["theory", "check"], &statistics[..]].concat()],
    );
}
