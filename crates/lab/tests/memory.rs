//! The memory that training takes: what is estimated before, and whether it stays the same from step to step.

#![cfg(target_os = "linux")]

mod common;

use std::sync::atomic::AtomicBool;

use semfocus_lab::training::Trainer;
use semfocus_lab::{Device, Lab, Trial, memory};

/// Bytes of this process, by a line of its status.
fn status(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

/// Trains on one thread, and returns how many bytes the process had more than before, at most and afterwards.
fn trained(trial: &Trial, epochs: usize) -> (u64, u64) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let before = status("VmRSS");
    // From now on the peak is counted afresh.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let mut trainer = pool.install(|| Trainer::new(trial, &Device::cpu()).unwrap());
    let stop = AtomicBool::new(false);
    for _ in 0..epochs {
        pool.install(|| trainer.epoch(&stop, |_, _| true).unwrap());
    }
    (status("VmHWM") - before, status("VmRSS").saturating_sub(before))
}

const LONG: [&str; 4] = ["data.length=400", "model.d_model=64", "model.d_mlp=64", "model.blocks=5"];

const CASES: [(&str, &[&str]); 4] = [
    ("full", &LONG),
    ("topk:5", &LONG),
    ("full", &["data.length=100", "model.d_model=64", "model.engine=reference"]),
    ("full", &["model.d_model=512", "model.d_mlp=512", "model.blocks=4"]),
];

/// Each case has a process of its own, because memory that one leaves behind is used by the next.
#[test]
fn training_takes_what_was_estimated() {
    const NUMBER: &str = "SEMFOCUS_TEST_MEMORY_CASE";
    let Ok(number) = std::env::var(NUMBER) else {
        for number in 0..CASES.len() {
            let mut process = std::process::Command::new(std::env::current_exe().unwrap());
            process.args(["training_takes_what_was_estimated", "--exact", "--nocapture"]);
            let output = process.env(NUMBER, number.to_string()).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        return;
    };
    let trial = |mechanism, overrides: &[&str]| common::planned(&Lab::standard(), mechanism, overrides).unwrap();
    // First of all what every process takes once.
    trained(&trial("full", &[]), 2);
    let (mechanism, overrides) = CASES[number.parse::<usize>().unwrap()];
    let trial = trial(mechanism, &[overrides, &["data.train=50", "training.batch=10"]].concat());
    let (estimate, (peak, _)) = (memory::needed(&trial, 1), trained(&trial, 1));
    eprintln!("{mechanism} {overrides:?}: estimate {estimate}, peak {peak}");
    assert!((peak / 2..4 * peak).contains(&estimate), "{mechanism} {overrides:?}: {estimate}, not {peak}");
}

/// 2,000 steps with evaluations in between; 20,000 in `.ci/attack`.
#[test]
fn training_does_not_grow() {
    let trial = common::planned(&Lab::standard(), "topk:3", &[]).unwrap();
    let is_long = std::env::var("SEMFOCUS_ATTACK").is_ok_and(|value| value == "long");
    let epochs = if is_long { 4000 } else { 400 };
    trained(&trial, 20);
    let (_, growth) = trained(&trial, epochs);
    assert!(growth < 6_000_000, "{growth} bytes more after {epochs} epochs");
}
