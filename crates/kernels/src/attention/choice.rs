//! The keys that a rule keeps.

use std::sync::Arc;

use super::dense::{self, Head};
use super::{AttentionKernel, KeepWeights, Maps, SequenceRows, sparse};
use crate::selection::{Row, RowRule, RuleScores, assert_valid_row};
use crate::{KeptKeys, Selection};

/// Rows whose scores a rule looks at instead of the query's own.
pub(crate) struct ChoiceRows<'a> {
    rows: SequenceRows,
    maps: &'a Maps,
}

impl AttentionKernel<'_> {
    /// Whether a rule needs the input of another example of the batch.
    pub(crate) fn chooses_by_another_example(&self) -> bool {
        matches!(self.selection, Selection::Rule(rule) if rule.scores() == RuleScores::NextExample)
    }

    /// The rows whose scores the rule looks at, if they are not those of the sequence itself; `x` is the whole batch.
    pub(crate) fn rows_to_choose_by<'a>(
        &self,
        maps: &'a Maps,
        initial: Option<&'a Maps>,
        x: &[f32],
        sequence: usize,
    ) -> Option<ChoiceRows<'a>> {
        let Selection::Rule(rule) = self.selection else { return None };
        let per_sequence = self.length * self.width;
        let (maps, sequence) = match rule.scores() {
            RuleScores::None | RuleScores::Own => return None,
            RuleScores::NextExample => (maps, (sequence + 1) % (x.len() / per_sequence)),
            RuleScores::InitialMaps => {
                (initial.expect("a rule that asks for the initial maps is given them"), sequence)
            }
        };
        let mut rows = SequenceRows::new(self, maps, KeepWeights::No);
        self.project(maps, &x[sequence * per_sequence..][..per_sequence], &mut rows);
        Some(ChoiceRows { rows, maps })
    }

    /// The keys that a rule keeps in one head, and their scores.
    pub(super) fn choose(
        &self,
        rule: &dyn RowRule,
        head: Head,
        sequence: usize,
        h: usize,
        choice: Option<&ChoiceRows>,
    ) -> (Arc<KeptKeys>, Vec<f32>) {
        let (mut kept, mut pairs) = (KeptKeys::with_capacity(self.length), Vec::new());
        let mut row_keys = Vec::new();
        let tokens = self.hints.tokens.get(sequence * self.length..(sequence + 1) * self.length).unwrap_or(&[]);
        let relevant = self.hints.relevant.get(sequence);
        let mut choose_row = |query: usize, scores: &[f32]| {
            let visible = self.visibility.keys(query, self.length);
            let row = Row {
                draw: self.hints.draw_key.child(self.row(sequence, h, query) as u64),
                fixed_key: self.hints.fixed_key.child((h * self.length + query) as u64),
                layer: self.hints.layer,
                head: h,
                query,
                visible,
                scores,
                tokens,
                relevant: relevant.and_then(|keys| keys.of_query(query, visible)),
            };
            row_keys.clear();
            rule.select(&row, &mut row_keys);
            if row_keys.is_empty() && scores.iter().any(|score| score.is_nan()) {
                // A diverged model must not fail the assertion below: let the NaN reach the loss.
                row_keys.extend(0..visible as u32);
            }
            assert_valid_row(&row_keys, visible, query);
            kept.push_row(&row_keys);
            if choice.is_none() {
                pairs.extend(row_keys.iter().filter_map(|&key| scores.get(key as usize)));
            }
        };
        if rule.scores() == RuleScores::None {
            (0..self.length).for_each(|query| choose_row(query, &[]));
        } else {
            let rows = choice.map_or(head, |choice| choice.rows.head(self, choice.maps, h));
            dense::for_score_blocks(rows, self.visibility, |first, queries, scores| {
                let stride = scores.len() / queries;
                for (query, scores) in (first..).zip(scores.chunks_exact(stride)) {
                    choose_row(query, &scores[..self.visibility.keys(query, self.length)]);
                }
            });
        }
        if pairs.len() < kept.pairs() {
            pairs.clear();
            sparse::scores(head, &kept, &mut pairs);
        }
        (Arc::new(kept), pairs)
    }
}
