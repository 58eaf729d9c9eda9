//! Which experiment is meant, on the command line: for `run` and `slurm submit`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args as ClapArgs;
use semfocus_core::experiment::presets;
use semfocus_core::{MechanismList, Request, Scale};
use semfocus_store::Store;

use super::from::StoredWeights;
use crate::DeviceArg;
use crate::locks::LockArg;

/// An experiment, the changes to it, and its folder.
#[derive(Debug, ClapArgs)]
pub(crate) struct ExperimentArgs {
    /// Name of a preset (see `semfocus list experiments`), path of an experiment file, or folder of a run to resume
    pub(super) experiment: String,
    /// Settings to override, such as model.blocks=3; the same as -s
    #[arg(value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Folder for the results [default: runs/NAME, where the name includes changed settings]
    ///
    /// With more mechanisms, seeds, epochs or grid values, an experiment grows in its folder: finished trials are kept.
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// How much of the experiment to run [default: quick for a preset; a file runs as it is written]
    #[arg(long, value_name = "quick|medium|full")]
    pub(super) scale: Option<Scale>,
    /// Mechanisms to compare instead of those of the experiment
    #[arg(long, value_name = "A,B,…")]
    mechanisms: Option<Vec<MechanismList>>,
    /// Number of seeds, or the seeds themselves, such as 7,8,9
    ///
    /// A single number is a count: 3 uses the first three seeds of the study. To use only the seed 3, write `3,`.
    #[arg(long, value_name = "N|A,B,…")]
    seeds: Option<Seeds>,
    /// Number of epochs
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: Option<u32>,
    /// Override a setting, e.g. -s model.blocks=3 (see `semfocus list settings`)
    ///
    /// Several values make an axis of a grid: -s training.learning_rate=1e-3,3e-3 trains everything with both.
    #[arg(short, long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Start from the weights of a stored trial, such as runs/even-pairs-quick/a7b4@10, instead of random ones
    ///
    /// EPOCH is a number, `last` (the default) or `best`. The run keeps a copy of the weights. Without --seeds, the trials
    /// use the seed that the weights were trained with.
    #[arg(long, value_name = "TRIAL[@EPOCH]")]
    pub(super) from: Option<StoredWeights>,
    /// Try everything once, as small as possible: every mechanism and grid point, one seed, one epoch, few examples
    ///
    /// Other options take precedence.
    #[arg(long)]
    pub(super) smoke: bool,
    /// Keep trials that another version of your own mechanism or task has made, and continue them
    ///
    /// Without it they are refused, because their results may be different now. The run notes that it was used.
    #[arg(long)]
    pub(crate) accept_code: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArg,
    #[command(flatten)]
    pub(crate) lock: LockArg,
}

impl ExperimentArgs {
    pub(super) fn request(&self) -> Request {
        let mut overrides: Vec<String> = self.set.iter().chain(&self.settings).cloned().collect();
        let mut seeds = None;
        match &self.seeds {
            Some(Seeds::Count(count)) => seeds = Some(*count),
            Some(Seeds::List(list)) => overrides.push(format!("seeds={list:?}")),
            None => {}
        }
        let mut experiment = self.experiment.clone();
        if let Some(dir) = self.run_folder() {
            experiment = dir.join("experiment.toml").display().to_string();
        }
        Request {
            experiment,
            scale: self.scale,
            mechanisms: self.mechanisms.as_ref().map(|lists| lists.iter().flat_map(|list| list.0.clone()).collect()),
            seeds,
            epochs: self.epochs.map(|epochs| epochs as usize),
            overrides,
            smoke: self.smoke,
        }
    }

    /// The folder of the run that is to be resumed, if one is named in place of an experiment.
    pub(super) fn run_folder(&self) -> Option<PathBuf> {
        let is_preset = presets().iter().any(|preset| preset.name == self.experiment);
        let path = Path::new(&self.experiment);
        (!is_preset && Store::is_store(path)).then(|| path.to_owned())
    }
}

/// How many seeds, or which.
#[derive(Clone, Debug)]
enum Seeds {
    Count(usize),
    List(Vec<u64>),
}

impl FromStr for Seeds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let expected = || "expected a number of seeds from 1 to 100000, or a list of seeds such as 7,8,9".to_owned();
        if !text.contains(',') {
            let count = text.trim().parse().ok().filter(|count| (1..=100_000).contains(count));
            return count.map(Seeds::Count).ok_or_else(expected);
        }
        let numbers = text.split(',').map(str::trim).filter(|number| !number.is_empty());
        let seeds: Result<Vec<u64>, _> = numbers.map(str::parse).collect();
        seeds.ok().filter(|seeds| !seeds.is_empty()).map(Seeds::List).ok_or_else(expected)
    }
}
