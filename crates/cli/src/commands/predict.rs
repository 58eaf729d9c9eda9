//! `semfocus predict`: logits and classes of a trained model, to check it against another implementation.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use burn::tensor::{Int, Tensor, TensorData};
use clap::Args as ClapArgs;
use semfocus_core::{At, Question, Questions};
use semfocus_lab::{Lab, TrainedModel};
use semfocus_nn::Pass;
use semfocus_store::{CheckpointName, TrialReader};
use serde::Serialize;

use crate::output::emit;
use crate::{DeviceArg, Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the trial; the first digits of its name are enough: runs/even-pairs-quick/a7b4
    trial: PathBuf,
    /// File with one sequence per line: token ids separated by blanks [default: standard input]
    ///
    /// Sequences may have any length and are not padded.
    #[arg(default_value = "-", hide_default_value = true)]
    file: PathBuf,
    /// Answer at every token instead of once for each sequence
    #[arg(long)]
    per_token: bool,
    /// Use the model after its best epoch instead of the last
    #[arg(long)]
    best: bool,
    #[command(flatten)]
    device: DeviceArg,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Prediction {
    /// With `--per-token`: which token of its sequence answers, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u32>,
    /// Class with the highest logit; the first one if several are equal.
    class: usize,
    logits: Vec<f32>,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let folder = TrialReader::find(&args.trial)?;
    let name = if args.best { CheckpointName::Best } else { CheckpointName::Last };
    let trained = TrainedModel::read(lab, &args.device.device, &folder, name)?;
    let device = args.device.device.plain();
    let mut predictions = Vec::new();
    let (file, reader) = open(&args.file)?;
    for (number, line) in (1..).zip(reader.lines()) {
        let line = line.map_err(|error| format!("cannot read {file}: {error}"))?;
        let tokens = sequence(&line, trained.trial.settings.model.vocabulary)
            .map_err(|wrong| format!("{file}, line {number}: {wrong}"))?;
        let length = tokens.len();
        let tokens = Tensor::<2, Int>::from_data(TensorData::new(tokens, [1, length]), &device);
        let places = match args.per_token {
            true => (0..length as u32).map(At::Token).collect(),
            false => vec![At::Mean],
        };
        // What the right answer is does not matter for the logits.
        let question = |at: &At| Question { at: *at, ..Question::classify(0) };
        let mut questions = Questions::default();
        questions.push(places.iter().map(question));
        let pass = Pass::evaluation(trained.trial.settings.seed, number);
        let logits = trained.model.logits(&trained.model.token_rows(tokens), &questions, pass);
        for (at, logits) in places.iter().zip(logits.chunks_exact(trained.trial.settings.model.classes)) {
            let class = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0);
            let token = if let At::Token(t) = at { Some(*t) } else { None };
            predictions.push(Prediction { token, class, logits: logits.to_vec() });
        }
    }
    emit(out, args.json, &predictions, |out| {
        for Prediction { class, logits, .. } in &predictions {
            let logits: Vec<String> = logits.iter().map(f32::to_string).collect();
            writeln!(out, "{class}\t{}", logits.join(" "))?;
        }
        Ok(())
    })
}

/// A file or standard input, and what to call it in messages.
fn open(path: &Path) -> Result<(String, Box<dyn BufRead>), Error> {
    if path == Path::new("-") {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    Ok((name, Box::new(BufReader::new(file))))
}

/// The token ids of a line.
fn sequence(line: &str, vocabulary: usize) -> Result<Vec<i64>, String> {
    let token = |text: &str| {
        let id = text.parse::<usize>().ok().filter(|id| *id < vocabulary);
        let wrong = || format!("`{text}` is not a token id; the model has the ids 0 to {}", vocabulary - 1);
        id.map(|id| id as i64).ok_or_else(wrong)
    };
    let tokens = line.split_whitespace().map(token).collect::<Result<Vec<i64>, String>>()?;
    if tokens.is_empty() { Err("the sequence is empty".to_owned()) } else { Ok(tokens) }
}
