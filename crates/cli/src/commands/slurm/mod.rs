//! `semfocus slurm`: experiments on a cluster.

mod cancel;
mod plan;
mod profile;
mod status;
mod submit;

use std::io::Write;
use std::path::PathBuf;

use clap::Subcommand;
use semfocus_lab::Lab;

use crate::{Error, Exit};

#[derive(Debug, Subcommand)]
pub(crate) enum Args {
    /// Prepare the folder of a run and submit workers that train its trials
    ///
    /// Every worker is a job that runs `semfocus work`: it takes trials until nothing is left or its time is up. They are
    /// submitted as one array, with more tasks than workers, so that others follow when the time of the first is up. The same
    /// command continues with what is left.
    Submit(Box<submit::Args>),
    /// Show how far a run is and what its jobs do
    Status {
        /// Folder of the run
        dir: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Cancel the jobs of a run; finished work is kept
    Cancel {
        /// Folder of the run
        dir: PathBuf,
    },
}

pub(crate) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    match args {
        Args::Submit(args) => submit::run(args, lab, out),
        Args::Status { dir, json } => status::run(dir, *json, lab, out),
        Args::Cancel { dir } => cancel::run(dir),
    }
}
