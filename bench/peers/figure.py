#!/usr/bin/env python3
"""Draw the figure of the README from what `compare --json` wrote.

    bench/peers/figure.py FILE… > docs/speed.svg
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Okabe and Ito's palette, which colour-blind people can tell apart.
COLOURS = {"semfocus": "#0072B2", "PyTorch, eager": "#E69F00", "the fastest peer": "#999999"}
WIDTH, LEFT, RIGHT, BAR, GAP = 760, 170, 130, 13, 16


def rows_of(paths: list[str]) -> list[dict]:
    """Training steps at the largest number of threads, one row for each shape and mechanism."""
    rows = [row for path in paths for row in json.loads(Path(path).read_text())["rows"]]
    rows = [row | row["setting"] for row in rows if row["step"] == "train" and row["setting"]["shape"].isdigit()]
    threads = max(row["threads"] for row in rows)
    return sorted((row for row in rows if row["threads"] == threads), key=lambda row: int(row["shape"]))


def bars(row: dict) -> list[tuple[str, float]]:
    times = row["variant_ms"]
    best = min(time for time in times.values() if time)
    return list(zip(COLOURS, [row["semfocus_ms"], times["eager"], best]))


def draw(rows: list[dict]) -> str:
    lines: list[str] = []
    text = lambda x, y, what, more="": lines.append(f'<text x="{x:.1f}" y="{y:.1f}" {more}>{what}</text>')  # noqa: E731
    y = 58
    for row in rows:
        group = bars(row)
        longest = max(time for _, time in group)
        text(LEFT - 12, y + 1.5 * BAR + 4, f'{row["mechanism"]}, length {row["shape"]}', 'text-anchor="end"')
        for name, time in group:
            width = (WIDTH - LEFT - RIGHT) * time / longest
            lines.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 1}" fill="{COLOURS[name]}"/>')
            ratio = "" if name == "semfocus" else f" ({time / group[0][1]:.1f}×)"
            text(LEFT + width + 6, y + BAR - 3, f"{time:.{0 if time >= 100 else 1}f} ms{ratio}", 'class="value"')
            y += BAR
        y += GAP
    x = LEFT
    for name, colour in COLOURS.items():
        lines.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>')
        text(x + 17, 42, name)
        x += 40 + 7 * len(name)
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
