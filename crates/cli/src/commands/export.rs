//! `semfocus export`: every epoch of a run as one table, for other programs.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use semfocus_report::export::FRAMES;
use semfocus_report::frame::Frame;
use semfocus_store::{RunData, Store};

use crate::damage::left_out;
use crate::output::OutputArgs;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Folder of the run
    dir: PathBuf,
    /// Format of the table
    #[arg(long, value_name = "FORMAT", default_value = "csv", value_parser = PossibleValuesParser::new(formats()))]
    format: String,
    #[command(flatten)]
    output: OutputArgs,
}

fn formats() -> impl Iterator<Item = &'static str> {
    FRAMES.iter().map(|export| export.format().extension)
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let run = RunData::from(Store::open(&args.dir)?.read()?);
    let export = FRAMES.iter().find(|export| export.format().extension == args.format);
    let export = export.ok_or_else(|| format!("there is no format {}", args.format))?;
    args.output.write(out, |out| Ok(export.write(&Frame::epochs(&run), out)?))?;
    Ok(left_out(&args.dir, &run.damage))
}
