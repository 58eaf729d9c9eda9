//! `semfocus slurm`, with programs in place of Slurm's. `.ci/slurm` does it with a real cluster.
#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};

use common::cluster::Cluster;
use common::transcript::Transcript;
use common::{Output, SMALL, Scratch};
use serde_json::Value;

const SUBMIT: [&str; 9] = ["slurm", "submit", "small.toml", "-o", "run", "--workers", "3", "--time", "2h"];

/// Runs a command on a machine of the cluster, and notes what it printed.
fn run(transcript: &mut Transcript, cluster: &Cluster, arguments: &[&str]) -> Output {
    let output = cluster.semfocus(arguments);
    transcript.add(&arguments.join(" "), &output);
    output
}

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
    let mut transcript = Transcript::new(&scratch);
    let output = run(&mut transcript, &cluster, &[&SUBMIT[..], &options].concat());
    assert_eq!(output.code, 0, "{}", output.stderr);
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
    let kept: toml::Table = std::fs::read_to_string(scratch.path("run/measure.toml")).unwrap().parse().unwrap();
    assert_eq!(kept["probe"][0]["samples"].as_integer(), Some(5), "{kept}");

    let queue = "101|1|RUNNING|None|3:10|1:56:50|n1\n101|2|PREEMPTED|BeginTime|0:00|2:00:00|\n\
                 101|3|FAILED|NonZeroExitCode|0:05|1:59:55|n2\n101|4|PENDING|JobArrayTaskLimit|0:00|2:00:00|\n\
                 101|5|PENDING|JobArrayTaskLimit|0:00|2:00:00|\n101|6|PENDING|JobArrayTaskLimit|0:00|2:00:00|\n\
                 102|N/A|PENDING|Dependency|0:00|30:00|\n";
    cluster.says("squeue", queue);
    assert_eq!(run(&mut transcript, &cluster, &["slurm", "status", "run"]).code, 0);
    assert_eq!(cluster.calls(), "squeue -h -r -t all -j 101,102 -o %F|%K|%T|%r|%M|%L|%N\n", "Slurm is asked once");
    let json: Value = serde_json::from_str(&cluster.semfocus(&["slurm", "status", "run", "--json"]).stdout).unwrap();
    let jobs = &json["submissions"][0];
    assert_eq!((&json["schema"], &jobs["open_tasks"], &jobs["states"]["PENDING"]), (&1.into(), &5.into(), &3.into()));
    for (state, count) in [("RUNNING", 1), ("PREEMPTED", 1), ("FAILED", 1)] {
        assert_eq!(jobs["states"][state], count, "{state}: {jobs}");
    }
    assert_eq!(
        (&jobs["job"], &jobs["jobs"][0]["node"], &json["slurm_error"]),
        (&"101".into(), &"n1".into(), &Value::Null)
    );

    cluster.calls();
    assert_eq!(run(&mut transcript, &cluster, &["slurm", "cancel", "run"]).code, 0);
    assert!(cluster.calls().ends_with("scancel 101 102\n"));
    cluster.refuses("squeue", "slurm_load_jobs error: Invalid job id specified");
    assert_eq!(run(&mut transcript, &cluster, &["slurm", "cancel", "run"]).code, 0);
    assert!(!cluster.calls().contains("scancel"), "no job is left to cancel");
    // No job is left, and no trial is done: the same command is recommended.
    assert_eq!(run(&mut transcript, &cluster, &["slurm", "status", "run"]).code, 0);
    transcript.check("slurm");
}

#[test]
fn a_run_that_does_not_fit_on_the_disk_is_not_submitted() {
    let scratch = Scratch::new("slurm-space");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    // The weights after every epoch of all trials are larger than any disk.
    let large = ["--epochs", "1000000", "--seeds", "1000", "probe_every=1", "model.d_model=512"];
    let submit = |more: &[&str]| cluster.semfocus(&[&SUBMIT[..], &large, &["--generations", "1"], more].concat());
    let output = submit(&[]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("error: the run needs about"), "{}", output.stderr);
    assert!(!cluster.calls().contains("sbatch") && !Path::new(&scratch.path("run")).exists(), "nothing is done");
    let output = submit(&["--yes"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(cluster.calls().contains("sbatch --parsable"));
}

#[test]
fn what_squeue_has_forgotten_comes_from_the_accounts() {
    let scratch = Scratch::new("slurm-accounts");
    let cluster = Cluster::new(&scratch);
    cluster.submitted(SMALL);
    cluster.says("squeue", "101|2|RUNNING|None|3:10|1:56:50|n1\n");
    cluster.says("sacct", "101_1|TIMEOUT|02:00:00|n1\n101_2|RUNNING|00:03:10|n1\n101_3|COMPLETED|00:00:01|n2\n");
    let mut transcript = Transcript::new(&scratch);
    run(&mut transcript, &cluster, &["slurm", "status", "run"]);
    let json: Value = serde_json::from_str(&cluster.semfocus(&["slurm", "status", "run", "--json"]).stdout).unwrap();
    let states = &json["submissions"][0]["states"];
    assert_eq!(*states, serde_json::json!({"COMPLETED": 1, "RUNNING": 1, "TIMEOUT": 1}));
    cluster.refuses("squeue", "slurm_load_jobs error: Unable to contact slurm controller");
    let output = run(&mut transcript, &cluster, &["slurm", "status", "run"]);
    assert_eq!(output.code, 0, "the folder tells without Slurm: {}", output.stderr);
    transcript.check("slurm-accounts");
}

#[test]
fn measurements_that_are_left_are_submitted() {
    let scratch = Scratch::new("slurm-measure");
    let small = SMALL.replace("epochs = 12", "epochs = 1");
    scratch.file("small.toml", &format!("{small}\n[after.sharpness]\nsamples = 5\nprobes = 2\n"));
    let cluster = Cluster::new(&scratch);
    let mut transcript = Transcript::new(&scratch);
    let left = |json: &str| serde_json::from_str::<Value>(json).unwrap()["measurements_left"].clone();
    let json = || left(&cluster.semfocus(&["slurm", "status", "run", "--json"]).stdout);
    // The job of the array, none if nothing is submitted.
    let submit = |more: &[&str]| -> Value {
        let output = cluster.semfocus(&[&SUBMIT[..], &["--json"], more].concat());
        assert_eq!(output.code, 0, "{}", output.stderr);
        serde_json::from_str::<Value>(&output.stdout).unwrap_or_default()["job"].take()
    };
    assert_eq!(submit(&[]), "101");
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
    run(&mut transcript, &cluster, &["slurm", "status", "run"]);
    // Nobody knows how long it takes, so that others follow.
    run(&mut transcript, &cluster, &SUBMIT);
    cluster.says("squeue", "103|1|RUNNING|None|3:10|1:56:50|n1\n");
    run(&mut transcript, &cluster, &["slurm", "status", "run"]);
    cluster.says("squeue", "");
    let work = || cluster.semfocus(&["work", "run"]);
    assert_eq!(work().code, 0);
    assert_eq!(json(), Value::Bool(false));
    run(&mut transcript, &cluster, &["slurm", "status", "run"]);
    run(&mut transcript, &cluster, &SUBMIT);
    assert_eq!(submit(&[]), Value::Null);
    // What an earlier command asked for counts, too, and so does what this one asks for.
    assert_eq!(submit(&["--probe=--samples 5"]), "105");
    assert_eq!(submit(&[]), "107");
    assert_eq!(work().code, 0);
    assert_eq!(submit(&["--probe=--samples 5"]), Value::Null);
    // What is left is seen without loading a model: nobody notices that none can be loaded.
    for trial in common::trials(&scratch.path("run")) {
        for name in ["last", "previous", "best"] {
            let file = trial.join(format!("{name}.safetensors"));
            assert!(!file.exists() || std::fs::write(file, "damaged").is_ok());
        }
    }
    assert_eq!(submit(&["--probe=--samples 5"]), Value::Null);
    assert_eq!(json(), Value::Bool(false));
    for trial in common::trials(&scratch.path("run")) {
        let _ = std::fs::remove_file(trial.join("sharpness.jsonl"));
    }
    assert_eq!(json(), Value::Bool(true));
    assert_eq!(submit(&[]), "109");
    transcript.check("slurm-measurements");
}

#[test]
fn nothing_is_written_for_a_look_at_the_script_or_the_queue() {
    let scratch = Scratch::new("slurm-print");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let mut transcript = Transcript::new(&scratch);
    assert_eq!(run(&mut transcript, &cluster, &[&SUBMIT[..], &["--print"]].concat()).code, 0);
    assert!(!cluster.calls().contains("sbatch"));
    assert_eq!(run(&mut transcript, &cluster, &[&SUBMIT[..], &["--dry-run"]].concat()).code, 0);
    assert!(cluster.calls().contains("sbatch --test-only\n"));
    assert!(!Path::new(&scratch.path("run")).exists());
    transcript.check("slurm-print");
}

#[test]
fn limits_of_the_cluster_and_of_the_work_are_respected() {
    let scratch = Scratch::new("slurm-limits");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let array = |options: &[&str]| {
        let output = cluster.semfocus(&[&SUBMIT[..5], options, &["--time", "2h", "--print"]].concat());
        let line = output.stdout.lines().find_map(|line| line.strip_prefix("#SBATCH --array=")).unwrap().to_owned();
        (line, !output.stderr.is_empty())
    };
    // There are four trials, and an array has up to 100 tasks.
    assert_eq!(array(&["--workers", "40", "--generations", "2"]).0, "1-8%4");
    assert_eq!(array(&["--workers", "40", "--generations", "50"]), ("1-100%4".to_owned(), true));
    assert_eq!(array(&["--workers", "40", "--cpus", "4", "--generations", "3"]).0, "1-3%1");
    // A cluster that does not tell its limit refuses.
    cluster.program("scontrol", "exit 1");
    cluster.program("sbatch", "[ \"$1\" = --version ] && exit; echo 'sbatch: error: Batch job submission failed: Invalid job array specification' >&2; exit 1");
    let mut transcript = Transcript::new(&scratch);
    assert_eq!(run(&mut transcript, &cluster, &SUBMIT).code, 1);
    assert_eq!(run(&mut transcript, &cluster, &["slurm", "status", "run"]).code, 0);
    transcript.check("slurm-limits");
}

#[test]
fn mistakes_are_explained() {
    let scratch = Scratch::new("slurm-mistakes");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let mut messages = Transcript::new(&scratch);
    for (options, code) in [
        (&["--workers", "3"][..], 1),
        (&["--time", "2h"], 1),
        (&["--workers", "3", "--time", "30s"], 1),
        (&["--workers", "3", "--time", "2h", "--", "oops"], 1),
        (&["--workers", "3", "--time", "2h", "--profile", "long"], 1),
        (&["--workers", "3", "--time", "2h", "--landscape=--gird 3"], 1),
        (&["--workers", "3", "--time", "2"], 2),
    ] {
        let output = run(&mut messages, &cluster, &[&SUBMIT[..5], options].concat());
        assert_eq!(output.code, code, "{options:?}: {}", output.stderr);
    }
    // A machine without Slurm.
    let output = cluster.semfocus_with(&SUBMIT, &[("PATH", &scratch.path("nothing"))]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    messages.add("slurm submit, without Slurm", &output);
    assert!(!Path::new(&scratch.path("run")).exists(), "nothing was begun");
    cluster.program(
        "sbatch",
        "[ \"$1\" = --version ] && exit; echo 'sbatch: error: invalid partition specified: x' >&2; exit 1",
    );
    assert_eq!(run(&mut messages, &cluster, &SUBMIT).code, 1);
    assert_eq!(run(&mut messages, &cluster, &["slurm", "status", "nowhere"]).code, 1);
    messages.check("slurm-refused");
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
    for line in ["partition=long", "time=02:00:00", "cpus-per-task=2", "qos=nice", "nice"] {
        let line = format!("#SBATCH --{line}");
        assert!(output.stdout.lines().any(|other| other == line), "{line}: {}", output.stdout);
    }
    assert!(output.stdout.lines().any(|line| line == "module load gcc"), "{}", output.stdout);
    let short = print(&["--workers", "1", "--time", "1h"]).stdout;
    assert!(short.lines().any(|line| line == "#SBATCH --partition=short"), "{short}");
    let mut messages = Transcript::new(&scratch);
    messages.add("slurm submit --profile lnog", &print(&["--profile", "lnog"]));
    for (from, to, place) in [("workers = 4", "wrokers = 4", ":7:1: "), ("\"1d\"", "\"one day\"", ":6:8: ")] {
        scratch.file(".semfocus.toml", &profile.replace(from, to));
        let output = print(&["--profile", "long"]);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains(&format!(".semfocus.toml{place}")), "{}", output.stderr);
        messages.add(&format!("slurm submit, with `{to}`"), &output);
    }
    messages.check("slurm-refused-profiles");
}

/// The lines of a profile become part of job scripts, so nobody else may have written them.
#[test]
fn a_profile_that_others_can_write_is_refused() {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    let scratch = Scratch::new("slurm-foreign-profile");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    let profile = scratch.file(".semfocus.toml", "[slurm.default]\nsetup = [\"curl example.org\"]\n");
    let set_mode = |mode| std::fs::set_permissions(&profile, std::fs::Permissions::from_mode(mode)).unwrap();
    let submit = || cluster.semfocus(&[&SUBMIT[..], &["--print"]].concat());
    for mode in [0o666, 0o664, 0o646] {
        set_mode(mode);
        let output = submit();
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{mode:o}: {}", output.stderr);
        assert!(output.stderr.contains(&format!("{profile} is not used")), "{mode:o}: {}", output.stderr);
    }
    set_mode(0o644);
    let output = submit();
    assert!(output.stdout.contains("curl example.org"), "{}", output.stdout);
    assert!(output.stderr.contains(&format!("profile [slurm.default] from {profile}")), "{}", output.stderr);
    // Only root can give files away.
    if chown(&profile, Some(65_534), None).is_ok() {
        let output = submit();
        assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{}", output.stderr);
        assert!(output.stderr.contains("belongs to another user (number 65534)"), "{}", output.stderr);
    }
    // A pipe would be waited for.
    std::fs::remove_file(&profile).unwrap();
    symlink("/dev/null", &profile).unwrap();
    assert!(submit().stderr.contains("is not a regular file"));
}

/// The estimate is that of the workers that are asked for.
#[test]
fn the_estimated_time_is_that_of_all_workers() {
    let scratch = Scratch::new("slurm-estimate");
    scratch.file("small.toml", SMALL);
    let cluster = Cluster::new(&scratch);
    for (workers, cpus, at_once) in
        [("1", "1", "1 trial at once"), ("3", "1", "3 trials at once"), ("2", "2", "4 trials")]
    {
        let options = ["--workers", workers, "--cpus", cpus, "--time", "1h", "--dry-run"];
        let output = cluster.semfocus(&[&SUBMIT[..5], &options].concat());
        assert!(output.stderr.contains(&format!(" with {at_once}")), "{}", output.stderr);
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
