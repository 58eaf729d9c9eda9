//! The batches of a trial.

use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_core::{Key, Stream, TrialSettings};
use semfocus_nn::train::Batch;
use semfocus_tasks::{GenerateError, Source, Split};

use crate::Trial;
use crate::schedule::{Schedule, used};

/// The batches of a trial, step by step, without end. The batch of a step depends on the settings of the trial and the number
/// of the step alone, so a trial can resume anywhere, and mechanisms that share a seed share their batches.
pub(crate) struct Batches {
    settings: TrialSettings,
    source: Arc<Source>,
    schedule: Schedule,
    /// The last pass whose order of examples was needed.
    order: Option<(usize, Vec<usize>)>,
}

impl Batches {
    /// The batches of a trial with this schedule.
    pub(crate) fn new(trial: &Trial, schedule: Schedule) -> Self {
        Batches { settings: trial.settings.clone(), source: trial.source.clone(), schedule, order: None }
    }

    /// The batch of a step: the next examples in the order of its pass over `train`, or new ones. The first step is 0.
    pub(crate) fn at(&mut self, step: u64, train: &Split, device: &Device) -> Result<Batch, GenerateError> {
        let Batches { settings, source, schedule, order } = self;
        let size = settings.training.batch;
        if settings.data.online {
            let drawn = source.draw(&settings.data, settings.seed, step, size)?;
            return Ok(batch(&drawn, 0..size, device));
        }
        let (pass, steps_before) = schedule.pass(step);
        let (_, order) = match order {
            Some(known) if known.0 == pass => known,
            other if !settings.training.shuffle => other.insert((pass, (0..train.len()).collect())),
            other => other.insert((pass, self::order(settings.seed, pass, train.len()))),
        };
        let (first, end) = (steps_before * size, used(order.len(), settings));
        Ok(batch(train, order[first..end.min(first + size)].iter().copied(), device))
    }
}

/// The order of the first `count` examples in a pass: a uniformly random permutation that depends on the seed and the number of
/// the pass alone.
fn order(seed: u64, pass: usize, count: usize) -> Vec<usize> {
    let key = Key::of_stream(seed, Stream::Order).child(pass as u64);
    let mut generator = ChaCha8Rng::from_seed(key.generator_seed());
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(&mut generator, last + 1));
    }
    order
}

/// An unbiased number below `bound`: draws above the largest multiple of `bound` are rejected. The stored results depend on this
/// very method.
fn below(generator: &mut ChaCha8Rng, bound: usize) -> usize {
    let bound = bound as u64;
    let zone = u64::MAX - u64::MAX % bound;
    loop {
        let draw = generator.next_u64();
        if draw < zone {
            return (draw % bound) as usize;
        }
    }
}

/// Some examples of a split, their tokens on a device.
pub fn batch(split: &Split, examples: impl ExactSizeIterator<Item = usize> + Clone, device: &Device) -> Batch {
    let (count, length) = (examples.len(), split.length);
    let mut tokens = Vec::with_capacity(count * length);
    for example in examples.clone() {
        tokens.extend(split.tokens[example * length..][..length].iter().map(|&token| i64::from(token)));
    }
    let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [count, length]), device);
    Batch { tokens, questions: split.questions.select(examples) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_permutations_determined_by_seed_and_pass() {
        let first = order(1, 1, 100);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert_eq!(first, order(1, 1, 100));
        assert_ne!(first, order(1, 2, 100));
        assert_ne!(first, order(2, 1, 100));
        assert_eq!(order(1, 1, 1), [0]);
    }

    #[test]
    fn all_orders_are_equally_likely() {
        let mut counts = std::collections::HashMap::new();
        for pass in 0..6000 {
            *counts.entry(order(9, pass, 3)).or_insert(0) += 1;
        }
        // Six orders, 1,000 each; the deviation has a standard error of 29.
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|&count| (880..1120).contains(&count)), "{counts:?}");
    }

    fn trial(mechanism: &str, overrides: &[&str]) -> Trial {
        use semfocus_core::{Experiment, Request};
        let request = Request {
            experiment: "parity".to_owned(),
            mechanisms: Some(vec![mechanism.to_owned()]),
            seeds: Some(1),
            overrides: overrides.iter().map(|&text| text.to_owned()).collect(),
            ..Request::default()
        };
        let lab = crate::Lab::standard();
        lab.plan(&Experiment::resolve(&request, &lab).unwrap()).unwrap().trials.swap_remove(0)
    }

    /// Tokens and labels of the batches of some steps.
    fn batches(trial: &Trial, steps: impl IntoIterator<Item = u64>) -> Vec<Vec<i64>> {
        let data = trial.source.dataset(&trial.settings.data, trial.settings.seed).unwrap();
        let mut batches = Batches::new(trial, Schedule::new(&trial.settings, data.train.len()));
        let numbers = |step| {
            let Batch { tokens, questions } = batches.at(step, &data.train, &Device::flex()).unwrap();
            let classes = questions.all().iter().map(|question| i64::from(questions.correct_class(question.target)));
            tokens.into_data().iter::<i64>().chain(classes).collect()
        };
        steps.into_iter().map(numbers).collect()
    }

    #[test]
    fn mechanisms_that_share_a_seed_share_their_batches() {
        for overrides in [&["data.train=60"][..], &["data.train=60", "data.online=true"]] {
            let [one, other] = ["full", "topk:5"].map(|mechanism| batches(&trial(mechanism, overrides), 0..10));
            assert_eq!(one, other);
            // Steps in any order have the same batches.
            let backwards = batches(&trial("full", overrides), (0..10).rev());
            assert!(one.iter().eq(backwards.iter().rev()));
        }
    }

    #[test]
    fn a_pass_has_every_example_once_and_new_examples_fill_every_batch() {
        // 60 examples: 25, 25 and 10.
        let rows = |overrides: &[&str], steps: std::ops::Range<u64>| -> Vec<usize> {
            batches(&trial("full", overrides), steps).iter().map(|numbers| numbers.len() / 13).collect()
        };
        let fixed = &["data.train=60", "data.length=12", "training.evaluate_every=4"];
        assert_eq!(rows(fixed, 0..7), [25, 25, 10, 25, 25, 10, 25]);
        let online = &["data.train=60", "data.length=12", "data.online=true"];
        assert_eq!(rows(online, 0..4), [25; 4]);
        let sorted = |steps: std::ops::Range<u64>| {
            let mut rows: Vec<Vec<i64>> = Vec::new();
            for numbers in batches(&trial("full", fixed), steps) {
                rows.extend(numbers[..numbers.len() / 13 * 12].chunks(12).map(<[i64]>::to_vec));
            }
            rows.sort();
            rows
        };
        assert_eq!(sorted(0..3), sorted(3..6), "another order of the same examples");
        assert_eq!(sorted(0..3).len(), 60);
        let unshuffled = trial("full", &[&fixed[..], &["training.shuffle=false"]].concat());
        let data = unshuffled.source.dataset(&unshuffled.settings.data, unshuffled.settings.seed).unwrap();
        let second = &batches(&unshuffled, 4..5)[0][..25 * 12];
        assert!(
            second.iter().eq(data.train.tokens[25 * 12..50 * 12]
                .iter()
                .map(|&token| i64::from(token))
                .collect::<Vec<_>>()
                .iter())
        );
    }
}
