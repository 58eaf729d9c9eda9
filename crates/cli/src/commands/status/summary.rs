//! The trials of a large run, counted by mechanism and point of the grid.

use std::io::Write;

use semfocus_store::State;

use super::{Entry, percent, title};
use crate::Error;

/// One line for each mechanism at each point: how many trials are in which state, and their median accuracies.
pub(super) fn print(list: &[Entry], out: &mut dyn Write) -> Result<(), Error> {
    let mut groups: Vec<(String, Vec<&Entry>)> = Vec::new();
    for entry in list {
        let title = title(entry);
        match groups.iter_mut().find(|(other, _)| *other == title) {
            Some((_, entries)) => entries.push(entry),
            None => groups.push((title, vec![entry])),
        }
    }
    let width = groups.iter().map(|(title, _)| title.chars().count()).max().unwrap_or(0).max("mechanism".len());
    writeln!(
        out,
        "{:width$}  {:>8}  {:>7}  {:>4}  {:>8}  {:>6}  {:>7}  {:>8}",
        "mechanism", "done", "running", "left", "diverged", "failed", "train", "held-out"
    )?;
    for (title, entries) in groups {
        let count = |states: &[State]| entries.iter().filter(|entry| states.contains(&entry.state)).count();
        let done = format!("{} of {}", count(&[State::Finished, State::Stopped]), entries.len());
        let (running, left) = (count(&[State::Running]), count(&[State::Waiting, State::Interrupted]));
        let (diverged, failed) = (count(&[State::Diverged]), count(&[State::Failed, State::Unreadable]));
        let train = percent(median(entries.iter().filter_map(|entry| entry.train_accuracy)));
        let held_out = percent(median(entries.iter().filter_map(|entry| entry.heldout_accuracy)));
        writeln!(
            out,
            "{title:width$}  {done:>8}  {running:>7}  {left:>4}  {diverged:>8}  {failed:>6}  {train:>7}  {held_out:>8}"
        )?;
    }
    Ok(writeln!(out, "train, held-out: median accuracy after the last epoch so far")?)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    semfocus_analysis::stats::median(&values.collect::<Vec<_>>())
}
