//! How much arithmetic a model needs, and how fast this machine does arithmetic.
//!
//! Operations are counted by the definition of the model, not by what the implementation does: multiplications and additions in
//! matrix products and attention. Norms, activations, softmax and dropout are not counted.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor};
use semfocus_core::ModelConfig;
use semfocus_kernels::{Row, RuleScores, Selection};

use crate::block_attentions::BlockAttentions;
use crate::mechanism::Mechanism;
use crate::registry::Attention;
use crate::weighting::Weighting;

/// Floating-point operations for one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flops {
    /// For the forward pass.
    pub evaluation: f64,
    /// For the forward pass and both products of every gradient.
    pub training: f64,
}

/// Pairs of a query and a key at most that a rule is tried on, to count what it keeps.
const MAX_COUNTED: usize = 4096 * 4096;

/// Operations for one sequence of `length` tokens, global tokens included, that asks `questions` questions.
///
/// A mechanism that looks at the scores needs all of them once, to choose; everything else is needed for kept pairs only. A
/// mechanism without a [`Selection`], or whose weighting involves dropped keys, is counted as if it kept every pair.
pub fn flops(config: &ModelConfig, attention: &BlockAttentions, length: usize, questions: f64) -> Flops {
    let one = |attention: &Attention| Flops::of_block(config, attention.mechanism.as_ref(), length);
    let head = questions * config.d_model as f64 * config.classes as f64;
    let (evaluation, training) = match attention.attentions() {
        [single] => {
            let (blocks, of) = (config.blocks as f64, one(single));
            (blocks * of.evaluation, blocks * of.training)
        }
        several => several.iter().map(one).fold((0.0, 0.0), |sum, of| (sum.0 + of.evaluation, sum.1 + of.training)),
    };
    // A multiplication and an addition each. The gradient of a product is two products.
    Flops { evaluation: 2.0 * (evaluation + head), training: 2.0 * (training + 3.0 * head) }
}

impl Flops {
    /// Multiplications of a block for one sequence.
    fn of_block(config: &ModelConfig, mechanism: &dyn Mechanism, length: usize) -> Self {
        let (d, heads_width) = (config.d_model as f64, (config.heads * config.head_width()) as f64);
        let all_pairs = (0..length).map(|query| config.visibility.keys(query, length)).sum::<usize>() as f64;
        let involves_all = matches!(mechanism.weighting(), Weighting::Known(kind) if kind.involves_dropped_keys());
        let (kept_pairs, pairs_to_choose_from) = match mechanism.selection(length) {
            _ if involves_all => (all_pairs, 0.0),
            None | Some(Selection::All) => (all_pairs, 0.0),
            Some(Selection::Pattern(kept)) => (kept.visible(config.visibility).pairs() as f64, 0.0),
            Some(Selection::Rule(rule)) => {
                let (mut kept, zeros, tokens) = (Vec::new(), vec![0.0; length], vec![0; length]);
                // In long sequences, some queries stand for all.
                let stride = (length * length).div_ceil(MAX_COUNTED).max(1);
                for query in (0..length).step_by(stride) {
                    let visible = config.visibility.keys(query, length);
                    let row = Row { query, tokens: &tokens, ..Row::of_scores(&zeros[..visible]) };
                    rule.select(&row, &mut kept);
                }
                let share = length.div_ceil(stride).max(1) as f64 / length.max(1) as f64;
                (kept.len() as f64 / share, if rule.scores() == RuleScores::None { 0.0 } else { all_pairs })
            }
        };
        // Query, key, value, output; two maps of the MLP.
        let maps = length as f64 * (4.0 * d * heads_width + 2.0 * d * config.d_mlp as f64);
        let weighted_values = kept_pairs * heads_width;
        let (kept_scores, choice) = match pairs_to_choose_from {
            0.0 => (kept_pairs * heads_width, 0.0),
            pairs => (0.0, pairs * heads_width),
        };
        // Scores that only served the choice have no gradient, kept ones have.
        let kept_score_gradients = 2.0 * kept_pairs * heads_width;
        Flops {
            evaluation: maps + weighted_values + kept_scores + choice,
            training: 3.0 * (maps + weighted_values) + kept_scores + choice + kept_score_gradients,
        }
    }
}

/// Speed of single-precision matrix products through Burn on `device`, in GFLOP/s: the baseline for the speed of a model. On
/// Burn's CPU backend it is the speed of the `gemm` crate; the bench `gemm` of `semfocus-kernels` measures that without Burn.
///
/// Every thread of the current pool multiplies matrices of its own; the best shape counts. Takes about two seconds.
pub fn matmul_gflops(device: &Device) -> f64 {
    // All below 192³ multiplications, where Burn's CPU backend computes a product on the calling thread, and most of them deep,
    // so that what Burn adds for each product is small compared with the product.
    let shapes = [(1000, 64, 64), (192, 192, 190), (128, 128, 400), (48, 128, 1100)];
    shapes.into_iter().map(|shape| gflops(shape, device)).fold(0.0, f64::max)
}

/// The best of many short rounds, so that other work on the machine spoils few of them.
fn gflops((m, n, k): (usize, usize, usize), device: &Device) -> f64 {
    let flops = (2 * m * n * k) as f64;
    let repeats = (5e7 / flops).ceil() as usize;
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed() < Duration::from_millis(500) {
        let seconds = rayon::broadcast(|_| {
            let (a, b) = (Tensor::<2>::full([m, k], 0.5, device), Tensor::<2>::full([k, n], 0.25, device));
            let product = || std::hint::black_box(a.clone().matmul(b.clone()));
            product();
            let start = Instant::now();
            (0..repeats).for_each(|_| drop(product()));
            start.elapsed().as_secs_f64()
        });
        best = best.min(seconds.into_iter().fold(0.0, f64::max));
    }
    flops * (repeats * rayon::current_num_threads()) as f64 / best / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn counts_agree_with_a_count_by_hand() {
        let mut config = ModelConfig::new(2, 2);
        (config.d_model, config.d_mlp, config.blocks) = (4, 8, 1);
        let asked =
            |name: &str, questions| flops(&config, &Registry::standard().parse(name).unwrap().into(), 10, questions);
        let count = |name: &str| asked(name, 1.0);
        // Maps: 10 tokens × (4·4·4 + 2·4·8) = 1280; head 8; a pair costs 4 in a product.
        let full = count("full");
        assert_eq!(full.evaluation, 2.0 * (1280.0 + 8.0 + 2.0 * 100.0 * 4.0));
        assert_eq!(full.training, 3.0 * full.evaluation);
        assert_eq!(asked("full", 10.0).evaluation - full.evaluation, 2.0 * 9.0 * 8.0);
        let banded = count("banded:3");
        assert_eq!(banded.evaluation, 2.0 * (1280.0 + 8.0 + 2.0 * 30.0 * 4.0));
        assert_eq!(banded.training, 3.0 * banded.evaluation);
        let topk = count("topk:3");
        assert_eq!(topk.evaluation, 2.0 * (1280.0 + 8.0 + 30.0 * 4.0 + 100.0 * 4.0));
        assert_eq!(topk.training, 2.0 * (3.0 * (1280.0 + 8.0 + 30.0 * 4.0) + 100.0 * 4.0 + 2.0 * 30.0 * 4.0));
    }
}
