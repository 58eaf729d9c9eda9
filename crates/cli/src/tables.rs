//! The table at the end of a run.

use std::io::{self, Write};

use semfocus_lab::summary::{Row, THRESHOLD, Table};

use crate::text::paragraph;

/// Prints all tables, one for each point of the grid.
pub(crate) fn print(tables: &[Table], out: &mut dyn Write) -> io::Result<()> {
    let width = tables.iter().flat_map(|table| &table.rows).map(|row| row.mechanism.chars().count()).max();
    let width = width.unwrap_or(0).max("mechanism".len());
    for (index, table) in tables.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        for (path, value) in &table.point {
            writeln!(out, "{path} = {value}")?;
        }
        let percent = 100.0 * THRESHOLD;
        writeln!(out, "{:width$}  epochs to {percent:.0} % training accuracy   held-out accuracy", "")?;
        writeln!(
            out,
            "{:width$}  {:>8}  {:>9}  {:>14}  {:>8}  {:>8}",
            "mechanism", "median", "reached", "faster by", "best", "last"
        )?;
        for row in &table.rows {
            print_row(row, width, out)?;
        }
        print_notes(&table.rows, out)?;
    }
    if tables.iter().any(|table| !table.rows.is_empty()) {
        writeln!(out)?;
        writeln!(out, "Medians over seeds; a trial that has not arrived counts as later than any other.")?;
        writeln!(out, "faster by: epochs of full attention / epochs of the mechanism.")?;
    }
    Ok(())
}

fn print_row(row: &Row, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let median = match row.median_epochs_to_threshold {
        _ if row.seeds == 0 => "–".to_owned(),
        Some(epochs) if epochs.fract() == 0.0 => format!("{epochs:.0}"),
        Some(epochs) => format!("{epochs:.1}"),
        None => format!("> {}", row.epochs),
    };
    let reached = format!("{} of {}", row.reached, row.seeds);
    let ratio = row.ratio_to_full.map_or_else(|| "–".to_owned(), |ratio| ratio.to_string());
    let percent = |accuracy: Option<f64>| accuracy.map_or_else(|| "–".to_owned(), |x| format!("{:.1} %", 100.0 * x));
    let (best, last) = (percent(row.best_heldout_accuracy), percent(row.last_heldout_accuracy));
    writeln!(out, "{:width$}  {median:>8}  {reached:>9}  {ratio:>14}  {best:>8}  {last:>8}", row.mechanism)
}

/// What the numbers leave out.
fn print_notes(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let list = |count: fn(&Row) -> usize| -> String {
        let some = rows.iter().filter(|row| count(row) > 0).map(|row| format!("{} of {}", count(row), row.mechanism));
        some.collect::<Vec<_>>().join(", ")
    };
    for (head, list) in
        [("without an epoch: ", list(|row| row.planned - row.seeds)), ("diverged: ", list(|row| row.diverged))]
    {
        if !list.is_empty() {
            paragraph(out, head, &list)?;
        }
    }
    Ok(())
}
