//! A task that asks at every token is trained and evaluated like any other.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
}

#[test]
fn a_task_with_a_question_at_every_token_is_learned() {
    let lab = Lab::standard().with(FIRST_AND_OWN);
    for mechanism in ["full", "topk:3"] {
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
            assert!(first.heldout_accuracy < 0.9, "{mechanism}, {engine}: {first:?}");
            assert!(last.heldout_accuracy > 0.97 && last.heldout_loss < 0.2, "{mechanism}, {engine}: {last:?}");
        }
    }
}
