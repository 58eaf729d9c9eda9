//! The run of `semfocus run even-pairs` that the record keeps, as the folder of a run: what the README shows, without training.

use std::path::Path;

use semfocus_core::{EpochRecord, Experiment, Metric, Metrics, Request};
use semfocus_fixture::Fixture;
use semfocus_lab::Lab;
use semfocus_record::RecordedRun;

/// Writes the run into a folder, with the epochs that the record has.
pub(crate) fn even_pairs(dir: &str) {
    let lab = Lab::standard();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/record/data/even-pairs-quick");
    let recorded = RecordedRun::read(&data, &lab).unwrap();
    let request = Request { experiment: "even-pairs".to_owned(), ..Request::default() };
    let experiment = Experiment::resolve(&request, &lab).unwrap();
    let store = semfocus_fixture::store(Path::new(dir), &experiment, |settings| {
        let mut trials =
            recorded.evidence.points.iter().flat_map(|point| &point.trials).map(|observed| &observed.trial);
        let is_it =
            |entry: &semfocus_store::IndexEntry| (&entry.mechanism, entry.seed) == (&settings.mechanism, settings.seed);
        let trial = trials.find(|trial| is_it(&trial.entry)).expect("the record has every trial of the preset");
        let steps = trial.steps.unwrap_or_default() / trial.curve.len() as u64;
        let records = trial.curve.iter().map(|point| EpochRecord {
            epoch: point.epoch,
            metrics: Metrics::new(|metric| match metric {
                Metric::Lr => 0.1,
                Metric::GradNorm => 1.0,
                metric => point.metrics[metric],
            }),
            seconds: point.seconds.unwrap_or_default(),
            steps: steps * point.epoch as u64,
        });
        Some(Fixture { records: records.collect(), state: trial.state, probes: Vec::new() })
    });
    store.unwrap();
}
