//! The parameters of a model: what training changes. Their paths, such as `blocks.0.attention.query.weight`, are their names.

use burn::module::{Module, Param};
use burn::tensor::Tensor;

/// `x W + b`.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[inputs, outputs]`.
    pub weight: Param<Tensor<2>>,
    /// `[outputs]`.
    pub bias: Param<Tensor<1>>,
}

impl Linear {
    /// `x W + b` for every token of `x`, `[batch, length, inputs]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, inputs] = x.dims();
        self.forward_rows(x.reshape([batch * length, inputs])).reshape([batch as i64, length as i64, -1])
    }

    /// `x W + b` for every row of `x`, `[rows, inputs]`.
    pub fn forward_rows(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.val()).add(self.bias.val().unsqueeze())
    }
}

/// Parameters of an attention sublayer. Head `h` has the columns from `h · d_head` of queries, keys and values.
#[derive(Module, Debug)]
pub struct AttentionWeights {
    /// Map to the queries, `d_model` → `heads · d_head`.
    pub query: Linear,
    /// Map to the keys, `d_model` → `heads · d_head`.
    pub key: Linear,
    /// Map to the values, `d_model` → `heads · d_head`.
    pub value: Linear,
    /// Map from all heads back to the width of the model.
    pub output: Linear,
    /// Parameters of the mechanism, `[heads, parameters]`, if it has any.
    pub mechanism: Option<Param<Tensor<2>>>,
}

impl AttentionWeights {
    /// The parameters of the mechanism, `[heads, parameters]`, if it has any.
    pub(crate) fn learned(&self) -> Option<Tensor<2>> {
        self.mechanism.as_ref().map(|parameters| parameters.val())
    }
}

/// The linear maps of a model, and its embedding.
#[derive(Clone, Copy, Debug)]
pub struct Maps<'a> {
    /// `[vocabulary + global tokens, d_model]`.
    pub embedding: &'a Param<Tensor<2>>,
    /// The blocks, first to last.
    pub blocks: &'a [Block],
    /// The head.
    pub classifier: &'a Linear,
}

/// Parameters of an MLP sublayer.
#[derive(Module, Debug)]
pub struct MlpWeights {
    /// Map to the hidden layer, `d_model` → `d_mlp`.
    pub hidden: Linear,
    /// Map back, `d_mlp` → `d_model`.
    pub output: Linear,
}

/// Parameters of a block.
#[derive(Module, Debug)]
pub struct Block {
    /// The first sublayer.
    pub attention: AttentionWeights,
    /// The second sublayer.
    pub mlp: MlpWeights,
}
