#!/usr/bin/env python3
"""Tests of what the comparison concludes from times, without any peer: `bench/peers/tests.py`."""

import random
import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent / "peers"))

from common import Mechanism, Shape, initial_numbers  # noqa: E402
from floors import Setting, evaluate, floor_table  # noqa: E402
from figure import bars, draw, rows_of_table  # noqa: E402


def runs(instructions="avx2", eager=20.0, jax=16.0, others_cores=0.0):
    own = {"instructions": instructions, "train_ms": 5.0, "eval_ms": 2.0, "gemm_share": 0.7}
    peers = {"eager": {"train_ms": eager, "eval_ms": 6.0}, "jax": {"train_ms": jax, "eval_ms": 9.0}}
    return {
        name: [result | {"others_cores": others_cores}]
        for name, result in ({"semfocus": own} | peers).items()
    }


def verdicts(row):
    return {name: (floor.bound, met) for name, (floor, met) in row.floors.items()}


class Floors(unittest.TestCase):
    def test_floors_depend_on_instructions_and_threads(self):
        one, two = Setting("40", "full", 1), Setting("40", "full", 2)
        own = {"train/eval": (3.5, True), "vs best": (2.5, True)}
        shares = {"gemm share": (0.75, False)}
        found = verdicts(evaluate(one, runs("avx2"), "train", True))
        self.assertEqual(found, own | shares | {"vs eager": (2.8, True)})
        found = verdicts(evaluate(one, runs("avx512"), "train", True))
        self.assertEqual(found, own | shares | {"vs eager": (4.5, False)})
        found = verdicts(evaluate(two, runs("avx2"), "train", True))
        self.assertEqual(found, own | {"vs eager": (4.0, True)})

    def test_best_is_the_fastest_of_all_peers(self):
        row = evaluate(Setting("600", "banded:5", 2), runs(jax=12.0), "train", True)
        self.assertEqual((row.best, row.quantities["vs best"]), ("jax", 2.4))
        self.assertEqual(verdicts(row)["vs best"], (2.5, False))
        self.assertEqual(verdicts(row)["vs eager"], (15.0, False))

    def test_no_verdict_on_the_best_if_variants_are_missing(self):
        row = evaluate(Setting("40", "full", 1), runs(), "train", False)
        self.assertNotIn("vs best", verdicts(row))

    def test_evaluation_has_no_floors(self):
        row = evaluate(Setting("40", "full", 1), runs(), "eval", True)
        self.assertEqual(row.quantities, {"vs eager": 3.0, "vs best": 3.0})
        self.assertEqual(verdicts(row), {})

    def test_a_variant_that_fails_is_left_out(self):
        broken = runs() | {"eager": [{"reason": "no compiler", "others_cores": 0.0}]}
        row = evaluate(Setting("40", "full", 1), broken, "train", True)
        self.assertEqual((row.variant_ms["eager"], row.best), (None, "jax"))
        self.assertNotIn("vs eager", row.quantities)

    def test_the_table_shows_what_was_missed_and_disturbed(self):
        row = evaluate(Setting("40", "full", 1), runs(eager=13.0, others_cores=0.5), "train", True)
        line = floor_table([row]).splitlines()[-1]
        self.assertIn("2.60 (≥ 2.8 MISSED)", line)
        self.assertIn("2.50 (≤ 3.5)", line)
        self.assertIn("DISTURBED", line)


class Numbers(unittest.TestCase):
    def test_masks(self):
        def kept(text, length):
            mask = Mechanism.parse(text).mask(length)
            return [[key for key in range(length) if row[key]] for row in mask]

        self.assertEqual(kept("banded:3", 4), [[0, 1, 2], [0, 1, 2], [1, 2, 3], [1, 2, 3]])
        self.assertEqual(kept("banded:2", 4), [[0, 1], [1, 2], [2, 3], [2, 3]])
        self.assertEqual(kept("banded:9", 2), [[0, 1], [0, 1]])
        self.assertEqual(kept("block:2", 3), [[0, 1], [0, 1], [2]])
        self.assertIsNone(Mechanism.parse("topk:5").mask(4))

    def test_parameters(self):
        numbers = initial_numbers(Shape(40, 5, 3, 2), random.Random(1))
        count = sum(len(array.values) for array in numbers.values())
        self.assertEqual(count, 3 * 64 + 5 * 6 * (64 * 64 + 64) + 64 * 2 + 2)
        self.assertLessEqual(max(numbers["blocks.4.mlp.output.weight"].values), 1 / 8)


class Figure(unittest.TestCase):
    DOCS = Path(__file__).resolve().parents[2] / "docs"

    def test_the_figure_is_that_of_the_table(self):
        rows = rows_of_table((self.DOCS / "speed.md").read_text())
        self.assertEqual((self.DOCS / "speed.svg").read_text(), draw(rows) + "\n")

    def test_no_bar_is_drawn_twice_and_the_fastest_has_a_name(self):
        rows = rows_of_table((self.DOCS / "speed.md").read_text())
        self.assertEqual([(row["shape"], row["mechanism"]) for row in rows[:2]], [("40", "full"), ("40", "topk:5")])
        for row in rows:
            names, times = zip(*bars(row))
            self.assertEqual(len(set(times)), len(times), row)
            fastest = [name for name in names if "the fastest peer" in name]
            self.assertEqual(len(fastest), 1, names)
            self.assertEqual(dict(bars(row))[fastest[0]], min(row["variant_ms"].values()))
            self.assertEqual(any(name.startswith("JAX") for name in names), row["shape"] == "40", "JAX was measured at length 40")


if __name__ == "__main__":
    unittest.main()
