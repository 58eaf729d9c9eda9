//! The constants of the theory, tested with pairs of scores that try to violate them.

use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use semfocus_analysis::theory::stability;

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum()
}

/// Softmax over the kept keys, 0 elsewhere.
fn weights(scores: &[f64], kept: &[usize]) -> Vec<f64> {
    let max = kept.iter().map(|&key| scores[key]).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = kept.iter().map(|&key| (scores[key] - max).exp()).sum();
    let mut weights = vec![0.0; scores.len()];
    for &key in kept {
        weights[key] = (scores[key] - max).exp() / sum;
    }
    weights
}

/// The k highest scores; ties go to the lower index.
fn highest(scores: &[f64], k: usize) -> Vec<usize> {
    let mut keys: Vec<usize> = (0..scores.len()).collect();
    keys.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    keys.truncate(k);
    keys
}

fn dispersion(scores: &[f64], kept: &[usize]) -> f64 {
    let of = kept.iter().map(|&key| scores[key]);
    of.clone().fold(f64::NEG_INFINITY, f64::max) - of.fold(f64::INFINITY, f64::min)
}

fn separation(scores: &[f64], kept: &[usize]) -> f64 {
    let lowest = kept.iter().map(|&key| scores[key]).fold(f64::INFINITY, f64::min);
    let dropped = (0..scores.len()).filter(|key| !kept.contains(key)).map(|key| scores[key]);
    lowest - dropped.fold(f64::NEG_INFINITY, f64::max)
}

/// The change of the weights over the change of the scores, and the constant that bounds it; none if the scores are equal.
fn softmax_ratio(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    let all: Vec<usize> = (0..a.len()).collect();
    let bound = stability::softmax(dispersion(a, &all).max(dispersion(b, &all)), a.len());
    let change = distance(a, b);
    (change > 1e-9).then(|| (distance(&weights(a, &all), &weights(b, &all)) / change, bound))
}

fn top_k_ratio(a: &[f64], b: &[f64], k: usize) -> Option<(f64, f64)> {
    let (kept_a, kept_b) = (highest(a, k), highest(b, k));
    let dispersion = dispersion(a, &kept_a).max(dispersion(b, &kept_b));
    let separation = separation(a, &kept_a).min(separation(b, &kept_b));
    let change = distance(a, b);
    let bound = stability::top_k(dispersion, separation, k);
    (change > 1e-9).then(|| (distance(&weights(a, &kept_a), &weights(b, &kept_b)) / change, bound))
}

/// α-entmax over all keys, by bisection in double precision; α = 2 is sparsemax.
fn entmax(scores: &[f64], alpha: f64) -> Vec<f64> {
    let scaled: Vec<f64> = scores.iter().map(|score| (alpha - 1.0) * score).collect();
    let max = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = |threshold: f64| -> Vec<f64> {
        scaled.iter().map(|score| (score - threshold).max(0.0).powf(1.0 / (alpha - 1.0))).collect()
    };
    let (mut low, mut high) = (max - 1.0, max);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        let sum: f64 = weights(middle).iter().sum();
        (low, high) = if sum >= 1.0 { (middle, high) } else { (low, middle) };
    }
    weights(low)
}

fn entmax_ratio(a: &[f64], b: &[f64], alpha: f64) -> Option<(f64, f64)> {
    let change = distance(a, b);
    let bound = stability::entmax(alpha, a.len());
    (change > 1e-6).then(|| (distance(&entmax(a, alpha), &entmax(b, alpha)) / change, bound))
}

/// The softmax weights of the k highest scores, not divided by their sum.
fn masked(scores: &[f64], k: usize) -> Vec<f64> {
    let all: Vec<usize> = (0..scores.len()).collect();
    let (full, kept) = (weights(scores, &all), highest(scores, k));
    all.iter().map(|key| if kept.contains(key) { full[*key] } else { 0.0 }).collect()
}

fn masked_ratio(a: &[f64], b: &[f64], k: usize) -> Option<(f64, f64)> {
    let all: Vec<usize> = (0..a.len()).collect();
    let dispersion = dispersion(a, &all).max(dispersion(b, &all));
    let separation = separation(a, &highest(a, k)).min(separation(b, &highest(b, k)));
    let change = distance(a, b);
    let bound = stability::masked_top_k(dispersion, separation, a.len());
    (change > 1e-9).then(|| (distance(&masked(a, k), &masked(b, k)) / change, bound))
}

/// Scores on several scales, with ties.
fn scores(length: usize) -> impl Strategy<Value = Vec<f64>> {
    let score = prop_oneof![-3.0..3.0, -0.01..0.01, -60.0..60.0, Just(0.0), Just(1.0)];
    proptest::collection::vec(score, length)
}

proptest! {
    #[test]
    fn softmax_never_changes_more_than_its_constant_allows(
        (a, b) in (1usize..12).prop_flat_map(|length| (scores(length), scores(length))),
        nearness in prop_oneof![Just(1.0), Just(1e-3), Just(1e-6)],
    ) {
        let b: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + nearness * (b - a)).collect();
        if let Some((ratio, bound)) = softmax_ratio(&a, &b) {
            prop_assert!(ratio <= bound + 1e-6, "{ratio} > {bound}");
        }
    }

    #[test]
    fn top_k_never_changes_more_than_its_constant_allows(
        (a, b, k) in (2usize..12).prop_flat_map(|length| (scores(length), scores(length), 1..=length)),
        nearness in prop_oneof![Just(1.0), Just(1e-2), Just(1e-4)],
    ) {
        let b: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + nearness * (b - a)).collect();
        if let Some((ratio, bound)) = top_k_ratio(&a, &b, k) {
            prop_assert!(ratio <= bound * (1.0 + 1e-6) + 1e-6, "{ratio} > {bound}");
        }
    }
}

proptest! {
    #[test]
    fn entmax_never_changes_more_than_its_constant_allows(
        (a, b) in (1usize..12).prop_flat_map(|length| (scores(length), scores(length))),
        alpha in prop_oneof![Just(2.0), Just(1.5), 1.1..2.0],
        nearness in prop_oneof![Just(1.0), Just(1e-2)],
    ) {
        let b: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + nearness * (b - a)).collect();
        if let Some((ratio, bound)) = entmax_ratio(&a, &b, alpha) {
            prop_assert!(ratio <= bound + 1e-6, "α = {alpha}: {ratio} > {bound}");
        }
    }

    #[test]
    fn weights_that_are_not_divided_by_their_sum_stay_within_their_constants(
        (a, b, k) in (2usize..12).prop_flat_map(|length| (scores(length), scores(length), 1..=length)),
        nearness in prop_oneof![Just(1.0), Just(1e-2), Just(1e-4)],
    ) {
        let b: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a + nearness * (b - a)).collect();
        let change = distance(&a, &b);
        if let Some((ratio, bound)) = masked_ratio(&a, &b, k) {
            prop_assert!(ratio <= bound * (1.0 + 1e-6) + 1e-6, "{ratio} > {bound}");
        }
        let n = a.len() as f64;
        let each = |scores: &[f64], weight: &dyn Fn(f64) -> f64| scores.iter().map(|z| weight(*z)).collect::<Vec<f64>>();
        let sigmoid = |z: f64| 1.0 / (1.0 + n * (-z).exp());
        let relu = |z: f64| z.max(0.0) / n;
        prop_assert!(distance(&each(&a, &sigmoid), &each(&b, &sigmoid)) <= stability::SIGMOID * change + 1e-9);
        prop_assert!(distance(&each(&a, &relu), &each(&b, &relu)) <= stability::relu(a.len()) * change + 1e-9);
    }
}

/// A number in [-1, 1).
fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * 2f64.powi(-52) - 1.0
}

/// Climbs towards pairs that come near the bound and returns the largest ratio to it; fails if the bound is violated.
fn climb(length: usize, seed: u64, measure: impl Fn(&[f64], &[f64]) -> Option<(f64, f64)>) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = |scale: f64| (0..length).map(|_| scale * unit(&mut random)).collect::<Vec<f64>>();
    let mut best = (draw(2.0), draw(2.0));
    let mut share = 0.0f64;
    for round in 0..4000 {
        let step = 10f64.powf(-4.0 * (round % 200) as f64 / 200.0);
        let move_by = |scores: &[f64], by: &[f64]| scores.iter().zip(by).map(|(s, b)| s + b).collect::<Vec<f64>>();
        let (da, db) = (draw(step), draw(step));
        let candidate = (move_by(&best.0, &da), move_by(&best.1, &db));
        let Some((ratio, bound)) = measure(&candidate.0, &candidate.1) else { continue };
        if !bound.is_finite() {
            continue;
        }
        assert!(ratio <= bound * (1.0 + 1e-6) + 1e-6, "{ratio} > {bound} at {candidate:?}");
        if ratio / bound >= share {
            share = ratio / bound;
            best = candidate;
        }
    }
    share
}

#[test]
fn climbing_comes_near_the_constants_but_not_past_them() {
    for (length, seed) in [(2, 1), (3, 2), (5, 3), (9, 4)] {
        let softmax = climb(length, seed, softmax_ratio);
        assert!(softmax > 0.5, "softmax over {length} keys: the bound is {:.2} times what was seen", 1.0 / softmax);
        let k = length.div_ceil(2);
        let top_k = climb(length, seed + 10, |a, b| top_k_ratio(a, b, k));
        assert!(top_k > 0.3, "the {k} highest of {length}: the bound is {:.2} times what was seen", 1.0 / top_k);
    }
}

#[test]
fn climbing_comes_near_the_constants_of_other_weightings() {
    for (length, alpha, seed) in [(2, 2.0, 21), (5, 2.0, 22), (3, 1.5, 23), (6, 1.5, 24), (5, 1.25, 25)] {
        let seen = climb(length, seed, |a, b| entmax_ratio(a, b, alpha));
        assert!(seen > 0.6, "α = {alpha}, {length} keys: the bound is {:.2} times what was seen", 1.0 / seen);
    }
    let seen = climb(5, 26, |a, b| masked_ratio(a, b, 2));
    assert!(seen > 0.2, "masked: the bound is {:.2} times what was seen", 1.0 / seen);
}

#[test]
fn the_constants_of_entmax_are_attained() {
    for (length, alpha) in [(2, 1.5), (10, 1.5), (40, 1.5), (7, 1.25), (10, 2.0)] {
        // One weight of x^(1/(2 − α)), and the others equal, as in the proof.
        let a = ((length - 1) as f64).powf((alpha - 1.0) / (3.0 - alpha));
        let first = a / (1.0 + a);
        let rest = (1.0 - first) / (length - 1) as f64;
        let score = |weight: f64| weight.powf(alpha - 1.0) / (alpha - 1.0);
        let mut scores = vec![score(rest); length];
        scores[0] = score(first);
        let mut moved = scores.clone();
        moved[0] += 1e-4;
        let (ratio, bound) = entmax_ratio(&scores, &moved, alpha).unwrap();
        assert!((ratio / bound - 1.0).abs() < 1e-3, "α = {alpha}, {length} keys: {ratio}, {bound}");
    }
}

#[test]
fn sparsemax_is_no_expansion_in_the_euclidean_norm() {
    let euclid = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
    let seen = climb(6, 31, |a, b| {
        let change = euclid(a, b);
        (change > 1e-6).then(|| (euclid(&entmax(a, 2.0), &entmax(b, 2.0)) / change, 1.0))
    });
    assert!(seen > 0.95, "{seen}");
}

#[test]
fn one_key_above_the_others_attains_the_constant_of_softmax() {
    for (length, dispersion) in [(2, 0.0), (5, 1.0), (30, 2.5)] {
        let mut a = vec![0.0; length];
        a[0] = dispersion;
        let mut b = a.clone();
        b[0] += 1e-6;
        let (ratio, bound) = softmax_ratio(&a, &b).unwrap();
        assert!((ratio - bound).abs() < 1e-5 * bound, "{ratio}, {bound}");
    }
}

#[test]
fn exchanging_two_keys_attains_the_constant_of_top_k() {
    for (k, separation) in [(1, 0.5), (4, 0.1), (9, 0.001)] {
        let mut a = vec![0.0; k];
        a.push(-separation);
        let mut b = a.clone();
        b.swap(0, k);
        let (ratio, bound) = top_k_ratio(&a, &b, k).unwrap();
        assert!((ratio - bound).abs() < 1e-9 * bound, "{ratio}, {bound}");
    }
}

#[test]
fn a_smaller_constant_would_be_violated() {
    // The tests above can fail: nine tenths of the constant would be too small.
    let softmax = climb(2, 1, softmax_ratio);
    assert!(softmax > 0.9, "{softmax}");
}
