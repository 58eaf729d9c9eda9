//! Stores with made-up trials, for tests and benchmarks of what reads stores.

use std::path::Path;

use burn::tensor::Device;
use semfocus_nn::norms::ModelNorms;
use semfocus_nn::{Encoder, ModelConfig, Registry};

use super::{EpochRecord, State, Status, Store, StoreError, records, utc_now};
use crate::experiment::{Experiment, Trial};
use crate::probe::{LayerRecord, ProbeRecord, QUANTILES, Relevance, Summary};

/// What a made-up trial shows.
#[derive(Clone, Debug)]
pub struct MadeUp {
    /// Its epochs.
    pub records: Vec<EpochRecord>,
    /// How it stands.
    pub state: State,
    /// What probes found.
    pub probes: Vec<ProbeRecord>,
}

/// Writes a store in which every trial shows what `course` says; one without a course has not begun.
///
/// # Panics
/// If the experiment has no plan, or a trial is held by another process.
pub fn made_up(
    dir: &Path,
    experiment: &Experiment,
    course: impl Fn(&Trial) -> Option<MadeUp>,
) -> Result<Store, StoreError> {
    let plan = experiment.plan().expect("a made-up experiment has a plan");
    let (store, _) = Store::create(dir, experiment, &plan)?;
    for trial in &plan.trials {
        let Some(MadeUp { records, state, probes }) = course(trial) else { continue };
        let folder = store.trial(trial.id);
        let lock = folder.lock()?.expect("nobody else works on a made-up store");
        folder.write_settings(&trial.settings)?;
        records::replace(&folder.path().join("epochs.csv"), &records)?;
        probes.iter().try_for_each(|probe| folder.record_probe(&lock, probe))?;
        folder.write_status(&Status {
            state,
            epoch: records.len(),
            epochs: trial.settings.training.epochs,
            best: None,
            diverged_in: (state == State::Diverged).then_some(records.len() + 1),
            message: None,
            updated: utc_now(),
        })?;
    }
    Ok(store)
}

/// An epoch of a trial that jumps from chance to its final held-out accuracy in a given epoch.
pub fn jump(epoch: usize, at: Option<usize>, accuracy: f64) -> EpochRecord {
    let learned = at.is_some_and(|at| epoch >= at);
    EpochRecord {
        epoch,
        lr: 0.1,
        train_loss: if learned { 0.01 } else { 0.69 },
        train_accuracy: if learned { 1.0 } else { 0.5 },
        heldout_loss: if learned { 0.05 } else { 0.7 },
        heldout_accuracy: if learned { accuracy } else { 0.5 },
        grad_norm: 1.0,
        seconds: 2.0,
    }
}

/// A probe of a model with one layer and one head in which all queries are alike.
pub fn probe(epoch: usize, kept: usize, dispersion: f64, separation: Option<f64>, sink: f64) -> ProbeRecord {
    let all = |value: f64| vec![value; QUANTILES.len()];
    let summary = Summary {
        dispersion: all(dispersion),
        separation: separation.map(all).unwrap_or_default(),
        entropy: all(1.0),
        sink: all(sink),
        full_mass: all(if separation.is_some() { 0.5 } else { 1.0 }),
    };
    let relevance =
        Relevance { precision: 0.3, recall: 0.6, mass: 0.4, random_precision: 0.1, random_recall: kept as f64 / 40.0 };
    let layer = LayerRecord {
        all: summary.clone(),
        heads: vec![summary.clone()],
        least_deviations: [0.5, 0.6],
        overlap: None,
        relevance: Some(relevance),
    };
    let mut config = ModelConfig::new(2, 2);
    (config.d_model, config.d_mlp, config.blocks) = (2, 2, 1);
    let full = Registry::standard().parse("full").expect("there is full attention");
    let model = Encoder::new(config, full, 1, &Device::flex()).expect("a small model can be built");
    ProbeRecord {
        epoch,
        samples: 10,
        length: 40,
        kept,
        least_kept: kept,
        seconds: 0.1,
        pooled: summary,
        layers: vec![layer],
        norms: ModelNorms::of(&model),
    }
}
