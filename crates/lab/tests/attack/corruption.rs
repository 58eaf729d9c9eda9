//! Damage of every file of a finished run: flipped bits, lost ends, zeroes, exchanged lines and files, forged numbers, missing
//! files. Reading it never panics and is never silently different; the next run repairs it, to the same bits, and keeps what
//! was damaged.

use std::path::{Path, PathBuf};

use semfocus_core::Evaluation;
use semfocus_fixture::Scratch;
use semfocus_store::{Contents, End, Grid, Sharpness, SharpnessRecord, State, Store, SurfaceFolder, SurfaceSettings};

use crate::small_run::{SmallRun, assert_same, copy, files, refused, results};
use crate::{Dice, is_long};

/// What is done to a file, in words; none if that changes nothing.
fn damage(dir: &Path, path: &Path, all: &[PathBuf], dice: &mut Dice) -> Option<String> {
    let target = dir.join(path);
    let before = std::fs::read(&target).unwrap();
    let mut bytes = before.clone();
    let place = |dice: &mut Dice| dice.below(before.len());
    let lines = || before.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>();
    let words = match dice.below(10) {
        0 | 1 => {
            let (at, bit) = (place(dice), dice.below(8));
            *bytes.get_mut(at)? ^= 1 << bit;
            format!("bit {bit} of byte {at} flipped")
        }
        2 => {
            bytes.truncate(place(dice));
            format!("cut to {} bytes", bytes.len())
        }
        3 => {
            let at = place(dice);
            bytes[at..].iter_mut().take(16).for_each(|byte| *byte = 0);
            format!("zeroes from byte {at} on")
        }
        4 => {
            let (one, other) = (dice.below(lines().len()), dice.below(lines().len()));
            let mut exchanged = lines();
            exchanged.swap(one, other);
            bytes = exchanged.concat();
            format!("lines {one} and {other} exchanged")
        }
        5 => {
            let (mut doubled, line) = (lines(), dice.below(lines().len()));
            doubled.insert(line, doubled.get(line)?);
            bytes = doubled.concat();
            format!("line {line} doubled")
        }
        6 => {
            let mut shorter = lines();
            let line = dice.below(shorter.len());
            (line < shorter.len()).then(|| shorter.remove(line))?;
            bytes = shorter.concat();
            format!("line {line} removed")
        }
        7 => {
            // A forged number: another digit in place of one.
            let digits: Vec<usize> = (0..before.len()).filter(|at| before[*at].is_ascii_digit()).collect();
            let at = *digits.get(dice.below(digits.len()))?;
            bytes[at] = b'0' + dice.below(10) as u8;
            format!("byte {at} is {} now", char::from(bytes[at]))
        }
        8 => {
            let same_name = |other: &&PathBuf| other.file_name() == path.file_name() && *other != path;
            let other = all.iter().find(same_name)?;
            bytes = std::fs::read(dir.join(other)).unwrap();
            format!("in place of it {}", other.display())
        }
        _ => {
            std::fs::remove_file(&target).unwrap();
            return Some("removed".to_owned());
        }
    };
    std::fs::write(&target, &bytes).unwrap();
    (bytes != before).then_some(words)
}

/// What results are computed from.
fn shown(contents: &Contents) -> Vec<String> {
    let trial = |trial: &semfocus_store::StoredTrial| {
        let status = trial.status.as_ref().map(|status| (status.state, status.epoch, status.best, status.test));
        format!(
            "{:?} {:?} {:?} {status:?} {:?} {:?}",
            trial.entry, trial.state, trial.records, trial.probes, trial.slices
        )
    };
    let experiment = contents.experiment.to_toml();
    std::iter::once(experiment).chain(contents.trials.iter().map(trial)).collect()
}

/// A surface and a measurement, which training does not make.
fn add_extras(dir: &Path) {
    let store = Store::open(dir).unwrap();
    for trial in store.read().unwrap().trials {
        let settings = SurfaceSettings {
            epoch: 3,
            weights: "w".to_owned(),
            directions: "tensor".to_owned(),
            seed: 1,
            draw: 0,
            grid: Grid { side: 3, range: 1.0 },
            samples: 5,
            attention_dropout: false,
            path: Vec::new(),
        };
        let surface = SurfaceFolder::new(&trial.folder, settings);
        let lease = semfocus_fixture::lease(surface.path()).unwrap();
        surface.begin(&lease).unwrap();
        let cells: Vec<Evaluation> =
            (0..9).map(|cell| Evaluation { loss: f64::from(cell) / 7.0, accuracy: 0.5 }).collect();
        surface.append(&lease, 0, &cells).unwrap();
        let sharpness = Sharpness {
            eigenvalues: vec![1.5, 0.25],
            residuals: vec![0.01, 0.02],
            min: -0.5,
            min_residual: 0.1,
            trace: 3.0,
            trace_error: 0.25,
            products: 20,
            gradient_norm: 0.75,
            loss: 0.5,
        };
        let record = SharpnessRecord { epoch: 3, samples: 5, exact: true, probes: 2, sharpness, seconds: 0.5 };
        let lease = semfocus_fixture::lease(trial.folder.path()).unwrap();
        trial.folder.writer(&lease).add(&record).unwrap();
    }
}

#[test]
fn damage_of_any_file_is_named_and_repaired() {
    let run = SmallRun::new(false);
    let scratch = Scratch::new("attack-corruption");
    let pristine = scratch.path().join("pristine");
    run.train(&pristine).unwrap();
    add_extras(&pristine);
    assert_eq!(Store::open(&pristine).unwrap().damage().unwrap().len(), 0);
    let (expected, shown_before) = (results(&pristine), shown(&Store::open(&pristine).unwrap().read_all().unwrap()));
    let all: Vec<PathBuf> = files(&pristine).into_iter().filter(|path| !path.ends_with("lock")).collect();
    let (mut dice, mut done, mut harmless, mut refusals) = (Dice(7), 0, 0, 0);
    let wanted = if is_long() { 5000 } else { 150 };
    while done < wanted {
        let path = &all[done % all.len()];
        let dir = scratch.path().join(format!("damaged-{done}"));
        copy(&pristine, &dir);
        let words = damage(&dir, path, &all, &mut dice);
        let Some(words) = words else {
            std::fs::remove_dir_all(&dir).unwrap();
            continue;
        };
        done += 1;
        let context = format!("{}: {words}", path.display());
        let damaged = std::fs::read(dir.join(path)).ok();

        // Reading says what is wrong, or gives the same results.
        let store = Store::open(&dir);
        if let Ok(contents) = store.and_then(|store| store.read_all())
            && contents.damage.is_empty()
        {
            assert_eq!(shown(&contents), shown_before, "{context}");
        }
        let named = Store::open(&dir).and_then(|store| store.damage());
        let is_named = named.as_ref().map_or(true, |damage| !damage.is_empty());

        // The next run repairs it, or says why it does not.
        match run.train(&dir) {
            Ok(ends) if ends.iter().all(|end| *end == End::Over(State::Finished)) => {
                let mut expected = expected.clone();
                // The weights that a probe looked at may be removed to save space.
                if words == "removed" && path.to_string_lossy().contains("snapshots") {
                    expected.remove(path);
                }
                assert_same(&results(&dir), &expected, &context);
            }
            Ok(ends) => {
                let failed = |end: &End| matches!(end, End::Failed(message) if !message.contains("the program failed"));
                assert!(ends.iter().any(failed), "{context}: {ends:?}");
                assert!(
                    ends.iter().all(|end| failed(end) || *end == End::Over(State::Finished)),
                    "{context}: {ends:?}"
                );
                assert!(is_named, "{context}");
                // Another format is not damage: it is not touched.
                assert_eq!(std::fs::read(dir.join(path)).ok(), damaged, "{context}: {ends:?}");
                refusals += 1;
            }
            Err(error) => {
                assert!(is_named, "{context}: {error}");
                assert_eq!(std::fs::read(dir.join(path)).ok(), damaged, "{context}: {error}");
                refusals += 1;
            }
        }
        if !is_named {
            // What carries no meaning: removed files that may be absent, blanks, a checkpoint that is not the last.
            harmless += 1;
        } else if let Some(damaged) = damaged
            && refused(&dir).is_empty()
        {
            // Half a last line was being written when a process died, and what is missing at the end is added again; anything
            // else that is damaged is kept.
            let now = std::fs::read(dir.join(path)).unwrap_or_default();
            assert!(now.starts_with(&damaged) || damaged.last() != Some(&b'\n'), "{context}: it was not kept");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
    println!("{done} corruptions: {harmless} without meaning, {refusals} refused with a message, the rest repaired");
    assert!(harmless < done / 5, "{harmless} of {done} were not noticed");
}
