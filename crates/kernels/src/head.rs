//! The head of a model: the logits of the rows that questions ask at, their cross-entropy, and its gradients.
//!
//! | form | classes | sums |
//! |---|---|---|
//! | small | up to [`SMALL_HEAD`] | one question after the other: products added in the order of the width, each rounded; `f64` exponentials |
//! | blocked | more | vectorised products of many rows with a block of classes, `f32` exponentials, log-sum-exp over the blocks |
//!
//! The blocked form never holds the logits of more than a block. Its gradients take two passes. The first goes through a sequence:
//! with the exponentials of a block relative to the highest logit so far it sums both the exponentials and their product with the
//! weights, and rescales the sums when a higher logit comes. That gives the loss and the gradient of the rows, with which the
//! sequence goes backward through the model. The second pass runs once for a batch, over the classes: it computes the logits of
//! all rows again and sums the gradient of the weights of some classes, so there is only one copy of it, and threads share nothing.
//!
//! The probability of the right class is never subtracted from 1 in the blocked form: the others are summed without it. So the
//! gradient keeps its digits when a model is almost certain.

use std::ops::Range;

use rayon::prelude::*;
use semfocus_core::{Question, Questions, Target};

use crate::asked::AskedRows;
use crate::buffer::Buffer;
use crate::linear::{Columns, LinearGradient, LinearView, pack_columns};
use crate::math;
use crate::matmul::{Left, PANEL, Right, Start, multiply};
use crate::rows;
use crate::simd::{LANES, dispatched, padded};

/// The most classes of the small form.
pub const SMALL_HEAD: usize = 64;

/// Classes of a block of the first pass.
const BLOCK: usize = 2 * PANEL;

/// Rows that go through the classes together.
const ROWS: usize = 64;

/// The linear map from a row of the model to the logits of all classes.
#[derive(Clone, Copy, Debug)]
pub struct HeadKernel<'a> {
    /// Values of a row.
    pub width: usize,
    /// `width` → classes.
    pub map: LinearView<'a>,
    /// Added to the variance when the rows are normalised; none if they are read as they are.
    pub norm: Option<f32>,
}

/// What a model answers to a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The cross-entropy, without the weight of the question.
    pub loss: f64,
    /// The class with the highest logit; the first of equal ones.
    pub class: usize,
}

/// The map, packed for products.
pub(crate) struct PackedHead<'a> {
    head: HeadKernel<'a>,
    columns: Columns,
    /// The weights of one class after the other, in padded rows, if the blocked form needs them for gradients.
    by_class: Buffer,
}

/// Rows that questions asked at and what the second pass needs to know about them; and sums of gradients in the small form.
pub(crate) struct HeadSums {
    /// Weighted losses, one for each question.
    losses: Vec<f64>,
    /// The sums of the small form; empty in the blocked form.
    small: LinearGradient,
    /// The rows of the blocked form, padded; empty in the small form.
    rows: Vec<f32>,
    errors: Vec<RowError>,
}

/// The gradient of a row of logits, for the blocked form: `scale · exp(logit − max)`, but `target` for the right class. Of a soft
/// target, `share` times its distribution is subtracted instead.
#[derive(Clone, Copy)]
struct RowError {
    max: f32,
    scale: f32,
    target: f32,
    share: f32,
}

/// A row in the blocked form, after some blocks of classes.
#[derive(Clone, Copy)]
struct RowState {
    /// The highest logit and its class, the first of equal ones.
    max: f32,
    class: usize,
    /// Of the exponentials of all logits relative to `max`, without the right class of a question that has one.
    sum: f64,
    /// The logit of the right class, or the mean of the logits under a soft target.
    target: f64,
}

impl<'a> HeadKernel<'a> {
    fn classes(&self) -> usize {
        self.map.bias.len()
    }

    fn is_small(&self) -> bool {
        self.classes() <= SMALL_HEAD
    }

    /// For answers and logits.
    pub(crate) fn pack(self) -> PackedHead<'a> {
        let classes = self.classes();
        let columns = pack_columns(self.map, (self.width, classes), 0, classes, 1.0);
        PackedHead { head: self, columns, by_class: Buffer::default() }
    }

    /// For gradients.
    pub(crate) fn pack_for_training(self) -> PackedHead<'a> {
        let mut packed = self.pack();
        if !self.is_small() {
            let (stride, classes) = (padded(self.width), self.classes());
            packed.by_class = Buffer::zeros(classes * stride);
            packed.by_class.par_chunks_mut(PANEL * stride).enumerate().for_each(|(panel, rows)| {
                for (k, weights) in self.map.weight.chunks_exact(classes).enumerate() {
                    let weights = &weights[panel * PANEL..classes.min((panel + 1) * PANEL)];
                    rows.chunks_exact_mut(stride).zip(weights).for_each(|(row, weight)| row[k] = *weight);
                }
            });
        }
        packed
    }
}

/// Loss and answer from all logits of a row, summed in `f64`.
pub fn answer(logits: &[f32], questions: &Questions, target: Target) -> Answer {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let log_sum = logits.iter().map(|&logit| f64::from(logit - max).exp()).sum::<f64>().ln();
    let loss = match target {
        Target::Class(class) => log_sum - f64::from(logits[usize::from(class)] - max),
        Target::Soft(row) => {
            let parts = questions.distribution(row).iter().zip(logits).filter(|(share, _)| **share > 0.0);
            parts.map(|(&share, &logit)| f64::from(share) * (log_sum - f64::from(logit - max))).sum()
        }
    };
    let class = (1..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best });
    Answer { loss, class }
}

/// Cross-entropy of logits and a target in `f64`; the logits are replaced by its gradient. The definition that the other forms
/// are held to. Loss and gradient keep all their digits when the probability of the right class is close to 1: it is never
/// subtracted from 1.
pub fn cross_entropy(logits: &mut [f64], questions: &Questions, target: Target) -> f64 {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match target {
        Target::Class(class) => {
            let class = usize::from(class);
            let of_class = logits[class] - max;
            logits.iter_mut().for_each(|logit| *logit = (*logit - max).exp());
            let others: f64 =
                logits.iter().enumerate().filter(|(other, _)| *other != class).map(|(_, value)| value).sum();
            let sum = others + logits[class];
            logits[class] = -others;
            logits.iter_mut().for_each(|value| *value /= sum);
            if of_class == 0.0 { others.ln_1p() } else { sum.ln() - of_class }
        }
        Target::Soft(row) => {
            let shares = questions.distribution(row).iter().map(|&share| f64::from(share));
            let log_sum = logits.iter().map(|logit| (logit - max).exp()).sum::<f64>().ln() + max;
            let all: f64 = shares.clone().sum();
            let mut loss = 0.0;
            for (logit, share) in logits.iter_mut().zip(shares) {
                if share > 0.0 {
                    loss += share * (log_sum - *logit);
                }
                *logit = all * (*logit - log_sum).exp() - share;
            }
            loss
        }
    }
}

impl HeadSums {
    /// For the questions of some sequences.
    pub(crate) fn new(head: &PackedHead) -> Self {
        let LinearView { weight, bias } = head.head.map;
        let [weight, bias] = [weight.len(), bias.len()].map(|len| if head.head.is_small() { len } else { 0 });
        let small = LinearGradient { weight: vec![0.0; weight], bias: vec![0.0; bias] };
        HeadSums { losses: Vec::new(), small, rows: Vec::new(), errors: Vec::new() }
    }
}

impl PackedHead<'_> {
    /// See [`HeadKernel::norm`].
    pub(crate) fn norm(&self) -> Option<f32> {
        self.head.norm
    }

    /// Loss and gradients of the questions of a sequence, whose rows after the last block are in `x`; `x` becomes their gradient.
    /// `total` is the sum of all weights of the batch.
    pub(crate) fn add_sequence(
        &self,
        questions: &Questions,
        sequence: usize,
        total: f64,
        x: &mut [f32],
        buffers: &mut AskedRows,
        sums: &mut HeadSums,
    ) {
        let width = self.head.width;
        let asked = questions.of_sequence(sequence);
        buffers.read(x, width, asked, self.head.norm);
        let AskedRows { rows, gradients, .. } = buffers;
        if self.head.is_small() {
            let stride = padded(width);
            for ((question, row), gradient) in
                asked.iter().zip(rows.chunks_exact(stride)).zip(gradients.chunks_exact_mut(stride))
            {
                let loss = self.head.add_small(
                    questions,
                    *question,
                    total,
                    &row[..width],
                    &mut gradient[..width],
                    &mut sums.small,
                );
                sums.losses.push(loss);
            }
        } else {
            self.add_blocked(questions, asked, total, rows, gradients, sums);
            sums.rows.extend_from_slice(rows);
        }
        buffers.write_gradients(asked, width, self.head.norm, x);
    }

    fn add_blocked(
        &self,
        questions: &Questions,
        asked: &[Question],
        total: f64,
        rows: &[f32],
        gradients: &mut [f32],
        sums: &mut HeadSums,
    ) {
        let (stride, classes) = (padded(self.head.width), self.head.classes());
        let states = self.states(questions, asked, rows, gradients);
        let mut of_target = vec![0.0; stride];
        for ((question, state), gradient) in asked.iter().zip(states).zip(gradients.chunks_exact_mut(stride)) {
            let (loss, sum) = state.loss_and_sum(questions, question.target);
            let share = f64::from(question.weight) / total;
            let mass = mass(questions, question.target);
            let error = RowError {
                max: state.max,
                scale: (mass * share / sum) as f32,
                target: (-state.sum / sum * share) as f32,
                share: share as f32,
            };
            let factor = match question.target {
                Target::Class(class) => {
                    of_target.copy_from_slice(&self.by_class[usize::from(class) * stride..][..stride]);
                    error.target
                }
                Target::Soft(row) => {
                    let (left, right) = (Left::rows(questions.distribution(row), classes), self.class_rows(0));
                    multiply(1, stride, classes, left, right, Start::Zero, &mut of_target, stride);
                    -error.share
                }
            };
            gradient.iter_mut().zip(&of_target).for_each(|(sum, value)| *sum = *sum * error.scale + factor * value);
            sums.losses.push(f64::from(question.weight) * loss);
            sums.errors.push(error);
        }
    }

    /// Weights of the classes from `first` on as the right side of a product.
    fn class_rows(&self, first: usize) -> Right<'_> {
        let stride = padded(self.head.width);
        Right::rows(&self.by_class[first * stride..], stride)
    }

    /// Goes through all classes block by block. `products`, unless it is empty, becomes row by row the sum of the weights of all
    /// classes, each times its exponential; for a question with a right class without that class.
    fn states(&self, questions: &Questions, asked: &[Question], rows: &[f32], products: &mut [f32]) -> Vec<RowState> {
        let (width, stride, classes) = (self.head.width, padded(self.head.width), self.head.classes());
        let mut states = vec![RowState { max: f32::NEG_INFINITY, class: 0, sum: 0.0, target: 0.0 }; asked.len()];
        let mut logits = Buffer::stale(ROWS.min(asked.len()) * BLOCK);
        for (chunk, states) in states.chunks_mut(ROWS).enumerate() {
            let (first_row, count) = (chunk * ROWS, states.len());
            let asked = &asked[first_row..first_row + count];
            let rows = &rows[first_row * stride..][..count * stride];
            let products = products.get_mut(first_row * stride..(first_row + count) * stride).unwrap_or_default();
            for first in (0..classes).step_by(BLOCK) {
                let block = BLOCK.min(classes - first);
                let (left, right) = (Left::rows(rows, stride), self.columns.weight.right_from(first));
                let start = Start::Bias(&self.columns.bias[first..]);
                multiply(count, padded(block), width, left, right, start, &mut logits, BLOCK);
                exponentials(first..first + block, questions, asked, &mut logits, states, products, stride);
                if !products.is_empty() {
                    let (left, right) = (Left::rows(&logits, BLOCK), self.class_rows(first));
                    multiply(count, stride, block, left, right, Start::Result, products, stride);
                }
            }
        }
        states
    }

    /// The sum of the weighted losses of a batch and the gradient of the map, from the sums of all its runs in order.
    pub(crate) fn total(&self, questions: &Questions, runs: Vec<HeadSums>) -> (f64, LinearGradient) {
        let loss = runs.iter().flat_map(|run| &run.losses).sum();
        if self.head.is_small() {
            let sum = runs.into_iter().map(|run| run.small).reduce(|mut sum, run| {
                rows::add_assign(&mut sum.weight, &run.weight);
                rows::add_assign(&mut sum.bias, &run.bias);
                sum
            });
            return (loss, sum.expect("there is at least one run"));
        }
        let (width, classes) = (self.head.width, self.head.classes());
        let first_classes = (0..classes).step_by(PANEL).collect::<Vec<_>>();
        let panels: Vec<(Buffer, Buffer)> =
            first_classes.par_iter().map(|&first| self.gradient_of_classes(first, questions, &runs)).collect();
        let mut gradient = LinearGradient { weight: vec![0.0; width * classes], bias: vec![0.0; classes] };
        for (&first, (weight, bias)) in first_classes.iter().zip(&panels) {
            let panel = first..classes.min(first + PANEL);
            gradient.bias[panel.clone()].copy_from_slice(&bias[..panel.len()]);
            for (to, from) in gradient.weight.chunks_exact_mut(classes).zip(weight.chunks_exact(PANEL)) {
                to[panel.clone()].copy_from_slice(&from[..panel.len()]);
            }
        }
        (loss, gradient)
    }

    /// The second pass for a panel of classes: the gradient of its weights, `[width, PANEL]`, and of its biases. Rows are added in
    /// the order of the questions.
    fn gradient_of_classes(&self, first: usize, questions: &Questions, runs: &[HeadSums]) -> (Buffer, Buffer) {
        let (width, stride, classes) = (self.head.width, padded(self.head.width), self.head.classes());
        let panel = first..classes.min(first + PANEL);
        let columns = padded(panel.len());
        let (mut weight, mut bias) = (Buffer::zeros(width * PANEL), Buffer::zeros(PANEL));
        let mut errors = Buffer::stale(ROWS * PANEL);
        let mut asked = questions.all();
        for run in runs {
            for (rows, of_rows) in run.rows.chunks(ROWS * stride).zip(run.errors.chunks(ROWS)) {
                let count = of_rows.len();
                let (these, rest) = asked.split_at(count);
                asked = rest;
                let (left, start) = (Left::rows(rows, stride), Start::Bias(&self.columns.bias[first..]));
                multiply(count, columns, width, left, self.columns.weight.right_from(first), start, &mut errors, PANEL);
                let errors = &mut errors[..count * PANEL];
                logit_gradients(panel.clone(), questions, these, of_rows, errors);
                rows::add_row_sums(errors, PANEL, &mut bias);
                let (left, right) = (Left::transposed(rows, stride), Right::rows(errors, PANEL));
                multiply(width, columns, count, left, right, Start::Result, &mut weight, PANEL);
            }
        }
        (weight, bias)
    }

    /// Loss and answer for each question, given the rows that they ask at.
    pub(crate) fn answers(&self, questions: &Questions, asked: &[Question], rows: &[f32]) -> Vec<Answer> {
        if self.head.is_small() {
            let logits = self.logits(rows);
            let logits = logits.chunks_exact(self.head.classes()).zip(asked);
            return logits.map(|(logits, question)| answer(logits, questions, question.target)).collect();
        }
        let states = self.states(questions, asked, rows, &mut []);
        let answer = |(state, question): (RowState, &Question)| Answer {
            loss: state.loss_and_sum(questions, question.target).0,
            class: state.class,
        };
        states.into_iter().zip(asked).map(answer).collect()
    }

    /// All logits of padded rows. The bias comes last.
    pub(crate) fn logits(&self, rows: &[f32]) -> Vec<f32> {
        let (stride, classes) = (padded(self.head.width), self.head.classes());
        let mut logits = Buffer::stale(padded(classes));
        let mut all = Vec::with_capacity(rows.len() / stride * classes);
        for row in rows.chunks_exact(stride) {
            let (left, right) = (Left::rows(row, stride), self.columns.weight.right_from(0));
            multiply(1, padded(classes), self.head.width, left, right, Start::Zero, &mut logits, padded(classes));
            all.extend(logits.iter().zip(self.head.map.bias).map(|(logit, bias)| logit + bias));
        }
        all
    }
}

impl HeadKernel<'_> {
    /// The weighted loss of a question in the small form, from its row. The gradient of the row is written, those of the map are
    /// added.
    fn add_small(
        &self,
        questions: &Questions,
        question: Question,
        total: f64,
        row: &[f32],
        row_gradient: &mut [f32],
        sums: &mut LinearGradient,
    ) -> f64 {
        let classes = self.classes();
        let mut logits = self.map.bias.to_vec();
        for (value, weights) in row.iter().zip(self.map.weight.chunks_exact(classes)) {
            logits.iter_mut().zip(weights).for_each(|(logit, weight)| *logit += value * weight);
        }
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponentials: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - max).exp()).collect();
        let (sum, weight): (f64, f64) = (exponentials.iter().sum(), f64::from(question.weight));
        let target = |class: usize| match question.target {
            Target::Class(right) => f64::from(u8::from(class == usize::from(right))),
            Target::Soft(row) => f64::from(questions.distribution(row)[class]),
        };
        let mass = mass(questions, question.target);
        let gradient: Vec<f32> = (exponentials.iter().enumerate())
            .map(|(class, value)| ((mass * (value / sum) - target(class)) * weight / total) as f32)
            .collect();

        sums.bias.iter_mut().zip(&gradient).for_each(|(sum, value)| *sum += value);
        for (value, sums) in row.iter().zip(sums.weight.chunks_exact_mut(classes)) {
            sums.iter_mut().zip(&gradient).for_each(|(sum, gradient)| *sum += value * gradient);
        }
        for (to, weights) in row_gradient.iter_mut().zip(self.map.weight.chunks_exact(classes)) {
            *to = weights.iter().zip(&gradient).map(|(a, b)| a * b).sum();
        }
        weight * answer(&logits, questions, question.target).loss
    }
}

impl RowState {
    /// The loss after all blocks, and the sum of all exponentials.
    fn loss_and_sum(&self, questions: &Questions, target: Target) -> (f64, f64) {
        let max = f64::from(self.max);
        match target {
            Target::Class(_) => {
                let shifted = self.target - max;
                let sum = self.sum + shifted.exp();
                (if shifted == 0.0 { self.sum.ln_1p() } else { sum.ln() - shifted }, sum)
            }
            Target::Soft(_) => (mass(questions, target) * (max + self.sum.ln()) - self.target, self.sum),
        }
    }
}

/// The sum of the probabilities of all classes: 1, of a distribution up to rounding.
fn mass(questions: &Questions, target: Target) -> f64 {
    match target {
        Target::Class(_) => 1.0,
        Target::Soft(row) => questions.distribution(row).iter().map(|&share| f64::from(share)).sum(),
    }
}

dispatched! {
    /// Replaces the logits of a block of classes, rows of [`BLOCK`] values, by their exponentials relative to the highest logit so
    /// far, and takes them into account in `states`. When a higher logit comes up, the row in `products` is scaled down. The
    /// exponential of the right class becomes 0.
    fn exponentials(simd; classes: Range<usize>, questions: &Questions, asked: &[Question], logits: &mut [f32], states: &mut [RowState], products: &mut [f32], stride: usize) {
        let vectors = classes.len().div_ceil(LANES);
        let in_last = classes.len() - (vectors - 1) * LANES;
        let lowest = simd.splat(f32::NEG_INFINITY);
        for (row, ((logits, state), question)) in logits.chunks_exact_mut(BLOCK).zip(states).zip(asked).enumerate() {
            let logits = &mut logits[..vectors * LANES];
            let mut max = lowest;
            for v in 0..vectors {
                let values = simd.load(&logits[v * LANES..]);
                let values = simd.first_or(if v + 1 == vectors { in_last } else { LANES }, values, lowest);
                max = simd.max(values, max);
            }
            let max = simd.max_lane(max);
            if max > state.max {
                let mut factor = [0.0; LANES];
                simd.store(&mut factor, math::exp(simd, simd.splat(state.max - max)));
                state.class = classes.start + logits.iter().position(|&logit| logit == max).unwrap_or(0);
                state.max = max;
                state.sum *= f64::from(factor[0]);
                if let Some(product) = products.get_mut(row * stride..(row + 1) * stride) {
                    for values in product.chunks_exact_mut(LANES) {
                        simd.store(values, simd.mul(simd.load(values), simd.splat(factor[0])));
                    }
                }
            }
            let right = match question.target {
                Target::Class(class) if classes.contains(&usize::from(class)) => Some(usize::from(class) - classes.start),
                Target::Class(_) => None,
                Target::Soft(row) => {
                    for (share, logit) in questions.distribution(row)[classes.clone()].iter().zip(&*logits) {
                        if *share > 0.0 {
                            state.target += f64::from(*share) * f64::from(*logit);
                        }
                    }
                    None
                }
            };
            if let Some(right) = right {
                state.target = f64::from(logits[right]);
                logits[right] = f32::NEG_INFINITY;
            }
            let shift = simd.splat(state.max);
            let mut sum = simd.splat(0.0);
            for v in 0..vectors {
                let value = math::exp(simd, simd.sub(simd.load(&logits[v * LANES..]), shift));
                simd.store(&mut logits[v * LANES..], value);
                sum = simd.add(sum, simd.keep_first(value, if v + 1 == vectors { in_last } else { LANES }));
            }
            if let Some(right) = right {
                logits[right] = 0.0;
            }
            state.sum += f64::from(simd.sum(sum));
        }
    }
}

dispatched! {
    /// Replaces the logits of a panel of classes, rows of [`PANEL`] values, by the gradient of the loss.
    fn logit_gradients(simd; classes: Range<usize>, questions: &Questions, asked: &[Question], errors: &[RowError], logits: &mut [f32]) {
        for ((logits, error), question) in logits.chunks_exact_mut(PANEL).zip(errors).zip(asked) {
            let (max, scale) = (simd.splat(error.max), simd.splat(error.scale));
            for values in logits[..padded(classes.len())].chunks_exact_mut(LANES) {
                let exponential = math::exp(simd, simd.sub(simd.load(values), max));
                simd.store(values, simd.mul(exponential, scale));
            }
            match question.target {
                Target::Class(class) if classes.contains(&usize::from(class)) => {
                    logits[usize::from(class) - classes.start] = error.target;
                }
                Target::Class(_) => {}
                Target::Soft(row) => {
                    for (share, value) in questions.distribution(row)[classes.clone()].iter().zip(&mut *logits) {
                        *value -= error.share * share;
                    }
                }
            }
        }
    }
}
