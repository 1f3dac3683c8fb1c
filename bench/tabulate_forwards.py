#!/usr/bin/env python3
"""Writes the tables of forwards into README.md and docs/performance.md, from bench/results.

    bench/tabulate_forwards.py [--check]

A line `<!-- bench/tabulate_forwards.py: NAME -->` in a page stands before the table NAME, which this
script replaces. Times have two digits after the point, everywhere. --check writes nothing and fails
where a page holds another table than would be written.
"""

from __future__ import annotations

import json
import re
import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/performance.md")
MARK = re.compile(r"(<!-- bench/tabulate_forwards\.py: (\w+) -->\n)((?:\|.*\n)*)")
FIGURE = re.compile(r"(.+), (\d+) GPUs?, (\d+) rows")

ONE_GPU = ("cuda-forwards-2026-11-27.json", "forwards")
TWO_GPUS = ("cuda-forwards-2026-11-27.json", "forwards, two GPUs")
MORE_GPUS = (
    "cuda-forwards-rounded-heads-2026-11-26.json",
    "forwards of 70B on three and four GPUs",
)
SOURCES = {1: ONE_GPU, 2: TWO_GPUS, 3: MORE_GPUS, 4: MORE_GPUS}

Line = tuple[str, int]  # a model as the results name it, and how many GPUs hold it
SMALL: list[Line] = [
    ("1B int4", 1),
    ("1B int4 with an int4 head", 1),
    ("1B bf16", 1),
    ("3B int4", 1),
    ("3B int4 with an int4 head", 1),
    ("8B int4", 1),
    ("8B int4 with an int8 head", 1),
    ("8B bf16", 1),
    ("70B int4, 1/4 of every layer", 1),
]
QUARTER: Line = ("70B int4, 1/4 of every layer with an int8 head", 1)
ROUNDED_70B: Line = ("70B int4 with an int8 head", 2)
GROUPS: list[Line] = [("70B int4", gpus) for gpus in (4, 3, 2, 1)]


class Table(NamedTuple):
    lines: list[Line]
    row_counts: tuple[int, ...]
    over: str  # what stands in brackets: "floor" or "target"


TABLES = {
    "readme": Table(SMALL + GROUPS, (1, 8, 16, 32), "floor"),
    "targets": Table([*SMALL, QUARTER, *GROUPS[:3], ROUNDED_70B], (1, 8, 16, 24, 32, 64), "target"),
    "groups": Table([*GROUPS[:3], ROUNDED_70B, GROUPS[3]], (1, 8, 16, 32), "floor"),
}


def forwards(results: Path) -> dict[tuple[str, int, int], dict]:
    """The recorded figures of forwards, by model, GPUs and rows."""
    found = {}
    for name, section in sorted(set(SOURCES.values())):
        content = json.loads((results / name).read_text(encoding="utf-8"))
        for figure in content[section]["figures"]:
            parts = FIGURE.fullmatch(figure["figure"])
            if parts and SOURCES[int(parts[2])] == (name, section):
                found[parts[1], int(parts[2]), int(parts[3])] = figure
    return found


def rounded(value: float, digits: int) -> str:
    """`value` as it is written in the results, rounded half up: 0.495 is 0.50."""
    return str(Decimal(repr(value)).quantize(Decimal(10) ** -digits, ROUND_HALF_UP))


def cell(figure: dict, over: str) -> str:
    """Milliseconds; in brackets times the floor, or the target, bold where it is missed."""
    time = rounded(figure["value"], 2)
    if over == "floor":
        return f"{time} ({rounded(figure['value'] / figure['floor'], 1)}x)"
    if "target" not in figure:
        return time
    target = float(figure["target"].removeprefix("<= "))
    return f"{time} ({target:.2f})" if figure["holds"] else f"**{time}** ({target:.2f})"


def text_of(table: Table, figures: dict[tuple[str, int, int], dict]) -> str:
    floor = table.over == "floor"
    columns = ["model", "GPUs"] + ["floor"] * floor
    columns += [f"{count} row{'s' * (count > 1)}" for count in table.row_counts]
    lines = [columns, ["---"] * len(columns)]
    for model, gpus in table.lines:
        row = [figures[model, gpus, count] for count in table.row_counts]
        floors = [rounded(row[0]["floor"], 2)] * floor
        lines.append([model, str(gpus), *floors, *(cell(figure, table.over) for figure in row)])
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def filled(page: str, figures: dict[tuple[str, int, int], dict]) -> str:
    """`page` with each marked table made anew."""
    return MARK.sub(lambda mark: mark[1] + text_of(TABLES[mark[2]], figures), page)


def main() -> int:
    figures = forwards(ROOT / "bench" / "results")
    stale = []
    for name in PAGES:
        path = ROOT / name
        page = path.read_text(encoding="utf-8")
        made = filled(page, figures)
        if made != page:
            stale.append(name)
            if "--check" not in sys.argv[1:]:
                path.write_text(made, encoding="utf-8")
    if stale and "--check" in sys.argv[1:]:
        print(f"{', '.join(stale)}: other tables than bench/results holds; run {sys.argv[0]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
