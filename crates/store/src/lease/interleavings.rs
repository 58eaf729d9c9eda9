//! Owners on several machines that take turns at single operations on files, in any order, stop, and die: nothing that was
//! written is lost, and nothing is written twice.

use std::sync::Condvar;

use proptest::prelude::*;

use super::tests::Machine;
use super::*;
use crate::disk::{Answer, Operation, Watcher, watch};
use crate::test_tools::Scratch;

/// Lines that the owners write together.
const LINES: usize = 4;

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// An owner does one operation.
    Step(usize),
    /// The owner does several; the others stand still meanwhile.
    Run(usize),
    /// For an owner, half of the time passes after which a silent one is given up.
    Pass(usize),
    /// The machine of an owner fails: it does nothing any more.
    Die(usize),
}

/// Lets one owner at a time do one operation.
#[derive(Default)]
struct Gate {
    owners: Mutex<Vec<Turn>>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Turn {
    /// It is about to do an operation.
    is_waiting: bool,
    may_go: bool,
    is_dead: bool,
    has_ended: bool,
}

/// Asks the gate for one owner.
struct Door(Arc<Gate>, usize);

impl Watcher for Door {
    fn before(&self, _operation: &Operation<'_>) -> Answer {
        let Door(gate, owner) = self;
        let mut owners = gate.owners.lock().unwrap();
        owners[*owner].is_waiting = true;
        gate.changed.notify_all();
        owners = gate.changed.wait_while(owners, |owners| !owners[*owner].may_go && !owners[*owner].is_dead).unwrap();
        (owners[*owner].is_waiting, owners[*owner].may_go) = (false, false);
        if owners[*owner].is_dead { Answer::Fail(io::Error::other("the machine has failed")) } else { Answer::Go }
    }
}

impl Gate {
    /// Waits until an owner stands before its next operation or has ended; says whether it continues.
    fn arrive(&self, owner: usize) -> bool {
        let is_busy = |owners: &mut Vec<Turn>| !owners[owner].is_waiting && !owners[owner].has_ended;
        let owners = self.changed.wait_while(self.owners.lock().unwrap(), is_busy).unwrap();
        !owners[owner].has_ended
    }

    fn step(&self, owner: usize) -> bool {
        if self.arrive(owner) {
            let mut owners = self.owners.lock().unwrap();
            (owners[owner].may_go, owners[owner].is_waiting) = (true, false);
            drop(owners);
            self.changed.notify_all();
            return self.arrive(owner);
        }
        false
    }

    fn die(&self, owner: usize) {
        let mut owners = self.owners.lock().unwrap();
        (owners[owner].is_dead, owners[owner].is_waiting) = (true, false);
        drop(owners);
        self.changed.notify_all();
        let ended = |owners: &mut Vec<Turn>| !owners[owner].has_ended;
        drop(self.changed.wait_while(self.owners.lock().unwrap(), ended).unwrap());
    }
}

/// Says in the end that an owner has ended, even if it panics: the test would wait for it otherwise.
struct Ends<'a>(&'a Gate, usize);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let Ends(gate, owner) = self;
        gate.owners.lock().unwrap_or_else(PoisonError::into_inner)[*owner].has_ended = true;
        gate.changed.notify_all();
    }
}

fn line(number: usize) -> String {
    format!("line {number}\n")
}

/// Takes the folder again and again and writes lines until all are there; gives those that it wrote. It gives the folder up after
/// every `at_once` lines.
fn work(machine: &Machine, at_once: usize) -> Result<Vec<usize>, Vec<usize>> {
    let mut written = Vec::new();
    loop {
        let lease = match machine.locks.take(&machine.folder()) {
            Ok(Taken::Lease(lease)) => lease,
            Ok(Taken::Held(_)) => continue,
            Err(_) => return Err(written),
        };
        let number = lease.fence.claim.expect("it uses claims");
        for count in 0..at_once {
            let Ok(text) = files::read_text(&machine.file()) else { return Err(written) };
            let text = text.unwrap_or_default();
            let done = text.lines().count();
            if done == LINES {
                return Ok(written);
            }
            let _ = Claims::new(&machine.folder()).write_beat(number, count as u64);
            match files::append(&machine.file(), "", &line(done + 1)) {
                Ok(()) => written.push(done + 1),
                Err(StoreError::LostLease { .. }) => break,
                Err(_) => return Err(written),
            }
        }
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let owner = 0..3usize;
    let act = prop_oneof![
        12 => owner.clone().prop_map(Act::Step),
        4 => owner.clone().prop_map(Act::Run),
        3 => owner.clone().prop_map(Act::Pass),
        1 => owner.prop_map(Act::Die),
    ];
    proptest::collection::vec(act, 20..250)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_written_twice(acts in acts(), at_once in 1..6usize) {
        let scratch = Scratch::new("lease-interleavings");
        let machines: Vec<Machine> = ["one", "two", "three"].iter().map(|name| Machine::new(&scratch, name, true)).collect();
        let gate = Arc::new(Gate { owners: Mutex::new(vec![Turn::default(); 3]), ..Gate::default() });
        let watches: Vec<_> = (0..3).map(|owner| watch(&machines[owner].mount, Arc::new(Door(gate.clone(), owner)))).collect();
        let written: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (owner, machine) in machines.iter().enumerate() {
                let gate = &gate;
                threads.push(scope.spawn(move || {
                    let _ends = Ends(gate, owner);
                    work(machine, at_once).unwrap_or_else(|written| written)
                }));
                gate.arrive(owner);
            }
            for act in &acts {
                match *act {
                    Act::Step(owner) => drop(gate.step(owner)),
                    Act::Run(owner) => drop((0..40).all(|_| gate.step(owner))),
                    Act::Pass(owner) => machines[owner].pass(LIMIT.as_secs() / 2),
                    // One is left.
                    Act::Die(owner) if owner > 0 => gate.die(owner),
                    Act::Die(_) => {}
                }
            }
            // In the end all that are left come to the end, whatever they were stopped at.
            while (0..3).filter(|owner| gate.step(*owner)).count() > 0 {
                machines.iter().for_each(|machine| machine.pass(1));
            }
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(watches);
        let text = std::fs::read_to_string(machines[0].file()).unwrap();
        prop_assert_eq!(text, (1..=LINES).map(line).collect::<String>());
        let mut all = written.concat();
        all.sort_unstable();
        let once: std::collections::BTreeSet<usize> = all.iter().copied().collect();
        prop_assert_eq!(once.len(), all.len(), "a line was written twice: {:?}", written);
    }
}
