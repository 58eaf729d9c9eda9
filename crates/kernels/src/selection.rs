//! Which keys a query keeps.

use std::sync::Arc;

use crate::Key;

/// Which keys the queries keep.
#[derive(Clone, Debug)]
pub enum Selection {
    /// Every query keeps every key.
    All,
    /// The kept keys are the same for every input.
    Pattern(Arc<KeptKeys>),
    /// The kept keys depend on the scores, or are drawn at random.
    Rule(Arc<dyn RowRule>),
}

/// A rule that turns one row of scores into the set of kept keys.
///
/// The selection is not differentiated, so a rule has no gradient. It may be called from several threads at once and
/// must depend on its arguments only.
pub trait RowRule: Send + Sync + std::fmt::Debug {
    /// Appends the kept keys of one query to `kept`, which is empty: at least one, ascending, none twice.
    ///
    /// `scores` holds the query's score for every key; `row` names the query (in its head, sequence, layer and forward
    /// pass) for rules that draw random numbers.
    fn select(&self, row: Key, scores: &[f32], kept: &mut Vec<u32>);

    /// Whether the choice stays the same when a constant is added to all scores of a query.
    fn ignores_common_shift(&self) -> bool {
        false
    }
}

/// A fixed pattern: the keys that each query of a sequence keeps, independent of the scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptKeys {
    starts: Vec<u32>,
    keys: Vec<u32>,
}

impl KeptKeys {
    /// Builds the pattern of a sequence of `length` tokens from the keys of each query, given ascending.
    ///
    /// # Panics
    /// If a query keeps no key, or keys that are not ascending or not below `length`.
    pub fn from_rows<I: IntoIterator<Item = usize>>(length: usize, mut row: impl FnMut(usize) -> I) -> Self {
        let mut pattern = KeptKeys::with_capacity(length);
        for query in 0..length {
            let keys: Vec<u32> = row(query).into_iter().map(|key| key as u32).collect();
            assert_valid_row(&keys, length, query);
            pattern.push_row(&keys);
        }
        pattern
    }

    /// A pattern without rows, with capacity for those of a sequence of `length` tokens.
    pub(crate) fn with_capacity(length: usize) -> Self {
        let mut starts = Vec::with_capacity(length + 1);
        starts.push(0);
        KeptKeys { starts, keys: Vec::new() }
    }

    /// Adds the keys of the next query, which must have passed [`assert_valid_row`].
    pub(crate) fn push_row(&mut self, keys: &[u32]) {
        self.keys.extend_from_slice(keys);
        self.starts.push(self.keys.len() as u32);
    }

    /// Number of queries (and keys) of the sequence.
    pub fn length(&self) -> usize {
        self.starts.len() - 1
    }

    /// The keys that `query` keeps, ascending.
    pub fn row(&self, query: usize) -> &[u32] {
        &self.keys[self.starts[query] as usize..self.starts[query + 1] as usize]
    }

    /// Number of kept pairs over all queries.
    pub fn pairs(&self) -> usize {
        self.keys.len()
    }
}

/// Panics unless `kept` is a legal answer for `query`: the kernels index with it.
pub(crate) fn assert_valid_row(kept: &[u32], length: usize, query: usize) {
    let legal =
        kept.last().is_some_and(|&last| (last as usize) < length) && kept.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(legal, "query {query} of {length} keeps {kept:?}: expected at least one key, ascending, below {length}");
}
