//! Errors of the system while trained models are measured: a measurement fails, or it gives what it always gives. It is never made on
//! another model.

use std::path::Path;

use semfocus_core::Measurement;
use semfocus_fixture::Scratch;
use semfocus_store::disk::{Answer, Operation};
use semfocus_store::{End, EvaluationRecord, SharpnessRecord, State, Store};

use crate::is_long;
use crate::small_run::{SmallRun, copy, system_error, watched};

/// What is on record about the models of a run, without what tells the time.
fn measured(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for trial in Store::open(dir).unwrap().read().unwrap().trials {
        let (folder, id) = (&trial.folder, trial.entry.id);
        found.extend(folder.probes().unwrap().into_iter().map(|mut probe| {
            probe.seconds = None;
            format!("{id} {probe:?}")
        }));
        found.extend(
            folder
                .measured::<SharpnessRecord>()
                .unwrap()
                .into_iter()
                .map(|record| format!("{id} {} {:?}", record.epoch, record.sharpness)),
        );
        found.extend(
            folder
                .measured::<EvaluationRecord>()
                .unwrap()
                .into_iter()
                .map(|record| format!("{id} {} {:?}", record.epoch, record.evaluation)),
        );
        found.extend(folder.surfaces().0.into_iter().map(|surface| format!("{id} {surface:?}")));
    }
    found
}

#[test]
fn a_measurement_fails_or_gives_what_it_always_gives() {
    let scratch = Scratch::new("attack-measurements");
    let run = SmallRun::new(false);
    let trained = scratch.path().join("trained");
    run.train(&trained).unwrap();
    let measurements = [
        ("probe", "samples=5"),
        ("sharpness", "samples=5"),
        ("evaluate", "samples=5"),
        ("landscape", "grid=3 samples=5"),
    ];
    let measurements = measurements.map(|(name, options)| Measurement::read(name, options).unwrap());
    let (mut faults, step) = (0, if is_long() { 1 } else { 11 });
    for measurement in &measurements {
        let undisturbed = scratch.path().join("undisturbed");
        copy(&trained, &undisturbed);
        let (ends, operations) = watched(&undisturbed, |_, _| Answer::Go, || run.measure(&undisturbed, measurement));
        assert_eq!(ends.unwrap(), vec![End::Over(State::Finished); 2]);
        let (before, expected) = (measured(&trained), measured(&undisturbed));
        assert!(expected.len() > before.len());
        for number in (0..operations).step_by(step) {
            let dir = scratch.path().join("disturbed");
            copy(&trained, &dir);
            let fault = move |count: usize, operation: &Operation<'_>| match operation {
                Operation::Read { .. } | Operation::List { .. } if count >= number => {
                    Answer::Fail(system_error(number))
                }
                _ => Answer::Go,
            };
            let (ends, _) = watched(&dir, fault, || run.measure(&dir, measurement));
            let found = measured(&dir);
            assert!(found.iter().all(|record| expected.contains(record)), "{measurement:?}, operation {number}");
            let is_all = found.len() == expected.len();
            let is_over =
                ends.is_ok_and(|ends| ends.len() == 2 && ends.iter().all(|end| *end == End::Over(State::Finished)));
            assert!(is_all || !is_over, "{measurement:?}, operation {number}: it says that it is done");
            // Once the errors are over, it is made.
            run.measure(&dir, measurement).unwrap();
            assert_eq!(measured(&dir), expected, "{measurement:?}, operation {number}");
            faults += 1;
        }
        std::fs::remove_dir_all(&undisturbed).unwrap();
    }
    println!("{faults} measurements with errors of the system");
    assert!(faults >= 20);
}
