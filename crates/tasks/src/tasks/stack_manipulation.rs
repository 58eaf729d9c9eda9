//! `stack-manipulation`: what is on top of a stack after some actions?

use std::sync::Arc;

use super::{CHOMSKY, text};
use crate::random::Random;
use crate::task::{Answers, Illegal, Label, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the top of a stack of bits, listed bottom to top, after some actions; POP on an empty stack does nothing",
    tests: "matching every POP with the element it removes: last in, first out",
    source: CHOMSKY,
    alphabet: ALPHABET,
    classes: CLASSES,
    ..TaskInfo::new("stack-manipulation", |_| Ok(Arc::new(StackManipulation)))
};

const ALPHABET: &[Symbol] = &[
    symbol("0", "bit 0 of the initial stack"),
    symbol("1", "bit 1 of the initial stack"),
    symbol("POP", "remove the top"),
    symbol("PUSH0", "push a 0"),
    symbol("PUSH1", "push a 1"),
];

const CLASSES: &[Symbol] = &[symbol("0", "0 is on top"), symbol("1", "1 is on top"), symbol("2", "the stack is empty")];

const POP: Token = 2;
const PUSH: [Token; 2] = [3, 4];
const EMPTY: Label = 2;

#[derive(Debug)]
struct StackManipulation;

impl Task for StackManipulation {
    fn min_length(&self) -> usize {
        2
    }

    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let length = random.within(lengths);
        let size = random.between(1, length - 1);
        let mut stack: Vec<Token> = (0..size).map(|_| random.below(2) as Token).collect();
        out.extend_from_slice(&stack);
        for _ in size..length {
            let action = POP + random.below(3) as Token;
            act(&mut stack, action);
            out.push(action);
        }
        Ok(label(stack.last().copied().unwrap_or(EMPTY)))
    }

    /// Reads backwards, without a stack: the top is the last bit that no later POP removes. A POP on an empty stack removes
    /// nothing; here it is matched with an earlier bit, which another POP has removed already, so the result is the same.
    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        let size = tokens.iter().position(|&token| token >= POP).unwrap_or(tokens.len());
        if size == 0 {
            return Illegal::at(0, "the sequence must begin with the bits of the stack, 0 or 1");
        }
        if size == tokens.len() {
            return Illegal::at(size, "at least one action (2, 3 or 4) must follow the bits of the stack");
        }
        if let Some(late) = tokens[size..].iter().position(|&token| token < POP) {
            return Illegal::at(size + late, "the bits of the stack must come before the actions; PUSH is 3 or 4");
        }
        let mut to_remove = 0;
        for &token in tokens.iter().rev() {
            match token {
                POP => to_remove += 1,
                _ if to_remove > 0 => to_remove -= 1,
                bit_or_push => return Ok(label(bit_or_push % PUSH[0])),
            }
        }
        Ok(label(EMPTY))
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let show = |stack: &[Token]| match stack {
            [] => "empty".to_owned(),
            bits => super::digits(bits),
        };
        let size = tokens.iter().position(|&token| token >= POP).unwrap_or(tokens.len());
        let mut stack = tokens[..size].to_vec();
        let mut lines = vec![format!("The stack, top at the right: {}", show(&stack))];
        for &action in &tokens[size..] {
            let is_noop = action == POP && stack.is_empty();
            act(&mut stack, action);
            let remark = if is_noop { " (nothing to remove)" } else { "" };
            lines.push(format!("{:5} → {}{remark}", text(ALPHABET, action), show(&stack)));
        }
        lines
    }
}

fn act(stack: &mut Vec<Token>, action: Token) {
    if action == POP {
        stack.pop();
    } else {
        stack.push(action - PUSH[0]);
    }
}
