//! Attention that differs between blocks, changes during training or in evaluation, and trials that start with stored weights.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Bool, Tensor};
use semfocus_core::{EpochRecord, Metric, Origin, TrialId};
use semfocus_lab::estimate::Estimator;
use semfocus_lab::training::Trainer;
use semfocus_lab::{Device, Lab, Trial, memory};
use semfocus_nn::conformance::ZipEq;
use semfocus_nn::{HeadTensors, LayerContext, LayerShape, Mechanism, MechanismInfo, MechanismParameter, Selection};
use semfocus_store::Checkpoint;

/// Full attention with a learned temperature for each head.
#[derive(Debug)]
struct Warm;

impl Mechanism for Warm {
    fn keep(&self, scores: &Tensor<4>, _site: &LayerContext) -> Tensor<4, Bool> {
        scores.clone().equal(scores.clone())
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::All)
    }

    fn parameters(&self) -> &'static [MechanismParameter] {
        &[MechanismParameter { name: "temperature", initial: 1.5 }]
    }

    fn head_scalars(&self, parameters: Option<Tensor<2>>, _: &LayerShape) -> HeadTensors {
        HeadTensors { temperature: parameters.map(|parameters| parameters.squeeze_dim(1)), ..HeadTensors::default() }
    }
}

fn lab() -> Lab {
    let full = Lab::standard().mechanisms.get("full").unwrap().clone();
    let info = |name| MechanismInfo { name, build: |_| Ok(Arc::new(Warm)), ..full.clone() };
    Lab::standard().with(info("warm")).with(info("warmer"))
}

fn plan(mechanism: &str, overrides: &[&str]) -> Result<Trial, String> {
    common::planned(&lab(), mechanism, &[&["data.test=10", "training.epochs=3"], overrides].concat())
}

fn trial(mechanism: &str, overrides: &[&str]) -> Trial {
    plan(mechanism, overrides).unwrap()
}

fn trainer(trial: &Trial) -> Trainer {
    Trainer::new(trial, &Device::cpu()).unwrap()
}

/// Trains up to an epoch; gives the records without the time.
fn train(trainer: &mut Trainer, epochs: usize) -> Vec<EpochRecord> {
    let never = AtomicBool::new(false);
    let mut records = Vec::new();
    while trainer.progress().epoch < epochs {
        records.push(EpochRecord { seconds: 0.0, ..trainer.epoch(&never, |_, _| true).unwrap() });
    }
    records
}

/// A checkpoint as if it were one of another trial.
fn handed_to(trial: &Trial, checkpoint: Checkpoint) -> Checkpoint {
    let settings = toml::to_string(&trial.settings.to_table_of_results()).unwrap();
    Checkpoint { trial: trial.id, settings, ..checkpoint }
}

#[test]
fn a_schedule_is_one_training_continued_with_the_next_attention() {
    for (first, second) in [("full", "topk:3"), ("topk:3", "banded:3"), ("topk:3/full", "full/topk:3")] {
        let mut scheduled = trainer(&trial(&format!("{first}@0,{second}@1"), &[]));
        let records = train(&mut scheduled, 3);
        let mut before = trainer(&trial(first, &[]));
        let mut expected = train(&mut before, 1);
        let next = trial(second, &[]);
        let mut after = trainer(&next);
        after.restore(handed_to(&next, before.checkpoint())).unwrap();
        expected.extend(train(&mut after, 3));
        assert_eq!(records, expected, "{first}, {second}");
        assert!(scheduled.checkpoint().tensors == after.checkpoint().tensors, "{first}, {second}");
    }
}

#[test]
fn a_schedule_that_stops_after_any_step_resumes_to_the_same_bits() {
    // Learned scalars are introduced, kept under another name, and dropped.
    for mechanism in ["full@0,topk:3@1", "full/topk:3@0,warm@1,full/warmer@2"] {
        for overrides in [&[][..], &["training.evaluate_as=topk:2/warm"]] {
            let trial = trial(mechanism, overrides);
            let mut whole = trainer(&trial);
            let (records, expected) = (train(&mut whole, 3), whole.checkpoint().to_bytes());
            for stop_after in 0..15 {
                let (mut first, stop, mut done) = (trainer(&trial), AtomicBool::new(stop_after == 0), 0);
                let mut seen = Vec::new();
                while let Ok(record) = first.epoch(&stop, |_, _| {
                    done += 1;
                    stop.store(done == stop_after, Ordering::Relaxed);
                    true
                }) {
                    seen.push(EpochRecord { seconds: 0.0, ..record });
                }
                let bytes = first.checkpoint().to_bytes();
                let mut second = trainer(&trial);
                second.restore(Checkpoint::from_bytes(&bytes, Some(trial.id)).unwrap()).unwrap();
                seen.extend(train(&mut second, 3));
                assert_eq!(seen, records, "{mechanism}, {overrides:?}, stopped after step {stop_after}");
                assert!(second.checkpoint().to_bytes() == expected, "{mechanism}, {overrides:?}, step {stop_after}");
            }
        }
    }
}

fn temperature(trainer: &Trainer) -> Option<f32> {
    let name = "blocks.1.attention.mechanism";
    trainer.checkpoint().tensors.get(name).map(|numbers| numbers.values[0])
}

#[test]
fn numbers_that_come_up_start_afresh() {
    // With one step for each epoch: the first update of Adam is as long as the learning rate, whatever the gradient is.
    let overrides = ["training.evaluate_every=1", "training.epochs=9"];
    let mut trainer = trainer(&trial("full@0,warm@6,warmer@7,full@8", &overrides));
    train(&mut trainer, 6);
    assert_eq!(temperature(&trainer), None);
    train(&mut trainer, 7);
    let first = temperature(&trainer).unwrap();
    let rate = trainer.checkpoint().progress.total_steps;
    assert_eq!(rate, 7);
    let expected = 0.01 * 0.5; // the second pass of 5 steps
    assert!(((first - 1.5).abs() - expected).abs() < 1e-4, "{first} is {expected} from the initial 1.5");
    // The scalar of the same name is kept.
    train(&mut trainer, 8);
    let second = temperature(&trainer).unwrap();
    assert!((second - first).abs() > 1e-6 && (second - first).abs() < 2.0 * expected, "{first}, then {second}");
    train(&mut trainer, 9);
    assert_eq!(temperature(&trainer), None);
    assert!(trainer.checkpoint().tensors.keys().all(|name| !name.ends_with(".mechanism")), "no state is left of it");
}

#[test]
fn evaluation_with_another_attention_changes_nothing_but_evaluation() {
    let mut plain = trainer(&trial("full", &[]));
    let mut other = trainer(&trial("full", &["training.evaluate_as=topk:2"]));
    let (expected, records) = (train(&mut plain, 2), train(&mut other, 2));
    assert!(plain.checkpoint().tensors == other.checkpoint().tensors, "weights and state of the optimiser");
    for (expected, record) in expected.iter().zip_eq(&records) {
        for (info, value) in expected.metrics.iter() {
            match info.metric {
                Metric::Lr | Metric::GradNorm => assert_eq!(value, record.metrics[info.metric]),
                Metric::TrainLoss | Metric::HeldoutLoss => assert_ne!(value, record.metrics[info.metric]),
                Metric::TrainAccuracy | Metric::HeldoutAccuracy => {}
            }
        }
    }
    // What is evaluated is the trained weights with the other attention.
    let top = trial("topk:2", &[]);
    let mut judge = trainer(&top);
    judge.restore(handed_to(&top, plain.checkpoint())).unwrap();
    assert_eq!(judge.test(judge.evaluated_model().as_ref()), other.test(other.evaluated_model().as_ref()));
    assert_ne!(plain.test(plain.evaluated_model().as_ref()).loss, other.test(other.evaluated_model().as_ref()).loss);
    // The same attention, said twice, evaluates to the same bits.
    let mut same = trainer(&trial("full", &["training.evaluate_as=full"]));
    assert_eq!(train(&mut same, 2), expected);
}

#[test]
fn the_untrained_model_is_evaluated_like_the_trained_one() {
    let loss = |mechanism: &str, overrides: &[&str]| {
        let mut trainer = trainer(&trial(mechanism, overrides));
        trainer.untrained(&AtomicBool::new(false)).unwrap().metrics[Metric::HeldoutLoss]
    };
    // Both have the same initial weights.
    assert_eq!(loss("full", &["training.evaluate_as=topk:2"]), loss("topk:2", &[]));
    assert_ne!(loss("full", &[]), loss("topk:2", &[]));
}

#[test]
fn settings_that_are_not_used_leave_ids_alone() {
    let id = |mechanism: &str, overrides: &[&str]| trial(mechanism, overrides).id;
    assert_eq!(id("full", &[]), id("full", &["training.evaluate_as=\"\""]));
    assert_ne!(id("full", &[]), id("full", &["training.evaluate_as=topk:2"]));
    assert_eq!(id("full", &["training.evaluate_as=topk:02"]), id("full", &["training.evaluate_as=topk:2"]));
    let origin = "training.from=6dd70808d11e42eb@2:00000000000000ff";
    assert_ne!(id("full", &[]), id("full", &[origin]));
}

#[test]
fn attention_that_does_not_fit_is_refused_before_anything_is_trained() {
    let message = |mechanism: &str, overrides: &[&str]| plan(mechanism, overrides).map(drop).unwrap_err();
    let messages = [
        message("topk:3/full/full", &[]),
        message("full@0,banded:3+g1@2", &[]),
        message("banded:3+g1/full", &[]),
        message("full", &["training.evaluate_as=banded:3+g1"]),
        message("full", &["training.evaluate_as=full/full/topk:2"]),
        message("full", &["training.evaluate_as=tpok:3"]),
        message("full", &["training.evaluate_as=full@0,topk:3@2"]),
    ];
    insta::assert_snapshot!("attention-refused", messages.join("\n\n"));
}

fn origin_of(trainer: &Trainer, trial: &Trial) -> (Origin, Checkpoint) {
    let stored = trainer.checkpoint().weights_only();
    (Origin { trial: trial.id, epoch: stored.progress.epoch, weights: stored.weights_checksum() }, stored)
}

#[test]
fn a_trial_starts_with_stored_weights_and_nothing_else() {
    let source = trial("full@0,warm@1", &[]);
    let mut trained = trainer(&source);
    train(&mut trained, 2);
    let (origin, stored) = origin_of(&trained, &source);
    assert_eq!(origin.weights, trained.checkpoint().weights_checksum(), "the state of the optimiser does not count");
    let weights = |checkpoint: &Checkpoint| -> Vec<(String, Vec<f32>)> {
        checkpoint.clone().parameters().map(|(name, values)| (name, values.values)).collect()
    };
    let from = format!("training.from={origin}");
    // The scalars of the mechanism are kept where it has scalars of the same name.
    let next = trial("warmer", &[&from]);
    assert_ne!(next.id, trial("warmer", &[]).id);
    let mut continued = trainer(&next);
    continued.start_with(origin, stored.clone(), &lab()).unwrap();
    assert_eq!(weights(&continued.checkpoint()), weights(&stored));
    assert_eq!((continued.checkpoint().optimizer_steps, continued.progress().epoch), (0, 0));
    let records = train(&mut continued, 2);
    let mut again = trainer(&next);
    again.start_with(origin, stored.clone(), &lab()).unwrap();
    assert_eq!(train(&mut again, 2), records);
    // Without such numbers all other weights are taken over.
    let mut plain = trainer(&trial("topk:3", &[&from]));
    plain.start_with(origin, stored.clone(), &lab()).unwrap();
    let without: Vec<_> = weights(&stored).into_iter().filter(|(name, _)| !name.ends_with(".mechanism")).collect();
    assert_eq!(weights(&plain.checkpoint()), without);
    // What does not fit is refused.
    let refused = |mechanism: &str, overrides: &[&str]| {
        let trial = trial(mechanism, &[&[from.as_str()], overrides].concat());
        let error = lab().check_origin(std::slice::from_ref(&trial), &stored).unwrap_err().to_string();
        assert_eq!(trainer(&trial).start_with(origin, stored.clone(), &lab()).unwrap_err().to_string(), error);
        error.replace(&origin.to_string(), "ORIGIN")
    };
    let messages =
        [refused("full", &["model.d_mlp=9"]), refused("full", &["model.blocks=3"]), refused("banded:3+g1", &[])];
    insta::assert_snapshot!("weights-refused", messages.join("\n\n"));
}

#[test]
fn estimates_know_blocks_and_stages() {
    let lab = lab();
    let mut estimator = Estimator::new(&lab, None);
    let long = ["data.length=200", "model.d_model=64", "training.epochs=10"];
    let mut seconds = |mechanism: &str| estimator.trials(&[trial(mechanism, &long)]);
    let (full, banded) = (seconds("full"), seconds("banded:5"));
    let close = |found: f64, expected: f64| assert!((found / expected - 1.0).abs() < 1e-6, "{found}, not {expected}");
    close(seconds("full/banded:5"), 0.5 * (full + banded));
    close(seconds("full@0,banded:5@4"), 0.4 * full + 0.6 * banded);
    close(seconds("full@0,banded:5@40"), full);
    let bytes = |mechanism: &str| memory::needed(&trial(mechanism, &long), 1);
    assert!(bytes("banded:5") < bytes("full/banded:5") && bytes("full/banded:5") < bytes("full"));
    assert_eq!(bytes("banded:5@0,full@9"), bytes("full"));
}

#[test]
fn stages_that_are_not_reached_are_pointed_out() {
    let lab = lab();
    let trial = trial("full@0,topk:3@5", &[]);
    assert_eq!(trial.id, TrialId::new(&trial.settings));
    let notes = lab.notes(&semfocus_lab::Plan { trials: vec![trial] });
    assert_eq!(
        notes[0],
        "full@0,topk:3@5 never reaches topk:3: the trial has 3 epochs and the switch is after epoch 5"
    );
}
