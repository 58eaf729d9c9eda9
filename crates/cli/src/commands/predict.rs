//! `semfocus predict`: what a trained model answers to sequences of the user's.

mod text;

use std::io::Write;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use burn::tensor::{Int, Tensor, TensorData};
use clap::Args as ClapArgs;
use semfocus_core::{At, ConfigError, Question, Questions};
use semfocus_lab::{Lab, TrainedModel, Trial};
use semfocus_nn::Pass;
use semfocus_store::{CheckpointName, TrialReader};
use semfocus_tasks::{Lines, Source, Token};
use serde::Serialize;

use crate::input::lines;
use crate::output::emit;
use crate::talk::say;
use crate::text::counted;
use crate::{DeviceArg, Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the trial; the first digits of its name are enough: runs/even-pairs-quick/a7b4
    trial: PathBuf,
    /// File with one sequence per line, its tokens separated by blanks [default: standard input]
    ///
    /// Tokens are written as in the data file that the model was trained with, as the symbols of its task (`semfocus list
    /// tasks`), or as token ids. Sequences are padded as in training. What follows a tab is the right answer, if the task
    /// cannot tell. For a model of the task `text`, every line is a text, and the pieces that may follow it are printed.
    #[arg(default_value = "-", hide_default_value = true)]
    file: String,
    /// Answer at every token instead of once for each sequence
    #[arg(long)]
    per_token: bool,
    /// For the task `text`: the number of most probable pieces to print
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
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
    /// What it stands for.
    meaning: String,
    /// The right class, where it is known; the most probable one where answers are drawn.
    label: Option<usize>,
    right: Option<bool>,
    logits: Vec<f32>,
}

/// A line: the tokens, padded, and the right answer as it is written there.
struct Sequence {
    tokens: Vec<Token>,
    given: Option<String>,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let folder = TrialReader::find(&args.trial)?;
    let name = if args.best { CheckpointName::Best } else { CheckpointName::Last };
    let trained = TrainedModel::read(lab, &args.device.device, &folder, name)?;
    if let Source::Text(data) = trained.trial.source.as_ref() {
        return text::predict(args, &trained, data, lines(&args.file)?, out);
    }
    let TrainedModel { trial, model, .. } = &trained;
    let (device, language) = (args.device.device.plain(), Language::new(trial));
    let mut predictions = Vec::new();
    for (number, Sequence { tokens, given }) in (1..).zip(language.read(lines(&args.file)?)?) {
        let too_long = |error: ConfigError| format!("sequence {number}: {error}");
        model.config().check_length(tokens.len()).map_err(too_long)?;
        let places = match args.per_token {
            true => (0..tokens.len() as u32).map(At::Token).collect(),
            false => vec![At::Mean],
        };
        // What the right answer is does not matter for the logits.
        let mut questions = Questions::default();
        questions.push(places.iter().map(|at| Question { at: *at, ..Question::classify(0) }));
        let ids: Vec<i64> = tokens.iter().map(|id| i64::from(*id)).collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, tokens.len()]), &device);
        let pass = Pass::evaluation(trial.settings.seed, number);
        let logits = model.logits(&model.token_rows(ids), &questions, pass);
        for (at, logits) in places.iter().zip(logits.chunks_exact(trial.settings.model.classes)) {
            let class = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0);
            let label = language.label(&tokens, *at, given.as_deref());
            predictions.push(Prediction {
                token: if let At::Token(position) = at { Some(*position) } else { None },
                class,
                meaning: language.classes[class].clone(),
                label,
                right: label.map(|label| label == class),
                logits: logits.to_vec(),
            });
        }
    }
    emit(out, args.json, &predictions, |out| {
        for Prediction { class, meaning, label, logits, .. } in &predictions {
            let verdict = match label {
                Some(label) if label == class => "right".to_owned(),
                Some(label) => format!("wrong, it is {label}: {}", language.classes[*label]),
                None => String::new(),
            };
            let logits: Vec<String> = logits.iter().map(f32::to_string).collect();
            writeln!(out, "{class}\t{meaning}\t{verdict}\t{}", logits.join(" "))?;
        }
        Ok(())
    })
}

/// How the data of a trial is written, and what its model was trained on.
struct Language<'a> {
    source: &'a Source,
    /// How each token is written; the id after these is that of padding.
    symbols: Vec<&'a str>,
    /// What each class stands for.
    classes: Vec<String>,
    /// The lengths of training sequences without padding.
    lengths: RangeInclusive<usize>,
}

impl<'a> Language<'a> {
    fn new(trial: &'a Trial) -> Self {
        let source: &Source = &trial.source;
        let (symbols, classes, lengths) = match source {
            Source::Task(task) => (
                task.alphabet.iter().map(|symbol| &*symbol.text).collect(),
                task.classes.iter().map(|class| class.meaning.to_string()).collect(),
                task.check(&trial.settings.data).unwrap_or(1..=source.length(&trial.settings.data)),
            ),
            Source::Own(own) => {
                let shortest = own.iter().map(|(tokens, _)| tokens.len()).min().unwrap_or(1);
                (own.alphabet.iter().map(String::as_str).collect(), own.classes.clone(), shortest..=own.length())
            }
            Source::Text(text) => {
                (text.names().iter().map(String::as_str).collect(), text.names().to_vec(), 1..=text.length())
            }
        };
        Language { source, symbols, classes, lengths }
    }

    /// The sequences of all lines, padded. Warns about lengths that the model was not trained on.
    fn read<R: std::io::BufRead>(&self, mut lines: Lines<R>) -> Result<Vec<Sequence>, Error> {
        let mut written = Vec::new();
        while let Some(line) = lines.read()? {
            let (tokens, given) = line.split_once('\t').map_or((line, None), |(tokens, label)| (tokens, Some(label)));
            let words: Vec<String> = tokens.split_whitespace().map(str::to_owned).collect();
            written.push((words, given.map(|label| label.trim().to_owned())));
        }
        let all = || written.iter().flat_map(|(words, _)| words);
        let can_be_ids = all().all(|word| self.id(word).is_some());
        // The ids of words in a data file are not known to its owner, those of a task are what `data generate` writes.
        let prefers_ids = matches!(self.source, Source::Task(_));
        let reads_ids = can_be_ids && (prefers_ids || !all().all(|word| self.symbol(word).is_some()));
        let (mut sequences, mut unusual) = (Vec::new(), Vec::new());
        for (number, (words, given)) in (1..).zip(written) {
            let place = |wrong: String| format!("{}, line {number}: {wrong}", lines.file());
            let token = |word: &String| {
                let id = if reads_ids { self.id(word) } else { self.symbol(word) };
                id.ok_or_else(|| place(self.unknown(word)))
            };
            let mut tokens = words.iter().map(token).collect::<Result<Vec<Token>, String>>()?;
            if tokens.is_empty() {
                return Err(place("the sequence is empty".to_owned()).into());
            }
            let length = tokens.iter().rposition(|id| *id != self.source.pad()).map_or(0, |last| last + 1);
            if !self.lengths.contains(&length) {
                unusual.push((number, length));
            }
            // Sequences of one length only are never padded in training.
            if self.lengths.start() < self.lengths.end() && tokens.len() < *self.lengths.end() {
                tokens.resize(*self.lengths.end(), self.source.pad());
            }
            sequences.push(Sequence { tokens, given });
        }
        if let [(number, length), more @ ..] = &unusual[..] {
            let (low, high) = (self.lengths.start(), self.lengths.end());
            let trained = if low == high { high.to_string() } else { format!("{low} to {high}") };
            let more =
                if more.is_empty() { String::new() } else { format!(", like {} more", counted(more.len(), "line")) };
            say!(
                "note: line {number} has {}{more}; the model was trained on sequences of {trained}, so its answer may be a guess",
                counted(*length, "token")
            );
        }
        Ok(sequences)
    }

    fn symbol(&self, word: &str) -> Option<Token> {
        self.symbols.iter().position(|symbol| *symbol == word).map(|id| id as Token)
    }

    fn id(&self, word: &str) -> Option<Token> {
        let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|id| is_number && *id <= self.source.pad())
    }

    /// Why a word cannot be read.
    fn unknown(&self, word: &str) -> String {
        const SHOWN: usize = 12;
        let more = if self.symbols.len() > SHOWN { " …" } else { "" };
        let known = self.symbols.iter().take(SHOWN).copied().collect::<Vec<_>>().join(" ");
        let ids = format!("the ids are 0 to {}", self.source.pad());
        match self.id(word) {
            Some(_) => {
                format!("`{word}` is a token id, but other words are not; the tokens are {known}{more}, and {ids}")
            }
            None => format!("`{word}` is not a token of the model's data; the tokens are {known}{more}, and {ids}"),
        }
    }

    /// The right class, if the task or the line tells.
    fn label(&self, tokens: &[Token], at: At, given: Option<&str>) -> Option<usize> {
        match self.source {
            Source::Task(task) => {
                let answers = task.answers(tokens).ok()?;
                let asked = answers.questions.iter().find(|question| question.at == at)?;
                answers.correct_class(asked.target, task.classes.len()).map(usize::from)
            }
            Source::Own(_) if at == At::Mean => self.classes.iter().position(|class| Some(class.as_str()) == given),
            Source::Own(_) | Source::Text(_) => None,
        }
    }
}
