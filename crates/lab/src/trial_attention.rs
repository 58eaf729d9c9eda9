//! The attention of a trial: what each epoch is trained with, and what the model is evaluated with.

use semfocus_core::mechanism::{Layers, Schedule, Stage};
use semfocus_core::{ConfigError, TrialSettings};
use semfocus_nn::{BlockAttentions, Registry, SpecError};
use semfocus_store::checkpoint::Progress;

/// Why the attention of a trial cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AttentionError {
    /// It cannot be written so.
    #[error("{0}")]
    Form(String),
    /// A mechanism is unknown, or has wrong values.
    #[error(transparent)]
    Mechanism(Box<SpecError>),
    /// It does not fit the model.
    #[error(transparent)]
    Model(#[from] ConfigError),
}

impl From<SpecError> for AttentionError {
    fn from(error: SpecError) -> Self {
        AttentionError::Mechanism(Box::new(error))
    }
}

/// The attention of a trial, ready for use.
#[derive(Clone, Debug)]
pub struct TrialAttention {
    /// How many epochs are trained before each stage begins, and its attention.
    stages: Vec<(usize, BlockAttentions)>,
    evaluate_as: Option<BlockAttentions>,
}

impl TrialAttention {
    /// The attention that the settings of a trial ask for.
    pub fn new(settings: &TrialSettings, registry: &Registry) -> Result<Self, AttentionError> {
        let schedule: Schedule = settings.mechanism.parse().map_err(AttentionError::Form)?;
        let stage = |Stage { after, layers }: &Stage| Ok((*after, built(layers, registry)?));
        let stages = schedule.stages().iter().map(stage).collect::<Result<Vec<_>, AttentionError>>()?;
        let evaluate_as = settings.training.evaluate_as.as_ref().map(|text| {
            let layers: Layers = text.parse().map_err(AttentionError::Form)?;
            built(&layers, registry)
        });
        let attention = TrialAttention { stages, evaluate_as: evaluate_as.transpose()? };
        let globals = attention.globals();
        for layers in attention.all() {
            layers.check(&settings.model)?;
            if layers.globals() != globals {
                return Err(ConfigError::OtherGlobals(globals, layers.globals()).into());
            }
        }
        Ok(attention)
    }

    /// The stages of training, in order: the epochs before each of them, and its attention.
    pub fn stages(&self) -> &[(usize, BlockAttentions)] {
        &self.stages
    }

    /// Everything that a model of the trial ever computes with.
    pub fn all(&self) -> impl Iterator<Item = &BlockAttentions> {
        self.stages.iter().map(|(_, attention)| attention).chain(&self.evaluate_as)
    }

    /// Number of global tokens, which is always the same.
    pub fn globals(&self) -> usize {
        self.stages[0].1.globals()
    }

    /// Number of the stage that trains an epoch; the first epoch is 1.
    pub fn stage_of_epoch(&self, epoch: usize) -> usize {
        self.stages.iter().take_while(|(after, _)| *after < epoch.max(1)).count() - 1
    }

    /// Number of the stage that trained the last step. A stage begins with the first step of its first epoch, not with the end
    /// of the epoch before.
    pub fn stage_at(&self, progress: &Progress) -> usize {
        self.stage_of_epoch(if progress.step == 0 { progress.epoch } else { progress.epoch + 1 })
    }

    /// The attention of a stage.
    pub fn stage(&self, number: usize) -> &BlockAttentions {
        &self.stages[number].1
    }

    /// What a model that was last trained in a stage is evaluated with.
    pub fn evaluation(&self, stage: usize) -> &BlockAttentions {
        self.evaluate_as.as_ref().unwrap_or_else(|| self.stage(stage))
    }

    /// How many epochs were trained in each stage, with its attention, of a number of epochs in all.
    pub fn epochs_by_stage(&self, epochs: usize) -> impl Iterator<Item = (usize, &BlockAttentions)> {
        let ends = self.stages.iter().skip(1).map(|(after, _)| *after).chain([usize::MAX]);
        self.stages
            .iter()
            .zip(ends)
            .map(move |((after, attention), end)| (end.min(epochs).saturating_sub(*after), attention))
    }

    /// For each block, how many epochs were trained before the scalars were introduced that its mechanism learns in a stage. They
    /// continue from one stage to the next where both have scalars of the same names.
    pub fn epochs_before_head_scalars(&self, stage: usize, blocks: usize) -> Vec<usize> {
        let shares = |earlier: usize, block| self.stage(earlier).shares_head_scalars(self.stage(earlier + 1), block);
        let first = |block| (0..stage).rev().take_while(|earlier| shares(*earlier, block)).last().unwrap_or(stage);
        (0..blocks).map(|block| self.stages[first(block)].0).collect()
    }
}

fn built(layers: &Layers, registry: &Registry) -> Result<BlockAttentions, AttentionError> {
    let attentions = layers.attentions().iter().map(|spec| Ok(registry.parse(&spec.to_string())?));
    Ok(BlockAttentions::new(attentions.collect::<Result<Vec<_>, AttentionError>>()?)?)
}
