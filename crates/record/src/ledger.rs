//! `record.toml`: the claims, and every run that was asked for, whether it was made or not.

use std::collections::HashSet;
use std::path::Path;

use semfocus_core::{Expectation, Outcome, Scale};
use serde::Deserialize;

use crate::RecordError;

/// The contents of `record.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// Pages outside the folder that have generated parts.
    #[serde(default)]
    pub pages: Vec<OutsidePage>,
    /// The claims, in the order in which they are shown.
    #[serde(rename = "claim")]
    pub claims: Vec<ClaimEntry>,
    /// The runs, in the order in which they are shown.
    #[serde(rename = "run")]
    pub runs: Vec<RunEntry>,
}

/// A page outside the folder of the record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutsidePage {
    /// Its path from the folder of the record.
    pub file: String,
    /// The path from the page to the folder of the record, for links.
    pub prefix: String,
}

/// A claim of the study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimEntry {
    /// By which runs and pages refer to it; its page is `ID.md`.
    pub id: String,
    /// In a few words.
    pub title: String,
    /// What the study says.
    pub published: String,
    /// What runs have to show: mechanisms and outcomes, as in `[expect]` of an experiment file.
    #[serde(default)]
    expect: toml::Table,
    /// What else runs have to show.
    pub test: Option<Test>,
}

/// What a claim is tested by if not by a comparison of mechanisms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// Conditions (W) and (X) hold in trained models.
    Conditions,
    /// Neighbouring cells of a loss surface differ less than with full attention.
    Lipschitz,
    /// The controls say that top-k attention is faster because of the keys it keeps, as `explain` judges it.
    Causes,
}

/// A run that was asked for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEntry {
    /// Name of the folder in `data`, if the run was made.
    pub name: String,
    /// The experiment, as `semfocus run` names it.
    pub experiment: String,
    /// Its scale.
    pub scale: Scale,
    /// Ids of the claims that it is about.
    pub claims: Vec<String>,
    /// What was asked for, in words.
    pub asked: String,
    /// What the study found in this experiment.
    pub published: Option<String>,
    /// The command, where it is more than the experiment and its scale.
    pub command: Option<String>,
    /// Core-hours of the whole run, by the program's estimate.
    pub estimated_core_hours: f64,
    /// What is different from what was asked for, or why it was not run.
    pub remark: Option<String>,
}

impl Ledger {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<Self, RecordError> {
        let text = std::fs::read_to_string(path).map_err(|error| RecordError::io(path, &error))?;
        let ledger: Ledger = toml::from_str(&text).map_err(|error| RecordError::wrong(path, error.to_string()))?;
        let wrong = |message: String| RecordError::wrong(path, message);
        let (mut claims, mut runs) = (HashSet::new(), HashSet::new());
        for claim in &ledger.claims {
            if !claims.insert(claim.id.as_str()) {
                return Err(wrong(format!("the claim `{}` is there twice", claim.id)));
            }
            claim.expectations().map_err(|error| wrong(format!("claim `{}`: {error}", claim.id)))?;
            if claim.expect.is_empty() == claim.test.is_none() {
                return Err(wrong(format!("the claim `{}` needs either `expect` or `test`", claim.id)));
            }
        }
        for run in &ledger.runs {
            if !runs.insert(run.name.as_str()) {
                return Err(wrong(format!("the run `{}` is there twice", run.name)));
            }
            if let Some(unknown) = run.claims.iter().find(|id| !claims.contains(id.as_str())) {
                return Err(wrong(format!("run `{}`: there is no claim `{unknown}`", run.name)));
            }
        }
        Ok(ledger)
    }
}

impl ClaimEntry {
    /// What runs have to show, one entry for each outcome.
    pub fn expectations(&self) -> Result<Vec<Expectation>, String> {
        let mut expectations = Vec::new();
        for (mechanism, outcomes) in &self.expect {
            let texts = match outcomes {
                toml::Value::Array(texts) => texts.clone(),
                text => vec![text.clone()],
            };
            for text in &texts {
                let text = text.as_str().ok_or("outcomes are texts such as \"faster\"")?;
                let outcome: Outcome = text.parse()?;
                expectations.push(Expectation { mechanism: mechanism.clone(), outcome });
            }
        }
        Ok(expectations)
    }
}

impl RunEntry {
    /// The command that makes the run.
    pub fn command(&self) -> String {
        self.command.clone().unwrap_or_else(|| format!("semfocus run {} --scale {}", self.experiment, self.scale))
    }
}
