//! The list of mechanisms. Help, `semfocus list mechanisms` and the conformance tests are generated from it.

use std::sync::Arc;

use burn::tensor::{DType, Device};
use semfocus_core::mechanism::{is_key, is_name};
use semfocus_core::{LrFactors, MechanismSpec, Schedule, SpecValue, Visibility};
use semfocus_kernels::{FusedWeighting, Row, Selection};
use serde::{Deserialize, Serialize};

use crate::mechanism::{FastForm, LayerShape, Mechanism};
use crate::mechanisms;
use crate::spec::{self, SpecError};
use crate::values::{Otherwise, Parameter, Values};

/// What the kept keys of a mechanism depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Standard attention, to which the others are compared.
    Baseline,
    /// Kept keys are fixed by the positions: the same for every input.
    InputAgnostic,
    /// Kept keys are chosen by the scores of the input at hand.
    InputDependent,
    /// Every key takes part, with other weights than those of the baseline.
    Dense,
    /// It differs from another mechanism in one respect, to tell causes apart.
    Control,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Family::Baseline => "baseline",
            Family::InputAgnostic => "input-agnostic",
            Family::InputDependent => "input-dependent",
            Family::Dense => "dense",
            Family::Control => "control",
        })
    }
}

/// Describes a mechanism, and knows how to build it.
#[derive(Clone, Debug, Serialize)]
pub struct MechanismInfo {
    /// The name by which specs call it: lower-case letters, digits and hyphens.
    pub name: &'static str,
    /// What the kept keys depend on.
    pub family: Family,
    /// One line: which keys a query keeps.
    pub summary: &'static str,
    /// Where it comes from: authors, title, year.
    pub source: &'static str,
    /// Its definition: how the weights `p` of a query follow from its scores `z`.
    pub formula: &'static str,
    /// What a comparison with it shows.
    pub isolates: &'static str,
    /// The values that it takes, in the order in which they are written.
    pub parameters: &'static [Parameter],
    /// Whether `+gN` may follow.
    pub allows_globals: bool,
    /// Builds the mechanism from values that have been checked against this entry, or says why they do not go together.
    #[serde(skip)]
    pub build: fn(&Values) -> Result<Arc<dyn Mechanism>, String>,
}

impl MechanismInfo {
    /// How the mechanism is written: `topk:k[,ties=random]`, `moba:block=8,k=2`, `banded:w[+gN]`. What may be left out is in
    /// brackets; numbers with a key are examples.
    pub fn form(&self) -> String {
        let is_required = |parameter: &Parameter| parameter.otherwise == Otherwise::Required;
        let written = |number: usize, parameter: &Parameter| {
            let Parameter { name, words, .. } = parameter;
            match number == 0 && !parameter.keyed {
                true => [&[*name], *words].concat().join("|"),
                // Of words, the first is the usual one.
                false if parameter.min > parameter.max => format!("{name}={}", words[words.len() - 1]),
                false => format!("{name}={}", SpecValue::from(parameter.example)),
            }
        };
        let part = |required: bool| {
            let parameters = self.parameters.iter().enumerate().filter(|(_, p)| is_required(p) == required);
            parameters.map(|(number, parameter)| written(number, parameter)).collect::<Vec<_>>().join(",")
        };
        let (required, optional) = (part(true), part(false));
        let mut form = self.name.to_owned();
        if !required.is_empty() {
            form += &format!(":{required}");
        }
        if !optional.is_empty() {
            form += &format!("[{}{optional}]", if required.is_empty() { ':' } else { ',' });
        }
        form + if self.allows_globals { "[+gN]" } else { "" }
    }

    /// A valid spec of the mechanism: the one its documentation shows.
    pub fn example(&self) -> MechanismSpec {
        let required = self.parameters.iter().filter(|parameter| parameter.otherwise == Otherwise::Required);
        let values = required.map(|parameter| (parameter.name, parameter.example.into())).collect();
        spec::written(self, &Values { values, globals: 0 })
    }

    /// Whether the mechanism runs on the fused operators, not only in its reference form.
    pub fn has_fast_form(&self) -> bool {
        let (_, values) = spec::parse(&self.example().to_string(), &Registry { mechanisms: vec![self.clone()] })
            .expect("the example of an entry is valid");
        let mechanism = (self.build)(&values).expect("the example of an entry is valid");
        FastForm::new(mechanism.as_ref(), 8, Visibility::All).is_some()
    }
}

/// A mechanism that is ready for use, with the spec it was built from and its entry in the registry.
#[derive(Clone, Debug)]
pub struct Attention {
    /// What was written, taken apart.
    pub spec: MechanismSpec,
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
        !self.mechanism.parameters().is_empty() || self.mechanism.numbers(None, &shape).temperature.is_some()
    }
}

/// The mechanisms that can be named.
#[derive(Clone, Debug)]
pub struct Registry {
    mechanisms: Vec<MechanismInfo>,
}

impl Registry {
    /// The mechanisms of this crate.
    pub fn standard() -> Self {
        Registry { mechanisms: mechanisms::all() }
    }

    /// This registry with one more mechanism, for instance one defined in another crate.
    ///
    /// # Panics
    /// If the name is taken, or it or a key contains anything but lower-case letters, digits and hyphens.
    pub fn with(mut self, info: MechanismInfo) -> Self {
        let name = info.name;
        assert!(is_name(name), "`{name}` cannot be the name of a mechanism");
        for parameter in info.parameters {
            assert!(is_key(parameter.name), "`{}` cannot be the key of a value of `{name}`", parameter.name);
        }
        assert!(self.get(name).is_none(), "a mechanism named `{name}` is registered already");
        self.mechanisms.push(info);
        self
    }

    /// The entries, in the order in which they are listed.
    pub fn iter(&self) -> impl Iterator<Item = &MechanismInfo> {
        self.mechanisms.iter()
    }

    /// The entry named `name`.
    pub fn get(&self, name: &str) -> Option<&MechanismInfo> {
        self.iter().find(|info| info.name == name)
    }

    /// Builds the mechanism that `text` names, for instance `topk:5` or `banded:5+g1`.
    pub fn parse(&self, text: &str) -> Result<Attention, SpecError> {
        let (spec, values) = spec::parse(text, self)?;
        let info = self.get(&spec.name).expect("a parsed spec names an entry").clone();
        let refused = |reason| SpecError::Refused { text: text.trim().to_owned(), reason };
        let mechanism = (info.build)(&values).map_err(refused)?;
        Ok(Attention { spec, info, mechanism })
    }

    /// Reads attention that may differ between blocks and change during training, such as `topk:5/full` or
    /// `full@0,topk:5@10`, and writes it in its usual spelling.
    pub fn schedule(&self, text: &str) -> Result<Schedule, SpecError> {
        let schedule = spec::parse_schedule(text, self)?;
        schedule.attentions().try_for_each(|spec| self.parse(&spec.to_string()).map(drop))?;
        Ok(schedule)
    }
}
