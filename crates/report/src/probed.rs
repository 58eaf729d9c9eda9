//! What probes found, over the seeds of a mechanism: during training, and by layer at the last probe.

use semfocus_analysis::evidence::{Evidence, PointEvidence};
use semfocus_analysis::stats::median;
use semfocus_figure::charts::Curve;
use semfocus_store::ProbeRecord;

use crate::{palette, pictures};

/// Quartiles over seeds of a value of a mechanism's probes, at the epochs that all of its probed trials have.
pub(crate) fn probe_curve(
    point: &PointEvidence,
    mechanism: &str,
    value: impl Fn(&ProbeRecord) -> Option<f64>,
) -> Option<Curve> {
    let of_mechanism = pictures::comparable(point, mechanism).into_iter().map(|trial| &trial.probes[..]);
    let trials: Vec<&[ProbeRecord]> = of_mechanism.filter(|probes| !probes.is_empty()).collect();
    let epochs = trials.first()?.iter().map(|probe| probe.epoch);
    let of_seed = |probes: &&[ProbeRecord], epoch| value(probes.iter().find(|probe| probe.epoch == epoch)?);
    curve_over_seeds(mechanism, epochs, &trials, of_seed)
}

/// Quartiles at the epochs for which all seeds have a value; None if there is no such epoch.
pub(crate) fn curve_over_seeds<T>(
    mechanism: &str,
    epochs: impl Iterator<Item = usize>,
    seeds: &[T],
    value: impl Fn(&T, usize) -> Option<f64>,
) -> Option<Curve> {
    let at = |epoch: usize| {
        let values: Vec<f64> = seeds.iter().map(|seed| value(seed, epoch)).collect::<Option<_>>()?;
        Some((epoch as f64, values))
    };
    let (x, at_epochs): (Vec<f64>, Vec<Vec<f64>>) = epochs.filter_map(at).unzip();
    let of_seed = |seed: usize| at_epochs.iter().map(|values| values[seed]).collect();
    (!x.is_empty())
        .then(|| pictures::over_seeds(palette::series(mechanism), x, (0..seeds.len()).map(of_seed).collect()))
}

/// The last probes of a mechanism's seeds, for one layer at one point of the grid.
pub(crate) struct Layer<'a> {
    pub(crate) point: &'a PointEvidence,
    pub(crate) mechanism: &'a str,
    pub(crate) layer: usize,
    pub(crate) last: Vec<&'a ProbeRecord>,
}

impl Layer<'_> {
    /// Over the seeds that have the value.
    pub(crate) fn median(&self, value: impl Fn(&ProbeRecord) -> Option<f64>) -> Option<f64> {
        median(&self.last.iter().filter_map(|record| value(record)).collect::<Vec<_>>())
    }
}

pub(crate) fn layers(evidence: &Evidence) -> Vec<Layer<'_>> {
    let mut layers = Vec::new();
    for point in &evidence.points {
        for mechanism in &point.mechanisms {
            let mechanism = mechanism.mechanism.as_str();
            let last: Vec<&ProbeRecord> =
                point.of_mechanism(mechanism).filter_map(|(trial, _)| trial.probes.last()).collect();
            for layer in 0..last.iter().map(|record| record.layers.len()).max().unwrap_or(0) {
                layers.push(Layer { point, mechanism, layer, last: last.clone() });
            }
        }
    }
    layers
}
