//! All settings of a trial: what is trained on what, and how.

pub mod learning_rate;
mod registry;
mod setting;

use crate::data::DataSettings;
use crate::goal::Goal;
use crate::mechanism::{Layers, Schedule};
use crate::model::{ConfigError, ModelConfig, Visibility};
use crate::optimizer::{OptimizerConfig, Rule};
use crate::origin::Origin;
use crate::trial::TrialId;

pub(crate) use registry::alternative;
pub use registry::{all, find};
pub use setting::{Role, Setting};

use learning_rate::RateSettings;

/// Everything that determines a trial: the same settings give the same bits.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSettings {
    /// The task, as it is written, or the path of a data file.
    pub task: String,
    /// Attention mechanism, as it is written.
    pub mechanism: String,
    /// Seed of data, initial weights, order and dropout.
    pub seed: u64,
    /// Lengths and sizes of the data.
    pub data: DataSettings,
    /// Checksum of the data file, if the task is one; filled in when a trial is planned.
    pub data_checksum: Option<String>,
    /// Checksum of the tokenizer, if the task is `text`; filled in when a trial is planned.
    pub tokenizer_checksum: Option<String>,
    /// The model. Vocabulary, classes and pad token are those of the task and are filled in when a trial is planned.
    pub model: ModelConfig,
    /// How it is trained.
    pub training: Training,
    /// What is recorded during training.
    pub probing: Probing,
    /// Quirk of the published code: the last example of each epoch's shuffled order is not trained on, and evaluation skips
    /// the last row of a split but counts it in the denominator. The model's quirks are in `model`.
    pub skip_last_example: bool,
}

/// How a model is trained.
#[derive(Clone, Debug, PartialEq)]
pub struct Training {
    /// How long it is trained. An epoch is what a line of the record is about: a pass over the training examples, or
    /// `evaluate_every` steps.
    pub epochs: usize,
    /// Steps in all, if they were asked for; a planned trial then has the `epochs` that they make.
    pub steps: Option<usize>,
    /// Steps of an epoch; 0 if an epoch is a pass over the training examples, or as many steps with new ones.
    pub evaluate_every: usize,
    /// Examples of a step.
    pub batch: usize,
    /// Whether every pass has the training examples in an order of its own. Without, it has them in the order of the files.
    pub shuffle: bool,
    /// Learning rate of the first step, or after the warm-up.
    pub learning_rate: f64,
    /// Factor of the learning rate after every pass over the training examples, and after every epoch if there are no
    /// passes because new examples are drawn for every step.
    pub decay: f64,
    /// How the learning rate changes.
    pub rate: RateSettings,
    /// Largest joint norm of the gradients; infinity for no limit.
    pub clip: f64,
    /// The optimiser.
    pub optimizer: OptimizerConfig,
    /// Target at which a trial ends before its last epoch, if any.
    pub stop_when: Option<Goal>,
    /// Attention with which the model is evaluated, as it is written; none for the one that it is trained with.
    pub evaluate_as: Option<String>,
    /// Stored weights that it starts with in place of those of its seed.
    pub from: Option<Origin>,
}

/// How often the attention is probed during training, which does not change the training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    /// Epochs between probes; 0 for no probes.
    pub every: usize,
    /// Training examples that a probe uses.
    pub samples: usize,
}

impl Probing {
    /// Whether a probe is due after a number of epochs. There is one before the first epoch, too.
    pub fn is_due(&self, epoch: usize) -> bool {
        self.every > 0 && epoch.is_multiple_of(self.every)
    }
}

impl Default for TrialSettings {
    /// The settings that all tasks of the study share. Ids of stored trials depend on them: never change one.
    fn default() -> Self {
        TrialSettings {
            task: "even-pairs".to_owned(),
            mechanism: "full".to_owned(),
            seed: 0,
            data: DataSettings::default(),
            data_checksum: None,
            tokenizer_checksum: None,
            model: ModelConfig::new(0, 0),
            training: Training {
                epochs: 100,
                steps: None,
                evaluate_every: 0,
                batch: 25,
                shuffle: true,
                learning_rate: 0.1,
                decay: 0.9995,
                rate: RateSettings::default(),
                clip: 0.5,
                optimizer: OptimizerConfig::default(),
                stop_when: None,
                evaluate_as: None,
                from: None,
            },
            probing: Probing { every: 0, samples: 200 },
            skip_last_example: false,
        }
    }
}

impl TrialId {
    /// The id of a trial with these settings.
    pub fn new(settings: &TrialSettings) -> Self {
        TrialId::from_identity(&settings.identity())
    }
}

impl TrialSettings {
    /// Whether an epoch is a pass over a fixed set of training examples, as usual.
    pub fn is_epoch_a_pass(&self) -> bool {
        !self.data.online && self.training.evaluate_every == 0
    }

    /// All settings as a TOML table in which `model.blocks` is the key `blocks` of the table `model`. Some are left out where
    /// they have their default values: those that were added when there were stored trials.
    pub fn to_table(&self) -> toml::Table {
        self.table_of(|_| true)
    }

    /// The same without what the results of an epoch do not depend on: the number of epochs, the target, the probes.
    pub fn to_table_of_results(&self) -> toml::Table {
        self.table_of(|setting| setting.role == Role::Result)
    }

    fn table_of(&self, is_wanted: impl Fn(&Setting) -> bool) -> toml::Table {
        let mut table = toml::Table::new();
        let default = TrialSettings::default();
        for setting in all().iter().filter(|setting| is_wanted(setting) && setting.is_stored(self, &default)) {
            if let Some(value) = setting.get(self) {
                insert(&mut table, setting.path, value);
            }
        }
        table
    }

    /// The settings that such a table holds; what it leaves out is as in [`TrialSettings::default`].
    pub fn from_table(table: &toml::Table) -> Result<Self, String> {
        let mut settings = TrialSettings::default();
        let mut entries = Vec::new();
        flatten(table, "", &mut entries);
        // Values of a task that are settings of their own become part of the task.
        entries.sort_by_key(|(path, _)| path != "task");
        for (path, value) in entries {
            let setting = find(&path).ok_or_else(|| format!("unknown setting `{path}`"))?;
            setting.set(&mut settings, value).map_err(|wrong| format!("`{path}`: {wrong}"))?;
        }
        Ok(settings)
    }

    /// The settings that determine the results of this trial, one per line; two trials with the same text have the same
    /// results. Left out are the number of epochs and the target, because a longer trial begins with the shorter one;
    /// probes, which change nothing; and settings that have their default value, because a setting that a later version
    /// adds must not change the ids of stored trials.
    pub fn identity(&self) -> String {
        let default = TrialSettings::default();
        let mut text = String::new();
        for setting in all().iter().filter(|setting| setting.role == Role::Result) {
            // Data files are identified by their contents, wherever they are. What is made of a text is no file.
            let is_text = self.tokenizer_checksum.is_some();
            let names_a_file = setting.path == "task" && !is_text || setting.path.ends_with("_file");
            if names_a_file && self.data_checksum.is_some() {
                continue;
            }
            let value = setting.get_for_id(self);
            if setting.is_always_written() || value != setting.get_for_id(&default) {
                let value = value.map_or_else(|| "none".to_owned(), |value| value.to_string());
                text += &format!("{} = {value}\n", setting.path);
            }
        }
        text
    }

    /// Checks whether the settings go together, which none of them shows alone.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let optimizer = &self.training.optimizer;
        let default = OptimizerConfig::default();
        if optimizer.rule != Rule::Sgd && optimizer.momentum != 0.0 {
            return Err(("training.momentum", "momentum belongs to `sgd`; Adam has `training.beta1`".to_owned()));
        }
        if optimizer.rule == Rule::Sgd {
            for (path, given, default) in [
                ("training.beta1", optimizer.beta1, default.beta1),
                ("training.beta2", optimizer.beta2, default.beta2),
                ("training.epsilon", optimizer.epsilon, default.epsilon),
            ] {
                if given != default {
                    return Err((path, "this belongs to `adam` and `adamw`; `sgd` has `training.momentum`".to_owned()));
                }
            }
        }
        if self.data.online && !self.training.shuffle {
            let reason = "new examples are drawn for every step (`data.online`), so they have no order of their own";
            return Err(("training.shuffle", reason.to_owned()));
        }
        if self.data.online && self.skip_last_example {
            let reason = "there is no last example to skip if new ones are drawn for every step (`data.online`)";
            return Err(("quirks.skip_last_example", reason.to_owned()));
        }
        self.training.rate.check(self.training.learning_rate)?;
        self.check_attention()
    }

    /// Checks the attention of training and evaluation as far as its form says.
    fn check_attention(&self) -> Result<(), (&'static str, String)> {
        let Ok(schedule) = self.mechanism.parse::<Schedule>() else { return Ok(()) };
        let evaluate_as = self.training.evaluate_as.as_ref().and_then(|text| text.parse::<Layers>().ok());
        let training = schedule.stages().iter().map(|stage| ("mechanism", &stage.layers));
        let mut first = None;
        for (path, layers) in training.chain(evaluate_as.as_ref().map(|layers| ("training.evaluate_as", layers))) {
            let (given, blocks) = (layers.attentions().len(), self.model.blocks);
            if given > 1 && given != blocks {
                let error = ConfigError::Blocks { text: layers.to_string(), given, blocks };
                return Err(("model.blocks", error.to_string()));
            }
            for spec in layers.attentions() {
                if self.model.visibility == Visibility::Causal && spec.globals > 0 {
                    return Err(("model.visibility", format!("`{spec}`: {}", ConfigError::CausalGlobals)));
                }
                let globals = *first.get_or_insert(spec.globals);
                if globals != spec.globals {
                    let error = ConfigError::OtherGlobals(globals, spec.globals);
                    return Err((path, format!("`{}`: {error}", self.mechanism)));
                }
            }
        }
        Ok(())
    }
}

/// Puts `value` at a path such as `model.blocks`.
pub(crate) fn insert(table: &mut toml::Table, path: &str, value: toml::Value) {
    match path.split_once('.') {
        None => {
            table.insert(path.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = table.entry(head).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            insert(inner.as_table_mut().expect("no setting has settings below it"), rest, value);
        }
    }
}

/// The paths and values of a table of tables.
pub(crate) fn flatten<'a>(table: &'a toml::Table, prefix: &str, entries: &mut Vec<(String, &'a toml::Value)>) {
    for (key, value) in table {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(inner, &path, entries),
            value => entries.push((path, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_give_back_what_was_put_in() {
        let mut settings = TrialSettings { seed: 7, mechanism: "topk:5".to_owned(), ..TrialSettings::default() };
        settings.model.d_head = Some(8);
        settings.model.activation = crate::Activation::Mish;
        settings.model.quirks.first_norm_without_eps = true;
        settings.training.optimizer.rule = Rule::AdamW;
        settings.training.stop_when = Some("heldout_accuracy >= 0.99".parse().unwrap());
        settings.training.clip = f64::INFINITY;
        settings.data.length = Some("20..40".parse().unwrap());
        settings.skip_last_example = true;
        let text = toml::to_string(&settings.to_table()).unwrap();
        assert_eq!(TrialSettings::from_table(&text.parse().unwrap()), Ok(settings.clone()), "{text}");
        assert_eq!(TrialSettings::from_table(&toml::Table::new()), Ok(TrialSettings::default()));
        let unknown: toml::Table = "model.block = 3".parse().unwrap();
        assert_eq!(TrialSettings::from_table(&unknown), Err("unknown setting `model.block`".to_owned()));
    }

    #[test]
    fn identity_is_pinned() {
        // Folders of stored trials are named by it.
        let mut settings = TrialSettings { seed: 3, mechanism: "topk:5".to_owned(), ..TrialSettings::default() };
        settings.training.epochs = 7;
        settings.training.stop_when = Some("train_accuracy >= 0.5".parse().unwrap());
        assert_eq!(settings.identity(), "task = \"even-pairs\"\nmechanism = \"topk:5\"\nseed = 3\n");
        settings.training.learning_rate = 1.0;
        settings.model.blocks = 10;
        assert_eq!(
            settings.identity(),
            "task = \"even-pairs\"\nmechanism = \"topk:5\"\nseed = 3\nmodel.blocks = 10\ntraining.learning_rate = 1.0\n"
        );
    }

    #[test]
    fn settings_that_came_later_leave_stored_trials_alone() {
        let mut settings = TrialSettings { mechanism: "topk:5".to_owned(), ..TrialSettings::default() };
        let (id, text) = (TrialId::new(&settings), toml::to_string(&settings.to_table()).unwrap());
        assert_eq!(id.to_string(), "6dd70808d11e42eb");
        for setting in
            ["lr_factor", "online", "steps", "evaluate_every", "evaluate_as", "from", "schedule", "warmup", "min_"]
        {
            assert!(!text.contains(setting), "{text}");
        }
        settings.training.optimizer.lr_factors.query = 8.0;
        settings.training.optimizer.lr_factors.mlp_output = 0.0;
        (settings.data.online, settings.training.evaluate_every) = (true, 10);
        // How long a trial is trained is not part of its identity, in epochs or in steps.
        settings.training.steps = Some(500);
        assert_eq!(
            settings.identity(),
            "task = \"even-pairs\"\nmechanism = \"topk:5\"\nseed = 0\ndata.online = true\n\
             training.evaluate_every = 10\ntraining.lr_factor.query = 8.0\ntraining.lr_factor.mlp_output = 0.0\n"
        );
        let changed = toml::to_string(&settings.to_table()).unwrap();
        assert!(changed.contains("[training.lr_factor]\nmlp_output = 0.0\nquery = 8.0\n"), "{changed}");
        assert!(changed.contains("online = true") && changed.contains("steps = 500"), "{changed}");
        assert_eq!(TrialSettings::from_table(&changed.parse().unwrap()), Ok(settings));
    }

    /// Version 0.2.0 had the values of `listops` as settings, and stored them for every task.
    #[test]
    fn values_of_tasks_that_were_settings_are_read_and_keep_their_ids() {
        let read = |text: &str| TrialSettings::from_table(&text.parse().unwrap());
        let earlier = "task = \"listops\"\n[data.listops]\nmax_args = 4\nmax_depth = 5\noperator_probability = 0.5\n";
        let settings = read(earlier).unwrap();
        assert_eq!(settings.task, "listops:depth=5,args=4,operators=0.5");
        assert_eq!(
            settings.identity(),
            "task = \"listops\"\nmechanism = \"full\"\nseed = 0\ndata.listops.max_depth = 5\n\
             data.listops.max_args = 4\ndata.listops.operator_probability = 0.5\n"
        );
        assert_eq!(TrialId::new(&settings).to_string(), "590f66fb12a5d72c", "as in version 0.2.0");
        let stored = settings.to_table();
        assert!(!stored.contains_key("data") || !stored["data"].as_table().unwrap().contains_key("listops"));
        assert_eq!(TrialSettings::from_table(&stored), Ok(settings));
        let defaults = "[data.listops]\nmax_args = 10\nmax_depth = 10\noperator_probability = 0.25\n";
        assert_eq!(read(&format!("task = \"listops\"\n{defaults}")).unwrap().task, "listops");
        assert_eq!(read(&format!("task = \"parity\"\n{defaults}")).unwrap().task, "parity");
        let wrong = |text: &str| read(text).unwrap_err();
        let contradiction = "task = \"listops:depth=5\"\n[data.listops]\nmax_depth = 10\n";
        assert!(
            wrong(contradiction).contains("`task = \"listops:depth=5\"` says otherwise"),
            "{}",
            wrong(contradiction)
        );
        assert!(wrong("task = \"parity\"\n[data.listops]\nmax_depth = 5\n").contains("belongs to the task `listops`"));
        let agreeing = "task = \"listops:depth=5\"\n[data.listops]\nmax_depth = 5\n";
        assert_eq!(read(agreeing).unwrap().task, "listops:depth=5");
    }

    #[test]
    fn settings_that_do_not_go_together_are_refused() {
        let mut settings = TrialSettings::default();
        settings.training.optimizer.momentum = 0.9;
        assert_eq!(settings.check(), Ok(()));
        settings.training.optimizer.rule = Rule::Adam;
        assert_eq!(settings.check().unwrap_err().0, "training.momentum");
        settings = TrialSettings::default();
        settings.training.optimizer.beta2 = 0.9;
        assert_eq!(settings.check().unwrap_err().0, "training.beta2");
        settings = TrialSettings { skip_last_example: true, ..TrialSettings::default() };
        assert_eq!(settings.check(), Ok(()));
        settings.data.online = true;
        assert_eq!(settings.check().unwrap_err().0, "quirks.skip_last_example");
    }
}
