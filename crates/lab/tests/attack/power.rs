//! Power failures. The operations of a run are recorded. For every prefix of them, and for every part of what was not synced
//! by then that may have reached the disk, in whatever order, the files are made as they would be found afterwards; the next
//! run ends with the same bits.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use semfocus_fixture::Scratch;
use semfocus_store::disk::{Answer, Operation};

use crate::small_run::{SmallRun, assert_same, refused, results, watched};
use crate::{Dice, is_long};

/// An operation that changes the disk, with paths relative to the run folder.
enum Change {
    Write(PathBuf, Vec<u8>),
    Append(PathBuf, Vec<u8>),
    Shorten(PathBuf, usize),
    Sync(PathBuf),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Change {
    fn new(operation: &Operation<'_>, dir: &Path) -> Option<Self> {
        let path = |path: &Path| path.strip_prefix(dir).map_or_else(|_| PathBuf::new(), Path::to_owned);
        Some(match *operation {
            Operation::Write { path: at, contents } => Change::Write(path(at), contents.to_vec()),
            Operation::Append { path: at, contents } => Change::Append(path(at), contents.to_vec()),
            Operation::Shorten { path: at, length } => Change::Shorten(path(at), length as usize),
            Operation::Sync { path: at } => Change::Sync(path(at)),
            Operation::SyncFolder { path: at } => Change::SyncFolder(path(at)),
            Operation::Rename { from, to } => Change::Rename(path(from), path(to)),
            Operation::Link { from, to } => Change::Link(path(from), path(to)),
            Operation::Remove { path: at } => Change::Remove(path(at)),
            // Nothing is in a folder before its own name is synced.
            Operation::Read { .. } | Operation::List { .. } | Operation::OpenLock { .. } => return None,
            Operation::CreateFolder { .. } | Operation::RemoveFolder { .. } => return None,
        })
    }
}

/// A file: what is surely on the disk, and what was written.
#[derive(Clone, Default)]
struct Contents {
    synced: Vec<u8>,
    written: Vec<u8>,
}

/// A change of names in a folder that was not synced yet. It is on the disk or not, as a whole.
#[derive(Clone)]
struct Pending {
    folder: PathBuf,
    /// Names that now belong to a file, or to none.
    names: Vec<(PathBuf, Option<usize>)>,
}

/// A disk that may lose what was not synced.
#[derive(Clone, Default)]
struct Disk {
    files: Vec<Contents>,
    now: BTreeMap<PathBuf, usize>,
    synced: BTreeMap<PathBuf, usize>,
    pending: Vec<Pending>,
}

impl Disk {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(path, contents) => {
                let file = self.file(path);
                self.files[file].written.clone_from(contents);
            }
            Change::Append(path, contents) => {
                let file = self.file(path);
                self.files[file].written.extend(contents);
            }
            Change::Shorten(path, length) => {
                let file = self.file(path);
                self.files[file].written.truncate(*length);
            }
            Change::Sync(path) => {
                let file = self.file(path);
                self.files[file].synced = self.files[file].written.clone();
            }
            Change::SyncFolder(path) => {
                for pending in self.pending.extract_if(.., |pending| pending.folder == *path) {
                    rename(&mut self.synced, &pending);
                }
            }
            Change::Rename(from, to) => {
                let Some(file) = self.now.get(from).copied() else { return };
                self.name(vec![(from.clone(), None), (to.clone(), Some(file))]);
            }
            Change::Link(from, to) => {
                let Some(file) = self.now.get(from).copied() else { return };
                self.name(vec![(to.clone(), Some(file))]);
            }
            Change::Remove(path) => self.name(vec![(path.clone(), None)]),
        }
    }

    /// The file with a name; a new one if there is none.
    fn file(&mut self, path: &Path) -> usize {
        if let Some(file) = self.now.get(path) {
            return *file;
        }
        self.files.push(Contents::default());
        self.name(vec![(path.to_owned(), Some(self.files.len() - 1))]);
        self.files.len() - 1
    }

    fn name(&mut self, names: Vec<(PathBuf, Option<usize>)>) {
        let folder = names[0].0.parent().unwrap_or(Path::new("")).to_owned();
        let pending = Pending { folder, names };
        rename(&mut self.now, &pending);
        self.pending.push(pending);
    }

    /// What may be found after a power failure: every subset of what is pending, and for every file that was not synced the
    /// old contents, the new ones, or half of what is new. Beyond a limit, a sample.
    fn outcomes(&self, dice: &mut Dice) -> Vec<BTreeMap<PathBuf, Vec<u8>>> {
        let dirty: Vec<usize> =
            (0..self.files.len()).filter(|file| self.files[*file].synced != self.files[*file].written).collect();
        let choices = 2usize.saturating_pow(self.pending.len() as u32) * 3usize.saturating_pow(dirty.len() as u32);
        let chosen: Vec<usize> =
            if choices <= 256 { (0..choices).collect() } else { (0..256).map(|_| dice.below(choices)).collect() };
        chosen.into_iter().map(|choice| self.outcome(choice, &dirty)).collect()
    }

    fn outcome(&self, mut choice: usize, dirty: &[usize]) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut next = |count: usize| {
            let (digit, rest) = (choice % count, choice / count);
            choice = rest;
            digit
        };
        let mut names = self.synced.clone();
        for pending in &self.pending {
            if next(2) == 1 {
                rename(&mut names, pending);
            }
        }
        let mut contents: Vec<Vec<u8>> = self.files.iter().map(|file| file.written.clone()).collect();
        for file in dirty {
            let Contents { synced, written } = &self.files[*file];
            contents[*file] = match next(3) {
                0 => synced.clone(),
                1 => written.clone(),
                _ if written.starts_with(synced) => written[..synced.len().midpoint(written.len())].to_vec(),
                _ => written[..written.len() / 2].to_vec(),
            };
        }
        names.into_iter().map(|(path, file)| (path, contents[file].clone())).collect()
    }
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, pending: &Pending) {
    for (path, file) in &pending.names {
        match file {
            Some(file) => names.insert(path.clone(), *file),
            None => names.remove(path),
        };
    }
}

#[test]
fn a_run_goes_on_after_a_power_failure_at_any_moment() {
    let scratch = Scratch::new("attack-power");
    let (mut failures, mut dice) = (0, Dice(1));
    for saves_every_step in [false, true] {
        let run = SmallRun::new(saves_every_step);
        let undisturbed = scratch.path().join(format!("undisturbed-{saves_every_step}"));
        let changes = Arc::new(Mutex::new(Vec::new()));
        let (record, root) = (changes.clone(), undisturbed.clone());
        let answer = move |_: usize, operation: &Operation<'_>| {
            record.lock().unwrap().extend(Change::new(operation, &root));
            Answer::Go
        };
        watched(&undisturbed, answer, || run.train(&undisturbed).unwrap());
        let expected = results(&undisturbed);
        let (mut disk, mut seen) = (Disk::default(), HashSet::new());
        for (number, change) in changes.lock().unwrap().iter().enumerate() {
            disk.apply(change);
            for outcome in disk.outcomes(&mut dice) {
                // The same files are found after many moments.
                let is_new = seen.insert(outcome.clone());
                if !is_new || !(is_long() || dice.below(10) == 0) {
                    continue;
                }
                let dir = scratch.path().join(format!("{saves_every_step}-{failures}"));
                std::fs::create_dir_all(&dir).unwrap();
                for (path, contents) in &outcome {
                    let path = dir.join(path);
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, contents).unwrap();
                }
                let context = format!("power failure after operation {number}, files {:?}", outcome.keys());
                assert_same(&run.finish(&dir, &context), &expected, &context);
                assert!(refused(&dir).is_empty(), "{context}: {:?}", refused(&dir));
                std::fs::remove_dir_all(&dir).unwrap();
                failures += 1;
            }
        }
    }
    println!("{failures} power failures");
    assert!(failures >= if is_long() { 400 } else { 20 }, "{failures}");
}
