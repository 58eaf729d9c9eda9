#!/usr/bin/env python3
"""PyTorch, in the variants that the README describes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from common import Examples, Mechanism, Numbers, Peer, Shape, Training, rows_of_places, sinusoids

ALL = ["full", "topk", "banded", "block"]
FIXED_COUNT = ["topk", "banded"]  # every query keeps the same number of keys, and not all


def environment(instructions: str | None, threads: int) -> dict[str, str]:
    # Compiler processes left waiting in the background are neither wanted nor accounted for.
    variables = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if instructions:
        # Inductor's vectors follow ATen's. On AMD processors MKL ignores the setting.
        name = instructions.upper()
        variables |= {"ATEN_CPU_CAPABILITY": instructions, "MKL_ENABLE_INSTRUCTIONS": name}
    if instructions == "avx2":
        variables |= {"ONEDNN_MAX_CPU_ISA": "AVX2", "TORCHINDUCTOR_CPP_MARCH": "x86-64-v3"}
    return variables


PEER = Peer(
    requirements=["torch", "numpy"],
    variants={
        "eager": ALL,
        "sdpa": ALL,
        "gather": FIXED_COUNT,
        "compile-eager": ALL,
        "compile-sdpa": ALL,
        "compile-gather": FIXED_COUNT,
    },
    environment=environment,
)
ARGUMENTS = PEER.start()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402


class Attention(nn.Module):
    """Base of the attention variants: projections around a single head as wide as the model."""

    def __init__(self, mechanism: Mechanism, shape: Shape, dropout: float) -> None:
        super().__init__()
        width = shape.width
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.by_score = mechanism.kind == "topk"
        self.kept = min(mechanism.size, shape.length)
        self.scale = 1 / math.sqrt(width)
        self.dropout = dropout
        mask = mechanism.mask(shape.length)
        mask = None if mask is None else torch.tensor(mask)
        self.is_causal = shape.is_decoder
        if self.is_causal:
            seen = torch.ones(shape.length, shape.length, dtype=torch.bool).tril()
            mask = seen if mask is None else mask & seen
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(self.attend(self.query(x), self.key(x), self.value(x)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        raise NotImplementedError

    def kept_keys(self, scores: Tensor) -> Tensor | None:
        if not self.by_score:
            return self.mask
        seen = scores if self.mask is None else scores.masked_fill(~self.mask, -math.inf)
        indices = seen.topk(self.kept, dim=-1, sorted=False).indices
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, indices, True)
        return kept if self.mask is None else kept & self.mask

    def drop(self, weights: Tensor) -> Tensor:
        return F.dropout(weights, self.dropout, self.training)


class EagerAttention(Attention):
    """Scores of all pairs, masked: how such studies are commonly written."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.transpose(-1, -2) * self.scale  # [batch, queries, keys]
        mask = self.kept_keys(scores)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return self.drop(scores.softmax(-1)) @ v


class SdpaAttention(Attention):
    """PyTorch's own attention function. Top-k has to know the scores first, to build its mask."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = self.mask
        if self.by_score:
            with torch.no_grad():
                mask = self.kept_keys(q @ k.transpose(-1, -2)).unsqueeze(1)
        # The fused kernels want a head dimension.
        q, k, v = (part.unsqueeze(1) for part in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, mask, dropout).squeeze(1)


class GatherAttention(Attention):
    """Works on the kept keys only: what one writes in PyTorch when speed matters."""

    def __init__(self, mechanism: Mechanism, shape: Shape, dropout: float) -> None:
        super().__init__(mechanism, shape, dropout)
        if self.mask is not None and not self.is_causal:
            self.register_buffer("kept_indices", self.mask.nonzero()[:, 1].view(shape.length, -1))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if self.is_causal:  # the first queries keep fewer keys
            return EagerAttention.attend(self, q, k, v)
        if self.by_score:
            scores = q @ k.transpose(-1, -2) * self.scale
            scores, indices = scores.topk(self.kept, dim=-1, sorted=False)
        else:
            indices = self.kept_indices.expand(q.shape[0], -1, -1)
            scores = (self.rows(k, indices) @ q.unsqueeze(-1)).squeeze(-1) * self.scale
        weights = self.drop(scores.softmax(-1))  # [batch, queries, kept]
        return (weights.unsqueeze(-2) @ self.rows(v, indices)).squeeze(-2)

    @staticmethod
    def rows(x: Tensor, indices: Tensor) -> Tensor:
        batch, length, width = x.shape
        start = torch.arange(batch, device=x.device).view(-1, 1, 1) * length
        flat = (indices + start).reshape(-1)
        return x.reshape(-1, width).index_select(0, flat).view(*indices.shape, width)


ATTENTION = {"eager": EagerAttention, "sdpa": SdpaAttention, "gather": GatherAttention}


class Norm(nn.Module):
    """A layer norm, in decoders with scale and shift."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.width = (shape.width,)
        if shape.is_decoder:
            self.scale, self.shift = (nn.Parameter(torch.empty(shape.width)) for _ in range(2))
        else:
            self.scale = self.shift = None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.width, self.scale, self.shift)


class Mlp(nn.Module):
    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.norm = Norm(shape)
        self.hidden = nn.Linear(shape.width, shape.hidden)
        self.output = nn.Linear(shape.hidden, shape.width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.output(F.relu(self.dropout(self.hidden(self.norm(x)))))


class Block(nn.Module):
    def __init__(self, attention: Attention, shape: Shape, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.attention.norm = Norm(shape)
        self.mlp = Mlp(shape, dropout) if shape.hidden else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.attention.norm(x)))
        return x if self.mlp is None else x + self.dropout(self.mlp(x))


class Classifier(nn.Module):
    def __init__(self, attention: str, mechanism: Mechanism, shape: Shape, dropout: float) -> None:
        super().__init__()
        make_attention = ATTENTION[attention]
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        if shape.is_decoder:
            self.positions = nn.Parameter(torch.empty(shape.length, shape.width))
        else:
            self.register_buffer("positions", torch.tensor(sinusoids(shape)))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(
            *(
                Block(make_attention(mechanism, shape, dropout), shape, dropout)
                for _ in range(shape.blocks)
            )
        )
        self.norm = Norm(shape) if shape.is_decoder else nn.Identity()
        self.classifier = nn.Linear(shape.width, shape.classes)
        if shape.is_decoder:
            self.classifier.weight = self.embedding.weight
        self.factor = 1 if shape.is_decoder else math.sqrt(shape.width)
        self.shape = shape

    def forward(self, tokens: Tensor, places: Tensor | None) -> Tensor:
        """[batch, classes], or [questions, classes] if `places` are asked about, of all tokens in a row, or all tokens."""
        x = self.embedding(tokens) * self.factor + self.positions
        x = self.blocks(self.dropout(x))
        if places is not None:
            x = x.flatten(0, 1)[places]
        elif self.shape.per_token:
            x = x.flatten(0, 1)
        else:
            x = x.mean(dim=1)
        return self.classifier(self.norm(x))


Batch = tuple[Tensor, Tensor | None, Tensor]  # tokens, places that are asked about, labels


class Model:
    def __init__(
        self, variant: str, mechanism: Mechanism, shape: Shape, numbers: Numbers, training: Training
    ) -> None:
        compiled, _, attention = variant.rpartition("-")
        torch.set_num_threads(ARGUMENTS.threads)
        torch.manual_seed(1)
        self.network = Classifier(attention, mechanism, shape, training.dropout)
        self.named = {
            name.replace("embedding.weight", "embedding"): parameter
            for name, parameter in self.network.named_parameters()
        }
        with torch.no_grad():
            for parameter, values in self.paired(numbers):
                parameter.copy_(values)
        self.forward = torch.compile(self.network, dynamic=False) if compiled else self.network
        self.clip_norm = training.clip_norm
        self.optimiser = torch.optim.SGD(self.named.values(), lr=training.learning_rate)

    def paired(self, numbers: Numbers) -> list[tuple[Tensor, Tensor]]:
        """Each parameter with its numbers, in the order of the parameters."""

        def tensor(name: str) -> Tensor:
            return as_stored(name, torch.tensor(numbers[name].values).view(numbers[name].shape))

        return [(parameter, tensor(name)) for name, parameter in self.named.items()]

    def batch(self, examples: Examples) -> Batch:
        tokens = torch.tensor(examples.tokens)
        places = rows_of_places(examples)
        places = torch.tensor(places) if places else None
        return tokens, places, torch.tensor(examples.labels).flatten()

    def train(self, batch: Batch) -> None:
        tokens, places, labels = batch
        self.network.train()
        self.optimiser.zero_grad()
        F.cross_entropy(self.forward(tokens, places), labels).backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), self.clip_norm)
        self.optimiser.step()

    @torch.inference_mode()
    def evaluate(self, batch: Batch) -> Tensor:
        self.network.eval()
        return self.forward(*batch[:2])

    @torch.inference_mode()
    def score(self, batch: Batch) -> tuple[float, int]:
        logits, labels = self.evaluate(batch), batch[2]
        loss = F.cross_entropy(logits, labels, reduction="sum").item()
        return loss, (logits.argmax(-1) == labels).sum().item()

    def parameters(self) -> dict[str, list[float]]:
        return {
            name: as_stored(name, parameter.detach()).flatten().tolist()
            for name, parameter in self.named.items()
        }

    def set_directions(self, first: Numbers, second: Numbers) -> None:
        self.centre = [
            (parameter, parameter.detach().clone(), d1.contiguous(), d2.contiguous())
            for (parameter, d1), (_, d2) in zip(self.paired(first), self.paired(second))
        ]

    @torch.inference_mode()
    def move(self, x: float, y: float) -> None:
        for parameter, w, d1, d2 in self.centre:
            parameter.copy_(w).add_(d1, alpha=x).add_(d2, alpha=y)


def as_stored(name: str, tensor: Tensor) -> Tensor:
    """PyTorch's linear layers keep the transpose; applied twice, this gives the original."""
    return tensor.T if tensor.dim() == 2 and name.endswith(".weight") else tensor


def uses() -> dict[str, Any]:
    intel = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    used = {
        "torch": torch.__version__,
        "ATen": torch.backends.cpu.get_cpu_capability(),
        "MKL": ARGUMENTS.instructions if intel and ARGUMENTS.instructions else "its own choice",
    }
    if ARGUMENTS.variant.startswith("compile"):
        from torch._inductor.cpu_vec_isa import pick_vec_isa

        used["Inductor"] = str(pick_vec_isa())
    return used


if __name__ == "__main__":
    PEER.run(ARGUMENTS, Model, uses)
