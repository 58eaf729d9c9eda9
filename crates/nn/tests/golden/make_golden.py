#!/usr/bin/env python3
"""Independent reference for the semfocus model: writes or checks `golden.safetensors`.

The model is written here a second time, in PyTorch and as plainly as possible, so that the Rust
tests can compare logits, loss and every gradient with values that share no code with them.

    python make_golden.py            # write golden.safetensors beside this script
    python make_golden.py --check    # recompute and compare with the committed file

Needs torch, numpy, safetensors and entmax (tested with torch 2.15.0, numpy 2.4.6, safetensors
0.8.0, entmax 1.3). Sparsemax and 1.5-entmax weights and their gradients come from entmax.

Writing leaves a stored value as it is if it agrees, so new cases do not change old ones: another
machine may round the last digit differently.

Contents, per case: `<case>/tokens` and `<case>/labels` (int32), `<case>/param/<name>`,
`<case>/logits`, `<case>/loss` and `<case>/grad/<name>` (float32). The file's metadata maps each
case name to a JSON object with its shape and mechanism. Weights are stored [in, out].

Everything is computed in float64 from float32 parameters and rounded to float32 once, at the end,
so the stored values are right to the last float32 digit. Two notes for whoever reads them:

* A key bias adds the same amount to all scores of a query, which softmax, sparsemax and entmax
  ignore. Its true gradient is zero and only rounding noise is stored: compare it with an absolute
  tolerance.
* Selections (top-k) and kinks (ReLU, the threshold of sparsemax and entmax) are discontinuous. The
  script asserts that no score and no ReLU input lies close to a switch, so a float32
  implementation selects the same keys and gives weight to the same keys.
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
from entmax import entmax15, sparsemax
from safetensors import safe_open
from torch import Tensor

FIXTURE = Path(__file__).with_name("golden.safetensors")
SMALLEST_SELECTION_GAP = 1e-3
SMALLEST_RELU_DISTANCE = 1e-4
SMALLEST_THRESHOLD_DISTANCE = 1e-3
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
    visibility: str = "all"  # or "causal": a query sees itself and the tokens before it


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
    Case("causal_full", 2, Shape("full", visibility="causal")),
    Case("causal_topk3", 1, Shape("topk:3", heads=2, visibility="causal")),
    Case("causal_banded5", 1, Shape("banded:5", visibility="causal")),
    Case("sparsemax", 2, Shape("sparsemax", classes=3)),
    Case("entmax", 1, Shape("entmax", heads=2, inverse_temperature=1.3)),
    Case("causal_sparsemax", 2, Shape("sparsemax", activation="gelu", visibility="causal")),
]


# --- Mechanisms -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mechanism:
    kind: str
    size: int
    global_tokens: int


def parse_mechanism(text: str) -> Mechanism:
    kinds = "full|banded|block|topk|bottomk|sparsemax|entmax"
    match = re.fullmatch(rf"({kinds})(?::(\d+))?(?:\+g(\d+))?", text)
    if match is None:
        raise ValueError(f"unknown mechanism {text!r}")
    kind, size, global_tokens = match.groups()
    return Mechanism(kind, int(size or 0), int(global_tokens or 0))


def keeps_fixed_key(mechanism: Mechanism, query: int, key: int, length: int) -> bool:
    """Whether an input-agnostic mechanism lets `query` see `key`; `length` counts user tokens."""
    if query >= length or key >= length:  # a global token sees all and is seen by all
        return True
    size = mechanism.size
    if mechanism.kind in ("full", "sparsemax", "entmax") or size >= length:
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


def visible_mask(visibility: str, total: int) -> Tensor:
    """Which keys a query sees before its mechanism chooses among them: [queries, keys]."""
    everything = torch.ones(total, total, dtype=torch.bool)
    return {"all": everything, "causal": everything.tril()}[visibility]


def selected_mask(scores: Tensor, visible: Tensor, count: int, highest: bool) -> Tensor:
    """Mask of the `count` highest or lowest visible scores of each row, or of all if there are
    fewer; ties go to the lower index."""
    hidden_come_last = scores.masked_fill(~visible, -math.inf if highest else math.inf)
    order = torch.sort(hidden_come_last, dim=-1, descending=highest, stable=True)
    chooses = visible.sum(-1) > count  # [queries]
    if chooses.any():
        gaps = (order.values[..., count - 1] - order.values[..., count]).abs()[..., chooses]
        assert gaps.min() > SMALLEST_SELECTION_GAP, f"selection gap {gaps.min():.1e}: change seed"
    mask = torch.zeros_like(scores, dtype=torch.bool)
    return mask.scatter(-1, order.indices[..., :count], True) & visible


def kept_keys(mechanism: Mechanism, visibility: str, scores: Tensor) -> Tensor:
    visible = visible_mask(visibility, scores.shape[-1])
    if mechanism.kind in ("topk", "bottomk"):
        assert mechanism.global_tokens == 0, "no case combines a selection with global tokens"
        highest = mechanism.kind == "topk"
        return selected_mask(scores.detach(), visible, mechanism.size, highest)
    mask = fixed_mask(mechanism, scores.shape[-1] - mechanism.global_tokens) & visible
    assert mask.any(-1).all(), "every query of these cases keeps a key that it sees"
    return mask


def attention_weights(mechanism: Mechanism, scores: Tensor, mask: Tensor) -> Tensor:
    if mechanism.kind not in ("sparsemax", "entmax"):
        return scores.masked_fill(~mask, -math.inf).softmax(-1)
    # Finite, because entmax squares the scores; so far below the threshold that the weight is 0.
    scores = scores.masked_fill(~mask, -1e4)
    alpha, function = {"sparsemax": (2.0, sparsemax), "entmax": (1.5, entmax15)}[mechanism.kind]
    weights = function(scores, dim=-1)
    assert_clear_of_threshold(scores.detach(), weights.detach(), alpha)
    return weights


def assert_clear_of_threshold(scores: Tensor, weights: Tensor, alpha: float) -> None:
    """Weights of alpha-entmax are `max((alpha - 1) score - threshold, 0) ** (1 / (alpha - 1))`."""
    assert (weights.sum(-1) - 1).abs().max() < 1e-12, "the weights of a query sum to 1"
    raised = (alpha - 1) * scores
    # The key with the highest score always has a weight.
    threshold = raised.amax(-1, keepdim=True) - weights.amax(-1, keepdim=True) ** (alpha - 1)
    assert torch.equal(raised > threshold, weights > 0), "the threshold is that of the weights"
    distance = (raised - threshold).abs().min()
    assert distance > SMALLEST_THRESHOLD_DISTANCE, f"threshold at {distance:.1e}: change seed"


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
    mechanism = parse_mechanism(shape.mechanism)
    mask = kept_keys(mechanism, shape.visibility, scores)
    return attention_weights(mechanism, scores, mask) @ v


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


def stored() -> tuple[dict[str, str], Arrays]:
    """Metadata and tensors of the committed file."""
    with safe_open(FIXTURE, framework="numpy") as file:
        return file.metadata(), {key: file.get_tensor(key) for key in file.keys()}


def agrees(found: np.ndarray | None, expected: np.ndarray) -> bool:
    return (
        found is not None
        and found.dtype == expected.dtype
        and found.shape == expected.shape
        # The absolute tolerance is for gradients that are zero but for rounding.
        and np.allclose(found, expected, rtol=1e-6, atol=1e-12)
    )


def write() -> None:
    old = stored()[1] if FIXTURE.exists() else {}
    new = compute_all()
    kept = {key: old[key] for key, array in new.items() if agrees(old.get(key), array)}
    FIXTURE.write_bytes(serialise({**new, **kept}))
    size = FIXTURE.stat().st_size
    print(f"wrote {FIXTURE.name}: {len(CASES)} cases, {len(kept)} tensors as before, {size} bytes")


def differences() -> list[str]:
    expected = compute_all()
    found_metadata, found = stored()
    if found_metadata != metadata():
        return ["metadata differ"]
    if set(found) != set(expected):
        return ["tensor names differ"]
    return [f"{key} differs" for key, array in expected.items() if not agrees(found[key], array)]


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
