//! `semfocus slurm submit`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args as ClapArgs;
use semfocus_core::experiment::SlurmProfile;
use semfocus_lab::Lab;
use semfocus_lab::estimate::Estimate;
use semfocus_lab::jobs::Sharing;
use semfocus_store::{Store, Submission, files, utc_now};
use serde::Serialize;

use super::{plan, profile};
use crate::commands::run::{ExperimentArgs, Prepared, check_space, create};
use crate::measure::{self, MeasureArgs};
use crate::output::emit;
use crate::signals::stop_on_signals;
use crate::slurm::call::{Answer, CallError, call};
use crate::slurm::script::Scripts;
use crate::talk::say;
use crate::text::{clock, command_on, counted};
use crate::{Error, Exit, time};

#[derive(Debug, ClapArgs)]
pub(crate) struct Args {
    #[command(flatten)]
    what: ExperimentArgs,
    /// Jobs that work at the same time; never more than there is work for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Time limit of a job, such as 2h; when it is up, another job continues
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    time: Option<Duration>,
    /// Partition to submit to [default: that of the cluster]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Account to charge [default: yours]
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Memory of a job, such as 2G [default: that of the cluster]
    #[arg(long, value_name = "SIZE")]
    mem: Option<String>,
    /// Cores of a job; it trains as many trials at once [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cpus: Option<u16>,
    /// How many jobs may follow each other in the place of a worker [default: from the estimated time]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    generations: Option<u32>,
    /// Take what is not given here from [slurm.NAME] in `.semfocus.toml` [default: the profile `default`, if there is one]
    ///
    /// The file is looked for in this folder and those above it.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    measure: MeasureArgs,
    /// Print the job script; write and submit nothing
    #[arg(long)]
    print: bool,
    /// Ask Slurm when the first job could start (`sbatch --test-only`); write and submit nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Submit even if the run may not fit on the disk
    #[arg(short, long)]
    yes: bool,
    /// Print the job numbers as JSON
    #[arg(long)]
    json: bool,
    /// Further options of sbatch, after `--`
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    options: Vec<String>,
}

/// What was submitted.
#[derive(Serialize)]
struct Submitted<'a> {
    experiment: &'a str,
    dir: PathBuf,
    folder: PathBuf,
    #[serde(flatten)]
    submission: &'a Submission,
}

pub(super) fn run(args: &Args, lab: &Lab, out: &mut dyn Write) -> Result<Exit, Error> {
    let asked = args.measure.get()?;
    let Wanted { profile, time, cpus, workers } = Wanted::new(args)?;
    let prepare = || -> Result<Prepared, Error> {
        let mut prepared = Prepared::new(&args.what, Some(usize::from(cpus)), lab)?;
        prepared.sharing = Sharing { threads: usize::from(cpus), jobs: usize::from(cpus) };
        Ok(prepared)
    };
    let mut prepared = prepare()?;
    let estimate = prepared.estimate(&args.what, lab);
    prepared.check()?;
    let left = estimate.as_ref().map_or(prepared.jobs.len(), |estimate| estimate.trials - estimate.done);
    let store = Store::at(&prepared.dir);
    let measurements = measure::all(&store, &prepared.experiment, &asked)?;
    if left == 0 && !measure::is_left(&measurements, lab, &store)? {
        let measured = if measurements.is_empty() { "" } else { " and measured" };
        say!(
            "All trials are over{measured}: nothing is submitted. To write the report:\n  {}",
            command_on("report", &prepared.dir)
        );
        return Ok(Exit::Done);
    }
    // If nothing is left to train, there is something to measure on the models.
    let busy = if left > 0 { left } else { prepared.jobs.len() };
    let workers = sensible_workers(workers, busy, cpus);
    if !(args.print || args.json) {
        // The time that all workers take together, with the memory of one job.
        let at_once = usize::from(workers) * usize::from(cpus);
        let of_job = std::mem::replace(&mut prepared.sharing, Sharing { threads: at_once, jobs: at_once });
        let all = prepared.estimate(&args.what, lab).zip(estimate.as_ref());
        let all = all.map(|(all, job)| Estimate { memory_bytes: job.memory_bytes, ..all });
        prepared.introduce(all.as_ref());
        prepared.sharing = of_job;
    }
    let generations = || {
        let estimate = estimate.as_ref()?;
        Some(plan::generations(estimate, !measurements.is_empty(), workers, cpus, time))
    };
    let tasks = tasks(args.generations.or_else(generations), workers)?;
    if let Some(estimate) = &estimate {
        warn_of_memory(profile.mem.as_deref(), estimate);
    }
    let dir = std::path::absolute(&prepared.dir)?;
    let folder = Store::at(&dir).new_submission_folder();
    let mut arguments = args.what.lock.arguments();
    arguments.extend(args.what.accept_code.then(|| "--accept-code".to_owned()));
    if args.what.device.device.name() != "cpu" {
        arguments.extend(["--device".to_owned(), args.what.device.device.name().to_owned()]);
    }
    let program = std::env::current_exe()?;
    let name = prepared.experiment.name.clone();
    let scripts = Scripts {
        name: &name,
        profile: &profile,
        time,
        cpus,
        program,
        dir: dir.clone(),
        folder: folder.clone(),
        tasks,
        workers,
        arguments,
    };
    let (script, report) = (scripts.workers()?, scripts.report()?);
    if args.print {
        write!(out, "{script}")?;
        return Ok(Exit::Done);
    }
    if args.dry_run {
        let answer = sbatch(&["--test-only"], &script)?;
        for line in answer.stderr.lines().chain(answer.stdout.lines()) {
            writeln!(out, "{}", line.trim_start_matches("sbatch: "))?;
        }
        say!("This would submit {tasks} tasks, {workers} at once. Nothing was written or submitted.");
        return Ok(Exit::Done);
    }
    check_space(args.yes, &prepared, estimate.as_ref())?;
    // A machine without Slurm is noticed before anything is written.
    call("sbatch", &["--version"], "")?;
    let locks = args.what.lock.locks([prepared.dir.join("trials").as_path()])?;
    let stop = stop_on_signals()?;
    let Some(store) = create(&mut prepared, prepare, &locks, &stop)? else { return Ok(Exit::Interrupted) };
    store.keep_measurements(&asked)?;
    measure::introduce(&measurements);
    files::create_folder(&folder)?;
    let (script_path, report_path) = (folder.join("job.sh"), folder.join("report.sh"));
    files::write_whole(&script_path, script.as_bytes())?;
    files::write_whole(&report_path, report.as_bytes())?;
    let (job, cluster) = submit(&script_path, &[])?;
    let mut submission = Submission {
        folder: folder.clone(),
        job,
        report_job: None,
        cluster,
        tasks,
        workers,
        cpus,
        time_seconds: time.as_secs(),
        submitted: utc_now(),
        command: std::env::args().collect(),
    };
    submission.write()?;
    match submit(&report_path, &[&format!("--dependency=afterany:{}", submission.job)]) {
        Ok((job, _)) => submission.report_job = Some(job),
        // The workers are what matters.
        Err(error) => say!("note: no job for the report: {error}. To write it:\n  {}", command_on("report", &dir)),
    }
    submission.write()?;
    let submitted = Submitted { experiment: &name, dir: prepared.dir.clone(), folder, submission: &submission };
    emit(out, args.json, &submitted, |out| submitted.print(out))?;
    Ok(Exit::Done)
}

impl Submitted<'_> {
    fn print(&self, out: &mut dyn Write) -> Result<(), Error> {
        let Submission { job, report_job, tasks, workers, cpus, time_seconds, .. } = self.submission;
        let (limit, cores) = (clock(*time_seconds as f64), counted(usize::from(*cpus), "core"));
        writeln!(out, "workers    array {job}: {tasks} tasks of {limit}, {workers} at once, {cores} each")?;
        if let Some(job) = report_job {
            writeln!(out, "report     job {job}, when all tasks are over")?;
        }
        writeln!(out, "script     {}", self.folder.join("job.sh").display())?;
        writeln!(out, "to follow  {}", command_on("slurm status", &self.dir))?;
        Ok(())
    }
}

/// What jobs ask for: what is given on the command line, and the rest from the profile.
struct Wanted {
    profile: SlurmProfile,
    time: Duration,
    cpus: u16,
    workers: u16,
}

impl Wanted {
    fn new(args: &Args) -> Result<Self, Error> {
        let mut profile = profile::find(&std::env::current_dir()?, args.profile.as_deref())?;
        let limit = profile.time.as_ref();
        let limit =
            limit.map(|written| time::parse(&written.value).map_err(|wrong| written.error(wrong))).transpose()?;
        let missing = |what: &str, example: &str| {
            format!(
                "{what} is not given\nhelp: give --{example}, or write it into a profile in `.semfocus.toml` \
                 (docs/cluster.md says how to choose)"
            )
        };
        let time = args.time.or(limit).ok_or_else(|| missing("the time limit of a job", "time 2h"))?;
        if time < Duration::from_secs(60) {
            return Err("Slurm counts the time of jobs in minutes: --time has to be at least 1m".into());
        }
        let workers = args.workers.or(profile.workers).ok_or_else(|| missing("the number of workers", "workers 8"))?;
        for (given, usual) in [
            (&args.partition, &mut profile.partition),
            (&args.account, &mut profile.account),
            (&args.mem, &mut profile.mem),
        ] {
            *usual = given.clone().or(usual.take());
        }
        profile.options.extend(args.options.iter().cloned());
        Ok(Wanted { time, cpus: args.cpus.or(profile.cpus).unwrap_or(1), workers, profile })
    }
}

/// Workers that would have nothing to do are not submitted.
fn sensible_workers(asked: u16, trials: usize, cpus: u16) -> u16 {
    let busy = trials.div_ceil(usize::from(cpus)).max(1);
    let workers = usize::from(asked).min(busy) as u16;
    if workers < asked {
        say!(
            "only {} needed for {}; submitting {workers}",
            if workers == 1 { "1 worker is".to_owned() } else { format!("{workers} workers are") },
            counted(trials, "trial")
        );
    }
    workers
}

/// How many tasks the array has.
fn tasks(generations: Option<u32>, workers: u16) -> Result<u32, Error> {
    let unknown = "there is no time estimate for this device\nhelp: give --generations, the number of jobs that may follow \
                   each other in the place of a worker";
    let generations = generations.ok_or(unknown)?;
    let wanted = generations.saturating_mul(u32::from(workers));
    let Some(largest) = plan::largest_task() else { return Ok(wanted) };
    if u32::from(workers) > largest {
        return Err(format!(
            "this cluster allows {largest} tasks in an array\nhelp: give --workers {largest} or fewer"
        )
        .into());
    }
    if wanted > largest {
        say!(
            "note: by estimate, {wanted} tasks are needed, but this cluster allows only {largest} in an array. When they are \
             over, the same command submits more; a longer --time or more --cpus needs fewer."
        );
    }
    Ok(wanted.min(largest))
}

/// A trial that needs more memory than its job has would fail there.
fn warn_of_memory(mem: Option<&str>, estimate: &Estimate) {
    let Some(bytes) = mem.and_then(bytes) else { return };
    if bytes < estimate.memory_bytes {
        say!(
            "warning: --mem is {} and the trials of a job need about {} together; they take turns, or fail if one alone does \
             not fit",
            crate::text::size(bytes),
            crate::text::size(estimate.memory_bytes)
        );
    }
}

/// Reads an amount of memory as Slurm does: in mebibytes, or with a unit.
fn bytes(text: &str) -> Option<u64> {
    let number = text.trim().trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text.trim().strip_prefix(number)? {
        "K" | "k" => 10,
        "" | "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok().filter(|number| *number > 0)?.checked_mul(1 << shift)
}

/// What a refusal of Slurm means that contains these words.
const REFUSALS: [(&str, &str); 5] = [
    (
        "invalid job array specification",
        "the array has more tasks than this cluster allows (MaxArraySize); give a longer --time, more --cpus, or fewer \
         --generations",
    ),
    ("invalid partition", "`sinfo` lists the partitions"),
    ("account", "give --account; `sacctmgr show associations user=$USER` may list yours"),
    ("time limit", "`sinfo` lists the time limits of the partitions"),
    ("", "`--print` shows the job script; options of the site go after `--` or into a profile"),
];

/// Calls `sbatch`, and says what its refusal means where that is known.
fn sbatch(arguments: &[&str], script: &str) -> Result<Answer, Error> {
    call("sbatch", arguments, script).map_err(|error| match &error {
        CallError::Refused(_, text) => {
            let help =
                REFUSALS.iter().find(|(part, _)| text.to_lowercase().contains(part)).map_or("", |(_, help)| help);
            format!("{error}\nhelp: {help}").into()
        }
        _ => error.into(),
    })
}

/// Submits a script. Returns the number of the job and the name of its cluster.
fn submit(script: &Path, options: &[&str]) -> Result<(String, Option<String>), Error> {
    let path = script.display().to_string();
    let printed = sbatch(&[&["--parsable"], options, &[&path]].concat(), "")?.stdout;
    parse_number(&printed).ok_or_else(|| format!("`sbatch` did not print a job number: {}", printed.trim()).into())
}

/// The number of a job and the name of its cluster, from what `sbatch --parsable` prints: `12` or `12;cluster`.
fn parse_number(text: &str) -> Option<(String, Option<String>)> {
    let line = text.lines().rfind(|line| !line.trim().is_empty())?.trim();
    let (number, cluster) = line.split_once(';').unwrap_or((line, ""));
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (number.to_owned(), (!cluster.is_empty()).then(|| cluster.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_jobs_are_read() {
        assert_eq!(parse_number("12\n"), Some(("12".to_owned(), None)));
        let greeted = parse_number("a greeting of the site\n12;big\n");
        assert_eq!(greeted, Some(("12".to_owned(), Some("big".to_owned()))));
        assert_eq!(parse_number("Submitted batch job\n"), None);
        assert_eq!(parse_number(""), None);
    }

    #[test]
    fn memory_is_read_as_slurm_reads_it() {
        assert_eq!(["2G", "512", "100M", "3t"].map(bytes), [2 << 30, 512 << 20, 100 << 20, 3 << 40].map(Some));
        assert_eq!(["", "G", "x", "0", "-1"].map(bytes), [None; 5]);
    }

    #[test]
    fn there_are_no_more_workers_than_work() {
        assert_eq!(sensible_workers(8, 4, 1), 4);
        assert_eq!(sensible_workers(8, 40, 1), 8);
        assert_eq!(sensible_workers(8, 9, 4), 3);
    }
}
