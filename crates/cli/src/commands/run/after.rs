//! What follows training: measurements of the trained models, and the figures that a run is made for.

use std::io::{self, Write};
use std::path::Path;

use semfocus_core::{Experiment, Measurement};
use semfocus_store::Store;

use crate::commands::measure::{View, measure as measure_models};
use crate::execute::Execution;
use crate::measure::{command, models};
use crate::models::announced;
use crate::talk::say;
use crate::{Error, Exit};

/// Makes measurements, one after the other. What they print is left out if nobody is to read it.
pub(super) fn measure(
    measurements: &[Measurement],
    store: &Store,
    execution: &Execution<'_>,
    is_shown: bool,
    out: &mut dyn Write,
) -> Result<Exit, Error> {
    let (mut nowhere, mut worst) = (io::sink(), Exit::Done);
    for measurement in measurements {
        let out: &mut dyn Write = if is_shown { &mut *out } else { &mut nowhere };
        if is_shown {
            out.flush()?;
            say!("then: {}", command(measurement));
            writeln!(out)?;
        }
        let models = announced(models(measurement, execution.lab, store)?);
        if models.is_empty() {
            say!("{}: no trial has a trained model", measurement.name());
            continue;
        }
        let exit = measure_models(measurement, &models, execution, &View::default(), out)?;
        out.flush()?;
        match exit {
            Exit::Interrupted => return Ok(exit),
            Exit::Done => {}
            failed => worst = failed,
        }
    }
    Ok(worst)
}

/// Names the figures and tables that the run is made for, after the report was written.
pub(crate) fn show(experiment: &Experiment, dir: &Path) {
    for name in &experiment.after.shows {
        let (figure, table) = (dir.join("figures").join(name), dir.join("tables").join(name));
        if figure.with_extension("svg").is_file() {
            say!("figure: {}.{{svg,png,pdf}}", figure.display());
        }
        if table.with_extension("csv").is_file() {
            say!("table: {}.{{csv,md,tex}}", table.display());
        }
    }
}
