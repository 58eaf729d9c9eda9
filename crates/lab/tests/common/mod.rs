//! What the tests of training share.

use semfocus_core::{Experiment, Request};
use semfocus_lab::{Lab, Trial};

/// Settings with which every part of a step has state or chance to lose: Adam, dropout, a learning rate that falls quickly; 101
/// training examples, 5 steps for a pass.
const SETTINGS: [&str; 10] = [
    "data.length=9",
    "data.train=101",
    "data.held_out=20",
    "model.d_model=12",
    "model.d_mlp=8",
    "model.blocks=2",
    "model.dropout=0.1",
    "training.optimizer=adam",
    "training.learning_rate=0.01",
    "training.decay=0.5",
];

/// A small trial on parity with the first seed of the study.
pub(crate) fn planned(lab: &Lab, mechanism: &str, overrides: &[&str]) -> Result<Trial, String> {
    let overrides = SETTINGS.iter().chain(overrides).map(|&text| text.to_owned()).collect();
    let request = Request {
        experiment: "parity".to_owned(),
        mechanisms: Some(vec![mechanism.to_owned()]),
        seeds: Some(1),
        overrides,
        ..Request::default()
    };
    let experiment = Experiment::resolve(&request, lab).map_err(|error| error.to_string())?;
    Ok(lab.plan(&experiment).map_err(|error| error.to_string())?.trials.swap_remove(0))
}
