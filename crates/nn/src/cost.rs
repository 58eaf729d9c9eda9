//! Arithmetic that a model asks for, by its definition and whatever the implementation does: multiplications and
//! additions in matrix products and attention. Norms, activations, softmax and dropout are not counted.

use semfocus_kernels::Key;

use crate::config::ModelConfig;
use crate::mechanism::{FastForm, Mechanism};

/// Floating-point operations for one sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flops {
    /// Evaluating it.
    pub evaluation: f64,
    /// A training step's share of it: forward and both products of every gradient.
    pub training: f64,
}

/// Operations for one sequence of `length` tokens, global tokens included.
///
/// A mechanism that looks at the scores needs all of them once, to choose; everything else it needs for kept pairs only.
/// One without a fast form is counted as if it kept every pair.
pub fn flops(config: &ModelConfig, mechanism: &dyn Mechanism, length: usize) -> Flops {
    let (d, heads_width) = (config.d_model as f64, (config.heads * config.head_width()) as f64);
    let all_pairs = (length * length) as f64;
    let (kept_pairs, pairs_to_choose_from) = match mechanism.fast(length) {
        None | Some(FastForm::All) => (all_pairs, 0.0),
        Some(FastForm::Pattern(kept)) => (kept.pairs() as f64, 0.0),
        Some(FastForm::Rule(rule)) => {
            let mut kept = Vec::new();
            rule.select(Key::new(0), &vec![0.0; length], &mut kept);
            ((kept.len() * length) as f64, all_pairs)
        }
    };
    // Query, key, value, output; two maps of the MLP.
    let maps = length as f64 * (4.0 * d * heads_width + 2.0 * d * config.d_mlp as f64);
    let weighted_values = kept_pairs * heads_width;
    let (kept_scores, choice) = match pairs_to_choose_from {
        0.0 => (kept_pairs * heads_width, 0.0),
        pairs => (0.0, pairs * heads_width),
    };
    let blocks = config.blocks as f64;
    let classifier = d * config.classes as f64;
    // A multiplication and an addition each.
    let evaluation = 2.0 * (blocks * (maps + weighted_values + kept_scores + choice) + classifier);
    // The gradient of a product is two products; scores that only served the choice have none, kept ones have.
    let kept_score_gradients = 2.0 * kept_pairs * heads_width;
    let training = 2.0
        * (blocks * (3.0 * (maps + weighted_values) + kept_scores + choice + kept_score_gradients) + 3.0 * classifier);
    Flops { evaluation, training }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;

    #[test]
    fn counts_agree_with_a_count_by_hand() {
        let mut config = ModelConfig::new(2, 2);
        (config.d_model, config.d_mlp, config.blocks) = (4, 8, 1);
        let count = |name: &str| flops(&config, Registry::standard().parse(name).unwrap().mechanism.as_ref(), 10);
        // Maps: 10 tokens × (4·4·4 + 2·4·8) = 1280; classifier 8; a pair costs 4 in a product.
        let full = count("full");
        assert_eq!(full.evaluation, 2.0 * (1280.0 + 8.0 + 2.0 * 100.0 * 4.0));
        assert_eq!(full.training, 3.0 * full.evaluation);
        let banded = count("banded:3");
        assert_eq!(banded.evaluation, 2.0 * (1280.0 + 8.0 + 2.0 * 30.0 * 4.0));
        assert_eq!(banded.training, 3.0 * banded.evaluation);
        let topk = count("topk:3");
        assert_eq!(topk.evaluation, 2.0 * (1280.0 + 8.0 + 30.0 * 4.0 + 100.0 * 4.0));
        assert_eq!(topk.training, 2.0 * (3.0 * (1280.0 + 8.0 + 30.0 * 4.0) + 100.0 * 4.0 + 2.0 * 30.0 * 4.0));
    }
}
