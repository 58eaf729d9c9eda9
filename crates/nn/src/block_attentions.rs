//! The attention of a whole model: the same in all blocks, or one for each.

use std::fmt;

use semfocus_core::{ConfigError, ModelConfig, Visibility};

use crate::mechanism::MechanismParameter;
use crate::registry::Attention;

/// The attention of the blocks of a model, ready for use: one for all of them, or one for each.
#[derive(Clone, Debug)]
pub struct BlockAttentions(Vec<Attention>);

impl From<Attention> for BlockAttentions {
    /// The same attention in all blocks.
    fn from(attention: Attention) -> Self {
        BlockAttentions(vec![attention])
    }
}

impl BlockAttentions {
    /// One attention for all blocks, or one for each.
    ///
    /// # Errors
    /// If they have different numbers of global tokens.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(attentions: Vec<Attention>) -> Result<Self, ConfigError> {
        let first = attentions.first().expect("there is at least one attention").spec.globals;
        match attentions.iter().map(|attention| attention.spec.globals).find(|globals| *globals != first) {
            Some(other) => Err(ConfigError::OtherGlobals(first, other)),
            None => Ok(BlockAttentions(attentions)),
        }
    }

    /// What is written: one for all blocks, or one for each.
    pub fn attentions(&self) -> &[Attention] {
        &self.0
    }

    /// The attention of a block.
    ///
    /// # Panics
    /// If there are several, and none for this block.
    pub fn of_block(&self, block: usize) -> &Attention {
        if let [single] = self.0.as_slice() { single } else { &self.0[block] }
    }

    /// What `value` returns for each of a number of blocks; it is called once for blocks that share an attention.
    pub(crate) fn for_blocks<T: Clone>(&self, blocks: usize, value: impl Fn(&Attention) -> T) -> Vec<T> {
        match self.0.as_slice() {
            [single] if blocks > 0 => vec![value(single); blocks],
            several => several.iter().take(blocks).map(value).collect(),
        }
    }

    /// Number of global tokens, which all blocks share.
    pub fn globals(&self) -> usize {
        self.0[0].spec.globals
    }

    /// The size that is written after the colon in all blocks that have one; the first if they differ.
    pub(crate) fn size(&self) -> Option<usize> {
        self.0.iter().find_map(|attention| attention.spec.size())
    }

    /// Whether a model with such settings can have it.
    pub fn check(&self, config: &ModelConfig) -> Result<(), ConfigError> {
        if self.0.len() > 1 && self.0.len() != config.blocks {
            return Err(ConfigError::Blocks { text: self.to_string(), given: self.0.len(), blocks: config.blocks });
        }
        if config.visibility == Visibility::Causal && self.globals() > 0 {
            return Err(ConfigError::CausalGlobals);
        }
        if config.quirks.pad_to_mask_multiple {
            let mut sizes = self.0.iter().filter_map(|attention| attention.spec.size());
            let first = sizes.next();
            if let (Some(first), Some(other)) = (first, sizes.find(|size| Some(*size) != first)) {
                return Err(ConfigError::OtherSizes(first, other));
            }
        }
        Ok(())
    }

    /// Whether the mechanisms of a block here and in `other` learn scalars of the same names.
    pub fn shares_head_scalars(&self, other: &BlockAttentions, block: usize) -> bool {
        let names = |attention: &Attention| {
            attention.mechanism.parameters().iter().map(|MechanismParameter { name, .. }| *name)
        };
        names(self.of_block(block)).eq(names(other.of_block(block)))
    }
}

impl fmt::Display for BlockAttentions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, attention) in self.0.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { "/" }, attention.spec)?;
        }
        Ok(())
    }
}
