//! `listops`: nested operations on lists of digits, grown by the procedure of the Long Range Arena.

use std::sync::Arc;

use semfocus_core::data::Length;
use semfocus_core::spec::{Literal, Parameter, Table, Values};

use super::{joined, text};
use crate::random::Random;
use crate::task::{
    Answers, BuiltTask, Illegal, Label, Lengths, Symbol, Task, TaskInfo, Token, Unlikely, label, symbol,
};

pub(crate) const INFO: TaskInfo = TaskInfo {
    summary: "the value of nested MIN, MAX, MED (median) and SM (sum modulo 10) of lists of digits",
    tests: "evaluating a deep hierarchy in a long sequence, much of which turns out not to matter",
    source: "Nangia & Bowman, ListOps: A Diagnostic Dataset for Latent Tree Learning, 2018; in the form of Tay et al., \
             Long Range Arena, ICLR 2021",
    parameters: &[
        Parameter::whole("depth", "the largest depth of an expression; the root has depth 1", 1, 100, 5)
            .default(Literal::Number(10.0))
            .keyed(),
        Parameter::whole("args", "the largest number of arguments of an operator", 2, 1000, 5)
            .default(Literal::Number(10.0)),
        Parameter::number("operators", "the probability that a node above the largest depth is one", 0.0, 1.0, 0.5)
            .default(Literal::Number(0.25)),
    ],
    alphabet: ALPHABET,
    classes: CLASSES,
    ..TaskInfo::new("listops", |values| Ok(Arc::new(ListOps::new(values))))
};

/// The task, if a data file in the interchange format that has this word in its first example holds ListOps expressions.
pub(crate) fn of_interchange(word: &str) -> Option<BuiltTask> {
    let table = Table::new(vec![INFO]);
    let (info, spec, values) = table.read(INFO.name).ok().filter(|_| word.starts_with('['))?;
    BuiltTask::new(info, spec, &values).ok()
}

const CLASSES: &[Symbol] = &[
    symbol("0", "the value 0"),
    symbol("1", "the value 1"),
    symbol("2", "the value 2"),
    symbol("3", "the value 3"),
    symbol("4", "the value 4"),
    symbol("5", "the value 5"),
    symbol("6", "the value 6"),
    symbol("7", "the value 7"),
    symbol("8", "the value 8"),
    symbol("9", "the value 9"),
];

/// The fixed vocabulary.
const ALPHABET: &[Symbol] = &[
    symbol("0", "digit 0"),
    symbol("1", "digit 1"),
    symbol("2", "digit 2"),
    symbol("3", "digit 3"),
    symbol("4", "digit 4"),
    symbol("5", "digit 5"),
    symbol("6", "digit 6"),
    symbol("7", "digit 7"),
    symbol("8", "digit 8"),
    symbol("9", "digit 9"),
    symbol("[MIN", "minimum of the arguments"),
    symbol("[MAX", "maximum of the arguments"),
    symbol("[MED", "median of the arguments, rounded down"),
    symbol("[SM", "sum of the arguments, modulo 10"),
    symbol("]", "end of the arguments"),
];

/// Tokens below this are digits.
const DIGITS: Token = 10;
/// The first of the four operators.
const FIRST_OPERATOR: Token = 10;
const OPERATORS: u32 = 4;
/// The token that ends a list of arguments.
const END: Token = 14;

/// The search for an expression of a permitted length ends after this many tokens.
const MAX_WORK: u64 = 100_000_000;

/// The procedure that grows expressions.
#[derive(Debug)]
struct ListOps {
    max_depth: usize,
    max_args: usize,
    operator_probability: f64,
}

impl ListOps {
    fn new(values: &Values) -> Self {
        let (max_depth, max_args) = (values.whole("depth"), values.whole("args"));
        ListOps { max_depth, max_args, operator_probability: values.number("operators") }
    }
}

impl Task for ListOps {
    fn default_length(&self) -> Length {
        Length::Between(500, 600)
    }

    fn lesson_length(&self) -> Length {
        Length::Between(8, 26)
    }

    /// Bounds are excluded, as in the original procedure.
    fn lengths(&self, length: Length) -> Result<Lengths, String> {
        let lengths = match length {
            Length::Exactly(length) => length..=length,
            Length::Between(min, max) => min + 1..=max.saturating_sub(1),
        };
        if lengths.is_empty() {
            return Err(format!("no length lies strictly between the bounds of `{length}`; `listops` excludes both"));
        }
        if *lengths.start() > 1 && *lengths.end() < 4 {
            return Err(format!("a ListOps expression has 1 token or at least 4, never {length}"));
        }
        Ok(lengths)
    }

    fn is_distinct(&self) -> bool {
        true
    }

    /// Grows expressions until one has a permitted length.
    fn generate(&self, lengths: &Lengths, random: &mut Random, out: &mut Vec<Token>) -> Result<Answers, Unlikely> {
        let start = out.len();
        let (mut work, mut attempts) = (0, 0);
        while work < MAX_WORK {
            let mut growth = Growth { task: self, max_length: *lengths.end(), random, out, start };
            attempts += 1;
            let value = growth.node(1);
            work += (out.len() - start) as u64 + 1;
            match value {
                Some(value) if lengths.contains(&(out.len() - start)) => return Ok(label(value)),
                _ => out.truncate(start),
            }
        }
        Err(Unlikely { attempts })
    }

    fn answers(&self, tokens: &[Token]) -> Result<Answers, Illegal> {
        walk(tokens, |_, _, _| {}).map(label)
    }

    fn explain(&self, tokens: &[Token]) -> Vec<String> {
        let mut lines = vec!["Innermost lists first, arguments in ascending order:".to_owned()];
        let note = |operator, tally: &[usize; 10], value| {
            let arguments: Vec<usize> = (0..10).flat_map(|digit| std::iter::repeat_n(digit, tally[digit])).collect();
            let name = text(ALPHABET, operator).trim_start_matches('[');
            let middle = arguments.len() / 2;
            let how = match (name, arguments.iter().sum::<usize>()) {
                ("SM", sum) if sum > 9 => format!(", the last digit of {sum}"),
                ("MED", _) if arguments.len().is_multiple_of(2) && arguments[middle - 1] != arguments[middle] => {
                    let (lower, upper) = (arguments[middle - 1], arguments[middle]);
                    let rounded = if (lower + upper) % 2 == 1 { ", rounded down" } else { "" };
                    format!(", halfway between {lower} and {upper}{rounded}")
                }
                _ => String::new(),
            };
            lines.push(format!("{name} of {} is {value}{how}", joined(arguments, ", ")));
        };
        let _ = walk(tokens, note);
        if lines.len() == 1 {
            lines[0] = "A single digit is its own value.".to_owned();
        }
        lines
    }

    fn interchange(&self, tokens: &[Token]) -> Option<String> {
        Some(nested(tokens))
    }
}

struct Growth<'a> {
    task: &'a ListOps,
    max_length: usize,
    random: &'a mut Random,
    out: &'a mut Vec<Token>,
    start: usize,
}

impl Growth<'_> {
    /// Appends the node and everything below it; returns its value, or nothing once the expression has become too long.
    /// Expressions only grow, so stopping early does not change which ones are kept.
    fn node(&mut self, depth: usize) -> Option<Label> {
        let &ListOps { max_depth, max_args, operator_probability } = self.task;
        if self.out.len() - self.start >= self.max_length {
            return None;
        }
        if depth >= max_depth || !self.random.happens(operator_probability) {
            let digit = self.random.below(u32::from(DIGITS)) as Token;
            self.out.push(digit);
            return Some(digit);
        }
        let head = self.out.len();
        self.out.push(FIRST_OPERATOR); // the operator is drawn after its arguments, as in the original procedure
        let mut values = Vec::with_capacity(max_args);
        for _ in 0..self.random.between(2, max_args) {
            values.push(self.node(depth + 1)?);
        }
        self.out.push(END);
        let operator = self.random.below(OPERATORS) as Token;
        self.out[head] += operator;
        Some(match operator {
            0 => *values.iter().min()?,
            1 => *values.iter().max()?,
            2 => {
                values.sort_unstable();
                let upper = values[values.len() / 2];
                let lower = values[(values.len() - 1) / 2];
                (lower + upper) / 2
            }
            _ => values.iter().sum::<Label>() % 10,
        })
    }
}

/// An operator whose arguments are being read. The tally counts how often each digit occurred among them.
struct OpenList {
    operator: Token,
    index: usize,
    tally: [usize; 10],
}

impl OpenList {
    fn value(&self) -> Option<Label> {
        let present = |digit: &usize| self.tally[*digit] > 0;
        let count: usize = self.tally.iter().sum();
        // The value at index `rank` in sorted order.
        let ranked = |rank: usize| {
            let mut below = 0;
            (0..10).find(|&digit| {
                below += self.tally[digit];
                below > rank
            })
        };
        let value = match self.operator - FIRST_OPERATOR {
            0 => (0..10).find(present)?,
            1 => (0..10).rev().find(present)?,
            2 => (ranked(count.checked_sub(1)? / 2)? + ranked(count / 2)?) / 2,
            _ => (0..10).map(|digit| digit * self.tally[digit]).sum::<usize>() % 10,
        };
        (count > 0).then_some(value as Label)
    }
}

/// The value of an expression of any depth and any number of arguments. `on_list` is called when an operator ends, with
/// its token, the tally of its arguments and its value.
fn walk(tokens: &[Token], mut on_list: impl FnMut(Token, &[usize; 10], Label)) -> Result<Label, Illegal> {
    let mut open: Vec<OpenList> = Vec::new();
    for (index, &token) in tokens.iter().enumerate() {
        let value = if token < DIGITS {
            token
        } else if token != END {
            open.push(OpenList { operator: token, index, tally: [0; 10] });
            continue;
        } else {
            let Some(list) = open.pop() else {
                return Illegal::at(index, "`]` without an operator");
            };
            let Some(value) = list.value() else {
                return Illegal::at(index, format!("{} has no arguments", text(ALPHABET, list.operator)));
            };
            on_list(list.operator, &list.tally, value);
            value
        };
        match open.last_mut() {
            Some(list) => list.tally[usize::from(value)] += 1,
            None if index + 1 == tokens.len() => return Ok(value),
            None => return Illegal::at(index + 1, "the expression was complete before this token"),
        }
    }
    match open.last() {
        Some(list) => {
            let (operator, at) = (text(ALPHABET, list.operator), list.index + 1);
            Illegal::at(tokens.len(), format!("ends too early: {operator} at token {at} lacks its `]`"))
        }
        None => Illegal::at(0, "the sequence is empty"),
    }
}

/// A ListOps expression as left-nested pairs: `[MAX 3 4 ]` becomes `( ( ( [MAX 3 ) 4 ) ] )`.
///
/// The innermost pair is the operator and its first argument. Each further argument, and finally `]`, forms a pair with
/// what is before it. So an operator opens one bracket for each of its arguments and one more.
fn nested(tokens: &[Token]) -> String {
    let mut brackets = vec![0; tokens.len()]; // how many brackets an operator at this index opens
    let mut open = Vec::new();
    for (index, &token) in tokens.iter().enumerate() {
        if token >= DIGITS && token != END {
            open.push(index);
            continue;
        }
        if token == END
            && let Some(list) = open.pop()
        {
            brackets[list] += 1;
        }
        if let Some(&list) = open.last() {
            brackets[list] += 1; // a value is complete: an argument of the list around it
        }
    }
    let mut depth = 0;
    let mut words = Vec::new();
    for (&token, &brackets) in tokens.iter().zip(&brackets) {
        let text = text(ALPHABET, token);
        if token >= DIGITS && token != END {
            words.extend(std::iter::repeat_n("(", brackets));
            words.push(text);
            depth += 1;
            continue;
        }
        words.push(text);
        if token == END {
            words.push(")");
            depth -= 1;
        }
        if depth > 0 {
            words.push(")");
        }
    }
    words.join(" ")
}
