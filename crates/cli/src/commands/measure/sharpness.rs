//! `semfocus sharpness`: how curved the training loss is at trained models.

use std::io::Write;

use clap::Args as ClapArgs;
use semfocus_core::Measurement;
use semfocus_core::measurement::{Count, Sharpness};
use semfocus_lab::Lab;
use semfocus_store::{self as store, SharpnessRecord};

use super::View;
use crate::models::{Entry, ModelArgs};
use crate::table::Table;
use crate::text::{paragraph, short};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
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
    #[command(flatten)]
    models: ModelArgs,
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let &Args { ref models, along_training, samples, eigenvalues, probes, fast } = args;
    let choice = models.choice(Sharpness::default().models);
    let options = Sharpness { models: choice, along_training, samples, eigenvalues, probes, fast };
    super::run(&Measurement::Sharpness(options), models, &View { json: models.json, ..View::default() }, lab, out)
}

pub(super) fn print(entries: &[Entry<SharpnessRecord>], out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::new(["mechanism", ">seed", ">epoch", ">loss", "largest eigenvalues", "trace"]);
    for entry in entries {
        let SharpnessRecord { epoch, sharpness, .. } = &entry.record;
        let store::Sharpness { eigenvalues, trace, trace_error, loss, .. } = sharpness;
        let largest: Vec<String> = eigenvalues.iter().take(3).map(|value| short(*value)).collect();
        let ((mechanism, seed), trace) = (entry.names(), format!("{} ± {}", short(*trace), short(*trace_error)));
        table.row_at(&entry.point, [mechanism, seed, epoch.to_string(), short(*loss), largest.join(" "), trace]);
    }
    table.print(out)?;
    writeln!(out)?;
    Ok(paragraph(out, "", "Eigenvalues and trace of the Hessian of the mean training loss; ± one standard error.")?)
}
