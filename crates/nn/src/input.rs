//! What a forward pass takes in addition to the parameters: tokens, what is known about them, and the random decisions.

use std::sync::Arc;

use semfocus_kernels::{Key, RelevantKeys};

use crate::streams::{self, Stream};

/// Child of a pass's key: dropout of the embedding, row = `sequence · length + token`.
const EMBEDDING: u64 = 0;
/// Child of a pass's key: the first layer; the other layers follow.
const FIRST_LAYER: u64 = 1;
/// Child of the key of all random decisions: the fixed keys of the layers. The passes are the children 0 and 1.
const FIXED_KEYS: u64 = 2;

/// Everything except the tokens that determines a forward pass: its random decisions, and whether it trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Key of all random decisions of the pass: dropout, and the keys that random mechanisms keep.
    pub key: Key,
    /// Whether dropout is on.
    pub training: bool,
}

impl Pass {
    /// Step number `step` of a training run.
    pub fn training(seed: u64, step: u64) -> Self {
        Pass { key: streams::key(seed, Stream::Dropout).child(0).child(step), training: true }
    }

    /// Evaluation pass number `step`. It needs a key too: for random mechanisms and dropout during evaluation.
    pub fn evaluation(seed: u64, step: u64) -> Self {
        Pass { key: streams::key(seed, Stream::Dropout).child(1).child(step), training: false }
    }

    /// The key of a layer of this pass.
    pub fn layer(&self, layer: usize) -> Key {
        self.key.child(FIRST_LAYER + layer as u64)
    }

    /// The key of the dropout of the embedding.
    pub(crate) fn embedding(&self) -> Key {
        self.key.child(EMBEDDING)
    }

    /// The pass of a further batch of the same evaluation. The first has the key of the pass, the others have keys far from those
    /// of the layers.
    pub(crate) fn of_batch(self, number: u64) -> Self {
        let key = if number == 0 { self.key } else { self.key.child(u64::MAX - number) };
        Pass { key, ..self }
    }
}

/// The key of a layer that stays the same in all passes.
pub(crate) fn fixed_key(seed: u64, layer: usize) -> Key {
    streams::key(seed, Stream::Dropout).child(FIXED_KEYS).child(layer as u64)
}

/// Finds the positions of a sequence that its label, or the answer to each of its questions, depends on.
pub trait Relevance: Send + Sync + std::fmt::Debug {
    /// The relevant keys of each query.
    fn keys(&self, tokens: &[usize]) -> Arc<RelevantKeys>;
}

/// Sequences of token ids as the model sees them, padding and global tokens included.
#[derive(Clone, Debug)]
pub struct TokenRows {
    pub(crate) ids: Arc<[usize]>,
    /// The relevant keys of every sequence, if the mechanism asks for them.
    pub(crate) relevant: Arc<[Arc<RelevantKeys>]>,
    pub(crate) sequences: usize,
    pub(crate) length: usize,
}

impl TokenRows {
    /// Sequences of which nothing is known but their number and length.
    pub(crate) fn unknown(sequences: usize, length: usize) -> Self {
        TokenRows { ids: Arc::new([]), relevant: Arc::new([]), sequences, length }
    }

    /// The same sequences, `size` at a time.
    pub(crate) fn batches(&self, size: usize) -> impl Iterator<Item = TokenRows> {
        self.ids.chunks(size * self.length).enumerate().map(move |(number, ids)| {
            let (first, sequences) = (number * size, ids.len() / self.length);
            let relevant = self.relevant.get(first..first + sequences).unwrap_or(&[]).into();
            TokenRows { ids: ids.into(), relevant, sequences, length: self.length }
        })
    }
}
