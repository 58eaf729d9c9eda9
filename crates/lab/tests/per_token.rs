//! A task that asks at every token is trained and evaluated like any other.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use semfocus_analysis::theory::lipschitz::Profile;
use semfocus_core::Metric;
use semfocus_lab::estimate::Estimator;
use semfocus_lab::probing::Prober;
use semfocus_lab::training::Trainer;
use semfocus_lab::{Device, Lab};
use semfocus_tasks::{
    Answers, At, Illegal, Lengths, Question, Random, Symbol, Target, Task, TaskInfo, Token, Unlikely, symbol,
};

/// At every token: the first bit and this one. The first takes attention, the other only the token.
const FIRST_AND_OWN: TaskInfo =
    TaskInfo { summary: "the first bit and this one", ..TaskInfo::new("first-and-own", |_| Ok(Arc::new(FirstAndOwn))) };

#[derive(Debug)]
struct FirstAndOwn;

impl Task for FirstAndOwn {
    fn alphabet(&self) -> Vec<Symbol> {
        vec![symbol("0", "bit 0"), symbol("1", "bit 1")]
    }

    fn classes(&self) -> Vec<Symbol> {
        ["00", "01", "10", "11"].map(|text| symbol(text, "first bit, this bit")).to_vec()
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        out.extend((0..random.within(lengths)).map(|_| random.below(2) as Token));
        Ok(self.answers(out).expect("all bits are legal"))
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        let asked = |(position, bit): (u32, &Token)| Question {
            at: At::Token(position),
            target: Target::Class(2 * bits[0] + bit),
            weight: 1.0,
        };
        Ok((0..).zip(bits).map(asked).collect())
    }

    fn relevant_to_questions(&self, bits: &[Token]) -> Option<Vec<Vec<usize>>> {
        Some(vec![vec![0]; bits.len()])
    }
}

#[test]
fn a_task_with_a_question_at_every_token_is_learned() {
    let lab = Lab::standard().with(FIRST_AND_OWN);
    // Who must not look at the first bit knows it at the first token only.
    let best_without = 1.0 / 8.0 + 0.5 * 7.0 / 8.0;
    for (mechanism, is_learned) in [("full", true), ("topk:3", true), ("oracle:1", true), ("antioracle:3", false)] {
        for engine in ["fused", "reference"] {
            let overrides = [
                "task=first-and-own",
                "data.length=8",
                "data.train=120",
                "data.held_out=60",
                "training.learning_rate=0.01",
                "training.decay=0.99",
                "model.dropout=0.01",
                &format!("model.engine={engine}"),
            ];
            let trial = common::planned(&lab, mechanism, &overrides).unwrap();
            let mut trainer = Trainer::new(&trial, &Device::cpu()).unwrap();
            let never = AtomicBool::new(false);
            let mut epoch = || trainer.epoch(&never, |_, _| true).unwrap();
            let first = epoch();
            let last = (0..25).map(|_| epoch()).last().unwrap();
            println!("{mechanism}, {engine}: {first:?} {last:?}");
            // The most frequent class is a quarter of the answers; the own bit alone decides half of them.
            assert!(first.metrics[Metric::HeldoutAccuracy] < 0.9, "{mechanism}, {engine}: {first:?}");
            let (accuracy, loss) = (last.metrics[Metric::HeldoutAccuracy], last.metrics[Metric::HeldoutLoss]);
            match is_learned {
                true => assert!(accuracy > 0.97 && loss < 0.2, "{mechanism}, {engine}: {last:?}"),
                false => assert!(accuracy < best_without + 0.08, "{mechanism}, {engine}: {last:?}"),
            }
        }
    }
}

/// The bounds on the steepness of the loss are proved for the mean over the tokens.
#[test]
fn no_bounds_are_given_where_examples_ask_at_tokens() {
    let lab = Lab::standard().with(FIRST_AND_OWN);
    for (task, is_bounded) in [("first-and-own", false), ("parity", true)] {
        let trial = common::planned(&lab, "full", &[&format!("task={task}")]).unwrap();
        let trainer = Trainer::new(&trial, &Device::cpu()).unwrap();
        let record = Prober::new(&trial, &trainer.data().train, 10).unwrap().measure(trainer.model(), 0, None);
        assert_eq!(
            (record.asks_at_tokens, Profile::from_record(&record).is_some()),
            (!is_bounded, is_bounded),
            "{task}"
        );
    }
}

/// With 2,000 classes the head is most of the work, once for each question.
const MANY: TaskInfo = TaskInfo { summary: "2,000 classes", ..TaskInfo::new("many", |_| Ok(Arc::new(Many(1)))) };
const MANY_AT_TOKENS: TaskInfo =
    TaskInfo { summary: "2,000 classes at every token", ..TaskInfo::new("many-at-tokens", |_| Ok(Arc::new(Many(9)))) };

#[derive(Debug)]
struct Many(u32);

impl Task for Many {
    fn alphabet(&self) -> Vec<Symbol> {
        FirstAndOwn.alphabet()
    }

    fn classes(&self) -> Vec<Symbol> {
        (0..2000).map(|class| Symbol { text: format!("c{class}").into(), meaning: "a class".into() }).collect()
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        out.extend((0..random.within(lengths)).map(|_| random.below(2) as Token));
        Ok(self.answers(out).expect("all bits are legal"))
    }

    fn answers(&self, bits: &[Token]) -> Result<Answers, Illegal> {
        let asked = |position| Question {
            at: At::Token(position),
            target: Target::Class(bits[position as usize]),
            weight: 1.0,
        };
        Ok((0..self.0).map(asked).collect())
    }
}

#[test]
fn the_estimate_counts_the_questions() {
    let lab = Lab::standard().with(MANY).with(MANY_AT_TOKENS);
    let mut estimator = Estimator::new(&lab, None);
    let [once, at_tokens] = ["many", "many-at-tokens"].map(|task| {
        let trial = common::planned(&lab, "full", &[&format!("task={task}")]).unwrap();
        estimator.trials(&[trial])
    });
    assert!(at_tokens > 4.0 * once, "{once} s and {at_tokens} s");
}
