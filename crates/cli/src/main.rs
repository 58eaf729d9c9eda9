//! `semfocus`: the command line. Parsing, output and exit codes; no science.
#![forbid(unsafe_code)]

mod commands;
mod counter;
mod evidence;
mod output;
mod progress;
mod signals;
mod targets;
mod text;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Which attention mechanisms learn faster, and why?
///
/// Results go to standard output, everything else to standard error.
///
/// Exit code: 0 done, 1 failed, 2 wrong usage or experiment file, 3 some trials diverged or failed, 130 interrupted.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train the trials of an experiment, and compare the mechanisms
    Run(commands::run::Args),
    /// Show how far a run is
    Status(commands::status::Args),
    /// Compare the mechanisms of a run with full attention, and say what it shows
    Compare(commands::compare::Args),
    /// Write figures, tables and a page that says what a run shows
    Report(commands::report::Args),
    /// Show all about one trial
    Show(commands::show::Args),
    /// Show what there is to choose from
    List(commands::list::Args),
    /// Generate, label, show and audit the data of the tasks
    Data(commands::data::Args),
    /// Look at what the attention of trained models does with its scores
    Probe(commands::probe::Args),
    /// Evaluate the loss around trained models
    Landscape(commands::landscape::Args),
    /// Measure how curved the loss is at trained models
    Sharpness(commands::sharpness::Args),
    /// Work out when top-k attention has the better guarantee
    Theory(commands::theory::Args),
    /// Measure the time of training and evaluation steps
    Bench(commands::bench::Args),
    /// Print a script that completes commands in a shell
    Completions(commands::shell::CompletionsArgs),
    /// Print the manual page
    Man(commands::shell::ManArgs),
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit it was built from, if it was built in a repository.
const COMMIT: Option<&str> = option_env!("SEMFOCUS_COMMIT");

/// How the program ends; part of what scripts rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exit {
    Done,
    Failed,
    WrongUsage,
    SomeFailed,
    Interrupted,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::WrongUsage => 2,
            Exit::SomeFailed => 3,
            Exit::Interrupted => 130,
        }
    }
}

fn run(cli: Cli, out: &mut dyn Write) -> Result<Exit, Error> {
    match cli.command {
        Command::Run(args) => return commands::run::run(&args, out),
        Command::Status(args) => commands::status::run(&args, out)?,
        Command::Compare(args) => commands::compare::run(&args, out)?,
        Command::Report(args) => commands::report::run(&args, out)?,
        Command::Show(args) => commands::show::run(&args, out)?,
        Command::List(args) => commands::list::run(&args, out)?,
        Command::Data(args) => commands::data::run(&args, out)?,
        Command::Probe(args) => commands::probe::run(&args, out)?,
        Command::Landscape(args) => return commands::landscape::run(&args, out),
        Command::Sharpness(args) => return commands::sharpness::run(&args, out),
        Command::Theory(args) => commands::theory::run(&args, out)?,
        Command::Bench(args) => commands::bench::run(&args, out)?,
        Command::Completions(args) => commands::shell::completions(&args, Cli::command(), out)?,
        Command::Man(args) => commands::shell::man(&args, Cli::command(), out)?,
    }
    Ok(Exit::Done)
}

fn main() -> ExitCode {
    semfocus_kernels::keep_freed_memory();
    let cli = Cli::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let result = run(cli, &mut out).and_then(|exit| out.flush().map(|()| exit).map_err(Error::from));
    let exit = result.unwrap_or_else(|error| match error {
        // The reader has seen enough: `semfocus list mechanisms | head -1` is no failure.
        error if is_broken_pipe(error.as_ref()) => Exit::Done,
        error => {
            eprintln!("error: {error}");
            if error.is::<semfocus_lab::ExperimentError>() { Exit::WrongUsage } else { Exit::Failed }
        }
    });
    ExitCode::from(exit.code())
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = match error.downcast_ref::<serde_json::Error>() {
        Some(error) => error.io_error_kind(),
        None => error.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    kind == Some(io::ErrorKind::BrokenPipe)
}
