//! Loss and accuracy over a grid of a plane through the weights of a model.
//!
//! Every core takes one cell after another and evaluates it alone, without gradients: nothing is shared but the list of cells,
//! and a cell's numbers do not depend on who computes it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use burn::tensor::TensorData;
use semfocus_lab::training::{Evaluation, Tally, batch_of};
use semfocus_nn::model::TokenRows;
use semfocus_nn::parameters::set_parameters;
use semfocus_nn::train::Batch;
use semfocus_nn::{Encoder, Pass};
use semfocus_tasks::{Label, Split};
use serde::{Deserialize, Serialize};

use super::directions::{Parameter, Plane, weights_of};

/// Sequences that go through a model together: as many as leave the activations in the caches.
const BATCH: usize = 50;

/// Seed of the passes: `randomk` draws its keys with it.
const PASS_SEED: u64 = 0;

/// A square grid from -range to range in both directions, row by row from the least y on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// Cells in a row.
    pub side: usize,
    /// How far it reaches.
    pub range: f64,
}

impl Grid {
    /// Number of its cells.
    pub fn cells(&self) -> usize {
        self.side * self.side
    }

    /// Distance of neighbouring cells.
    pub fn step(&self) -> f64 {
        2.0 * self.range / (self.side - 1) as f64
    }

    /// Coordinates of a cell.
    pub fn place(&self, cell: usize) -> (f64, f64) {
        (self.coordinate(cell % self.side), self.coordinate(cell / self.side))
    }

    /// The middle of an odd grid is 0 exactly.
    fn coordinate(&self, index: usize) -> f64 {
        let last = (self.side - 1) as f64;
        self.range * (2.0 * index as f64 - last) / last
    }
}

/// A cell that was evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Its number in the grid.
    pub number: usize,
    /// What was found; the loss may be infinite or undefined.
    pub value: Evaluation,
}

/// Evaluates a model at other weights, over the first examples of a split.
pub struct Evaluator {
    model: Encoder,
    parameters: Vec<Parameter>,
    /// All examples at once, for models that take them so.
    rows: TokenRows,
    labels: Vec<Label>,
    /// The same in batches, for the others.
    batches: Vec<(Batch, Vec<Label>)>,
}

impl Evaluator {
    /// Over the first `samples` examples, or all if there are fewer.
    pub fn new(model: &Encoder, split: &Split, samples: usize) -> Self {
        let samples = samples.min(split.len());
        let batches = (0..samples).step_by(BATCH).map(|first| {
            let examples = first..samples.min(first + BATCH);
            (batch_of(split, examples.clone()), split.labels[examples].to_vec())
        });
        Evaluator {
            rows: model.token_rows(batch_of(split, 0..samples).tokens),
            labels: split.labels[..samples].to_vec(),
            model: model.clone(),
            parameters: weights_of(model).0,
            batches: batches.collect(),
        }
    }

    /// Loss and accuracy at some weights, given in the order of the model's parameters.
    pub fn at(&self, weights: &[f32]) -> Evaluation {
        let mut rest = weights;
        let parameters = self.parameters.iter().map(|Parameter { name, shape }| {
            let (values, after) = rest.split_at(shape.iter().product());
            rest = after;
            (name.clone(), TensorData::new(values.to_vec(), shape.clone()))
        });
        let model = set_parameters(self.model.clone(), parameters.collect::<Vec<_>>());
        let model = model.expect("the parameters are those of the model");
        let mut tally = Tally::default();
        if let Some(logits) = model.logits(&self.rows, Pass::evaluation(PASS_SEED, 0)) {
            tally.add(&logits, &self.labels);
            return tally.result();
        }
        for (number, (batch, labels)) in (0..).zip(&self.batches) {
            let logits = model.forward(batch.tokens.clone(), Pass::evaluation(PASS_SEED, number)).into_data();
            tally.add(logits.as_slice::<f32>().expect("models compute in single precision"), labels);
        }
        tally.result()
    }
}

/// Evaluates cells on `threads` cores, hands each to `done` as it comes, and stops soon if that says so or `stop` is set.
/// `done` runs on the calling thread.
pub fn evaluate<E>(
    evaluator: &Evaluator,
    plane: &Plane,
    grid: &Grid,
    cells: &[usize],
    threads: usize,
    stop: &AtomicBool,
    mut done: impl FnMut(Cell) -> Result<(), E>,
) -> Result<(), E> {
    let next = AtomicUsize::new(0);
    let given_up = AtomicBool::new(false);
    let is_over = || stop.load(Ordering::Relaxed) || given_up.load(Ordering::Relaxed);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, cells.len().max(1)) {
            let sender = sender.clone();
            let (next, is_over) = (&next, &is_over);
            scope.spawn(move || {
                // The arithmetic of a cell stays on one thread.
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
                pool.expect("the system has threads to give").install(|| {
                    while !is_over() {
                        let Some(&number) = cells.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                        let (x, y) = grid.place(number);
                        let value = evaluator.at(&plane.at(x, y));
                        if sender.send(Cell { number, value }).is_err() {
                            break;
                        }
                    }
                });
            });
        }
        drop(sender);
        let result = receiver.iter().try_for_each(&mut done);
        given_up.store(true, Ordering::Relaxed);
        result
    })
}
