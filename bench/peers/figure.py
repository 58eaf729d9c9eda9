#!/usr/bin/env python3
"""Draw the figure of training times from what `compare --json` wrote, or from the table of AVX-512 times in docs/speed.md.

    bench/peers/figure.py FILE… > docs/speed.svg
    bench/peers/figure.py docs/speed.md > docs/speed.svg
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

# Okabe and Ito's palette, which colour-blind people can tell apart: by library.
COLOURS = {"semfocus": "#0072B2", "PyTorch": "#E69F00", "JAX": "#009E73"}
NAMES = {
    "eager": "PyTorch, eager",
    "sdpa": "PyTorch, sdpa",
    "gather": "PyTorch, gathering the kept keys",
    "compiled": "PyTorch, compiled",
    "jax": "JAX, jit",
    "jax-gather": "JAX, gathering the kept keys",
}
WIDTH, LEFT, RIGHT, BAR, GAP = 860, 160, 390, 13, 16


def rows_of(paths: list[str]) -> list[dict]:
    """Training steps at the largest number of threads, one row for each shape and mechanism."""
    if paths[0].endswith(".md"):
        return rows_of_table(Path(paths[0]).read_text())
    rows = [row for path in paths for row in json.loads(Path(path).read_text())["rows"]]
    rows = [row | row["setting"] for row in rows if row["step"] == "train" and row["setting"]["shape"].isdigit()]
    threads = max(row["threads"] for row in rows)
    return sorted((row for row in rows if row["threads"] == threads), key=lambda row: int(row["shape"]))


def rows_of_table(text: str) -> list[dict]:
    """The columns with two threads of the table of times with AVX-512. A heading that leaves something out means the same as the one before."""
    table = next(part for part in text.split("\n\n") if part.startswith("| AVX-512 |"))
    lines = [[cell.strip().replace(",", "") for cell in line.strip("|").split("|")] for line in table.splitlines()]
    names = {"semfocus": "semfocus", "eager": "eager", "scaled_dot_product_attention": "sdpa", "jit": "jax"}
    rows, place = [], {}
    for column, title in list(enumerate(lines[0]))[1:]:
        found = re.fullmatch(r"(?:L (?P<shape>\d+) ?)?(?P<mechanism>[a-z]\S*)? ?(?:(?P<threads>\d+) threads?)?", title)
        place |= {key: value for key, value in found.groupdict().items() if value}
        times = {}
        for line in lines[2:]:
            name = next((short for word, short in names.items() if word in line[0]), None)
            if "gathering" in line[0]:
                name = "jax-gather" if line[0].startswith("JAX") else "gather"
            if name and line[column] and not line[0].startswith("ratio"):
                times[name] = float(line[column])
        if place["threads"] == "2":
            rows.append(place | {"threads": 2, "semfocus_ms": times.pop("semfocus"), "variant_ms": times})
    return sorted(rows, key=lambda row: int(row["shape"]))


def bars(row: dict) -> list[tuple[str, float]]:
    """semfocus, PyTorch as it is commonly written, JAX where it was measured, and the fastest of all others by its name."""
    times = {name: time for name, time in row["variant_ms"].items() if time}
    fastest = min(times, key=times.get)
    shown = [name for name in ("eager", "jax") if name in times]
    if fastest not in shown:
        shown.append(fastest)
    named = [(NAMES[name] + (" (the fastest peer)" if name == fastest else ""), times[name]) for name in shown]
    return [("semfocus", row["semfocus_ms"]), *named]


def draw(rows: list[dict]) -> str:
    lines: list[str] = []
    text = lambda x, y, what, more="": lines.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{what}</text>')  # noqa: E731
    y = 42
    for row in rows:
        group = bars(row)
        longest = max(time for _, time in group)
        text(LEFT - 12, y + len(group) * BAR / 2 + 4, f'{row["mechanism"]}, length {row["shape"]}', 'text-anchor="end"')
        for name, time in group:
            width = (WIDTH - LEFT - RIGHT) * time / longest
            colour = COLOURS[name.split(",")[0].split(" (")[0]]
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 1}" fill="{colour}"/>')
            ratio = "" if name == "semfocus" else f", {time / group[0][1]:.1f}×"
            text(LEFT + width + 6, y + BAR - 3, f"{name}: {time:.{0 if time >= 100 else 1}f} ms{ratio}", 'class="value"')
            y += BAR
        y += GAP
    threads = rows[0]["threads"]
    title = f"Time of a training step, batch 25, {threads} threads (shorter is better; each group has its own scale)"
    text(16, 20, title, 'font-weight="600"')
    style = "text{font:13px system-ui,sans-serif;fill:#222}.value{font-size:12px}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img"><style>{style}</style>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{y}" fill="#fff"/>', *lines, "</svg>"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print(draw(rows_of(sys.argv[1:])))
