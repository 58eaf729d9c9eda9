//! `semfocus completions` and `semfocus man`: generated from the same definitions as the help.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;

use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Write one page for each command into this folder, instead of the main page to standard output
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command, out: &mut dyn Write) -> Result<(), Error> {
    let mut script = Vec::new(); // the generator panics where it cannot write
    clap_complete::generate(args.shell, &mut command, "semfocus", &mut script);
    Ok(out.write_all(&script)?)
}

pub(crate) fn man(args: &ManArgs, command: Command, out: &mut dyn Write) -> Result<(), Error> {
    match &args.output {
        None => Ok(clap_mangen::Man::new(command).render(out)?),
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
            Ok(clap_mangen::generate_to(command, dir)?)
        }
    }
}
