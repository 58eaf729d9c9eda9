//! Sharpness of a trained model: the largest eigenvalues of the Hessian of its training loss, and the trace.
//!
//! Burn differentiates once, and the fused operators have gradients written by hand, so a product with the Hessian is a
//! difference of exact gradients: `H v ≈ (g(w + ε v) − g(w − ε v)) / 2 ε` for `v` of length 1.
//!
//! # Kinks
//!
//! Where ReLU has its kink or top-k attention exchanges a kept key, the gradient jumps; with top-k the loss itself jumps too,
//! which no difference of gradients shows. Everywhere else, that is almost everywhere, the loss has a Hessian, which is not
//! affected by the jumps. A difference across kinks is: it shows them as additional curvature, with noise that grows like
//! `1 / √ε`. A model of five blocks has some 13 million ReLU gates for 1,000 sequences of 40 tokens, and a step that single
//! precision can resolve crosses many of them. There are two ways out, the two [`Differences`]:
//!
//! | | [`Exact`](Differences::Exact) | [`Fast`](Differences::Fast) |
//! |---|---|---|
//! | computes | in double precision, reference form | like the model: in single precision, fused |
//! | ε | 1e-10 (1 + ‖w‖) | 1e-4 (1 + ‖w‖) |
//! | kinks | rarely crossed, and then left out | crossed: curvature on the scale of ε |
//! | time of a product over those 1,000 sequences, on two busy cores | 6 to 7 s | 1.0 to 1.2 s |
//!
//! With `Exact` a product occasionally crosses a kink on one side of the weights. Then the differences to the two sides are far
//! apart, and the side without the kink is used.
//!
//! # Accuracy, as measured
//!
//! Models of 147 parameters compared with the explicit Hessian: products are accurate to 3e-5 with `Exact` and to 2e-3 with
//! `Fast` (1e-2 with top-k attention); eigenvalues, relative to the largest, to 1e-7 and, where there are no kinks, to 2e-3.
//!
//! Models of the study, even pairs after 70 epochs with three seeds, ‖w‖ = 26, 1,000 examples: the three largest
//! eigenvalues, and the error of `Fast`. `Exact` needed 7 to 19 products for residuals of 1 %; over 100 and 300
//! examples it gave the same five digits with steps from 3e-11 to 2e-10 (1 + ‖w‖).
//!
//! | mechanism, loss | `Exact` | `Fast` |
//! |---|---|---|
//! | `full`, 2.5e-4 | 2.00, 0.271, 0.132 | −1 %, 0 %, −2 % |
//! | `full`, 9.3e-6 | 0.0356, 0.0128, 0.0100 | +3 %, +4 %, +5 % |
//! | `full`, 1.6e-6 | 0.00796, 0.00582, 0.00355 | +25 %, +8 %, +37 % |
//! | `topk:5`, 3.3e-7 | 0.00195, 0.000509, 0.000342 | +9 %, +19 %, +42 % |
//! | `topk:5`, 3.5e-7 | 0.00141, 0.000689, 0.000553 | +65 %, +31 %, −2 % |
//! | `topk:5`, 1.9e-7 | 0.00157, 0.000610, 0.000359 | +45 %, +40 %, +21 % |
//!
//! The smallest eigenvalue is worse: for the fifth model `Fast` gives −6.2e-4 instead of −9e-6. Traces over 300 examples,
//! with the same random signs, were 9 % too large (`full`) and 51 % too small (`topk:5`). None of the other steps tried
//! does better everywhere: 3e-4 gave +32 % instead of +9 %; over 100 examples 1e-5, where kinks drown the eigenvalues,
//! made them up to 3 times too large, and 1e-3, where the loss is not a parabola any more, up to 31 times. Rounding has
//! little part in it: over the same step, of 1e-5 or more, products in double precision have the same errors to 2 %. So
//! `Fast` is for orders of magnitude, not for comparing mechanisms: its errors are larger with top-k attention. Residuals do not
//! include these errors.

use burn::tensor::DType;
use semfocus_nn::Model;
use semfocus_store::Sharpness;
use semfocus_tasks::Split;

use super::objective::{Objective, Slope};
use crate::Device;
use crate::spectrum::lanczos::{Search, hutchinson, lanczos};
use crate::spectrum::norm;

/// Step of the differences in single precision, relative to 1 + ‖w‖: a compromise between the noise of kinks and higher
/// derivatives.
const SINGLE_STEP: f64 = 1e-4;
/// Step of the differences in double precision, relative to 1 + ‖w‖: as short as an accuracy of 1e-5 allows, to cross few kinks.
const DOUBLE_STEP: f64 = 1e-10;

/// In double precision the differences ahead and behind agree to about 1e-5. If they are further apart than this, relative to
/// the shorter one, there is a kink on one side.
const KINK: f64 = 1e-3;

/// Products of the Hessian of an objective at its weights, by differences of the gradient.
#[derive(Clone, Debug)]
pub struct Hessian<'a> {
    objective: &'a Objective<'a>,
    slope: Slope,
    step: f64,
}

impl<'a> Hessian<'a> {
    /// With the step that suits the precision of the model and the norm of its weights.
    pub fn new(objective: &'a Objective<'a>) -> Self {
        let relative = if objective.precision() == DType::F64 { DOUBLE_STEP } else { SINGLE_STEP };
        Self::with_step(objective, relative * (1.0 + norm(objective.weights())))
    }

    /// With a step of a given length.
    pub fn with_step(objective: &'a Objective<'a>, step: f64) -> Self {
        Hessian { objective, slope: objective.slope(objective.weights()), step }
    }

    /// The length of the step.
    pub fn step(&self) -> f64 {
        self.step
    }

    /// Loss and gradient at the weights.
    pub fn slope(&self) -> &Slope {
        &self.slope
    }

    /// The product with a vector; zeros for a vector of zeros.
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        let length = norm(vector);
        if length == 0.0 {
            return vec![0.0; vector.len()];
        }
        let (ahead, behind) =
            (self.difference(vector, self.step / length), self.difference(vector, -self.step / length));
        if self.objective.precision() == DType::F64 { without_kink(ahead, behind) } else { mean(&ahead, &behind) }
    }

    /// The change of the gradient over a share of a vector, divided by the share, which may be negative.
    fn difference(&self, vector: &[f64], share: f64) -> Vec<f64> {
        let moved = self.objective.weights().iter().zip(vector).map(|(weight, value)| weight + share * value);
        let there = self.objective.slope(&moved.collect::<Vec<_>>()).gradient;
        there.iter().zip(&self.slope.gradient).map(|(there, here)| (there - here) / share).collect()
    }
}

fn mean(one: &[f64], other: &[f64]) -> Vec<f64> {
    one.iter().zip(other).map(|(one, other)| 0.5 * (one + other)).collect()
}

/// The mean of the differences ahead and behind, or the shorter one alone where they are far apart. The step is so short that it
/// rarely crosses a kink, and hardly ever on both sides; and the jump of the gradient is divided by so short a step that it makes
/// the difference longer, not shorter.
fn without_kink(ahead: Vec<f64>, behind: Vec<f64>) -> Vec<f64> {
    let apart: Vec<f64> = ahead.iter().zip(&behind).map(|(ahead, behind)| ahead - behind).collect();
    let (length_ahead, length_behind) = (norm(&ahead), norm(&behind));
    match norm(&apart) > KINK * length_ahead.min(length_behind) {
        true if length_ahead < length_behind => ahead,
        true => behind,
        false => mean(&ahead, &behind),
    }
}

/// In which precision differences are computed; see the table of this module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Differences {
    /// In double precision with the reference form, over a step so short that it crosses hardly any kinks: the Hessian.
    #[default]
    Exact,
    /// With the engine and the precision of the model; in single precision the step crosses many kinks.
    Fast,
}

/// How to measure [`Sharpness`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharpnessOptions {
    /// The loss is the mean over the first `samples` examples of the split.
    pub samples: usize,
    /// How many of the largest eigenvalues are wanted.
    pub eigenvalues: usize,
    /// The maximum number of products for them.
    pub steps: usize,
    /// The search stops when the residual of each is at most `tolerance` times the eigenvalue.
    pub tolerance: f64,
    /// Products for the trace, at least two.
    pub probes: usize,
    /// Seed of the random vectors.
    pub seed: u64,
    /// How products with the Hessian are computed.
    pub differences: Differences,
}

impl Default for SharpnessOptions {
    fn default() -> Self {
        SharpnessOptions {
            samples: 1000,
            eigenvalues: 3,
            steps: 60,
            tolerance: 0.01,
            probes: 20,
            seed: 1,
            differences: Differences::Exact,
        }
    }
}

/// Why there is no sharpness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharpnessError {
    /// `progress` asked it to stop.
    #[error("stopped")]
    Stopped,
    /// The model has diverged, or does so within a step.
    #[error("the loss or its gradient is not finite: the model has diverged")]
    NotFinite,
    /// An option is too small.
    #[error("sharpness needs at least {min} {what}")]
    TooFew {
        /// The option.
        what: &'static str,
        /// Its smallest value.
        min: usize,
    },
}

/// Measures how sharp the training loss of a model is on the first examples of a split.
///
/// `progress` is called after each product with the number done and the maximum; if it returns `false`, the measurement stops.
pub fn measure(
    model: &dyn Model,
    split: &Split,
    options: &SharpnessOptions,
    device: &Device,
    progress: &mut dyn FnMut(usize, usize) -> bool,
) -> Result<Sharpness, SharpnessError> {
    options.check(split)?;
    let objective = match options.differences {
        Differences::Exact => Objective::exact(model, split, options.samples),
        Differences::Fast => Objective::new(model, split, options.samples, device),
    };
    let hessian = Hessian::new(&objective);
    let (loss, gradient_norm) = (hessian.slope().loss, norm(&hessian.slope().gradient));
    if !(loss.is_finite() && gradient_norm.is_finite()) {
        return Err(SharpnessError::NotFinite);
    }
    let dimension = objective.weights().len();
    let SharpnessOptions { eigenvalues, steps, tolerance, probes, seed, .. } = *options;
    let mut products = Products { hessian: &hessian, done: 0, total: steps.min(dimension) + probes, progress };
    let search = Search { largest: eigenvalues, steps, tolerance, seed };
    let spectrum = lanczos(dimension, &search, |vector| products.next(vector))?;
    products.total = products.done + probes;
    let trace = hutchinson(dimension, probes, seed, |vector| products.next(vector))?;
    Ok(Sharpness {
        eigenvalues: spectrum.largest.iter().map(|found| found.value).collect(),
        residuals: spectrum.largest.iter().map(|found| found.residual).collect(),
        min: spectrum.smallest.value,
        min_residual: spectrum.smallest.residual,
        trace: trace.value,
        trace_error: trace.standard_error,
        products: products.done,
        gradient_norm,
        loss,
    })
}

/// Counts products, reports them to `progress` and checks that they are finite.
struct Products<'a> {
    hessian: &'a Hessian<'a>,
    done: usize,
    total: usize,
    progress: &'a mut dyn FnMut(usize, usize) -> bool,
}

impl Products<'_> {
    fn next(&mut self, vector: &[f64]) -> Result<Vec<f64>, SharpnessError> {
        let product = self.hessian.times(vector);
        self.done += 1;
        if !(self.progress)(self.done, self.total) {
            return Err(SharpnessError::Stopped);
        }
        if norm(&product).is_finite() { Ok(product) } else { Err(SharpnessError::NotFinite) }
    }
}

impl SharpnessOptions {
    fn check(&self, split: &Split) -> Result<(), SharpnessError> {
        let needs =
            [("samples", self.samples.min(split.len()), 1), ("steps", self.steps, 1), ("probes", self.probes, 2)];
        match needs.into_iter().find(|(_, given, min)| given < min) {
            Some((what, _, min)) => Err(SharpnessError::TooFew { what, min }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kink_on_one_side_is_left_out() {
        let (smooth, also_smooth) = (vec![1.0, 2.0, 2.0], vec![1.0, 2.0, 2.0 + 1e-5]);
        assert_eq!(without_kink(smooth.clone(), also_smooth.clone()), mean(&smooth, &also_smooth));
        let across = vec![1.0, -4000.0, 2.0];
        assert_eq!(without_kink(smooth.clone(), across.clone()), smooth);
        assert_eq!(without_kink(across, smooth.clone()), smooth);
        assert_eq!(without_kink(vec![0.0; 2], vec![0.0; 2]), [0.0; 2]);
        assert!(without_kink(vec![f64::NAN], vec![f64::NAN])[0].is_nan());
    }
}
