"""What the measured times amount to: speed-ups, the floors that semfocus promises, tables."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

Result = dict[str, Any]

DISTURBED_CORES = 0.1  # more than this share of a core used by others spoils a run


@dataclass(frozen=True)
class Floor:
    """A bound on a quantity of a step; None means any."""

    quantity: str  # one of QUANTITIES
    bound: float
    instructions: str | None = None
    shape: str | None = None
    mechanisms: tuple[str, ...] | None = None
    threads: int | None = None
    step: str = "train"
    at_most: bool = False

    def applies(self, row: Row) -> bool:
        setting = row.setting
        return (
            self.step == row.step
            and self.instructions in (None, row.instructions)
            and self.shape in (None, setting.shape)
            and (self.mechanisms is None or setting.mechanism in self.mechanisms)
            and self.threads in (None, setting.threads)
        )

    def met(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


QUANTITIES = ["vs eager", "vs best", "train/eval", "gemm share"]
SHORT = ("full", "topk:5")
TEXT = ("text", "text-tokens", "recall", "figure-19", "mqar")

FLOORS = [
    Floor("vs eager", 2.8, "avx2", "40", SHORT, threads=1),
    Floor("vs eager", 4.0, "avx2", "40", SHORT, threads=2),
    Floor("vs eager", 6.0, "avx2", "600", ("full",)),
    Floor("vs eager", 10.0, "avx2", "600", ("topk:5",)),
    Floor("vs eager", 15.0, "avx2", "600", ("banded:5",)),
    Floor("vs eager", 4.5, "avx512", "40", SHORT, threads=1),
    Floor("vs eager", 5.0, "avx512", "40", SHORT, threads=2),
    Floor("vs eager", 7.0, "avx512", "600", ("full",)),
    Floor("vs eager", 15.0, "avx512", "600", ("topk:5",)),
    Floor("vs eager", 20.0, "avx512", "600", ("banded:5",)),
    *(Floor("vs best", 2.5, shape=shape) for shape in ("40", "600")),
    *(Floor("train/eval", 3.5, shape=shape, at_most=True) for shape in ("40", "600")),
    *(Floor("vs eager", 3.0, shape=shape, mechanisms=("full",)) for shape in TEXT),
    *(Floor("vs best", 2.0, shape=shape, mechanisms=("full",)) for shape in ("figure-19", "mqar")),
    Floor("gemm share", 0.75, shape="40", mechanisms=("full",), threads=1),
    Floor("gemm share", 0.8, shape="600", mechanisms=("full",)),
    Floor("vs eager", 4.0, shape="40", mechanisms=SHORT, threads=2, step="cell"),
]


@dataclass(frozen=True)
class Setting:
    shape: str
    mechanism: str
    threads: int

    def __str__(self) -> str:
        return f"{self.shape}, {self.mechanism}, threads {self.threads}"


@dataclass
class Row:
    """One line of the tables: medians over the rounds, None where a variant does not work."""

    setting: Setting
    step: str  # train, eval or cell
    instructions: str | None
    semfocus_ms: float
    variant_ms: dict[str, float | None]
    best: str | None = None
    quantities: dict[str, float] = field(default_factory=dict)
    floors: dict[str, tuple[Floor, bool]] = field(default_factory=dict)  # by quantity; met?
    disturbed: bool = False


def evaluate(setting: Setting, runs: dict[str, list[Result]], step: str, complete: bool) -> Row:
    """`complete`: every variant that exists was measured, so the best of them is the best."""
    medians = {name: median(results, f"{step}_ms") for name, results in runs.items()}
    own, own_ms = runs["semfocus"], medians.pop("semfocus")
    row = Row(setting, step, own[0].get("instructions"), own_ms, medians)
    working = {name: value for name, value in medians.items() if value is not None}
    if working:
        row.best = min(working, key=working.__getitem__)
        row.quantities["vs best"] = working[row.best] / own_ms
    if "eager" in working:
        row.quantities["vs eager"] = working["eager"] / own_ms
    if step == "train":
        row.quantities["train/eval"] = own_ms / median(own, "eval_ms")
        row.quantities["gemm share"] = median(own, "gemm_share")
    row.floors = {
        floor.quantity: (floor, floor.met(row.quantities[floor.quantity]))
        for floor in FLOORS
        if floor.quantity in row.quantities and floor.applies(row)
        if complete or floor.quantity != "vs best"
    }
    row.disturbed = any(disturbed(result) for results in runs.values() for result in results)
    return row


def median(results: list[Result], name: str) -> float | None:
    values = [result.get(name) for result in results]
    return None if None in values else statistics.median(values)


def disturbed(result: Result) -> bool:
    return result["others_cores"] > DISTURBED_CORES


# --- Tables ---------------------------------------------------------------------------------------


def markdown(lines: list[list[str]]) -> str:
    """The first line is the header. Columns of plain numbers are aligned to the right."""
    columns = []
    for header, *cells in zip(*lines):
        width = max(map(len, [header, *cells]))
        if all(cell.replace(".", "").isdigit() or cell == "-" for cell in cells):
            rule, adjust = "-" * (width - 1) + ":", str.rjust
        else:
            rule, adjust = "-" * width, str.ljust
        columns.append([adjust(cell, width) for cell in [header, rule, *cells]])
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*columns))


def case(row: Row) -> list[str]:
    return [row.setting.shape, row.setting.mechanism, str(row.setting.threads), row.step]


CASE = ["shape", "mechanism", "threads", "step"]


def time_table(rows: list[Row], variants: list[str]) -> str:
    def cells(row: Row) -> list[str]:
        times = [row.semfocus_ms, *(row.variant_ms.get(variant) for variant in variants)]
        return ["-" if value is None else f"{value:.2f}" for value in times]

    return markdown([[*CASE, "semfocus", *variants], *(case(row) + cells(row) for row in rows)])


def floor_table(rows: list[Row]) -> str:
    shown = [name for name in QUANTITIES if any(name in row.quantities for row in rows)]

    def cell(row: Row, quantity: str) -> str:
        if quantity not in row.quantities:
            return "-"
        text = f"{row.quantities[quantity]:.2f}"
        if quantity not in row.floors:
            return text
        floor, met = row.floors[quantity]
        sign = "≤" if floor.at_most else "≥"
        return f"{text} ({sign} {floor.bound:g}{'' if met else ' MISSED'})"

    def cells(row: Row) -> list[str]:
        note = "DISTURBED" if row.disturbed else ""
        return [*(cell(row, name) for name in shown), row.best or "-", note]

    return markdown([[*CASE, *shown, "best", "note"], *(case(row) + cells(row) for row in rows)])


def floor_summary(rows: list[Row]) -> str:
    outcomes = [met for row in rows for _, met in row.floors.values()]
    return f"floors: {outcomes.count(True)} met, {outcomes.count(False)} missed"
