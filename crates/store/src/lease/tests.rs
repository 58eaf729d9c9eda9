//! Leases of pretended machines, with clocks that stand still until a test moves them. Each machine has a path of its own to the
//! same folder, as if it had mounted it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::disk::{Answer, Operation, Watcher, watch};
use crate::test_tools::Scratch;

/// A machine that shares a folder with others.
pub(super) struct Machine {
    pub(super) locks: Locks,
    pub(super) mount: PathBuf,
    clock: Arc<AtomicU64>,
}

impl Machine {
    pub(super) fn new(scratch: &Scratch, name: &str, uses_claims: bool) -> Self {
        let real = scratch.path().join("real");
        std::fs::create_dir_all(&real).unwrap();
        let mount = scratch.path().join(name);
        std::os::unix::fs::symlink(&real, &mount).unwrap();
        let clock = Arc::new(AtomicU64::new(0));
        let now = clock.clone();
        let locks = Locks {
            process: Process { host: name.to_owned(), ..Process::here().clone() },
            clock: Box::new(move || Duration::from_secs(now.load(Ordering::SeqCst))),
            has_threads: false,
            limit: LIMIT,
            ..Locks::new(uses_claims)
        };
        Machine { locks, mount, clock }
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.mount.join("trial")
    }

    pub(super) fn file(&self) -> PathBuf {
        self.folder().join("epochs.csv")
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.fetch_add(seconds, Ordering::SeqCst);
    }

    fn take(&self) -> Option<Lease> {
        match self.locks.take(&self.folder()).unwrap() {
            Taken::Lease(lease) => Some(lease),
            Taken::Held(_) => None,
        }
    }

    fn holder(&self) -> String {
        match self.locks.take(&self.folder()).unwrap() {
            Taken::Lease(_) => "nobody".to_owned(),
            Taken::Held(holder) => holder.map_or_else(|| "somebody".to_owned(), |holder| holder.host().to_owned()),
        }
    }

    /// Takes the folder over from an owner that does not beat.
    fn take_over(&self) -> Lease {
        assert!(self.take().is_none());
        self.pass(LIMIT.as_secs());
        self.take().unwrap()
    }
}

fn number(lease: &Lease) -> u64 {
    lease.fence.claim.unwrap_or(0)
}

fn is_lost<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::LostLease { .. }))
}

#[test]
fn an_owner_that_is_silent_for_long_loses_its_folder_and_writes_nothing_more() {
    let scratch = Scratch::new("lease-silent");
    let (one, two) = (Machine::new(&scratch, "one", true), Machine::new(&scratch, "two", true));
    let lease = one.take().unwrap();
    files::append(&one.file(), "", "first\n").unwrap();
    assert_eq!(two.holder(), "one");
    two.pass(LIMIT.as_secs() - 1);
    assert_eq!(two.holder(), "one", "its beat may come at any moment");
    Claims::new(&one.folder()).write_beat(number(&lease), 1).unwrap();
    two.pass(LIMIT.as_secs() - 1);
    assert_eq!(two.holder(), "one", "it has beaten since");
    two.pass(LIMIT.as_secs());
    let other = two.take().unwrap();
    assert_eq!((number(&lease), number(&other)), (1, 2));
    assert!(is_lost(lease.confirm()) && is_lost(files::append(&one.file(), "", "second\n")));
    assert!(is_lost(files::write_whole(&one.folder().join("status.json"), b"{}")));
    assert!(is_lost(files::set_aside(&one.file())) && is_lost(files::shorten(&one.file(), 0)));
    files::append(&two.file(), "", "second\n").unwrap();
    drop(lease);
    assert_eq!(one.holder(), "two", "giving up what is lost changes nothing");
    drop(other);
    assert_eq!(std::fs::read_to_string(one.file()).unwrap(), "first\nsecond\n");
    assert_eq!(number(&one.take().unwrap()), 3);
    let mut left: Vec<_> = disk::list(&one.folder().join("claims")).unwrap();
    left.sort();
    assert_eq!(left, ["000003", "000003.done"], "earlier claims are removed");
}

#[test]
fn a_process_of_this_machine_that_has_died_is_replaced_at_once() {
    let scratch = Scratch::new("lease-died");
    let (one, mut two) = (Machine::new(&scratch, "one", true), Machine::new(&scratch, "two", true));
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    two.locks.process = Process { pid: child.id(), ..Process::here().clone() };
    let lease = two.take().unwrap();
    assert!(one.take().is_some());
    drop(lease);
}

#[test]
fn a_trial_is_claimed_by_all_processes_once_its_run_is() {
    let scratch = Scratch::new("lease-run");
    let (one, two) = (Machine::new(&scratch, "one", true), Machine::new(&scratch, "two", false));
    let (trials, trial) = (one.mount.join("trials"), two.mount.join("trials").join("a"));
    let kind = || match two.locks.take(&trial).unwrap() {
        Taken::Lease(lease) => number(&lease),
        Taken::Held(holder) => panic!("{holder:?} has it"),
    };
    assert_eq!(kind(), 0, "a process that uses locks locks what nobody has claimed");
    drop(one.locks.take(&trials).unwrap());
    assert_eq!(kind(), 1, "it claims the trials of a run that another one uses with claims");
}

#[test]
fn a_surface_is_claimed_by_all_processes_once_its_run_is() {
    let scratch = Scratch::new("lease-surface");
    let (one, two) = (Machine::new(&scratch, "one", true), Machine::new(&scratch, "two", false));
    let kind = |folder: &str| match two.locks.take(&two.mount.join(folder)).unwrap() {
        Taken::Lease(lease) => number(&lease),
        Taken::Held(holder) => panic!("{holder:?} has it"),
    };
    assert_eq!(kind("run/trials/a/surfaces/x"), 0);
    drop(one.locks.take(&one.mount.join("run/trials")).unwrap());
    assert_eq!(kind("run/trials/a/surfaces/x"), 1);
    // Folders above a run are none of its business.
    drop(one.locks.take(&one.mount.join("other")).unwrap());
    assert_eq!((kind("other/trials/a"), kind("other/trials"), kind("other")), (0, 0, 2));
}

#[test]
fn a_process_that_locks_lists_the_folder_before_it_looks_for_claims() {
    /// Shows what another machine has made when the folder is listed, as NFS does.
    struct Remembers(PathBuf);
    impl Watcher for Remembers {
        fn before(&self, operation: &Operation<'_>) -> Answer {
            if *operation == (Operation::List { path: &self.0 }) {
                std::fs::create_dir_all(self.0.join("claims")).unwrap();
            }
            Answer::Go
        }
    }
    let scratch = Scratch::new("lease-listed");
    let locking = Machine::new(&scratch, "one", false);
    let guard = watch(&locking.mount, Arc::new(Remembers(locking.folder())));
    assert_eq!(number(&locking.take().unwrap()), 1);
    drop(guard);
}

#[test]
fn one_that_dies_while_it_takes_over_from_a_lock_is_taken_over_from() {
    let scratch = Scratch::new("lease-between");
    let (two, three) = (Machine::new(&scratch, "two", true), Machine::new(&scratch, "three", true));
    std::fs::create_dir_all(three.folder()).unwrap();
    let text = r#"{"pid":1,"host":"one","since":"2026-01-01T00:00:00Z"}"#;
    std::fs::write(lock_path(&three.folder()), text).unwrap();
    // It has made its claim, and has not emptied the lock.
    let claims = Claims::new(&two.folder());
    claims.announce().unwrap();
    assert!(claims.make(1, &Claim::new(two.locks.process.clone())).unwrap());
    assert_eq!(three.holder(), "two");
    let lease = three.take_over();
    assert_eq!((number(&lease), std::fs::read(lock_path(&three.folder())).unwrap().len()), (2, 0));
}

#[test]
fn a_claim_whose_answer_was_lost_is_found_to_be_made() {
    struct LosesAnswers;
    impl Watcher for LosesAnswers {
        fn before(&self, operation: &Operation<'_>) -> Answer {
            match operation {
                Operation::Link { .. } => Answer::Half(io::Error::from_raw_os_error(libc::EIO)),
                _ => Answer::Go,
            }
        }
    }
    let scratch = Scratch::new("lease-answer");
    let one = Machine::new(&scratch, "one", true);
    let guard = watch(&one.mount, Arc::new(LosesAnswers));
    let lease = one.take().unwrap();
    assert_eq!(number(&lease), 1);
    drop(guard);
}

/// Lets another machine take over before the first rename of a file.
struct Interrupts {
    other: Mutex<Option<Machine>>,
    leases: Mutex<Vec<Lease>>,
}

impl Watcher for Interrupts {
    fn before(&self, operation: &Operation<'_>) -> Answer {
        if matches!(operation, Operation::Rename { .. })
            && let Some(other) = self.other.lock().unwrap().take()
        {
            self.leases.lock().unwrap().push(other.take_over());
        }
        Answer::Go
    }
}

#[test]
fn an_owner_that_is_stopped_between_its_last_look_and_the_rename_changes_nothing() {
    type Change = fn(&Path) -> Result<(), StoreError>;
    let changes: [(&str, Change); 5] = [
        ("append", |file| files::append(file, "", "third\n")),
        ("write", |file| files::write_whole(file, b"other")),
        ("cut", |file| files::shorten(file, 6)),
        ("set aside", |file| files::set_aside(file).map(|_| ())),
        ("keep", |file| files::keep_as(&file.with_file_name("last"), file)),
    ];
    for (name, change) in changes {
        let scratch = Scratch::new(&format!("lease-stopped-{name}"));
        let (one, two) = (Machine::new(&scratch, "one", true), Machine::new(&scratch, "two", true));
        let _lease = one.take().unwrap();
        files::append(&one.file(), "", "first\nsecond\n").unwrap();
        files::write_whole(&one.folder().join("last"), b"checkpoint").unwrap();
        let watcher = Arc::new(Interrupts { other: Mutex::new(Some(two)), leases: Mutex::default() });
        let guard = watch(&one.mount, watcher.clone());
        let result = change(&one.file());
        drop(guard);
        assert!(is_lost(result), "{name}");
        assert_eq!(std::fs::read_to_string(one.file()).unwrap(), "first\nsecond\n", "{name}");
        assert_eq!(watcher.leases.lock().unwrap().len(), 1, "{name}");
    }
}

#[test]
fn a_process_that_only_locks_stops_when_another_one_uses_claims() {
    let scratch = Scratch::new("lease-mixed");
    let (locking, claiming) = (Machine::new(&scratch, "one", false), Machine::new(&scratch, "two", true));
    let lease = locking.take().unwrap();
    files::append(&locking.file(), "", "first\n").unwrap();
    assert_eq!(claiming.holder(), "one", "the lock names it");
    assert!(is_lost(files::append(&locking.file(), "", "second\n")), "it learns that the folder is used with claims");
    drop(lease);
    let lease = claiming.take().expect("the lock is given up");
    files::append(&claiming.file(), "", "second\n").unwrap();
    assert_eq!(locking.holder(), "two", "from now on it uses claims, too");
    drop(lease);
    assert_eq!(number(&locking.take().unwrap()), 2);
    assert_eq!(std::fs::read_to_string(locking.file()).unwrap(), "first\nsecond\n");
    // One that died on another machine with its lock is waited for once.
    let died = scratch.path().join("real/other");
    std::fs::create_dir_all(&died).unwrap();
    let text = r#"{"pid":1,"host":"elsewhere","boot":"b","namespace":"n","started":7,"since":"2026-01-01T00:00:00Z"}"#;
    std::fs::write(died.join("lock"), text).unwrap();
    let folder = claiming.mount.join("other");
    assert!(matches!(claiming.locks.take(&folder).unwrap(), Taken::Held(Some(_))));
    claiming.pass(LIMIT.as_secs());
    assert!(matches!(claiming.locks.take(&folder).unwrap(), Taken::Lease(_)));
    assert_eq!(std::fs::read_to_string(died.join("lock")).unwrap(), "");
}

#[test]
fn files_have_the_same_bytes_whatever_the_lease_is() {
    let scratch = Scratch::new("lease-bytes");
    let write = |machine: &Machine| {
        let _lease = machine.take().unwrap();
        let file = machine.file();
        files::append(&file, "", "header\n1\n").unwrap();
        files::append(&file, "", "2\n").unwrap();
        // A process died while it wrote the third line.
        let mut text = std::fs::read_to_string(&file).unwrap();
        text += "3 hal";
        std::fs::write(&file, text).unwrap();
        files::append(&file, "", "3\n").unwrap();
        files::shorten(&file, 9).unwrap();
        files::append(&file, "", "two\n").unwrap();
        let aside = files::set_aside(&file).unwrap();
        assert!(!file.exists());
        files::keep_as(&aside, &file).unwrap();
        let mut names = disk::list(&machine.folder()).unwrap();
        names.retain(|name| name != "lock" && name != "claims");
        names.sort();
        (names, std::fs::read(&file).unwrap())
    };
    let of_lease = |name, uses_claims| {
        let machine = Machine::new(&scratch, name, uses_claims);
        let found = write(&machine);
        std::fs::remove_dir_all(scratch.path().join("real")).unwrap();
        found
    };
    let (locked, claimed) = (of_lease("one", false), of_lease("two", true));
    assert_eq!(locked, claimed);
    assert_eq!(locked.1, b"header\n1\ntwo\n");
}

#[test]
fn status_sees_owners_by_claim() {
    let scratch = Scratch::new("lease-status");
    let (here, there) = (Machine::new(&scratch, "here", true), Machine::new(&scratch, "there", true));
    assert!(holder(&here.folder()).is_none());
    let lease = there.take().unwrap();
    assert_eq!(holder(&here.folder()).unwrap().unwrap().host(), "there");
    // Long after its last beat it is not shown any more.
    let claim = std::fs::File::options().write(true).open(here.folder().join("claims/000001")).unwrap();
    claim.set_modified(std::time::SystemTime::now() - 3 * LIMIT).unwrap();
    assert!(holder(&here.folder()).is_none());
    drop(lease);
    let lease = here.take().unwrap();
    assert!(holder(&here.folder()).is_some());
    drop(lease);
    assert!(holder(&here.folder()).is_none());
}

#[test]
fn the_beat_is_renewed_by_a_thread_of_its_own() {
    let scratch = Scratch::new("lease-beat");
    let locks = Locks { limit: Duration::from_millis(60), ..Locks::lease() };
    let folder = scratch.path().join("trial");
    let Taken::Lease(lease) = locks.take(&folder).unwrap() else { panic!("nobody else has it") };
    let beat = || Claims::new(&folder).beat(1).unwrap();
    let waits = || std::thread::sleep(Duration::from_millis(5));
    while beat().is_none() {
        waits();
    }
    let first = beat();
    while beat() == first {
        waits();
    }
    drop(lease);
    assert_eq!(beat(), None);
}
