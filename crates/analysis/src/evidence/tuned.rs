//! Each mechanism at its own best point of a grid.

use semfocus_core::Point;
use serde::Serialize;

use super::accuracy::Split;
use super::{Comparison, Evidence, MechanismEvidence, Observed, PointEvidence};

/// A mechanism at its best point.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// Where its median best held-out accuracy is highest; of equal points the one at which it reaches the target first.
    pub point: Point,
    /// What it shows there.
    pub evidence: MechanismEvidence,
    /// It compared with the baseline at the baseline's own best point.
    pub versus_baseline: Option<Comparison>,
}

/// The mechanisms at their best points.
#[derive(Clone, Debug, Serialize)]
pub struct BestOfGrid {
    /// In the order of the experiment; mechanisms without results are left out.
    pub mechanisms: Vec<Tuned>,
    /// What the accuracies are compared by. Held-out examples have also chosen the points, which makes them a little too
    /// high, more so for mechanisms that vary more over the grid.
    pub split: Split,
}

impl BestOfGrid {
    /// None without a grid or results.
    pub(super) fn new(evidence: &Evidence) -> Option<Self> {
        if evidence.points.len() < 2 {
            return None;
        }
        let chosen: Vec<(&str, &PointEvidence)> = evidence
            .experiment
            .mechanisms
            .iter()
            .filter_map(|mechanism| Some((mechanism.as_str(), best_point(evidence, mechanism)?)))
            .collect();
        let at_best = |(mechanism, point): &(&str, &PointEvidence)| -> Vec<Observed> {
            let is_own = |trial: &&Observed| trial.trial.entry.mechanism == *mechanism;
            point.trials.iter().filter(is_own).cloned().collect()
        };
        let trials: Vec<Observed> = chosen.iter().flat_map(at_best).collect();
        let names: Vec<String> = chosen.iter().map(|(mechanism, _)| (*mechanism).to_owned()).collect();
        let together = PointEvidence::new(Point::new(), &names, &evidence.baseline, trials);
        let is_tested = together.mechanisms.iter().all(|mechanism| mechanism.best_test_accuracy.is_some());
        let mechanisms: Vec<Tuned> = chosen
            .iter()
            .zip(together.compared())
            .map(|((_, point), (evidence, comparison))| Tuned {
                point: point.point.clone(),
                evidence: evidence.clone(),
                versus_baseline: comparison.cloned(),
            })
            .collect();
        let split = if is_tested { Split::Test } else { Split::HeldOut };
        (!mechanisms.is_empty()).then_some(BestOfGrid { mechanisms, split })
    }
}

fn best_point<'a>(evidence: &'a Evidence, mechanism: &str) -> Option<&'a PointEvidence> {
    let of = |point: &'a PointEvidence| {
        let found = point.mechanisms.iter().find(|other| other.mechanism == mechanism)?;
        let epochs = found.median_epochs_to_target.unwrap_or(f64::INFINITY);
        Some((point, found.best_heldout_accuracy?, epochs))
    };
    let better = |best: (&'a PointEvidence, f64, f64), next: (&'a PointEvidence, f64, f64)| {
        if next.1 > best.1 || (next.1 == best.1 && next.2 < best.2) { next } else { best }
    };
    evidence.points.iter().filter_map(of).reduce(better).map(|(point, _, _)| point)
}
