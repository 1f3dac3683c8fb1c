#!/usr/bin/env python3
"""Draws how far whole forwards are above the time that reading their weights once takes, by model,
number of GPUs and rows, from what measure_cuda.py recorded, and prints the figures as a table.

    bench/measure_cuda.py forwards
    bench/plot_cuda.py bench/results/cuda-DATE.json docs/forward-over-floor.svg

Of several results, as of machines with different numbers of GPUs, and of several sections of one whose names
begin with "forwards", the first one's figures are shown, and of the others those that it does not have.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from xml.sax.saxutils import escape

from svg import page, text

ROUNDED_HEAD = " with an "  # in a model's name
COLOURS = {1: "#bbbbbb", 8: "#4477aa", 16: "#66ccee", 32: "#228833"}
LEFT, TOP, PLOT_HEIGHT, BAR, GAP = 60, 56, 260, 29, 26


def groups_of(rows: list[dict]) -> dict[tuple[str, int], list[dict]]:
    """Forwards by model and GPUs, in the order measured, rows ascending."""
    groups: dict[tuple[str, int], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["model"], row["gpus"]), []).append(row)
    for group in groups.values():
        group.sort(key=lambda row: row["rows"])
    return groups


def forwards_of(results: Path) -> list[dict]:
    """The sections of a results file whose names begin with "forwards"."""
    sections = json.loads(results.read_text())
    return [section for name, section in sections.items() if name.startswith("forwards")]


def joined(results: list[list[dict]]) -> list[dict]:
    """The first result's rows, then of each other one the models and GPUs that are not there yet."""
    rows: list[dict] = []
    for result in results:
        known = set(groups_of(rows))
        rows += [row for row in result if (row["model"], row["gpus"]) not in known]
    return rows


def table(rows: list[dict]) -> str:
    """Markdown: milliseconds, in brackets over the floor."""
    counts = sorted({row["rows"] for row in rows})
    lines = [
        "| model | GPUs | floor | "
        + " | ".join(f"{count} row{'s' * (count > 1)}" for count in counts)
        + " |",
        "| --- " * (3 + len(counts)) + "|",
    ]
    for (model, gpus), group in groups_of(rows).items():
        cells = {
            row["rows"]: f"{row['ms']:.2f} ({row['ms'] / row['floor_ms']:.1f}x)" for row in group
        }
        lines.append(
            f"| {model} | {gpus} | {group[0]['floor_ms']:.2f} | "
            + " | ".join(cells.get(count, "") for count in counts)
            + " |"
        )
    return "\n".join(lines)


def drawing(rows: list[dict], machine: str) -> str:
    """Of heads as stored, and of as many rows as there are colours for."""
    rows = [row for row in rows if row["rows"] in COLOURS and ROUNDED_HEAD not in row["model"]]
    groups = groups_of(rows)
    top = max(2, math.ceil(max(row["ms"] / row["floor_ms"] for row in rows)))
    width = LEFT + sum(BAR * len(group) + GAP for group in groups.values()) + 10
    bottom = TOP + PLOT_HEIGHT
    out = [
        text(
            LEFT,
            20,
            "A forward's time over reading its weights once at 4.55 TB/s a GPU, context 1,000",
            "start",
            size=14,
        ),
        text(LEFT, 38, f"{machine}; above a bar, milliseconds", "start", "#555555"),
    ]
    for tick in range(top + 1):
        y = bottom - PLOT_HEIGHT * tick / top
        colour = "#cc3311" if tick == 1 else "#e5e5e5"
        out.append(
            f'<line x1="{LEFT - 4}" y1="{y:.1f}" x2="{width - 10}" y2="{y:.1f}" stroke="{colour}"/>'
        )
        out.append(text(LEFT - 10, y + 4, f"{tick} x", "end", "#555555"))
    x = LEFT + GAP / 2
    for (model, gpus), group in groups.items():
        for idx, row in enumerate(group):
            over = row["ms"] / row["floor_ms"]
            height = PLOT_HEIGHT * over / top
            tip = (
                f"{model}, {gpus} GPU, {row['rows']} rows: {row['ms']:.3f} ms, floor "
                f"{row['floor_ms']:.3f} ms, {over:.2f} times"
            )
            out.append(
                f'<rect x="{x + idx * BAR:.1f}" y="{bottom - height:.1f}" '
                f'width="{BAR - 3}" height="{height:.1f}" '
                f'fill="{COLOURS[row["rows"]]}">'
                f"<title>{escape(tip)}</title></rect>"
            )
            out.append(
                text(
                    x + idx * BAR + BAR / 2 - 1,
                    bottom - height - 4,
                    f"{row['ms']:.2g}" if row["ms"] < 10 else f"{row['ms']:.0f}",
                    colour="#555555",
                    size=10,
                )
            )
        middle = x + BAR * len(group) / 2
        name, _, part = model.partition(", ")
        for line, content in enumerate((name, part or f"{gpus} GPU{'s' * (gpus > 1)}")):
            out.append(text(middle, bottom + 16 + 13 * line, content, size=11))
        x += BAR * len(group) + GAP
    x = LEFT
    for count, colour in COLOURS.items():
        out.append(f'<rect x="{x}" y="{bottom + 46}" width="10" height="10" fill="{colour}"/>')
        out.append(text(x + 16, bottom + 55, f"{count} row{'s' * (count > 1)}", "start"))
        x += 80
    return page(width, bottom + 66, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+")
    parser.add_argument("svg")
    args = parser.parse_args()
    sections = [section for path in args.results for section in forwards_of(Path(path))]
    if not sections:
        parser.error(f"no section of {', '.join(args.results)} begins with 'forwards'")
    rows = joined([section["rows"] for section in sections])
    gpu = sections[0]["machine"].get("gpus", ["GPU"])[0].split(",")[0]
    print(table(rows))
    Path(args.svg).write_text(drawing(rows, f"{gpu}, {sections[0]['date'][:10]}"))


if __name__ == "__main__":
    main()
