//! `semfocus list`: generated from the registries.

use std::io::Write;

use clap::{Args as ClapArgs, Subcommand};
use semfocus_nn::{MechanismInfo, MechanismSpec, Registry};
use serde::Serialize;

use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The attention mechanisms
    ///
    /// They are written `name`, `name:size` or `name:size+gN`, for instance `full`, `topk:5` or `banded:5+g1`. `+gN`
    /// appends N learned global tokens to every sequence: they attend to all tokens, and all tokens attend to them.
    Mechanisms {
        /// Print JSON, with sources and limits
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    match args.what {
        What::Mechanisms { json } => {
            let registry = Registry::standard();
            let entries: Vec<Entry> = registry.iter().map(Entry::new).collect();
            if json { print_json(&entries, out) } else { print_table(&entries, out) }
        }
    }
}

/// A mechanism as it is listed.
#[derive(Serialize)]
struct Entry<'a> {
    form: String,
    example: String,
    #[serde(flatten)]
    info: &'a MechanismInfo,
    fast_form: bool,
}

impl<'a> Entry<'a> {
    fn new(info: &'a MechanismInfo) -> Self {
        Entry {
            form: info.form(),
            example: MechanismSpec::example(info).to_string(),
            info,
            fast_form: info.has_fast_form(),
        }
    }
}

fn print_json(entries: &[Entry<'_>], out: &mut dyn Write) -> Result<(), Error> {
    serde_json::to_writer_pretty(&mut *out, entries)?;
    Ok(writeln!(out)?)
}

/// Lines are at most this wide.
const WIDTH: usize = 80;

fn print_table(entries: &[Entry<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let head = ["mechanism", "family", "fast form", "keys that a query keeps"].map(str::to_owned);
    let rows = entries.iter().map(|entry| {
        let fast = if entry.fast_form { "yes" } else { "no" };
        [entry.form.clone(), entry.info.family.to_string(), fast.to_owned(), entry.info.summary.to_owned()]
    });
    let rows: Vec<[String; 4]> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let indent = widths.iter().map(|width| width + 2).sum::<usize>();
    for row in &rows {
        let mut lines = wrap(&row[3], WIDTH.saturating_sub(indent).max(20)).into_iter();
        let [a, b, c] = widths;
        let first = lines.next().unwrap_or_default();
        writeln!(out, "{:a$}  {:b$}  {:c$}  {first}", row[0], row[1], row[2])?;
        for line in lines {
            writeln!(out, "{:indent$}{line}", "")?;
        }
    }
    Ok(())
}

/// Breaks between words, so that no line is longer than `width` unless a word is.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_words() {
        assert_eq!(wrap("a bc def ghij", 5), ["a bc", "def", "ghij"]);
        assert_eq!(wrap("unbreakable b", 4), ["unbreakable", "b"]);
        assert!(wrap("", 4).is_empty());
    }
}
