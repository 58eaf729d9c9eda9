//! The help of the program: its commands by what a person wants, an example for each, and errors about arguments.

use clap::Command;
use clap::error::Error;

use crate::talk::{Colour, say};

/// The commands as `--help` and the manual page list them. Those that only the maintainers of the record need are left out.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Run experiments", &["run", "list", "new-lab"]),
    ("Look at runs", &["status", "show", "report", "export"]),
    ("Decide", &["compare", "explain", "theory"]),
    ("Measure trained models", &["predict", "probe", "landscape", "sharpness", "evaluate"]),
    ("Data", &["data"]),
    ("Cluster", &["slurm", "work"]),
    ("Maintain", &["verify", "bench", "completions", "man"]),
];

/// An example for each command, without the name of the program.
const EXAMPLES: [(&str, &str); 41] = [
    ("", "run even-pairs"),
    ("run", "run even-pairs --mechanisms full,topk:5 --seeds 3"),
    ("list", "list mechanisms topk"),
    ("list experiments", "list experiments even-pairs"),
    ("list settings", "list settings rate"),
    ("list mechanisms", "list mechanisms topk"),
    ("list tasks", "list tasks parity"),
    ("new-lab", "new-lab my-lab"),
    ("status", "status runs/even-pairs-quick"),
    ("show", "show runs/even-pairs-quick/a7b4"),
    ("report", "report runs/even-pairs-quick"),
    ("export", "export runs/even-pairs-quick -o epochs.csv"),
    ("compare", "compare runs/even-pairs-quick"),
    ("explain", "explain runs/causes-quick"),
    ("theory", "theory regions -o regions"),
    ("theory check", "theory check --full-dispersion 8 --dispersion 3 --separation 0.1 --sink 1"),
    ("theory regions", "theory regions -o regions"),
    ("theory stability", "theory stability --dispersion 4 --kept-dispersion 2 --separation 0.1"),
    ("predict", "predict runs/even-pairs-quick/a7b4 sequences.txt"),
    ("probe", "probe runs/even-pairs-quick --samples 100"),
    ("landscape", "landscape runs/even-pairs-quick --grid 21"),
    ("sharpness", "sharpness runs/even-pairs-quick --samples 100"),
    ("evaluate", "evaluate runs/even-pairs-quick data.length=48"),
    ("data", "data show parity"),
    ("data generate", "data generate parity -n 5 --format text"),
    ("data label", "data label even-pairs sequences.txt"),
    ("data show", "data show parity"),
    ("data audit", "data audit missing-duplicate --length 12"),
    ("data convert", "data convert films.csv --format text"),
    ("slurm", "slurm submit even-pairs --workers 4"),
    ("slurm submit", "slurm submit even-pairs --workers 4"),
    ("slurm status", "slurm status runs/even-pairs-quick"),
    ("slurm cancel", "slurm cancel runs/even-pairs-quick"),
    ("work", "work runs/even-pairs-quick --time 2h"),
    ("verify", "verify runs/even-pairs-quick"),
    ("bench", "bench --mechanisms full,topk:5 --length 40"),
    ("completions", "completions bash"),
    ("man", "man -o man1"),
    ("study", "study --hours 2 --dry-run"),
    ("record add", "record add runs/even-pairs-quick"),
    ("record draw", "record draw docs/record --check"),
];

/// The command line with its groups and examples.
pub(crate) fn command(command: Command) -> Command {
    let mut groups = String::new();
    for (heading, names) in GROUPS {
        groups += &format!("{heading}:\n");
        for name in names {
            let command = command.find_subcommand(name).expect("only commands are listed");
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            groups += &format!("  {name:12} {about}\n");
        }
        groups.push('\n');
    }
    let template =
        format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}");
    with_examples(command, "").help_template(template)
}

/// The command and those below it with their examples. Values may be negative numbers, so that a message is about the value.
fn with_examples(command: Command, path: &str) -> Command {
    let command = match EXAMPLES.iter().find(|(name, _)| *name == path) {
        Some((_, example)) => command.after_help(format!("Example: semfocus {example}")),
        None => command,
    };
    let command = command.mut_args(|arg| {
        let takes_values = arg.get_action().takes_values();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    });
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name());
        with_examples(inner, path.trim_start())
    })
}

/// A command that has only these of the commands below it.
pub(crate) fn with_only(command: &Command, is_kept: impl Fn(&Command) -> bool) -> Command {
    let kept = command.get_subcommands().filter(|inner| is_kept(inner)).cloned();
    let version = command.get_version().unwrap_or_default().to_owned();
    let only = Command::new(command.get_name().to_owned()).version(version).propagate_version(true);
    only.args(command.get_arguments().cloned()).subcommands(kept)
}

/// Says what is wrong with the arguments. What they contain cannot command the terminal.
pub(crate) fn refuse(error: &Error) {
    let text = error.render().to_string();
    match text.trim_end().strip_prefix("error: ") {
        Some(rest) => say!("{}: {rest}", Colour::Red.on_stderr("error")),
        None => say!("{}", text.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Cli;

    /// The paths of a command and those below it.
    fn paths(command: &Command, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        for inner in command.get_subcommands() {
            paths(inner, format!("{path} {}", inner.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn every_command_has_an_example_that_parses() {
        let mut found = Vec::new();
        paths(&Cli::command(), "", &mut found);
        found.retain(|path| path != "record");
        let mut named: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        found.sort();
        named.sort();
        assert_eq!(named, found);
        for (name, example) in EXAMPLES {
            let words = shlex::split(&format!("semfocus {example}")).unwrap();
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{name}: {error}");
            }
            assert!(
                name.is_empty() || name == "data" || example.starts_with(name.split(' ').next().unwrap()),
                "{name}"
            );
        }
    }

    #[test]
    fn commands_are_grouped_by_what_a_person_wants() {
        let command = Cli::command();
        let mut listed: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let mut visible: Vec<&str> =
            command.get_subcommands().filter(|inner| !inner.is_hide_set()).map(Command::get_name).collect();
        assert!(GROUPS[0].1.len() <= 7);
        listed.sort();
        visible.sort();
        assert_eq!(listed, visible);
    }
}
