//! `semfocus data convert`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_tasks::{Format, OwnData, label};

use super::FORMATS;
use crate::arguments::one_of;
use crate::output::OutputArgs;
use crate::talk::say;
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Data file: tokens, a tab and a label on every line, or CSV (.csv), or JSON lines (.jsonl)
    file: PathBuf,
    /// How examples are written
    #[arg(long, value_parser = one_of::<Format>(FORMATS), default_value = "tokens")]
    format: Format,
    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<Exit, Error> {
    let data = OwnData::read(&args.file)?;
    data.notes().iter().for_each(|note| say!("note: {note}"));
    let writer = data.writer(args.format)?;
    let write = |out: &mut dyn Write| -> Result<(), Error> {
        writer.header(out)?;
        data.iter().try_for_each(|(tokens, class)| writer.example(tokens, &label(class), out))?;
        Ok(())
    };
    args.output.write(out, write)
}
