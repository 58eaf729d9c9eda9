//! Which keys a query keeps.

use std::sync::Arc;

use semfocus_core::Visibility;

use crate::Key;

/// Which of the visible keys the queries keep.
#[derive(Clone, Debug)]
pub enum Selection {
    /// Every query keeps every visible key.
    All,
    /// The kept keys are the same for every input. All of them are visible.
    Pattern(Arc<KeptKeys>),
    /// The kept keys are chosen row by row.
    Rule(Arc<dyn RowRule>),
}

/// A rule that chooses the kept keys of one query.
///
/// The selection is not differentiated, so a rule has no gradient. It may be called from several threads at once and
/// must depend on its arguments only.
pub trait RowRule: Send + Sync + std::fmt::Debug {
    /// Appends the kept keys of one query to `kept`, which is empty: at least one, ascending, none twice, all of them visible.
    fn select(&self, row: &Row<'_>, kept: &mut Vec<u32>);

    /// The scores that the rule looks at. With [`RuleScores::None`] only the scores of kept keys are computed.
    fn scores(&self) -> RuleScores {
        RuleScores::Own
    }

    /// Whether the choice stays the same when a constant is added to all scores of a query. Rules for which this holds can run
    /// on folded maps, which are faster.
    fn ignores_common_shift(&self) -> bool {
        false
    }
}

/// The scores that a [`RowRule`] looks at. The weights of the kept keys always come from the query's own scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleScores {
    /// None: the choice depends on positions, tokens or chance.
    None,
    /// Those of the query.
    #[default]
    Own,
    /// Those of the query at the same position in the next example of the batch (after the last comes the first).
    NextExample,
    /// Those that the query map and the key map had before training, applied to the present input of the layer.
    InitialMaps,
}

/// What a [`RowRule`] knows about a query.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Key for random numbers that differ in every forward pass, sequence, layer, head and query.
    pub draw: Key,
    /// Key for random numbers that stay the same during the whole training and for all sequences: it depends on the seed of the
    /// model, the layer, the head and the query.
    pub fixed_key: Key,
    /// Index of the layer.
    pub layer: usize,
    /// Index of the head.
    pub head: usize,
    /// Position of the query.
    pub query: usize,
    /// Number of keys that the query sees: those from the first on.
    pub visible: usize,
    /// The scores of the visible keys, empty if the rule asks for [none](RuleScores::None).
    pub scores: &'a [f32],
    /// Token ids of the sequence.
    pub tokens: &'a [usize],
    /// The positions that the answer to the question at this query has to be looked up from, or that the label of the sequence depends on,
    /// ascending; none if nothing is known about the query.
    pub relevant: Option<&'a [u32]>,
}

impl<'a> Row<'a> {
    /// The only query of the first layer, with these scores: for tests of rules, and to see how many keys a rule keeps.
    pub fn of_scores(scores: &'a [f32]) -> Self {
        let (draw, fixed_key) = (Key::new(0), Key::new(0));
        Row { draw, fixed_key, layer: 0, head: 0, query: 0, visible: scores.len(), scores, tokens: &[], relevant: None }
    }
}

/// The keys that each query of a sequence keeps.
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

    /// The pattern without the keys that a query does not see. A query that would keep none keeps itself.
    pub fn visible(&self, visibility: Visibility) -> Self {
        KeptKeys::from_rows(self.length(), |query| {
            let visible = visibility.keys(query, self.length());
            let mut keys: Vec<usize> =
                self.row(query).iter().map(|&key| key as usize).take_while(|&key| key < visible).collect();
            if keys.is_empty() {
                keys.push(query);
            }
            keys
        })
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

/// Panics unless `kept` is a legal answer for a query that sees `visible` keys: the kernels index with it.
pub(crate) fn assert_valid_row(kept: &[u32], visible: usize, query: usize) {
    let legal =
        kept.last().is_some_and(|&last| (last as usize) < visible) && kept.windows(2).all(|pair| pair[0] < pair[1]);
    assert!(
        legal,
        "query {query}, which sees {visible} keys, keeps {kept:?}: expected at least one key, ascending, below {visible}"
    );
}
