//! Loss and accuracy by properties of the questions.

use semfocus_core::Questions;
use semfocus_nn::Answer;
use semfocus_store::SliceRecord;
use semfocus_tasks::SliceTable;

use super::evaluation::Tally;

/// A tally for each value of each slice. Questions come in the order in which the split has them.
pub(super) struct SliceTallies<'a> {
    tables: &'a [SliceTable],
    tallies: Vec<Vec<Tally>>,
    /// Questions that were seen.
    seen: usize,
}

impl<'a> SliceTallies<'a> {
    pub(super) fn new(tables: &'a [SliceTable]) -> Self {
        let tallies = tables.iter().map(|table| vec![Tally::default(); table.values.len()]).collect();
        SliceTallies { tables, tallies, seen: 0 }
    }

    /// Adds the answers to the next questions; none if they were not asked, which counts as wrong answers without loss.
    pub(super) fn add(&mut self, answers: Option<&[Answer]>, questions: &Questions) {
        for (number, question) in questions.all().iter().enumerate() {
            let answer = answers.map(|answers| &answers[number]);
            for (table, tallies) in self.tables.iter().zip(&mut self.tallies) {
                if let Some(place) = table.places[self.seen + number] {
                    tallies[place as usize].add_question(answer, question, questions);
                }
            }
        }
        self.seen += questions.all().len();
    }

    /// What was found, slice after slice. Values whose questions do not count have no loss and are left out.
    pub(super) fn records(self, epoch: usize) -> Vec<SliceRecord> {
        let mut records = Vec::new();
        for (table, tallies) in self.tables.iter().zip(self.tallies) {
            let slice: std::sync::Arc<str> = table.slice.name.into();
            let counted = table.values.iter().zip(tallies).filter(|(_, tally)| tally.counts());
            records.extend(counted.map(|(&value, tally)| {
                let (slice, found) = (slice.clone(), tally.result());
                let (loss, accuracy) = (found.loss, found.accuracy);
                SliceRecord { epoch, slice, value, questions: tally.answers(), loss, accuracy }
            }));
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use semfocus_core::Question;
    use semfocus_tasks::{POSITION, Slice};

    use super::*;

    #[test]
    fn every_question_counts_once_in_every_slice_that_has_it() {
        let table = |name, values: &[u32], places: &[Option<u32>]| SliceTable {
            slice: Slice { name, ..POSITION },
            values: values.to_vec(),
            places: places.to_vec(),
        };
        let tables = [
            table("one", &[3, 8], &[Some(0), Some(1), Some(0), None, Some(1)]),
            table("other", &[5], &[None, None, None, Some(0), None]),
        ];
        let mut tallies = SliceTallies::new(&tables);
        let weighted = |label, weight| Question { weight, ..Question::classify(label) };
        let mut first = Questions::classification([]);
        first.push([weighted(0, 1.0), weighted(1, 1.0)]);
        first.push([weighted(2, 3.0)]);
        let answer = |loss, class| Answer { loss, class };
        tallies.add(Some(&[answer(4.0, 1), answer(1.0, 1), answer(2.0, 2)]), &first);
        let mut second = Questions::classification([]);
        second.push([weighted(0, 0.0), weighted(0, 1.0)]);
        tallies.add(None, &second);
        let records = tallies.records(7);
        let found =
            records.iter().map(|record| (&*record.slice, record.value, record.questions, record.loss, record.accuracy));
        // The question of the other slice has no weight.
        assert_eq!(found.collect::<Vec<_>>(), [("one", 3, 2, 10.0 / 4.0, 0.5), ("one", 8, 2, 0.5, 0.5)]);
        assert!(records.iter().all(|record| record.epoch == 7));
    }
}
