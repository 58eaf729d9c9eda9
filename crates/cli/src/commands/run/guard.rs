//! Long runs are not started by accident.

use std::io::{IsTerminal, Write};

use semfocus_core::{Experiment, Request, Scale};
use semfocus_lab::Lab;
use semfocus_lab::estimate::Estimate;
use semfocus_store::files;

use super::Args;
use super::experiment::ExperimentArgs;
use super::prepare::Prepared;
use crate::Error;
use crate::screen::text_width;
use crate::talk::say;
use crate::text::{duration, size, wrap};

/// Longer runs, in seconds, are started only if somebody says so.
const LONG: f64 = 3600.0;

/// Whether a run may start: it is short, or `--yes` is given, or the answer on the terminal is yes.
pub(super) fn may_start(
    args: &Args,
    lab: &Lab,
    prepared: &Prepared,
    estimate: Option<&Estimate>,
) -> Result<bool, Error> {
    let Some(estimate) = estimate.filter(|estimate| estimate.seconds > LONG && !args.yes) else {
        return Ok(true);
    };
    let time = duration(estimate.seconds);
    let less = if estimate.can_stop_early { ", less if trials reach their target early" } else { "" };
    let advice = advice(&args.what, lab, &prepared.experiment);
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        say!("{}", wrap(&format!("This takes about {time}{less}. {advice}"), text_width()).join("\n"));
        let mut stderr = std::io::stderr();
        let _ = write!(stderr, "Start it? [y/N] ").and_then(|()| stderr.flush()); // a terminal that is gone gives no answer
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        let is_yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
        if !is_yes {
            say!("Not started.");
        }
        return Ok(is_yes);
    }
    say!("error: this takes about {time}{less}; give --yes to start it\nhelp: {advice}");
    Ok(false)
}

/// Refuses a run that the disk has no space for, unless `--yes` is given.
pub(crate) fn check_space(yes: bool, prepared: &Prepared, estimate: Option<&Estimate>) -> Result<(), Error> {
    let needed = estimate.filter(|_| !yes).map_or(0, |estimate| estimate.disk_left);
    match files::free_space(&prepared.dir).and_then(|free| shortage(needed, free)) {
        Some(message) => Err(format!(
            "{message} for {}\nhelp: free some space, or choose another folder with -o; --yes starts it anyway",
            prepared.dir.display()
        )
        .into()),
        None => Ok(()),
    }
}

fn shortage(needed: u64, free: u64) -> Option<String> {
    (needed > free)
        .then(|| format!("the run needs about {} of disk space, but only {} are free", size(needed), size(free)))
}

/// How to have an answer sooner.
fn advice(args: &ExperimentArgs, lab: &Lab, experiment: &Experiment) -> String {
    let quick = Request { scale: Some(Scale::Quick), ..args.request() };
    if experiment.scale != Scale::Quick && Experiment::resolve(&quick, lab).is_ok() {
        return "--scale quick runs a smaller version.".to_owned();
    }
    let shorter = "Fewer --seeds, --epochs or --mechanisms, or a smaller data.length or data.train take less time";
    let task = experiment.settings_at(&[], "full", 0).map(|settings| settings.task).unwrap_or_default();
    let is_preset = semfocus_core::experiment::presets().iter().any(|preset| preset.name == task);
    if is_preset && experiment.scale != Scale::Quick {
        return format!(
            "{shorter}; a file with `base = \"{task}\"` in place of `task = \"{task}\"` can be run with --scale quick."
        );
    }
    format!("{shorter}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_to_fit_on_the_disk() {
        assert_eq!(shortage(6_000_000, 6_000_000), None);
        let message = shortage(6_000_000, 300_000).unwrap();
        assert_eq!(message, "the run needs about 6 MB of disk space, but only 300 kB are free");
        assert!(files::free_space(std::path::Path::new("folders/that/are/not/there")).is_some_and(|free| free > 0));
    }
}
