//! `semfocus sharpness`: how curved the training loss is at trained models.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_core::measurement::{Count, Sharpness};
use semfocus_core::study::seed_name;
use semfocus_lab::Lab;
use semfocus_lab::jobs::MeasureSharpness;
use semfocus_store::{self as store, SharpnessRecord};

use crate::execute::{Execution, as_jobs};
use crate::models::{Entry, ModelArgs, mechanism_width};
use crate::output::emit;
use crate::text::{paragraph, rows_by_point, short};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    models: ModelArgs,
    /// Also measure the models that probes saved during training
    #[arg(long)]
    along_training: bool,
    /// Compute the loss over the first N training examples
    #[arg(long, value_name = "N", default_value_t = Sharpness::default().samples)]
    samples: Count<1>,
    /// How many of the largest eigenvalues to compute
    #[arg(long, value_name = "N", default_value_t = Sharpness::default().eigenvalues)]
    eigenvalues: Count<1, 50>,
    /// Random vectors to estimate the trace with
    #[arg(long, value_name = "N", default_value_t = Sharpness::default().probes)]
    probes: Count<2, 10_000>,
    /// Compute in single precision: several times faster, but only accurate to an order of magnitude, and less than that for
    /// mechanisms that select keys by their scores
    #[arg(long)]
    fast: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let Args { models, along_training, samples, eigenvalues, probes, fast, json } = args;
    let options = Sharpness {
        models: models.choice(Sharpness::default().models),
        along_training: *along_training,
        samples: *samples,
        eigenvalues: *eigenvalues,
        probes: *probes,
        fast: *fast,
    };
    let jobs = MeasureSharpness::all(&options, &models.models(lab, &options.models)?)?;
    models.execute(lab, |execution| measure(jobs, execution, *json, out))
}

/// Measures the sharpness, and prints what is on record then.
pub(crate) fn measure(
    jobs: Vec<MeasureSharpness>,
    execution: &Execution<'_>,
    json: bool,
    out: &mut dyn Write,
) -> Result<Exit, Error> {
    if let Some(exit) = execution.one_by_one(&as_jobs(&jobs), None)? {
        return Ok(exit);
    }
    let entries = jobs.iter().map(|job| Entry::new(job.model(), job.record()?));
    let entries = entries.collect::<Result<Vec<_>, Error>>()?;
    emit(out, json, &entries, |out| print(&entries, out))?;
    Ok(Exit::Done)
}

fn print(entries: &[Entry<SharpnessRecord>], out: &mut dyn Write) -> Result<(), Error> {
    let width = mechanism_width(entries.iter().map(|entry| &entry.mechanism));
    writeln!(out, "{:width$}  {:>4}  epoch      loss  largest eigenvalues             trace", "mechanism", "seed")?;
    rows_by_point(
        out,
        entries,
        |entry| &entry.point,
        |out, entry| {
            let Entry { mechanism, seed, record, .. } = entry;
            let store::Sharpness { eigenvalues, trace, trace_error, loss, .. } = &record.sharpness;
            let largest: Vec<String> = eigenvalues.iter().take(3).map(|value| short(*value)).collect();
            Ok(writeln!(
                out,
                "{mechanism:width$}  {:>4}  {:>5}  {:>8}  {:19}  {:>16}",
                seed_name(*seed),
                record.epoch,
                short(*loss),
                largest.join(" "),
                format!("{} ± {}", short(*trace), short(*trace_error)),
            )?)
        },
    )?;
    writeln!(out)?;
    Ok(paragraph(out, "", "Eigenvalues and trace of the Hessian of the mean training loss; ± one standard error.")?)
}
