//! The Slurm job that this process runs in.

use std::time::{Duration, SystemTime};

use semfocus_store::slurm_job_in;

use super::call::call;
use crate::time::from_slurm;

/// A job of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlurmJob {
    /// As `squeue` knows it: a number, or ARRAY_TASK.
    pub(crate) name: String,
    /// When it ends, in seconds since 1970, if the version of Slurm says so.
    ends: Option<u64>,
}

impl SlurmJob {
    /// The job of this process, if it runs in one.
    pub(crate) fn of_this_process() -> Option<Self> {
        SlurmJob::from_environment(|name| std::env::var(name).ok())
    }

    fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let name = slurm_job_in(&variable)?;
        let ends = variable("SLURM_JOB_END_TIME").and_then(|time| time.parse().ok());
        Some(SlurmJob { name, ends })
    }

    /// Time until Slurm ends the job: from its environment, or by one call of `squeue`. None if it has no limit or neither of
    /// them tells.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        self.time_left_by(SystemTime::now(), || {
            let answer = call("squeue", &["-h", "-j", &self.name, "-o", "%L"], "").ok()?;
            answer.stdout.lines().find_map(from_slurm)
        })
    }

    fn time_left_by(&self, now: SystemTime, ask: impl FnOnce() -> Option<u64>) -> Option<Duration> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
        let seconds = match self.ends {
            Some(ends) => ends.saturating_sub(now),
            None => ask()?,
        };
        Some(Duration::from_secs(seconds))
    }
}

/// How long before its end a job that may run for this time stops working, to have time to save.
pub(crate) fn margin(limit: Duration) -> Duration {
    (limit / 2).min(Duration::from_secs(120))
}

/// How long before its end a job asks Slurm for a signal, should it not stop by itself. Slurm looks every half minute and sends
/// it that much earlier.
pub(crate) fn signal_lead(limit: Duration) -> Duration {
    margin(limit).saturating_sub(Duration::from_secs(60)).max(Duration::from_secs(5))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(variables: &[(&str, &str)]) -> Option<SlurmJob> {
        SlurmJob::from_environment(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_task_of_an_array_is_named_by_both_numbers() {
        assert_eq!(job(&[]), None);
        assert_eq!(job(&[("SLURM_JOB_ID", "12")]).unwrap().name, "12");
        let task = [("SLURM_JOB_ID", "12"), ("SLURM_ARRAY_JOB_ID", "12"), ("SLURM_ARRAY_TASK_ID", "6")];
        assert_eq!(job(&task).unwrap().name, "12_6");
    }

    #[test]
    fn the_end_comes_from_the_environment_or_from_the_queue() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let known = job(&[("SLURM_JOB_ID", "1"), ("SLURM_JOB_END_TIME", "4600")]).unwrap();
        assert_eq!(known.time_left_by(now, || panic!("it need not ask")), Some(Duration::from_secs(3600)));
        assert_eq!(known.time_left_by(now + Duration::from_secs(9000), || None), Some(Duration::ZERO));
        let unknown = job(&[("SLURM_JOB_ID", "1")]).unwrap();
        assert_eq!(unknown.time_left_by(now, || from_slurm("1:00:00")), Some(Duration::from_secs(3600)));
        assert_eq!(unknown.time_left_by(now, || from_slurm("UNLIMITED")), None);
    }

    #[test]
    fn short_jobs_stop_later() {
        let seconds = |limit| margin(Duration::from_secs(limit)).as_secs();
        assert_eq!([60, 120, 480, 7200].map(seconds), [30, 60, 120, 120]);
        let lead = |limit| signal_lead(Duration::from_secs(limit)).as_secs();
        assert_eq!([60, 120, 180, 7200].map(lead), [5, 5, 30, 60]);
    }
}
