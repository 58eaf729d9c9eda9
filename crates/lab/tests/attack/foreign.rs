//! Files that are whole and yet not what they should be: older ones, those of another run, much too large ones, pipes, folders. All of
//! them are noticed, nothing blocks, and nothing is read that fills the memory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use semfocus_fixture::Scratch;
use semfocus_store::{Checkpoint, Store};

use crate::small_run::{SmallRun, assert_same, copy, files, results};

/// The largest memory that this process had so far, in bytes.
fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() * 1024
}

fn named(dir: &Path) -> String {
    let store = Store::open(dir).unwrap();
    let damage = store.damage().unwrap();
    // Reading says so, too: fewer trials are never used in silence.
    let read = store.read().unwrap();
    assert!(!read.damage.is_empty(), "{damage:?}");
    damage.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn older_lists_and_those_of_other_runs_are_noticed_and_repaired() {
    let scratch = Scratch::new("attack-stale");
    let (old, new, other) = (scratch.path().join("old"), scratch.path().join("new"), scratch.path().join("other"));
    SmallRun::new(false).train(&old).unwrap();
    let run = SmallRun::with_seeds("2");
    copy(&old, &new);
    run.train(&new).unwrap();
    SmallRun::with_seeds("[7]").train(&other).unwrap();
    let expected = results(&new);
    assert_eq!(Store::open(&new).unwrap().damage().unwrap().len(), 0);
    let described = ["experiment.toml", "trials/experiment.toml"];
    for (from, names, said) in [
        (&old, &["trials.csv"][..], "not the list of the trials in experiment.toml"),
        (&other, &["trials.csv"], "not the list of the trials in experiment.toml"),
        (&old, &described, "not the list of the trials in experiment.toml"),
        (&other, &described, "not the list of the trials in experiment.toml"),
        (&old, &["experiment.toml", "trials/experiment.toml", "trials.csv"], "trials.csv does not list this trial"),
        (&other, &["experiment.toml", "trials/experiment.toml", "trials.csv"], "trials.csv does not list this trial"),
    ] {
        let dir = scratch.path().join("stale");
        copy(&new, &dir);
        for name in names {
            std::fs::copy(from.join(name), dir.join(name)).unwrap();
        }
        let text = named(&dir);
        assert!(text.contains(said), "{names:?} of {}: {text}", from.display());
        // The experiment that was asked for describes the folder again, or the folder is that of another one.
        match run.train(&dir) {
            Ok(_) => {
                assert_same(&results(&dir), &expected, &format!("{names:?} of {}", from.display()));
                assert_eq!(Store::open(&dir).unwrap().damage().unwrap().len(), 0, "{names:?}");
            }
            Err(error) => assert!(from == &other && error.to_string().contains("holds another experiment"), "{error}"),
        }
    }
}

#[test]
fn files_that_are_too_large_or_no_files_answer_at_once() {
    let scratch = Scratch::new("attack-special");
    let run = SmallRun::new(false);
    let good = scratch.path().join("good");
    run.train(&good).unwrap();
    let all: Vec<PathBuf> = files(&good).into_iter().filter(|path| !path.ends_with("lock")).collect();
    let (before, began) = (peak_memory(), Instant::now());
    for path in &all {
        for kind in ["sparse", "pipe", "folder", "zero"] {
            let dir = scratch.path().join("special");
            copy(&good, &dir);
            let target = dir.join(path);
            std::fs::remove_file(&target).unwrap();
            match kind {
                "sparse" => std::fs::File::create(&target).unwrap().set_len(3 << 30).unwrap(),
                "pipe" => assert!(std::process::Command::new("mkfifo").arg(&target).status().unwrap().success()),
                "folder" => std::fs::create_dir(&target).unwrap(),
                _ => std::os::unix::fs::symlink("/dev/zero", &target).unwrap(),
            }
            let damage = Store::open(&dir).and_then(|store| store.damage());
            // The list of finished trials may be missing.
            let is_named = damage.map_or(true, |damage| !damage.is_empty()) || path.ends_with("finished.jsonl");
            assert!(is_named, "{} is a {kind}", path.display());
        }
    }
    assert!(peak_memory() - before < 1 << 30, "{} bytes more", peak_memory() - before);
    assert!(began.elapsed() < Duration::from_secs(300), "{:?}", began.elapsed());
    // A checkpoint with more behind it than its header says.
    let path = good.join(all.iter().find(|path| path.ends_with("last.safetensors")).unwrap());
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_len(3 << 30).unwrap();
    assert!(Checkpoint::read(&path, None).unwrap_err().is_damage());
    assert!(peak_memory() - before < 1 << 30, "{} bytes more", peak_memory() - before);
}

#[test]
fn checkpoints_whose_headers_claim_too_much_are_not_read() {
    let scratch = Scratch::new("attack-claims");
    let dir = scratch.path().join("run");
    SmallRun::new(false).train(&dir).unwrap();
    let before = peak_memory();
    for path in files(&dir).into_iter().filter(|path| path.extension().is_some_and(|end| end == "safetensors")) {
        claim_more(&dir.join(&path), 3 << 30);
        let damage = Store::open(&dir).unwrap().damage().unwrap();
        let said = damage.iter().map(ToString::to_string).find(|text| text.contains(path.to_str().unwrap()));
        assert!(said.as_ref().is_some_and(|text| text.contains("a file of this kind has at most")), "{said:?}");
    }
    assert!(peak_memory() - before < 1 << 29, "{} bytes more", peak_memory() - before);
}

/// Gives a checkpoint one more tensor of this size, by its header and by the size of the file, which takes no space on the disk.
fn claim_more(path: &Path, bytes: u64) {
    let contents = std::fs::read(path).unwrap();
    let (length, rest) = contents.split_first_chunk().unwrap();
    let (json, tensors) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut header: serde_json::Value = serde_json::from_slice(json).unwrap();
    let end = tensors.len() as u64;
    header["more"] = serde_json::json!({ "dtype": "F32", "shape": [bytes / 4], "data_offsets": [end, end + bytes] });
    let json = serde_json::to_vec(&header).unwrap();
    let start = [&(json.len() as u64).to_le_bytes(), &json[..], tensors].concat();
    std::fs::write(path, &start).unwrap();
    std::fs::File::options().write(true).open(path).unwrap().set_len(start.len() as u64 + bytes).unwrap();
}
