//! What is recorded beyond the losses: what is known of the data, losses by slices, targets that follow from both, learning rates.

mod common;
#[path = "common/noisy.rs"]
mod noisy;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use noisy::NOISY;
use semfocus_core::{DataFacts, Experiment, Goal, Metric, Quantity, Request, TrialId};
use semfocus_lab::training::{BATCH, Trainer, batch};
use semfocus_lab::{Device, Lab, Plan, Trial};
use semfocus_nn::Pass;
use semfocus_store::SliceRecord;
use semfocus_tasks::Source;

fn lab() -> Lab {
    Lab::standard().with(NOISY)
}

fn trial(overrides: &[&str]) -> Trial {
    common::planned(&lab(), "full", &[&["task=noisy"][..], overrides].concat()).unwrap()
}

fn trainer(overrides: &[&str]) -> Trainer {
    Trainer::new(&trial(overrides), &Device::cpu()).unwrap()
}

static NEVER: AtomicBool = AtomicBool::new(false);

#[test]
fn facts_are_those_of_the_splits() {
    let (with_test, without) = (trainer(&["data.test=30"]), trainer(&[]));
    let (facts, data) = (*with_test.facts(), with_test.data());
    assert_eq!(facts, data.facts());
    let entropy = -0.75 * 0.75f64.ln() - 0.25 * 0.25f64.ln();
    for floor in [facts.held_out.floor, facts.test.floor] {
        assert!((floor.unwrap() - entropy).abs() < 1e-6, "{floor:?}: best predictions are asked there");
    }
    // In train what was drawn is asked.
    assert!(facts.train.floor != facts.held_out.floor && (facts.train.floor.unwrap() - entropy).abs() < 0.1);
    assert_eq!(facts.held_out.unigram, data.held_out_unigram_loss());
    assert_eq!((facts.held_out.characters, without.facts().test.floor), (None, None), "no text, no test examples");
}

#[test]
fn slices_are_loss_and_accuracy_over_their_questions() {
    let mut trainer = trainer(&["data.held_out=70"]);
    trainer.untrained(&NEVER).unwrap();
    let untrained = trainer.slices().to_vec();
    let record = trainer.epoch(&NEVER, |_, _| true).unwrap();
    let slices = trainer.slices().to_vec();
    let groups = |records: &[SliceRecord]| -> Vec<_> {
        records.iter().map(|record| (record.slice.to_string(), record.value, record.questions)).collect()
    };
    assert_eq!(groups(&untrained), groups(&slices));
    assert!(untrained.iter().all(|record| record.epoch == 0) && slices.iter().all(|record| record.epoch == 1));
    let of = |name: &'static str| slices.iter().filter(move |record| &*record.slice == name);
    assert_eq!(of("position").map(|record| record.value).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert!(of("position").all(|record| record.questions == 70));
    let mean = |value: fn(&SliceRecord) -> f64| of("position").map(value).sum::<f64>() / 8.0;
    assert!((mean(|record| record.loss) - record.metrics[Metric::HeldoutLoss]).abs() < 1e-12);
    assert!((mean(|record| record.accuracy) - record.metrics[Metric::HeldoutAccuracy]).abs() < 1e-12);

    // The other slice, counted here once more.
    let (split, model, device) = (&trainer.data().held_out, trainer.evaluated_model(), Device::cpu().plain());
    let mut found: BTreeMap<u32, (usize, f64, usize)> = BTreeMap::new();
    for first in (0..split.len()).step_by(BATCH) {
        let examples = first..split.len().min(first + BATCH);
        let batch = batch(split, examples.clone(), &device);
        let answers = model.answers(&model.token_rows(batch.tokens), &batch.questions, Pass::evaluation(1, 0));
        let bits = examples.flat_map(|example| {
            let bits = &split.tokens[example * split.length..][..split.length];
            (1..bits.len()).map(move |at| (bits[at], bits[..=at].iter().filter(|bit| **bit == 1).count() as u32))
        });
        for ((bit, ones), answer) in bits.zip(answers).filter(|((bit, _), _)| *bit == 1) {
            let group = found.entry(ones).or_default();
            *group = (group.0 + 1, group.1 + answer.loss, group.2 + usize::from(answer.class == usize::from(bit)));
        }
    }
    let expected: Vec<_> = of("ones").collect();
    assert_eq!(expected.len(), found.len());
    for (record, (value, (questions, loss, right))) in expected.into_iter().zip(found) {
        assert_eq!((record.value, record.questions), (value, questions));
        assert!((record.loss - loss / questions as f64).abs() < 1e-9, "{record:?}");
        assert_eq!(record.accuracy, right as f64 / questions as f64, "{record:?}");
    }
}

#[test]
fn slices_do_not_change_the_training_and_become_rare() {
    let mut trainer = trainer(&["data.train=25", "data.held_out=5"]);
    let due: Vec<usize> = (1..=111)
        .filter(|_| {
            trainer.epoch(&NEVER, |_, _| true).unwrap();
            !trainer.slices().is_empty()
        })
        .collect();
    assert_eq!(due.len(), 101);
    assert_eq!(due[98..], [99, 100, 110]);
    // Classification tasks without slices of their own have none.
    let mut parity = Trainer::new(&common::planned(&lab(), "full", &[]).unwrap(), &Device::cpu()).unwrap();
    parity.epoch(&NEVER, |_, _| true).unwrap();
    assert!(parity.slices().is_empty() && !parity.has_slices(1));
}

#[test]
fn a_target_on_the_way_to_the_floor_is_another_loss_in_every_trial() {
    let goal: Goal = "heldout_learned >= 0.5".parse().unwrap();
    let mut bounds = Vec::new();
    for seed in ["1", "2"] {
        let mut trainer =
            trainer(&[&format!("data.seed={seed}"), "training.learning_rate=0.05", "training.decay=0.99"]);
        let facts: DataFacts = *trainer.facts();
        let (unigram, floor) = (facts.held_out.unigram.unwrap(), facts.held_out.floor.unwrap());
        bounds.push((unigram + floor) / 2.0);
        let threshold = goal.threshold(&facts).unwrap();
        let records: Vec<_> = (0..30).map(|_| trainer.epoch(&NEVER, |_, _| true).unwrap()).collect();
        let reached = records.iter().position(|record| threshold.is_reached(&record.metrics)).expect("it learns");
        let learned = |index: usize| goal.quantity.value(&records[index].metrics, &facts).unwrap();
        assert!(reached > 0 && learned(reached) >= 0.5 && learned(reached - 1) < 0.5, "seed {seed}");
        assert!(records[reached].metrics[Metric::HeldoutLoss] <= *bounds.last().unwrap());
    }
    assert_ne!(bounds[0], bounds[1]);
}

fn plan(lab: &Lab, overrides: &[&str]) -> Result<Plan, String> {
    let overrides = overrides.iter().map(|&text| text.to_owned()).collect();
    let request = Request { experiment: "parity".to_owned(), seeds: Some(1), overrides, ..Request::default() };
    let experiment = Experiment::resolve(&request, lab).map_err(|error| error.to_string())?;
    lab.plan(&experiment).map_err(|error| error.to_string())
}

#[test]
fn targets_that_mean_nothing_for_the_data_are_refused_when_they_are_planned() {
    let lab = lab();
    let stop = |goal: &str| format!("training.stop_when={goal}");
    for goal in ["heldout_learned >= 0.5", "train_excess <= 0.1", "heldout_perplexity <= 1.5", "never"] {
        assert!(plan(&lab, &[&stop(goal)]).is_ok(), "{goal}");
    }
    let refused = plan(&lab, &[&stop("heldout_bits_per_character <= 1")]).unwrap_err();
    assert!(refused.contains("needs the number of characters, which only text has"), "{refused}");
    let scratch = semfocus_fixture::Scratch::new("records-files");
    std::fs::create_dir_all(scratch.path()).unwrap();
    let path = scratch.path().join("bits.tsv");
    let bits = |number: u32| (0..8).map(|bit| (number >> bit & 1).to_string()).collect::<Vec<_>>().join(" ");
    let lines: String = (0..256).map(|number| format!("{}\t{}\n", bits(number), number % 2)).collect();
    std::fs::write(&path, lines).unwrap();
    let task = format!("task={}", path.display());
    let refused = plan(&lab, &[&task, &stop("heldout_excess <= 0.1")]).unwrap_err();
    assert!(refused.contains("`heldout_excess <= 0.1` needs the loss of the best possible predictor"), "{refused}");
    let trials = plan(&lab, &[&task, &stop("heldout_perplexity <= 1.1")]).unwrap().trials;
    let facts = Trainer::new(&trials[0], &Device::cpu()).unwrap().facts().held_out;
    assert!(matches!(*trials[0].source, Source::Own(_)) && facts.floor.is_none() && facts.unigram.is_some());
    assert_eq!(Quantity::derived().count(), 7);
}

#[test]
fn the_learning_rate_follows_its_schedule_step_by_step() {
    // 5 steps a pass.
    let rates = |overrides: &[&str], epochs: usize| -> Vec<f64> {
        let mut trainer = trainer(overrides);
        (0..epochs).map(|_| trainer.epoch(&NEVER, |_, _| true).unwrap().metrics[Metric::Lr]).collect()
    };
    let every = "training.evaluate_every=1";
    assert_eq!(rates(&["training.schedule=constant", every], 7), [0.01; 7]);
    assert_eq!(rates(&["training.warmup=4", every], 6), [0.0025, 0.005, 0.0075, 0.01, 0.01, 0.005]);
    let cosine = ["training.schedule=cosine", "training.min_learning_rate=0.002", "training.steps=8", every];
    let expected = (0..8).map(|step| 0.002 + 0.004 * (1.0 + (std::f64::consts::PI * f64::from(step) / 8.0).cos()));
    for (found, expected) in rates(&cosine, 8).into_iter().zip(expected) {
        assert!((found - expected).abs() < 1e-15, "{found} instead of {expected}");
    }
    let passes = rates(&["training.schedule=cosine", "training.epochs=3"], 3);
    let at = |step: f64| 0.005 * (1.0 + (std::f64::consts::PI * step / 15.0).cos());
    assert!(passes.iter().zip([4.0, 9.0, 14.0]).all(|(rate, step)| (rate - at(step)).abs() < 1e-15), "{passes:?}");
}

#[test]
fn the_length_of_a_falling_schedule_belongs_to_the_trial() {
    let planned = |overrides: &[&str]| trial(&[&["training.schedule=cosine"][..], overrides].concat());
    let [short, long, in_steps] =
        ["training.epochs=3", "training.epochs=4", "training.steps=15"].map(|length| planned(&[length]));
    assert_eq!(short.settings.training.rate.steps, Some(15));
    assert!(short.id != long.id && short.id == in_steps.id);
    let stored = semfocus_core::TrialSettings::from_table(&short.settings.to_table()).unwrap();
    assert_eq!(TrialId::new(&stored), short.id, "it is stored with the trial");
    let own = "training.schedule_steps=15";
    assert_eq!(planned(&[own, "training.epochs=4"]).id, short.id, "the same trial, which goes on at its minimum");
    // The others do not depend on their length.
    for schedule in ["training.schedule=constant", "training.warmup=7", "training.decay=0.9"] {
        let [one, other] = ["training.epochs=3", "training.epochs=4"].map(|length| trial(&[schedule, length]));
        assert!(one.id == other.id && one.settings.training.rate.steps.is_none(), "{schedule}");
    }
    let refused =
        common::planned(&lab(), "full", &["training.schedule=cosine", "training.epochs=3", "training.warmup=15"]);
    assert!(refused.unwrap_err().contains("it takes all 15 steps of the schedule"));
}
