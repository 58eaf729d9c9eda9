//! The list of settings. Reading experiment files, overrides, grids, stored trials, messages and `semfocus list settings`
//! all go through it.

use std::sync::LazyLock;

use toml::Value;

use super::learning_rate::RateSchedule;
use super::setting::{Role, Setting, choice, count, field, file, flag, number, task_value, text, whole};
use crate::mechanism::{Layers, Schedule};
use crate::model::{Activation, Engine, Head, Initialisation, PositionKind, Visibility};
use crate::names::shortened;
use crate::optimizer::{Decayed, Rule};

/// All settings, in the order in which they are listed.
pub fn all() -> &'static [Setting] {
    static ALL: LazyLock<Vec<Setting>> = LazyLock::new(settings);
    &ALL
}

/// The setting at a path.
pub fn find(path: &str) -> Option<&'static Setting> {
    all().iter().find(|setting| setting.path == path)
}

/// The other way to say the same as a setting, if there is one: only one of them can be given.
pub(crate) fn alternative(path: &str) -> Option<&'static str> {
    match path {
        "training.epochs" => Some("training.steps"),
        "training.steps" => Some("training.epochs"),
        _ => None,
    }
}

/// Grouped by table, in the order in which they are explained.
fn settings() -> Vec<Setting> {
    let mut all = vec![
        text(
            "task",
            "what is learned",
            "a task such as \"parity\" or \"listops:depth=5\", or the path of a data file",
            |s| Some(Value::String(s.task.clone())),
            |s, text| {
                s.task = text.to_owned();
                Ok(())
            },
        ),
        text(
            "mechanism",
            "attention mechanism",
            "a mechanism such as \"topk:5\"",
            |s| Some(Value::String(s.mechanism.clone())),
            |s, text| {
                s.mechanism = text.parse::<Schedule>()?.to_string();
                Ok(())
            },
        ),
        text(
            "seed",
            "seed of data, initial weights, order and dropout",
            SEED,
            |s| Some(whole(s.seed)),
            |s, text| {
                s.seed = seed(text)?;
                Ok(())
            },
        ),
    ];
    all.extend(data());
    all.extend(model());
    all.extend(training());
    all.extend(learning_rate_factors());
    all.extend(probing());
    all.extend(quirks());
    all
}

fn data() -> Vec<Setting> {
    vec![
        text(
            "data.length",
            "tokens of a sequence; the task's default if left out",
            "a length such as 40, or a range such as \"20..40\"",
            |s| s.data.length.map(|length| Value::String(length.to_string())),
            |s, text| {
                s.data.length = Some(text.parse()?);
                Ok(())
            },
        ),
        count(
            "data.train",
            "examples to train on; with `data.online` only to measure training with",
            1..=EXAMPLES,
            field!(data.sizes.train),
        ),
        count("data.held_out", "examples to measure generalisation with", 1..=EXAMPLES, field!(data.sizes.held_out)),
        count(
            "data.test",
            "examples evaluated once, at the end of a trial; never used to choose anything",
            0..=EXAMPLES,
            field!(data.sizes.test),
        ),
        flag(
            "data.online",
            "draw new training examples for every step; training loss and accuracy are then measured on \
             `data.train` others",
            field!(data.online),
        )
        .left_out_at_default(),
        text(
            "data.seed",
            "seed of the data alone, so that all repetitions share one data set; the trial's seed if left out",
            SEED,
            |s| s.data.seed.map(whole),
            |s, text| {
                s.data.seed = Some(seed(text)?);
                Ok(())
            },
        ),
        file(
            "data.train_file",
            "own data in separate files: the training examples, as tab-separated text, .csv or .jsonl; for the task `text` \
             a text, or a folder of .txt files",
            field!(data.files.train),
        ),
        file("data.held_out_file", "own data in separate files: the held-out examples", field!(data.files.held_out)),
        file("data.test_file", "own data in separate files: the test examples", field!(data.files.test)),
        flag(
            "data.no_header",
            "the first line of a CSV file is an example, even if its label occurs nowhere else",
            field!(data.no_header),
        )
        .left_out_at_default(),
        task_value("data.listops.max_depth", "another way to write `task = \"listops:depth=10\"`", "depth", 10.0),
        task_value("data.listops.max_args", "another way to write `task = \"listops:args=10\"`", "args", 10.0),
        task_value(
            "data.listops.operator_probability",
            "another way to write `task = \"listops:operators=0.25\"`",
            "operators",
            0.25,
        ),
        text(
            "data.checksum",
            "checksum of the data files, filled in by the program; other contents are refused",
            "a checksum of 16 digits",
            |s| s.data_checksum.clone().map(Value::String),
            |s, text| {
                s.data_checksum = Some(text.to_owned());
                Ok(())
            },
        ),
        file(
            "data.tokenizer_file",
            "for the task `text`: a tokenizer to use in place of a trained one, a `.model` of SentencePiece or a \
             `tokenizer.json` of Hugging Face",
            field!(data.tokenizer_file),
        ),
        text(
            "data.tokenizer_checksum",
            "for the task `text`: checksum of the tokenizer, filled in by the program; another tokenizer is refused",
            "a checksum of 16 digits",
            |s| s.tokenizer_checksum.clone().map(Value::String),
            |s, text| {
                s.tokenizer_checksum = Some(text.to_owned());
                Ok(())
            },
        ),
    ]
}

fn model() -> Vec<Setting> {
    vec![
        count(
            "model.blocks",
            "number of blocks; each has an attention and an MLP sublayer",
            0..=1000,
            field!(model.blocks),
        ),
        count("model.d_model", "width of the model", 1..=WIDTH, field!(model.d_model)),
        count(
            "model.d_mlp",
            "width of the hidden layer of the MLP; 0 for blocks without an MLP",
            0..=WIDTH,
            field!(model.d_mlp),
        ),
        count("model.heads", "number of attention heads", 1..=1000, field!(model.heads)),
        text(
            "model.d_head",
            "width of a head; the width of the model if left out, for any number of heads",
            "a whole number of at least 1",
            |s| s.model.d_head.map(|width| whole(width as u64)),
            |s, text| {
                s.model.d_head = Some(count_up_to(WIDTH, text)?);
                Ok(())
            },
        ),
        choice!("model.activation", "activation of the MLP", Activation, model.activation),
        number(
            "model.dropout",
            "dropout probability",
            "of at least 0 and below 1",
            |x| (0.0..1.0).contains(&x),
            field!(model.dropout),
        ),
        number(
            "model.inverse_temperature",
            "factor that multiplies the scores",
            "above 0",
            positive,
            field!(model.inverse_temperature),
        ),
        choice!(
            "model.visibility",
            "the keys that a query sees: all, or itself and those before it",
            Visibility,
            model.visibility
        )
        .left_out_at_default(),
        choice!(
            "model.head",
            "where a question about the whole sequence is read: the mean over its tokens, or the last one before padding",
            Head,
            model.head
        )
        .left_out_at_default(),
        choice!(
            "model.positions",
            "positions: fixed sines and cosines, a learned row for each, or none",
            PositionKind,
            model.positions
        )
        .left_out_at_default(),
        flag(
            "model.scale_embedding",
            "embedded tokens are multiplied by the root of the model's width",
            field!(model.scale_embedding),
        )
        .left_out_at_default(),
        flag("model.final_norm", "the row that the classifier reads is normalised", field!(model.final_norm))
            .left_out_at_default(),
        flag("model.affine_norms", "all norms have a learned scale and shift", field!(model.affine_norms))
            .left_out_at_default(),
        flag(
            "model.tied",
            "the classifier's weights for class i are the embedding of token i",
            field!(model.tied),
        )
        .left_out_at_default(),
        choice!(
            "model.initialisation",
            "how the parameters start: uniform as in the study, or normal as in GPT-2",
            Initialisation,
            model.initialisation
        )
        .left_out_at_default(),
        choice!(
            "model.engine",
            "how the sublayers are computed: fused operators or their plain definition",
            Engine,
            model.engine
        ),
    ]
}

fn training() -> Vec<Setting> {
    vec![
        count(
            "training.epochs",
            "how long to train, in passes over the training examples, or in units of `training.evaluate_every` steps",
            1..=1_000_000,
            field!(training.epochs),
        )
        .with_role(Role::Duration),
        text(
            "training.steps",
            "how long to train, in steps, instead of `training.epochs`",
            "a whole number of at least 1",
            |s| s.training.steps.map(|steps| whole(steps as u64)),
            |s, text| {
                s.training.steps = Some(count_up_to(STEPS, text)?);
                Ok(())
            },
        )
        .with_role(Role::Duration),
        count(
            "training.evaluate_every",
            "steps between evaluations; an epoch is then that many steps. 0 for a pass over the training examples",
            0..=STEPS,
            field!(training.evaluate_every),
        )
        .left_out_at_default(),
        text(
            "training.stop_when",
            "target at which a trial ends early",
            "a target such as \"train_accuracy >= 0.99\", or \"never\"",
            |s| s.training.stop_when.map(|goal| Value::String(goal.to_string())),
            |s, text| {
                s.training.stop_when = if text == "never" { None } else { Some(text.parse()?) };
                Ok(())
            },
        )
        .with_role(Role::Duration),
        text(
            "training.evaluate_as",
            "attention mechanism for evaluation, test, predictions, probes and surfaces; the one that is trained if left out",
            "a mechanism such as \"topk:5\", or one for each block",
            |s| s.training.evaluate_as.clone().map(Value::String),
            |s, text| {
                s.training.evaluate_as = if text.is_empty() { None } else { Some(text.parse::<Layers>()?.to_string()) };
                Ok(())
            },
        ),
        text(
            "training.from",
            "stored weights to start with, filled in by `run --from`; the initial weights of the seed if left out",
            "weights such as \"6dd70808d11e42eb@10:8c0f2b1f3d1a2e77\": trial, epoch and checksum",
            |s| s.training.from.map(|origin| Value::String(origin.to_string())),
            |s, text| {
                s.training.from = if text.is_empty() { None } else { Some(text.parse()?) };
                Ok(())
            },
        ),
        count("training.batch", "examples per step", 1..=1_000_000, field!(training.batch)),
        flag(
            "training.shuffle",
            "every pass has the training examples in another order; false for the order of the data files",
            field!(training.shuffle),
        )
        .left_out_at_default(),
        number(
            "training.learning_rate",
            "learning rate at the start",
            "above 0",
            positive,
            field!(training.learning_rate),
        ),
        number(
            "training.decay",
            "factor of the learning rate after every pass over the training examples, or with `data.online` \
             after every epoch",
            "above 0",
            positive,
            field!(training.decay),
        ),
        choice!(
            "training.schedule",
            "what the learning rate does: it is multiplied with `training.decay`, falls along half a cosine wave, or stays",
            RateSchedule,
            training.rate.schedule
        )
        .left_out_at_default(),
        count(
            "training.warmup",
            "steps in which the learning rate rises in a line to its full value",
            0..=STEPS,
            field!(training.rate.warmup),
        )
        .left_out_at_default(),
        number(
            "training.min_learning_rate",
            "cosine: learning rate at the end",
            "of at least 0",
            |x| x >= 0.0 && x.is_finite(),
            field!(training.rate.min),
        )
        .left_out_at_default(),
        text(
            "training.schedule_steps",
            "cosine: steps until the learning rate has its minimum; all steps of the trial if left out, which then cannot be made \
             longer",
            "a whole number of at least 1",
            |s| s.training.rate.steps.map(|steps| whole(steps as u64)),
            |s, text| {
                s.training.rate.steps = Some(count_up_to(STEPS, text)?);
                Ok(())
            },
        ),
        number(
            "training.clip",
            "largest joint norm of the gradients; inf for no limit",
            "above 0",
            |x| x > 0.0,
            field!(training.clip),
        ),
        choice!("training.optimizer", "the optimiser", Rule, training.optimizer.rule),
        number("training.momentum", "sgd: momentum", SHARE, share, field!(training.optimizer.momentum)),
        number(
            "training.beta1",
            "adam, adamw: decay of the mean of gradients",
            SHARE,
            share,
            field!(training.optimizer.beta1),
        ),
        number(
            "training.beta2",
            "adam, adamw: decay of the mean of squared gradients",
            SHARE,
            share,
            field!(training.optimizer.beta2),
        ),
        number(
            "training.epsilon",
            "adam, adamw: added to the denominator",
            "above 0",
            positive,
            field!(training.optimizer.epsilon),
        ),
        number(
            "training.weight_decay",
            "weight decay; adamw applies it to the weights, the others to the gradient",
            "of at least 0",
            |x| x >= 0.0 && x.is_finite(),
            field!(training.optimizer.weight_decay),
        ),
        choice!(
            "training.weight_decay_of",
            "what weight decay applies to: all parameters, or only matrices, embedding and positions",
            Decayed,
            training.optimizer.weight_decay_of
        )
        .left_out_at_default(),
    ]
}

/// Factors of the learning rate, by kind of parameter.
fn learning_rate_factors() -> Vec<Setting> {
    macro_rules! factor {
        ($name:ident, $parameters:literal) => {
            number(
                concat!("training.lr_factor.", stringify!($name)),
                concat!("factor of the learning rate for ", $parameters, "; 0 keeps the initial values"),
                "of at least 0",
                |x| x >= 0.0 && x.is_finite(),
                field!(training.optimizer.lr_factors.$name),
            )
            .left_out_at_default()
        };
    }
    vec![
        factor!(embedding, "the embedding"),
        factor!(query, "the attention's maps to queries"),
        factor!(key, "the attention's maps to keys"),
        factor!(value, "the attention's maps to values"),
        factor!(output, "the attention's maps from its heads back to the model"),
        factor!(hidden, "the MLP's maps to its hidden layer"),
        factor!(mlp_output, "the MLP's maps from its hidden layer back to the model"),
        factor!(classifier, "the classifier; tied weights have that of the embedding"),
        factor!(positions, "learned positions"),
        factor!(norms, "scales and shifts of the norms"),
        factor!(mechanism, "parameters that belong to the attention mechanism, if it has any"),
    ]
}

/// What is recorded in addition to the epochs.
fn probing() -> Vec<Setting> {
    vec![
        count(
            "probe_every",
            "epochs between probes of the attention; 0 for no probes",
            0..=1_000_000,
            field!(probing.every),
        )
        .with_role(Role::Record),
        count("probe_samples", "training examples that a probe uses", 1..=EXAMPLES, field!(probing.samples))
            .with_role(Role::Record),
    ]
}

/// Quirks of the published code: all off unless asked for.
fn quirks() -> Vec<Setting> {
    vec![
        flag(
            "quirks.dropout_in_evaluation",
            "dropout on attention weights stays on in evaluation",
            field!(model.quirks.dropout_in_evaluation),
        ),
        flag(
            "quirks.first_norm_without_eps",
            "the first attention norm divides by the standard deviation alone",
            field!(model.quirks.first_norm_without_eps),
        ),
        flag(
            "quirks.pad_to_mask_multiple",
            "sequences are padded to a multiple of the mechanism's size",
            field!(model.quirks.pad_to_mask_multiple),
        ),
        flag(
            "quirks.skip_last_example",
            "the last example of each shuffled epoch is not trained on; evaluation skips the last row but counts it",
            field!(skip_last_example),
        ),
    ]
}

/// Limits far beyond what a machine can do, which keep mistyped numbers from overflowing anything. What a trial of this
/// size needs in memory is estimated before it begins.
const EXAMPLES: usize = 100_000_000;
const WIDTH: usize = 65_536;
const STEPS: usize = 1_000_000_000;

/// A whole number from 1 to a limit.
fn count_up_to(max: usize, text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| format!("expected a whole number from 1 to {max}, got {}", shortened(text)))
}

const SEED: &str = "a whole number from 0 to 9223372036854775807";

/// A seed; the upper half of the numbers would not fit into TOML.
fn seed(text: &str) -> Result<u64, String> {
    let seed = text.parse::<i64>().ok().and_then(|seed| u64::try_from(seed).ok());
    seed.ok_or_else(|| format!("expected {SEED}, got {}", shortened(text)))
}

const SHARE: &str = "of at least 0 and below 1";

fn share(x: f64) -> bool {
    (0.0..1.0).contains(&x)
}

fn positive(x: f64) -> bool {
    x > 0.0 && x.is_finite()
}

#[cfg(test)]
mod tests {
    use super::super::TrialSettings;
    use super::*;
    use crate::names::nearest;

    #[test]
    fn paths_are_distinct_and_values_go_in_and_out() {
        let settings = TrialSettings::default();
        for (index, setting) in all().iter().enumerate() {
            assert!(all()[..index].iter().all(|other| other.path != setting.path));
            if let Some(value) = setting.get(&settings) {
                let mut copy = settings.clone();
                setting.set(&mut copy, &value).unwrap();
                assert_eq!(copy, settings, "{}", setting.path);
            }
        }
    }

    #[test]
    fn wrong_values_are_explained() {
        let message = |path: &str, value: &str| {
            let value: toml::Table = format!("x = {value}").parse().unwrap();
            find(path).unwrap().set(&mut TrialSettings::default(), &value["x"]).unwrap_err()
        };
        assert_eq!(message("model.heads", "0"), "expected a whole number from 1 to 1000, got 0");
        assert_eq!(message("model.heads", "2.5"), "expected a whole number from 1 to 1000, got 2.5");
        assert_eq!(message("model.heads", "-1"), "expected a whole number from 1 to 1000, got -1");
        assert_eq!(message("model.d_head", "0"), "expected a whole number from 1 to 65536, got 0");
        assert_eq!(message("model.dropout", "1"), "expected a number of at least 0 and below 1, got 1");
        assert_eq!(message("training.learning_rate", "nan"), "expected a number above 0, got nan");
        assert_eq!(message("quirks.skip_last_example", "\"yes\""), "expected true or false, got \"yes\"");
        assert_eq!(
            message("model.activation", "\"gelo\""),
            "expected one of \"relu\", \"gelu\", \"mish\", got \"gelo\"; did you mean \"gelu\"?"
        );
        assert!(message("mechanism", "\"topk:\"").contains("is not a mechanism"));
        assert_eq!(message("model.d_model", "100000"), "expected a whole number from 1 to 65536, got 100000");
        assert_eq!(message("data.length", "1000000000"), "lengths go up to 100000, not `1000000000`");
        assert!(message("model.blocks", &format!("\"{}\"", "9".repeat(1_000_000))).len() < 200);
        assert!(message("data.length", "\"40..20\"").contains("write `20..40`?"));
    }

    #[test]
    fn misspelt_and_foreign_names_are_recognised() {
        let near = |name: &str| nearest(name, all().iter().map(|setting| setting.path));
        assert_eq!(near("model.block"), Some("model.blocks"));
        assert_eq!(near("blocks"), Some("model.blocks"));
        assert_eq!(near("lr"), Some("training.learning_rate"));
        assert_eq!(near("training.optimiser"), Some("training.optimizer"));
        assert_eq!(near("train.epochs"), Some("training.epochs"));
        assert_eq!(near("nonsense"), None);
    }
}
