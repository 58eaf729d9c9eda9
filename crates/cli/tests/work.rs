//! `semfocus work`: what the jobs of a cluster run.
#![cfg(unix)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use common::cluster::{Cluster, output};
use common::transcript::Transcript;
use common::{SMALL, Scratch, assert_same_bits, epochs, semfocus, signal, trials, wait_until};

/// A run of the experiment that nothing disturbs.
fn undisturbed(scratch: &Scratch, file: &str) -> String {
    let dir = scratch.path("undisturbed");
    let output = semfocus(&["run", file, "-o", &dir, "-q"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    dir
}

/// Epochs that the run in a folder has on record, if it has begun.
fn recorded_epochs(dir: &str) -> usize {
    let folder = Path::new(dir).join("trials");
    let records = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let lines = records.filter_map(|trial| std::fs::read_to_string(trial.join("epochs.csv")).ok());
    // A head, and the untrained model.
    lines.map(|text| text.lines().count().saturating_sub(2)).sum()
}

/// Waits until the run in a folder has this many epochs on record.
fn wait_for_epochs(dir: &str, count: usize) {
    wait_until(&format!("{dir} has {count} epochs"), || recorded_epochs(dir) >= count);
}

#[test]
fn folders_without_a_run_are_refused_and_finished_ones_left_at_once() {
    let scratch = Scratch::new("work-folders");
    std::fs::create_dir(scratch.path("empty")).unwrap();
    let mut transcript = Transcript::new(&scratch);
    transcript.refuse(1, &[&["work", "nowhere"], &["work", "empty"]]);
    assert_eq!(std::fs::read_dir(scratch.path("empty")).unwrap().count(), 0, "nothing was written");
    let file = scratch.file("small.toml", &SMALL.replace("epochs = 12", "epochs = 2"));
    let dir = undisturbed(&scratch, &file);
    let before = trials(&dir).iter().map(|trial| epochs(trial)).collect::<Vec<_>>();
    assert_eq!(transcript.run(&["work", "undisturbed", "-j", "1"]).code, 0);
    transcript.refuse(1, &[&["work", "undisturbed", "--probe=--smaples 5"]]);
    transcript.check("work");
    assert_eq!(trials(&dir).iter().map(|trial| epochs(trial)).collect::<Vec<_>>(), before);
}

#[test]
fn workers_share_a_prepared_run() {
    let scratch = Scratch::new("work-shared");
    let cluster = Cluster::new(&scratch);
    let dir = cluster.submitted(SMALL);
    assert!(!Path::new(&dir).join("trials").read_dir().unwrap().any(|entry| entry.unwrap().path().is_dir()));
    let task = [("SLURM_JOB_ID", "101"), ("SLURM_CPUS_PER_TASK", "1")];
    let workers = [0, 1].map(|_| cluster.start(&["work", &dir], &task));
    for worker in workers.map(output) {
        assert_eq!(worker.code, 0, "{}", worker.stderr);
    }
    assert_same_bits(&undisturbed(&scratch, &scratch.path("small.toml")), &dir);
    for trial in trials(&dir) {
        let environment: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(trial.join("env.json")).unwrap()).unwrap();
        assert_eq!((&environment["threads"], &environment["jobs"]), (&1.into(), &1.into()), "{environment}");
    }
}

/// The files of a report with their contents. Figures and tables about seconds are left out, and so is the page, which has them.
fn figures_and_tables(dir: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["figures", "tables"] {
        for entry in Path::new(dir).join(folder).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let name = format!("{folder}/{}", path.file_name().unwrap().to_str().unwrap());
            let has_times = ["seconds", "summary", "trials"].iter().any(|word| name.contains(word));
            files.insert(name, if has_times { Vec::new() } else { std::fs::read(path).unwrap() });
        }
    }
    files
}

#[test]
fn a_run_and_workers_end_with_the_same_figures() {
    let after = "\n[after]\nshow = [\"regions-w\", \"surface-lipschitz\"]\n[after.regions]\n[after.probe]\nsamples = 5\n\
                 [after.landscape]\ngrid = 3\nsamples = 5\n[after.sharpness]\nsamples = 4\nprobes = 2\neigenvalues = 1\n";
    let scratch = Scratch::new("work-figures");
    let cluster = Cluster::new(&scratch);
    let dir = cluster.submitted(&(SMALL.replace("epochs = 12", "epochs = 2") + after));
    let output = semfocus(&["work", &dir]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let report = semfocus(&["report", &dir]);
    assert_eq!(report.code, 0, "{}", report.stderr);
    let alone = scratch.path("alone");
    let run = semfocus(&["run", &scratch.path("small.toml"), "-o", &alone]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for output in [&run, &report] {
        assert!(output.stderr.contains("figures/surface-lipschitz.{svg,png,pdf}"), "{}", output.stderr);
        assert!(output.stderr.contains("figures/regions-w.{svg,png,pdf}"), "{}", output.stderr);
    }
    let (by_run, by_workers) = (figures_and_tables(&alone), figures_and_tables(&dir));
    assert_eq!(by_run.keys().collect::<Vec<_>>(), by_workers.keys().collect::<Vec<_>>());
    for name in
        ["figures/regions-x.svg", "figures/surface-contours.svg", "tables/sharpness.csv", "tables/conditions.csv"]
    {
        assert!(by_run.get(name).is_some_and(|contents| !contents.is_empty()), "{name}: {:?}", by_run.keys());
    }
    let different: Vec<&String> = by_run.keys().filter(|name| by_run[*name] != by_workers[*name]).collect();
    assert!(different.is_empty(), "{different:?}");
}

#[test]
fn signals_of_clusters_are_requests_to_stop() {
    let scratch = Scratch::new("work-signals");
    let cluster = Cluster::new(&scratch);
    let dir = cluster.submitted(&SMALL.replace("epochs = 12", "epochs = 100"));
    let job = [("SLURM_JOB_ID", "101")];
    let mut epochs_before = 0;
    let mut transcript = Transcript::new(&scratch);
    // In a job of Slurm it is not a failure to be asked to stop, except by a person.
    for (number, (name, variables, code)) in [
        ("USR1", &job[..], 0),
        ("USR2", &job, 0),
        ("XCPU", &job, 0),
        ("TERM", &job, 0),
        ("INT", &job, 130),
        ("USR1", &[], 130),
        ("XCPU", &[], 130),
        ("TERM", &[], 130),
    ]
    .into_iter()
    .enumerate()
    {
        let worker = cluster.start(&["work", &dir, "-j", "1"], variables);
        wait_for_epochs(&dir, epochs_before + 2);
        signal(&worker, name);
        if code == 0 {
            signal(&worker, name); // clusters repeat it
        }
        let worker = output(worker);
        assert_eq!(worker.code, code, "{number} {name}: {}", worker.stderr);
        assert!(worker.stderr.contains(&format!("signal {name}")), "{}", worker.stderr);
        if name == "TERM" {
            let place = if variables.is_empty() { "without Slurm" } else { "in a job of Slurm" };
            transcript.add_end(&format!("work, {place}"), &worker);
        }
        epochs_before = recorded_epochs(&dir);
        assert!(epochs_before < 400, "the run is too short for this test");
    }
    transcript.check("work-stopped");
    let output = semfocus(&["work", &dir]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_same_bits(&undisturbed(&scratch, &scratch.path("small.toml")), &dir);
}

#[test]
fn a_run_saves_when_a_cluster_asks_it_to_stop() {
    let scratch = Scratch::new("run-signals");
    let file = scratch.file("small.toml", &SMALL.replace("epochs = 12", "epochs = 60"));
    let dir = scratch.path("run");
    for name in ["USR1", "USR2", "XCPU"] {
        let before = recorded_epochs(&dir);
        let run = common::start(&["run", &file, "-o", &dir, "-j", "1", "-q"]);
        wait_for_epochs(&dir, before + 2);
        signal(&run, name);
        let run = output(run);
        assert_eq!(run.code, 130, "{name}: {}", run.stderr);
    }
}

#[test]
fn a_worker_stops_when_its_time_is_up() {
    let scratch = Scratch::new("work-time");
    let cluster = Cluster::new(&scratch);
    // More than any machine trains in these few seconds.
    let dir = cluster.submitted(&SMALL.replace("epochs = 12", "epochs = 100000").replace("seeds = 2", "seeds = 1"));
    let mut transcript = Transcript::new(&scratch);
    let state =
        || -> serde_json::Value { serde_json::from_str(&semfocus(&["status", &dir, "--json"]).stdout).unwrap() };
    let is_saved = || state()["list"].as_array().unwrap().iter().any(|trial| trial["state"] == "interrupted");
    // A busy machine may need more than a second to begin.
    for (number, seconds) in [1, 4, 16, 64, 256].into_iter().enumerate() {
        let worker = semfocus(&["work", &dir, "--time", &format!("{seconds}s")]);
        assert_eq!(worker.code, 0, "{}", worker.stderr);
        if number == 0 {
            transcript.add_end("work --time 1s", &worker);
        }
        if is_saved() {
            break;
        }
    }
    assert!(is_saved(), "{}", state());
    // In a job, half of the four seconds that are left; later jobs have more to spare.
    cluster.says("squeue", "0:04\n");
    let task = [("SLURM_JOB_ID", "107"), ("SLURM_ARRAY_JOB_ID", "101"), ("SLURM_ARRAY_TASK_ID", "6")];
    cluster.calls();
    let worker = cluster.semfocus_with(&["work", &dir], &task);
    assert_eq!(worker.code, 0, "{}", worker.stderr);
    assert!(worker.stderr.contains("101_6 for 0:02"), "{}", worker.stderr);
    transcript.add_end("work, in a job with 4 s left", &worker);
    assert_eq!(cluster.calls(), "squeue -h -j 101_6 -o %L\n", "Slurm is asked once");
    // Newer versions of Slurm tell the job themselves.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let ends = (now + 8).to_string(); // half of this is kept for saving; a busy machine may find that less is left
    let worker = cluster.semfocus_with(&["work", &dir], &[task[0], ("SLURM_JOB_END_TIME", &ends)]);
    assert_eq!(worker.code, 0, "{}", worker.stderr);
    transcript.add_end("work, in a job that ends in 8 s", &worker);
    assert_eq!(cluster.calls(), "");
    assert!(is_saved(), "{}", state());
    transcript.check("work-time");
}

#[test]
fn a_trial_that_does_not_fit_into_the_memory_of_its_job_fails() {
    let scratch = Scratch::new("work-memory");
    let cluster = Cluster::new(&scratch);
    let dir = cluster.submitted(&SMALL.replace("train = 400", "train = 40000").replace("epochs = 12", "epochs = 1"));
    let job = [("SLURM_JOB_ID", "101"), ("SLURM_MEM_PER_NODE", "1")];
    let worker = cluster.semfocus_with(&["work", &dir, "-q"], &job);
    assert_eq!(worker.code, 3, "{}", worker.stderr);
    let status = std::fs::read_to_string(trials(&dir)[0].join("status.json")).unwrap();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["state"], "failed", "{status}");
    assert!(status["message"].as_str().is_some_and(|message| message.contains("memory")), "{status}");
}

#[test]
fn a_model_that_training_has_probed_over_more_examples_is_not_probed_again() {
    let scratch = Scratch::new("work-probed");
    let probed = SMALL.replace("epochs = 12", "epochs = 2");
    let dir =
        undisturbed(&scratch, &scratch.file("small.toml", &format!("probe_every = 2\nprobe_samples = 20{probed}")));
    let probes = |options: &str| {
        let worker = semfocus(&["work", &dir, &format!("--probe={options}")]);
        assert_eq!(worker.code, 0, "{}", worker.stderr);
        let lines = |trial: &Path| std::fs::read_to_string(trial.join("probes.jsonl")).unwrap().lines().count();
        trials(&dir).iter().map(|trial| lines(trial)).collect::<Vec<_>>()
    };
    assert_eq!(probes("--samples 5"), [2; 4], "those that training made, before the first epoch and after the last");
    assert_eq!(probes("--samples 20"), [2; 4]);
    assert_eq!(probes("--samples 30"), [3; 4]);
    assert_eq!(probes("--samples 5"), [3; 4]);
}

#[test]
fn workers_measure_what_the_folder_asks_for() {
    let scratch = Scratch::new("work-measure");
    let file = scratch.file("small.toml", &SMALL.replace("epochs = 12", "epochs = 2"));
    let dir = undisturbed(&scratch, &file);
    let options = ["--probe=--samples 5", "--landscape=--grid 3 --samples 5", "--sharpness=--samples 5 --probes 2"];
    let worker = semfocus(&[&["work", &dir][..], &options].concat());
    assert_eq!(worker.code, 0, "{}", worker.stderr);
    let found = || {
        let lines =
            |trial: &Path, name: &str| std::fs::read_to_string(trial.join(name)).map_or(0, |text| text.lines().count());
        let surfaces = |trial: &Path| std::fs::read_dir(trial.join("surfaces")).map_or(0, Iterator::count);
        let count = |trial: &std::path::PathBuf| {
            (lines(trial, "probes.jsonl"), surfaces(trial), lines(trial, "sharpness.jsonl"))
        };
        trials(&dir).iter().map(count).collect::<Vec<_>>()
    };
    // Probes are of all seeds, the others of the first.
    let all = found();
    assert!(all.iter().all(|(probes, _, _)| *probes == 1), "{all:?}");
    assert_eq!(all.iter().filter(|(_, surfaces, sharpness)| (*surfaces, *sharpness) == (1, 1)).count(), 2, "{all:?}");
    // Another worker finds it done: nothing is measured twice.
    let worker = semfocus(&["work", &dir]);
    assert_eq!(worker.code, 0, "{}", worker.stderr);
    assert_eq!(found(), all);
}
