//! `semfocus data generate`.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_lab::Lab;
use semfocus_tasks::{Examples, Format, SplitName, Writer};
use serde::Serialize;

use super::{Answered, FORMATS, Shape, task_only};
use crate::arguments::one_of;
use crate::output::OutputArgs;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Name of a task, see `semfocus list tasks`
    task: String,
    /// Number of examples
    #[arg(short, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    n: u64,
    /// Seed of the data
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    shape: Shape,
    /// Write the examples that trials with this seed have in a split: train, held-out or test [default: any sequence]
    #[arg(long)]
    split: Option<SplitName>,
    /// How examples are written
    #[arg(long, value_parser = one_of::<Format>(FORMATS), default_value = "tokens")]
    format: Format,
    /// Write one JSON object per line instead: tokens, text, label or questions
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    answers: Answered,
    text: String,
    tokens: Vec<u16>,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let why = "which already has its examples; `semfocus data convert` writes them in another format";
    let task = task_only(lab, &args.task, why)?;
    let settings = args.shape.settings();
    let length = task.length_for(&settings).max();
    let writer = Writer::new(&task, args.format, length)?;
    let mut examples = Examples::new(&task, &settings, args.seed, args.split)?;
    let write = |out: &mut dyn Write| -> Result<(), Error> {
        if !args.json {
            writer.header(out)?;
        }
        for _ in 0..args.n {
            let mut example = examples.draw()?;
            if args.json {
                let text = task.written(&example.tokens);
                example.tokens.resize(length, task.pad());
                let line =
                    Line { answers: Answered::new(&example.answers, task.classes.len()), text, tokens: example.tokens };
                writeln!(out, "{}", serde_json::to_string(&line)?)?;
            } else {
                writer.example(&example.tokens, &example.answers, out)?;
            }
        }
        Ok(())
    };
    args.output.write(out, write)
}
