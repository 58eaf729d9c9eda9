//! The model in plain, differentiable tensor code: the definition that the fused operators must agree with. Runs on any device, in
//! f32 or f64.

use burn::tensor::{Int, Tensor, TensorData, activation, module};
use semfocus_core::{Activation, At, Question, Questions, Target};
use semfocus_kernels::{Dropout, FusedWeighting, Key, RuleScores};

use crate::context::{InitialMaps, site};
use crate::input::TokenRows;
use crate::mechanism::HeadTensors;
use crate::sublayer::{AttentionSettings, AttentionSublayer, BlockSublayers, Embedding, MlpSublayer, NORM_EPSILON};
use crate::trace::{AttentionTrace, LayerTrace, min_deviation};
use crate::weighting::{Content, Weighting};
use crate::weights::{HeadLayer, Norm};

/// `drop(scale · table[token] + position)` for `tokens` of `[batch, length]`.
pub fn embedding(tokens: &TokenRows, embedding: Embedding) -> Tensor<3> {
    let Embedding { table, positions, scale, dropout, site } = embedding;
    let ids: Vec<i64> = tokens.ids.iter().map(|&id| id as i64).collect();
    let ids = TensorData::new(ids, [tokens.sequences, tokens.length]);
    let tokens = Tensor::<2, Int>::from_data(ids, &table.device());
    let x = module::embedding(table, tokens).mul_scalar(scale).add(positions.unsqueeze()); // [batch, length, d_model]
    self::dropout(x, &dropout, site)
}

/// The rows after the last of `blocks` for the input `x` of the first, `[batch, length, d_model]`, and what each block did.
pub fn blocks(mut x: Tensor<3>, blocks: &[BlockSublayers<'_>]) -> (Tensor<3>, Vec<LayerTrace>) {
    let mut layers = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (attended, attention) = self::attention(x.clone(), &block.attention);
        layers.push(LayerTrace { attention, min_deviations: [min_deviation(&x), min_deviation(&attended)] });
        x = match &block.mlp {
            Some(sublayer) => mlp(attended, sublayer),
            None => attended,
        };
    }
    (x, layers)
}

/// The logits `[rows, classes]` of rows that questions ask at, `[rows, d_model]`.
pub fn head(rows: Tensor<2>, head: &HeadLayer<'_>) -> Tensor<2> {
    let rows = if head.normalises { norm(rows, NORM_EPSILON, head.norm) } else { rows };
    head.map.forward_rows(rows)
}

/// The rows of `x`, `[batch, length, d_model]`, that questions ask at: `[questions, d_model]`.
///
/// # Panics
/// If there is no question.
pub fn asked_rows(x: Tensor<3>, questions: &Questions) -> Tensor<2> {
    let [batch, length, d_model] = x.dims();
    let device = x.device();
    let at_mean = |question: &Question| question.at == At::Mean;
    let (any_mean, any_token) = (questions.all().iter().any(at_mean), !questions.all().iter().all(at_mean));
    // The means of all sequences, or all tokens, or both.
    let means = any_mean.then(|| x.clone().mean_dim(1).squeeze_dim(1)); // [batch, d_model]
    let tokens = any_token.then(|| x.reshape([batch * length, d_model]));
    let first_token = if any_mean { batch } else { 0 };
    let rows = Tensor::cat([means, tokens].into_iter().flatten().collect(), 0);
    let row = |sequence: usize, question: &Question| match question.at {
        At::Mean => sequence,
        At::Token(t) => first_token + sequence * length + t as usize,
    };
    let asked = (0..batch).flat_map(|sequence| questions.of_sequence(sequence).iter().map(move |q| row(sequence, q)));
    let asked: Vec<usize> = asked.collect();
    if asked.iter().copied().eq(0..rows.dims()[0]) {
        return rows;
    }
    let asked: Vec<i64> = asked.into_iter().map(|row| row as i64).collect();
    let count = asked.len();
    rows.select(0, Tensor::from_data(TensorData::new(asked, [count]), &device))
}

/// Mean cross-entropy of `logits`, `[questions, classes]`, by the weights of the questions: `−Σ weight · ln p(target) / Σ weight`,
/// and 0 if all weights are 0.
pub fn loss(logits: Tensor<2>, questions: &Questions) -> Tensor<1> {
    let [count, classes] = logits.dims();
    let (device, precision) = (logits.device(), logits.dtype());
    let asked = questions.all();
    let log_probabilities = activation::log_softmax(logits, 1);
    let of_targets = if asked.iter().any(|question| matches!(question.target, Target::Soft(_))) {
        let shares = asked.iter().flat_map(|question| match question.target {
            Target::Class(class) => {
                (0..classes).map(|other| f32::from(u8::from(other == usize::from(class)))).collect()
            }
            Target::Soft(row) => questions.distribution(row).to_vec(),
        });
        let shares = TensorData::new(shares.collect::<Vec<f32>>(), [count, classes]);
        log_probabilities.mul(Tensor::from_data(shares, (&device, precision))).sum_dim(1)
    } else {
        let classes: Vec<i64> =
            asked.iter().map(|question| i64::from(questions.correct_class(question.target))).collect();
        log_probabilities.gather(1, Tensor::from_data(TensorData::new(classes, [count, 1]), &device))
    }; // [questions, 1]
    let weights: Vec<f32> = asked.iter().map(|question| question.weight).collect();
    let weights = Tensor::<2>::from_data(TensorData::new(weights, [count, 1]), (&device, precision));
    let total = Some(questions.total_weight()).filter(|total| *total > 0.0).unwrap_or(1.0);
    // By a tensor: Burn's gradient of a division by a scalar has single precision in any model.
    let total = Tensor::<1>::from_data(TensorData::new(vec![total], [1]), (&device, precision));
    of_targets.mul(weights).sum().div(total).neg()
}

/// `x + drop(attention(norm(x)))` for `x` of `[batch, length, d_model]`, and its scores, kept keys and weights.
pub fn attention(x: Tensor<3>, sublayer: &AttentionSublayer<'_>) -> (Tensor<3>, AttentionTrace) {
    let AttentionSublayer { mechanism, weights, settings, context } = sublayer;
    let [batch, length, _] = x.dims();
    let AttentionSettings { heads, d_head, .. } = *settings;
    let split_heads = |t: Tensor<3>| t.reshape([batch, length, heads, d_head]).swap_dims(1, 2);
    let shape = settings.shape(length, &x.device(), x.dtype());
    let HeadTensors { temperature, alpha } = mechanism.head_scalars(weights.learned(), &shape);
    let per_head = |scalars: Tensor<1>| scalars.reshape([1, heads, 1, 1]);

    let plain = layer_norm(x.clone(), settings.norm_epsilon); // [batch, length, d_model]
    let normed = affine(plain.clone(), weights.norm.as_ref());
    let query = split_heads(weights.query.forward(normed.clone())); // [batch, heads, queries, d_head]
    let key = split_heads(weights.key.forward(normed.clone())); // [batch, heads, keys, d_head]
    let value = split_heads(weights.value.forward(normed.clone())); // [batch, heads, keys, d_head]

    let content = Content { query: query.clone(), key: key.clone(), scale: settings.score_scale() };
    let mut scores = query.matmul(key.swap_dims(2, 3)).mul_scalar(settings.score_scale()); // [batch, heads, queries, keys]
    if let Some(temperature) = temperature {
        scores = scores.mul(per_head(temperature));
    }
    let choice_scores = match mechanism.scores() {
        RuleScores::None | RuleScores::Own => scores.clone(),
        RuleScores::NextExample => {
            let next = (0..batch as i64).map(|sequence| (sequence + 1) % batch as i64).collect::<Vec<_>>();
            scores.clone().select(0, Tensor::from_data(TensorData::new(next, [batch]), &scores.device()))
        }
        RuleScores::InitialMaps => {
            let maps = context.initial_maps.as_ref().expect("a mechanism that asks for the initial maps is given them");
            let [query, key] = initial_projections(maps, plain).map(split_heads);
            query.matmul(key.swap_dims(2, 3)).mul_scalar(settings.score_scale())
        }
    };
    let kept = context.only_visible(mechanism.keep_by_content(&choice_scores, &content, context), &scores);
    let alpha = alpha.unwrap_or_else(|| Tensor::full([heads], 1.5, (&scores.device(), scores.dtype())));
    let weighting = mechanism.weighting();
    let attention = weighting.weights(scores.clone(), kept.clone(), per_head(alpha), &content, context);
    // The gradient says nothing about which keys have a weight.
    let is_dense = matches!(weighting, Weighting::Known(FusedWeighting::GradientOfKept));
    let kept = match is_dense {
        true => context.visible(&scores),
        false if weighting.is_softmax() => kept,
        // Other weightings can drop keys, too.
        false => kept.bool_and(attention.clone().not_equal_elem(0.0)),
    };
    let (visibility, follows_scores) = (context.visibility, weighting.follows_scores());
    let trace = AttentionTrace { scores, kept, weights: attention.clone(), visibility, follows_scores };

    let attention = dropout(attention, &settings.weight_dropout, context.key.child(site::ATTENTION_WEIGHTS));
    let mixed = attention.matmul(value).swap_dims(1, 2).reshape([batch, length, heads * d_head]);
    let output = weights.output.forward(mixed); // [batch, length, d_model]
    let output = dropout(output, &settings.output_dropout, context.key.child(site::ATTENTION_OUTPUT));
    (x.add(output), trace)
}

/// Queries and keys by the maps before training, `[batch, length, heads · d_head]` each. Norms neither scale nor shift then.
fn initial_projections(maps: &InitialMaps, normed: Tensor<3>) -> [Tensor<3>; 2] {
    let [batch, length, width] = normed.dims();
    let place = (&normed.device(), normed.dtype());
    [&maps.query, &maps.key].map(|[weight, bias]| {
        let outputs = bias.len();
        let weight = Tensor::<2>::from_data(TensorData::new(weight.clone(), [width, outputs]), place);
        let bias = Tensor::<1>::from_data(TensorData::new(bias.clone(), [outputs]), place);
        let rows = normed.clone().reshape([batch * length, width]).matmul(weight).add(bias.unsqueeze());
        rows.reshape([batch, length, outputs])
    })
}

/// `x + drop(mlp(norm(x)))` for `x` of `[batch, length, d_model]`.
pub fn mlp(x: Tensor<3>, sublayer: &MlpSublayer<'_>) -> Tensor<3> {
    let MlpSublayer { weights, settings, key } = sublayer;
    let normed = norm(x.clone(), settings.norm_epsilon, weights.norm.as_ref());
    let hidden = weights.hidden.forward(normed); // [batch, length, d_mlp]
    let hidden = dropout(hidden, &settings.hidden_dropout, key.child(site::MLP_HIDDEN));
    let output = weights.output.forward(activate(hidden, settings.activation)); // [batch, length, d_model]
    x.add(dropout(output, &settings.output_dropout, key.child(site::MLP_OUTPUT)))
}

/// Layer norm over the last dimension, with scale and shift if they are learned.
fn norm<const D: usize>(x: Tensor<D>, epsilon: f64, learned: Option<&Norm>) -> Tensor<D> {
    affine(layer_norm(x, epsilon), learned)
}

fn affine<const D: usize>(normed: Tensor<D>, learned: Option<&Norm>) -> Tensor<D> {
    match learned {
        Some(norm) => norm.apply(normed),
        None => normed,
    }
}

/// Layer norm over the last dimension, without learned scale and shift.
fn layer_norm<const D: usize>(x: Tensor<D>, epsilon: f64) -> Tensor<D> {
    let centred = x.clone().sub(x.mean_dim(D - 1));
    let variance = centred.clone().square().mean_dim(D - 1); // of the population: divided by the width
    centred.div(variance.add_scalar(epsilon).sqrt())
}

/// Applies the activation of the MLP to every value.
pub fn activate(x: Tensor<3>, activation: Activation) -> Tensor<3> {
    match activation {
        Activation::Relu => activation::relu(x),
        Activation::Gelu => {
            let probability = x.clone().mul_scalar(std::f64::consts::FRAC_1_SQRT_2).erf().add_scalar(1.0);
            x.mul(probability).mul_scalar(0.5)
        }
        Activation::Mish => x.clone().mul(softplus(x).tanh()),
    }
}

/// `ln(1 + eˣ) = max(x, 0) + ln(1 + e^−|x|)`: the exponent is never positive, so nothing overflows.
fn softplus(x: Tensor<3>) -> Tensor<3> {
    activation::relu(x.clone()).add(x.abs().neg().exp().log1p())
}

/// Multiplies with the dropout factors of `site`: one row for every position before the last dimension.
fn dropout<const D: usize>(x: Tensor<D>, dropout: &Dropout, site: Key) -> Tensor<D> {
    if dropout.is_none() {
        return x;
    }
    let shape = x.dims();
    let columns = shape[D - 1];
    let rows = shape[..D - 1].iter().product();
    let factors = TensorData::new(dropout.mask(site, rows, columns), shape);
    let factors = Tensor::<D>::from_data(factors, (&x.device(), x.dtype()));
    x.mul(factors)
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device};

    use super::*;

    fn row(values: &[f64]) -> Tensor<3> {
        let data = TensorData::new(values.to_vec(), [1, 1, values.len()]);
        Tensor::from_data(data, (&Device::flex(), DType::F64))
    }

    fn values(x: Tensor<3>) -> Vec<f64> {
        x.into_data().iter::<f64>().collect()
    }

    #[test]
    fn norm_divides_by_the_population_deviation() {
        // Mean 2.5, squared deviations 2.25, 0.25, 0.25, 2.25: variance 1.25.
        let normed = values(layer_norm(row(&[1.0, 2.0, 3.0, 4.0]), 0.0));
        let expected = [-1.5, -0.5, 0.5, 1.5].map(|x: f64| x / 1.25f64.sqrt());
        assert!(normed.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15), "{normed:?}");
        // A constant row: epsilon keeps it at zero.
        assert_eq!(values(layer_norm(row(&[3.0, 3.0]), 1e-5)), [0.0, 0.0]);
    }

    #[test]
    fn activations_match_known_values() {
        let close = |activation, x: &[f64], expected: &[f64]| {
            let got = values(activate(row(x), activation));
            let same = got.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-12 * b.abs().max(1e-3));
            assert!(same, "{activation:?}: {got:?}, expected {expected:?}");
        };
        close(Activation::Relu, &[-1.0, 0.0, 2.0], &[0.0, 0.0, 2.0]);
        close(
            Activation::Gelu,
            &[-1.0, 0.5, 2.0, -40.0, 40.0],
            &[-0.158_655_253_931_457_07, 0.345_731_230_637_006_56, 1.954_499_736_103_641_6, 0.0, 40.0],
        );
        close(
            Activation::Mish,
            &[-1.0, 0.5, 2.0, -800.0, 800.0, 0.0],
            &[-0.303_401_461_374_108_95, 0.375_245_211_304_895_1, 1.943_958_959_533_994_6, 0.0, 800.0, 0.0],
        );
    }

    #[test]
    fn dropout_uses_one_row_per_position() {
        let (x, p) = (Tensor::<3>::ones([2, 3, 4], &Device::flex()), Dropout::new(0.5));
        let key = Key::new(4);
        let dropped: Vec<f32> = dropout(x.clone(), &p, key).into_data().iter::<f32>().collect();
        assert_eq!(dropped, p.mask(key, 6, 4));
        assert!(dropped.contains(&0.0) && dropped.contains(&2.0));
        assert_eq!(dropout(x, &Dropout::NONE, key).into_data().iter::<f32>().sum::<f32>(), 24.0);
    }
}
