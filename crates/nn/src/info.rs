//! What there is to know about a mechanism. Help, `semfocus list mechanisms` and the conformance tests are generated from it.

use std::sync::Arc;

use semfocus_core::Visibility;
use semfocus_core::spec::{Globals, Named, Parameter, Table, Values};
use serde::{Deserialize, Serialize};

use crate::mechanism::{FastForm, Mechanism};

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
    /// An entry with a name and how to build it, to which the rest is added. It takes no values.
    pub const fn new(name: &'static str, build: fn(&Values) -> Result<Arc<dyn Mechanism>, String>) -> Self {
        MechanismInfo {
            name,
            family: Family::Control,
            summary: "",
            source: "",
            formula: "",
            isolates: "",
            parameters: &[],
            allows_globals: false,
            build,
        }
    }

    /// Whether the mechanism runs on the fused operators, not only in its reference form.
    pub fn has_fast_form(&self) -> bool {
        let table = Table::new(vec![self.clone()]);
        let (_, _, values) = table.read(&self.example().to_string()).expect("the example of an entry is valid");
        let mechanism = (self.build)(&values).expect("the example of an entry is valid");
        FastForm::new(mechanism.as_ref(), 8, Visibility::All).is_some()
    }
}

impl Named for MechanismInfo {
    const KIND: &'static str = "attention mechanism";

    fn name(&self) -> &'static str {
        self.name
    }

    fn parameters(&self) -> &'static [Parameter] {
        self.parameters
    }

    fn globals(&self) -> Globals {
        match self.family {
            Family::Baseline => Globals::Pointless,
            _ if self.allows_globals => Globals::Allowed,
            _ => Globals::Refused,
        }
    }
}
