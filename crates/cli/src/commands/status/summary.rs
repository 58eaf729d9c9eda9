//! The trials of a large run, counted by mechanism and point of the grid.

use std::io::Write;

use semfocus_analysis::overview::TrialOverview;
use semfocus_core::Point;
use semfocus_store::State;

use super::percent;
use crate::Error;
use crate::models::mechanism_width;
use crate::text::rows_by_point;

/// One line for each mechanism at each point: how many trials are in which state, and their median accuracies.
pub(super) fn print(list: &[TrialOverview], out: &mut dyn Write) -> Result<(), Error> {
    let mut groups: Vec<(&Point, &String, Vec<&TrialOverview>)> = Vec::new();
    for entry in list {
        match groups.iter_mut().find(|(point, name, _)| (*point, *name) == (&entry.point, &entry.mechanism)) {
            Some((_, _, entries)) => entries.push(entry),
            None => groups.push((&entry.point, &entry.mechanism, vec![entry])),
        }
    }
    let width = mechanism_width(list.iter().map(|entry| &entry.mechanism));
    writeln!(
        out,
        "{:width$}  {:>8}  {:>7}  {:>4}  {:>8}  {:>6}  {:>7}  {:>8}",
        "mechanism", "done", "running", "left", "diverged", "failed", "train", "held-out"
    )?;
    rows_by_point(
        out,
        &groups,
        |group| group.0,
        |out, (_, mechanism, entries)| {
            let count = |states: &[State]| entries.iter().filter(|entry| states.contains(&entry.state)).count();
            let done = format!("{} of {}", count(&[State::Finished, State::Stopped]), entries.len());
            let (running, left) = (count(&[State::Running]), count(&[State::Waiting, State::Interrupted]));
            let (diverged, failed) = (count(&[State::Diverged]), count(&[State::Failed, State::Unreadable]));
            let train = percent(median(entries.iter().filter_map(|entry| entry.train_accuracy)));
            let held_out = percent(median(entries.iter().filter_map(|entry| entry.heldout_accuracy)));
            Ok(writeln!(
                out,
                "{mechanism:width$}  {done:>8}  {running:>7}  {left:>4}  {diverged:>8}  {failed:>6}  {train:>7}  {held_out:>8}"
            )?)
        },
    )?;
    Ok(writeln!(out, "train, held-out: median accuracy after the last epoch so far")?)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    semfocus_analysis::stats::median(&values.collect::<Vec<_>>())
}
