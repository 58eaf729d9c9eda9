"""Reads a run with the lines of docs/run-store.md, and what `semfocus export` prints of it.

Usage: read_run.py RUN [SEMFOCUS] (a finished run of even-pairs with --smoke; the program)"""

import glob
import io
import pathlib
import subprocess
import sys

import pandas as pd

root = pathlib.Path(__file__).resolve().parents[4]
lines = [line for line in (root / "docs/run-store.md").read_text().splitlines() if line.startswith(("trials = ", "df = "))]
assert len(lines) == 2, "the page shows two lines"
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
print("the lines of the page read", len(df), "lines into pandas")

if len(sys.argv) > 2:
    def exported(form):
        return io.StringIO(subprocess.run([sys.argv[2], "export", sys.argv[1], "--format", form], check=True, capture_output=True, text=True).stdout)

    table, lines = pd.read_csv(exported("csv")), pd.read_json(exported("jsonl"), lines=True)
    pd.testing.assert_frame_equal(table, lines[table.columns], check_dtype=False)
    keys, metrics = ["mechanism", "seed", "epoch"], ["train_loss", "train_accuracy", "heldout_loss", "heldout_accuracy", "seconds"]
    one, other = (frame.sort_values(keys).reset_index(drop=True)[keys + metrics] for frame in (table, df))
    pd.testing.assert_frame_equal(one, other, check_dtype=False, check_exact=True)
    assert set(table["task"]) == {"even-pairs"} and set(table["state"]) == {"finished"}, table
    print("semfocus export gives the same", len(table), "lines")
