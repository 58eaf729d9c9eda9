"""Reads a run with the lines of the README. Usage: read_run.py RUN (a finished run of even-pairs with --smoke)"""

import glob
import pathlib
import sys

import pandas as pd

root = pathlib.Path(__file__).resolve().parents[4]
lines = [line for line in (root / "README.md").read_text().splitlines() if line.startswith(("trials = ", "df = "))]
assert len(lines) == 2, "the README shows two lines"
scope = {"glob": glob, "pd": pd, "run": sys.argv[1]}
exec("\n".join(lines), scope)
df = scope["df"]
assert list(df.columns[:11]) == [
    "epoch", "lr", "train_loss", "train_accuracy", "heldout_loss", "heldout_accuracy", "grad_norm", "seconds",
    "steps", "check", "format",
], df.columns
assert (df["steps"] == 2 * df["epoch"]).all(), "50 examples in batches of 25, one epoch after the untrained model"
assert set(df["mechanism"]) == {"full", "topk:5", "banded:5", "block:5"}, set(df["mechanism"])
assert (df["seed"] == 153476998).all() and sorted(df["epoch"]) == 4 * [0] + 4 * [1], df
assert df.dtypes["train_accuracy"] == float and df["train_accuracy"].between(0, 1).all()
print("the README's lines read", len(df), "lines into pandas")
