//! Measurements that workers make when a run is trained: which ones is kept in the folder of the run, so that every worker
//! makes the same.

use std::path::{Path, PathBuf};

use clap::{Args as ClapArgs, Command, FromArgMatches};
use semfocus_core::Experiment;
use semfocus_core::experiment::Step;
use semfocus_lab::Lab;
use semfocus_lab::jobs::Job;
use semfocus_store::{State, Store, files};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::commands::{landscape, probe, sharpness};
use crate::talk::say;

/// The device on which it can always be seen what is left to measure.
const CPU: &str = "cpu";

/// What to measure, on the command line.
#[derive(Debug, ClapArgs)]
pub(crate) struct MeasureArgs {
    /// When all trials are trained, probe them, with these options of `semfocus probe`, as in --probe="--samples 100"
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
}

/// What workers measure: for each command, the options it is given. The contents of `measure.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurements {
    #[serde(skip_serializing_if = "Option::is_none")]
    probe: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    landscape: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sharpness: Option<String>,
}

/// Jobs of one kind, and what their units are called.
pub(crate) type Stage = (&'static str, Vec<Box<dyn Job>>);

fn path(dir: &Path) -> PathBuf {
    dir.join("measure.toml")
}

impl MeasureArgs {
    /// What is asked for; wrong options are refused.
    pub(crate) fn get(&self) -> Result<Measurements, Error> {
        let MeasureArgs { probe, landscape, sharpness } = self;
        let asked = Measurements { probe: probe.clone(), landscape: landscape.clone(), sharpness: sharpness.clone() };
        asked.check(Path::new("DIR"))?;
        Ok(asked)
    }
}

impl Measurements {
    /// What the folder of a run asks for.
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let path = path(dir);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Measurements::default()),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
        };
        let read: Measurements = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        read.check(dir).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(read)
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Measurements::default()
    }

    /// What is asked for now and what the folder asks for.
    pub(crate) fn joined(&self, dir: &Path) -> Result<Self, Error> {
        let (now, before) = (self.clone(), Measurements::read(dir)?);
        Ok(Measurements {
            probe: now.probe.or(before.probe),
            landscape: now.landscape.or(before.landscape),
            sharpness: now.sharpness.or(before.sharpness),
        })
    }

    /// Adds what is asked for now to what the folder asks for, and keeps it there.
    pub(crate) fn keep(&self, dir: &Path) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let joined = self.joined(dir)?;
        if joined == Measurements::read(dir)? {
            return Ok(());
        }
        let text = format!(
            "# What workers measure when all trials are trained: options of `semfocus probe`, `landscape` and `sharpness`.\n{}",
            toml::to_string(&joined)?
        );
        Ok(files::write_whole(&path(dir), text.as_bytes())?)
    }

    fn check(&self, dir: &Path) -> Result<(), Error> {
        if let Some(options) = &self.probe {
            parse::<probe::Args>("probe", options, dir, CPU)?;
        }
        if let Some(options) = &self.landscape {
            parse::<landscape::Args>("landscape", options, dir, CPU)?;
        }
        if let Some(options) = &self.sharpness {
            parse::<sharpness::Args>("sharpness", options, dir, CPU)?;
        }
        Ok(())
    }

    /// What is to be measured, in this order: what the folder asks for, and of the other commands what the experiment says
    /// follows training.
    pub(crate) fn steps(&self, experiment: &Experiment) -> Vec<MeasureStep> {
        let asked = [("probe", &self.probe), ("landscape", &self.landscape), ("sharpness", &self.sharpness)];
        let of_command = |(command, options): (&'static str, &Option<String>)| -> Vec<MeasureStep> {
            let following = experiment.after.steps.iter().filter(|step| step.command == command);
            let words = |step: &Step| shlex::try_join(step.arguments().iter().map(String::as_str)).unwrap_or_default();
            let all = options.as_ref().map_or_else(|| following.map(words).collect(), |options| vec![options.clone()]);
            all.into_iter().map(|options| MeasureStep { command, options }).collect()
        };
        asked.into_iter().flat_map(of_command).collect()
    }
}

/// A command that workers run on the trained models, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MeasureStep {
    command: &'static str,
    options: String,
}

impl MeasureStep {
    /// Its jobs on the models of a run, which are on this device. Reading the models takes time and memory, so it is done for one
    /// step after the other.
    pub(crate) fn stage(&self, lab: &Lab, dir: &Path, device: &str) -> Result<Stage, Error> {
        let MeasureStep { command, options } = self;
        Ok(match *command {
            "probe" => ("models", probe::jobs(&parse(command, options, dir, device)?, lab)?),
            "landscape" => ("cells", landscape::jobs(&parse(command, options, dir, device)?, lab)?),
            _ => ("products", sharpness::jobs(&parse("sharpness", options, dir, device)?, lab)?),
        })
    }

    /// Whether it has jobs that are not over. What is on record does not depend on the device.
    fn is_left(&self, lab: &Lab, dir: &Path) -> Result<bool, Error> {
        for job in self.stage(lab, dir, CPU)?.1 {
            if job.state_if_over()?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether workers would find something to measure in a run whose trials are over.
pub(crate) fn is_left(steps: &[MeasureStep], lab: &Lab, dir: &Path) -> Result<bool, Error> {
    if steps.is_empty() || !Store::is_store(dir) {
        return Ok(false);
    }
    let has_model = |state: State| state.is_over() && state != State::Diverged;
    if !Store::open(dir)?.read()?.trials.iter().any(|trial| has_model(trial.state)) {
        return Ok(false);
    }
    for step in steps {
        if step.is_left(lab, dir)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Says what is going to be measured.
pub(crate) fn introduce(steps: &[MeasureStep]) {
    if !steps.is_empty() {
        let commands: Vec<&str> = steps.iter().map(|step| step.command).collect();
        say!("afterwards {} of the trained models", commands.join(", "));
    }
}

/// The arguments of a command from its options, the folder of a run and the device of the worker.
fn parse<A: ClapArgs + FromArgMatches>(
    name: &'static str,
    options: &str,
    dir: &Path,
    device: &str,
) -> Result<A, Error> {
    let mut words = shlex::split(options).ok_or_else(|| format!("`{options}`: a quote is not closed"))?;
    words.extend(["--device".to_owned(), device.to_owned()]);
    Ok(arguments(words, dir).map_err(|reason| {
        format!("options of `semfocus {name}`: {reason}\nhelp: `semfocus {name} --help` lists them")
    })?)
}

/// The arguments of a command from its options, word by word, and the folder of a run; or what is wrong with them.
pub(crate) fn arguments<A: ClapArgs + FromArgMatches>(options: Vec<String>, dir: &Path) -> Result<A, String> {
    let words = options.into_iter().map(Into::into).chain(["--".into(), dir.as_os_str().to_owned()]);
    let command = A::augment_args(Command::new("semfocus").no_binary_name(true).disable_help_flag(true));
    let wrong = |error: clap::Error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
    };
    let matches = command.try_get_matches_from(words).map_err(wrong)?;
    A::from_arg_matches(&matches).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use semfocus_core::Request;

    use super::*;

    fn asked(probe: Option<&str>, landscape: Option<&str>) -> MeasureArgs {
        MeasureArgs { probe: probe.map(str::to_owned), landscape: landscape.map(str::to_owned), sharpness: None }
    }

    #[test]
    fn options_are_those_of_the_commands() {
        let measurements = asked(Some("--samples 20"), Some("--grid 9 --draws 2")).get().unwrap();
        let step = |command, options: &str| MeasureStep { command, options: options.to_owned() };
        let toml = "claim = \"x\"\nbase = \"even-pairs\"\n[[after.landscape]]\ngrid = 5\n[[after.sharpness]]\nsamples = 5\n\
                    [[after.sharpness]]\nsamples = 7\nfast = true\n";
        let file = std::env::temp_dir().join(format!("semfocus-measure-{}.toml", std::process::id()));
        std::fs::write(&file, toml).unwrap();
        let request = Request { experiment: file.display().to_string(), ..Request::default() };
        let experiment = Experiment::resolve(&request, &Lab::standard()).unwrap();
        std::fs::remove_file(&file).unwrap();
        let expected = [
            step("probe", "--samples 20"),
            step("landscape", "--grid 9 --draws 2"),
            step("sharpness", "--samples 5"),
            step("sharpness", "--samples 7 --fast"),
        ];
        assert_eq!(measurements.steps(&experiment), expected);
        // The device is that of the worker.
        let mistakes = [
            ("--smaples 20", "--smaples"),
            ("--samples x", "invalid value"),
            ("'", "quote"),
            ("--device cpu", "--device <DEVICE>' cannot be used multiple times"),
        ];
        for (wrong, message) in mistakes {
            let error = asked(Some(wrong), None).get().unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        for step in expected {
            let error = step.stage(&Lab::standard(), Path::new("DIR"), "abacus").err().unwrap().to_string();
            assert!(error.contains("there is no device `abacus`"), "{error}");
        }
        assert!(asked(None, None).get().unwrap().is_empty());
    }

    #[test]
    fn what_is_kept_is_read_and_grows() {
        let dir = std::env::temp_dir().join(format!("semfocus-measure-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(Measurements::read(&dir).unwrap().is_empty());
        asked(Some("--samples 20"), None).get().unwrap().keep(&dir).unwrap();
        asked(None, Some("")).get().unwrap().keep(&dir).unwrap();
        assert_eq!(Measurements::read(&dir).unwrap(), asked(Some("--samples 20"), Some("")).get().unwrap());
        std::fs::write(path(&dir), "probe = \"--no-such\"\n").unwrap();
        let error = Measurements::read(&dir).unwrap_err().to_string();
        assert!(error.contains("measure.toml") && error.contains("--no-such"), "{error}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
