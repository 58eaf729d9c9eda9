//! `semfocus data label`.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_lab::Lab;
use semfocus_tasks::{Format, Writer, answer_line, single_label};
use serde::Serialize;

use super::{Answered, task_only};
use crate::input::lines;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Name of a task, see `semfocus list tasks`
    task: String,
    /// File with one sequence per line, token ids separated by blanks; `-` is standard input
    ///
    /// Pad tokens at the end and everything after a tab are ignored.
    #[arg(default_value = "-")]
    file: String,
    /// Print one JSON object per line instead: line, label and meaning, or questions
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Labelled<'a> {
    line: usize,
    #[serde(flatten)]
    answers: Answered,
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<&'a str>,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let task = task_only(lab, &args.task, "which has labels but no rule to compute others")?;
    let writer = Writer::new(&task, Format::Tokens, 0)?;
    let mut lines = lines(&args.file)?;
    let name = lines.file().to_owned();
    loop {
        let number = lines.number() + 1;
        let Some(line) = lines.read()? else { return Ok(Exit::Done) };
        let answers = answer_line(&task, line).map_err(|error| error.in_line(&name, number))?;
        if args.json {
            let meaning = single_label(&answers).map(|label| &*task.classes[usize::from(label)].meaning);
            let answers = Answered::new(&answers, task.classes.len());
            writeln!(out, "{}", serde_json::to_string(&Labelled { line: number, answers, meaning })?)?;
        } else {
            writeln!(out, "{}", writer.answers(&answers))?;
        }
    }
}
