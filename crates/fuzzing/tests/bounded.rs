//! Every target with mutated examples: some thousands, or a million and more with `SEMFOCUS_ATTACK=long`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use semfocus_fuzzing::TARGETS;

/// Words that inputs may be about.
const WORDS: &[&str] = &[
    "\n",
    ",",
    ":",
    "=",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    ".",
    "..",
    "-",
    "+",
    "1e999",
    "NaN",
    "inf",
    "-0",
    "null",
    "true",
    "18446744073709551616",
    "9223372036854775807",
    "\u{1b}[2J",
    "é",
    "model",
    "data",
    "grid",
    "scale",
    "training",
    "seeds",
    "mechanisms",
    "topk",
    "topk:5",
    "@0,",
    "@7",
    "/",
    "k=2",
    "full",
    "epochs",
    "format",
    "check",
    "blocks",
    "base",
    "even-pairs",
    "length",
    "task",
    "name",
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

fn mutate(input: &mut Vec<u8>, other: &[u8], dice: &mut Dice) {
    let at = dice.below(input.len() + 1);
    let end = (at + dice.below(20)).min(input.len());
    match dice.below(9) {
        0 | 1 if at < input.len() => input[at] ^= 1 << dice.below(8),
        2 if at < input.len() => input[at] = dice.below(256) as u8,
        3 => drop(input.drain(at..end)),
        4 => {
            let piece = input[at..end].to_vec();
            input.splice(at..at, piece);
        }
        5 | 6 => {
            let word = WORDS[dice.below(WORDS.len())];
            input.splice(at..at, word.bytes());
        }
        7 => {
            let from = dice.below(other.len() + 1);
            let to = (from + dice.below(40)).min(other.len());
            input.splice(at..end, other[from..to].iter().copied());
        }
        _ => input.truncate(at),
    }
}

#[test]
fn no_input_makes_a_target_panic() {
    let is_long = std::env::var("SEMFOCUS_ATTACK").is_ok_and(|value| value == "long");
    let mut total = 0;
    for target in TARGETS {
        let examples = (target.examples)();
        examples.iter().for_each(|example| (target.run)(example));
        let count = match (target.name, is_long) {
            ("store", false) => 500,
            ("store", true) => 100_000,
            (_, false) => 5_000,
            (_, true) => 200_000,
        };
        let mut dice = Dice(target.name.len() as u64);
        for _ in 0..count {
            let mut input = examples[dice.below(examples.len())].clone();
            let other = &examples[dice.below(examples.len())];
            for _ in 0..=dice.below(8) {
                mutate(&mut input, other, &mut dice);
            }
            let result = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
            assert!(result.is_ok(), "{}: {:?}", target.name, String::from_utf8_lossy(&input));
        }
        total += count;
    }
    println!("{total} inputs");
}
