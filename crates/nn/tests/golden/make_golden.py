#!/usr/bin/env python3
"""Independent reference for the semfocus model: writes or checks `golden.safetensors`.

The model is written here a second time, in PyTorch and as plainly as possible, so that the Rust
tests can compare logits, loss and every gradient with values that share no code with them.

    python make_golden.py            # write golden.safetensors beside this script
    python make_golden.py --check    # recompute and compare with the committed file

Needs torch, numpy and safetensors (tested with torch 2.15.0, numpy 2.4.6, safetensors 0.8.0).

Contents, per case: `<case>/tokens` and `<case>/labels` (int32), `<case>/param/<name>`,
`<case>/logits`, `<case>/loss` and `<case>/grad/<name>` (float32). The file's metadata maps each
case name to a JSON object with its shape and mechanism. Weights are stored [in, out].

Everything is computed in float64 from float32 parameters and rounded to float32 once, at the end,
so the stored values are right to the last float32 digit. Two notes for whoever reads them:

* A key bias adds the same amount to all scores of a query, which softmax ignores. Its true gradient
  is zero and only rounding noise is stored: compare it with an absolute tolerance.
* Selections (top-k) and kinks (ReLU) are discontinuous. The script asserts that no score and no
  ReLU input lies close to a switch, so a float32 implementation selects the same keys.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors import safe_open
from torch import Tensor

FIXTURE = Path(__file__).with_name("golden.safetensors")
SMALLEST_SELECTION_GAP = 1e-3
SMALLEST_RELU_DISTANCE = 1e-4
LAYER_NORM_EPSILON = 1e-5

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "mish": F.mish}

Parameters = dict[str, Tensor]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Shape:
    """Everything a reader needs to build the model of a case; stored as its metadata."""

    mechanism: str
    vocabulary: int = 3
    classes: int = 2
    d_model: int = 16
    d_head: int = 16
    heads: int = 1
    blocks: int = 2
    d_mlp: int = 24  # unlike d_model, so that a transposed matrix cannot go unnoticed
    activation: str = "relu"
    inverse_temperature: float = 1.0


@dataclass(frozen=True)
class Case:
    name: str
    seed: int
    shape: Shape
    batch: int = 3
    length: int = 13  # no multiple of the mask size: the last block is short


# The seeds are the first ones that keep clear of the switches asserted below.
CASES = [
    Case("full", 1, Shape("full")),
    Case("banded5", 5, Shape("banded:5")),
    Case("block5", 1, Shape("block:5")),
    Case("topk5", 1, Shape("topk:5", vocabulary=7, classes=4)),
    Case("topk3_two_wide_heads_gelu", 3, Shape("topk:3", heads=2, activation="gelu")),
    Case(
        "full_four_narrow_heads_mish",
        1,
        Shape("full", heads=4, d_head=4, activation="mish", inverse_temperature=1.7),
    ),
    Case("banded5_global1", 1, Shape("banded:5+g1")),
    Case("block5_global3", 1, Shape("block:5+g3", classes=5)),
    Case("bottomk3", 6, Shape("bottomk:3")),
]


# --- Mechanisms -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mechanism:
    kind: str
    size: int
    global_tokens: int


def parse_mechanism(text: str) -> Mechanism:
    match = re.fullmatch(r"(full|banded|block|topk|bottomk)(?::(\d+))?(?:\+g(\d+))?", text)
    if match is None:
        raise ValueError(f"unknown mechanism {text!r}")
    kind, size, global_tokens = match.groups()
    return Mechanism(kind, int(size or 0), int(global_tokens or 0))


def keeps_fixed_key(mechanism: Mechanism, query: int, key: int, length: int) -> bool:
    """Whether an input-agnostic mechanism lets `query` see `key`; `length` counts user tokens."""
    if query >= length or key >= length:  # a global token sees all and is seen by all
        return True
    size = mechanism.size
    if mechanism.kind == "full" or size >= length:
        return True
    if mechanism.kind == "block":
        return query // size == key // size
    first = min(max(query - (size - 1) // 2, 0), length - size)
    return first <= key < first + size


def fixed_mask(mechanism: Mechanism, length: int) -> Tensor:
    total = length + mechanism.global_tokens
    rows = [
        [keeps_fixed_key(mechanism, query, key, length) for key in range(total)]
        for query in range(total)
    ]
    return torch.tensor(rows)


def selected_mask(scores: Tensor, count: int, highest: bool) -> Tensor:
    """Mask of the `count` highest or lowest scores of each row; ties go to the lower index."""
    order = torch.sort(scores, dim=-1, descending=highest, stable=True)
    if count < scores.shape[-1]:
        gaps = (order.values[..., count - 1] - order.values[..., count]).abs()
        assert gaps.min() > SMALLEST_SELECTION_GAP, f"selection gap {gaps.min():.1e}: change seed"
    mask = torch.zeros_like(scores, dtype=torch.bool)
    return mask.scatter(-1, order.indices[..., :count], True)


def kept_keys(mechanism: Mechanism, scores: Tensor) -> Tensor:
    if mechanism.kind in ("topk", "bottomk"):
        assert mechanism.global_tokens == 0, "no case combines a selection with global tokens"
        return selected_mask(scores.detach(), mechanism.size, mechanism.kind == "topk")
    return fixed_mask(mechanism, scores.shape[-1] - mechanism.global_tokens)


# --- Model ----------------------------------------------------------------------------------------


def linear(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    return x @ parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def normalise(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + LAYER_NORM_EPSILON)


def sinusoidal_positions(length: int, width: int) -> Tensor:
    table = torch.zeros(length, width, dtype=torch.float64)
    for position in range(length):
        for feature in range(width):
            pair_start = feature - feature % 2
            angle = position / 10000 ** (pair_start / width)
            table[position, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


def attend(q: Tensor, k: Tensor, v: Tensor, shape: Shape) -> Tensor:
    """One head: [batch, length, d_head] each."""
    scores = shape.inverse_temperature * (q @ k.transpose(-1, -2)) / math.sqrt(shape.d_head)
    mask = kept_keys(parse_mechanism(shape.mechanism), scores)
    weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
    return weights @ v


def attention(x: Tensor, parameters: Parameters, name: str, shape: Shape) -> Tensor:
    q, k, v = (linear(x, parameters, f"{name}.{part}") for part in ("query", "key", "value"))
    columns = [slice(h * shape.d_head, (h + 1) * shape.d_head) for h in range(shape.heads)]
    heads = [attend(q[..., c], k[..., c], v[..., c], shape) for c in columns]
    return linear(torch.cat(heads, dim=-1), parameters, f"{name}.output")


def mlp(x: Tensor, parameters: Parameters, name: str, shape: Shape) -> Tensor:
    hidden = linear(x, parameters, f"{name}.hidden")
    if shape.activation == "relu":
        distance = hidden.detach().abs().min()
        assert distance > SMALLEST_RELU_DISTANCE, f"ReLU input {distance:.1e}: change seed"
    return linear(ACTIVATIONS[shape.activation](hidden), parameters, f"{name}.output")


def append_global_tokens(tokens: Tensor, shape: Shape) -> Tensor:
    count = parse_mechanism(shape.mechanism).global_tokens
    extra = torch.arange(shape.vocabulary, shape.vocabulary + count)
    return torch.cat([tokens, extra.expand(tokens.shape[0], count)], dim=1)


def logits_of(tokens: Tensor, parameters: Parameters, shape: Shape) -> Tensor:
    tokens = append_global_tokens(tokens, shape)
    x = parameters["embedding"][tokens] * math.sqrt(shape.d_model)
    x = x + sinusoidal_positions(tokens.shape[1], shape.d_model)
    for block in range(shape.blocks):
        x = x + attention(normalise(x), parameters, f"blocks.{block}.attention", shape)
        x = x + mlp(normalise(x), parameters, f"blocks.{block}.mlp", shape)
    return linear(x.mean(dim=1), parameters, "classifier")


# --- Cases ----------------------------------------------------------------------------------------


def uniform(random: np.random.Generator, bound: float, *size: int) -> Tensor:
    # Through float32, so that the stored parameters are exactly the ones computed with.
    return torch.from_numpy(random.uniform(-bound, bound, size).astype(np.float32)).double()


def initial_parameters(shape: Shape, random: np.random.Generator) -> Parameters:
    global_tokens = parse_mechanism(shape.mechanism).global_tokens
    rows, d, m = shape.vocabulary + global_tokens, shape.d_model, shape.d_mlp
    all_heads = shape.heads * shape.d_head
    parameters = {"embedding": uniform(random, 0.1, rows, d)}

    def add_linear(name: str, inputs: int, outputs: int, scale: float = 1.0) -> None:
        bound = scale / math.sqrt(inputs)
        parameters[f"{name}.weight"] = uniform(random, bound, inputs, outputs)
        parameters[f"{name}.bias"] = uniform(random, bound, outputs)

    for block in range(shape.blocks):
        prefix = f"blocks.{block}"
        # Larger than at a real start: with spread scores the mechanisms really differ.
        add_linear(f"{prefix}.attention.query", d, all_heads, scale=2.5)
        add_linear(f"{prefix}.attention.key", d, all_heads, scale=2.5)
        add_linear(f"{prefix}.attention.value", d, all_heads)
        add_linear(f"{prefix}.attention.output", all_heads, d)
        add_linear(f"{prefix}.mlp.hidden", d, m)
        add_linear(f"{prefix}.mlp.output", m, d)
    parameters["classifier.weight"] = uniform(random, 0.1, d, shape.classes)
    # A real start has zeros here; with zeros a forgotten bias would not show in the logits.
    parameters["classifier.bias"] = uniform(random, 0.1, shape.classes)
    return parameters


def single(value: Tensor) -> np.ndarray:
    return value.detach().numpy().astype(np.float32)


def compute(case: Case) -> Arrays:
    random = np.random.default_rng(case.seed)
    shape = case.shape
    tokens = random.integers(0, shape.vocabulary, (case.batch, case.length))
    labels = random.integers(0, shape.classes, case.batch)
    parameters = initial_parameters(shape, random)
    for value in parameters.values():
        value.requires_grad_()

    logits = logits_of(torch.from_numpy(tokens), parameters, shape)
    loss = F.cross_entropy(logits, torch.from_numpy(labels))
    loss.backward()

    arrays = {
        "tokens": tokens.astype(np.int32),
        "labels": labels.astype(np.int32),
        "logits": single(logits),
        "loss": single(loss.reshape(1)),
    }
    for name, value in parameters.items():
        arrays[f"param/{name}"] = single(value)
        arrays[f"grad/{name}"] = single(value.grad)
    return {f"{case.name}/{key}": array for key, array in arrays.items()}


def compute_all() -> Arrays:
    return {key: array for case in CASES for key, array in compute(case).items()}


def metadata() -> dict[str, str]:
    return {case.name: json.dumps(asdict(case.shape)) for case in CASES}


def serialise(arrays: Arrays) -> bytes:
    """The safetensors format, by hand: the library's writer orders the metadata at random, and a
    committed file should come out the same every time."""
    header: dict[str, object] = {"__metadata__": metadata()}
    data = b""
    for key, array in sorted(arrays.items()):
        start, data = len(data), data + array.tobytes()
        dtype = {"int32": "I32", "float32": "F32"}[array.dtype.name]
        header[key] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [start, len(data)],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants the data aligned
    return len(text).to_bytes(8, "little") + text + data


def write() -> None:
    FIXTURE.write_bytes(serialise(compute_all()))
    print(f"wrote {FIXTURE.name}: {len(CASES)} cases, {FIXTURE.stat().st_size} bytes")


def differences() -> list[str]:
    expected = compute_all()
    with safe_open(FIXTURE, framework="numpy") as stored:
        if stored.metadata() != metadata():
            return ["metadata differ"]
        if set(stored.keys()) != set(expected):
            return ["tensor names differ"]
        found = {key: stored.get_tensor(key) for key in expected}
    return [
        f"{key} differs"
        for key, array in expected.items()
        # The absolute tolerance is for gradients that are zero but for rounding.
        if found[key].dtype != array.dtype
        or found[key].shape != array.shape
        or not np.allclose(found[key], array, rtol=1e-6, atol=1e-12)
    ]


def check() -> int:
    problems = differences()
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{FIXTURE.name} agrees: {len(CASES)} cases")
    return 1 if problems else 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Write or check the golden values of the model.")
    parser.add_argument("--check", action="store_true", help="compare with the committed file")
    if parser.parse_args().check:
        return check()
    write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
