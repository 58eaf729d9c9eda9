//! The operators with gradients. The gradients of an operator have the struct of its inputs, so each of them is named.

use std::sync::Arc;

use burn::backend::Flex;
use burn::backend::autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use semfocus_kernels::{AttentionSaved, LinearGradient, MlpSaved};

use super::SublayerOps;
use super::call::{AttentionCall, AttentionInputs, EmbeddingCall, LinearInputs, MlpCall, MlpInputs};
use super::cpu::{Primitive, tensor, values};

impl LinearInputs<Flex> {
    fn gradients(&self, gradient: LinearGradient) -> Self {
        LinearInputs { weight: tensor(gradient.weight, &self.weight), bias: tensor(gradient.bias, &self.bias) }
    }
}

/// Gives the inputs that autodiff tracks their gradients.
fn register<B, const N: usize>(ops: Ops<B, N>, grads: &mut Gradients, gradients: [Primitive; N]) {
    for (parent, gradient) in ops.parents.into_iter().zip(gradients) {
        if let Some(parent) = parent {
            grads.register::<Flex>(parent.id, gradient);
        }
    }
}

#[derive(Debug)]
struct EmbeddingBackward;

impl Backward<Flex, 2> for EmbeddingBackward {
    type State = ([Primitive; 2], EmbeddingCall);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (inputs, call) = &ops.state;
        let (table, positions) = call.kernel(inputs).backward(&call.tokens, values(&gradient));
        let gradients = [tensor(table, &inputs[0]), tensor(positions, &inputs[1])];
        register(ops, grads, gradients);
    }
}

#[derive(Debug)]
struct AttentionBackward;

impl Backward<Flex, 10> for AttentionBackward {
    type State = (AttentionInputs<Flex>, AttentionCall, Arc<AttentionSaved>);

    fn backward(self, ops: Ops<Self::State, 10>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (inputs, call, saved) = &ops.state;
        let result = inputs.kernel(&inputs.scalars(), call).backward(saved, values(&gradient));
        let scalars = result.head_scalars.iter().flat_map(|scalars| [scalars.temperature, scalars.alpha]).collect();
        let gradients = AttentionInputs {
            x: tensor(result.x, &inputs.x),
            head_scalars: tensor(scalars, &inputs.head_scalars),
            query: inputs.query.gradients(result.query),
            key: inputs.key.gradients(result.key),
            value: inputs.value.gradients(result.value),
            output: inputs.output.gradients(result.output),
        };
        register(ops, grads, gradients.leaves());
    }
}

#[derive(Debug)]
struct MlpBackward;

impl Backward<Flex, 5> for MlpBackward {
    type State = (MlpInputs<Flex>, MlpCall, Arc<MlpSaved>);

    fn backward(self, ops: Ops<Self::State, 5>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<Flex>(&ops.node).to_contiguous();
        let (inputs, call, saved) = &ops.state;
        let result = inputs.kernel(call).backward(saved, values(&gradient));
        let gradients = MlpInputs {
            x: tensor(result.x, &inputs.x),
            hidden: inputs.hidden.gradients(result.hidden),
            output: inputs.output.gradients(result.output),
        };
        register(ops, grads, gradients.leaves());
    }
}

impl<C: CheckpointStrategy> SublayerOps for Autodiff<Flex, C> {
    fn embedding(table: FloatTensor<Self>, positions: FloatTensor<Self>, call: EmbeddingCall) -> FloatTensor<Self> {
        let ((table, table_node), (positions, positions_node)) = (table.into_parts(), positions.into_parts());
        match EmbeddingBackward.prepare::<C>([table_node, positions_node]).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let inputs = [table, positions].map(|tensor| tensor.to_contiguous());
                let [table, positions] = inputs.clone();
                let y = Flex::embedding(table, positions, call.clone());
                prep.finish((inputs, call), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::embedding(table, positions, call)),
        }
    }

    fn attention_sublayer(inputs: AttentionInputs<Self>, call: AttentionCall) -> FloatTensor<Self> {
        let nodes = inputs.clone().leaves().map(|leaf| leaf.node());
        let inputs: AttentionInputs<Flex> = inputs.map(|leaf| leaf.into_primitive());
        match AttentionBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let inputs = inputs.contiguous();
                let (y, saved) = inputs.kernel(&inputs.scalars(), &call).forward(values(&inputs.x), true);
                let (y, saved) = (tensor(y, &inputs.x), saved.expect("saving was asked for"));
                prep.finish((inputs, call, Arc::new(saved)), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::attention_sublayer(inputs, call)),
        }
    }

    fn mlp_sublayer(inputs: MlpInputs<Self>, call: MlpCall) -> FloatTensor<Self> {
        let nodes = inputs.clone().leaves().map(|leaf| leaf.node());
        let inputs: MlpInputs<Flex> = inputs.map(|leaf| leaf.into_primitive());
        match MlpBackward.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(prep) => {
                let inputs = inputs.contiguous();
                let (y, saved) = inputs.kernel(&call).forward(values(&inputs.x), true);
                let (y, saved) = (tensor(y, &inputs.x), saved.expect("saving was asked for"));
                prep.finish((inputs, call, Arc::new(saved)), y)
            }
            OpsKind::UnTracked(prep) => prep.finish(Flex::mlp_sublayer(inputs, call)),
        }
    }
}
