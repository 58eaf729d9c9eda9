//! What `squeue` and `sacct` say about jobs.

use std::collections::BTreeMap;

use semfocus_store::Submission;
use serde::Serialize;

use super::call::{CallError, call};
use crate::time::from_slurm;

/// A job, or a task of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Task {
    /// Number of the job, or of the array.
    pub(crate) job: String,
    /// Number of the task within the array.
    pub(crate) task: Option<u32>,
    /// In Slurm's words, such as `RUNNING`.
    pub(crate) state: String,
    /// Why it waits or how it ended.
    pub(crate) reason: Option<String>,
    /// Seconds that it has run.
    pub(crate) elapsed_seconds: Option<u64>,
    /// Seconds until its time limit.
    pub(crate) seconds_left: Option<u64>,
    /// Where it runs.
    pub(crate) node: Option<String>,
}

/// States in which a job has ended for good. All others may continue: one that was preempted or requeued comes back, and states
/// that are not known here belong to newer versions of Slurm.
const ENDS: [&str; 11] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "RECONFIG_FAIL",
    "REVOKED",
    "TIMEOUT",
];

impl Task {
    /// Whether it has ended for good.
    pub(crate) fn is_over(&self) -> bool {
        ENDS.contains(&self.state.as_str())
    }

    /// Whether it ended in another way than by itself and without an error, or at the will of a person.
    pub(crate) fn has_failed(&self) -> bool {
        self.is_over() && !["COMPLETED", "CANCELLED"].contains(&self.state.as_str())
    }

    /// `12_3`, or `12` if it belongs to no array.
    pub(crate) fn name(&self) -> String {
        self.task.map_or_else(|| self.job.clone(), |task| format!("{}_{task}", self.job))
    }
}

/// All jobs of some submissions that Slurm knows, by one call of `squeue` for each cluster, which is usually one. Slurm forgets
/// jobs minutes after their end; then `sacct` may know more, if there is one.
pub(crate) fn tasks(submissions: &[Submission]) -> Result<Vec<Task>, CallError> {
    let mut clusters: BTreeMap<Option<&str>, Vec<&Submission>> = BTreeMap::new();
    for submission in submissions {
        clusters.entry(submission.cluster.as_deref()).or_default().push(submission);
    }
    let mut tasks = Vec::new();
    for (cluster, submissions) in clusters {
        let ids: Vec<&str> = submissions.iter().flat_map(|submission| submission.jobs()).collect();
        let ids = ids.join(",");
        let of_cluster = cluster.map(|cluster| ["-M", cluster]);
        let of_cluster = of_cluster.iter().flatten().copied();
        let format = "%F|%K|%T|%r|%M|%L|%N";
        let arguments: Vec<&str> =
            ["-h", "-r", "-t", "all", "-j", &ids, "-o", format].into_iter().chain(of_cluster.clone()).collect();
        let known = match call("squeue", &arguments, "") {
            Ok(answer) => from_squeue(&answer.stdout),
            // It has forgotten all of them.
            Err(CallError::Refused(_, text)) if text.contains("Invalid job id") => Vec::new(),
            Err(error) => return Err(error),
        };
        let expected: u32 = submissions.iter().map(|submission| submission.tasks + 1).sum();
        if known.len() < expected as usize {
            let since = submissions.iter().map(|submission| submission.submitted.as_str()).min().unwrap_or_default();
            let columns = "JobID,State,Elapsed,NodeList";
            let since = since.get(..10).unwrap_or("now-30days");
            let arguments: Vec<&str> =
                ["-n", "-X", "-P", "-j", &ids, "-S", since, "-o", columns].into_iter().chain(of_cluster).collect();
            // Many sites keep no accounts; then what `squeue` says has to do.
            let accounts = call("sacct", &arguments, "").map(|answer| from_sacct(&answer.stdout)).unwrap_or_default();
            let is_new = |task: &Task| !known.iter().any(|other| other.name() == task.name());
            tasks.extend(accounts.into_iter().filter(is_new));
        }
        tasks.extend(known);
    }
    tasks.sort_by_key(|task| (task.job.parse::<u64>().unwrap_or(u64::MAX), task.task));
    Ok(tasks)
}

/// A text unless it is one of Slurm's ways to say nothing.
fn said(text: &str) -> Option<String> {
    let text = text.trim();
    (!["", "None", "N/A", "(null)", "None assigned"].contains(&text)).then(|| text.to_owned())
}

/// Reads lines of `%F|%K|%T|%r|%M|%L|%N`.
fn from_squeue(text: &str) -> Vec<Task> {
    let line = |line: &str| {
        let [job, task, state, reason, elapsed, left, node] =
            <[&str; 7]>::try_from(line.split('|').collect::<Vec<_>>()).ok()?;
        Some(Task {
            job: job.trim().to_owned(),
            task: task.trim().parse().ok(),
            state: state.trim().to_owned(),
            reason: said(reason),
            elapsed_seconds: from_slurm(elapsed),
            seconds_left: from_slurm(left),
            node: said(node),
        })
    };
    text.lines().filter_map(line).collect()
}

/// Reads lines of JobID, State, Elapsed, NodeList. Tasks that have not begun are one line, `12_[5-9%2]`, which `squeue` knows
/// better.
fn from_sacct(text: &str) -> Vec<Task> {
    let line = |line: &str| {
        let [id, state, elapsed, node] = <[&str; 4]>::try_from(line.split('|').collect::<Vec<_>>()).ok()?;
        let (job, task) = match id.split_once('_') {
            Some((job, task)) => (job, Some(task.parse().ok()?)),
            None => (id, None),
        };
        Some(Task {
            job: job.to_owned(),
            task,
            // `CANCELLED by 1000`.
            state: state.split_whitespace().next().unwrap_or_default().to_owned(),
            reason: None,
            elapsed_seconds: from_slurm(elapsed),
            seconds_left: None,
            node: said(node),
        })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read() {
        let text = "CLUSTER: loop\n\
            7|1|RUNNING|None|3:10|1:56:50|n1\n\
            7|2|PENDING|JobArrayTaskLimit|0:00|2:00:00|\n\
            7|3|PREEMPTED|BeginTime|0:00|UNLIMITED|\n\
            8|N/A|PENDING|Dependency|0:00|30:00|\n";
        let tasks = from_squeue(text);
        assert_eq!(tasks.iter().map(Task::name).collect::<Vec<_>>(), ["7_1", "7_2", "7_3", "8"]);
        let running = &tasks[0];
        assert_eq!((running.elapsed_seconds, running.seconds_left), (Some(190), Some(7010)));
        assert_eq!((running.node.as_deref(), running.reason.as_deref()), (Some("n1"), None));
        assert_eq!((tasks[1].reason.as_deref(), tasks[1].node.as_deref()), (Some("JobArrayTaskLimit"), None));
        assert_eq!(tasks[2].seconds_left, None);
    }

    #[test]
    fn accounts_are_read() {
        let text =
            "7_1|COMPLETED|00:03:10|n1\n7_2|CANCELLED by 1000|00:00:00|None assigned\n7_[3-9%2]|PENDING|00:00:00|\n";
        let tasks = from_sacct(text);
        assert_eq!(tasks.len(), 2);
        assert_eq!((tasks[1].state.as_str(), tasks[1].node.as_deref()), ("CANCELLED", None));
        assert_eq!(from_sacct("Slurm accounting storage is disabled\n"), []);
    }

    #[test]
    fn jobs_that_may_come_back_are_not_over() {
        let task = |state: &str| from_squeue(&format!("7|1|{state}|None|0:00|0:00|\n")).remove(0);
        for state in ["PENDING", "RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "PREEMPTED", "REQUEUED"] {
            assert!(!task(state).is_over() && !task(state).has_failed(), "{state}");
        }
        for state in ["REQUEUE_HOLD", "SPECIAL_EXIT", "STOPPED", "RESV_DEL_HOLD", "SOMETHING_NEW"] {
            assert!(!task(state).is_over(), "{state}");
        }
        assert!(task("COMPLETED").is_over() && !task("COMPLETED").has_failed());
        assert!(task("TIMEOUT").has_failed() && task("NODE_FAIL").has_failed() && !task("CANCELLED").has_failed());
    }
}
