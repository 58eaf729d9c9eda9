//! Tasks whose generators draw the answers: training targets are what was drawn, held-out targets what can be known.

use std::sync::Arc;

use semfocus_tasks::{
    Answers, At, Audit, DataSettings, Dataset, Evaluator, Examples, Format, Illegal, Length, Lengths, Question, Random,
    SplitName, Symbol, Target, Task, TaskInfo, Tasks, Token, Unlikely, Writer, symbol,
};

const BITS: &[Symbol] = &[symbol("0", "zero"), symbol("1", "one")];

/// Uniform bits; after the last one, a bit that is equal to it with probability 3/4 is asked for.
#[derive(Debug)]
struct Noisy {
    evaluator: Evaluator,
    asks_at: u32,
}

impl Task for Noisy {
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        out.extend((0..random.within(lengths)).map(|_| random.below(2) as Token));
        let last = out[out.len() - 1];
        let drawn = if random.happens(0.75) { last } else { 1 - last };
        let asked = Question { at: At::Token(self.asks_at), target: Target::Class(drawn), weight: 1.0 };
        Ok(Answers::from_iter([asked]))
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        let shares = if bits[bits.len() - 1] == 0 { [0.75, 0.25] } else { [0.25, 0.75] };
        Ok(Answers::soft([(7, shares.to_vec())]))
    }

    fn evaluator(&self) -> Evaluator {
        self.evaluator
    }
}

const BEST: TaskInfo = TaskInfo {
    alphabet: BITS,
    classes: BITS,
    ..TaskInfo::new("noisy", |_| Ok(Arc::new(Noisy { evaluator: Evaluator::BestPrediction, asks_at: 7 })))
};
const ESTIMATE: TaskInfo = TaskInfo {
    alphabet: BITS,
    classes: BITS,
    ..TaskInfo::new("estimated", |_| Ok(Arc::new(Noisy { evaluator: Evaluator::Estimate, asks_at: 7 })))
};
const ELSEWHERE: TaskInfo = TaskInfo {
    alphabet: BITS,
    classes: BITS,
    ..TaskInfo::new("elsewhere", |_| Ok(Arc::new(Noisy { evaluator: Evaluator::BestPrediction, asks_at: 6 })))
};

fn settings() -> DataSettings {
    DataSettings::with_length(Length::Exactly(8))
}

#[test]
fn training_targets_are_drawn_and_held_out_targets_are_the_best_predictions() {
    let task = Tasks::standard().with(BEST).find("noisy").unwrap();
    let data = Dataset::generate(&task, &settings(), 1).unwrap();
    let equal = data.train.iter().filter(|(bits, asked)| asked[0].target == Target::Class(bits[7])).count();
    assert!((equal as f64 / 5000.0 - 0.75).abs() < 0.02, "{equal} of 5000 equal the last bit");
    for (bits, asked) in data.held_out.iter() {
        let Target::Soft(row) = asked[0].target else { panic!("{asked:?}") };
        assert_eq!(data.held_out.questions.distribution(row)[usize::from(bits[7])], 0.75);
    }
    // Floors: the entropy, and the cross-entropy of the bits that were drawn.
    let (entropy, drawn) = (0.75f64.ln() * -0.75 - 0.25f64.ln() * 0.25, equal as f64 / 5000.0);
    assert!((data.held_out.floor.unwrap() - entropy).abs() < 1e-12);
    let expected = -(drawn * 0.75f64.ln() + (1.0 - drawn) * 0.25f64.ln());
    assert!((data.train.floor.unwrap() - expected).abs() < 1e-9);
    assert!((data.held_out_unigram_loss().unwrap() - 2f64.ln()).abs() < 1e-2);
    assert_eq!((data.test.floor, data.answers_are_drawn), (None, true), "no test examples");
    // 256 sequences in 5,000 draws: most of them with both answers.
    assert_eq!(Audit::new(&data, &[]).contradictions, 0);
    let online = Examples::for_step(&task, &settings(), 1, 3).unwrap().take_split(20).unwrap();
    assert!(online.questions.all().iter().all(|question| matches!(question.target, Target::Class(_))));
}

#[test]
fn what_cannot_be_known_has_no_floor_and_is_asked_as_drawn() {
    let task = Tasks::standard().with(ESTIMATE).find("estimated").unwrap();
    let data = Dataset::generate(&task, &settings(), 1).unwrap();
    assert_eq!((data.train.floor, data.held_out.floor), (None, None));
    assert!(data.held_out.questions.all().iter().all(|question| matches!(question.target, Target::Class(_))));
    // Tasks whose answers follow from the tokens have the floor 0.
    let parity = Dataset::generate(&Tasks::standard().find("parity").unwrap(), &settings(), 1).unwrap();
    assert_eq!((parity.train.floor, parity.held_out.floor, parity.answers_are_drawn), (Some(0.0), Some(0.0), false));
}

#[test]
fn drawn_answers_must_be_asked_where_the_evaluator_asks() {
    let task = Tasks::standard().with(ELSEWHERE).find("elsewhere").unwrap();
    let message = Examples::new(&task, &settings(), 1, None).unwrap().draw().unwrap_err().to_string();
    assert!(message.contains("the task `elsewhere` is wrongly defined: its generator asks"), "{message}");
}

#[test]
fn files_show_the_probabilities() {
    let task = Tasks::standard().with(BEST).find("noisy").unwrap();
    let writer = Writer::new(&task, Format::Text, 8).unwrap();
    assert_eq!(writer.answers(&task.answers(&[0, 0, 0, 0, 0, 0, 0, 1]).unwrap()), "7:0.25,0.75");
    let mut examples = Examples::new(&task, &settings(), 1, Some(SplitName::Train)).unwrap();
    assert!(["7:0", "7:1"].contains(&writer.answers(&examples.draw().unwrap().answers).as_str()));
}
