//! How one row of scores becomes attention weights, and how gradients of the weights become gradients of the scores.
//!
//! A row is handled in two steps. [`statistics`] reads all scores and reduces them to two numbers; [`weigh`] turns each score
//! into its weight by these numbers alone. The backward pass keeps the two numbers of every row instead of its weights.
//!
//! Softmax, sparsemax and entmax are normalised: weights of a row sum to 1. At the edges they behave like this:
//!
//! | scores | normalised kinds | sigmoid, ReLU |
//! |---|---|---|
//! | a single one | weight 1 | by the formula, with n = 1 |
//! | all equal | 1/n each | by the formula |
//! | some are minus infinity | weight 0 there (with softmax below 1e-37) | weight 0 there |
//! | all are minus infinity, or one is NaN or plus infinity | every weight is NaN | NaN weight for NaN, plus infinity by the formula |
//!
//! NaN weights give NaN gradients, so a diverged model shows in its loss instead of training on.

mod threshold;

use crate::math;
use crate::simd::{LANES, Simd, dispatched};

/// The ways to turn scores into weights that the fused attention knows. The formulas are for one row of `n` scores `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusedWeighting {
    /// `e^z / Σ e^z`.
    Softmax,
    /// `[z - τ]₊` with the threshold `τ` for which the weights sum to 1 (Martins and Astudillo 2016).
    Sparsemax,
    /// `[z/2 - τ]₊²` with the threshold `τ` for which the weights sum to 1 (Peters et al. 2019).
    Entmax15,
    /// `[(α - 1) z - τ]₊^(1/(α - 1))` with the threshold `τ` for which the weights sum to 1 (Correia et al. 2019).
    ///
    /// It needs `1 < α <= 2`. Softmax is the limit at `α = 1` and must be asked for by its own name.
    Entmax,
    /// `σ(z - ln n)`, not normalised (Ramapuram et al. 2024).
    Sigmoid,
    /// `max(z, 0) / n`, not normalised (Wortsman et al. 2023).
    Relu,
    /// The softmax over the kept keys, with the gradient of the softmax over all visible keys.
    StraightThrough,
    /// The softmax over all visible keys, with the gradient of the softmax over the kept keys.
    GradientOfKept,
    /// The softmax over all visible keys, set to zero where a key is not kept, with its own gradient.
    MaskedSoftmax,
}

impl FusedWeighting {
    /// Whether adding a constant to all scores of a row changes nothing. It holds for exactly those kinds whose weights sum
    /// to 1.
    pub fn ignores_common_shift(self) -> bool {
        !matches!(self, FusedWeighting::Sigmoid | FusedWeighting::Relu)
    }

    /// Whether dropped keys take part, forward or backward. Such a row is the softmax over all visible keys first; what becomes
    /// of it depends on the kept keys. If every key is kept they all are softmax. The kept keys must have some of the weight
    /// of the softmax over all, as the highest scores have.
    pub fn involves_dropped_keys(self) -> bool {
        matches!(self, Self::StraightThrough | Self::GradientOfKept | Self::MaskedSoftmax)
    }

    /// Whether the weights are a softmax, over the kept keys or over all visible ones.
    pub fn is_softmax(self) -> bool {
        self.of_all_keys() == FusedWeighting::Softmax
    }

    /// The weighting of rows in which every visible key is kept.
    pub(crate) fn of_all_keys(self) -> Self {
        if self.involves_dropped_keys() { FusedWeighting::Softmax } else { self }
    }

    /// Turns a row of scores into weights, in place, and returns what [`weigh_backward`](Self::weigh_backward) needs in addition to
    /// the weights. `alpha` matters for [`Entmax`](Self::Entmax) only; `scratch` is memory that is reused from row to row.
    ///
    /// # Panics
    /// If the row is empty.
    pub fn weigh(self, alpha: f32, scores: &mut [f32], scratch: &mut Vec<f32>) -> [f32; 2] {
        weigh_row(self, alpha, scores, scratch)
    }

    /// Turns the gradients of a row's weights into the gradients of its scores, in place, and returns the gradient of `alpha`,
    /// which is zero unless this is [`Entmax`](Self::Entmax).
    pub fn weigh_backward(self, alpha: f32, statistics: [f32; 2], weights: &[f32], gradients: &mut [f32]) -> f32 {
        weigh_row_backward(self, alpha, statistics, weights, gradients)
    }
}

dispatched! {
    fn weigh_row(simd; weighting: FusedWeighting, alpha: f32, scores: &mut [f32], scratch: &mut Vec<f32>) -> RowStatistics {
        let statistics = statistics(simd, weighting, alpha, scores, scratch);
        weigh(simd, weighting, alpha, statistics, scores);
        statistics
    }
}

dispatched! {
    fn weigh_row_backward(simd; weighting: FusedWeighting, alpha: f32, statistics: RowStatistics, weights: &[f32], gradients: &mut [f32]) -> f32 {
        weigh_backward(simd, weighting, alpha, statistics, weights, gradients)
    }
}

/// What determines the weights of a row in addition to its scores: computed once per row and saved for the backward pass.
///
/// | weighting | first | second |
/// |---|---|---|
/// | softmax | maximum score | one over the sum of `e^(z - max)` |
/// | sparsemax, 1.5-entmax | threshold `τ`, rounded | what the rounding took away |
/// | entmax | a score near the threshold | the weight of that score |
/// | sigmoid | `-ln n` | 0 |
/// | ReLU | `1/n` | 0 |
///
/// Two numbers for `τ` are needed where many scores lie just above it: their weights are small differences, and an error of
/// `τ` adds up over all of them.
pub(crate) type RowStatistics = [f32; 2];

/// The statistics of one row of scores; `scratch` is memory that is reused from row to row.
///
/// # Panics
/// If the row is empty.
#[inline(always)]
pub(crate) fn statistics<S: Simd>(
    simd: S,
    weighting: FusedWeighting,
    alpha: f32,
    scores: &[f32],
    scratch: &mut Vec<f32>,
) -> RowStatistics {
    assert!(!scores.is_empty(), "a row has at least one score");
    match weighting.of_all_keys() {
        FusedWeighting::Softmax => softmax_statistics(simd, scores),
        FusedWeighting::Sparsemax => threshold::exact::<S, false>(simd, scores, scratch),
        FusedWeighting::Entmax15 => threshold::exact::<S, true>(simd, scores, scratch),
        FusedWeighting::Entmax => threshold::iterated(simd, alpha, scores, scratch),
        FusedWeighting::Sigmoid => [-scalar(simd, math::ln(simd, simd.splat(scores.len() as f32))), 0.0],
        FusedWeighting::Relu => [1.0 / scores.len() as f32, 0.0],
        kind => unreachable!("{kind:?} is softmax here"),
    }
}

#[inline(always)]
fn softmax_statistics<S: Simd>(simd: S, scores: &[f32]) -> RowStatistics {
    let lowest = simd.splat(f32::NEG_INFINITY);
    let mut maxima = lowest;
    for scores in scores.chunks(LANES) {
        maxima = simd.max(simd.first_or(scores.len(), simd.load_some(scores), lowest), maxima);
    }
    let max = simd.max_lane(maxima) + 0.0; // +0 and -0 are both the maximum: take the same one always
    let mut sum = simd.splat(0.0);
    for scores in scores.chunks(LANES) {
        let raised = math::exp(simd, simd.sub(simd.load_some(scores), simd.splat(max)));
        sum = simd.add(sum, simd.keep_first(raised, scores.len()));
    }
    [max, 1.0 / simd.sum(sum)]
}

/// Turns scores into weights, in place, one by one from the statistics of their row.
#[inline(always)]
pub(crate) fn weigh<S: Simd>(
    simd: S,
    weighting: FusedWeighting,
    alpha: f32,
    statistics: RowStatistics,
    scores: &mut [f32],
) {
    let [first, second] = [simd.splat(statistics[0]), simd.splat(statistics[1])];
    let zero = simd.splat(0.0);
    // In `max(zero, x)` NaN passes.
    match weighting.of_all_keys() {
        FusedWeighting::Softmax => {
            for scores in scores.chunks_mut(LANES) {
                let raised = math::exp(simd, simd.sub(simd.load_some(scores), first));
                simd.store_some(scores, simd.mul(raised, second));
            }
        }
        FusedWeighting::Sparsemax => {
            for scores in scores.chunks_mut(LANES) {
                let above = simd.sub(simd.sub(simd.load_some(scores), first), second);
                simd.store_some(scores, simd.max(zero, above));
            }
        }
        FusedWeighting::Entmax15 => {
            let half = simd.splat(0.5);
            for scores in scores.chunks_mut(LANES) {
                let above = simd.sub(simd.sub(simd.mul(simd.load_some(scores), half), first), second);
                let above = simd.max(zero, above);
                simd.store_some(scores, simd.mul(above, above));
            }
        }
        FusedWeighting::Entmax => {
            let power = threshold::Power::new(simd, alpha, statistics[0], statistics[1]);
            for scores in scores.chunks_mut(LANES) {
                let values = simd.load_some(scores);
                // Many vectors of a sparse row have no weight at all. (Zero times NaN is NaN: such a row is seen.)
                let is_zero = simd.greater(power.distances(simd, values), zero) == 0;
                let relative = if is_zero { zero } else { power.of(simd, values).0 };
                simd.store_some(scores, simd.mul(relative, second));
            }
        }
        FusedWeighting::Sigmoid => {
            let one = simd.splat(1.0);
            for scores in scores.chunks_mut(LANES) {
                // With e = e^-|x|: 1 / (1 + e) for positive x, e / (1 + e) for negative x.
                let x = simd.add(simd.load_some(scores), first);
                let e = math::exp(simd, simd.where_positive(x, simd.sub(zero, x), x));
                let weight = simd.div(simd.where_positive(x, one, e), simd.add(one, e));
                simd.store_some(scores, simd.where_positive(simd.sub(simd.splat(EXP_LOWEST), x), zero, weight));
            }
        }
        FusedWeighting::Relu => {
            for scores in scores.chunks_mut(LANES) {
                simd.store_some(scores, simd.mul(simd.max(zero, simd.load_some(scores)), first));
            }
        }
        kind => unreachable!("{kind:?} is softmax here"),
    }
}

/// Where the exponential function reaches the smallest normal numbers; weights below that are set to zero.
const EXP_LOWEST: f32 = -87.0;

/// Turns gradients of a row's weights into gradients of its scores, in place. `weights` are the weights of the row, before
/// dropout. Returns the gradient of `alpha`, which is zero for all kinds but [`FusedWeighting::Entmax`]; if a caller does not
/// use it, the compiler leaves its computation out.
///
/// With the weights `p`, their gradients `g` and sums over the row: softmax gives `p (g - Σ p g)`, the entmax family
/// `r (g - Σ r g / Σ r)` with `r = p^(2 - α)` where `p > 0` and zero elsewhere.
#[inline(always)]
pub(crate) fn weigh_backward<S: Simd>(
    simd: S,
    weighting: FusedWeighting,
    alpha: f32,
    statistics: RowStatistics,
    weights: &[f32],
    gradients: &mut [f32],
) -> f32 {
    assert_eq!(weights.len(), gradients.len(), "every weight has a gradient");
    let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
    match weighting.of_all_keys() {
        FusedWeighting::Softmax => {
            let mut product = zero;
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks(LANES)) {
                product = simd.fma(simd.load_some(weights), simd.load_some(gradients), product);
            }
            let product = simd.splat(simd.sum(product));
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_mut(LANES)) {
                let centred = simd.sub(simd.load_some(gradients), product);
                simd.store_some(gradients, simd.mul(simd.load_some(weights), centred));
            }
        }
        FusedWeighting::Sparsemax => {
            let (mut count, mut sum) = (zero, zero);
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks(LANES)) {
                let weight = simd.load_some(weights);
                count = simd.add(count, simd.where_positive(weight, one, zero));
                sum = simd.add(sum, simd.where_positive(weight, simd.load_some(gradients), zero));
            }
            let mean = simd.splat(simd.sum(sum) / simd.sum(count));
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_mut(LANES)) {
                // A weight that is not positive is zero or NaN, and so shall be its gradient.
                let weight = simd.load_some(weights);
                let centred = simd.sub(simd.load_some(gradients), mean);
                simd.store_some(gradients, simd.where_positive(weight, centred, weight));
            }
        }
        FusedWeighting::Entmax15 => {
            let (mut total, mut sum) = (zero, zero);
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks(LANES)) {
                let root = simd.sqrt(simd.load_some(weights));
                total = simd.add(total, root);
                sum = simd.fma(root, simd.load_some(gradients), sum);
            }
            let mean = simd.splat(simd.sum(sum) / simd.sum(total));
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_mut(LANES)) {
                let root = simd.sqrt(simd.load_some(weights));
                simd.store_some(gradients, simd.mul(root, simd.sub(simd.load_some(gradients), mean)));
            }
        }
        FusedWeighting::Entmax => return entmax_backward(simd, alpha, weights, gradients),
        FusedWeighting::Sigmoid => {
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_mut(LANES)) {
                let weight = simd.load_some(weights);
                let slope = simd.mul(weight, simd.sub(one, weight));
                simd.store_some(gradients, simd.mul(slope, simd.load_some(gradients)));
            }
        }
        FusedWeighting::Relu => {
            let slope = simd.splat(statistics[0]);
            for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_mut(LANES)) {
                let weight = simd.load_some(weights);
                let scaled = simd.mul(slope, simd.load_some(gradients));
                simd.store_some(gradients, simd.where_positive(weight, scaled, weight));
            }
        }
        kind => unreachable!("{kind:?} is softmax here"),
    }
    0.0
}

/// [`weigh_backward`] of entmax.
///
/// With `a = α - 1`, `H = Σ p ln p` and `p̃ = r / Σ r` the derivative by α is
/// `∂p/∂α = (p - p̃) / a² - (p ln p - p̃ H) / a`: two terms that grow without bound towards α = 1 and nearly cancel. So it is
/// computed from `x = ln(p̃ / p) = -a ln p - ln Σ r`, which is as small as `a`. Inserting that gives
/// `-a² ∂p/∂α = p (e^x - 1 - x) + p (e^x - 1) ln Σ r - p̃ Σ p (e^x - 1 - x)`, and the last term vanishes in the product with
/// the centred gradients `g - Σ p̃ g`.
#[inline(always)]
fn entmax_backward<S: Simd>(simd: S, alpha: f32, weights: &[f32], gradients: &mut [f32]) -> f32 {
    let a = alpha - 1.0;
    let (zero, minus_a) = (simd.splat(0.0), simd.splat(-a));
    let (mut total, mut excess, mut sum) = (zero, zero, zero);
    for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks(LANES)) {
        let p = simd.load_some(weights);
        // Where a weight is not positive it is zero or NaN, and takes the place of what would be computed from it. Many
        // vectors of a sparse row have no positive weight at all.
        if simd.greater(p, zero) == 0 {
            total = simd.add(total, p);
            continue;
        }
        let (e_minus_1, _) = math::exp_remainders(simd, simd.mul(minus_a, math::ln(simd, p)));
        let r_minus_p = simd.where_positive(p, simd.mul(p, e_minus_1), p);
        let r = simd.add(p, r_minus_p);
        total = simd.add(total, r);
        excess = simd.add(excess, r_minus_p);
        sum = simd.fma(r, simd.load_some(gradients), sum);
    }
    let total = simd.sum(total);
    let mean = simd.splat(simd.sum(sum) / total);
    // The weights sum to 1, so Σ r is 1 plus the excess.
    let ln_total = math::ln_1p(simd, simd.splat(simd.sum(excess)));
    let total = simd.splat(total);
    let (mut first, mut second) = (zero, zero);
    for (weights, gradients) in weights.chunks(LANES).zip(gradients.chunks_mut(LANES)) {
        let p = simd.load_some(weights);
        if simd.greater(p, zero) == 0 {
            simd.store_some(gradients, p);
            continue;
        }
        let x = simd.fma(minus_a, math::ln(simd, p), simd.sub(zero, ln_total));
        let (e_minus_1, e_minus_1_minus_x) = math::exp_remainders(simd, x);
        let centred = simd.sub(simd.load_some(gradients), mean);
        let excess = simd.where_positive(p, simd.mul(p, e_minus_1), p);
        first = simd.fma(centred, simd.where_positive(p, simd.mul(p, e_minus_1_minus_x), p), first);
        second = simd.fma(centred, excess, second);
        let r = simd.mul(simd.add(p, excess), total);
        simd.store_some(gradients, simd.mul(r, centred));
    }
    -(simd.sum(first) + scalar(simd, ln_total) * simd.sum(second)) / (a * a)
}

/// The value of a vector whose lanes are all the same: a way to use the functions of [`math`] for single numbers.
#[inline(always)]
fn scalar<S: Simd>(simd: S, v: S::F) -> f32 {
    let mut lanes = [0.0; LANES];
    simd.store(&mut lanes, v);
    lanes[0]
}
