//! The command line of semfocus as a library, so that a program of your own has all of it with your mechanism or task:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use semfocus::nn::{Family, MechanismInfo, mechanisms};
//!
//! const MINE: MechanismInfo = MechanismInfo {
//!     name: "mine",
//!     family: Family::Control,
//!     summary: "all keys, like full attention",
//!     source: "an example",
//!     formula: "p = softmax(z)",
//!     isolates: "nothing",
//!     parameters: &[],
//!     allows_globals: false,
//!     build: |_| Ok(Arc::new(mechanisms::Full)), // your type here
//! };
//!
//! fn main() -> std::process::ExitCode {
//!     semfocus::Lab::standard().with(MINE).main()
//! }
//! ```
//!
//! `docs/adding-a-mechanism.md` walks through such a program. [`nn`] and [`tasks`] have the types for mechanisms and tasks;
//! [`burn`] is the tensor library that mechanisms are written with.
//!
//! Inside: arguments become jobs, events become progress on the terminal, values become text or JSON. No science.
#![forbid(unsafe_code)]

mod arguments;
mod commands;
mod costs;
mod damage;
mod evidence;
mod execute;
mod help;
mod input;
mod locks;
mod measure;
mod models;
mod output;
mod progress;
mod screen;
mod signals;
mod slurm;
mod table;
mod talk;
mod text;
mod time;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

pub use burn;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use semfocus_lab::{Device, Part};
use semfocus_nn::InstructionSet;
pub use semfocus_store::OwnProgram;
use talk::{ByLine, Colour, plain, say};
pub use {semfocus_nn as nn, semfocus_tasks as tasks};

/// The crate that calls it, as an [`OwnProgram`]. Its build script can name a commit in the variable `OWN_COMMIT`:
/// `println!("cargo::rustc-env=OWN_COMMIT=…")`.
#[macro_export]
macro_rules! program {
    () => {
        $crate::OwnProgram {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("OWN_COMMIT").map(str::to_owned),
        }
    };
}

/// A laboratory with its command line.
#[derive(Clone, Debug)]
pub struct Lab(semfocus_lab::Lab);

impl Lab {
    /// The mechanisms and tasks that come with semfocus.
    pub fn standard() -> Self {
        Lab(semfocus_lab::Lab::standard())
    }

    /// The same with one more mechanism ([`nn::MechanismInfo`]) or task ([`tasks::TaskInfo`]).
    ///
    /// # Panics
    /// If the name is taken or cannot be written in a spec.
    pub fn with(self, part: impl Into<Part>) -> Self {
        Lab(self.0.with(part))
    }

    /// The same as [`with`](Self::with) for a part whose author gives it a version. Trials are continued as long as the version is the
    /// same, however the program changes. Without one, every change of the program makes other trials.
    ///
    /// # Panics
    /// If the name is taken or cannot be written in a spec.
    pub fn with_version(self, part: impl Into<Part>, version: &str) -> Self {
        Lab(self.0.with_version(part, version))
    }

    /// The same in a program with a name of its own, which `--version` and the records of trials then have:
    /// `.program(semfocus::program!())`.
    pub fn program(mut self, program: OwnProgram) -> Self {
        self.0.program = Some(program);
        self
    }

    /// Runs the command given by the arguments of this process.
    pub fn main(&self) -> ExitCode {
        if let Some(lack) = semfocus_core::allocation::lack_of_memory() {
            say!("error: {lack}");
            return ExitCode::from(Exit::Failed.code());
        }
        semfocus_nn::keep_freed_memory();
        semfocus_lab::prepare_threads();
        let mut command = help::command(Cli::command());
        if let Some(program) = &self.0.program {
            let OwnProgram { name, version, .. } = program;
            // The command wants texts that live as long as the process, of which there is one.
            let version: &'static str = format!("{version} (semfocus {VERSION})").leak();
            command = command.display_name(name).version(version);
        }
        let parsed = command.try_get_matches();
        let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
            Ok(cli) => cli,
            Err(error) if error.use_stderr() => {
                help::refuse(&error);
                return ExitCode::from(Exit::WrongUsage.code());
            }
            Err(help) => help.exit(),
        };
        if let Err(error) = InstructionSet::preferred() {
            say!("error: {error}");
            return ExitCode::from(Exit::WrongUsage.code());
        }
        let mut out = ByLine::new(BufWriter::new(io::stdout().lock()), plain);
        let result = run(cli, &self.0, &mut out).and_then(|exit| out.flush().map(|()| exit).map_err(Error::from));
        let exit = result.unwrap_or_else(|error| match error {
            // The reader has seen enough: `semfocus list mechanisms | head -1` is not a failure.
            error if is_broken_pipe(error.as_ref()) => Exit::Done,
            error => {
                say!("{}: {error}", Colour::Red.on_stderr("error"));
                if error.is::<semfocus_core::ExperimentError>() { Exit::WrongUsage } else { Exit::Failed }
            }
        });
        ExitCode::from(exit.code())
    }
}

/// Which attention mechanisms learn faster, and why?
///
/// Results go to standard output, everything else to standard error.
///
/// Exit code: 0 done, 1 failed, 2 wrong usage or experiment file, 3 some trials diverged, failed or are damaged, 130 interrupted.
///
/// To begin: `semfocus run even-pairs` compares four mechanisms in about two minutes.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train the trials of an experiment and compare the mechanisms
    ///
    /// A run ends with a verdict and with report.html in its folder. Ctrl-C saves the progress, and the same command resumes.
    /// The same seed gives the same results to the last bit, whatever the number of threads and interruptions; only another
    /// type of processor may change the last digits.
    Run(commands::run::Args),
    /// Run as much of the study as a time allows, the most informative parts first
    #[command(hide = true)]
    Study(commands::study::Args),
    /// Train the trials of a prepared run as one of its workers
    ///
    /// It works alone or with others until nothing is left or its time is up.
    ///
    /// The jobs of `semfocus slurm submit` run it. It can also be started by hand on any machine that sees the folder.
    ///
    /// Exit code: 0 if nothing is left, if the time is up, or if Slurm asked it to stop; 3 if trials failed; 130 after
    /// Ctrl-C, and after any signal outside Slurm. A trial that diverges is a result, not a failure of the worker.
    Work(commands::work::Args),
    /// Run an experiment on a cluster: submit, follow and cancel workers
    #[command(subcommand)]
    Slurm(commands::slurm::Args),
    /// Show the progress of a run, or list all runs
    Status(commands::status::Args),
    /// Compare the mechanisms of a run with full attention
    Compare(commands::compare::Args),
    /// Say what causes the speed-up of top-k attention
    Explain(commands::explain::Args),
    /// Write figures, tables and a page that says what a run shows
    Report(commands::report::Args),
    /// Print every epoch of every trial as one table, for other programs
    ///
    /// One row for each epoch, with the task, the mechanism, the values of the grid and the seed. Epoch 0 is the untrained model.
    Export(commands::export::Args),
    /// Keep the record of the study: data of runs, and pages made from them
    #[command(subcommand, hide = true)]
    Record(commands::record::Args),
    /// Show everything about one trial
    Show(commands::show::Args),
    /// Check every file of a run for damage, and repair it
    Verify(commands::verify::Args),
    /// Print what a trained model answers to sequences of your own
    Predict(commands::predict::Args),
    /// List experiments, settings, mechanisms or tasks
    #[command(subcommand)]
    List(commands::list::Args),
    /// Generate, label, show and audit the data of the tasks
    #[command(subcommand)]
    Data(commands::data::Args),
    /// Measure the attention of trained models: scores, kept keys, norms
    Probe(commands::measure::probe::Args),
    /// Evaluate the loss around trained models
    Landscape(commands::measure::landscape::Args),
    /// Measure how curved the loss is at trained models
    Sharpness(commands::measure::sharpness::Args),
    /// Evaluate trained models on other data, such as longer sequences
    ///
    /// Write the settings of the data after the folders, as in `data.length=80`.
    Evaluate(commands::measure::evaluate::Args),
    /// Compute when the theory favours top-k attention
    #[command(subcommand)]
    Theory(commands::theory::Args),
    /// Measure the time of training and evaluation steps
    Bench(commands::bench::Args),
    /// Make a crate for a mechanism and a task of your own
    ///
    /// It has every command of semfocus, and an example of a mechanism and of a task to change. docs/adding-a-mechanism.md
    /// explains them.
    NewLab(commands::new_lab::Args),
    /// Print a completion script for a shell
    Completions(commands::shell::CompletionsArgs),
    /// Show the manual page
    Man(commands::shell::ManArgs),
}

/// Where the arithmetic runs.
#[derive(Debug, Args)]
struct DeviceArg {
    /// Device to compute on: cpu, or one that the program was built for, such as wgpu or cuda:1
    ///
    /// Only the CPU has the fast fused operators. Results differ between devices in their last digits; `env.json` says
    /// which one was used.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: Device,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Version of the program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Commit it was built from, if it was built in a repository.
const COMMIT: Option<&str> = option_env!("SEMFOCUS_COMMIT");

/// How the program ends. Scripts rely on the codes.
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

fn run(cli: Cli, lab: &semfocus_lab::Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    match cli.command {
        Command::Run(args) => commands::run::run(&args, lab, out),
        Command::Work(args) => commands::work::run(&args, lab),
        Command::Slurm(args) => commands::slurm::run(&args, lab, out),
        Command::Study(args) => commands::study::run(&args, lab, out),
        Command::Status(args) => commands::status::run(&args, out),
        Command::Compare(args) => commands::compare::run(&args, out),
        Command::Explain(args) => commands::explain::run(&args, out),
        Command::Report(args) => commands::report::run(&args, out),
        Command::Export(args) => commands::export::run(&args, out),
        Command::Record(args) => commands::record::run(&args, lab, out),
        Command::Show(args) => commands::show::run(&args, out),
        Command::Verify(args) => commands::verify::run(&args, lab, out),
        Command::Predict(args) => commands::predict::run(&args, lab, out),
        Command::List(args) => commands::list::run(&args, lab, out),
        Command::Data(args) => commands::data::run(&args, lab, out),
        Command::Probe(args) => commands::measure::probe::run(&args, lab, out),
        Command::Landscape(args) => commands::measure::landscape::run(&args, lab, out),
        Command::Sharpness(args) => commands::measure::sharpness::run(&args, lab, out),
        Command::Evaluate(args) => commands::measure::evaluate::run(args, lab, out),
        Command::Theory(args) => commands::theory::run(&args, out),
        Command::Bench(args) => commands::bench::run(&args, lab, out),
        Command::NewLab(args) => commands::new_lab::run(&args, out),
        Command::Completions(args) => commands::shell::completions(&args, help::command(Cli::command()), lab, out),
        Command::Man(args) => commands::shell::man(&args, help::command(Cli::command()), out),
    }
}

fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let kind = match error.downcast_ref::<serde_json::Error>() {
        Some(error) => error.io_error_kind(),
        None => error.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    kind == Some(io::ErrorKind::BrokenPipe)
}
