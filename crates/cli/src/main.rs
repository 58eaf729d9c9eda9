//! `semfocus`: the command line. Parsing, output and exit codes; no science.
#![forbid(unsafe_code)]

mod commands;
mod output;
mod text;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Which attention mechanisms learn faster, and why?
///
/// Results go to standard output, everything else to standard error. Exit code: 0 done, 1 failed, 2 wrong usage.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what there is to choose from
    List(commands::list::Args),
    /// Generate, label, show and audit the data of the tasks
    Data(commands::data::Args),
    /// Measure the time of training and evaluation steps
    Bench(commands::bench::Args),
}

type Error = Box<dyn std::error::Error + Send + Sync>;

fn run(cli: Cli, out: &mut dyn Write) -> Result<(), Error> {
    match cli.command {
        Command::List(args) => commands::list::run(&args, out),
        Command::Data(args) => commands::data::run(&args, out),
        Command::Bench(args) => commands::bench::run(&args, out),
    }
}

fn main() -> ExitCode {
    semfocus_kernels::keep_freed_memory();
    let cli = Cli::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    match run(cli, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough: `semfocus list mechanisms | head -1` is no failure.
        Err(error) if is_broken_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = match error.downcast_ref::<serde_json::Error>() {
        Some(error) => error.io_error_kind(),
        None => error.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    kind == Some(io::ErrorKind::BrokenPipe)
}
