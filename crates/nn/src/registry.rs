//! The list of mechanisms. Help, `semfocus list mechanisms` and the conformance tests are generated from it.

use std::sync::Arc;

use semfocus_core::{MechanismSpec, Visibility};
use semfocus_kernels::{FusedWeighting, Row, Selection};
use serde::{Deserialize, Serialize};

use crate::mechanism::{FastForm, Mechanism};
use crate::mechanisms;
use crate::spec::{self, SpecError};

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
    /// A deliberately unhelpful choice, to measure what the helpful one contributes.
    Control,
}

impl std::fmt::Display for Family {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Family::Baseline => "baseline",
            Family::InputAgnostic => "input-agnostic",
            Family::InputDependent => "input-dependent",
            Family::Control => "control",
        })
    }
}

/// The number that a mechanism takes after the colon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// The letter in the written form, `k` in `topk:k`.
    pub name: &'static str,
    /// What it counts.
    pub meaning: &'static str,
    /// Smallest allowed value.
    pub min: usize,
    /// Largest allowed value.
    pub max: usize,
    /// A typical value, used in help texts.
    pub example: usize,
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
    /// The number after the colon, if the mechanism takes one.
    pub size: Option<Parameter>,
    /// Whether `+gN` may follow.
    pub allows_globals: bool,
    /// Builds the mechanism from a spec that has been checked against this entry.
    #[serde(skip)]
    pub build: fn(&MechanismSpec) -> Arc<dyn Mechanism>,
}

impl MechanismInfo {
    /// How the mechanism is written, with letters for the numbers: `topk:k`, `banded:w[+gN]`.
    pub fn form(&self) -> String {
        let size = self.size.as_ref().map_or(String::new(), |size| format!(":{}", size.name));
        let globals = if self.allows_globals { "[+gN]" } else { "" };
        format!("{}{size}{globals}", self.name)
    }

    /// A valid spec of the mechanism: the one its documentation shows.
    pub fn example(&self) -> MechanismSpec {
        MechanismSpec { name: self.name.to_owned(), size: self.size.as_ref().map(|size| size.example), globals: 0 }
    }

    /// Whether the mechanism runs on the fused operators, not only in its reference form.
    pub fn has_fast_form(&self) -> bool {
        FastForm::new((self.build)(&self.example()).as_ref(), 8, Visibility::All).is_some()
    }
}

/// A mechanism that is ready for use, with the spec it was built from and its entry in the registry.
#[derive(Clone, Debug)]
pub struct Attention {
    /// What was written, taken apart.
    pub spec: MechanismSpec,
    /// The entry of the registry that `spec` names.
    pub info: MechanismInfo,
    /// The mechanism with its size filled in.
    pub mechanism: Arc<dyn Mechanism>,
}

impl Attention {
    /// Whether every query keeps every key that it sees in sequences of `length` tokens, and weights them by the softmax:
    /// then it is full attention under another name.
    pub fn acts_as_full(&self, length: usize, visibility: Visibility) -> bool {
        let Some(form) = FastForm::new(self.mechanism.as_ref(), length, visibility) else { return false };
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
        keeps_all && form.weighting == FusedWeighting::Softmax && self.spec.globals == 0
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
    /// If the name is taken, or contains anything but lower-case letters, digits and hyphens.
    pub fn with(mut self, info: MechanismInfo) -> Self {
        let writable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = info.name;
        assert!(!name.is_empty() && name.chars().all(writable), "`{name}` cannot be the name of a mechanism");
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
        let spec = spec::parse(text, self)?;
        let info = self.get(&spec.name).expect("a parsed spec names an entry").clone();
        let mechanism = (info.build)(&spec);
        Ok(Attention { spec, info, mechanism })
    }
}
