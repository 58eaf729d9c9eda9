//! Which values the questions of a split have on the slices of their task.

use semfocus_core::question::At;
use semfocus_core::two_digits;

use crate::generate::GenerateError;
use crate::source::Source;
use crate::split::Split;
use crate::task::{BuiltTask, POSITION, Slice, Token};

/// A property of questions, and the value that each question of a split has.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceTable {
    /// The property.
    pub slice: Slice,
    /// The values that occur, [rounded down to two digits](two_digits()), in ascending order.
    pub values: Vec<u32>,
    /// For each question of the split the index of its value in `values`; none if it is left out.
    pub places: Vec<Option<u32>>,
}

impl SliceTable {
    /// The values of the questions of a split on one slice.
    fn new(slice: Slice, values_of_questions: &[Option<u32>]) -> Self {
        let rounded = |value: u32| two_digits(value as usize) as u32;
        let of_questions: Vec<Option<u32>> = values_of_questions.iter().map(|value| value.map(rounded)).collect();
        let mut values: Vec<u32> = of_questions.iter().flatten().copied().collect();
        values.sort_unstable();
        values.dedup();
        let place = |value: u32| values.binary_search(&value).expect("it is one of the values") as u32;
        let places = of_questions.into_iter().map(|value| value.map(place)).collect();
        SliceTable { slice, values, places }
    }
}

impl Source {
    /// The values of the questions of a split on all slices: on the position if questions are asked at tokens, and on those of the task.
    /// Slices without a value are left out. A classification task without slices of its own has none.
    ///
    /// # Errors
    /// If the task does not give one value of each slice for each question.
    pub fn slice_tables(&self, split: &Split) -> Result<Vec<SliceTable>, GenerateError> {
        let asked = split.questions.all().iter();
        let position = asked.map(|question| match question.at {
            At::Token(position) => Some(position),
            At::Mean => None,
        });
        let mut tables = vec![SliceTable::new(POSITION, &position.collect::<Vec<_>>())];
        if let Source::Task(task) = self {
            let slices = task.task.slices();
            let mut columns: Vec<Vec<Option<u32>>> = vec![Vec::new(); slices.len()];
            for (tokens, asked) in split.iter().filter(|_| !slices.is_empty()) {
                for row in values_of_questions(task, tokens, asked.len(), slices.len())? {
                    columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
                }
            }
            tables.extend(slices.into_iter().zip(&columns).map(|(slice, column)| SliceTable::new(slice, column)));
        }
        tables.retain(|table| !table.values.is_empty());
        Ok(tables)
    }
}

/// What the task says of the questions of a sequence, if it has the right shape.
fn values_of_questions(
    task: &BuiltTask,
    tokens: &[Token],
    questions: usize,
    slices: usize,
) -> Result<Vec<Vec<Option<u32>>>, GenerateError> {
    let rows = task.task.slice_values(task.without_padding(tokens));
    let problem = match rows.iter().find(|row| row.len() != slices) {
        _ if rows.len() != questions => {
            format!("it asks {questions} questions and gives values of slices for {}", rows.len())
        }
        Some(row) => format!("it has {slices} slices and gives {} values for a question", row.len()),
        None => return Ok(rows),
    };
    Err(GenerateError::WrongTask { task: task.spec.to_string(), sequence: task.written(tokens), problem })
}
