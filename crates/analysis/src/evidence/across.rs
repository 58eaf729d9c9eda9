//! Several runs compared with each other: the same mechanism in each of them, seed by seed.

use semfocus_core::Point;

use super::{Concluded, Evidence, Observed, PointEvidence};

/// The name of the first axis of a comparison of runs, whose values are the mechanisms.
pub const MECHANISM_AXIS: &str = "mechanism";

impl Evidence {
    /// What runs show when they are compared with the first: every mechanism that all of them have becomes a point of a grid, and
    /// the runs, by their names, take the place of the mechanisms. None if the runs have no mechanism and grid point in common.
    ///
    /// # Panics
    /// If there is no run.
    pub fn across(runs: &[(String, Evidence)]) -> Option<Evidence> {
        let (baseline, first) = runs.first().expect("there is a run");
        let names: Vec<String> = runs.iter().map(|(name, _)| name.clone()).collect();
        let mut points = Vec::new();
        for mechanism in &first.experiment.mechanisms {
            for point in first.points.iter().map(|point| &point.point) {
                let of_runs = runs.iter().map(|(name, run)| relabelled(run, mechanism, point, name));
                let Some(of_runs) = of_runs.collect::<Option<Vec<Vec<Observed>>>>() else { continue };
                let axis = (MECHANISM_AXIS.to_owned(), mechanism.clone());
                let place = std::iter::once(axis).chain(point.iter().cloned()).collect();
                points.push(PointEvidence::new(place, &names, baseline, of_runs.concat()));
            }
        }
        let mut experiment = first.experiment.clone();
        (experiment.name, experiment.mechanisms) = (names.join(", "), names);
        experiment.notes.clear();
        let damage = runs.iter().flat_map(|(_, run)| run.damage.iter().cloned()).collect();
        let (goal, baseline, concluded) = (first.goal, baseline.clone(), Concluded::default());
        let across = Evidence { experiment, goal, baseline, points, damage, concluded };
        (!across.points.is_empty()).then_some(across)
    }
}

/// The trials of a mechanism at a point, as trials of a mechanism with the name of the run. None if there are none.
fn relabelled(run: &Evidence, mechanism: &str, point: &Point, name: &str) -> Option<Vec<Observed>> {
    let point = run.points.iter().find(|other| other.point == *point)?;
    let mut trials: Vec<Observed> =
        point.trials.iter().filter(|observed| observed.trial.entry.mechanism == mechanism).cloned().collect();
    for observed in &mut trials {
        observed.trial.entry.mechanism = name.to_owned();
    }
    (!trials.is_empty()).then_some(trials)
}
