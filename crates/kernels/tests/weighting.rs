//! The weightings of a row against their definitions in `f64`: weights, gradients by central differences, and the edges.

use proptest::prelude::*;
use semfocus_kernels::{FusedWeighting, InstructionSet, Key};

use FusedWeighting::{Entmax, Entmax15, Relu, Sigmoid, Softmax, Sparsemax};

const NORMALISED: [(FusedWeighting, f32); 9] = [
    (Softmax, 1.0),
    (Sparsemax, 2.0),
    (Entmax15, 1.5),
    (Entmax, 1.001),
    (Entmax, 1.05),
    (Entmax, 1.3),
    (Entmax, 1.5),
    (Entmax, 1.75),
    (Entmax, 2.0),
];

fn all() -> impl Iterator<Item = (FusedWeighting, f32)> {
    NORMALISED.into_iter().chain([(Sigmoid, 1.0), (Relu, 1.0)])
}

/// Sums of uniform numbers, about normal with deviation `scale`.
fn scores(seed: u64, n: usize, scale: f32) -> Vec<f32> {
    let key = Key::new(seed);
    let uniform = |at: usize| key.bits_at(at as u32) as f32 / 2f32.powi(31) - 1.0;
    (0..n).map(|i| scale * (uniform(3 * i) + uniform(3 * i + 1) + uniform(3 * i + 2))).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

fn weights(weighting: FusedWeighting, alpha: f32, scores: &[f32]) -> Vec<f32> {
    let mut row = scores.to_vec();
    weighting.weigh(alpha, &mut row, &mut Vec::new());
    row
}

// ---- the definitions, in f64 -----------------------------------------------------------------------------------------

fn definition(weighting: FusedWeighting, alpha: f64, z: &[f64]) -> Vec<f64> {
    let n = z.len() as f64;
    let max = z.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sorted: Vec<f64> = z.iter().map(|z| z - max).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    match weighting {
        Softmax => {
            let sum: f64 = z.iter().map(|z| (z - max).exp()).sum();
            z.iter().map(|z| (z - max).exp() / sum).collect()
        }
        Sparsemax => {
            let (mut sum, mut threshold) = (0.0, 0.0);
            for (j, &z) in (1..).zip(&sorted) {
                sum += z;
                if 1.0 + f64::from(j) * z > sum {
                    threshold = (sum - 1.0) / f64::from(j);
                }
            }
            z.iter().map(|z| (z - max - threshold).max(0.0)).collect()
        }
        Entmax15 => {
            let (mut sum, mut squares, mut threshold) = (0.0, 0.0, 0.0);
            for (j, &z) in (1..).zip(&sorted) {
                (sum, squares) = (sum + z / 2.0, squares + z * z / 4.0);
                let mean = sum / f64::from(j);
                let spread = squares - sum * mean;
                let candidate = mean - ((1.0 - spread) / f64::from(j)).max(0.0).sqrt();
                if candidate <= z / 2.0 {
                    threshold = candidate;
                }
            }
            z.iter().map(|z| ((z - max) / 2.0 - threshold).max(0.0).powi(2)).collect()
        }
        Entmax => {
            let a = alpha - 1.0;
            let of = |distance: f64| z.iter().map(move |z| (distance + a * (z - max)).max(0.0).powf(1.0 / a));
            // The distance of the maximum from the threshold.
            let (mut low, mut high) = (n.powf(-a), 1.0);
            for _ in 0..60 {
                let middle = 0.5 * (low + high);
                *(if of(middle).sum::<f64>() < 1.0 { &mut low } else { &mut high }) = middle;
            }
            let sum: f64 = of(high).sum();
            of(high).map(|p| p / sum).collect()
        }
        Sigmoid => z.iter().map(|z| 1.0 / (1.0 + (n.ln() - z).exp())).collect(),
        Relu => z.iter().map(|z| z.max(0.0) / n).collect(),
        kind => panic!("{kind:?} is not a function of one row of scores"),
    }
}

// ---- weights ---------------------------------------------------------------------------------------------------------

/// Panics unless the weights are those of the definition, and sum to 1 if they should.
fn check_weights(weighting: FusedWeighting, alpha: f32, scores: &[f32]) {
    let found = weights(weighting, alpha, scores);
    let expected = definition(weighting, f64::from(alpha), &wide(scores));
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let error = (f64::from(*found) - expected).abs();
        let tolerance = 1e-6 * if weighting == Relu { expected.max(1.0) } else { 1.0 };
        assert!(
            error <= tolerance,
            "{weighting:?} {alpha}: weight {at} of {} is {found}, not {expected}",
            scores.len()
        );
    }
    if weighting.ignores_common_shift() {
        let sum: f64 = found.iter().map(|&p| f64::from(p)).sum();
        assert!((sum - 1.0).abs() <= 1e-6, "{weighting:?} {alpha}: weights of {} sum to {sum}", scores.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn weights_equal_the_definition(
        seed in any::<u64>(),
        n in 1usize..700,
        scale in prop_oneof![Just(1e-3f32), Just(0.02), Just(1.0 / 3.0), Just(1.0), Just(5.0), Just(100.0), Just(1e4)],
        shift in prop_oneof![Just(0.0f32), -30f32..30.0, Just(1e4), Just(-1e4), Just(1e6)],
        // Rounded to multiples of this, for ties.
        grain in prop_oneof![Just(0.0f32), Just(0.25)],
    ) {
        let scores: Vec<f32> = scores(seed, n, scale)
            .into_iter()
            .map(|z| shift + if grain > 0.0 { (z / grain).round() * grain } else { z })
            .collect();
        for (weighting, alpha) in all() {
            check_weights(weighting, alpha, &scores);
        }
    }

    #[test]
    fn entmax_equals_the_definition_for_any_alpha(
        seed in any::<u64>(), n in 1usize..200, scale in 0.01f32..3.0, alpha in 1.001f32..2.0,
    ) {
        check_weights(Entmax, alpha, &scores(seed, n, scale));
    }
}

/// Rows in which one score has half of the weight and hundreds share the rest: an error of the threshold counts hundredfold.
#[test]
fn many_small_weights_beside_a_large_one_still_sum_to_one() {
    for n in [40, 300, 600] {
        for spread in [0.0, 1e-4, 1e-3] {
            for (weighting, alpha) in NORMALISED {
                let mut row = scores(5, n, spread);
                for lead in [0.1, 0.5, 1.3] {
                    row[n / 3] = lead;
                    check_weights(weighting, alpha, &row);
                }
            }
        }
    }
}

/// Scores that approach the maximum or the threshold geometrically, and scores near the limits of `f32`.
#[test]
fn awkward_rows_equal_the_definition() {
    let geometric = |ratio: f32, n: i32| (0..n).map(|i| -ratio.powi(i)).collect::<Vec<f32>>();
    let mut rows = vec![geometric(0.5, 30), geometric(0.9, 150), geometric(0.99, 690), geometric(0.3, 70)];
    for row in rows.clone() {
        rows.push(row.iter().map(|z| -1.0 - z).collect());
        rows.push(row.iter().map(|z| z * 1e4).collect());
    }
    // Neighbours in f32 that are an eighth apart: with eight at the top, the threshold is at the others.
    for (top, next) in [(1, 40), (5, 15), (7, 500), (8, 300), (9, 300)] {
        rows.push([vec![1.5e6; top], vec![1.5e6 - 0.125; next]].concat());
    }
    rows.push(vec![3e38, -3e38, 0.0, 1e-38]);
    rows.push([3e38, -3e38, 3e38].repeat(40));
    rows.push([1e-40, 0.0, -0.0].repeat(30));
    for row in rows {
        for (weighting, alpha) in NORMALISED {
            check_weights(weighting, alpha, &row);
        }
    }
}

#[test]
fn entmax_agrees_with_its_special_cases() {
    for n in [1, 2, 7, 40, 64, 65, 300, 600] {
        for scale in [0.05, 0.3, 1.0, 4.0] {
            let row = scores(n as u64, n, scale);
            for (special, alpha) in [(Sparsemax, 2.0), (Entmax15, 1.5)] {
                for (a, b) in weights(special, 0.0, &row).iter().zip(weights(Entmax, alpha, &row)) {
                    assert!((a - b).abs() < 2e-6, "{special:?}, {n} scores: {a} and {b}");
                }
            }
            // The limit: they differ by O(alpha - 1).
            for (a, b) in weights(Softmax, 0.0, &row).iter().zip(weights(Entmax, 1.0001, &row)) {
                assert!((a - b).abs() < 1e-3, "softmax, {n} scores: {a} and {b}");
            }
        }
    }
}

#[test]
fn weights_at_the_edges_are_as_documented() {
    let (nan, minus, plus) = (f32::NAN, f32::NEG_INFINITY, f32::INFINITY);
    for (weighting, alpha) in NORMALISED {
        let what = format!("{weighting:?} {alpha}");
        for score in [0.0, -0.0, 3.5, 1e4, -1e4, 1e9, -1e30] {
            assert_eq!(weights(weighting, alpha, &[score]), [1.0], "{what}: a single {score}");
        }
        for n in [2, 15, 16, 17, 40, 64, 65, 100, 600] {
            for score in [0.0, 0.3, 1e4, -1e4, 1e9] {
                for weight in weights(weighting, alpha, &vec![score; n]) {
                    assert!((weight * n as f32 - 1.0).abs() < 1e-6, "{what}: {n} equal scores give {weight}");
                }
            }
            let mut row = scores(9, n, 1e4);
            row[n / 2] = 1e5;
            let expected: Vec<bool> = (0..n).map(|i| i == n / 2).collect();
            let found: Vec<bool> = weights(weighting, alpha, &row).iter().map(|&p| p > 1e-30).collect();
            assert_eq!(found, expected, "{what}: one of {n} is far higher");

            // Minus infinity has no weight, and the others have the same as without it.
            let mut row = scores(10, n, 0.4);
            let removed = n / 3;
            let mut without = row.clone();
            without.remove(removed);
            row[removed] = minus;
            let mut found = weights(weighting, alpha, &row);
            let weight = found.remove(removed);
            assert!(if weighting == Softmax { (0.0..1e-37).contains(&weight) } else { weight == 0.0 }, "{what}");
            for (a, b) in found.iter().zip(weights(weighting, alpha, &without)) {
                assert!((a - b).abs() < 1e-6, "{what}: minus infinity among {n}");
            }

            for undefined in [vec![minus; n], vec![nan; n], vec![plus; n]] {
                assert!(weights(weighting, alpha, &undefined).iter().all(|p| p.is_nan()), "{what}: {undefined:?}");
            }
            for bad in [nan, -nan, plus] {
                for at in [0, n / 2, n - 1] {
                    for scale in [0.3, 30.0] {
                        let mut row = scores(11, n, scale);
                        row[at] = bad;
                        let mut p = row.clone();
                        let statistics = weighting.weigh(alpha, &mut p, &mut Vec::new());
                        assert!(p.iter().all(|p| p.is_nan()), "{what}: {bad} at {at} of {n}: {p:?}");
                        let mut gradients = vec![1.0; n];
                        weighting.weigh_backward(alpha, statistics, &p, &mut gradients);
                        assert!(gradients.iter().all(|g| g.is_nan()), "{what}: gradients with {bad} at {at} of {n}");
                    }
                }
            }
        }
    }
    for weighting in [Sigmoid, Relu] {
        let row = [0.5, nan, minus, 1e4, -1e4, -0.0];
        let mut p = row;
        let statistics = weighting.weigh(1.0, &mut p, &mut Vec::new());
        assert!(p[1].is_nan() && p.iter().filter(|p| p.is_nan()).count() == 1, "{weighting:?}: {p:?}");
        assert_eq!((p[2], p[4]), (0.0, 0.0), "{weighting:?}");
        let mut gradients = [1.0; 6];
        weighting.weigh_backward(1.0, statistics, &p, &mut gradients);
        assert!(gradients[1].is_nan() && gradients.iter().filter(|g| g.is_nan()).count() == 1, "{weighting:?}");
    }
}

#[test]
fn a_common_shift_changes_nothing_where_it_should_not() {
    for (weighting, alpha) in all() {
        // Multiples of 2^-8, so that the shifted scores are exact.
        let row: Vec<f32> = scores(3, 50, 1.0).iter().map(|z| (z * 256.0).round() / 256.0).collect();
        let shifted: Vec<f32> = row.iter().map(|z| z + 12.0).collect();
        let (a, b) = (weights(weighting, alpha, &row), weights(weighting, alpha, &shifted));
        let same = a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert_eq!(same, weighting.ignores_common_shift(), "{weighting:?}");
    }
}

// ---- gradients -------------------------------------------------------------------------------------------------------

#[test]
fn gradients_equal_central_differences() {
    let (mut compared, mut all_entries) = (0, 0);
    for (weighting, alpha) in all() {
        for n in [1, 2, 5, 16, 40, 130, 600] {
            for scale in [0.1, 0.4, 2.0] {
                for seed in 0..2 {
                    let row = scores(100 * n as u64 + seed, n, scale);
                    let incoming = scores(200 * n as u64 + seed, n, 0.5);
                    compared += check_gradients(weighting, alpha, &row, &incoming);
                    all_entries += n.div_ceil(n.div_ceil(10));
                }
            }
        }
    }
    assert!(compared > all_entries * 99 / 100, "only {compared} of {all_entries} were compared");
}

/// Returns how many entries of the gradient were compared: not those where the derivative jumps because a score crosses the
/// threshold.
fn check_gradients(weighting: FusedWeighting, alpha: f32, row: &[f32], incoming: &[f32]) -> usize {
    let what = format!("{weighting:?} {alpha}, {} scores", row.len());
    let mut p = row.to_vec();
    let statistics = weighting.weigh(alpha, &mut p, &mut Vec::new());
    let mut gradients = incoming.to_vec();
    let alpha_gradient = weighting.weigh_backward(alpha, statistics, &p, &mut gradients);

    let (z, exact_alpha, h) = (wide(row), f64::from(alpha), 1e-6);
    let objective = |p: Vec<f64>| p.iter().zip(incoming).map(|(p, g)| p * f64::from(*g)).sum::<f64>();
    let support = |p: &[f64]| -> Vec<bool> { p.iter().map(|&p| p > 0.0).collect() };
    let largest = gradients.iter().fold(1e-3f64, |m, g| m.max(f64::from(g.abs())));
    let mut compared = 0;
    for at in (0..row.len()).step_by(row.len().div_ceil(10)) {
        let moved = |by: f64| {
            let mut z = z.clone();
            z[at] += by;
            definition(weighting, exact_alpha, &z)
        };
        let (above, below) = (moved(h), moved(-h));
        if support(&above) != support(&below) {
            continue;
        }
        let expected = (objective(above) - objective(below)) / (2.0 * h);
        let error = (f64::from(gradients[at]) - expected).abs() / largest;
        assert!(error < 1e-4, "{what}: gradient {at} is {} instead of {expected}", gradients[at]);
        compared += 1;
    }

    if weighting == Entmax {
        let h = 1e-5 * (exact_alpha - 1.0);
        let moved = |by: f64| objective(definition(weighting, exact_alpha + by, &z));
        let expected = (moved(h) - moved(-h)) / (2.0 * h);
        let error = (f64::from(alpha_gradient) - expected).abs() / expected.abs().max(0.1);
        assert!(error < 1e-3, "{what}: gradient of alpha is {alpha_gradient} instead of {expected}");
    } else {
        assert_eq!(alpha_gradient, 0.0, "{what}");
    }
    compared
}

// ---- instruction sets ------------------------------------------------------------------------------------------------

/// Everything that forward and backward of all weightings give, as bits.
fn all_bits() -> Vec<u32> {
    let mut bits = Vec::new();
    let mut scratch = Vec::new();
    for (weighting, alpha) in all() {
        for n in (1..70).chain([100, 128, 129, 333, 600]) {
            for scale in [0.0, 0.1, 0.4, 2.0, 1e4] {
                let mut p = scores(n as u64, n, scale);
                if n > 20 {
                    (p[n / 2], p[n / 3]) = (f32::NEG_INFINITY, -0.0);
                }
                let statistics = weighting.weigh(alpha, &mut p, &mut scratch);
                let mut gradients = scores(7 + n as u64, n, 1.0);
                let alpha_gradient = weighting.weigh_backward(alpha, statistics, &p, &mut gradients);
                bits.extend(p.iter().chain(&gradients).chain(&statistics).map(|v| v.to_bits()));
                bits.push(alpha_gradient.to_bits());
            }
        }
    }
    bits
}

/// The choice of the instruction set holds for the whole process. The other tests do not mind: that is what this one shows.
#[test]
fn instruction_sets_do_not_change_a_bit() {
    let best = InstructionSet::current();
    let expected = all_bits();
    for set in InstructionSet::available() {
        set.force();
        assert!(all_bits() == expected, "{set:?} against {best:?}");
    }
    best.force();
}
