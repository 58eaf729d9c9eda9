//! `semfocus slurm`, with programs in place of Slurm's. `.ci/slurm` does it with a real cluster.
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};

use common::cluster::Cluster;
use common::{SMALL, Scratch};
use serde_json::Value;

const SUBMIT: [&str; 9] = ["slurm", "submit", "small.toml", "-o", "run", "--workers", "3", "--time", "2h"];

/// The folder of the only submission of a run.
fn submission(scratch: &Scratch) -> PathBuf {
    let folders: Vec<PathBuf> =
        std::fs::read_dir(scratch.path("run/slurm")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders[0].clone()
}

#[test]
fn a_run_is_submitted_followed_and_cancelled() {
    let scratch = Scratch::new("slurm-submit");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let options =
        ["--generations", "2", "--cpus", "1", "--mem", "2G", "--probe=--samples 5", "--", "--qos=long", "-C", "avx2"];
    let output = cluster.semfocus(&[&SUBMIT[..], &options].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("array 101: 6 tasks of 2:00:00, 3 at once, 1 core each"), "{}", output.stdout);
    let folder = submission(&scratch);
    let calls = cluster.calls();
    let expected = [
        "scontrol show config",
        "sbatch --version",
        &format!("sbatch --parsable {}/job.sh", folder.display()),
        &format!("sbatch --parsable --dependency=afterany:101 {}/report.sh", folder.display()),
    ];
    assert_eq!(calls.lines().collect::<Vec<_>>(), expected);
    let script = std::fs::read_to_string(folder.join("job.sh")).unwrap();
    for line in [
        "#SBATCH --job-name=semfocus-small",
        "#SBATCH --array=1-6%3",
        "#SBATCH --time=02:00:00",
        "#SBATCH --cpus-per-task=1",
        "#SBATCH --mem=2G",
        "#SBATCH --signal=B:TERM@60",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --qos=long",
        "#SBATCH -C avx2",
    ] {
        assert!(script.lines().any(|other| other == line), "{line} is missing in\n{script}");
    }
    assert!(script.contains(&format!("--output={}/%A_%a.log", folder.display())), "{script}");
    let exec = format!("exec {} work {}\n", env!("CARGO_BIN_EXE_semfocus"), scratch.path("run"));
    assert!(script.ends_with(&exec), "{script}");
    assert!(std::fs::read_to_string(scratch.path("run/measure.toml")).unwrap().contains("probe = \"--samples 5\""));

    let queue = "101|1|RUNNING|None|3:10|1:56:50|n1\n101|2|PREEMPTED|BeginTime|0:00|2:00:00|\n\
                 101|3|FAILED|NonZeroExitCode|0:05|1:59:55|n2\n101|4|PENDING|JobArrayTaskLimit|0:00|2:00:00|\n\
                 101|5|PENDING|JobArrayTaskLimit|0:00|2:00:00|\n101|6|PENDING|JobArrayTaskLimit|0:00|2:00:00|\n\
                 102|N/A|PENDING|Dependency|0:00|30:00|\n";
    cluster.says("squeue", queue);
    let output = cluster.semfocus(&["slurm", "status", "run"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for text in [
        "trials     4: 0 done",
        "1 failed, 3 pending, 1 preempted, 1 running",
        "101_1 on n1, 1:56:50 left",
        "1 task waiting: BeginTime (it was preempted or requeued and comes back soon)",
        "3 tasks waiting: JobArrayTaskLimit",
        "101_3 ended with FAILED: see ",
        "report     job 102: pending",
    ] {
        assert!(output.stdout.contains(text), "{text} is missing in\n{}", output.stdout);
    }
    assert_eq!(cluster.calls(), "squeue -h -r -t all -j 101,102 -o %F|%K|%T|%r|%M|%L|%N\n", "Slurm is asked once");
    let json: Value = serde_json::from_str(&cluster.semfocus(&["slurm", "status", "run", "--json"]).stdout).unwrap();
    let jobs = &json["submissions"][0];
    assert_eq!((&json["schema"], &jobs["open_tasks"], &jobs["states"]["PENDING"]), (&1.into(), &5.into(), &3.into()));
    assert_eq!(
        (&jobs["job"], &jobs["jobs"][0]["node"], &json["slurm_error"]),
        (&"101".into(), &"n1".into(), &Value::Null)
    );

    cluster.calls();
    let output = cluster.semfocus(&["slurm", "cancel", "run"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(cluster.calls().ends_with("scancel 101 102\n"));
    cluster.refuses("squeue", "slurm_load_jobs error: Invalid job id specified");
    let output = cluster.semfocus(&["slurm", "cancel", "run"]);
    assert!(output.stderr.contains("no job of run is left to cancel"), "{}", output.stderr);
    // No job is left, and no trial is done: the same command is recommended.
    let output = cluster.semfocus(&["slurm", "status", "run"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("No job is queued, and trials are left."), "{}", output.stdout);
    assert!(output.stdout.contains("slurm submit small.toml -o run --workers 3"), "{}", output.stdout);
}

#[test]
fn what_squeue_has_forgotten_comes_from_the_accounts() {
    let scratch = Scratch::new("slurm-accounts");
    let cluster = Cluster::new(&scratch);
    cluster.submitted(SMALL);
    cluster.says("squeue", "101|2|RUNNING|None|3:10|1:56:50|n1\n");
    cluster.says("sacct", "101_1|TIMEOUT|02:00:00|n1\n101_2|RUNNING|00:03:10|n1\n101_3|COMPLETED|00:00:01|n2\n");
    let output = cluster.semfocus(&["slurm", "status", "run"]);
    assert!(output.stdout.contains("1 completed, 1 running, 1 timeout"), "{}", output.stdout);
    cluster.refuses("squeue", "slurm_load_jobs error: Unable to contact slurm controller");
    let output = cluster.semfocus(&["slurm", "status", "run"]);
    assert_eq!(output.code, 0, "the folder tells without Slurm: {}", output.stderr);
    let text = output.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("no answer, so nothing is known about the jobs") && text.contains("Unable to contact"),
        "{text}"
    );
}

#[test]
fn measurements_that_are_left_are_submitted() {
    let scratch = Scratch::new("slurm-measure");
    let small = SMALL.replace("epochs = 12", "epochs = 1");
    scratch.file("small.toml", &format!("{small}\n[after.sharpness]\nsamples = 5\nprobes = 2\n"));
    let cluster = Cluster::new(&scratch);
    let submit = || cluster.semfocus(&SUBMIT);
    let status = || cluster.semfocus(&["slurm", "status", "run"]);
    let left = |json: &str| serde_json::from_str::<Value>(json).unwrap()["measurements_left"].clone();
    let json = || left(&cluster.semfocus(&["slurm", "status", "run", "--json"]).stdout);
    assert_eq!(submit().code, 0);
    assert_eq!(json(), Value::Null, "nothing is trained");
    // All trials are trained, and nothing is measured, as after a time limit.
    let trained = cluster.semfocus(&["run", "small.toml", "-o", "trained", "-q"]);
    assert_eq!(trained.code, 0, "{}", trained.stderr);
    std::fs::remove_dir_all(scratch.path("run/trials")).unwrap();
    std::fs::rename(scratch.path("trained/trials"), scratch.path("run/trials")).unwrap();
    for trial in common::trials(&scratch.path("run")) {
        let _ = std::fs::remove_file(trial.join("sharpness.jsonl"));
    }
    assert_eq!(json(), Value::Bool(true));
    let output = status();
    assert!(output.stdout.contains("No job is queued, and measurements are left."), "{}", output.stdout);
    let output = submit();
    assert_eq!(output.code, 0, "{}", output.stderr);
    // Nobody knows how long it takes, so that others follow.
    assert!(output.stdout.contains("array 103: 6 tasks of 2:00:00, 3 at once"), "{}{}", output.stdout, output.stderr);
    cluster.says("squeue", "103|1|RUNNING|None|3:10|1:56:50|n1\n");
    let output = status();
    assert!(output.stdout.contains("All trials are over; measurements are left."), "{}", output.stdout);
    cluster.says("squeue", "");
    let work = || cluster.semfocus(&["work", "run"]);
    assert_eq!(work().code, 0);
    assert_eq!(json(), Value::Bool(false));
    assert!(status().stdout.contains("All trials are over. To write the report"), "{}", status().stdout);
    let output = submit();
    assert!(output.stderr.contains("all trials are over and measured: nothing is submitted"), "{}", output.stderr);
    // What an earlier command asked for counts, too, and so does what this one asks for.
    let probe = || cluster.semfocus(&[&SUBMIT[..], &["--probe=--samples 5"]].concat());
    assert!(probe().stdout.contains("array 105: "));
    assert!(submit().stdout.contains("array 107: "));
    assert_eq!(work().code, 0);
    assert!(probe().stderr.contains("all trials are over and measured: nothing is submitted"));
}

#[test]
fn nothing_is_written_for_a_look_at_the_script_or_the_queue() {
    let scratch = Scratch::new("slurm-print");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let output = cluster.semfocus(&[&SUBMIT[..], &["--print"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(
        output.stdout.starts_with("#!/bin/bash\n") && output.stdout.contains("--array=1-6%3\n"),
        "{}",
        output.stdout
    );
    assert!(!cluster.calls().contains("sbatch"));
    let output = cluster.semfocus(&[&SUBMIT[..], &["--dry-run"]].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("Job 5 to start at 2026-11-18T01:00:00"), "{}", output.stdout);
    assert!(cluster.calls().contains("sbatch --test-only\n"));
    assert!(!Path::new(&scratch.path("run")).exists());
}

#[test]
fn limits_of_the_cluster_and_of_the_work_are_respected() {
    let scratch = Scratch::new("slurm-limits");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let print = |options: &[&str]| cluster.semfocus(&[&SUBMIT[..5], options, &["--print"]].concat());
    // There are four trials.
    let output = print(&["--workers", "40", "--time", "2h", "--generations", "2"]);
    assert!(output.stdout.contains("--array=1-8%4\n"), "{}", output.stdout);
    let output = print(&["--workers", "40", "--time", "2h", "--generations", "50"]);
    assert!(
        output.stdout.contains("--array=1-100%4\n") && output.stderr.contains("allows 100 in an array"),
        "{}",
        output.stderr
    );
    let output = print(&["--workers", "40", "--cpus", "4", "--time", "2h", "--generations", "3"]);
    assert!(output.stdout.contains("--array=1-3%1\n"), "{}", output.stdout);
    // A cluster that does not tell its limit refuses.
    cluster.program("scontrol", "exit 1");
    cluster.program("sbatch", "[ \"$1\" = --version ] && exit; echo 'sbatch: error: Batch job submission failed: Invalid job array specification' >&2; exit 1");
    let output = cluster.semfocus(&SUBMIT);
    assert_eq!(output.code, 1);
    assert!(
        output.stderr.contains("Invalid job array specification\nhelp: the array has more tasks"),
        "{}",
        output.stderr
    );
    let status = cluster.semfocus(&["slurm", "status", "run"]);
    assert!(status.stdout.contains("workers    none were submitted"), "{}", status.stdout);
}

#[test]
fn mistakes_are_explained() {
    let scratch = Scratch::new("slurm-mistakes");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    for (options, message) in [
        (&["--workers", "3"][..], "give --time 2h"),
        (&["--time", "2h"], "give --workers 8"),
        (&["--workers", "3", "--time", "30s"], "at least 1m"),
        (&["--workers", "3", "--time", "2h", "--", "oops"], "oops is no option of sbatch"),
        (&["--workers", "3", "--time", "2h", "--profile", "long"], "there is no profile `long`"),
        (&["--workers", "3", "--time", "2h", "--landscape=--gird 3"], "--gird"),
    ] {
        let output = cluster.semfocus(&[&SUBMIT[..5], options].concat());
        assert_eq!(output.code, 1, "{options:?}: {}", output.stderr);
        assert!(output.stderr.contains(message), "{options:?}: {}", output.stderr);
    }
    let output = cluster.semfocus(&[&SUBMIT[..5], &["--workers", "3", "--time", "2"]].concat());
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("write it like 2h, 90m"), "{}", output.stderr);
    // A machine without Slurm.
    let output = cluster.semfocus_with(&SUBMIT, &[("PATH", &scratch.path("nothing"))]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(
        output.stderr.contains("there is no `sbatch` here") && output.stderr.contains("semfocus work"),
        "{}",
        output.stderr
    );
    assert!(!Path::new(&scratch.path("run")).exists(), "nothing was begun");
    cluster.program(
        "sbatch",
        "[ \"$1\" = --version ] && exit; echo 'sbatch: error: invalid partition specified: x' >&2; exit 1",
    );
    let output = cluster.semfocus(&SUBMIT);
    assert!(output.stderr.contains("`sinfo` lists the partitions"), "{}", output.stderr);
    let output = cluster.semfocus(&["slurm", "status", "nowhere"]);
    assert!(output.code == 1 && output.stderr.contains("there is no such folder"), "{}", output.stderr);
}

#[test]
fn a_site_has_profiles() {
    let scratch = Scratch::new("slurm-profiles");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let profile = "[slurm.default]\npartition = \"short\"\n\n[slurm.long]\npartition = \"long\"\ntime = \"1d\"\nworkers = 4\n\
                   cpus = 2\noptions = [\"--qos=nice\"]\nsetup = [\"module load gcc\"]\n";
    scratch.file(".semfocus.toml", profile);
    let print = |options: &[&str]| cluster.semfocus(&[&SUBMIT[..5], &["--print"], options].concat());
    let output = print(&["--profile", "long", "--time", "2h", "--", "--nice"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    for text in [
        "--partition=long\n",
        "--time=02:00:00\n",
        "--cpus-per-task=2\n",
        "--qos=nice\n#SBATCH --nice\n\nmodule load gcc\n",
    ] {
        assert!(output.stdout.contains(text), "{text}: {}", output.stdout);
    }
    assert!(print(&["--workers", "1", "--time", "1h"]).stdout.contains("--partition=short\n"));
    let output = print(&["--profile", "lnog"]);
    assert!(output.stderr.contains("has no profile [slurm.lnog]"), "{}", output.stderr);
    for (from, to, place, message) in [
        ("workers = 4", "wrokers = 4", ":7:1: `wrokers` is not a key", "did you mean `workers`?"),
        ("\"1d\"", "\"one day\"", ":6:8: `one day` is no length of time", "^^^^^^^^^"),
    ] {
        scratch.file(".semfocus.toml", &profile.replace(from, to));
        let output = print(&["--profile", "long"]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains(&format!(".semfocus.toml{place}")), "{}", output.stderr);
        assert!(output.stderr.contains(message), "{}", output.stderr);
    }
}

/// The commands of docs/cluster.md work as they stand there.
#[test]
fn the_commands_of_the_page_work() {
    let page = include_str!("../../../docs/cluster.md");
    let scratch = Scratch::new("slurm-docs");
    let cluster = Cluster::new(&scratch);
    let profile = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    scratch.file(".semfocus.toml", profile);
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    semfocus ")).collect();
    assert!(commands.len() >= 7, "{commands:?}");
    for command in commands {
        // The quotes of `--landscape="--grid 21"`, and a limit that a test can wait for.
        let words = shlex::split(&command.replace("--time 2h", "--time 1h")).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let limited = [&["work", words.get(1).copied().unwrap_or_default(), "--time", "1s", "-q"][..]].concat();
        let output = cluster.semfocus(if words[0] == "work" { &limited } else { &words });
        assert_eq!(output.code, 0, "{command}: {}", output.stderr);
    }
    let output = cluster.semfocus(&["slurm", "submit", "even-pairs", "-o", "other", "--profile", "long", "--print"]);
    let head = "#SBATCH --partition=long\n#SBATCH --account=ab1234\n#SBATCH --time=12:00:00\n";
    assert!(output.stdout.contains(head), "{}", output.stdout);
    assert_eq!(output.code, 0, "{}", output.stderr);
}

#[test]
fn every_field_of_the_status_is_documented() {
    let page = include_str!("../../../docs/json.md");
    let (_, section) = page.split_once("\n## slurm status\n").unwrap();
    let section = section.split("\n## show").next().unwrap();
    let scratch = Scratch::new("slurm-json");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let submitted = cluster.semfocus(&[&SUBMIT[..], &["--json"]].concat());
    assert_eq!(submitted.code, 0, "{}", submitted.stderr);
    cluster.says("squeue", "101|1|RUNNING|None|3:10|1:56:50|n1\n");
    let status = cluster.semfocus(&["slurm", "status", "run", "--json"]);
    let [submitted, status] = [submitted, status].map(|output| serde_json::from_str::<Value>(&output.stdout).unwrap());
    for object in [&submitted, &status, &status["submissions"][0], &status["submissions"][0]["jobs"][0]] {
        for field in object.as_object().unwrap().keys().filter(|field| *field != "schema") {
            assert!(section.contains(&format!("`{field}`")), "docs/json.md: `{field}` is missing");
        }
    }
}
