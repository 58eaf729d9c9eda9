//! `semfocus data convert`.

use std::io::Write;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use semfocus_tasks::OwnData;

use super::FormatArg;
use crate::Error;
use crate::output::{ForTerminal, write_file};
use crate::talk::say;

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    /// Data file: tokens, a tab and a label on every line, or CSV (.csv), or JSON lines (.jsonl)
    file: PathBuf,
    /// How examples are written
    #[arg(long, value_enum, default_value_t = FormatArg::Tokens)]
    format: FormatArg,
    /// File to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Error> {
    let data = OwnData::read(&args.file)?;
    data.notes().iter().for_each(|note| say!("note: {note}"));
    let writer = data.writer(args.format.into())?;
    let write = |out: &mut dyn Write| -> Result<(), Error> {
        writer.header(out)?;
        data.iter().try_for_each(|(tokens, label)| writer.example(tokens, label, out))?;
        Ok(())
    };
    match &args.output {
        Some(path) => write_file(path, args.force, write),
        None => {
            let mut out = ForTerminal::new(out);
            write(&mut out)?;
            out.finish();
            Ok(())
        }
    }
}
