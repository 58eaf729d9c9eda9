//! How many jobs a run needs.

use std::time::Duration;

use semfocus_lab::estimate::Estimate;

use crate::slurm::call::{CallError, call};
use crate::slurm::job::margin;

/// Estimates are right to about a third, and nodes differ from the login node.
const UNCERTAINTY: f64 = 1.5;

/// Seconds of a job in which it does not train: it starts, and reads what is there.
const START: Duration = Duration::from_secs(20);

/// Jobs that one worker after the other needs until everything is done, with one to spare, and one more if they `measure`, which
/// is not estimated. Jobs that find nothing left end at once, so too many cost little, and too few leave work undone.
pub(super) fn generations(estimate: &Estimate, measure: bool, workers: u16, cpus: u16, time: Duration) -> u32 {
    let usable = time.saturating_sub(margin(time)).saturating_sub(START).max(time / 4).as_secs_f64();
    let at_once = f64::from(workers) * f64::from(cpus);
    // A trial is not divided: the longest one takes its time however many workers there are.
    let longest = estimate.groups.iter().filter(|group| group.done < group.trials);
    let longest = longest.map(|group| group.seconds / (group.trials - group.done) as f64).fold(0.0, f64::max);
    let seconds = UNCERTAINTY * (estimate.core_seconds / at_once).max(longest);
    (seconds / usable).ceil() as u32 + 1 + u32::from(measure)
}

/// The largest number of a task that the cluster allows in an array; none if it does not say.
pub(super) fn largest_task() -> Option<u32> {
    match call("scontrol", &["show", "config"], "") {
        Ok(answer) => parse_largest_task(&answer.stdout),
        Err(CallError::Missing(_) | CallError::NotStarted(..) | CallError::Slow(_) | CallError::Refused(..)) => None,
    }
}

/// From the line `MaxArraySize = 1001`: numbers of tasks are below it.
fn parse_largest_task(config: &str) -> Option<u32> {
    let value = |line: &str| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "MaxArraySize").then(|| value.trim().parse::<u32>().ok())?
    };
    config.lines().find_map(value).map(|size| size.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use semfocus_lab::estimate::Estimate;

    use super::*;

    fn estimate(core_hours: f64) -> Estimate {
        Estimate { core_seconds: 3600.0 * core_hours, ..Estimate::default() }
    }

    #[test]
    fn enough_jobs_follow_each_other() {
        let hours = |hours: u64| Duration::from_secs(3600 * hours);
        // 16 hours of 8 workers, with half as much again.
        assert_eq!(generations(&estimate(16.0 * 8.0), false, 8, 1, hours(2)), 14);
        assert_eq!(generations(&estimate(16.0 * 8.0), false, 8, 4, hours(2)), 5);
        assert_eq!(generations(&estimate(0.1), false, 8, 1, hours(2)), 2);
        assert_eq!([false, true].map(|measure| generations(&estimate(0.0), measure, 8, 1, hours(2))), [1, 2]);
        // The shortest jobs have some time to work, too.
        assert!(generations(&estimate(1.0), false, 1, 1, Duration::from_secs(60)) < 400);
    }

    #[test]
    fn the_largest_array_is_read() {
        let config = "Configuration data as of 2026-11-18\nMaxArraySize            = 1001\nMaxDBDMsgs = 20012\n";
        assert_eq!(parse_largest_task(config), Some(1000));
        assert_eq!(parse_largest_task("nothing"), None);
    }
}
