//! How much memory a trial needs, by estimate.

use semfocus_core::{ModelConfig, PositionKind, TrialSettings};
use semfocus_nn::{Attention, BlockAttentions, SMALL_HEAD, Selection};

use semfocus_tasks::Source;
use semfocus_tasks::text::Form;

use crate::Trial;

/// Parameters of a model, without those that its mechanism may learn, which are few.
pub fn parameters(model: &ModelConfig, globals: usize) -> u64 {
    let ModelConfig { vocabulary, classes, d_model, d_mlp, heads, blocks, length, .. } = model;
    let [d, hidden, inner] = [*d_model, *d_mlp, heads * model.head_width()].map(|size| size as u64);
    let norm = if model.affine_norms { 2 * d } else { 0 };
    let attention = norm + 3 * (d + 1) * inner + (inner + 1) * d;
    let mlp = if hidden > 0 { norm + (d + 1) * hidden + (hidden + 1) * d } else { 0 };
    let positions = if model.positions == PositionKind::Learned { (length + globals) as u64 * d } else { 0 };
    let last_norm = if model.final_norm { norm } else { 0 };
    let classifier = (if model.tied { 1 } else { d + 1 }) * *classes as u64;
    let embedding = (vocabulary + globals) as u64 * d;
    embedding + positions + *blocks as u64 * (attention + mlp) + last_norm + classifier
}

/// Bytes that training of a trial needs at most, about: the data, the parameters with their gradients and the state of the
/// optimiser, and what a step keeps for its backward pass on each of `threads` threads.
pub fn needed(trial: &Trial, threads: usize) -> u64 {
    /// Sums of gradients are formed side by side in this many parts.
    const PARTIAL_SUMS: u64 = 8;
    let TrialSettings { data, model, training, .. } = &trial.settings;
    let attention = &trial.attention;
    let length = trial.source.length(data) + attention.globals();
    let [rows, width, hidden, heads, inner] =
        [length, model.d_model, model.d_mlp, model.heads, model.heads * model.head_width()].map(|size| size as u64);
    let sizes = trial.sizes;
    let questions = match trial.source.as_ref() {
        Source::Text(text) if text.settings.form == Form::Causal => rows,
        _ => 1,
    };
    let examples = (sizes.train + sizes.held_out + sizes.test) as u64 * (rows * 4 + questions * 16);
    let all = parameters(model, attention.globals());
    let ends = all - parameters(&ModelConfig { vocabulary: 0, classes: 0, length: 0, ..model.clone() }, 0);
    let slots = training.optimizer.slot_names().len() as u64;
    // Weights, a copy while they are updated, gradients, and the bytes of a checkpoint; of the head, copies for products.
    let copies = all * (5 + 2 * slots) + 3 * ends + if model.tied { 3 * width * model.classes as u64 } else { 0 };
    // The table has sums for the tokens that occur, and a head of many classes sums once for all.
    let tokens = (model.vocabulary as u64).min(training.batch as u64 * rows / PARTIAL_SUMS + 1);
    let small_head = if model.classes <= SMALL_HEAD { (width + 1) * model.classes as u64 } else { 0 };
    let positions = if model.positions == PositionKind::Learned { rows * width } else { 0 };
    let sums = PARTIAL_SUMS * (all - ends + tokens * width + positions + small_head);
    let step = |attention: &BlockAttentions| {
        let block = |attention: &Attention| {
            let selection = attention.mechanism.selection(length);
            let pairs = match &selection {
                None | Some(Selection::All) => rows * rows,
                // Some fixed number of keys for each query, with scores of a whole row at a time.
                Some(_) => rows * 64,
            };
            (rows * (8 * width + 2 * hidden + 5 * inner) + heads * pairs, selection.is_some())
        };
        let blocks: Vec<(u64, bool)> = attention.attentions().iter().map(block).collect();
        let largest = blocks.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
        let all =
            if let [(bytes, _)] = blocks[..] { model.blocks as u64 * bytes } else { blocks.iter().map(|b| b.0).sum() };
        let is_fused = blocks.iter().all(|(_, is_fast)| *is_fast) && model.engine == semfocus_core::Engine::Fused;
        // The fused step takes one sequence after the other; tensor code takes the batch as a whole, and keeps every
        // intermediate result.
        let (sequences, intermediate) = if is_fused { (threads as u64, 1) } else { (training.batch as u64, 4) };
        (all + largest) * sequences * intermediate
    };
    let step = attention.all().map(step).max().unwrap_or(0);
    examples.saturating_add(4 * (copies + sums)).saturating_add(4 * step)
}

#[cfg(test)]
mod tests {
    use semfocus_core::{Experiment, Request};
    use semfocus_nn::Encoder;
    use semfocus_nn::parameters::named_parameters;
    use semfocus_store::Checkpoint;

    use super::*;
    use crate::{Device, Lab};

    fn trial(overrides: &[&str]) -> Trial {
        let lab = Lab::standard();
        let overrides = overrides.iter().map(|&text| text.to_owned()).collect();
        let request = Request { experiment: "even-pairs".to_owned(), overrides, ..Request::default() };
        lab.plan(&Experiment::resolve(&request, &lab).unwrap()).unwrap().trials.remove(0)
    }

    #[test]
    fn parameters_are_those_of_the_model() {
        let lab = Lab::standard();
        for overrides in [
            &["training.optimizer=adam"][..],
            &["model.heads=3", "model.d_head=5", "model.d_mlp=7", "model.d_model=11"],
            &["model.blocks=0", "task=listops"],
            &["model.positions=learned", "model.d_mlp=0", "model.final_norm=true"],
            &["model.tied=true", "model.affine_norms=true", "model.d_mlp=7"],
            &["model.final_norm=true", "model.affine_norms=true", "model.positions=none"],
        ] {
            for mechanism in ["full", "banded:3+g2"] {
                let settings = trial(overrides).settings;
                let model = settings.model.clone();
                let attention = lab.attention(mechanism).unwrap();
                let expected = parameters(&model, attention.spec.globals);
                let encoder = Encoder::new(model, attention, 1, &Device::cpu().plain()).unwrap();
                let counted: usize = named_parameters(&encoder).iter().map(|(_, data)| data.num_elements()).sum();
                assert_eq!(counted as u64, expected, "{overrides:?} {mechanism}");
                let copies = 1 + settings.training.optimizer.slot_names().len() as u64;
                assert!(4 * copies * expected <= Checkpoint::max_size(&settings), "{overrides:?} {mechanism}");
            }
        }
    }

    #[test]
    fn what_is_larger_needs_more() {
        let bytes = |overrides: &[&str]| needed(&trial(overrides), 1);
        let usual = bytes(&[]);
        assert!((1_000_000..100_000_000).contains(&usual), "{usual}");
        for larger in ["model.d_model=65536", "data.length=100000", "model.engine=reference", "data.train=10000000"] {
            assert!(bytes(&[larger]) > 2 * usual, "{larger}: {}", bytes(&[larger]));
        }
        assert!(bytes(&["model.d_model=65536", "model.d_mlp=65536"]) > 100_000_000_000);
    }
}
