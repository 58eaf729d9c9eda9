//! How the speed-up of a mechanism varies over a grid.

use serde::Serialize;

use super::Evidence;
use super::speedup::Ratio;
use crate::evidence::verdict::Learning;

/// The speed-up of a mechanism over the points of a grid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Robustness {
    /// As the experiment names it.
    pub mechanism: String,
    /// Points at which it can be compared.
    pub points: usize,
    /// Points at which it learns faster, or is faster with all of too few seeds.
    pub faster: usize,
    /// Points at which it learns slower, or is slower with all of too few seeds.
    pub slower: usize,
    /// Minimum speed-up over the grid, and the point that has it.
    #[serde(rename = "least")]
    pub min: Option<(Ratio, String)>,
    /// Maximum speed-up over the grid, and the point that has it.
    #[serde(rename = "greatest")]
    pub max: Option<(Ratio, String)>,
}

/// One entry for each mechanism but the baseline; empty without a grid.
pub(super) fn robustness(evidence: &Evidence) -> Vec<Robustness> {
    if evidence.points.len() < 2 {
        return Vec::new();
    }
    let mechanisms = evidence.experiment.mechanisms.iter().filter(|mechanism| **mechanism != evidence.baseline);
    mechanisms
        .map(|mechanism| {
            let compared: Vec<_> = evidence
                .points
                .iter()
                .filter_map(|point| Some((point_name(&point.point), point.versus_baseline(mechanism)?)))
                .collect();
            let count = |wanted: [Learning; 2]| {
                compared.iter().filter(|(_, comparison)| wanted.contains(&comparison.learning.finding)).count()
            };
            let mut ratios: Vec<(Ratio, String)> = compared
                .iter()
                .filter_map(|(name, comparison)| Some((comparison.epochs?.ratio, name.clone())))
                .collect();
            ratios.sort_by(|(one, _), (other, _)| one.value().total_cmp(&other.value()));
            Robustness {
                mechanism: mechanism.clone(),
                points: compared.len(),
                faster: count([Learning::Faster, Learning::FasterInAll]),
                slower: count([Learning::Slower, Learning::SlowerInAll]),
                min: ratios.first().cloned(),
                max: ratios.last().cloned(),
            }
        })
        .collect()
}

/// A point as users read it: `blocks = 6, heads = 2`.
pub fn point_name(point: &[(String, String)]) -> String {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    let parts: Vec<String> = point.iter().map(|(path, value)| format!("{} = {value}", last(path))).collect();
    parts.join(", ")
}
