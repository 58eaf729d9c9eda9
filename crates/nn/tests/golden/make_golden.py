#!/usr/bin/env python3
"""Independent reference for the semfocus model: writes or checks `golden.safetensors`.

The model is written here a second time, in PyTorch and as plainly as possible, so that the Rust
tests can compare logits, loss and every gradient with values that share no code with them.

    python make_golden.py            # write golden.safetensors beside this script
    python make_golden.py --check    # recompute and compare with the committed file

Needs torch, numpy, safetensors and entmax (tested with torch 2.15.0, numpy 2.4.6, safetensors
0.8.0, entmax 1.3). The weights of the entmax family and their gradients come from entmax. Relevant
positions (`oracle`, `antioracle`) are the first and the last one in every case.

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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import NormalDist

import numpy as np
import torch
import torch.nn.functional as F
from entmax import entmax15, entmax_bisect, sparsemax
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
    positions: str = "sinusoidal"  # or "learned" or "none"
    scale_embedding: bool = True
    head: str = "mean"  # or "last": where the label of a sequence is read
    per_token: bool = False  # every token has a label
    final_norm: bool = False
    affine_norms: bool = False
    tied: bool = False


# The model that in-context tasks are published with, and one of GPT-2's form.
MIXER = Shape(
    "full",
    vocabulary=9,
    classes=9,
    d_mlp=0,
    visibility="causal",
    positions="learned",
    scale_embedding=False,
    per_token=True,
    final_norm=True,
    affine_norms=True,
    tied=True,
)
LANGUAGE = replace(MIXER, heads=2, d_head=8, d_mlp=24, activation="gelu", classes=7)


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
    Case("stk3", 1, Shape("stk:3", blocks=1)),
    Case("gradk3", 2, Shape("gradk:3", blocks=1, heads=2, d_head=8)),
    Case("causal_gradk3", 2, Shape("gradk:3", blocks=1, visibility="causal")),
    Case("maskedk3", 1, Shape("maskedk:3", blocks=1)),
    Case("causal_stk3", 1, Shape("stk:3", blocks=1, activation="gelu", visibility="causal")),
    Case("oracle3", 1, Shape("oracle:3", blocks=1)),
    Case("oracle1", 1, Shape("oracle:1", blocks=1)),
    Case("causal_antioracle3", 1, Shape("antioracle:3", blocks=1, visibility="causal")),
    Case("shuffledk3", 1, Shape("shuffledk:3", blocks=1)),
    Case("topp", 1, Shape("topp:0.6", blocks=1)),
    Case("minp", 1, Shape("minp:1", blocks=1)),
    Case("moba", 1, Shape("moba:block=4,k=2", blocks=1)),
    Case("causal_moba", 2, Shape("moba:block=4,k=2", blocks=1, visibility="causal")),
    Case("entmax13", 1, Shape("entmax:1.3", blocks=1)),
    Case("entmax_learned", 1, Shape("entmax:learned", blocks=1, heads=2)),
    Case("ssmax", 1, Shape("ssmax", blocks=1, heads=2)),
    Case("temperature3", 1, Shape("temperature:3", blocks=1)),
    Case("matched_entropy", 2, Shape("temperature:entropy=4", blocks=1, inverse_temperature=1.5)),
    Case("sigmoid", 1, Shape("sigmoid", blocks=1)),
    Case("causal_relu", 1, Shape("relu", blocks=1, visibility="causal")),
    Case("linear", 1, Shape("linear", blocks=1, heads=2, d_head=8)),
    Case("differential", 1, Shape("differential:lambda=0.3", blocks=1)),
    Case("strided4", 1, Shape("strided:4", blocks=1)),
    Case("dilated3", 1, Shape("dilated:3", blocks=1)),
    Case("sinks3", 1, Shape("sinks:3,s=2", blocks=1)),
    Case("causal_sinks3", 1, Shape("sinks:3,s=2", blocks=1, visibility="causal")),
    Case("routing", 2, Shape("routing", blocks=1, heads=2, d_head=8)),
    Case("causal_routing", 1, Shape("routing:clusters=3,decay=0.7", blocks=1, visibility="causal")),
    Case("mixer", 1, MIXER),
    Case("mixer_topk3", 1, replace(MIXER, mechanism="topk:3")),
    Case("language_model", 1, LANGUAGE),
    Case("language_model_sparsemax", 1, replace(LANGUAGE, mechanism="sparsemax")),
    Case("last_token", 1, Shape("full", positions="none", head="last", final_norm=True, classes=3)),
    Case("learned_global1", 1, Shape("banded:5+g1", positions="learned", head="last", affine_norms=True)),
    Case("affine_mean_tied", 1, Shape("full", affine_norms=True, final_norm=True, tied=True, activation="mish")),
]


# --- Mechanisms -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mechanism:
    kind: str
    values: dict[str, str]  # the one without a key is called "first"
    global_tokens: int

    @property
    def size(self) -> int:
        return int(self.values.get("first", "0"))


SELECTIONS = ("topk", "bottomk", "stk", "gradk", "maskedk")
DENSE = ("full", "sparsemax", "entmax", "ssmax", "temperature", "sigmoid", "relu", "linear", "differential")


def parse_mechanism(text: str) -> Mechanism:
    match = re.fullmatch(r"([a-z]+)(?::([^+]+))?(?:\+g(\d+))?", text)
    if match is None:
        raise ValueError(f"unknown mechanism {text!r}")
    kind, values, global_tokens = match.groups()
    pairs = [part.rpartition("=") for part in (values or "").split(",") if part]
    return Mechanism(kind, {key or "first": value for key, _, value in pairs}, int(global_tokens or 0))


def keeps_fixed_key(mechanism: Mechanism, query: int, key: int, length: int) -> bool:
    """Whether an input-agnostic mechanism lets `query` see `key`; `length` counts user tokens."""
    if query >= length or key >= length:  # a global token sees all and is seen by all
        return True
    if mechanism.kind in DENSE:
        return True
    size = mechanism.size
    if mechanism.kind == "strided":
        return abs(query - key) < size or (query - key) % size == 0
    if mechanism.kind == "dilated":
        return key in [query + 2 * offset for offset in range(-((size - 1) // 2), size // 2 + 1)]
    if size >= length:
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


def share_mask(scores: Tensor, visible: Tensor, share: float) -> Tensor:
    """The fewest highest scores of each row with this share of the softmax, row by row."""
    weights = scores.masked_fill(~visible, -math.inf).softmax(-1)
    mask = torch.zeros_like(weights, dtype=torch.bool)
    for place in np.ndindex(*weights.shape[:-1]):
        total = 0.0
        for key in sorted(range(weights.shape[-1]), key=lambda key: -weights[place][key]):
            mask[place][key] = True
            total += float(weights[place][key])
            assert abs(total - share) > SMALLEST_SELECTION_GAP, "the share is close: change seed"
            if total > share:
                break
    return mask


def margin_mask(scores: Tensor, visible: Tensor, margin: float) -> Tensor:
    hidden = scores.masked_fill(~visible, -math.inf)
    above = hidden - hidden.amax(-1, keepdim=True) + margin
    assert above.abs().min() > SMALLEST_SELECTION_GAP, "a score is at the margin: change seed"
    return above > 0


def block_mask(scores: Tensor, visible: Tensor, block: int, count: int) -> Tensor:
    """The own block and those with the highest mean scores, query by query."""
    length = scores.shape[-1]
    mask = torch.zeros_like(scores, dtype=torch.bool)
    for batch, query in np.ndindex(*scores.shape[:-1]):
        own, gates = query // block, []
        for number, first in enumerate(range(0, length, block)):
            if number != own and visible[query, first]:
                gates.append((float(scores[batch, query, first : first + block].mean()), number))
        gates.sort(reverse=True)
        if len(gates) >= count:
            gap = gates[count - 2][0] - gates[count - 1][0]
            assert gap > SMALLEST_SELECTION_GAP, "two blocks are close: change seed"
        for number in [own] + [number for _, number in gates[: count - 1]]:
            mask[batch, query, number * block : (number + 1) * block] = True
    return mask & visible


def sink_mask(length: int, visibility: str, width: int, sinks: int) -> Tensor:
    mask = torch.zeros(length, length, dtype=torch.bool)
    mask[:, :sinks] = True
    for query in range(length):
        first = query - width + 1 if visibility == "causal" else query - (width - 1) // 2
        first = max(0, min(first, length - width))
        mask[query, first : first + width] = True
    return mask


def cluster_mask(q: Tensor, k: Tensor, visible: Tensor, clusters: int, decay: float) -> Tensor:
    """The query itself and the keys nearest to its centroid, by online k-means in NumPy."""
    batch, length, width = q.shape
    mask = torch.zeros(batch, length, length, dtype=torch.bool)
    for sequence in range(batch):
        queries, keys = (
            vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            for vectors in (q[sequence].detach().numpy(), k[sequence].detach().numpy())
        )
        axes = np.concatenate([np.eye(width), -np.eye(width)])
        centroids = axes[np.arange(clusters) % (2 * width)].copy()
        for position in range(length):
            for vector in (keys[position], queries[position]):
                products = centroids @ vector
                first, second = np.sort(products)[::-1][:2]
                assert first - second > SMALLEST_SELECTION_GAP, "two centroids are close: change seed"
                nearest = int(products.argmax())
                moved = decay * centroids[nearest] + (1 - decay) * vector
                centroids[nearest] = moved / np.linalg.norm(moved)
            seen = [key for key in range(length) if visible[position, key]]
            near = sorted(seen, key=lambda key: -(keys[key] @ centroids[nearest]))
            count = math.ceil(len(seen) / clusters)
            if count < len(seen):
                gap = (keys[near[count - 1]] - keys[near[count]]) @ centroids[nearest]
                assert gap > SMALLEST_SELECTION_GAP, "two keys are close: change seed"
            mask[sequence, position, near[:count] + [position]] = True
    return mask


def kept_keys(mechanism: Mechanism, visibility: str, scores: Tensor) -> Tensor:
    visible = visible_mask(visibility, scores.shape[-1])
    if mechanism.kind in SELECTIONS:
        assert mechanism.global_tokens == 0, "no case combines a selection with global tokens"
        highest = mechanism.kind != "bottomk"
        return selected_mask(scores.detach(), visible, mechanism.size, highest)
    if mechanism.kind == "shuffledk":  # of the next example
        return selected_mask(scores.detach().roll(-1, 0), visible, mechanism.size, True)
    if mechanism.kind in ("oracle", "antioracle"):
        return relevance_mask(mechanism, visible, scores.detach())
    if mechanism.kind == "topp":
        return share_mask(scores.detach(), visible, float(mechanism.values["first"]))
    if mechanism.kind == "minp":
        return margin_mask(scores.detach(), visible, float(mechanism.values["first"]))
    if mechanism.kind == "moba":
        block, count = (int(mechanism.values[key]) for key in ("block", "k"))
        return block_mask(scores.detach(), visible, block, count)
    if mechanism.kind == "sinks":
        mask = sink_mask(scores.shape[-1], visibility, mechanism.size, int(mechanism.values["s"]))
        return mask.expand_as(scores) & visible
    mask = fixed_mask(mechanism, scores.shape[-1] - mechanism.global_tokens) & visible
    assert mask.any(-1).all(), "every query of these cases keeps a key that it sees"
    return mask


def relevance_mask(mechanism: Mechanism, visible: Tensor, scores: Tensor) -> Tensor:
    """With the first and the last position as the relevant ones, query by query."""
    length, count = scores.shape[-1], mechanism.size
    mask = torch.zeros_like(scores, dtype=torch.bool)
    for batch, query in np.ndindex(*scores.shape[:-1]):
        seen = [key for key in range(length) if visible[query, key]]
        seen.sort(key=lambda key: -scores[batch, query, key])
        relevant = [key for key in seen if key in (0, length - 1)]
        others = [key for key in seen if key not in relevant]
        if mechanism.kind == "oracle":
            chosen = (relevant + others)[:count]
        else:
            chosen = others[:count] or [query]
        mask[batch, query, chosen] = True
    return mask


def entmax_weights(scores: Tensor, alpha: float | Tensor) -> Tensor:
    if isinstance(alpha, float) and alpha == 1.5:
        return entmax15(scores, dim=-1)
    return entmax_bisect(scores, alpha=alpha, dim=-1, n_iter=100)


def attention_weights(
    mechanism: Mechanism, scores: Tensor, mask: Tensor, visible: Tensor, learned: Tensor | None
) -> Tensor:
    kind = mechanism.kind
    of_all = scores.masked_fill(~visible, -math.inf).softmax(-1)
    counts = visible.sum(-1, keepdim=True)
    if kind == "stk":
        return of_all - of_all.detach() + scores.masked_fill(~mask, -math.inf).softmax(-1).detach()
    if kind == "gradk":
        of_kept = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return of_kept - of_kept.detach() + of_all.detach()
    if kind == "maskedk":
        return of_all * mask
    if kind == "sigmoid":
        return torch.sigmoid(scores - torch.log(counts.double())) * visible
    if kind == "relu":
        return F.relu(scores) / counts * visible
    if kind not in ("sparsemax", "entmax"):
        return scores.masked_fill(~mask, -math.inf).softmax(-1)
    if kind == "entmax" and mechanism.values:
        text = mechanism.values["first"]
        alpha = 1 + torch.sigmoid(learned) if text == "learned" else float(text)
        return entmax_weights(scores.masked_fill(~mask, -1e4), alpha)
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


def norm(x: Tensor, parameters: Parameters, name: str) -> Tensor:
    if f"{name}.scale" not in parameters:
        return normalise(x)
    scale, shift = parameters[f"{name}.scale"], parameters[f"{name}.shift"]
    return F.layer_norm(x, x.shape[-1:], scale, shift, eps=LAYER_NORM_EPSILON)


def sinusoidal_positions(length: int, width: int) -> Tensor:
    table = torch.zeros(length, width, dtype=torch.float64)
    for position in range(length):
        for feature in range(width):
            pair_start = feature - feature % 2
            angle = position / 10000 ** (pair_start / width)
            table[position, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


def matched_temperature(keys: int, length: int, deviation: float) -> float:
    """The factor with which normal quantiles of this deviation have a softmax of entropy ln keys."""
    quantiles = [NormalDist().inv_cdf((j + 0.5) / length) for j in range(length)]
    low, high = 0.0, 1e4
    while high - low > 1e-9:
        factor = (low + high) / 2
        weights = torch.softmax(torch.tensor(quantiles, dtype=torch.float64) * factor * deviation, 0)
        entropy = -float(torch.xlogy(weights, weights).sum())
        low, high = (factor, high) if entropy > math.log(keys) else (low, factor)
    return round(low, 4)


def temperature(mechanism: Mechanism, shape: Shape, length: int, learned: Tensor | None) -> float | Tensor:
    if mechanism.kind == "ssmax":
        return learned * math.log(length)
    if mechanism.kind == "temperature" and "entropy" in mechanism.values:
        keys = int(mechanism.values["entropy"])
        return matched_temperature(keys, length, shape.inverse_temperature / 3)
    return float(mechanism.values["first"]) if mechanism.kind == "temperature" else 1.0


def halves(q: Tensor, k: Tensor, shape: Shape, mask: Tensor, share: float) -> Tensor:
    """Differential attention: both halves of the head."""
    half = shape.d_head // 2
    weights = []
    for part in (slice(0, half), slice(half, None)):
        scores = shape.inverse_temperature * (q[..., part] @ k[..., part].transpose(-1, -2))
        weights.append((scores / math.sqrt(half)).masked_fill(~mask, -math.inf).softmax(-1))
    return weights[0] - share * weights[1]


def features(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    """Linear attention."""
    products = ((F.elu(q) + 1) @ (F.elu(k) + 1).transpose(-1, -2)) * mask
    return products / products.sum(-1, keepdim=True)


def attend(q: Tensor, k: Tensor, v: Tensor, shape: Shape, learned: Tensor | None) -> Tensor:
    """One head: [batch, length, d_head] each."""
    scores = shape.inverse_temperature * (q @ k.transpose(-1, -2)) / math.sqrt(shape.d_head)
    mechanism = parse_mechanism(shape.mechanism)
    scores = scores * temperature(mechanism, shape, scores.shape[-1], learned)
    if mechanism.kind == "routing":
        visible = visible_mask(shape.visibility, scores.shape[-1])
        clusters, decay = mechanism.values.get("clusters", "4"), mechanism.values.get("decay", "0.9")
        mask = cluster_mask(q, k, visible, int(clusters), float(decay))
    else:
        mask = kept_keys(mechanism, shape.visibility, scores)
    if mechanism.kind == "linear":
        return features(q, k, mask) @ v
    if mechanism.kind == "differential":
        return halves(q, k, shape, mask, float(mechanism.values["lambda"])) @ v
    visible = visible_mask(shape.visibility, scores.shape[-1])
    return attention_weights(mechanism, scores, mask, visible, learned) @ v


def attention(x: Tensor, parameters: Parameters, name: str, shape: Shape) -> Tensor:
    q, k, v = (linear(x, parameters, f"{name}.{part}") for part in ("query", "key", "value"))
    columns = [slice(h * shape.d_head, (h + 1) * shape.d_head) for h in range(shape.heads)]
    learned = parameters.get(f"{name}.mechanism", [[None]] * shape.heads)
    heads = [
        attend(q[..., c], k[..., c], v[..., c], shape, learned[h][0]) for h, c in enumerate(columns)
    ]
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
    own_length = tokens.shape[1]
    tokens = append_global_tokens(tokens, shape)
    x = parameters["embedding"][tokens]
    if shape.scale_embedding:
        x = x * math.sqrt(shape.d_model)
    if shape.positions == "sinusoidal":
        x = x + sinusoidal_positions(tokens.shape[1], shape.d_model)
    if shape.positions == "learned":
        x = x + parameters["positions"]
    for block in range(shape.blocks):
        name = f"blocks.{block}.attention"
        x = x + attention(norm(x, parameters, f"{name}.norm"), parameters, name, shape)
        name = f"blocks.{block}.mlp"
        if shape.d_mlp > 0:
            x = x + mlp(norm(x, parameters, f"{name}.norm"), parameters, name, shape)
    if shape.per_token:
        rows = x[:, :own_length].flatten(0, 1)
    else:
        rows = {"mean": x.mean(dim=1), "last": x[:, own_length - 1]}[shape.head]
    if shape.final_norm:
        rows = norm(rows, parameters, "norm")
    if shape.tied:
        return F.linear(rows, parameters["embedding"][: shape.classes], parameters["classifier.bias"])
    return linear(rows, parameters, "classifier")


# --- Cases ----------------------------------------------------------------------------------------


def uniform(random: np.random.Generator, bound: float, *size: int) -> Tensor:
    # Through float32, so that the stored parameters are exactly the ones computed with.
    return torch.from_numpy(random.uniform(-bound, bound, size).astype(np.float32)).double()


def initial_parameters(shape: Shape, length: int, random: np.random.Generator) -> Parameters:
    global_tokens = parse_mechanism(shape.mechanism).global_tokens
    rows, d, m = shape.vocabulary + global_tokens, shape.d_model, shape.d_mlp
    all_heads = shape.heads * shape.d_head
    # Without the factor of the embedding, and as the weights of the head, larger rows tell tokens apart.
    parameters = {"embedding": uniform(random, 0.1 if shape.scale_embedding else 0.5, rows, d)}
    if shape.positions == "learned":
        parameters["positions"] = uniform(random, 0.5, length + global_tokens, d)

    def add_norm(name: str) -> None:
        if shape.affine_norms:
            parameters[f"{name}.scale"] = (uniform(random, 0.5, d) + 1).float().double()
            parameters[f"{name}.shift"] = uniform(random, 0.3, d)

    def add_linear(name: str, inputs: int, outputs: int, scale: float = 1.0) -> None:
        bound = scale / math.sqrt(inputs)
        parameters[f"{name}.weight"] = uniform(random, bound, inputs, outputs)
        parameters[f"{name}.bias"] = uniform(random, bound, outputs)

    for block in range(shape.blocks):
        prefix = f"blocks.{block}"
        add_norm(f"{prefix}.attention.norm")
        # Larger than at a real start: with spread scores the mechanisms really differ.
        add_linear(f"{prefix}.attention.query", d, all_heads, scale=2.5)
        add_linear(f"{prefix}.attention.key", d, all_heads, scale=2.5)
        add_linear(f"{prefix}.attention.value", d, all_heads)
        add_linear(f"{prefix}.attention.output", all_heads, d)
        if shape.mechanism in ("ssmax", "entmax:learned"):
            parameters[f"{prefix}.attention.mechanism"] = uniform(random, 0.5, shape.heads, 1) + 0.5
        if m > 0:
            add_norm(f"{prefix}.mlp.norm")
            add_linear(f"{prefix}.mlp.hidden", d, m)
            add_linear(f"{prefix}.mlp.output", m, d)
    if shape.final_norm:
        add_norm("norm")
    if not shape.tied:
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
    labels = random.integers(0, shape.classes, case.batch * (case.length if shape.per_token else 1))
    parameters = initial_parameters(shape, case.length, random)
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
