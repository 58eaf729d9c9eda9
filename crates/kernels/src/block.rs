//! A block of an encoder with its maps packed, and buffers that blocks share.

use crate::attention::{AttentionKernel, Maps};
use crate::mlp::{MlpKernel, PackedMlp};

/// The sublayers of a block, packed for the forward pass.
pub(crate) struct Block<'a> {
    pub(crate) attention: AttentionKernel<'a>,
    pub(crate) maps: Maps,
    pub(crate) initial_maps: Option<Maps>,
    /// None for a block of attention alone.
    pub(crate) mlp: Option<(MlpKernel<'a>, PackedMlp)>,
}

impl<'a> Block<'a> {
    /// Packs the maps for a batch of `rows` tokens.
    pub(crate) fn new((attention, mlp): (AttentionKernel<'a>, Option<MlpKernel<'a>>), rows: usize) -> Self {
        let (maps, initial_maps) = (attention.maps(rows), attention.initial_maps());
        Block { attention, maps, initial_maps, mlp: mlp.map(|mlp| (mlp, mlp.pack())) }
    }
}

/// Buffers for one sequence. Blocks share them if their maps have the same form, which decides the sizes.
pub(crate) struct ByForm<T> {
    plain: Option<T>,
    folded: Option<T>,
}

impl<T> Default for ByForm<T> {
    fn default() -> Self {
        ByForm { plain: None, folded: None }
    }
}

impl<T> ByForm<T> {
    /// The buffers of a block, made by `new` for the first one of its form.
    pub(crate) fn get(&mut self, block: &Block, new: impl FnOnce(&Block) -> T) -> &mut T {
        let buffers = if block.maps.folded { &mut self.folded } else { &mut self.plain };
        buffers.get_or_insert_with(|| new(block))
    }
}
