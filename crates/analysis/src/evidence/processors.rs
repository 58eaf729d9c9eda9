//! Pairs of trials that did not run on the same processor. The kernels give the same bits everywhere, but what Burn computes
//! around them (classifier, loss) may round differently, so such a pair differs in more than its mechanism.

use std::collections::{BTreeMap, BTreeSet};

use semfocus_core::study::seed_name;
use semfocus_store::{Session, TrialData};

use super::robustness::point_name;
use super::{Evidence, PointEvidence};

/// A trial whose partner with the baseline and the same seed ran on another processor, or one of whom changed processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MixedPair {
    /// The mechanism that is compared with the baseline.
    pub mechanism: String,
    /// What the seed is called.
    pub seed: u64,
    /// Where its point is on the grid, in words; empty without a grid.
    pub point: String,
    /// The processors of both trials.
    pub processors: BTreeSet<String>,
}

/// The sessions in which a trial was trained.
fn sessions(trial: &TrialData) -> impl Iterator<Item = &Session> {
    trial.environment.iter().flat_map(|environment| environment.earlier.iter().chain([&environment.last]))
}

/// Says so if different code of a mechanism or task of one's own made the trials.
pub(super) fn code_warning(evidence: &Evidence) -> Option<String> {
    let mut codes: BTreeMap<&String, BTreeMap<&String, BTreeSet<&str>>> = BTreeMap::new();
    for trial in evidence.trials().map(|observed| &observed.trial) {
        for (part, code) in sessions(trial).flat_map(|session| &session.own_code) {
            codes.entry(part).or_default().entry(code).or_default().insert(&trial.entry.mechanism);
        }
    }
    let (part, codes) = codes.into_iter().find(|(_, codes)| codes.len() > 1)?;
    let made = |(code, names): (&String, BTreeSet<&str>)| {
        format!("{}: {code}", names.into_iter().collect::<Vec<_>>().join(", "))
    };
    Some(format!(
        "different code of the {part} made these trials ({}), so they may not be comparable.",
        codes.into_iter().map(made).collect::<Vec<_>>().join("; ")
    ))
}

/// The processors that a trial was trained on.
fn processors(trial: &TrialData) -> BTreeSet<String> {
    let name = |session: &Session| match session.device.as_str() {
        "cpu" => session.cpu.clone(),
        device => format!("{device} with {}", session.cpu),
    };
    sessions(trial).map(name).collect()
}

/// All such pairs, in the order of the points and trials.
pub fn mixed_pairs(evidence: &Evidence) -> Vec<MixedPair> {
    evidence.points.iter().flat_map(|point| at_point(point, &evidence.baseline)).collect()
}

fn at_point(point: &PointEvidence, baseline: &str) -> Vec<MixedPair> {
    let trials = || point.trials.iter().map(|observed| &observed.trial).filter(|trial| !trial.curve.is_empty());
    let of_baseline = |seed: u64| trials().find(|trial| trial.entry.mechanism == baseline && trial.entry.seed == seed);
    let pair = |trial: &TrialData| {
        let partner = of_baseline(trial.entry.seed)?;
        let processors: BTreeSet<String> = processors(trial).into_iter().chain(processors(partner)).collect();
        (processors.len() > 1).then(|| MixedPair {
            mechanism: trial.entry.mechanism.clone(),
            seed: seed_name(trial.entry.seed),
            point: if point.point.is_empty() { String::new() } else { point_name(&point.point) },
            processors,
        })
    };
    trials().filter(|trial| trial.entry.mechanism != baseline).filter_map(pair).collect()
}

/// Names all such pairs in a sentence; none if there are none.
pub(super) fn warning(evidence: &Evidence) -> Option<String> {
    let pairs = mixed_pairs(evidence);
    let processors: BTreeSet<&str> = pairs.iter().flat_map(|pair| &pair.processors).map(String::as_str).collect();
    if pairs.is_empty() {
        return None;
    }
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for MixedPair { mechanism, seed, point, .. } in &pairs {
        let name = if point.is_empty() { mechanism.clone() } else { format!("{mechanism} at {point}") };
        match groups.iter_mut().find(|(other, _)| *other == name) {
            Some((_, seeds)) => seeds.push(seed.to_string()),
            None => groups.push((name, vec![seed.to_string()])),
        }
    }
    let named = groups.iter().map(|(name, seeds)| {
        let seed = if seeds.len() == 1 { "seed" } else { "seeds" };
        format!("{name} with {seed} {}", seeds.join(", "))
    });
    let (named, processors): (Vec<String>, Vec<&str>) = (named.collect(), processors.into_iter().collect());
    Some(format!(
        "different processors ({}): these trials did not run on the same processor as {} with the same seed, so the two may \
         differ in their last digits for that reason alone: {}.",
        processors.join("; "),
        evidence.baseline,
        named.join("; ")
    ))
}
