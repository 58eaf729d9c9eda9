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

/// Learned scale and shift of a norm: normalised values times `scale` plus `shift`.
#[derive(Module, Debug)]
pub struct Norm {
    /// `[d_model]`, 1 at first.
    pub scale: Param<Tensor<1>>,
    /// `[d_model]`, 0 at first.
    pub shift: Param<Tensor<1>>,
}

impl Norm {
    /// Scales and shifts normalised rows of `d_model` values.
    pub fn apply<const D: usize>(&self, normed: Tensor<D>) -> Tensor<D> {
        normed.mul(self.scale.val().unsqueeze()).add(self.shift.val().unsqueeze())
    }
}

/// Weight and bias of a linear map: parameters, or what follows from them.
#[derive(Clone, Debug)]
pub struct LinearTensors {
    /// `[inputs, outputs]`.
    pub weight: Tensor<2>,
    /// `[outputs]`.
    pub bias: Tensor<1>,
}

impl LinearTensors {
    /// `x W + b` for every row of `x`, `[rows, inputs]`.
    pub fn forward_rows(&self, x: Tensor<2>) -> Tensor<2> {
        x.matmul(self.weight.clone()).add(self.bias.clone().unsqueeze())
    }

    /// The map of normalised rows that gives the same as this one of the rows that a norm scales by `s` and shifts by `t`:
    /// `(y ⊙ s + t) W + b = y (diag(s) W) + (t W + b)`.
    pub(crate) fn folded(self, scale: Tensor<1>, shift: Tensor<1>) -> Self {
        let LinearTensors { weight, bias } = self;
        let shifted: Tensor<2> = shift.unsqueeze::<2>().matmul(weight.clone()); // [1, outputs]
        LinearTensors { weight: weight.mul(scale.unsqueeze_dim(1)), bias: bias.add(shifted.squeeze_dim(0)) }
    }
}

/// The map to the logits.
#[derive(Module, Debug)]
pub struct Classifier {
    /// `[d_model, classes]`; none if the weights are those of the embedding.
    pub weight: Option<Param<Tensor<2>>>,
    /// `[classes]`.
    pub bias: Param<Tensor<1>>,
}

/// What a model does with the rows that its questions ask at.
#[derive(Clone, Debug)]
pub struct HeadLayer<'a> {
    /// The map to the logits.
    pub map: LinearTensors,
    /// Whether rows are normalised before.
    pub normalises: bool,
    /// Scale and shift of the norm, if it has them.
    pub norm: Option<&'a Norm>,
}

impl Linear {
    /// The values of the parameters.
    pub fn tensors(&self) -> LinearTensors {
        LinearTensors { weight: self.weight.val(), bias: self.bias.val() }
    }

    /// `x W + b` for every token of `x`, `[batch, length, inputs]`.
    pub fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let [batch, length, inputs] = x.dims();
        self.forward_rows(x.reshape([batch * length, inputs])).reshape([batch as i64, length as i64, -1])
    }

    /// `x W + b` for every row of `x`, `[rows, inputs]`.
    pub fn forward_rows(&self, x: Tensor<2>) -> Tensor<2> {
        self.tensors().forward_rows(x)
    }
}

/// Parameters of an attention sublayer. Head `h` has the columns from `h · d_head` of queries, keys and values.
#[derive(Module, Debug)]
pub struct AttentionWeights {
    /// Scale and shift of the norm before it, if it has them.
    pub norm: Option<Norm>,
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
#[derive(Clone, Debug)]
pub struct Maps<'a> {
    /// `[vocabulary + global tokens, d_model]`.
    pub embedding: &'a Param<Tensor<2>>,
    /// The blocks, first to last.
    pub blocks: &'a [Block],
    /// The map to the logits.
    pub classifier: LinearTensors,
}

/// Parameters of an MLP sublayer.
#[derive(Module, Debug)]
pub struct MlpWeights {
    /// Scale and shift of the norm before it, if it has them.
    pub norm: Option<Norm>,
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
    /// The second sublayer, if there is one.
    pub mlp: Option<MlpWeights>,
}
