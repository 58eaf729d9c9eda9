//! Verdicts on sequences that ask several questions each, whose answers are right or wrong together: they keep their level with the
//! sequence as the unit, and would not with the answer.

use std::sync::LazyLock;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_analysis::evidence::verdict::Generalisation;
use semfocus_analysis::evidence::{GOAL, Measures, Observed, PointEvidence};
use semfocus_core::question::{At, Question, Questions, Target};
use semfocus_core::{AnyName, DataFacts, Experiment, Metric, Request, Threshold};
use semfocus_fixture::{self as fixture, Fixture, Scratch};
use semfocus_store::{Asked, State, TrialData};

const EXPERIMENTS: usize = 300;
const SEEDS: u64 = 8;
const SEQUENCES: usize = 100;
const MECHANISMS: [&str; 2] = ["full", "topk:5"];

static TEMPLATE: LazyLock<TrialData> = LazyLock::new(|| {
    let scratch = Scratch::new("units");
    let request = Request { experiment: "even-pairs".to_owned(), seeds: Some(1), ..Request::default() };
    let experiment = Experiment::resolve(&request, &AnyName).unwrap();
    let invent = |_: &_| {
        Some(Fixture { records: vec![fixture::jump(1, None, 0.5)], state: State::Finished, probes: Vec::new() })
    };
    fixture::store(scratch.path(), &experiment, invent).unwrap().read().unwrap().trials.remove(0).data
});

struct World {
    words: ChaCha8Rng,
}

impl World {
    fn happens(&mut self, probability: f64) -> bool {
        f64::from(self.words.next_u32()) < probability * 2f64.powi(32)
    }

    /// A question at each of 10 to 50 tokens of every sequence.
    fn questions(&mut self) -> Questions {
        let mut questions = Questions::default();
        for _ in 0..SEQUENCES {
            let asked = 10 + self.words.next_u32() % 41;
            questions.push((0..asked).map(|at| Question { at: At::Token(at), target: Target::Class(0), weight: 1.0 }));
        }
        questions
    }
}

/// What counts as one example.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Sequence,
    Answer,
}

/// A finished trial in which these sequences were answered correctly and the others were not.
fn target() -> Threshold {
    GOAL.threshold(&DataFacts::default()).unwrap()
}

fn observed(
    unit: Unit,
    mechanism: &str,
    seed: u64,
    is_shared: bool,
    questions: &Questions,
    right: &[bool],
) -> Observed {
    let mut trial = TEMPLATE.clone();
    (trial.entry.mechanism, trial.entry.seed, trial.state) = (mechanism.to_owned(), seed, State::Finished);
    let answers = questions.all().len();
    let correct =
        (0..SEQUENCES).filter(|&index| right[index]).map(|index| questions.of_sequence(index).len()).sum::<usize>();
    trial.curve[0].metrics[Metric::HeldoutAccuracy] = correct as f64 / answers as f64;
    trial.settings.as_mut().unwrap().data.seed = is_shared.then_some(1);
    let asked = Asked::from(questions);
    let independent = if unit == Unit::Sequence { asked.independent } else { asked.answers };
    trial.held_out = Some(independent);
    let measures = Measures::new(&trial, target());
    Observed { trial, measures }
}

fn finding(trials: Vec<Observed>) -> Generalisation {
    let point = PointEvidence::new(Vec::new(), &MECHANISMS.map(str::to_owned), "full", trials);
    point.compared().find_map(|(_, comparison)| comparison).unwrap().generalisation.finding
}

/// Share of the experiments that end with one of these findings.
fn share(
    unit: Unit,
    findings: &[Generalisation],
    mut experiment: impl FnMut(&mut World, Unit) -> Vec<Observed>,
) -> f64 {
    let mut world = World { words: ChaCha8Rng::seed_from_u64(1) };
    let found = (0..EXPERIMENTS).filter(|_| findings.contains(&finding(experiment(&mut world, unit))));
    found.count() as f64 / EXPERIMENTS as f64
}

/// At most 5 %, up to 3.3 binomial standard errors.
fn limit() -> f64 {
    0.05 + 3.3 * (0.05f64 * 0.95 / EXPERIMENTS as f64).sqrt()
}

/// Two mechanisms that answer 80 % of all sequences correctly. All seeds share the held-out sequences, of which a mechanism answers
/// nearly the same ones with every seed.
fn no_difference(world: &mut World, unit: Unit) -> Vec<Observed> {
    let questions = world.questions();
    let mut trials = Vec::new();
    for mechanism in MECHANISMS {
        let right: Vec<bool> = (0..SEQUENCES).map(|_| world.happens(0.8)).collect();
        for seed in 0..SEEDS {
            let right: Vec<bool> = right.iter().map(|&right| right != world.happens(0.01)).collect();
            trials.push(observed(unit, mechanism, seed, true, &questions, &right));
        }
    }
    trials
}

/// Models that give one answer to all questions of a sequence, right half of the time, and have learned nothing.
fn nothing_learned(world: &mut World, unit: Unit) -> Vec<Observed> {
    let mut trials = Vec::new();
    for seed in 0..SEEDS {
        let questions = world.questions();
        for mechanism in MECHANISMS {
            let right: Vec<bool> = (0..SEQUENCES).map(|_| world.happens(0.5)).collect();
            trials.push(observed(unit, mechanism, seed, false, &questions, &right));
        }
    }
    trials
}

#[test]
fn differences_are_stated_too_often_only_if_answers_count() {
    let stated = [Generalisation::Better, Generalisation::Worse];
    let by_sequence = share(Unit::Sequence, &stated, no_difference);
    let by_answer = share(Unit::Answer, &stated, no_difference);
    assert!(by_sequence <= limit(), "{by_sequence}");
    assert!(by_answer > 0.3, "{by_answer}");
}

#[test]
fn chance_counts_as_learning_only_if_answers_count() {
    let by_sequence = share(Unit::Sequence, &[Generalisation::NotLearned], nothing_learned);
    let by_answer = share(Unit::Answer, &[Generalisation::NotLearned], nothing_learned);
    assert!(by_sequence >= 1.0 - limit(), "{by_sequence}");
    assert!(by_answer < 0.9, "{by_answer}");
    // A single trial is taken to have learned in no more than a twentieth of the experiments of its size.
    let lucky = |unit: Unit| {
        let mut world = World { words: ChaCha8Rng::seed_from_u64(2) };
        let trials: Vec<Observed> = (0..100).flat_map(|_| nothing_learned(&mut world, unit)).collect();
        let is_lucky = |observed: &&Observed| observed.measures.as_ref().unwrap().luck < 0.05;
        trials.iter().filter(is_lucky).count() as f64 / trials.len() as f64
    };
    assert!(lucky(Unit::Sequence) <= 0.07, "{}", lucky(Unit::Sequence));
    assert!(lucky(Unit::Answer) > 0.2, "{}", lucky(Unit::Answer));
}

#[test]
fn in_classification_nothing_changes() {
    let questions = Questions::classification(vec![0; 2000]);
    assert_eq!(Asked::from(&questions), Asked { sequences: 2000, answers: 2000, independent: 2000, distinct: None });
    let mut trial = TEMPLATE.clone();
    let before = Measures::new(&trial, target()).unwrap();
    let held_out = trial.settings.as_ref().unwrap().data.sizes.held_out;
    trial.held_out = Some(Asked::from(&Questions::classification(vec![0; held_out])).independent);
    assert_eq!(Measures::new(&trial, target()).unwrap(), before);
}
