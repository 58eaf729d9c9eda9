"""What all peers share: the numbers of the model, the command line, the timing, the check.

A peer is a file `*_peer.py` in this folder. It creates a `Peer`, calls `start` before it imports
its library, defines a class with the methods of `Model`, and calls `run`. It prints JSON:

    torch_peer.py --variant eager --shape 40 --mechanism topk:5 --threads 2 --instructions avx2
    torch_peer.py --variant eager --surface --cells 24
    torch_peer.py --variant eager --check
    torch_peer.py --describe

This module needs the standard library only, so `compare` can read the declarations before anything
is installed. Model, sizes and training step are those of `semfocus bench`, without global tokens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

WARM_UP_STEPS = 3
INSTRUCTIONS = ("avx2", "avx512")
SURFACE_BATCHES = (50, 250, 1000)  # all are tried, the fastest counts

Result = dict[str, Any]


class Shape(NamedTuple):
    length: int
    blocks: int
    vocabulary: int
    classes: int
    width: int = 64
    batch: int = 25
    per_token: bool = False  # a class for every token, not one for the mean
    mlp: int | None = None  # width of the hidden layers, the model's if left out; 0 for no MLPs
    asked: int = 0  # a class for so many tokens of a sequence, and a model as in MQAR's definition

    @property
    def hidden(self) -> int:
        return self.width if self.mlp is None else self.mlp

    @property
    def questions(self) -> int:
        """Of a sequence; 0 for one at the mean of its tokens."""
        return self.length if self.per_token else self.asked

    @property
    def is_decoder(self) -> bool:
        """Causal, learned positions, norms with scale and shift, a last norm, the head is the embedding."""
        return self.asked > 0


class Training(NamedTuple):
    dropout: float = 0.01
    learning_rate: float = 0.1
    clip_norm: float = 0.5


SHAPES = {
    "40": Shape(40, 5, 3, 2),  # a bit task
    "600": Shape(600, 10, 16, 10),  # List Operations
    "text": Shape(24, 8, 4096, 4096, width=32, batch=128),
    "text-tokens": Shape(24, 8, 4096, 4096, width=32, batch=128, per_token=True),
    "recall": Shape(64, 2, 8192, 8192, width=64, batch=64, per_token=True),
    "figure-19": Shape(24, 8, 4096, 4096, width=32, batch=128, mlp=128),
    "mqar": Shape(64, 2, 8192, 8192, width=64, batch=512, mlp=0, asked=4),
}
STANDARD = ["40", "600"]


class Mechanism(NamedTuple):
    kind: str
    size: int

    @classmethod
    def parse(cls, text: str) -> Mechanism:
        kind, _, size = text.partition(":")
        if kind not in ("full", "topk", "banded", "block") or (kind == "full") == bool(size):
            raise argparse.ArgumentTypeError(f"unknown mechanism {text!r}")
        return cls(kind, int(size or 0))

    def mask(self, length: int) -> list[list[bool]] | None:
        """The keys that each query keeps, for mechanisms that do not look at the input."""
        if self.kind == "block":
            spans = [(q - q % self.size, q - q % self.size + self.size) for q in range(length)]
        elif self.kind == "banded":
            last_start = max(length - self.size, 0)
            starts = (min(max(q - (self.size - 1) // 2, 0), last_start) for q in range(length))
            spans = [(start, start + self.size) for start in starts]
        else:
            return None
        return [[first <= key < end for key in range(length)] for first, end in spans]


# --- Numbers --------------------------------------------------------------------------------------


class Array(NamedTuple):
    """A tensor without a library: its values in row-major order."""

    shape: tuple[int, ...]
    values: list[float]


Numbers = dict[str, Array]


def initial_numbers(shape: Shape, random_numbers: random.Random) -> Numbers:
    """Parameters by their names in semfocus; matrices are [inputs, outputs]."""

    def uniform(bound: float, *sizes: int) -> Array:
        count = math.prod(sizes)
        return Array(sizes, [random_numbers.uniform(-bound, bound) for _ in range(count)])

    def norm(name: str) -> Numbers:
        if not shape.is_decoder:
            return {}
        scale = [1 + x for x in uniform(0.1, width).values]
        return {f"{name}.scale": Array((width,), scale), f"{name}.shift": uniform(0.1, width)}

    width, hidden = shape.width, shape.hidden
    numbers = {"embedding": uniform(0.1, shape.vocabulary, width)}
    if shape.is_decoder:
        numbers["positions"] = uniform(0.1, shape.length, width)
    linear = {f"attention.{name}": (width, width) for name in ("query", "key", "value", "output")}
    if hidden:
        linear |= {"mlp.hidden": (width, hidden), "mlp.output": (hidden, width)}
    for block in range(shape.blocks):
        for part in ("attention", "mlp") if hidden else ("attention",):
            numbers |= norm(f"blocks.{block}.{part}.norm")
        for name, (inputs, outputs) in linear.items():
            bound = 1 / math.sqrt(inputs)
            numbers[f"blocks.{block}.{name}.weight"] = uniform(bound, inputs, outputs)
            numbers[f"blocks.{block}.{name}.bias"] = uniform(bound, outputs)
    numbers |= norm("norm")
    if not shape.is_decoder:
        numbers["classifier.weight"] = uniform(0.1, width, shape.classes)
    numbers["classifier.bias"] = Array((shape.classes,), [0.0] * shape.classes)
    return numbers


def gaussian_like(numbers: Numbers, random_numbers: random.Random) -> Numbers:
    """A random direction, each tensor as long as that of `numbers`."""

    def direction(array: Array) -> Array:
        values = [random_numbers.gauss() for _ in array.values]
        scale = math.hypot(*array.values) / math.hypot(*values)
        return Array(array.shape, [scale * value for value in values])

    return {name: direction(array) for name, array in numbers.items()}


def sinusoids(shape: Shape) -> list[list[float]]:
    frequencies = [10000.0 ** (-i / shape.width) for i in range(0, shape.width, 2)]
    waves = (math.sin, math.cos)
    return [[wave(p * f) for f in frequencies for wave in waves] for p in range(shape.length)]


class Examples(NamedTuple):
    tokens: list[list[int]]
    labels: list[int] | list[list[int]]  # of every sequence, or of every token that is asked about
    places: list[list[int]]  # of these tokens, if not all are asked about


def random_examples(shape: Shape, count: int, random_numbers: random.Random) -> Examples:
    def draw(end: int, count: int) -> list[int]:
        return [random_numbers.randrange(end) for _ in range(count)]

    tokens = [draw(shape.vocabulary, shape.length) for _ in range(count)]
    places = [sorted(random_numbers.sample(range(shape.length), shape.asked)) for _ in tokens]
    if shape.questions:
        return Examples(tokens, [draw(shape.classes, shape.questions) for _ in tokens], places)
    return Examples(tokens, draw(shape.classes, count), places)


def rows_of_places(examples: Examples) -> list[int]:
    """The places that are asked about, counted over all sequences in a row."""
    length = len(examples.tokens[0])
    return [length * row + place for row, places in enumerate(examples.places) for place in places]


def even_pairs(shape: Shape, count: int, random_numbers: random.Random) -> Examples:
    """Uniform bits; the number of unequal neighbours is odd if the last bit is not the first."""
    bits = random_examples(shape._replace(vocabulary=2), count, random_numbers).tokens
    return Examples(bits, [int(row[0] != row[-1]) for row in bits], [[] for _ in bits])


# --- Peers ----------------------------------------------------------------------------------------


class Model(Protocol):
    """What a peer implements. Every method has finished its work when it returns."""

    def __init__(
        self, variant: str, mechanism: Mechanism, shape: Shape, numbers: Numbers, training: Training
    ) -> None: ...

    def batch(self, examples: Examples) -> Any:
        """Examples as the library wants them; the other methods take the result."""

    def train(self, batch: Any) -> None:
        """One step: forward pass, cross-entropy, backward pass, clipping, SGD."""

    def evaluate(self, batch: Any) -> None:
        """Logits, without dropout and without gradients."""

    def score(self, batch: Any) -> tuple[float, int]:
        """Sum of the losses and number of correct predictions, without dropout."""

    def parameters(self) -> dict[str, list[float]]:
        """Values in the order of `initial_numbers`."""

    def set_directions(self, first: Numbers, second: Numbers) -> None:
        """Makes the present parameters the centre of a surface."""

    def move(self, x: float, y: float) -> None:
        """Sets the parameters to centre + x first + y second."""


@dataclass(frozen=True)
class Peer:
    requirements: list[str]  # packages, to be installed and imported under these names
    variants: dict[str, list[str]]  # the kinds of mechanism that each variant can do
    environment: Callable[[str | None, int], dict[str, str]]  # for instruction set and threads

    def start(self) -> argparse.Namespace:
        """Reads the command line and sets the variables that the library reads on import."""
        parser = argparse.ArgumentParser()
        parser.add_argument("--describe", action="store_true", help="print variants, requirements")
        parser.add_argument("--check", action="store_true", help="print results instead of times")
        parser.add_argument("--variant", choices=self.variants, default=next(iter(self.variants)))
        parser.add_argument("--shape", choices=SHAPES, default="40")
        parser.add_argument("--mechanism", type=Mechanism.parse, default="full")
        parser.add_argument("--threads", type=int, default=1)
        parser.add_argument("--instructions", choices=INSTRUCTIONS, help="default: the best")
        parser.add_argument("--seconds", type=float, default=3.0, help="least time per step timed")
        parser.add_argument("--surface", action="store_true", help="time a loss surface instead")
        parser.add_argument("--cells", type=int, default=24, help="of the surface")
        parser.add_argument("--samples", type=int, default=1000, help="of every cell")
        arguments = parser.parse_args()
        if arguments.describe:
            print(json.dumps({"requirements": self.requirements, "variants": self.variants}))
            parser.exit()
        limit_cores(arguments.threads)
        os.environ.update(self.environment(arguments.instructions, arguments.threads))
        return arguments

    def run(
        self, arguments: argparse.Namespace, model: type[Model], uses: Callable[[], Result]
    ) -> None:
        """`uses` tells versions and instruction sets, as the library itself reports them."""
        if arguments.check:
            for text in CHECKED_MECHANISMS:
                if Mechanism.parse(text).kind in self.variants[arguments.variant]:
                    found = outcome(model, arguments.variant, Mechanism.parse(text))
                    print(json.dumps({"mechanism": text, "outcome": found}), flush=True)
            return
        try:
            work = measure_surface if arguments.surface else measure_steps
            result = work(arguments, model) | {"uses": uses()}
        except Exception as error:  # a variant that does not work here is a result, not a crash
            result = {"reason": (f"{type(error).__name__}: {error}").splitlines()[0]}
        print(json.dumps(result))


def limit_cores(threads: int) -> None:
    """One core for each thread, for this process and those it starts (on Linux).

    Some libraries have a pool of as many threads as asked for, and work in the main thread as well.
    Logical cores that share a physical one are taken only if there are too few others.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cores = sorted(os.sched_getaffinity(0))
    topology = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    siblings = {core: Path(topology.format(core)).read_text() for core in cores}
    preferred = {physical: core for core, physical in siblings.items()}.values()
    os.sched_setaffinity(0, sorted(cores, key=lambda core: core not in preferred)[:threads])


# --- Timing ---------------------------------------------------------------------------------------


def time_steps(step: Callable[[], None], seconds: float, least_steps: int) -> tuple[float, float]:
    """Median milliseconds of a step, and how many cores were busy on average."""
    for _ in range(WARM_UP_STEPS):
        step()
    times: list[float] = []
    start, processor_start = time.perf_counter(), time.process_time()
    while len(times) < least_steps or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - before))
    cores = (time.process_time() - processor_start) / (time.perf_counter() - start)
    return statistics.median(times), cores


def measure_steps(arguments: argparse.Namespace, model_type: type[Model]) -> Result:
    random_numbers, shape = random.Random(1), SHAPES[arguments.shape]
    numbers = initial_numbers(shape, random_numbers)
    model = model_type(arguments.variant, arguments.mechanism, shape, numbers, Training())
    batch = model.batch(random_examples(shape, shape.batch, random_numbers))
    limits = arguments.seconds, 3 if shape.length >= 600 else 5
    train_ms, train_cores = time_steps(lambda: model.train(batch), *limits)
    eval_ms, eval_cores = time_steps(lambda: model.evaluate(batch), *limits)
    return {
        "train_ms": train_ms,
        "eval_ms": eval_ms,
        "cores": max(train_cores, eval_cores),
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


# --- Loss surface ---------------------------------------------------------------------------------


def measure_surface(arguments: argparse.Namespace, model_type: type[Model]) -> Result:
    """The model is not trained: what the parameters are hardly changes the time."""
    random_numbers, shape = random.Random(1), SHAPES[arguments.shape]
    numbers = initial_numbers(shape, random_numbers)
    model = model_type(arguments.variant, arguments.mechanism, shape, numbers, Training())
    model.set_directions(*(gaussian_like(numbers, random_numbers) for _ in range(2)))
    examples = even_pairs(shape, arguments.samples, random_numbers)
    timed = {size: time_cells(model, examples, size, arguments.cells) for size in SURFACE_BATCHES}
    fastest = min(timed, key=timed.__getitem__)
    return {
        "cell_ms": timed[fastest][0],
        "batch": fastest,
        "cores": timed[fastest][1],
        "cell_ms_by_batch": {size: milliseconds for size, (milliseconds, _) in timed.items()},
    }


def time_cells(model: Model, examples: Examples, size: int, cells: int) -> tuple[float, float]:
    """Milliseconds per cell, and how many cores were busy on average."""
    batches = [model.batch(part) for part in split(examples, size)]

    def mean_loss(x: float, y: float) -> float:
        model.move(x, y)
        return sum(model.score(batch)[0] for batch in batches) / len(examples.labels)

    # This warms up, too.
    plain = sum(model.score(batch)[0] for batch in batches) / len(examples.labels)
    if not math.isclose(plain, mean_loss(0.0, 0.0), rel_tol=1e-5):
        raise ArithmeticError(f"the centre of the surface does not have the loss {plain}")
    start, processor_start = time.perf_counter(), time.process_time()
    losses = [mean_loss(x, y) for x, y in grid(cells)]
    seconds, processor = time.perf_counter() - start, time.process_time() - processor_start
    model.move(0.0, 0.0)
    if not all(map(math.isfinite, losses)):
        raise ArithmeticError(f"loss not finite: {losses}")
    return 1e3 * seconds / cells, processor / seconds


def split(examples: Examples, size: int) -> Iterator[Examples]:
    for start in range(0, len(examples.labels), size):
        yield Examples(*(part[start : start + size] for part in examples))


def grid(cells: int) -> list[tuple[float, float]]:
    """The first cells of a square grid on [-1, 1] x [-1, 1]."""
    side = max(math.ceil(math.sqrt(cells)), 2)
    ticks = [2 * i / (side - 1) - 1 for i in range(side)]
    return list(itertools.product(ticks, ticks))[:cells]


# --- Check ----------------------------------------------------------------------------------------

CHECKED_MECHANISMS = ("full", "topk:5", "banded:5", "banded:4", "block:5")
CHECKED_SHAPES = [
    Shape(length=43, blocks=2, vocabulary=7, classes=5),
    Shape(length=9, blocks=1, vocabulary=11, classes=70, width=32, per_token=True, mlp=48),
    Shape(length=9, blocks=2, vocabulary=31, classes=31, width=32, mlp=0, asked=3),
]
CHECKED_CLIP_NORM = 0.1


def outcome(model_type: type[Model], variant: str, mechanism: Mechanism) -> dict[str, list[float]]:
    """What must be equal in all variants: loss, gradients, a clipped step, a cell of a surface.

    Dropout is off. All variants start from the same parameters and examples.
    """
    return {
        f"{name}, {shape.classes} classes": values
        for shape in CHECKED_SHAPES
        for name, values in outcome_for(shape, model_type, variant, mechanism).items()
    }


def outcome_for(
    shape: Shape, model_type: type[Model], variant: str, mechanism: Mechanism
) -> dict[str, list[float]]:
    random_numbers = random.Random(1)
    numbers = initial_numbers(shape, random_numbers)
    directions = [gaussian_like(numbers, random_numbers) for _ in range(2)]
    examples = random_examples(shape, 11, random_numbers)

    def build(**training: float) -> Model:
        training = Training(dropout=0.0)._replace(**training)
        return model_type(variant, mechanism, shape, numbers, training)

    # With these settings, a step subtracts the gradient.
    model = build(learning_rate=1.0, clip_norm=math.inf)
    batch = model.batch(examples)
    found = {"score": list(model.score(batch))}
    model.train(batch)
    for name, after in model.parameters().items():
        before = numbers[name].values
        found[f"gradient of {name}"] = [b - a for b, a in zip(before, after, strict=True)]
    norm = math.hypot(*(x for name, g in found.items() if name != "score" for x in g))
    if norm < 2 * CHECKED_CLIP_NORM:
        raise ArithmeticError(f"a gradient of norm {norm} does not test clipping")

    model = build(clip_norm=CHECKED_CLIP_NORM)
    model.set_directions(*directions)
    model.move(0.5, -0.25)
    found["score of a cell"] = list(model.score(batch))
    model.move(0.0, 0.0)
    found["score of the centre"] = list(model.score(batch))
    model.train(batch)
    found |= {f"{name} after a step": after for name, after in model.parameters().items()}
    return found
