//! The stored model that chooses keys for a trial: see `donork`.

use std::collections::HashSet;
use std::sync::Arc;

use burn::tensor::Tensor;
use semfocus_core::{Origin, TrialSettings};
use semfocus_nn::parameters::set_parameters;
use semfocus_nn::{Encoder, Pass};
use semfocus_store::{Checkpoint, StoreError, TrialFolder};

use crate::plan::fit_to;
use crate::relevance::relevance;
use crate::step_cost::random_batch;
use crate::trained_model::tensors;
use crate::training::TrainingError;
use crate::{Device, Lab, Trial};

/// Why there is no donor.
#[derive(Debug, thiserror::Error)]
pub enum DonorError {
    /// The copy of its weights cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It does not fit.
    #[error("the stored model {donor} cannot choose keys here: {reason}")]
    Unfit {
        /// The model.
        donor: Origin,
        /// Why.
        reason: String,
    },
}

/// The donor of a trial, out of the copy that its run has; none if its mechanisms do not ask for one.
pub(crate) fn donor(lab: &Lab, trial: &Trial, folder: &TrialFolder) -> Result<Option<Arc<Encoder>>, DonorError> {
    let Some(origin) = trial.settings.training.donor.with_seed(trial.settings.seed) else { return Ok(None) };
    let model = built(lab, trial, &folder.origin(&origin)?);
    model.map(|model| Some(Arc::new(model))).map_err(|reason| DonorError::Unfit { donor: origin, reason })
}

/// The stored model as it was trained, on the CPU, or why it cannot be a donor of a trial.
fn built(lab: &Lab, trial: &Trial, stored: &Checkpoint) -> Result<Encoder, String> {
    let table = stored.settings.parse::<toml::Table>().map_err(|error| error.to_string())?;
    let mut settings = TrialSettings::from_table(&table)?;
    let here = &trial.settings;
    if settings.seed != here.seed {
        return Err(format!("it was trained with seed {}, and the trial has seed {}", settings.seed, here.seed));
    }
    let is_same_task = match &here.data_checksum {
        Some(checksum) => settings.data_checksum.as_ref() == Some(checksum),
        None => settings.task == here.task,
    };
    if !is_same_task {
        return Err(format!("it was trained on {}, and the trial is about {}", settings.task, here.task));
    }
    fit_to(&mut settings, &trial.source);
    settings.training.evaluate_as = None;
    let attention = lab.trial_attention(&settings).map_err(|error| error.to_string())?;
    let trained = attention.stage(attention.stage_at(&stored.progress)).clone();
    let relevance = relevance(&trial.source, &attention);
    let asks_for_relevance = relevance.is_some();
    let model = Encoder::new(settings.model, trained, settings.seed, &Device::cpu().plain());
    let model = model.map_err(|error| error.to_string())?.with_relevance(relevance);
    let weights = stored.clone().parameters();
    let model = set_parameters(model, tensors(weights)).map_err(|error| error.to_string())?;
    // The choice has to be one of the sequence alone, so that it does not change during training.
    let asks_for_donor = model.attention().attentions().iter().any(|one| one.mechanism.donor_keys().is_some());
    if asks_for_donor {
        return Err("it needs a donor itself".to_owned());
    }
    if !asks_for_relevance && varies(&model, trial.source.width(&trial.settings.data)) {
        let mechanism = model.attention();
        return Err(format!("`{mechanism}` chooses at random or by other examples of the batch"));
    }
    Ok(model)
}

/// Whether what a model makes of a sequence depends on the pass, or on its place in the batch.
fn varies(model: &Encoder, width: usize) -> bool {
    let two = random_batch(model.config(), 2, width).tokens;
    let tokens = Tensor::cat(vec![two.clone(), two.narrow(0, 0, 1)], 0);
    let logits = |pass: u64| -> Vec<f32> {
        model.forward(tokens.clone(), Pass::evaluation(1, pass)).into_data().iter::<f32>().collect()
    };
    let (one, other, classes) = (logits(0), logits(1), model.config().classes);
    one[..classes].iter().zip(&other[2 * classes..]).any(|(a, b)| (a - b).abs() > 1e-4 * (1.0 + a.abs()))
}

impl Lab {
    /// Whether stored models fit the trials whose keys they are to choose, before any of them begins. `stored` reads the weights.
    pub fn check_donors<'a>(
        &self,
        trials: &[Trial],
        stored: impl Fn(&Origin) -> Option<&'a Checkpoint>,
    ) -> Result<(), TrainingError> {
        let mut seen = HashSet::new();
        for trial in trials {
            let TrialSettings { mechanism, model, seed, training, .. } = &trial.settings;
            let Some(donor) = training.donor.with_seed(*seed) else { continue };
            let Some(stored) = stored(&donor).filter(|_| seen.insert(format!("{mechanism} {model:?} {donor}"))) else {
                continue;
            };
            let unfit = |reason| TrainingError::Donor(DonorError::Unfit { donor, reason });
            let chooser = Arc::new(built(self, trial, stored).map_err(unfit)?);
            let attention = self.trial_attention(&trial.settings)?.stage(0).clone();
            let model = Encoder::new(model.clone(), attention, *seed, &Device::cpu().plain())?;
            model.with_donor(Some(chooser)).map_err(unfit)?;
        }
        Ok(())
    }
}
