//! Named columns of one type each: what a table or a run is to other programs.

use semfocus_core::Quantity;
use semfocus_store::{CurvePoint, RunData, TrialData};

/// The values of a column, None where one is missing.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    Text(Vec<Option<String>>),
    /// Counts, epochs, seeds.
    Integer(Vec<Option<u64>>),
    Number(Vec<Option<f64>>),
}

/// One value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Missing,
    Text(&'a str),
    Integer(u64),
    Number(f64),
}

impl Values {
    pub fn get(&self, row: usize) -> Value<'_> {
        let found = match self {
            Values::Text(values) => values[row].as_deref().map(Value::Text),
            Values::Integer(values) => values[row].map(Value::Integer),
            Values::Number(values) => values[row].map(Value::Number),
        };
        found.unwrap_or(Value::Missing)
    }

    pub fn len(&self) -> usize {
        match self {
            Values::Text(values) => values.len(),
            Values::Integer(values) => values.len(),
            Values::Number(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the values are numbers of either kind.
    pub fn is_numeric(&self) -> bool {
        !matches!(self, Values::Text(_))
    }
}

impl Value<'_> {
    /// With all its digits; empty if it is missing.
    pub fn to_text(self) -> String {
        match self {
            Value::Missing => String::new(),
            Value::Text(text) => text.to_owned(),
            Value::Integer(value) => value.to_string(),
            Value::Number(value) => value.to_string(),
        }
    }
}

/// Columns with a name, all of the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub columns: Vec<(String, Values)>,
}

impl Frame {
    /// All epochs of all trials in long form: one row for each epoch, the untrained model as epoch 0. The values on the axes of the
    /// grid are in columns with the path of the setting.
    pub fn epochs(run: &RunData) -> Self {
        type Row<'a> = (&'a TrialData, &'a CurvePoint);
        let rows: Vec<Row> =
            run.trials.iter().flat_map(|trial| trial.curve_from_start().map(move |point| (trial, point))).collect();
        let text = |value: &dyn Fn(&TrialData) -> String| {
            Values::Text(rows.iter().map(|(trial, _)| Some(value(trial))).collect())
        };
        let integer = |value: fn(&Row) -> u64| Values::Integer(rows.iter().map(|row| Some(value(row))).collect());
        let mut columns = vec![
            ("trial", text(&|trial| trial.entry.id.to_string())),
            ("task", text(&|trial| trial.entry.task.clone())),
            ("mechanism", text(&|trial| trial.entry.mechanism.clone())),
        ];
        let axes = run.trials.first().map_or(&[][..], |trial| &trial.entry.point);
        let of_axis = |axis: usize| text(&|trial| trial.entry.point[axis].1.clone());
        columns.extend(axes.iter().enumerate().map(|(axis, (path, _))| (path.as_str(), of_axis(axis))));
        columns.extend([
            ("seed", integer(|(trial, _)| trial.entry.seed)),
            ("state", text(&|trial| trial.state.name().to_owned())),
            ("epoch", integer(|(_, point)| point.epoch as u64)),
        ]);
        columns.extend(Quantity::of_quality().map(|quantity| {
            let values = rows.iter().map(|(trial, point)| quantity.value(&point.metrics, &trial.data_facts()));
            (quantity.name(), Values::Number(values.collect()))
        }));
        columns.push(("seconds", Values::Number(rows.iter().map(|(_, point)| point.seconds).collect())));
        columns.into_iter().collect()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, |(_, values)| values.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> FromIterator<(&'a str, Values)> for Frame {
    fn from_iter<I: IntoIterator<Item = (&'a str, Values)>>(columns: I) -> Self {
        Frame { columns: columns.into_iter().map(|(name, values)| (name.to_owned(), values)).collect() }
    }
}
