//! Observing attention while it runs: the scores of every query, the keys it keeps, and what follows from both.

use super::dense;
use super::{AttentionKernel, Maps, SequenceRows};
use crate::FusedWeighting;
use crate::math;
use crate::simd::{LANES, dispatched, padded};

/// Observes attention row by row. Sequences are observed in parallel; the observations are returned in the order of the
/// sequences, so nothing depends on the number of threads.
pub trait RowObserver: Sync {
    /// What is recorded about one sequence.
    type Observation: Send;

    /// Starts the observation of a sequence, given by its index in the batch.
    fn begin(&self, sequence: usize) -> Self::Observation;

    /// Called for every row: head after head, and in each head from the first query to the last.
    fn row(&self, observation: &mut Self::Observation, row: &ObservedRow<'_>);
}

/// One query of one head: a row of the score matrix.
#[derive(Clone, Copy, Debug)]
pub struct ObservedRow<'a> {
    /// Index of the head.
    pub head: usize,
    /// Position of the query in the sequence.
    pub query: usize,
    /// Scores of all visible keys.
    pub scores: &'a [f32],
    /// The kept keys, ascending. Weightings other than the softmax can give a key the weight 0: such a key counts as dropped, and
    /// with sigmoid and ReLU attention it may be that no key is kept.
    pub kept: &'a [u32],
    /// Attention weights of the kept keys, before dropout.
    pub weights: &'a [f32],
    /// Maximum minus minimum kept score; none if no key is kept, or the weights do not follow from the scores.
    pub dispersion: Option<f32>,
    /// Minimum kept minus maximum dropped score; none if all or no keys are kept, or the weights do not follow from the scores.
    pub separation: Option<f32>,
    /// Entropy in nats of the weights divided by their sum; none if there are negative ones, or all are 0.
    pub entropy: Option<f32>,
    /// Share of the weight that the softmax over all keys would give to the kept ones.
    pub full_mass: f32,
}

impl AttentionKernel<'_> {
    /// Computes the scores of all visible keys again, those that the selection drops too, and shows them to the observer row by
    /// row.
    pub(super) fn observe_sequence<O: RowObserver>(
        &self,
        sequence: usize,
        maps: &Maps,
        rows: &SequenceRows,
        observer: &O,
    ) -> O::Observation {
        let mut observation = observer.begin(sequence);
        let all: Vec<u32> = (0..self.length as u32).collect();
        let (mut reader, mut weights, mut scratch) = (RowReader::default(), Vec::new(), Vec::new());
        let mut with_weight: Vec<u32> = Vec::new();
        for (h, of_head) in rows.heads.iter().enumerate() {
            let alpha = self.head_scalars[h].alpha;
            let left_out = maps.folded.then(|| self.left_out_by_folding(h));
            dense::for_score_blocks(rows.head(self, maps, h), self.visibility, |first, queries, scores| {
                let stride = scores.len() / queries;
                for (query, scores) in (first..).zip(scores.chunks_exact_mut(stride)) {
                    let visible = self.visibility.keys(query, self.length);
                    let marked = of_head.weights.kept.as_ref().map_or(&all[..visible], |kept| kept.row(query));
                    // The gradient says nothing about which keys have a weight.
                    let is_dense = self.weighting == FusedWeighting::GradientOfKept;
                    let kept = if is_dense { &all[..visible] } else { marked };
                    let scores = &mut scores[..visible];
                    if let Some((vector, constant)) = &left_out {
                        let row = &rows.norm.normalised[query * padded(self.width)..];
                        let shift = constant + vector.iter().zip(row).map(|(a, b)| a * b).sum::<f32>();
                        scores.iter_mut().for_each(|score| *score += shift);
                    }
                    let row = if self.weighting == FusedWeighting::MaskedSoftmax {
                        let everything = reader.read(h, query, scores, &all[..visible]).weights.to_vec();
                        weights.clear();
                        weights.extend(kept.iter().map(|&key| everything[key as usize]));
                        reader.read_weighted(h, query, scores, kept, &weights)
                    } else if self.weighting.is_softmax() {
                        reader.read(h, query, scores, kept)
                    } else {
                        weights.clear();
                        weights.extend(kept.iter().map(|&key| scores[key as usize]));
                        self.weighting.weigh(alpha, &mut weights, &mut scratch);
                        with_weight.clear();
                        with_weight.extend(kept.iter().zip(&weights).filter(|(_, w)| **w != 0.0).map(|(key, _)| key));
                        weights.retain(|weight| *weight != 0.0);
                        reader.read_weighted(h, query, scores, &with_weight, &weights)
                    };
                    observer.row(&mut observation, &row);
                }
            });
        }
        observation
    }
}

/// Computes [`ObservedRow`]s; holds the buffers for that.
#[derive(Debug, Default)]
pub struct RowReader {
    weights: Vec<f32>,
    dropped: Vec<f32>,
}

impl RowReader {
    /// A row whose weights are the softmax over the kept keys.
    pub fn read<'a>(&'a mut self, head: usize, query: usize, scores: &'a [f32], kept: &'a [u32]) -> ObservedRow<'a> {
        self.weights.clear();
        self.weights.extend(kept.iter().map(|&key| scores[key as usize]));
        let entropy = softmax(&mut self.weights);
        self.finish(head, query, scores, kept, Some(entropy))
    }

    /// A row with the given weights of its kept keys, for any weighting.
    pub fn read_weighted<'a>(
        &'a mut self,
        head: usize,
        query: usize,
        scores: &'a [f32],
        kept: &'a [u32],
        weights: &[f32],
    ) -> ObservedRow<'a> {
        self.weights.clear();
        self.weights.extend_from_slice(weights);
        let sum: f32 = weights.iter().sum();
        let is_defined = sum > 0.0 && weights.iter().all(|weight| *weight >= 0.0);
        let shares = weights.iter().map(|weight| weight / sum).filter(|share| *share > 0.0);
        let entropy = is_defined.then(|| shares.map(|share| -share * share.ln()).sum());
        self.finish(head, query, scores, kept, entropy)
    }

    fn finish<'a>(
        &'a mut self,
        head: usize,
        query: usize,
        scores: &'a [f32],
        kept: &'a [u32],
        entropy: Option<f32>,
    ) -> ObservedRow<'a> {
        let (mut min, mut max) = (f32::INFINITY, f32::NEG_INFINITY);
        for &key in kept {
            let score = scores[key as usize];
            (min, max) = (min.min(score), max.max(score));
        }
        let (mut separation, mut full_mass) = (None, 1.0);
        if kept.len() < scores.len() {
            self.dropped.clear();
            self.dropped.extend_from_slice(scores);
            kept.iter().for_each(|&key| self.dropped[key as usize] = f32::NEG_INFINITY);
            // Sums of e^(score - maximum of all scores) over the dropped and over the kept keys.
            let (max_dropped, dropped_sum) = max_and_sum(&self.dropped, max);
            let kept_sum: f32 = kept.iter().map(|&key| (scores[key as usize] - max.max(max_dropped)).exp()).sum();
            separation = (!kept.is_empty()).then_some(min - max_dropped);
            full_mass = kept_sum / (kept_sum + dropped_sum);
        }
        let (weights, dispersion) = (&self.weights, (!kept.is_empty()).then_some(max - min));
        ObservedRow { head, query, scores, kept, weights, dispersion, separation, entropy, full_mass }
    }
}

dispatched! {
    /// The maximum, and the sum of `e^(value - shift)` where `shift` is the larger of the maximum and `at_least`.
    fn max_and_sum(simd; values: &[f32], at_least: f32) -> (f32, f32) {
        let lowest = simd.splat(f32::NEG_INFINITY);
        let (whole, rest) = values.split_at(values.len() / LANES * LANES);
        let mut lane_maxima = simd.first_or(rest.len(), simd.load_some(rest), lowest);
        for values in whole.chunks_exact(LANES) {
            lane_maxima = simd.max(simd.load(values), lane_maxima);
        }
        let max = simd.max_lane(lane_maxima);
        let shift = simd.splat(if max > at_least { max } else { at_least });
        let mut sum = simd.keep_first(math::exp(simd, simd.sub(simd.load_some(rest), shift)), rest.len());
        for values in whole.chunks_exact(LANES) {
            sum = simd.add(sum, math::exp(simd, simd.sub(simd.load(values), shift)));
        }
        (max, simd.sum(sum))
    }
}

dispatched! {
    /// Turns scores into weights, in place, and returns the entropy of the weights.
    ///
    /// With `s` = score - maximum and `Z` = Σ e^s the entropy is `ln Z - Σ s e^s / Z`, which needs a single logarithm.
    fn softmax(simd; scores: &mut [f32]) -> f32 {
        let mut max = f32::NEG_INFINITY;
        for score in scores.iter() {
            max = if *score > max { *score } else { max };
        }
        let shift = simd.splat(max);
        let (mut sum, mut weighted) = (simd.splat(0.0), simd.splat(0.0));
        for scores in scores.chunks_mut(LANES) {
            let below = simd.sub(simd.load_some(scores), shift);
            let raised = simd.keep_first(math::exp(simd, below), scores.len());
            sum = simd.add(sum, raised);
            // A score of minus infinity has the weight 0 and adds nothing to the entropy.
            weighted = simd.fma(simd.max(below, simd.splat(-1e30)), raised, weighted);
            simd.store_some(scores, raised);
        }
        let (sum, weighted) = (simd.sum(sum), simd.sum(weighted));
        let inverse = simd.splat(1.0 / sum);
        for weights in scores.chunks_mut(LANES) {
            simd.store_some(weights, simd.mul(simd.load_some(weights), inverse));
        }
        sum.ln() - weighted / sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_definition(scores: &[f32], kept: &[u32]) -> [f64; 4] {
        let score = |key: &u32| f64::from(scores[*key as usize]);
        let is_kept = |key: &u32| kept.contains(key);
        let of = |keys: &[u32], f: fn(f64, f64) -> f64, start: f64| keys.iter().map(score).fold(start, f);
        let dropped: Vec<u32> = (0..scores.len() as u32).filter(|key| !is_kept(key)).collect();
        let (max, min) = (of(kept, f64::max, f64::NEG_INFINITY), of(kept, f64::min, f64::INFINITY));
        let sum: f64 = kept.iter().map(|key| score(key).exp()).sum();
        let all: f64 = scores.iter().map(|score| f64::from(*score).exp()).sum();
        let entropy = kept.iter().map(|key| score(key).exp() / sum).map(|p| -p * p.ln()).sum();
        [max - min, min - of(&dropped, f64::max, f64::NEG_INFINITY), entropy, sum / all]
    }

    #[test]
    fn what_is_not_defined_is_left_out() {
        let scores = [-1.0, -2.0, -0.5];
        let mut reader = RowReader::default();
        let none = reader.read_weighted(0, 0, &scores, &[], &[]);
        assert_eq!((none.dispersion, none.separation, none.entropy, none.full_mass), (None, None, None, 0.0));
        let negative = reader.read_weighted(0, 0, &scores, &[0, 1, 2], &[0.7, -0.2, 0.5]);
        assert_eq!((negative.dispersion, negative.separation, negative.entropy), (Some(1.5), None, None));
        // The sum of the weights does not matter.
        let half = reader.read_weighted(0, 0, &scores, &[0, 2], &[0.25, 0.25]);
        assert!((half.entropy.unwrap() - 2f32.ln()).abs() < 1e-6 && half.separation == Some(1.0), "{half:?}");
    }

    #[test]
    fn a_row_matches_its_definition() {
        let stream = crate::Key::new(7);
        for length in [1, 2, 5, 15, 16, 17, 31, 32, 40, 100] {
            let scores: Vec<f32> = (0..length).map(|i| (stream.bits_at(i) as f32 / 4e9 - 0.5) * 12.0).collect();
            for every in 1..5 {
                let kept: Vec<u32> = (0..length).step_by(every).collect();
                let mut reader = RowReader::default();
                let row = reader.read(2, 3, &scores, &kept);
                let [dispersion, separation, entropy, full_mass] = by_definition(&scores, &kept);
                let close = |a: f32, b: f64| (f64::from(a) - b).abs() < 1e-5 * (1.0 + b.abs());
                let found = (row.dispersion.unwrap(), row.entropy.unwrap());
                assert!(close(found.0, dispersion) && close(found.1, entropy), "{length} {every}: {row:?}");
                assert!(close(row.full_mass, full_mass), "{length} {every}: {row:?} {full_mass}");
                match row.separation {
                    Some(found) => assert!(close(found, separation)),
                    None => assert_eq!(kept.len(), scores.len()),
                }
                assert!((row.weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                let weights = row.weights.to_vec();
                let again = RowReader::default().read_weighted(2, 3, &scores, &kept, &weights).entropy.unwrap();
                assert!(close(again, entropy), "{again} {entropy}");
            }
        }
    }
}
