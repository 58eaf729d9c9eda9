//! The rows of a sequence that its questions ask at, normalised if the model has a norm before its head.

use semfocus_core::{At, Question};

use crate::output::as_unwritten;
use crate::rows;
use crate::simd::padded;

/// Rows and gradients for the questions of one sequence, one padded row for each.
#[derive(Default)]
pub(crate) struct AskedRows {
    /// What the head reads.
    pub(crate) rows: Vec<f32>,
    /// The gradients of `rows`.
    pub(crate) gradients: Vec<f32>,
    /// `1 / √(variance + ε)` of each row before it was normalised.
    inverse_deviations: Vec<f32>,
}

impl AskedRows {
    /// Reads the rows that the questions ask at out of `x`, rows of `width` values, and makes room for their gradients.
    pub(crate) fn read(&mut self, x: &[f32], width: usize, asked: &[Question], norm: Option<f32>) {
        gather(x, width, asked, &mut self.rows);
        self.normalise(width, norm);
        self.gradients.clear();
        self.gradients.resize(self.rows.len(), 0.0);
    }

    /// Every question asks at the same row of whole vectors.
    pub(crate) fn repeat(&mut self, row: &[f32], times: usize, norm: Option<f32>) {
        self.rows = row.repeat(times);
        self.normalise(row.len(), norm);
    }

    fn normalise(&mut self, width: usize, norm: Option<f32>) {
        let Some(epsilon) = norm else { return };
        let stride = padded(width);
        self.inverse_deviations.resize(self.rows.len() / stride, 0.0);
        let mut before = vec![0.0; width];
        for (row, inverse_deviation) in self.rows.chunks_exact_mut(stride).zip(&mut self.inverse_deviations) {
            before.copy_from_slice(&row[..width]);
            rows::normalise(&before, width, epsilon, row, std::slice::from_mut(inverse_deviation));
        }
    }

    /// Writes the gradient of `x` from those of the rows.
    pub(crate) fn write_gradients(&mut self, asked: &[Question], width: usize, norm: Option<f32>, x: &mut [f32]) {
        let stride = padded(width);
        if norm.is_some() {
            let (nothing, mut before) = (vec![0.0; width], vec![0.0; width]);
            let rows = self.rows.chunks_exact(stride).zip(&self.inverse_deviations);
            for ((row, inverse_deviation), gradient) in rows.zip(self.gradients.chunks_exact_mut(stride)) {
                let inverse_deviation = std::slice::from_ref(inverse_deviation);
                let to = as_unwritten(&mut before);
                rows::normalise_backward(row, inverse_deviation, gradient, &nothing, width, to);
                gradient[..width].copy_from_slice(&before);
            }
        }
        scatter(&self.gradients, width, asked, x);
    }
}

/// The rows of a sequence that its questions ask at, padded: `x` has rows of `width` values.
fn gather(x: &[f32], width: usize, questions: &[Question], rows: &mut Vec<f32>) {
    let stride = padded(width);
    rows.clear();
    rows.resize(questions.len() * stride, 0.0);
    for (question, to) in questions.iter().zip(rows.chunks_exact_mut(stride)) {
        let to = &mut to[..width];
        match question.at {
            At::Token(t) => to.copy_from_slice(&x[t as usize * width..][..width]),
            At::Mean => {
                for row in x.chunks_exact(width) {
                    to.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                }
                let length = (x.len() / width) as f32;
                to.iter_mut().for_each(|sum| *sum /= length);
            }
        }
    }
}

/// The gradient of a sequence from those of the rows that its questions asked at.
fn scatter(gradients: &[f32], width: usize, questions: &[Question], x: &mut [f32]) {
    let (stride, length) = (padded(width), (x.len() / width) as f32);
    let rows =
        || questions.iter().zip(gradients.chunks_exact(stride)).map(|(question, row)| (question.at, &row[..width]));
    let mut means = rows().filter(|(at, _)| *at == At::Mean).map(|(_, row)| row);
    match means.next() {
        None => x.fill(0.0),
        Some(first) => {
            let mut mean = first.to_vec();
            means.for_each(|row| mean.iter_mut().zip(row).for_each(|(sum, value)| *sum += value));
            mean.iter_mut().for_each(|sum| *sum /= length);
            x.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(&mean));
        }
    }
    for (at, row) in rows() {
        if let At::Token(t) = at {
            x[t as usize * width..][..width].iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
    }
}
