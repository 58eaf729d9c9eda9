//! Mechanisms for tests: every weighting, learned numbers, and rules that look at something else than their own scores.

use std::sync::Arc;

use burn::tensor::{Bool, Tensor, TensorData, activation};
use semfocus_nn::mechanisms::{Full, TopK};
use semfocus_nn::{
    FusedWeighting, HeadTensors, LayerContext, LayerShape, Mechanism, MechanismInfo, MechanismParameter, Registry, Row,
    RowRule, RuleScores, Selection, Weighting,
};

/// A weighting of all visible keys, or of the best of them.
#[derive(Debug)]
struct Weighted {
    weighting: FusedWeighting,
    k: Option<usize>,
    /// A learned temperature and a learned α for each head.
    learned: bool,
}

const LEARNED: &[MechanismParameter] =
    &[MechanismParameter { name: "heat", initial: 0.1 }, MechanismParameter { name: "shape", initial: -0.3 }];

impl Mechanism for Weighted {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        self.k.map_or_else(|| Full.keep(scores, context), |k| TopK { k }.keep(scores, context))
    }

    fn selection(&self, length: usize) -> Option<Selection> {
        self.k.map_or_else(|| Full.selection(length), |k| TopK { k }.selection(length))
    }

    fn weighting(&self) -> Weighting {
        Weighting::Known(self.weighting)
    }

    fn parameters(&self) -> &'static [MechanismParameter] {
        if self.learned { LEARNED } else { &[] }
    }

    fn head_scalars(&self, parameters: Option<Tensor<2>>, _: &LayerShape) -> HeadTensors {
        let Some(parameters) = parameters else { return HeadTensors::default() };
        let column = |number: usize| parameters.clone().narrow(1, number, 1).squeeze_dim::<1>(1);
        HeadTensors { temperature: Some(column(0).exp()), alpha: Some(activation::sigmoid(column(1)).add_scalar(1.0)) }
    }
}

/// Top-3 by other scores than the query's own.
#[derive(Debug)]
struct TopByOther(RuleScores);

impl Mechanism for TopByOther {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        TopK { k: 3 }.keep(scores, context)
    }

    fn scores(&self) -> RuleScores {
        self.0
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(OtherRule(self.0))))
    }
}

#[derive(Debug)]
struct OtherRule(RuleScores);

impl RowRule for OtherRule {
    fn scores(&self) -> RuleScores {
        self.0
    }

    fn ignores_common_shift(&self) -> bool {
        true
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        let mut order: Vec<u32> = (0..row.visible as u32).collect();
        let score = |key: &u32| row.scores[*key as usize];
        order.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.cmp(b)));
        order.truncate(3);
        order.sort_unstable();
        kept.extend(order);
    }
}

/// Keeps itself, the keys with its own token, and one key that depends on layer, head and query.
#[derive(Clone, Copy, Debug)]
struct Places;

impl Places {
    fn keys(place: semfocus_nn::Key, layer: usize, query: usize, visible: usize, tokens: &[usize]) -> Vec<u32> {
        let fixed = (place.below(layer as u32, visible as u32) as usize + layer) % visible;
        let keeps = |key: &usize| *key == query || *key == fixed || tokens[*key] == tokens[query];
        (0..visible).filter(keeps).map(|key| key as u32).collect()
    }
}

impl Mechanism for Places {
    fn keep(&self, scores: &Tensor<4>, context: &LayerContext) -> Tensor<4, Bool> {
        let [batch, heads, queries, keys] = scores.dims();
        let mut kept = vec![false; batch * heads * queries * keys];
        for (row, mask) in kept.chunks_mut(keys).enumerate() {
            let (sequence, head, query) = (row / queries / heads, row / queries % heads, row % queries);
            let tokens = &context.tokens[sequence * keys..(sequence + 1) * keys];
            let visible = context.visibility.keys(query, keys);
            let place = context.fixed_row(head, keys, query);
            Places::keys(place, context.layer, query, visible, tokens)
                .iter()
                .for_each(|&key| mask[key as usize] = true);
        }
        Tensor::from_data(TensorData::new(kept, scores.shape()), &scores.device())
    }

    fn selection(&self, _length: usize) -> Option<Selection> {
        Some(Selection::Rule(Arc::new(Places)))
    }
}

impl RowRule for Places {
    fn scores(&self) -> RuleScores {
        RuleScores::None
    }

    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>) {
        kept.extend(Places::keys(row.fixed_key, row.layer, row.query, row.visible, row.tokens));
    }
}

fn weighted(weighting: FusedWeighting, k: Option<usize>, learned: bool) -> Arc<dyn Mechanism> {
    Arc::new(Weighted { weighting, k, learned })
}

/// The standard registry and the mechanisms of this file.
pub(crate) fn registry() -> Registry {
    type Build = fn(&semfocus_nn::Values) -> Result<Arc<dyn Mechanism>, String>;
    let full = Registry::standard().get("full").expect("it is a standard mechanism").clone();
    let build: [(&'static str, Build); 9] = [
        ("alpha-entmax", |_| Ok(weighted(FusedWeighting::Entmax, None, true))),
        ("warm", |_| Ok(weighted(FusedWeighting::Softmax, None, true))),
        ("sparsemax-top", |_| Ok(weighted(FusedWeighting::Sparsemax, Some(4), false))),
        ("entmax-top", |_| Ok(weighted(FusedWeighting::Entmax15, Some(4), false))),
        ("alpha-entmax-top", |_| Ok(weighted(FusedWeighting::Entmax, Some(4), true))),
        ("sigmoid-top", |_| Ok(weighted(FusedWeighting::Sigmoid, Some(4), true))),
        ("next-example", |_| Ok(Arc::new(TopByOther(RuleScores::NextExample)))),
        ("initial-maps", |_| Ok(Arc::new(TopByOther(RuleScores::InitialMaps)))),
        ("places", |_| Ok(Arc::new(Places))),
    ];
    build.into_iter().fold(Registry::standard(), |registry, (name, build)| {
        registry.with(MechanismInfo { name, build, ..full.clone() })
    })
}

/// The names of the mechanisms of this file.
pub(crate) fn names() -> Vec<String> {
    let standard = Registry::standard();
    registry().iter().filter(|info| standard.get(info.name).is_none()).map(|info| info.name.to_owned()).collect()
}
