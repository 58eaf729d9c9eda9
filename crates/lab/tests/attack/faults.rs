//! Every operation fails: once, half way, or from then on for good. Errors of the system are not damage: nothing is set aside,
//! and once they are over the run ends with the same bits.

use semfocus_fixture::Scratch;
use semfocus_store::disk::{Answer, Operation};

use crate::is_long;
use crate::small_run::{SmallRun, assert_same, refused, results, system_error, watched};

#[test]
fn a_run_survives_faults_of_every_operation() {
    let run = SmallRun::new(false);
    let scratch = Scratch::new("attack-faults");
    let undisturbed = scratch.path().join("undisturbed");
    let (_, operations) = watched(&undisturbed, |_, _| Answer::Go, || run.train(&undisturbed).unwrap());
    let expected = results(&undisturbed);
    let (mut faults, step) = (0, if is_long() { 1 } else { 5 });
    for number in 0..operations {
        for (mode, name) in ["once", "half", "for good"].into_iter().enumerate() {
            if !(number + 2 * mode).is_multiple_of(step) {
                continue;
            }
            let dir = scratch.path().join(format!("{number}-{mode}"));
            let fault = move |count: usize, _: &Operation<'_>| match mode {
                0 if count == number => Answer::Fail(system_error(number)),
                1 if count == number => Answer::Half(system_error(number)),
                2 if count >= number => Answer::Fail(system_error(number)),
                _ => Answer::Go,
            };
            // It may fail, or continue without what failed; it must not panic.
            let (ends, _) = watched(&dir, fault, || run.train(&dir));
            for end in ends.iter().flatten() {
                assert!(!format!("{end:?}").contains("the program failed"), "operation {number}, {name}: {end:?}");
            }
            let context = format!("operation {number} failed {name}");
            assert_eq!(refused(&dir), Vec::<std::path::PathBuf>::new(), "{context}");
            assert_same(&run.finish(&dir, &context), &expected, &context);
            assert_eq!(refused(&dir), Vec::<std::path::PathBuf>::new(), "{context}");
            std::fs::remove_dir_all(&dir).unwrap();
            faults += 1;
        }
    }
    println!("{faults} faults of {operations} operations");
    assert!(faults >= if is_long() { 3 * operations } else { 50 });
}

#[test]
fn a_finished_run_is_not_touched_by_errors_of_the_system() {
    let run = SmallRun::new(false);
    let scratch = Scratch::new("attack-reading");
    let dir = scratch.path().join("run");
    run.train(&dir).unwrap();
    let all = |dir: &std::path::Path| {
        let names = crate::small_run::files(dir).into_iter().filter(|path| !path.ends_with("lock"));
        names.map(|path| (path.clone(), std::fs::read(dir.join(path)).unwrap())).collect::<Vec<_>>()
    };
    let before = all(&dir);
    let (_, operations) = watched(&dir, |_, _| Answer::Go, || run.train(&dir).unwrap());
    for number in 0..operations {
        let fail = move |count: usize, _: &Operation<'_>| {
            if count == number { Answer::Fail(system_error(number)) } else { Answer::Go }
        };
        let _ = watched(&dir, fail, || run.train(&dir));
        assert!(all(&dir) == before, "operation {number}");
    }
}
