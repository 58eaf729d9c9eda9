//! The thresholds of sparsemax and entmax: the `τ` for which the weights `[(α - 1) z - τ]₊^(1/(α - 1))` sum to 1.
//!
//! The sum is a convex function of `τ` that falls to zero at the maximum score. Newton's method from the left therefore never
//! passes the root, and it needs no sorted scores. For sparsemax this is Michelot's algorithm; there and for 1.5-entmax
//! the root is known exactly as soon as the set of positive weights, the support, is.
//!
//! In long rows few scores are in the support. A part of the scores has a lower threshold than all of them, and a good part
//! is at hand after one pass for the maximum: the maxima of the 64 lanes. Only scores above its threshold are kept.

use super::{EXP_LOWEST, RowStatistics, scalar};
use crate::math;
use crate::simd::{ALL_LANES, LANES, Simd, padded};

/// Rows up to this length are searched as a whole.
const SHORT: usize = 4 * LANES;

/// Newton's method needs fewer than thirty steps for any row (the product of value and slope falls by a factor of four in
/// every step); this limit only makes it certain that the loops end.
const STEPS: usize = 100;

/// The result for rows that have no weights.
const UNDEFINED: RowStatistics = [f32::NAN; 2];

/// The threshold of sparsemax, or of 1.5-entmax if `SQUARED`, as a rounded number and what the rounding took away. The second
/// one is for halved scores, because the weights are `[z/2 - τ]₊²`.
#[inline(always)]
pub(super) fn exact<S: Simd, const SQUARED: bool>(simd: S, scores: &[f32], scratch: &mut Vec<f32>) -> RowStatistics {
    let mut maxima = [f32::NEG_INFINITY; SHORT];
    let max = lane_maxima(simd, scores, &mut maxima);
    if !max.is_finite() {
        return UNDEFINED;
    }
    // Until the end the threshold is `high + low` with `high` at the maximum: low lies between -1 and 0.
    let high = if SQUARED { 0.5 * max } else { max };
    let mut low = -1.0;
    let candidates = if scores.len() > SHORT {
        let bound = search::<S, SQUARED>(simd, &maxima, high, low) - 1e-6;
        low = if bound > low { bound } else { low };
        keep_candidates(simd, scores, max, if SQUARED { 2.0 * bound } else { bound }, scratch)
    } else {
        &maxima[..padded(scores.len())]
    };
    low = search::<S, SQUARED>(simd, candidates, high, low);

    // Now relative to the threshold itself, where the differences that become small weights are exact.
    let (high, low) = exact_sum(high, low);
    let support = Support::new::<S, SQUARED>(simd, candidates, high, low);
    [high, low + support.exact_step::<SQUARED>()]
}

/// `low` of the threshold `high + low`, searched from a lower bound.
#[inline(always)]
fn search<S: Simd, const SQUARED: bool>(simd: S, candidates: &[f32], high: f32, mut low: f32) -> f32 {
    for _ in 0..STEPS {
        let support = Support::new::<S, SQUARED>(simd, candidates, high, low);
        let exact = support.exact_step::<SQUARED>();
        let drops_one = exact > support.min;
        let next = low + support.safe_step::<SQUARED>();
        if !drops_one || next == low {
            return low + exact;
        }
        low = next;
    }
    low
}

/// Sums over the scores above a threshold.
struct Support {
    /// How many there are.
    count: f32,
    /// Sum of their distances from the threshold.
    sum: f32,
    /// Sum of the squares of these distances.
    squares: f32,
    /// The minimum distance.
    min: f32,
}

impl Support {
    /// The support for the threshold `high + low`. NaN among the scores makes the sums NaN.
    #[inline(always)]
    fn new<S: Simd, const SQUARED: bool>(simd: S, scores: &[f32], high: f32, low: f32) -> Self {
        let (zero, one) = (simd.splat(0.0), simd.splat(1.0));
        let (high, low) = (simd.splat(high), simd.splat(low));
        let infinity = simd.splat(f32::INFINITY);
        let (mut count, mut sum, mut squares, mut min) = (zero, zero, zero, infinity);
        for scores in scores.chunks_exact(LANES) {
            let scores = simd.load(scores);
            let scores = if SQUARED { simd.mul(scores, simd.splat(0.5)) } else { scores };
            let distance = simd.sub(simd.sub(scores, high), low);
            let above = simd.max(zero, distance);
            count = simd.add(count, simd.where_positive(distance, one, zero));
            sum = simd.add(sum, above);
            if SQUARED {
                squares = simd.fma(above, above, squares);
            }
            min = simd.min(simd.where_positive(distance, distance, infinity), min);
        }
        let min = -simd.max_lane(simd.sub(zero, min));
        Support { count: simd.sum(count), sum: simd.sum(sum), squares: simd.sum(squares), min }
    }

    /// By how much the threshold must rise if the support stays as it is.
    #[inline(always)]
    fn exact_step<const SQUARED: bool>(&self) -> f32 {
        if !SQUARED {
            return (self.sum - 1.0) / self.count;
        }
        // The smaller root of Σ (distance - step)² = 1. If there is none, the step that this gives is longer than the mean
        // distance, so that the support does not stay as it is.
        let excess = self.squares - 1.0;
        let root = (self.sum * self.sum - self.count * excess).max(0.0).sqrt();
        excess / (self.sum + root)
    }

    /// By how much the threshold must rise at least.
    #[inline(always)]
    fn safe_step<const SQUARED: bool>(&self) -> f32 {
        if !SQUARED {
            return self.exact_step::<SQUARED>();
        }
        // The step of Newton's method, or that to where `count` scores at the mean distance would have weights with sum 1: as
        // squares are convex, those of the true distances have a greater sum there.
        let newton = (self.squares - 1.0) / (2.0 * self.sum);
        let to_mean = self.sum / self.count - 1.0 / self.count.sqrt();
        newton.max(to_mean)
    }
}

/// The sum of two numbers, rounded, and what the rounding took away.
#[inline(always)]
fn exact_sum(a: f32, b: f32) -> (f32, f32) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// The statistics of entmax for any `α` above 1 and up to 2: a score and its weight, which determine the threshold.
///
/// The nearer that score to the threshold, the less an error of its weight adds up over the row; but for `α` near 1, where
/// the weights approach those of softmax, it must not be far from the scores that matter. So it is the one with the mean
/// distance (the harmonic mean, by weight) from the threshold: if its weight is wrong by a factor, so is the sum.
#[inline(always)]
pub(super) fn iterated<S: Simd>(simd: S, alpha: f32, scores: &[f32], scratch: &mut Vec<f32>) -> RowStatistics {
    debug_assert!(alpha > 1.0 && alpha <= 2.0, "entmax needs 1 < alpha <= 2, not {alpha}; alpha = 1 is softmax");
    let mut maxima = [f32::NEG_INFINITY; SHORT];
    let max = lane_maxima(simd, scores, &mut maxima);
    if !max.is_finite() {
        return UNDEFINED;
    }
    let a = alpha - 1.0;
    let mut ln_weight = 0.0;
    let candidates = if scores.len() > SHORT {
        (ln_weight, _) = search_weight(simd, alpha, &maxima, max, 0.0);
        // The distance of the maximum from the threshold, over α - 1, is at most this.
        let reach = scalar(simd, math::exp(simd, simd.splat(a * (ln_weight + TOLERANCE)))) / a;
        keep_candidates(simd, scores, max, -reach, scratch)
    } else {
        &maxima[..padded(scores.len())]
    };
    let (ln_weight, slope) = search_weight(simd, alpha, candidates, max, ln_weight);

    // From the maximum to the score with the mean distance, which is 1/slope times that of the maximum.
    let distance = scalar(simd, math::exp(simd, simd.splat(a * ln_weight)));
    let mut reference = max - (1.0 - 1.0 / slope) * distance / a;
    let mut relative = 1.0 + a * (reference - max) / distance;
    let is_above_threshold = relative * slope > 0.01;
    if !is_above_threshold {
        // Large scores are so far apart that it may have been rounded down to the threshold.
        (reference, relative) = (max, 1.0);
    }
    let ln_reference = ln_weight + scalar(simd, math::ln(simd, simd.splat(relative))) / a;
    let mut weight = scalar(simd, math::exp(simd, simd.splat(ln_reference)));
    for _ in 0..STEPS {
        let (sum, slope) = Power::new(simd, alpha, reference, weight).sum_and_slope(simd, candidates);
        let excess = weight * sum - 1.0;
        weight -= weight * (excess / slope).min(0.5);
        let is_far = excess.abs() > 1e-5; // not so for NaN
        if !is_far {
            break;
        }
    }
    [reference, weight]
}

/// How far the logarithm of the sum of all weights may be from zero before the last step of [`search_weight`].
const TOLERANCE: f32 = 0.03;

/// The logarithm of the weight of the maximum score, and the derivative of the logarithm of the sum of all weights by it.
/// Newton's method with these logarithms (the function is nearly a straight line), kept within bounds by bisection.
#[inline(always)]
fn search_weight<S: Simd>(simd: S, alpha: f32, candidates: &[f32], max: f32, start: f32) -> (f32, f32) {
    // The maximum has at least the mean weight. One is added to both bounds, to keep them off the solution.
    let (mut low, mut high) = (-1.0 - scalar(simd, math::ln(simd, simd.splat(candidates.len() as f32))), 1.0);
    let mut ln_weight = start;
    let mut slope = 1.0;
    for _ in 0..STEPS {
        let ln_distance = (alpha - 1.0) * ln_weight;
        let sum;
        (sum, slope) = Power::with_distance(simd, alpha, max, ln_distance).sum_and_slope(simd, candidates);
        let ln_sum = ln_weight + scalar(simd, math::ln(simd, simd.splat(sum)));
        let next = ln_weight - ln_sum / slope;
        let is_far = ln_sum.abs() > TOLERANCE; // not so for NaN
        if !is_far {
            return (next, slope);
        }
        if ln_sum > 0.0 {
            high = ln_weight;
        } else {
            low = ln_weight;
        }
        ln_weight = if next > low && next < high { next } else { 0.5 * (low + high) };
    }
    (ln_weight, slope)
}

/// The weights of entmax relative to that of a reference score: with `a = α - 1` they are `(1 + a (z - reference) / d)^(1/a)`,
/// where `d`, the distance of the reference from the threshold, is its weight to the power `a`. All these forms are as
/// accurate near `α = 1` as at 2.
#[derive(Clone, Copy)]
pub(super) struct Power<F> {
    reference: F,
    /// `a / d`.
    slope: F,
    /// `1/a - 1`.
    exponent: F,
}

impl<F: Copy> Power<F> {
    #[inline(always)]
    pub(super) fn new<S: Simd<F = F>>(simd: S, alpha: f32, reference: f32, weight: f32) -> Self {
        let ln_weight = scalar(simd, math::ln(simd, simd.splat(weight)));
        Self::with_distance(simd, alpha, reference, (alpha - 1.0) * ln_weight)
    }

    #[inline(always)]
    fn with_distance<S: Simd<F = F>>(simd: S, alpha: f32, reference: f32, ln_distance: f32) -> Self {
        let a = alpha - 1.0;
        Power {
            reference: simd.splat(reference),
            slope: simd.mul(simd.splat(a), math::exp(simd, simd.splat(-ln_distance))),
            exponent: simd.splat((2.0 - alpha) / a),
        }
    }

    /// Distances of the scores from the threshold, as multiples of `d`.
    #[inline(always)]
    pub(super) fn distances<S: Simd<F = F>>(&self, simd: S, scores: F) -> F {
        simd.add(simd.splat(1.0), simd.mul(simd.sub(scores, self.reference), self.slope))
    }

    /// The relative weights, and the same over the [distance](Self::distances) from the threshold. NaN scores do not show in the
    /// second.
    #[inline(always)]
    pub(super) fn of<S: Simd<F = F>>(&self, simd: S, scores: F) -> (F, F) {
        let zero = simd.splat(0.0);
        let step = simd.mul(simd.sub(scores, self.reference), self.slope);
        let distance = self.distances(simd, scores);
        let exponent = simd.mul(self.exponent, math::ln_1p(simd, step));
        let is_tiny = simd.sub(simd.splat(EXP_LOWEST), exponent);
        let raised = simd.where_positive(is_tiny, zero, math::exp(simd, exponent));
        let raised = simd.where_positive(distance, raised, zero);
        (simd.mul(simd.max(zero, distance), raised), raised)
    }

    /// The sum of the relative weights, and the derivative of the logarithm of the sum of all weights by the logarithm of the
    /// reference's weight.
    #[inline(always)]
    fn sum_and_slope<S: Simd<F = F>>(&self, simd: S, candidates: &[f32]) -> (f32, f32) {
        let (mut sum, mut raised_sum) = (simd.splat(0.0), simd.splat(0.0));
        for scores in candidates.chunks_exact(LANES) {
            let (relative, raised) = self.of(simd, simd.load(scores));
            sum = simd.add(sum, relative);
            raised_sum = simd.add(raised_sum, raised);
        }
        let sum = simd.sum(sum);
        (sum, simd.sum(raised_sum) / sum)
    }
}

/// Writes the maximum of every 64th score, from the first, second and so on, and returns the maximum of all. A row that is not
/// longer is copied, with minus infinity behind it. NaN may hide a higher score, but never makes the maximum infinite.
#[inline(always)]
fn lane_maxima<S: Simd>(simd: S, scores: &[f32], to: &mut [f32; SHORT]) -> f32 {
    let lowest = simd.splat(f32::NEG_INFINITY);
    let mut maxima = [lowest; SHORT / LANES];
    for scores in scores.chunks(SHORT) {
        for (max, scores) in maxima.iter_mut().zip(scores.chunks(LANES)) {
            *max = simd.max(*max, simd.first_or(scores.len(), simd.load_some(scores), lowest));
        }
    }
    for (to, max) in to.chunks_exact_mut(LANES).zip(maxima) {
        simd.store(to, max);
    }
    let [a, b, c, d] = maxima;
    simd.max_lane(simd.max(simd.max(a, b), simd.max(c, d))) + 0.0 // not -0 with one instruction set and +0 with another
}

/// Copies the scores that are at most `-bound` below the maximum, and NaN, to the front of `scratch`, and returns them, with
/// minus infinity behind them up to a whole vector.
#[inline(always)]
fn keep_candidates<'a, S: Simd>(simd: S, scores: &[f32], max: f32, bound: f32, scratch: &'a mut Vec<f32>) -> &'a [f32] {
    if scratch.len() < scores.len() + 2 * LANES {
        scratch.resize(scores.len() + 2 * LANES, 0.0);
    }
    let (max, bound, lowest) = (simd.splat(max), simd.splat(bound), simd.splat(f32::NEG_INFINITY));
    let mut kept = 0;
    for scores in scores.chunks(LANES) {
        let scores = simd.first_or(scores.len(), simd.load_some(scores), lowest);
        let too_low = simd.greater(bound, simd.sub(scores, max));
        kept += simd.compress(&mut scratch[kept..], scores, !too_low & ALL_LANES);
    }
    simd.store(&mut scratch[kept..], lowest);
    &scratch[..padded(kept)]
}
