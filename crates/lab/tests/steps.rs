//! Steps, passes over the training examples and epochs: what a trainer does with them, without files.

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use semfocus_core::{EpochRecord, Metric};
use semfocus_lab::training::Trainer;
use semfocus_lab::{Device, Lab, Trial};
use semfocus_store::checkpoint::Values;
use semfocus_store::{Checkpoint, End};

fn trial(mechanism: &str, overrides: &[&str]) -> Trial {
    common::planned(&Lab::standard(), mechanism, overrides).unwrap()
}

fn trainer(trial: &Trial) -> Trainer {
    Trainer::new(trial, &Device::cpu()).unwrap()
}

/// Trains for some epochs; gives their records without the time, the loss of every step, and the last checkpoint.
fn train(trial: &Trial, epochs: usize) -> (Vec<EpochRecord>, Vec<f64>, Checkpoint) {
    let (mut trainer, mut losses) = (trainer(trial), Vec::new());
    let never = AtomicBool::new(false);
    let records = (0..epochs).map(|_| {
        let record = trainer
            .epoch(&never, |_, loss| {
                losses.push(loss);
                true
            })
            .unwrap();
        EpochRecord { seconds: 0.0, ..record }
    });
    let records = records.collect();
    let checkpoint = trainer.checkpoint();
    (records, losses, checkpoint)
}

const ONLINE: &[&str] = &["data.online=true", "training.evaluate_every=7"];

#[test]
fn a_trial_that_stops_after_any_step_resumes_to_the_same_bits() {
    // New examples for every step; and epochs of 7 steps across passes of 5.
    for overrides in [ONLINE, &["training.evaluate_every=7"], &["data.online=true"]] {
        let trial = trial("topk:3", overrides);
        let (records, losses, expected) = train(&trial, 2);
        let steps = losses.len();
        assert_eq!(records.iter().map(|record| record.steps).collect::<Vec<_>>(), [steps as u64 / 2, steps as u64]);
        for stop_after in 1..steps {
            let (mut first, stop) = (trainer(&trial), AtomicBool::new(false));
            let (mut done, mut seen, mut resumed_losses) = (0, Vec::new(), Vec::new());
            loop {
                let end = first.epoch(&stop, |_, loss| {
                    done += 1;
                    resumed_losses.push(loss);
                    stop.store(done == stop_after, Ordering::Relaxed);
                    true
                });
                match end {
                    Ok(record) => seen.push(EpochRecord { seconds: 0.0, ..record }),
                    Err(end) => {
                        assert_eq!(end, End::Interrupted);
                        break;
                    }
                }
            }
            // Through the bytes of a file, into a trainer that knows nothing of the first.
            let bytes = first.checkpoint().to_bytes();
            let mut second = trainer(&trial);
            second.restore(Checkpoint::from_bytes(&bytes, Some(trial.id)).unwrap()).unwrap();
            let never = AtomicBool::new(false);
            while second.progress().epoch < 2 {
                let record = second
                    .epoch(&never, |_, loss| {
                        resumed_losses.push(loss);
                        true
                    })
                    .unwrap();
                seen.push(EpochRecord { seconds: 0.0, ..record });
            }
            assert_eq!(seen, records, "{overrides:?}, stopped after step {stop_after}");
            assert_eq!(resumed_losses, losses, "{overrides:?}, stopped after step {stop_after}");
            assert!(second.checkpoint().to_bytes() == expected.to_bytes(), "{overrides:?}, step {stop_after}");
        }
    }
}

fn tensors(checkpoint: Checkpoint) -> BTreeMap<String, Values> {
    checkpoint.tensors
}

#[test]
fn when_a_model_is_evaluated_does_not_change_how_it_is_trained() {
    // 35 steps: 7 passes, 5 epochs of 7 steps, or 35 of one. `randomk` draws numbers in evaluation, too.
    let (_, losses, expected) = train(&trial("randomk:3", &[]), 7);
    let expected = tensors(expected);
    for (every, epochs) in [(7, 5), (1, 35), (35, 1)] {
        let every = format!("training.evaluate_every={every}");
        let (records, here, checkpoint) = train(&trial("randomk:3", &[&every]), epochs);
        assert_eq!(here, losses, "{every}");
        assert!(tensors(checkpoint) == expected, "{every}");
        assert_eq!(records.last().unwrap().steps, 35);
    }
    // The learning rate of a record is that of its last step: it halves after every pass of 5 steps.
    let (records, ..) = train(&trial("full", &["training.evaluate_every=7"]), 3);
    let rates: Vec<f64> = records.iter().map(|record| record.metrics[Metric::Lr]).collect();
    assert_eq!(rates, [0.005, 0.0025, 0.000_625], "after steps 7, 14 and 21");
}

#[test]
fn the_epoch_of_a_pass_is_measured_as_without_the_setting() {
    // Evaluation after every pass, once by default and once by asking for it.
    let (by_default, ..) = train(&trial("topk:3", &[]), 3);
    let (asked_for, ..) = train(&trial("topk:3", &["training.evaluate_every=5"]), 3);
    assert_eq!(by_default, asked_for);
}

#[test]
fn an_epoch_with_new_examples_has_its_own_learning_rate() {
    let rates = |overrides| {
        train(&trial("full", overrides), 3).0.iter().map(|record| record.metrics[Metric::Lr]).collect::<Vec<_>>()
    };
    assert_eq!(rates(ONLINE), [0.01, 0.005, 0.0025]);
    assert_eq!(rates(&["data.online=true"]), [0.01, 0.005, 0.0025]);
}

#[test]
fn new_examples_are_measured_on_the_same_sets_as_a_fixed_set() {
    let (fixed, online) = (trial("full", &[]), trial("full", ONLINE));
    let (fixed, online) = (trainer(&fixed), trainer(&online));
    assert_eq!(fixed.data(), online.data());
    // 101 examples in 5 steps, or 7 whole batches of 25.
    assert_eq!((fixed.steps_per_epoch(), online.steps_per_epoch()), (5, 7));
    let ratio = online.epoch_flops() / fixed.epoch_flops();
    assert!((ratio - 175.0 / 101.0).abs() < 1e-12, "{ratio}");
}

#[test]
fn a_factor_of_zero_freezes_a_parameter_of_a_trial() {
    let before = tensors(trainer(&trial("full", ONLINE)).checkpoint());
    let (_, _, after) = train(&trial("full", &[ONLINE, &["training.lr_factor.key=0"]].concat()), 1);
    for (name, after) in after.parameters() {
        let is_frozen = name.contains(".key.");
        let bits = |values: &Values| values.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&before[&name]) == bits(&after), is_frozen, "{name}");
    }
}
