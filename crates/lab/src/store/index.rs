//! `trials.csv`: one line a trial.

use std::path::Path;

use super::StoreError;
use crate::experiment::{Plan, TrialId};

/// A line of `trials.csv`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// Name of the trial's folder.
    pub id: TrialId,
    /// Epochs that are planned.
    pub epochs: usize,
    /// Its task.
    pub task: String,
    /// Its mechanism.
    pub mechanism: String,
    /// Its seed.
    pub seed: u64,
    /// Paths and values on the axes of the grid, in their order.
    pub point: Point,
}

/// Paths and values on the axes of a grid.
pub type Point = Vec<(String, String)>;

const COLUMNS: [&str; 5] = ["trial", "epochs", "task", "mechanism", "seed"];

/// The file for a plan.
pub(super) fn write(plan: &Plan) -> String {
    let axes = plan.trials.first().map_or(&[][..], |trial| &trial.point);
    let mut text = line(COLUMNS.into_iter().map(str::to_owned).chain(axes.iter().map(|(path, _)| (*path).to_owned())));
    for trial in &plan.trials {
        let settings = &trial.settings;
        let first = [
            trial.id.to_string(),
            settings.training.epochs.to_string(),
            settings.task.clone(),
            settings.mechanism.clone(),
            settings.seed.to_string(),
        ];
        let point =
            trial.point.iter().map(|(_, value)| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        text += &line(first.into_iter().chain(point));
    }
    text
}

/// Reads the file.
pub(super) fn read(path: &Path) -> Result<Vec<IndexEntry>, StoreError> {
    let text = std::fs::read_to_string(path).map_err(|error| StoreError::io("read", path, error))?;
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, fields(line)));
    let broken = |line: usize, reason: &str| StoreError::broken(path, format!("line {line}: {reason}"));
    let header = lines.next().map(|(_, fields)| fields).unwrap_or_default();
    if header.len() < COLUMNS.len() || header[..COLUMNS.len()] != COLUMNS {
        return Err(broken(1, "expected the header trial,epochs,task,mechanism,seed"));
    }
    lines
        .map(|(number, fields)| {
            if fields.len() != header.len() {
                return Err(broken(number, &format!("expected {} columns", header.len())));
            }
            let [id, epochs, task, mechanism, seed] = [0, 1, 2, 3, 4].map(|column: usize| fields[column].clone());
            Ok(IndexEntry {
                id: id.parse().map_err(|_| broken(number, "expected the id of a trial"))?,
                epochs: epochs.parse().map_err(|_| broken(number, "expected a number of epochs"))?,
                task,
                mechanism,
                seed: seed.parse().map_err(|_| broken(number, "expected a seed"))?,
                point: header[COLUMNS.len()..].iter().cloned().zip(fields[COLUMNS.len()..].iter().cloned()).collect(),
            })
        })
        .collect()
}

/// A line of fields, in quotes where they need them.
fn line(fields: impl Iterator<Item = String>) -> String {
    let quoted = |text: String| {
        if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
    };
    fields.map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// The fields of a line.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    fields.push(field);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_commas_and_quotes() {
        let original = ["plain", "a,b", "say \"so\"", ""].map(str::to_owned);
        let text = line(original.clone().into_iter());
        assert_eq!(text, "plain,\"a,b\",\"say \"\"so\"\"\",\n");
        assert_eq!(fields(text.trim_end()), original);
    }
}
