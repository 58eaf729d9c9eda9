//! A stored model, the donor, whose scores say which keys another model keeps: see [`Mechanism::donor_keys`].
//!
//! The donor reads the same tokens as the model and runs with its own weights, mechanism and layer inputs, in evaluation and on the
//! CPU, so that its choice depends on the tokens alone.
//!
//! [`Mechanism::donor_keys`]: crate::Mechanism::donor_keys

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};
use semfocus_kernels::{KeptKeys, ObservedRow, Row, RowObserver, RowRule, TopKRule};

use crate::block_attentions::BlockAttentions;
use crate::model::{Encoder, Pass};

/// Ranks the keys of every query by the scores of a model.
struct Ranking {
    /// How many keys are ranked.
    count: usize,
}

impl RowObserver for Ranking {
    /// The highest keys of every head and query, the best one first.
    type Observation = Vec<Vec<u32>>;

    fn begin(&self, _sequence: usize) -> Self::Observation {
        Vec::new()
    }

    fn row(&self, rows: &mut Self::Observation, row: &ObservedRow<'_>) {
        let mut keys = Vec::with_capacity(self.count);
        TopKRule::highest(self.count).select(&Row::of_scores(row.scores), &mut keys);
        let score = |key: u32| row.scores[key as usize] + 0.0; // -0 is equal to +0
        keys.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
        rows.push(keys);
    }
}

/// How many keys of the donor the mechanism of each of so many blocks asks for, if any does.
pub(crate) fn asked(attention: &BlockAttentions, blocks: usize) -> Option<Vec<Option<usize>>> {
    let asked = attention.for_blocks(blocks, |attention| attention.mechanism.donor_keys());
    asked.iter().any(Option::is_some).then_some(asked)
}

/// The keys with the highest scores of `donor` in each layer: head after head, sequence after sequence, `asked` of each query. Empty
/// for layers that do not ask.
pub(crate) fn kept_keys(
    donor: &Encoder,
    ids: &[usize],
    length: usize,
    asked: &[Option<usize>],
) -> Vec<Arc<[KeptKeys]>> {
    let count = asked.iter().flatten().copied().max().unwrap_or(1);
    let ids: Vec<i64> = ids.iter().map(|&id| id as i64).collect();
    let tokens = TensorData::new(ids.clone(), [ids.len() / length, length]);
    let tokens = Tensor::<2, Int>::from_data(tokens, &donor.embedding.val().device());
    // Nothing of a donor depends on the pass.
    let (_, layers) = donor.forward_observed(tokens, Pass::evaluation(0, 0), &Ranking { count });
    let of_head = |rows: &[Vec<u32>], count: usize| {
        KeptKeys::from_rows(length, |query| {
            let mut keys: Vec<usize> = rows[query].iter().take(count).map(|&key| key as usize).collect();
            keys.sort_unstable();
            keys
        })
    };
    let of_layer = |(layer, asked): (crate::ObservedLayer<Vec<Vec<u32>>>, &Option<usize>)| match *asked {
        Some(count) => {
            layer.sequences.iter().flat_map(|rows| rows.chunks(length)).map(|rows| of_head(rows, count)).collect()
        }
        None => Arc::new([]) as Arc<[KeptKeys]>,
    };
    layers.into_iter().zip(asked).map(of_layer).collect()
}

/// Why a model cannot have another one as its donor.
pub(crate) fn misfit(model: &Encoder, donor: &Encoder) -> Option<String> {
    let (of_model, of_donor) = (model.config(), donor.config());
    let numbers = [
        ("blocks", of_donor.blocks, of_model.blocks),
        ("heads", of_donor.heads, of_model.heads),
        ("token ids", of_donor.vocabulary, of_model.vocabulary),
        ("global tokens", donor.attention().globals(), model.attention().globals()),
    ];
    if let Some((what, donor, model)) = numbers.into_iter().find(|(_, donor, model)| donor != model) {
        return Some(format!("it has {donor} {what}, and the model has {model}"));
    }
    if of_donor.visibility != of_model.visibility {
        return Some("its queries see other keys (`model.visibility`)".to_owned());
    }
    if of_donor.quirks.pad_to_mask_multiple {
        return Some("it pads its sequences (`quirks.pad_to_mask_multiple`)".to_owned());
    }
    asked(donor.attention(), of_donor.blocks).map(|_| "it needs a donor itself".to_owned())
}
