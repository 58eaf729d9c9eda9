//! Damaged files cost one trial at most: reading commands leave it out with a message, and `run` repairs it.
#![cfg(unix)]

mod common;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use semfocus_store::Checkpoint;

use common::{SMALL, Scratch, assert_same_bits, epochs, semfocus, trials};

/// A finished run of four trials, and the file of its experiment.
fn finished(scratch: &Scratch) -> (String, String) {
    let text = SMALL.replace("epochs = 12", "epochs = 4").replace("train = 400", "train = 100");
    let file = scratch.file("small.toml", &text);
    let dir = scratch.path("run");
    let output = semfocus(&["run", &file, "-o", &dir, "-q"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    (file, dir)
}

/// A copy of a run.
fn copy(scratch: &Scratch, dir: &str, name: &str) -> String {
    let to = scratch.path(name);
    assert!(Command::new("cp").args(["-r", dir, &to]).status().unwrap().success());
    to
}

fn edit(path: &Path, from: &str, to: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{} has {from}", path.display());
    std::fs::write(path, text.replacen(from, to, 1)).unwrap();
}

/// Files that were kept aside, below a folder.
fn kept_aside(dir: &str) -> Vec<PathBuf> {
    let folders = trials(dir).into_iter().chain([PathBuf::from(dir)]);
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    files.filter(|path| path.to_string_lossy().contains(".refused")).collect()
}

#[test]
fn one_bad_file_costs_one_trial_and_is_repaired() {
    let scratch = Scratch::new("one-bad-file");
    let (file, dir) = finished(&scratch);
    type Damage = (&'static str, fn(&Path));
    let damages: [Damage; 8] = [
        ("a word in the record", |trial| edit(&trial.join("epochs.csv"), "\n3,", "\nthree,")),
        ("an accuracy of 750 %", |trial| {
            let text = std::fs::read_to_string(trial.join("epochs.csv")).unwrap();
            let line = text.lines().nth(2).unwrap();
            let mut fields: Vec<&str> = line.split(',').collect();
            fields[3] = "7.5";
            edit(&trial.join("epochs.csv"), line, &fields.join(","));
        }),
        ("bytes that are no text", |trial| {
            let mut bytes = std::fs::read(trial.join("epochs.csv")).unwrap();
            bytes[20] |= 0x80;
            std::fs::write(trial.join("epochs.csv"), bytes).unwrap();
        }),
        ("a record that ends early", |trial| {
            let text = std::fs::read_to_string(trial.join("epochs.csv")).unwrap();
            std::fs::write(
                trial.join("epochs.csv"),
                text.lines().take(4).map(|l| l.to_owned() + "\n").collect::<String>(),
            )
            .unwrap();
        }),
        ("no record", |trial| std::fs::remove_file(trial.join("epochs.csv")).unwrap()),
        ("no settings", |trial| std::fs::remove_file(trial.join("trial.toml")).unwrap()),
        ("other settings", |trial| edit(&trial.join("trial.toml"), "d_model = 16", "d_model = 17")),
        ("a damaged best checkpoint", |trial| {
            let mut bytes = std::fs::read(trial.join("best.safetensors")).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            std::fs::write(trial.join("best.safetensors"), bytes).unwrap();
        }),
    ];
    for (number, (what, damage)) in damages.into_iter().enumerate() {
        let damaged = copy(&scratch, &dir, &format!("damaged-{number}"));
        let trial = &trials(&damaged)[1];
        damage(trial);
        // A checkpoint is only read by those who need it.
        if what != "a damaged best checkpoint" {
            for command in ["status", "compare", "report"] {
                let output = semfocus(&[command, &damaged]);
                assert_eq!(output.code, 3, "{what}, {command}: {}", output.stderr);
                let id = trial.file_name().unwrap().to_str().unwrap();
                assert!(
                    output.stderr.contains("left out: ") && output.stderr.contains(id),
                    "{what}: {}",
                    output.stderr
                );
                assert!(output.stdout.contains("topk:3") || command == "report", "{what}: {}", output.stdout);
            }
        }
        let verified = semfocus(&["verify", &damaged]);
        assert_eq!(verified.code, 3, "{what}: {}", verified.stdout);
        let output = semfocus(&["run", &file, "-o", &damaged, "-q"]);
        assert_eq!(output.code, 0, "{what}: {}", output.stderr);
        assert_same_bits(&dir, &damaged);
        let verified = semfocus(&["verify", &damaged]);
        assert_eq!(
            (verified.code, verified.stdout.as_str()),
            (0, "4 trials: every file is as it was written\n"),
            "{what}"
        );
        assert_eq!(kept_aside(&damaged).is_empty(), ["no record", "no settings"].contains(&what), "{what}");
    }
}

#[test]
fn exchanged_names_do_not_turn_a_verdict_round() {
    let scratch = Scratch::new("exchanged");
    let (file, dir) = finished(&scratch);
    let before = semfocus(&["compare", &dir, "--json"]).stdout;
    let index = Path::new(&dir).join("trials.csv");
    let text = std::fs::read_to_string(&index).unwrap();
    std::fs::write(
        &index,
        text.replace(",full,", ",FULL,").replace(",topk:3,", ",full,").replace(",FULL,", ",topk:3,"),
    )
    .unwrap();
    let output = semfocus(&["compare", &dir, "--json"]);
    assert_eq!((output.code, &output.stdout), (3, &before), "{}", output.stderr);
    assert!(output.stderr.contains("trials.csv is damaged: line 2: its checksum is wrong"), "{}", output.stderr);
    let output = semfocus(&["run", &file, "-o", &dir, "-q"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("repaired: ") && output.stderr.contains("trials.csv"), "{}", output.stderr);
    assert_eq!(std::fs::read_to_string(&index).unwrap(), text);
    assert_eq!(kept_aside(&dir), [PathBuf::from(&dir).join("trials.csv.refused")]);
}

#[test]
fn verify_names_every_damage_and_repairs_what_it_can() {
    let scratch = Scratch::new("verify");
    let (file, dir) = finished(&scratch);
    let expected = copy(&scratch, &dir, "expected");
    let folders = trials(&dir);
    edit(&folders[0].join("trial.toml"), "seed", "sead");
    edit(&folders[1].join("status.json"), "finished", "finishes");
    edit(&folders[2].join("epochs.csv"), "\n2,", "\n7,");
    std::fs::write(Path::new(&dir).join("trials.csv"), "nothing\n").unwrap();
    let found = semfocus(&["verify", &dir, "--json"]);
    assert_eq!(found.code, 3, "{}", found.stderr);
    let report: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    let files: Vec<&str> = report["damage"].as_array().unwrap().iter().map(|d| d["file"].as_str().unwrap()).collect();
    for name in ["trial.toml", "status.json", "epochs.csv", "trials.csv"] {
        assert!(files.iter().any(|file| file.ends_with(name)), "{name} in {files:?}");
    }
    assert!(kept_aside(&dir).is_empty(), "without --repair nothing is touched");
    let repaired = semfocus(&["verify", &dir, "--repair"]);
    assert_eq!(repaired.code, 3, "{}", repaired.stderr);
    assert!(repaired.stdout.contains("To train again what is lost: semfocus run"), "{}", repaired.stdout);
    assert!(kept_aside(&dir).len() >= 4, "{:?}", kept_aside(&dir));
    assert_eq!(std::fs::read(folders[0].join("trial.toml")).unwrap(), {
        std::fs::read(trials(&expected)[0].join("trial.toml")).unwrap()
    });
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "-q"]).code, 0);
    assert_same_bits(&expected, &dir);
    assert_eq!(semfocus(&["verify", &dir]).code, 0);
}

/// As another user, because root may read everything; gives the exit code and the messages. None if this is not root, or if the
/// other user may not even look into the folder that this project is in.
fn as_another_user(arguments: &[&str]) -> Option<(i32, String)> {
    if !Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n") {
        return None;
    }
    let other = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", program]);
        command
    };
    if !other("ls").arg(env!("CARGO_TARGET_TMPDIR")).output().ok()?.status.success() {
        return None;
    }
    let output = other(env!("CARGO_BIN_EXE_semfocus")).args(arguments).output().ok()?;
    Some((output.status.code()?, String::from_utf8_lossy(&output.stderr).into_owned()))
}

#[test]
fn a_file_that_may_not_be_read_is_no_damage() {
    let scratch = Scratch::new("permission");
    let (file, dir) = finished(&scratch);
    let everything = |mode: &str, path: &str| {
        assert!(Command::new("chmod").args(["-R", mode, path]).status().unwrap().success());
    };
    everything("a+rwX", &dir);
    let folders = trials(&dir);
    for folder in &folders {
        let last = folder.join("last.safetensors");
        std::fs::set_permissions(last, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let before: Vec<Vec<String>> = folders.iter().map(|folder| epochs(folder)).collect();
    let grown = ["run", &file, "-o", &dir, "--epochs", "5", "-q"];
    if let Some((code, said)) = as_another_user(&grown) {
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("Permission denied"), "{said}");
        assert!(kept_aside(&dir).is_empty(), "{:?}", kept_aside(&dir));
        assert_eq!(folders.iter().map(|folder| epochs(folder)).collect::<Vec<_>>(), before);
    }
    // Whoever may read it continues from there.
    let output = semfocus(&grown);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(!output.stderr.contains("starts again"), "{}", output.stderr);
    assert_eq!(epochs(&folders[0]).len(), 6);
}

#[test]
fn a_newer_checkpoint_is_left_alone() {
    let scratch = Scratch::new("newer");
    let (file, dir) = finished(&scratch);
    let folder = trials(&dir)[0].clone();
    for name in ["last", "previous", "best"] {
        let path = folder.join(format!("{name}.safetensors"));
        let mut bytes = std::fs::read(&path).unwrap();
        let text = br#"format_version\":"#;
        let at = bytes.windows(text.len()).position(|window| window == text).unwrap() + text.len();
        bytes[at] = b'9';
        std::fs::write(&path, bytes).unwrap();
    }
    let output = semfocus(&["run", &file, "-o", &dir, "--epochs", "5", "-q"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("has format 9"), "{}", output.stderr);
    assert!(kept_aside(&dir).is_empty());
    assert_eq!(epochs(&folder).len(), 5, "the epochs are still there");
}

#[test]
fn links_and_pipes_in_a_foreign_folder_are_refused() {
    let scratch = Scratch::new("links");
    let (_, dir) = finished(&scratch);
    let secret = scratch.file("secret", "mine");
    let folder = trials(&dir)[0].clone();
    std::fs::remove_file(folder.join("lock")).unwrap();
    symlink(&secret, folder.join("lock")).unwrap();
    let output = semfocus(&["probe", folder.to_str().unwrap(), "--samples", "10"]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("symbolic link"), "{}", output.stderr);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "mine");

    // A folder that would lead outside.
    let outside = scratch.path("outside");
    std::fs::create_dir(&outside).unwrap();
    let _ = std::fs::remove_dir_all(Path::new(&dir).join("figures"));
    symlink(&outside, Path::new(&dir).join("figures")).unwrap();
    let output = semfocus(&["report", &dir]);
    assert_eq!(output.code, 1, "{}", output.stderr);
    assert!(output.stderr.contains("symbolic link"), "{}", output.stderr);
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);

    // A pipe does not hang a reader.
    let pipe = trials(&dir)[1].join("epochs.csv");
    std::fs::remove_file(&pipe).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = semfocus(&["compare", &dir]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("not a regular file"), "{}", output.stderr);
}

#[test]
fn forged_checkpoints_are_refused() {
    let scratch = Scratch::new("forged");
    let (file, dir) = finished(&scratch);
    let longer = copy(&scratch, &dir, "longer");
    assert_eq!(semfocus(&["run", &file, "-o", &longer, "--epochs", "5", "-q"]).code, 0);
    type Forge = (&'static str, fn(&mut Checkpoint));
    let forgeries: [Forge; 4] = [
        ("steps do not make", |checkpoint| checkpoint.progress.total_steps += 1_000_000_000),
        ("has values that are not finite", |checkpoint| {
            checkpoint.tensors.get_mut("embedding").unwrap().values[0] = f32::NAN;
        }),
        ("has 3 values", |checkpoint| {
            let state = checkpoint.tensors.get_mut("optimizer.momentum.embedding").unwrap();
            (state.shape, state.values) = (vec![3], vec![0.5; 3]);
        }),
        ("it has the settings of trial", |checkpoint| {
            checkpoint.settings = checkpoint.settings.replace("d_model = 16", "d_model = 17");
        }),
    ];
    for (number, (reason, forge)) in forgeries.into_iter().enumerate() {
        let forged = copy(&scratch, &dir, &format!("forged-{number}"));
        for name in ["last", "previous", "best"] {
            let path = trials(&forged)[0].join(format!("{name}.safetensors"));
            let mut checkpoint = Checkpoint::read(&path, None).unwrap();
            forge(&mut checkpoint);
            std::fs::write(&path, checkpoint.to_bytes()).unwrap();
        }
        let output = semfocus(&["run", &file, "-o", &forged, "--epochs", "5"]);
        assert_eq!(output.code, 0, "{reason}: {}", output.stderr);
        assert!(output.stderr.contains(reason), "{reason}: {}", output.stderr);
        assert_same_bits(&longer, &forged);
        assert_eq!(kept_aside(&forged).iter().filter(|path| path.to_string_lossy().contains("safetensors")).count(), 3);
    }
}

#[test]
fn a_run_that_two_processes_wrote_at_once_begins_again() {
    let scratch = Scratch::new("written-twice");
    let (file, dir) = finished(&scratch);
    let doubled = copy(&scratch, &dir, "doubled");
    // As two processes leave a trial that do not know of each other: both append all their lines, and both say that it is finished.
    let trial = trials(&doubled)[0].clone();
    for name in ["epochs.csv", "events.jsonl"] {
        let text = std::fs::read_to_string(trial.join(name)).unwrap();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let twice = lines[1..].iter().map(|line| line.repeat(2)).collect::<String>();
        std::fs::write(trial.join(name), lines[0].to_owned() + &twice).unwrap();
    }
    let compared = semfocus(&["compare", &doubled]);
    assert!(compared.code == 3 && compared.stderr.contains("epochs.csv is damaged"), "{}", compared.stderr);
    for lock in ["flock", "lease"] {
        let dir_of_lock = copy(&scratch, &doubled, lock);
        let output = semfocus(&["run", &file, "-o", &dir_of_lock, "-q", "--lock", lock]);
        assert_eq!(output.code, 0, "{lock}: {}", output.stderr);
        assert_same_bits(&dir, &dir_of_lock);
        let kept = kept_aside(&dir_of_lock);
        assert!(kept.iter().any(|path| path.ends_with("epochs.csv.refused")), "{lock}: {kept:?}");
        assert_eq!(semfocus(&["compare", &dir_of_lock]).code, 0);
    }
}

/// The program with a limit of time: code 124 if it does not answer.
fn answers(arguments: &[&str], folder: &str) -> (i32, String) {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_semfocus")]).args(arguments).current_dir(folder);
    let output = command.stdin(std::process::Stdio::null()).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn make_pipe(path: &str) {
    let _ = std::fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn pipes_devices_and_sparse_files_are_refused_at_once() {
    let scratch = Scratch::new("special-files");
    let (_, dir) = finished(&scratch);
    let sparse = scratch.path("sparse.toml");
    std::fs::File::create(&sparse).unwrap().set_len(3 << 30).unwrap();
    let pipe = scratch.path("pipe.toml");
    make_pipe(&pipe);
    for (file, said) in
        [(sparse.as_str(), "3221225472 bytes"), (&pipe, "not a regular file"), ("/dev/zero", "not a regular file")]
    {
        let (code, stderr) = answers(&["run", file, "--dry-run"], ".");
        assert!(code == 2 && stderr.contains(said), "{file}: {code} {stderr}");
    }
    // A profile of a site.
    let profile = scratch.path(".semfocus.toml");
    make_pipe(&profile);
    let (code, stderr) = answers(&["slurm", "submit", "even-pairs", "--print"], &scratch.path("."));
    assert!(code != 0 && code != 124 && stderr.contains("not a regular file"), "{code} {stderr}");
    std::fs::remove_file(profile).unwrap();
    // In the folder of a run.
    let cases: [(&str, &[&str]); 6] = [
        ("measure.toml", &["work"]),
        ("measure.toml", &["slurm", "status"]),
        ("slurm/now/submission.json", &["slurm", "status"]),
        ("experiment.toml", &["run"]),
        ("experiment.toml", &["status"]),
        ("trials.csv", &["compare"]),
    ];
    for (name, command) in cases {
        let damaged = copy(&scratch, &dir, "with-a-pipe");
        let path = Path::new(&damaged).join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        make_pipe(path.to_str().unwrap());
        let (code, stderr) = answers(&[command, &[damaged.as_str()]].concat(), ".");
        assert!(
            code != 0 && code != 124 && stderr.contains("not a regular file"),
            "{name}, {command:?}: {code} {stderr}"
        );
        std::fs::remove_dir_all(&damaged).unwrap();
    }
    // A description that leads elsewhere.
    let linked = copy(&scratch, &dir, "linked");
    let description = Path::new(&linked).join("experiment.toml");
    let elsewhere = scratch.path("elsewhere.toml");
    std::fs::rename(&description, &elsewhere).unwrap();
    symlink(&elsewhere, &description).unwrap();
    let (code, stderr) = answers(&["run", &linked], ".");
    assert!(code != 0 && stderr.contains("symbolic link"), "{code} {stderr}");
}

#[test]
fn a_model_that_may_not_be_read_is_left_out_and_no_other_takes_its_place() {
    let scratch = Scratch::new("unreadable-model");
    let (_, dir) = finished(&scratch);
    let folder = trials(&dir)[0].clone();
    let last = folder.join("last.safetensors");
    for what in ["unreadable", "damaged"] {
        let dir = copy(&scratch, &dir, what);
        assert!(Command::new("chmod").args(["-R", "a+rwX", &dir]).status().unwrap().success());
        let last = Path::new(&dir).join("trials").join(folder.file_name().unwrap()).join("last.safetensors");
        let arguments = ["probe", dir.as_str(), "--samples", "10"];
        let (code, said) = if what == "damaged" {
            std::fs::write(&last, "nothing").unwrap();
            let output = semfocus(&arguments);
            (output.code, output.stderr)
        } else {
            std::fs::set_permissions(&last, std::fs::Permissions::from_mode(0o600)).unwrap();
            let Some(answer) = as_another_user(&arguments) else { continue };
            answer
        };
        assert_eq!(code, 3, "{said}");
        assert!(said.contains("failed: ") && said.contains("last.safetensors"), "{said}");
        let probed =
            |trial: &PathBuf| std::fs::read_to_string(trial.join("probes.jsonl")).unwrap_or_default().lines().count();
        let counts: Vec<usize> = trials(&dir).iter().map(probed).collect();
        assert_eq!((counts.iter().sum::<usize>(), probed(&last.parent().unwrap().to_owned())), (3, 0), "{what}");
    }
    assert!(last.is_file());
}

#[test]
fn workers_measure_no_trial_that_is_not_over() {
    let scratch = Scratch::new("half-way");
    let (file, dir) = finished(&scratch);
    let stuck = trials(&dir)[0].clone();
    // Another epoch cannot be saved.
    std::fs::remove_file(stuck.join("best.safetensors")).unwrap();
    std::fs::create_dir(stuck.join("best.safetensors")).unwrap();
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "--epochs", "6", "-q"]).code, 3);
    let output = semfocus(&["work", &dir, "--probe", "-q"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let is_probed = |trial: &PathBuf| trial.join("probes.jsonl").exists();
    assert_eq!(trials(&dir).iter().filter(|trial| is_probed(trial)).count(), 3, "{}", output.stderr);
    assert!(!is_probed(&stuck));
}

#[test]
fn every_number_is_covered_and_advice_can_be_followed() {
    let scratch = Scratch::new("covered numbers");
    let (file, dir) = finished(&scratch);
    let expected = copy(&scratch, &dir, "expected");
    assert_eq!(semfocus(&["work", &dir, "--sharpness=samples=10", "-q"]).code, 0);
    assert_eq!(semfocus(&["verify", &dir]).code, 0);
    let folders = trials(&dir);
    edit(&folders[0].join("trial.toml"), "epochs = 4", "epochs = 5");
    edit(&Path::new(&dir).join("measure.toml"), "samples = 10", "samples = 11");
    // A process that is killed leaves half an event, which nothing needs.
    for name in ["events.jsonl", "sharpness.jsonl"] {
        let mut bytes = std::fs::read(folders[1].join(name)).unwrap();
        bytes.pop();
        std::fs::write(folders[1].join(name), bytes).unwrap();
    }
    let verified = semfocus(&["verify", &dir]);
    assert_eq!(verified.code, 3, "{}", verified.stdout);
    for name in ["trial.toml", "measure.toml", "sharpness.jsonl"] {
        assert!(verified.stdout.contains(&format!("{name} is damaged: its ")), "{name}: {}", verified.stdout);
    }
    assert!(!verified.stdout.contains("events.jsonl"), "{}", verified.stdout);
    // What is printed can be pasted, although there is a blank in the path.
    let advice = verified.stdout.lines().find_map(|line| line.strip_prefix("To repair it: semfocus ")).unwrap();
    let shell = |command: &str| {
        let script = format!("exec {} {command} -q", env!("CARGO_BIN_EXE_semfocus"));
        let script = if command.starts_with("run") { script } else { script.trim_end_matches(" -q").to_owned() };
        Command::new("bash").args(["-c", &script]).output().unwrap()
    };
    let repaired = shell(advice);
    assert_eq!(repaired.status.code(), Some(0), "{}", String::from_utf8_lossy(&repaired.stdout));
    assert_eq!(semfocus(&["verify", &dir]).code, 0);
    assert_same_bits(&expected, &dir);
    assert_eq!(semfocus(&["run", &file, "-o", &dir, "-q"]).code, 0);
    // What cannot be repaired is not promised to be.
    let last = folders[2].join("last.safetensors");
    std::fs::remove_file(&last).unwrap();
    std::fs::create_dir(&last).unwrap();
    let verified = semfocus(&["verify", &dir]);
    assert_eq!(verified.code, 3);
    assert!(
        !verified.stdout.contains("To repair it") && verified.stdout.contains("cannot be repaired"),
        "{}",
        verified.stdout
    );
}
