//! `semfocus completions` and `semfocus man`: generated from the same definitions as the help.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Command};
use clap_complete::Shell;
use semfocus_core::experiment::presets;
use semfocus_lab::Lab;

use crate::Error;

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder [default: print the main page]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn completions(
    args: &CompletionsArgs,
    command: Command,
    lab: &Lab,
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut command = with_names(command, lab);
    let mut script = Vec::new(); // the generator panics where it cannot write
    clap_complete::generate(args.shell, &mut command, program_name(), &mut script);
    Ok(out.write_all(&script)?)
}

/// The command with the names of experiments, mechanisms and tasks as values of its arguments. For completion only: more
/// than these values are allowed.
fn with_names(command: Command, lab: &Lab) -> Command {
    let presets = || PossibleValuesParser::new(presets().iter().map(|preset| preset.name.clone()));
    let mechanisms = || PossibleValuesParser::new(lab.mechanisms.iter().map(|info| info.example().to_string()));
    let tasks = || PossibleValuesParser::new(lab.tasks.iter().map(|task| task.name));
    let mut command = command.mut_subcommand("run", |run| run.mut_arg("experiment", |arg| arg.value_parser(presets())));
    for name in ["run", "bench", "probe", "landscape", "sharpness"] {
        command =
            command.mut_subcommand(name, |command| command.mut_arg("mechanisms", |arg| arg.value_parser(mechanisms())));
    }
    command.mut_subcommand("data", |data| {
        ["generate", "label", "show", "audit"].into_iter().fold(data, |data, name| {
            data.mut_subcommand(name, |command| command.mut_arg("task", |arg| arg.value_parser(tasks())))
        })
    })
}

/// The name of this program, which may be one of the user's own.
fn program_name() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_stem).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "semfocus".to_owned())
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
