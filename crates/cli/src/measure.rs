//! What is measured when all trials are trained.

use clap::Args as ClapArgs;
use semfocus_core::{Experiment, Measurement};
use semfocus_lab::jobs::jobs;
use semfocus_lab::{ChosenModels, Lab};
use semfocus_store::Store;
use toml::Value;

use crate::Error;
use crate::talk::say;

/// What to measure, on the command line.
#[derive(Debug, ClapArgs)]
pub(crate) struct MeasureArgs {
    /// When all trials are trained, probe them, with these options of `semfocus probe`, as in --probe="samples=100 best"
    ///
    /// What to measure is kept in DIR/measure.toml; every worker that starts later does it, too.
    #[arg(long, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    probe: Option<String>,
    /// The same with the loss around the models and options of `semfocus landscape`
    #[arg(long, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    landscape: Option<String>,
    /// The same with their sharpness and options of `semfocus sharpness`
    #[arg(long, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    sharpness: Option<String>,
    /// The same with their loss and accuracy on other data and options of `semfocus evaluate`, as in --evaluate="data.length=80"
    #[arg(long, value_name = "OPTIONS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    evaluate: Option<String>,
}

impl MeasureArgs {
    /// What is asked for; wrong options are refused.
    pub(crate) fn get(&self) -> Result<Vec<Measurement>, Error> {
        let MeasureArgs { probe, landscape, sharpness, evaluate } = self;
        let asked = Measurement::NAMES.into_iter().zip([probe, landscape, sharpness, evaluate]);
        let asked = asked.filter_map(|(name, options)| Some((name, options.as_ref()?)));
        let read = |(name, options): (&str, &String)| {
            Measurement::read(name, options).map_err(|wrong| format!("--{name}: {wrong}").into())
        };
        asked.map(read).collect()
    }
}

/// What is to be measured in a run: what is asked for now, of the others what its folder asks for, and of the others what the
/// experiment says follows training.
pub(crate) fn all(store: &Store, experiment: &Experiment, now: &[Measurement]) -> Result<Vec<Measurement>, Error> {
    let kept = Measurement::in_place_of(&store.measurements()?, now);
    Ok(Measurement::in_place_of(&experiment.after.measurements, &kept))
}

/// The models of a run that a measurement is about. A trial that is not over is left out: it would be compared with others after
/// fewer epochs.
pub(crate) fn models(measurement: &Measurement, lab: &Lab, store: &Store) -> Result<ChosenModels, Error> {
    let mut chosen = ChosenModels::default();
    chosen.of_run(lab, store, measurement.models())?;
    let (over, others): (Vec<_>, Vec<_>) = chosen.models.into_iter().partition(|model| model.is_over);
    chosen.skipped.extend(others.iter().map(|model| format!("{}: not over, skipped", model.title)));
    Ok(ChosenModels { models: over, ..chosen })
}

/// Whether workers would find something to measure in a run whose trials are over. No model is loaded.
pub(crate) fn is_left(measurements: &[Measurement], lab: &Lab, store: &Store) -> Result<bool, Error> {
    for measurement in measurements.iter().filter(|_| Store::is_store(store.dir())) {
        for job in jobs(measurement, &models(measurement, lab, store)?.models)? {
            if job.state_if_over()?.is_none() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A measurement as a command: `landscape --grid 21`.
pub(crate) fn command(measurement: &Measurement) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut words = measurement.name().to_owned();
    for (option, value) in measurement.changes() {
        // Settings of data are written as everywhere.
        if option.contains('.') {
            words += &format!(" {option}={}", plain(&value));
            continue;
        }
        words += &format!(" --{}", option.replace('_', "-"));
        match value {
            Value::Boolean(true) => {}
            Value::Array(values) => words += &format!(" {}", values.iter().map(plain).collect::<Vec<_>>().join(",")),
            value => words += &format!(" {}", plain(&value)),
        }
    }
    words
}

/// Says what is going to be measured.
pub(crate) fn introduce(measurements: &[Measurement]) {
    if !measurements.is_empty() {
        let names: Vec<&str> = measurements.iter().map(Measurement::name).collect();
        say!("after training: {}", names.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_measurements() {
        let probe = Some("--samples 20".to_owned());
        let args = MeasureArgs {
            probe,
            landscape: Some("grid=9 attention_dropout".to_owned()),
            sharpness: None,
            evaluate: None,
        };
        let commands: Vec<String> = args.get().unwrap().iter().map(command).collect();
        assert_eq!(commands, ["probe --samples 20", "landscape --attention-dropout --grid 9"]);
        let args = MeasureArgs { probe: Some("--smaples 20".to_owned()), ..args };
        let error = args.get().unwrap_err().to_string();
        assert!(error.contains("--probe: `probe` has no option `smaples`\nhelp: did you mean `samples`?"), "{error}");
    }
}
