//! What follows a text, by a model of the task `text`.

use std::io::{BufRead, Write};

use burn::tensor::{Int, Tensor, TensorData};
use semfocus_core::{At, Question, Questions};
use semfocus_lab::TrainedModel;
use semfocus_nn::Pass;
use semfocus_tasks::text::Form;
use semfocus_tasks::{Lines, TextData, Token};
use serde::Serialize;

use super::Args;
use crate::output::emit;
use crate::talk::say;
use crate::text::counted;
use crate::{Error, Exit};

/// What follows some pieces.
#[derive(Serialize)]
struct Prediction {
    /// Line of the text, from 1.
    line: u64,
    /// With `--per-token`: the piece after which the others may come, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u32>,
    /// The last piece that the model has seen.
    after: String,
    /// The most probable pieces.
    next: Vec<Next>,
}

#[derive(Serialize)]
struct Next {
    piece: String,
    probability: f64,
}

pub(super) fn predict(
    args: &Args,
    trained: &TrainedModel,
    data: &TextData,
    mut lines: Lines<Box<dyn BufRead>>,
    out: &mut dyn Write,
) -> Result<Exit, Error> {
    if args.per_token && data.settings.form == Form::Window {
        return Err("a model of windows answers once for each text; --per-token needs one with `form=causal`".into());
    }
    let (mut predictions, mut short) = (Vec::new(), 0);
    let mut number = 0;
    loop {
        number += 1;
        let Some(line) = lines.read()? else { break };
        let pieces = data.encode(line);
        if pieces.is_empty() {
            return Err(format!("{}, line {number}: the text has no piece", lines.file()).into());
        }
        // The model has seen no more than this at once.
        let seen = &pieces[pieces.len().saturating_sub(data.length())..];
        short += usize::from(data.settings.form == Form::Window && seen.len() < data.length());
        predictions.extend(next(args, trained, data, seen, number));
    }
    if short > 0 {
        let (short, window) = (counted(short, "line"), data.length());
        say!("note: {short} with fewer pieces than a window, which has {window}; the answer may be a guess");
    }
    emit(out, args.json, &predictions, |out| {
        for Prediction { line, after, next, .. } in &predictions {
            writeln!(out, "line {line}, after {after}")?;
            for Next { piece, probability } in next {
                writeln!(out, "  {probability:.4}  {piece}")?;
            }
        }
        Ok(())
    })
}

/// The most probable pieces after these, or after each of them.
fn next(args: &Args, trained: &TrainedModel, data: &TextData, seen: &[Token], line: u64) -> Vec<Prediction> {
    let last = seen.len() as u32 - 1;
    let places: Vec<At> = match data.settings.form {
        Form::Window => vec![At::Mean],
        Form::Causal if args.per_token => (0..=last).map(At::Token).collect(),
        Form::Causal => vec![At::Token(last)],
    };
    let mut questions = Questions::default();
    questions.push(places.iter().map(|at| Question { at: *at, ..Question::classify(0) }));
    let ids: Vec<i64> = seen.iter().map(|id| i64::from(*id)).collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, seen.len()]), &args.device.device.plain());
    let model = &trained.model;
    let logits = model.logits(&model.token_rows(ids), &questions, Pass::evaluation(trained.trial.settings.seed, line));
    let piece = |id: usize| data.names()[id].clone();
    let prediction = |(at, logits): (&At, &[f32])| {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f64> = logits.iter().map(|logit| f64::from(logit - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
        let next = |id: usize| Next { piece: piece(id), probability: weights[id] / total };
        let token = if let At::Token(position) = at { *position } else { last };
        Prediction {
            line,
            token: args.per_token.then_some(token),
            after: piece(usize::from(seen[token as usize])),
            next: order.into_iter().take(usize::from(args.top)).map(next).collect(),
        }
    };
    places.iter().zip(logits.chunks_exact(data.names().len())).map(prediction).collect()
}
