#!/usr/bin/env python3
"""JAX: training and evaluation steps compiled as a whole by XLA for the CPU."""

from __future__ import annotations

import math
from typing import Any

from common import Examples, Mechanism, Numbers, Peer, Shape, Training, rows_of_places, sinusoids


def environment(instructions: str | None, threads: int) -> dict[str, str]:
    variables = {"JAX_PLATFORMS": "cpu", "PJRT_NPROC": str(threads)}
    if instructions == "avx512":
        variables["XLA_FLAGS"] = "--xla_cpu_max_isa=AVX512"
    if instructions == "avx2":
        # The first flag is for the code that XLA generates. Matrix products come from YNNPACK,
        # which cannot be limited and is switched off, or else from oneDNN.
        flags = "--xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type="
        variables |= {"XLA_FLAGS": flags, "ONEDNN_MAX_CPU_ISA": "AVX2"}
    return variables


PEER = Peer(
    requirements=["jax", "numpy"],
    variants={"jax": ["full", "topk", "banded", "block"], "jax-gather": ["topk", "banded"]},
    environment=environment,
)
ARGUMENTS = PEER.start()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax import Array as Tensor  # noqa: E402


class Network:
    """The function of parameters and tokens. `key` is None where there is no dropout."""

    def __init__(self, variant: str, mechanism: Mechanism, shape: Shape, dropout: float) -> None:
        self.gather = variant == "jax-gather"
        self.shape, self.dropout = shape, dropout
        self.kept = min(mechanism.size, shape.length) if mechanism.kind == "topk" else None
        self.positions = None if shape.is_decoder else jnp.array(sinusoids(shape))
        self.factor = 1 if shape.is_decoder else math.sqrt(shape.width)
        mask = mechanism.mask(shape.length)
        self.mask = None if mask is None else jnp.array(mask)
        if shape.is_decoder:  # the first queries keep fewer keys, which rules out `gather`
            seen, self.gather = jnp.tri(shape.length, dtype=bool), False
            self.mask = seen if mask is None else self.mask & seen
        if self.gather and mask:
            self.kept_indices = jnp.nonzero(self.mask)[1].reshape(shape.length, -1)

    def logits(
        self, parameters: dict[str, Tensor], tokens: Tensor, asked: Tensor, key: Tensor | None
    ) -> Tensor:
        """`asked` are the places that are asked about, of all tokens in a row; empty for all, or for their mean."""
        sites = 1 + 4 * self.shape.blocks
        keys = iter([None] * sites if key is None else jax.random.split(key, sites))

        def norm(name: str, x: Tensor) -> Tensor:
            x = normalise(x)
            if not self.shape.is_decoder:
                return x
            return x * parameters[f"{name}.scale"] + parameters[f"{name}.shift"]

        def linear(name: str, x: Tensor) -> Tensor:
            return x @ parameters[f"{name}.weight"] + parameters[f"{name}.bias"]

        def drop(x: Tensor) -> Tensor:
            key = next(keys)
            if key is None or self.dropout == 0.0:
                return x
            kept = jax.random.bernoulli(key, 1 - self.dropout, x.shape)
            return jnp.where(kept, x / (1 - self.dropout), 0)

        def attention(name: str, x: Tensor) -> Tensor:
            q, k, v = (linear(f"{name}.{part}", x) for part in ("query", "key", "value"))
            attend = self.attend_to_kept if self.gather else self.attend_to_all
            return linear(f"{name}.output", attend(q, k, v, drop))

        positions = parameters["positions"] if self.positions is None else self.positions
        x = drop(parameters["embedding"][tokens] * self.factor + positions)
        for block in (f"blocks.{i}" for i in range(self.shape.blocks)):
            x = x + drop(attention(f"{block}.attention", norm(f"{block}.attention.norm", x)))
            if self.shape.hidden:
                hidden = drop(linear(f"{block}.mlp.hidden", norm(f"{block}.mlp.norm", x)))
                x = x + drop(linear(f"{block}.mlp.output", jax.nn.relu(hidden)))
        if not self.shape.questions:
            return linear("classifier", x.mean(axis=1))
        x = x.reshape(-1, x.shape[-1])
        if not self.shape.is_decoder:
            return linear("classifier", x)
        x = norm("norm", x[asked])
        return x @ parameters["embedding"].T + parameters["classifier.bias"]

    def attend_to_all(self, q: Tensor, k: Tensor, v: Tensor, drop: Any) -> Tensor:
        scores = q @ k.mT / math.sqrt(self.shape.width)  # [batch, queries, keys]
        mask = self.mask
        if self.kept:
            # A threshold, the last of the best scores, would make XLA sort all of them.
            seen = scores if mask is None else jnp.where(mask, scores, -jnp.inf)
            _, indices = jax.lax.top_k(jax.lax.stop_gradient(seen), self.kept)
            kept = jax.nn.one_hot(indices, self.shape.length, dtype=bool).any(axis=-2)
            mask = kept if mask is None else kept & mask
        if mask is not None:
            scores = jnp.where(mask, scores, -jnp.inf)
        return drop(jax.nn.softmax(scores)) @ v

    def attend_to_kept(self, q: Tensor, k: Tensor, v: Tensor, drop: Any) -> Tensor:
        if self.kept:
            scores, indices = jax.lax.top_k(q @ k.mT / math.sqrt(self.shape.width), self.kept)
        else:
            indices = jnp.broadcast_to(self.kept_indices, (len(q), *self.kept_indices.shape))
            scores = jnp.einsum("bqd,bqjd->bqj", q, rows(k, indices)) / math.sqrt(self.shape.width)
        weights = drop(jax.nn.softmax(scores))  # [batch, queries, kept]
        return jnp.einsum("bqj,bqjd->bqd", weights, rows(v, indices))


def rows(x: Tensor, indices: Tensor) -> Tensor:
    return jax.vmap(lambda x, indices: x[indices])(x, indices)


def normalise(x: Tensor) -> Tensor:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)


def losses(logits: Tensor, labels: Tensor) -> Tensor:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1)


Batch = tuple[Tensor, Tensor, Tensor]  # tokens, places that are asked about, labels


class Model:
    def __init__(
        self, variant: str, mechanism: Mechanism, shape: Shape, numbers: Numbers, training: Training
    ) -> None:
        network = Network(variant, mechanism, shape, training.dropout)
        self.values = as_tensors(numbers)
        self.key = jax.random.key(1)

        def loss(parameters, key, tokens, asked, labels):
            return losses(network.logits(parameters, tokens, asked, key), labels).mean()

        def train(parameters, key, tokens, asked, labels):
            key, used = jax.random.split(key)
            gradients = jax.grad(loss)(parameters, used, tokens, asked, labels)
            norm = jnp.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
            rate = training.learning_rate * jnp.minimum(1, training.clip_norm / (norm + 1e-6))
            return {name: w - rate * gradients[name] for name, w in parameters.items()}, key

        def forward(parameters, tokens, asked):
            return network.logits(parameters, tokens, asked, None)

        def score(parameters, tokens, asked, labels):
            logits = forward(parameters, tokens, asked)
            return losses(logits, labels).sum(), (logits.argmax(-1) == labels).sum()

        def move(centre, first, second, x, y):
            return {name: w + x * first[name] + y * second[name] for name, w in centre.items()}

        self.train_step = jax.jit(train, donate_argnums=(0, 1))
        self.forward = jax.jit(forward)
        self.scores = jax.jit(score)
        self.moved = jax.jit(move)

    def batch(self, examples: Examples) -> Batch:
        asked = jnp.array(rows_of_places(examples), dtype=int)
        return jnp.array(examples.tokens), asked, jnp.array(examples.labels).ravel()

    def train(self, batch: Batch) -> None:
        self.values, self.key = self.train_step(self.values, self.key, *batch)
        jax.block_until_ready(self.values)

    def evaluate(self, batch: Batch) -> None:
        self.forward(self.values, *batch[:2]).block_until_ready()

    def score(self, batch: Batch) -> tuple[float, int]:
        loss, correct = self.scores(self.values, *batch)
        return loss.item(), correct.item()

    def parameters(self) -> dict[str, list[float]]:
        return {name: tensor.ravel().tolist() for name, tensor in self.values.items()}

    def set_directions(self, first: Numbers, second: Numbers) -> None:
        self.plane = self.values, as_tensors(first), as_tensors(second)

    def move(self, x: float, y: float) -> None:
        self.values = jax.block_until_ready(self.moved(*self.plane, x, y))


def as_tensors(numbers: Numbers) -> dict[str, Tensor]:
    return {name: jnp.array(array.values).reshape(array.shape) for name, array in numbers.items()}


def uses() -> dict[str, Any]:
    """What a small program was compiled for."""
    square = jnp.ones((64, 64))
    program = jax.jit(jnp.matmul).lower(square, square).compile()
    features = program.runtime_executable().serialize()
    return {
        "jax": jax.__version__,
        "XLA": "AVX512" if b"+avx512f" in features else "AVX2" if b"+avx2" in features else "other",
        "YNNPACK": "ynn" in program.as_text(),
    }


if __name__ == "__main__":
    PEER.run(ARGUMENTS, Model, uses)
