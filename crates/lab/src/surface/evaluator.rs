//! Loss and accuracy over a grid of a plane through the weights of a model.
//!
//! Each thread takes one cell after another and evaluates it alone, without gradients. Threads share nothing but the list of cells,
//! and the values of a cell do not depend on the thread that computes it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use burn::tensor::DType;
use semfocus_core::{Evaluation, Questions};
use semfocus_nn::{Model, Pass, TokenRows};
use semfocus_store::Grid;
use semfocus_tasks::Split;

use super::PASS_SEED;
use super::directions::{Parameter, Plane, named, weights_of};
use crate::Device;
use crate::threads::on_one_thread;
use crate::training::{Tally, batch};

/// Evaluates a model at other weights, over the first examples of a split.
pub struct Evaluator {
    model: Box<dyn Model>,
    parameters: Vec<Parameter>,
    tokens: TokenRows,
    questions: Questions,
    attention_dropout: bool,
}

impl Evaluator {
    /// Over the first `samples` examples, or all if there are fewer. With `attention_dropout`, dropout of the attention weights
    /// is on, as in the evaluations of the published code.
    pub fn new(model: &dyn Model, split: &Split, samples: usize, attention_dropout: bool, device: &Device) -> Self {
        let (samples, device) = (samples.min(split.len()), device.plain());
        let mut model = model.boxed();
        if attention_dropout {
            let mut config = model.config().clone();
            config.quirks.dropout_in_evaluation = true;
            // It has other weights, but all weights are set for every cell.
            model = model.rebuilt(config, DType::F32, &device).expect("a model with such settings is there");
        }
        let batch = batch(split, 0..samples, &device);
        Evaluator {
            tokens: model.token_rows(batch.tokens),
            questions: batch.questions,
            parameters: weights_of(model.as_ref()).0,
            model,
            attention_dropout,
        }
    }

    /// Loss and accuracy at some weights, in the order of the model's parameters. All cells share their random decisions, unless
    /// dropout is on: then every cell has its own, as in the published code.
    pub fn at(&self, weights: &[f32], cell: usize) -> Evaluation {
        let parameters = named(&self.parameters, weights);
        let model = self.model.with_parameters(parameters).expect("the parameters are those of the model");
        let mut tally = Tally::default();
        let pass = if self.attention_dropout { cell as u64 } else { 0 };
        let answers = model.answers(&self.tokens, &self.questions, Pass::evaluation(PASS_SEED, pass));
        tally.add(&answers, &self.questions);
        tally.result()
    }
}

/// Evaluates cells on `threads` threads and passes each to `done`, on the calling thread, in the order of completion. Stops soon
/// after `done` fails or `stop` is set.
pub fn evaluate<E>(
    evaluator: &Evaluator,
    plane: &Plane,
    grid: &Grid,
    cells: Range<usize>,
    threads: usize,
    stop: &AtomicBool,
    mut done: impl FnMut(usize, Evaluation) -> Result<(), E>,
) -> Result<(), E> {
    let (next, end) = (AtomicUsize::new(cells.start), cells.end);
    let given_up = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed) || given_up.load(Ordering::Relaxed);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let worker = || {
            let sender = sender.clone();
            let (next, is_over) = (&next, &is_over);
            let work = move || {
                while !is_over() {
                    let cell = next.fetch_add(1, Ordering::Relaxed);
                    if cell >= end {
                        break;
                    }
                    let (x, y) = grid.place(cell);
                    if sender.send((cell, evaluator.at(&plane.at(x, y), cell))).is_err() {
                        break;
                    }
                }
            };
            // A cell is computed on a single thread.
            move || on_one_thread(work)
        };
        let workers = (0..threads.clamp(1, cells.len().max(1)))
            .map_while(|_| std::thread::Builder::new().spawn_scoped(scope, worker()).ok());
        // If the system gives no thread at all, this one does the work.
        if workers.count() == 0 {
            worker()();
        }
        drop(sender);
        let result = receiver.iter().try_for_each(|(cell, value)| done(cell, value));
        given_up.store(true, Ordering::Relaxed);
        result
    })
}
