//! From a task, settings and a seed to examples, and to splits that share none.
//!
//! # How splits are kept apart
//!
//! Every sequence belongs to one split, whether it is ever drawn or not. A hash of its tokens and the seed decides which: 5
//! of 8 sequences belong to train, 2 to held-out, 1 to test. Each split draws from its own random stream and discards
//! sequences that belong to another split. So splits are disjoint by construction, even where a task has few sequences and
//! draws repeat; a split does not depend on the size of the others; and the first examples of a split stay the same when
//! more are asked for. Within a split, sequences follow the distribution of the task. If a task has so few sequences that
//! none belongs to a split, generating fails instead of searching forever.
//!
//! Online training draws new examples for every step. They are sequences that belong to train, so held-out and test share
//! none with them, however many steps there are. Every step has a stream of its own, so what it draws does not depend on
//! the steps before it. Steps remember nothing: where sequences are few they repeat, also in tasks whose splits have no
//! sequence twice.

use std::collections::HashSet;

use semfocus_core::question::{Answers, At, Target, is_distribution};
use semfocus_core::{DataFacts, DataSettings, Key, SplitFacts, Stream};

use crate::floor::Mean;
use crate::random::Random;
use crate::settings::SettingsError;
use crate::split::{Split, SplitName, hash};
use crate::task::{BuiltTask, Evaluator, Lengths, Token, single_label};

/// A sequence and what it asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// The sequence as drawn, not padded to the length of a data set.
    pub tokens: Vec<Token>,
    /// The answers on which generator and evaluator agree. If the task [draws them](Evaluator), in train what was drawn, and elsewhere the
    /// best predictions, where they are known.
    pub answers: Answers,
}

/// Why examples could not be generated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum GenerateError {
    #[error(transparent)]
    DataSettings(#[from] SettingsError),
    #[error(
        "`{task}` found no expression of length {length} in {attempts} attempts; allow a wider range of lengths or \
         change the parameters of the procedure"
    )]
    Unlikely { task: String, length: String, attempts: u64 },
    #[error("the task `{task}` is wrongly defined: {problem}; the sequence is `{sequence}`")]
    WrongTask { task: String, sequence: String, problem: String },
    #[error(
        "`{task}` has too few different sequences of length {length}: none of {attempts} draws was {wanted}; take \
         longer sequences or fewer examples"
    )]
    Exhausted { task: String, length: String, attempts: u64, wanted: String },
    #[error("`{name}` is a file with its own examples: none can be drawn for a step")]
    NotGenerated { name: String },
}

/// The streams that follow those of the three splits: examples of no split, and those of online training.
const FREE_STREAM: u64 = 3;
const ONLINE_STREAM: u64 = 4;

/// A split counts as exhausted after this many discarded draws in a row.
const MAX_REJECTIONS: u64 = 20_000;

/// An endless stream of examples of a task. Keeps no memory of earlier ones unless the task allows none twice.
#[derive(Debug)]
pub struct Examples<'a> {
    task: &'a BuiltTask,
    lengths: Lengths,
    asked_length: String,
    padded_length: usize,
    seed: u64,
    split: Option<SplitName>,
    random: Random,
    /// Hashes of the sequences so far, if they must be distinct. A collision only costs a draw.
    seen: Option<HashSet<u64>>,
}

impl<'a> Examples<'a> {
    /// The examples of a split. Without one, all sequences of the task may occur, drawn from a stream of their own.
    pub fn new(
        task: &'a BuiltTask,
        settings: &DataSettings,
        trial_seed: u64,
        split: Option<SplitName>,
    ) -> Result<Self, SettingsError> {
        let (lengths, seed) = (task.check(settings)?, settings.seed_for(trial_seed));
        let (stream, length) = (split.map_or(FREE_STREAM, |split| split as u64), task.length_for(settings));
        Ok(Examples {
            task,
            lengths,
            asked_length: length.to_string(),
            padded_length: length.max(),
            seed,
            split,
            random: Random::new(Key::of_stream(seed, Stream::Data).named(task.name()).child(stream)),
            seen: task.task.is_distinct().then(HashSet::new),
        })
    }

    /// The examples of a step of online training: sequences that belong to train, from a stream that depends on the seed
    /// and the number of the step alone.
    pub fn for_step(
        task: &'a BuiltTask,
        settings: &DataSettings,
        trial_seed: u64,
        step: u64,
    ) -> Result<Self, SettingsError> {
        let examples = Examples::new(task, settings, trial_seed, Some(SplitName::Train))?;
        let key = Key::of_stream(examples.seed, Stream::Data).named(task.name()).child(ONLINE_STREAM).child(step);
        Ok(Examples { random: Random::new(key), seen: None, ..examples })
    }

    /// The next `count` examples, padded to one length.
    pub fn take_split(&mut self, count: usize) -> Result<Split, GenerateError> {
        let classes = self.task.classes.len();
        let (mut split, mut floor) = (Split::new(self.padded_length, classes), Mean::default());
        for _ in 0..count {
            let (example, evaluated) = self.draw_evaluated()?;
            split.push(&example.tokens, &example.answers, self.task.pad());
            floor.add(&example.answers, &evaluated, classes);
        }
        split.floor = floor.value().filter(|_| self.task.task.evaluator() != Evaluator::Estimate);
        Ok(split)
    }

    /// The next example.
    pub fn draw(&mut self) -> Result<Example, GenerateError> {
        self.draw_evaluated().map(|(example, _)| example)
    }

    /// The next example, and what the evaluator says about it.
    fn draw_evaluated(&mut self) -> Result<(Example, Answers), GenerateError> {
        let task = self.task;
        let mut tokens = Vec::with_capacity(*self.lengths.end());
        for _ in 0..MAX_REJECTIONS {
            tokens.clear();
            let constructed = task.task.generate(&self.lengths, &mut self.random, &mut tokens);
            let constructed = constructed.map_err(|unlikely| GenerateError::Unlikely {
                task: task.spec.to_string(),
                length: self.asked_length.clone(),
                attempts: unlikely.attempts,
            })?;
            let sequence = task.without_padding(&tokens);
            if self.split.is_some_and(|split| split != SplitName::for_sequence(self.seed, sequence)) {
                continue;
            }
            if self.seen.as_mut().is_some_and(|seen| !seen.insert(hash(sequence))) {
                continue;
            }
            return match self.check(&tokens, &constructed) {
                Ok(evaluated) => {
                    let is_best = task.task.evaluator() == Evaluator::BestPrediction;
                    let asks_best = is_best && self.split != Some(SplitName::Train);
                    let answers = if asks_best { evaluated.clone() } else { constructed };
                    Ok((Example { tokens, answers }, evaluated))
                }
                Err(problem) => {
                    let sequence = task.written(&tokens);
                    Err(GenerateError::WrongTask { task: task.spec.to_string(), sequence, problem })
                }
            };
        }
        let wanted = match (self.split, self.seen.is_some()) {
            (None, _) => "new".to_owned(),
            (Some(split), false) => format!("in the {split} split"),
            (Some(split), true) => format!("new and in the {split} split"),
        };
        Err(GenerateError::Exhausted {
            task: task.spec.to_string(),
            length: self.asked_length.clone(),
            attempts: MAX_REJECTIONS,
            wanted,
        })
    }

    /// Holds the generator to the evaluator, and returns what the evaluator says. This never fails for the tasks of this crate, but it may
    /// for others. Answers that were drawn need only be asked for at the same places, with the same weights.
    fn check(&self, tokens: &[Token], constructed: &Answers) -> Result<Answers, String> {
        let answers = self.task.answers(tokens).map_err(|illegal| format!("its evaluator rejects {illegal}"))?;
        let places =
            |answers: &Answers| answers.questions.iter().map(|asked| (asked.at, asked.weight)).collect::<Vec<_>>();
        let agree = match self.task.task.evaluator() {
            Evaluator::Exact => answers == *constructed,
            Evaluator::BestPrediction | Evaluator::Estimate => places(&answers) == places(constructed),
        };
        if !agree {
            return Err(match (single_label(constructed), single_label(&answers)) {
                (Some(one), Some(other)) => {
                    format!("its generator says the label is {one}, its evaluator says {other}")
                }
                _ => format!("its generator asks {constructed:?}, its evaluator {answers:?}"),
            });
        }
        self.check_answers(tokens, constructed)?;
        self.check_answers(tokens, &answers)?;
        let (min, max) = (self.lengths.start(), self.lengths.end());
        if !self.lengths.contains(&tokens.len()) {
            return Err(format!("{min} to {max} tokens were asked for, {} generated", tokens.len()));
        }
        Ok(answers)
    }

    /// Whether questions are asked at tokens that exist, for classes or distributions that exist.
    fn check_answers(&self, tokens: &[Token], answers: &Answers) -> Result<(), String> {
        let classes = self.task.classes.len();
        let mut rows = answers.distributions.chunks(classes);
        if let Some(wrong) = rows.find(|row| row.len() != classes || !is_distribution(row)) {
            return Err(format!("{wrong:?} is not a distribution over its {classes} classes"));
        }
        for question in &answers.questions {
            match question.target {
                Target::Class(class) if usize::from(class) >= classes => {
                    return Err(format!("it has no class for the label {class}"));
                }
                Target::Soft(row) if row as usize >= answers.distributions.len() / classes => {
                    return Err(format!("it has no distribution {row}"));
                }
                _ => {}
            }
            if let At::Token(position) = question.at
                && position as usize >= tokens.len()
            {
                return Err(format!("it asks at token {}, after the end", position + 1));
            }
        }
        Ok(())
    }
}

impl Iterator for Examples<'_> {
    type Item = Result<Example, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.draw())
    }
}

/// Three disjoint splits, ready for training.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// Name of the task or of the data file.
    pub name: String,
    /// Number of token ids, including the pad token. Global tokens take the ids that follow.
    pub vocabulary: usize,
    /// Number of classes.
    pub classes: usize,
    /// How each class is written.
    pub class_names: Vec<String>,
    /// Whether a task generated the examples. Otherwise they come from data files, where a rare class can be a typing error.
    pub is_generated: bool,
    /// Whether the answers of training examples were [drawn](Evaluator), so that a sequence can have different ones.
    pub answers_are_drawn: bool,
    /// Id of the pad token.
    pub pad: Token,
    /// The length to which every sequence is padded.
    pub length: usize,
    /// Examples to train on.
    pub train: Split,
    /// Examples to measure generalisation with.
    pub held_out: Split,
    /// Examples for a final measurement; empty unless asked for.
    pub test: Split,
}

impl Dataset {
    /// Generates the splits of a task: a pure function of its arguments. `settings.seed` takes precedence over the trial's.
    pub fn generate(task: &BuiltTask, settings: &DataSettings, trial_seed: u64) -> Result<Self, GenerateError> {
        let make = |name: SplitName| -> Result<Split, GenerateError> {
            Examples::new(task, settings, trial_seed, Some(name))?.take_split(name.size_in(&settings.sizes))
        };
        Ok(Dataset {
            name: task.spec.to_string(),
            vocabulary: task.vocabulary(),
            classes: task.classes.len(),
            class_names: task.classes.iter().map(|class| class.text.clone().into_owned()).collect(),
            is_generated: true,
            answers_are_drawn: task.task.evaluator() != Evaluator::Exact,
            pad: task.pad(),
            length: task.length_for(settings).max(),
            train: make(SplitName::Train)?,
            held_out: make(SplitName::HeldOut)?,
            test: make(SplitName::Test)?,
        })
    }

    /// The [unigram loss](Split::unigram_loss) on the held-out split.
    pub fn held_out_unigram_loss(&self) -> Option<f64> {
        self.held_out.unigram_loss(&self.train, self.classes)
    }

    /// What is known of the splits, by which losses are read.
    pub fn facts(&self) -> DataFacts {
        let of = |split: &Split| SplitFacts {
            floor: split.floor.filter(|loss| loss.is_finite()),
            unigram: split.unigram_loss(&self.train, self.classes),
            characters: split.characters,
        };
        DataFacts { train: of(&self.train), held_out: of(&self.held_out), test: of(&self.test) }
    }

    /// The splits by name.
    pub fn splits(&self) -> [(SplitName, &Split); 3] {
        [(SplitName::Train, &self.train), (SplitName::HeldOut, &self.held_out), (SplitName::Test, &self.test)]
    }
}
