//! `flip-flop`: which bit was written last?

use std::sync::Arc;

use super::{BIT_CLASSES, text};
use crate::random::Random;
use crate::task::{Answers, Illegal, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};
use semfocus_core::data::Length;

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the bit that was written last, in pairs of an instruction (write, ignore or read) and a bit; the last pair is \
        a read whose bit is asked for; an odd length ends with a pad token",
    tests: "remembering one bit over many others that must be ignored",
    source: "Liu et al., Exposing Attention Glitches with Flip-Flop Language Modeling, NeurIPS 2023; here with one question, \
        at the end",
    alphabet: ALPHABET,
    classes: BIT_CLASSES,
    ..TaskInfo::new("flip-flop", |_| Ok(Arc::new(FlipFlop)))
};

const ALPHABET: &[Symbol] = &[
    symbol("0", "bit 0"),
    symbol("1", "bit 1"),
    symbol("W", "write the bit that follows"),
    symbol("I", "ignore the bit that follows"),
    symbol("R", "read: the bit that follows is the one last written"),
    symbol("?", "the bit that is asked for"),
];

const WRITE: Token = 2;
const IGNORE: Token = 3;
const READ: Token = 4;
const ASKED: Token = 5;
const PAD: Token = 6;

#[derive(Debug)]
struct FlipFlop;

impl Task for FlipFlop {
    fn min_length(&self) -> usize {
        4
    }

    fn lesson_length(&self) -> Length {
        Length::Between(8, 16)
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let length = random.within(lengths);
        let mut memory = random.below(2) as Token;
        out.extend([WRITE, memory]);
        for _ in 2..length / 2 {
            let pair = match random.below(10) {
                0 => {
                    memory = random.below(2) as Token;
                    [WRITE, memory]
                }
                1 => [READ, memory],
                _ => [IGNORE, random.below(2) as Token],
            };
            out.extend(pair);
        }
        out.extend([READ, ASKED]);
        if length % 2 == 1 {
            out.push(PAD);
        }
        Ok(label(memory))
    }

    /// Reads backwards to the last write, once all pairs are known to be legal.
    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        check(tokens)?;
        Ok(label(tokens[last_write(tokens) + 1]))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let mut memory = 0;
        let mut lines = Vec::new();
        for pair in tokens.chunks_exact(2) {
            let (instruction, bit) = (pair[0], pair[1]);
            let meaning = match instruction {
                WRITE => {
                    memory = bit;
                    format!("write {bit}")
                }
                IGNORE => format!("ignore {bit}"),
                _ => format!("read: {memory} was written last"),
            };
            lines.push(format!("{} {} → {meaning}", text(ALPHABET, instruction), text(ALPHABET, bit)));
        }
        lines
    }

    /// The bit of the last write and those of the reads after it: each of them alone is the answer. Replacing a single one of
    /// several would make the sequence illegal; replacing all of them gives a legal sequence with the other label.
    fn relevant(&self, tokens: &[Token]) -> Option<Vec<usize>> {
        let write = last_write(tokens);
        let is_copy = |index: &usize| tokens[*index] != IGNORE && tokens[index + 1] != ASKED;
        Some((write..tokens.len() - 1).step_by(2).filter(is_copy).map(|index| index + 1).collect())
    }
}

/// Index of the last W. There is one in every legal sequence.
fn last_write(tokens: &[Token]) -> usize {
    tokens.iter().rposition(|&token| token == WRITE).unwrap_or(0)
}

/// Finds the first token with which the sequence cannot be legal any more, or its end if something is missing there.
fn check(tokens: &[Token]) -> Result<(), Illegal> {
    let mut written = 0; // index of the last write so far
    for (index, &token) in tokens.iter().enumerate() {
        let is_instruction = (WRITE..=READ).contains(&token);
        if index % 2 == 0 {
            if !is_instruction {
                return Illegal::at(index, "expected an instruction: W, I or R (2, 3 or 4)");
            }
            if index == 0 && token != WRITE {
                return Illegal::at(0, "the first instruction must be W (2)");
            }
            if token == WRITE {
                written = index;
            }
            continue;
        }
        let instruction = tokens[index - 1];
        if is_instruction {
            return Illegal::at(index, format!("expected a bit, 0 or 1, after {}", text(ALPHABET, instruction)));
        }
        if token == ASKED {
            if instruction != READ {
                return Illegal::at(index, format!("`?` must follow R, not {}", text(ALPHABET, instruction)));
            }
            if index + 1 < tokens.len() {
                return Illegal::at(index, "`?` is only allowed at the end");
            }
            return Ok(());
        }
        if instruction == READ && token != tokens[written + 1] {
            let (bit, place) = (tokens[written + 1], written + 2);
            return Illegal::at(index, format!("R must be followed by the bit last written, {bit} at token {place}"));
        }
    }
    Illegal::at(tokens.len(), "ends too early: the last pair must be R ? (4 5)")
}
