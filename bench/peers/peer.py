#!/usr/bin/env python3
"""PyTorch peer of `semfocus bench`: times a training and an evaluation step, or a loss surface.

    peer.py --length 40 --blocks 5 --mechanism topk:5 --variant eager --threads 2 --seconds 3 --eval
    peer.py --surface --cells 24 --samples 1000 --mechanism topk:5 --threads 2
    peer.py --check      # do the variants compute the same thing?

Prints one line of JSON. The model, the sizes and the training step are those of semfocus; only the
implementation differs. Global tokens are not needed here and not supported.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BATCH = 25
WIDTH = 64
MLP_WIDTH = 64
DROPOUT = 0.01
LEARNING_RATE = 0.1
CLIP_NORM = 0.5
WARM_UP_STEPS = 3
LONG = 600
SURFACE_BATCHES = (50, 250, 1000)  # all are tried, the fastest counts

VARIANTS = ("eager", "sdpa", "gather", "compile-eager", "compile-sdpa", "compile-gather")


@dataclass(frozen=True)
class Mechanism:
    kind: str
    size: int

    @classmethod
    def parse(cls, text: str) -> Mechanism:
        kind, _, size = text.partition(":")
        if kind not in ("full", "topk", "banded", "block") or (kind == "full") == bool(size):
            raise argparse.ArgumentTypeError(f"unknown mechanism {text!r}")
        return cls(kind, int(size or 0))

    def __str__(self) -> str:
        return self.kind if self.kind == "full" else f"{self.kind}:{self.size}"

    def fixed_mask(self, length: int) -> Tensor | None:
        """L x L mask of the keys kept, for the mechanisms that do not look at the input."""
        query, key = torch.arange(length)[:, None], torch.arange(length)[None, :]
        if self.kind == "block":
            return query // self.size == key // self.size
        if self.kind == "banded":
            first = (query - (self.size - 1) // 2).clamp(0, max(length - self.size, 0))
            return (first <= key) & (key < first + self.size)
        return None


# --- Model ----------------------------------------------------------------------------------------


class Attention(nn.Module):
    """Base of the attention variants: projections around a single head as wide as the model."""

    def __init__(self, mechanism: Mechanism, length: int) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.mechanism = mechanism
        self.kept = min(mechanism.size, length)
        self.dropout = DROPOUT
        self.register_buffer("mask", mechanism.fixed_mask(length))

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.attend(self.query(x), self.key(x), self.value(x)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raise NotImplementedError

    def kept_keys(self, scores: Tensor) -> Tensor | None:
        if self.mechanism.kind != "topk":
            return self.mask
        indices = scores.topk(self.kept, dim=-1, sorted=False).indices
        return torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, indices, True)

    def drop(self, weights: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout, self.training)


class EagerAttention(Attention):
    """Scores of all pairs, masked: how such studies are commonly written."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)
        mask = self.kept_keys(scores)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return self.drop(scores.softmax(-1)) @ v


class SdpaAttention(Attention):
    """PyTorch's own attention function. Top-k has to know the scores first, to build its mask."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = self.mask
        if self.mechanism.kind == "topk":
            with torch.no_grad():
                mask = self.kept_keys(q @ k.transpose(-1, -2)).unsqueeze(1)
        # The fused kernels want a head dimension.
        q, k, v = (part.unsqueeze(1) for part in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, mask, dropout).squeeze(1)


class GatherAttention(Attention):
    """Works on the kept keys only: what one writes in PyTorch when speed matters."""

    def __init__(self, mechanism: Mechanism, length: int) -> None:
        super().__init__(mechanism, length)
        if not can_run("gather", mechanism):
            raise ValueError("gather needs the same number of keys for every query, and not all")
        if self.mask is not None:
            self.register_buffer("kept_indices", self.mask.nonzero()[:, 1].view(length, -1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.mechanism.kind == "topk":
            scores = q @ k.transpose(-1, -2) / math.sqrt(WIDTH)
            scores, indices = scores.topk(self.kept, dim=-1, sorted=False)
        else:
            indices = self.kept_indices.expand(q.shape[0], -1, -1)
            scores = (self.rows(k, indices) @ q.unsqueeze(-1)).squeeze(-1) / math.sqrt(WIDTH)
        weights = self.drop(scores.softmax(-1))
        return (weights.unsqueeze(-2) @ self.rows(v, indices)).squeeze(-2)

    @staticmethod
    def rows(x: Tensor, indices: Tensor) -> Tensor:
        batch, length, width = x.shape
        start = torch.arange(batch, device=x.device).view(-1, 1, 1) * length
        flat = (indices + start).reshape(-1)
        return x.reshape(-1, width).index_select(0, flat).view(*indices.shape, width)


def can_run(attention: str, mechanism: Mechanism) -> bool:
    return attention != "gather" or mechanism.kind in ("topk", "banded")


ATTENTION = {"eager": EagerAttention, "sdpa": SdpaAttention, "gather": GatherAttention}


class Block(nn.Module):
    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, MLP_WIDTH),
            nn.Dropout(DROPOUT),
            nn.ReLU(),
            nn.Linear(MLP_WIDTH, WIDTH),
        )
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(F.layer_norm(x, (WIDTH,))))
        return x + self.dropout(self.mlp(F.layer_norm(x, (WIDTH,))))


class Classifier(nn.Module):
    def __init__(self, attention: str, mechanism: Mechanism, length: int, blocks: int) -> None:
        super().__init__()
        vocabulary, classes = task_size(length)
        make_attention = ATTENTION[attention]
        self.embedding = nn.Embedding(vocabulary, WIDTH)
        self.register_buffer("positions", sinusoidal_positions(length))
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.Sequential(
            *(Block(make_attention(mechanism, length)) for _ in range(blocks))
        )
        self.classifier = nn.Linear(WIDTH, classes)
        # Linear layers start as U(+-1/sqrt(fan_in)) by default, as wanted; these two do not.
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.classifier.weight, -0.1, 0.1)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(WIDTH) + self.positions
        return self.classifier(self.blocks(self.dropout(x)).mean(dim=1))


def task_size(length: int) -> tuple[int, int]:
    """Vocabulary and classes: List Operations for the long inputs, a bit task for the short."""
    return (16, 10) if length >= LONG else (3, 2)


def sinusoidal_positions(length: int) -> Tensor:
    frequencies = 10000.0 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    angles = torch.arange(length)[:, None] * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def build_model(variant: str, mechanism: Mechanism, length: int, blocks: int) -> nn.Module:
    compiled, _, attention = variant.rpartition("-")
    model = Classifier(attention, mechanism, length, blocks)
    return torch.compile(model, dynamic=False) if compiled else model


# --- Timing ---------------------------------------------------------------------------------------


def random_batch(length: int) -> tuple[Tensor, Tensor]:
    vocabulary, classes = task_size(length)
    return torch.randint(vocabulary, (BATCH, length)), torch.randint(classes, (BATCH,))


def training_step(model: nn.Module, tokens: Tensor, labels: Tensor) -> Callable[[], None]:
    optimiser = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(tokens), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimiser.step()

    return step


def evaluation_step(model: nn.Module, tokens: Tensor) -> Callable[[], None]:
    def step() -> None:
        with torch.inference_mode():
            model(tokens)

    return step


def time_steps(step: Callable[[], None], seconds: float, least_steps: int) -> list[float]:
    """Milliseconds of each step, for at least `seconds` and at least `least_steps`."""
    for _ in range(WARM_UP_STEPS):
        step()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < least_steps or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - before))
    return times


def measure(arguments: argparse.Namespace) -> dict[str, float | int | None]:
    torch.manual_seed(1)
    shape = (arguments.mechanism, arguments.length, arguments.blocks)
    model = build_model(arguments.variant, *shape)
    tokens, labels = random_batch(arguments.length)
    least_steps = 3 if arguments.length >= LONG else 5

    model.train()
    train = time_steps(training_step(model, tokens, labels), arguments.seconds, least_steps)
    result = {"train_ms": statistics.median(train), "eval_ms": None, "steps": len(train)}
    if arguments.eval:
        model.eval()
        times = time_steps(evaluation_step(model, tokens), arguments.seconds, least_steps)
        result["eval_ms"] = statistics.median(times)
    return result


# --- Loss surface ---------------------------------------------------------------------------------


class Surface:
    """Loss and accuracy over fixed examples, at parameters w + x d1 + y d2.

    w are the parameters of the model as given; d1 and d2 are Gaussian, each tensor of them as long
    as that of w.
    """

    def __init__(self, model: nn.Module, tokens: Tensor, labels: Tensor) -> None:
        self.model = model.eval()
        self.tokens, self.labels = tokens, labels
        self.centre = [parameter.detach().clone() for parameter in model.parameters()]
        self.directions = [[gaussian_like(w) for w in self.centre] for _ in range(2)]

    @torch.inference_mode()
    def cell(self, x: float, y: float, batch: int) -> tuple[float, float]:
        parameters = zip(self.model.parameters(), self.centre, *self.directions)
        for parameter, w, d1, d2 in parameters:
            parameter.copy_(w).add_(d1, alpha=x).add_(d2, alpha=y)
        return self.evaluate(batch)

    @torch.inference_mode()
    def evaluate(self, batch: int) -> tuple[float, float]:
        """Loss and accuracy at the parameters that the model has now."""
        loss, correct = 0.0, 0
        for tokens, labels in zip(self.tokens.split(batch), self.labels.split(batch)):
            logits = self.model(tokens)
            loss += F.cross_entropy(logits, labels, reduction="sum").item()
            correct += (logits.argmax(-1) == labels).sum().item()
        return loss / len(self.labels), correct / len(self.labels)


def gaussian_like(w: Tensor) -> Tensor:
    direction = torch.randn_like(w)
    return direction * (w.norm() / direction.norm())


def even_pairs(samples: int, length: int) -> tuple[Tensor, Tensor]:
    """Uniform bits; the number of unequal neighbours is odd if the last bit is not the first."""
    bits = torch.randint(2, (samples, length))
    return bits, (bits[:, 0] != bits[:, -1]).long()


def grid(cells: int) -> list[tuple[float, float]]:
    """The first cells of a square grid on [-1, 1] x [-1, 1]."""
    side = math.ceil(math.sqrt(cells))
    ticks = torch.linspace(-1, 1, side).tolist()
    return list(itertools.product(ticks, ticks))[:cells]


def time_surface(surface: Surface, cells: int, batch: int) -> float:
    """Seconds for all cells. What precedes the clock warms up, and checks the centre."""
    plain, _ = surface.evaluate(batch)
    centre, _ = surface.cell(0.0, 0.0, batch)
    if not math.isclose(plain, centre, rel_tol=1e-5):
        raise ArithmeticError(f"loss {centre} at the centre of the surface, not {plain}")
    start = time.perf_counter()
    losses = [surface.cell(x, y, batch)[0] for x, y in grid(cells)]
    seconds = time.perf_counter() - start
    surface.cell(0.0, 0.0, batch)  # leave the model as it was
    if not all(map(math.isfinite, losses)):
        raise ArithmeticError(f"loss not finite: {losses}")
    return seconds


def measure_surface(arguments: argparse.Namespace) -> dict[str, object]:
    """The model is not trained: what the parameters are hardly changes the time."""
    torch.manual_seed(1)
    shape = (arguments.mechanism, arguments.length, arguments.blocks)
    model = build_model(arguments.variant, *shape)
    surface = Surface(model, *even_pairs(arguments.samples, arguments.length))
    cells = arguments.cells
    seconds = {batch: time_surface(surface, cells, batch) for batch in SURFACE_BATCHES}
    fastest = min(seconds, key=seconds.__getitem__)
    return {
        "cells": cells,
        "samples": arguments.samples,
        "seconds": seconds[fastest],
        "cell_ms": 1e3 * seconds[fastest] / cells,
        "batch": fastest,
        "cell_ms_by_batch": {batch: 1e3 * value / cells for batch, value in seconds.items()},
    }


# --- Result ---------------------------------------------------------------------------------------


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def run(arguments: argparse.Namespace) -> dict[str, object]:
    torch.set_num_threads(arguments.threads)
    try:
        work = measure_surface if arguments.surface else measure
        result = work(arguments) | {"reason": None}
    except Exception as error:  # a variant that does not work here is a result, not a crash
        result = {"reason": first_line(error)}
    return {
        "length": arguments.length,
        "blocks": arguments.blocks,
        "mechanism": str(arguments.mechanism),
        "variant": arguments.variant,
        "threads": arguments.threads,
        **result,
        "torch": torch.__version__,
    }


# --- Agreement ------------------------------------------------------------------------------------


def outcome(attention: str, mechanism: Mechanism) -> list[Tensor]:
    """Logits and gradients without dropout, from the same parameters and inputs every time."""
    torch.manual_seed(1)
    model = Classifier(attention, mechanism, length=43, blocks=2).eval()
    tokens, labels = random_batch(43)
    logits = model(tokens)
    F.cross_entropy(logits, labels).backward()
    return [logits, *(parameter.grad for parameter in model.parameters())]


def check_cell(mechanism: Mechanism) -> None:
    """A cell is what the model computes with its parameters, and visiting it leaves no trace."""
    torch.manual_seed(1)
    model = Classifier("eager", mechanism, length=43, blocks=2)
    surface = Surface(model, *even_pairs(120, 43))
    plain, x, y = surface.evaluate(50), 0.5, -0.25
    moved = {
        name: w + x * d1 + y * d2
        for (name, _), w, d1, d2 in zip(
            model.named_parameters(), surface.centre, *surface.directions
        )
    }
    with torch.no_grad():
        logits = torch.func.functional_call(model, moved, (surface.tokens,))
    expected = F.cross_entropy(logits, surface.labels).item()
    accuracy = (logits.argmax(-1) == surface.labels).double().mean().item()
    torch.testing.assert_close(surface.cell(x, y, 50), (expected, accuracy), rtol=1e-5, atol=0)
    assert math.isfinite(expected) and not math.isclose(expected, plain[0], rel_tol=1e-3)
    torch.testing.assert_close(surface.cell(0.0, 0.0, 50), plain, rtol=1e-5, atol=0)


def check() -> int:
    """A comparison is only fair if all variants compute the same function."""
    for text in ("full", "topk:5", "banded:5", "banded:4", "block:5"):
        mechanism = Mechanism.parse(text)
        others = [name for name in ATTENTION if name != "eager" and can_run(name, mechanism)]
        expected = outcome("eager", mechanism)
        for name in others:
            for found, wanted in zip(outcome(name, mechanism), expected):
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
        check_cell(mechanism)
        print(f"{text}: {' and '.join(others)} agree with eager, cells of a surface are right")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=40)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--mechanism", type=Mechanism.parse, default="full")
    parser.add_argument("--variant", choices=VARIANTS, default="eager")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="least time per measurement")
    parser.add_argument("--eval", action="store_true", help="time the evaluation step as well")
    parser.add_argument("--surface", action="store_true", help="time a loss surface instead")
    parser.add_argument("--cells", type=int, default=24, help="of the surface")
    parser.add_argument("--samples", type=int, default=1000, help="of every cell")
    parser.add_argument("--check", action="store_true", help="compare the variants' results")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    print(json.dumps(run(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
