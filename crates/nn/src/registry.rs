//! The list of mechanisms, and how `topk:5` becomes one.

use std::sync::Arc;

use burn::tensor::{DType, Device};
use semfocus_core::spec::{Spec, SpecError, Table};
use semfocus_core::{LrFactors, Schedule, Visibility};
use semfocus_kernels::{FusedWeighting, Row, Selection};

use crate::info::MechanismInfo;
use crate::mechanism::{FastForm, LayerShape, Mechanism};
use crate::mechanisms;

/// A mechanism that is ready for use, with the spec it was built from and its entry in the registry.
#[derive(Clone, Debug)]
pub struct Attention {
    /// What was written, taken apart.
    pub spec: Spec,
    /// The entry of the registry that `spec` names.
    pub info: MechanismInfo,
    /// The mechanism with its values filled in.
    pub mechanism: Arc<dyn Mechanism>,
}

impl Attention {
    /// Whether every query keeps every key that it sees in sequences of `length` tokens, and weights them by the softmax:
    /// then it is full attention under another name.
    pub fn acts_as_full(&self, length: usize, visibility: Visibility) -> bool {
        let Some(form) = FastForm::new(self.mechanism.as_ref(), length, visibility) else { return false };
        if self.mechanism.learning_rate_factors(length) != LrFactors::default() {
            return false;
        }
        let visible = |query: usize| if visibility == Visibility::All { length } else { query + 1 };
        let keeps_all = match &form.selection {
            Selection::All => true,
            Selection::Pattern(kept) => (0..length).all(|query| kept.row(query).len() == visible(query)),
            Selection::Rule(rule) => [1.0, -30.0].iter().all(|scale: &f32| {
                let scores: Vec<f32> = (0..length).map(|key| scale * key as f32).collect();
                let mut kept = Vec::new();
                rule.select(&Row::of_scores(&scores), &mut kept);
                kept.len() == length
            }),
        };
        let is_softmax = form.weighting == FusedWeighting::Softmax || form.weighting.involves_dropped_keys();
        keeps_all && is_softmax && self.spec.globals == 0 && !self.changes_scores(length)
    }

    /// Whether the mechanism multiplies the scores of sequences of `length` tokens with anything.
    pub fn changes_scores(&self, length: usize) -> bool {
        let (device, dtype) = (Device::flex(), DType::F32);
        let shape = LayerShape { heads: 1, length, inverse_temperature: 1.0, device, dtype };
        !self.mechanism.parameters().is_empty() || self.mechanism.head_scalars(None, &shape).temperature.is_some()
    }
}

/// The mechanisms that can be named.
#[derive(Clone, Debug)]
pub struct Registry(Table<MechanismInfo>);

impl Registry {
    /// The mechanisms of this crate.
    pub fn standard() -> Self {
        Registry(Table::new(mechanisms::all()))
    }

    /// This registry with one more mechanism, for instance one defined in another crate.
    ///
    /// # Panics
    /// If the name is taken, or it or a key contains anything but lower-case letters, digits and hyphens.
    pub fn with(self, info: MechanismInfo) -> Self {
        Registry(self.0.with(info))
    }

    /// The entries, in the order in which they are listed.
    pub fn iter(&self) -> impl Iterator<Item = &MechanismInfo> {
        self.0.iter()
    }

    /// The entry named `name`.
    pub fn get(&self, name: &str) -> Option<&MechanismInfo> {
        self.0.get(name)
    }

    /// Builds the mechanism that `text` names, for instance `topk:5` or `banded:5+g1`.
    pub fn parse(&self, text: &str) -> Result<Attention, SpecError> {
        if is_composite(text) {
            let text = text.trim();
            return Err(SpecError::Form(format!(
                "`{text}` changes between blocks or during training, which is not possible here; write one mechanism"
            )));
        }
        let (info, spec, values) = self.0.read(text)?;
        let refused = |reason| SpecError::Refused { text: text.trim().to_owned(), reason };
        let mechanism = (info.build)(&values).map_err(refused)?;
        Ok(Attention { spec, info: info.clone(), mechanism })
    }

    /// Reads attention that may differ between blocks and change during training, such as `topk:5/full` or
    /// `full@0,topk:5@10`, and writes it in its usual spelling.
    pub fn schedule(&self, text: &str) -> Result<Schedule, SpecError> {
        if !is_composite(text) {
            return Ok(self.parse(text)?.spec.into());
        }
        text.parse::<Schedule>()?.try_map(|spec| Ok(self.parse(&spec.to_string())?.spec))
    }
}

fn is_composite(text: &str) -> bool {
    text.contains(['/', '@'])
}
