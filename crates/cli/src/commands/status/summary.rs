//! The trials of a large run, counted by mechanism and point of the grid.

use std::io::Write;

use semfocus_analysis::overview::TrialOverview;
use semfocus_core::Point;
use semfocus_store::State;

use crate::Error;
use crate::table::Table;
use crate::text::percent;

/// One line for each mechanism at each point: how many trials are in which state, and their median accuracies.
pub(super) fn print(list: &[TrialOverview], out: &mut dyn Write) -> Result<(), Error> {
    let mut groups: Vec<(&Point, &String, Vec<&TrialOverview>)> = Vec::new();
    for entry in list {
        match groups.iter_mut().find(|(point, name, _)| (*point, *name) == (&entry.point, &entry.mechanism)) {
            Some((_, _, entries)) => entries.push(entry),
            None => groups.push((&entry.point, &entry.mechanism, vec![entry])),
        }
    }
    let heads = ["mechanism", ">done", ">running", ">left", ">diverged", ">failed", ">train", ">held-out"];
    let mut table = Table::new(heads);
    for (point, mechanism, entries) in groups {
        let count = |states: &[State]| entries.iter().filter(|entry| states.contains(&entry.state)).count();
        let done = format!("{} of {}", count(&[State::Finished, State::Stopped]), entries.len());
        let (running, left) = (&[State::Running][..], &[State::Waiting, State::Interrupted][..]);
        let (diverged, failed) = (&[State::Diverged][..], &[State::Failed, State::Unreadable][..]);
        let [running, left, diverged, failed] =
            [running, left, diverged, failed].map(|states| count(states).to_string());
        let median = |accuracy: fn(&TrialOverview) -> Option<f64>| {
            let known: Vec<f64> = entries.iter().filter_map(|entry| accuracy(entry)).collect();
            percent(semfocus_analysis::stats::median(&known))
        };
        let (train, held_out) = (median(|entry| entry.train_accuracy), median(|entry| entry.heldout_accuracy));
        table.row_at(point, [mechanism.clone(), done, running, left, diverged, failed, train, held_out]);
    }
    table.print(out)?;
    Ok(writeln!(out, "train, held-out: median accuracy after the last epoch so far")?)
}
