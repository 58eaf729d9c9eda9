//! The Slurm job that this process runs in.

use std::time::{Duration, SystemTime};

use semfocus_core::Allocation;

use super::call::call;
use crate::time::from_slurm;

/// Time until Slurm ends the job of an allocation: from its environment, or by one call of `squeue`. None if it has no limit or
/// neither of them tells.
pub(crate) fn time_left(allocation: &Allocation) -> Option<Duration> {
    let job = allocation.job.as_ref()?;
    time_left_by(allocation.ends, SystemTime::now(), || {
        let answer = call("squeue", &["-h", "-j", job, "-o", "%L"], "").ok()?;
        answer.stdout.lines().find_map(from_slurm)
    })
}

fn time_left_by(ends: Option<u64>, now: SystemTime, ask: impl FnOnce() -> Option<u64>) -> Option<Duration> {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    let seconds = match ends {
        Some(ends) => ends.saturating_sub(now),
        None => ask()?,
    };
    Some(Duration::from_secs(seconds))
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

    #[test]
    fn the_end_comes_from_the_environment_or_from_the_queue() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        let known = |now| time_left_by(Some(4600), now, || panic!("it need not ask"));
        assert_eq!(known(now), Some(Duration::from_secs(3600)));
        assert_eq!(known(now + Duration::from_secs(9000)), Some(Duration::ZERO));
        assert_eq!(time_left_by(None, now, || from_slurm("1:00:00")), Some(Duration::from_secs(3600)));
        assert_eq!(time_left_by(None, now, || from_slurm("UNLIMITED")), None);
    }

    #[test]
    fn short_jobs_stop_later() {
        let seconds = |limit| margin(Duration::from_secs(limit)).as_secs();
        assert_eq!([60, 120, 480, 7200].map(seconds), [30, 60, 120, 120]);
        let lead = |limit| signal_lead(Duration::from_secs(limit)).as_secs();
        assert_eq!([60, 120, 180, 7200].map(lead), [5, 5, 30, 60]);
    }
}
