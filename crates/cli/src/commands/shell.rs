//! `semfocus completions` and `semfocus man`: generated from the same definitions as the help.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Command, ValueHint};
use clap_complete::Shell;
use semfocus_core::experiment::presets;
use semfocus_core::{Quantity, Scale, settings};
use semfocus_lab::Lab;
use semfocus_nn::Named;
use semfocus_store::files::write_whole;
use semfocus_tasks::text::TextInfo;

use crate::help::{GROUPS, with_only};
use crate::{Error, Exit};

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ManArgs {
    /// Write one page per command into this folder [default: show the main page, or print its source into a pipe]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn completions(
    args: &CompletionsArgs,
    command: Command,
    lab: &Lab,
    out: &mut dyn Write,
) -> Result<Exit, Error> {
    let mut command = with_names(with_only(&command, |inner| !inner.is_hide_set()), lab);
    let mut script = Vec::new(); // the generator panics where it cannot write
    clap_complete::generate(args.shell, &mut command, program_name(), &mut script);
    if args.shell == Shell::Fish {
        add_fish_arguments(&command, &mut script)?;
    }
    out.write_all(&script)?;
    Ok(Exit::Done)
}

/// The generator for fish completes options only; these lines complete the arguments of all commands that have names to
/// choose from. Files are offered in addition.
fn add_fish_arguments(command: &Command, script: &mut Vec<u8>) -> io::Result<()> {
    let name = program_name();
    // As the generator calls its function.
    let is_used = format!("__fish_{}_using_subcommand", name.replace('-', "_"));
    for outer in command.get_subcommands() {
        let condition = format!("{is_used} {}", outer.get_name());
        add_fish_values(&name, &condition, outer, script)?;
        for inner in outer.get_subcommands() {
            let condition = format!("{condition}; and __fish_seen_subcommand_from {}", inner.get_name());
            add_fish_values(&name, &condition, inner, script)?;
        }
    }
    Ok(())
}

fn add_fish_values(name: &str, condition: &str, command: &Command, script: &mut Vec<u8>) -> io::Result<()> {
    for argument in command.get_positionals() {
        let values = argument.get_possible_values();
        let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
        if !values.is_empty() {
            writeln!(script, "complete -c {name} -n \"{condition}\" -a \"{}\"", values.join(" "))?;
        }
    }
    Ok(())
}

/// The command with the names of experiments, mechanisms, tasks, settings, scales and metrics as values of its arguments. For
/// completion only: more than these values are allowed.
fn with_names(command: Command, lab: &Lab) -> Command {
    let experiments: Vec<String> = presets().iter().map(|preset| preset.name.clone()).collect();
    let mechanisms: Vec<String> = lab.mechanisms.iter().map(|info| info.example().to_string()).collect();
    let mut tasks = Vec::new();
    for task in lab.tasks.iter() {
        tasks.push(task.example().to_string());
        tasks.extend(task.parameters.iter().map(|parameter| format!("{}:{}=", task.name, parameter.name)));
    }
    tasks.push(TextInfo.name().to_owned());
    tasks.extend(TextInfo.parameters().iter().map(|parameter| format!("{}:{}=", TextInfo.name(), parameter.name)));
    let settings: Vec<String> = settings::all()
        .iter()
        .filter(|setting| !["mechanism", "seed"].contains(&setting.path))
        .map(|setting| format!("{}=", setting.path))
        .collect();
    let scales: Vec<String> = Scale::ALL.iter().map(Scale::to_string).collect();
    let metrics: Vec<String> = Quantity::of_quality().map(|quantity| quantity.name().to_owned()).collect();
    let values = [
        ("experiment", &experiments),
        ("mechanisms", &mechanisms),
        ("baseline", &mechanisms),
        ("task", &tasks),
        ("set", &settings),
        ("settings", &settings),
        ("scale", &scales),
        ("target", &metrics),
    ];
    with_values(command, &values)
}

/// The command and its subcommands, in which arguments with these ids have these values; other arguments that name a folder or
/// file are completed as such.
fn with_values(command: Command, values: &[(&str, &Vec<String>)]) -> Command {
    let command = command.mut_args(|arg| {
        let named = values.iter().find(|(id, _)| arg.get_id() == id);
        let is_folder = ["output", "dir", "dirs", "runs", "trial"].iter().any(|id| arg.get_id() == id);
        match named {
            Some((_, values)) => arg.value_parser(PossibleValuesParser::new(values.iter().cloned())),
            None if is_folder => arg.value_hint(ValueHint::AnyPath),
            None => arg,
        }
    });
    command.mut_subcommands(|inner| with_values(inner, values))
}

/// The name of this program, which may be one of the user's own.
fn program_name() -> String {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_stem).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "semfocus".to_owned())
}

pub(crate) fn man(args: &ManArgs, mut command: Command, out: &mut dyn Write) -> Result<Exit, Error> {
    match &args.output {
        // A terminal is for reading, not for the source of the page.
        None if io::stdout().is_terminal() && show_page(&command) => {}
        None if io::stdout().is_terminal() => write!(out, "{}", command.render_long_help())?,
        None => write_page(&command, out)?,
        Some(dir) => {
            std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
            clap_mangen::generate_to(command.clone(), dir)?;
            let mut page = Vec::new();
            write_page(&command, &mut page)?;
            write_whole(&dir.join(clap_mangen::Man::new(command).get_filename()), &page)?;
        }
    }
    Ok(Exit::Done)
}

/// The manual page of the program, with its commands in groups.
fn write_page(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let page = clap_mangen::Man::new(command.clone());
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for (heading, names) in GROUPS {
        let group = with_only(command, |inner| names.contains(&inner.get_name()));
        clap_mangen::Man::new(group.subcommand_help_heading(heading)).render_subcommands_section(out)?;
    }
    page.render_extra_section(out)?;
    page.render_version_section(out)
}

/// Shows the page with the program `man`, if there is one.
fn show_page(command: &Command) -> bool {
    let path = std::env::temp_dir().join(format!("{}-{}.1", program_name(), std::process::id()));
    let mut page = Vec::new();
    let is_written = write_page(command, &mut page).is_ok() && write_whole(&path, &page).is_ok();
    let is_shown = is_written && Process::new("man").arg(&path).status().is_ok_and(|status| status.success());
    let _ = std::fs::remove_file(&path); // a file that was not written is not there
    is_shown
}
