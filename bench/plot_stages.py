#!/usr/bin/env python3
"""Draws milliseconds a token over the number of stages, by width and link, from what simulate_stages
recorded, and prints the figures as a table.

    simulate_stages … --stages 2,4,8,16 --widths 4,16,64 --gbit 10 1 --latency-ms 1 5 --json FILE
    bench/plot_stages.py FILE docs/stages.svg

A column of panels a text, a row a link.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

from svg import legend, page, text

COLOURS = {
    "plain": "#888888",
    "levels 4": "#99ccee",
    "levels 16": "#4477aa",
    "levels 64": "#223388",
    "adaptive": "#228833",
}
NAMES = {
    "plain": "plain pipelining",
    "levels 4": "levels, w = 4",
    "levels 16": "levels, w = 16",
    "levels 64": "levels, w = 64",
    "adaptive": "adaptive",
}
LEFT, TOP, WIDTH, HEIGHT, ACROSS, DOWN = 64, 74, 250, 170, 84, 64
TICKS = (10, 20, 50, 100, 200, 500, 1000)


def text_of(row: dict) -> str:
    kind = row["text"].removeprefix("demo_")
    return f"{kind} greedy" if row["temperature"] == 0 else f"{kind} at {row['temperature']:.1f}"


def link_of(row: dict) -> str:
    return f"{row['gbit_per_s']:g} Gb/s, {row['latency_ms']:g} ms"


def distinct(values) -> list:
    return list(dict.fromkeys(values))


def table(rows: list[dict]) -> str:
    """Markdown: milliseconds a token, and in brackets plain pipelining's over them."""
    stages = sorted(distinct(row["stages"] for row in rows))
    lines = [
        "| text | link | setting | " + " | ".join(f"{count} stages" for count in stages) + " |",
        "| --- " * (3 + len(stages)) + "|",
    ]
    for kind in distinct(map(text_of, rows)):
        for link in distinct(map(link_of, rows)):
            for setting in COLOURS:
                cells = {
                    row["stages"]: row
                    for row in rows
                    if text_of(row) == kind and link_of(row) == link and row["setting"] == setting
                }
                if not cells:
                    continue
                lines.append(
                    f"| {kind} | {link} | {NAMES[setting]} | "
                    + " | ".join(
                        f"{cells[count]['ms_per_token']:.1f} ({cells[count]['over_plain']:.2f})"
                        if count in cells
                        else ""
                        for count in stages
                    )
                    + " |"
                )
    return "\n".join(lines)


def panel(
    rows: list[dict], left: float, top: float, stages: list[int], low: float, high: float
) -> list[str]:
    def x(count: int) -> float:
        return left + WIDTH * math.log(count / stages[0]) / math.log(stages[-1] / stages[0])

    def y(ms: float) -> float:
        return top + HEIGHT * (1 - math.log(ms / low) / math.log(high / low))

    out = []
    for tick in TICKS:
        if low <= tick <= high:
            out.append(
                f'<line x1="{left}" x2="{left + WIDTH}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" '
                'stroke="#e5e5e5"/>'
            )
            out.append(text(left - 6, y(tick) + 4, str(tick), "end", "#555555", 11))
    for count in stages:
        out.append(text(x(count), top + HEIGHT + 16, str(count), colour="#555555", size=11))
    for setting, colour in COLOURS.items():
        line = sorted(
            (row for row in rows if row["setting"] == setting), key=lambda row: row["stages"]
        )
        points = " ".join(f"{x(row['stages']):.1f},{y(row['ms_per_token']):.1f}" for row in line)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [
            f'<circle cx="{x(row["stages"]):.1f}" cy="{y(row["ms_per_token"]):.1f}" r="3" '
            f'fill="{colour}"><title>{NAMES[setting]}, {row["stages"]} stages: '
            f"{row['ms_per_token']:.1f} ms</title></circle>"
            for row in line
        ]
    return out


def drawing(rows: list[dict]) -> str:
    rows = [row for row in rows if row["setting"] in COLOURS]
    texts, links = distinct(map(text_of, rows)), distinct(map(link_of, rows))
    stages = sorted(distinct(row["stages"] for row in rows))
    times = [row["ms_per_token"] for row in rows]
    low = max((tick for tick in TICKS if tick <= min(times)), default=min(times))
    high = max(times) * 1.15
    width = LEFT + len(texts) * (WIDTH + ACROSS) - ACROSS + 40
    drawn = {
        NAMES[setting]: colour
        for setting, colour in COLOURS.items()
        if any(row["setting"] == setting for row in rows)
    }
    entries, lower = legend(drawn, LEFT, 38, width)
    top_of_all = TOP + 10 + lower
    out = [
        text(
            LEFT, 24, "Milliseconds a token by the number of stages of one model", "start", size=14
        ),
        *entries,
    ]
    for column, kind in enumerate(texts):
        for row_idx, link in enumerate(links):
            left, top = LEFT + column * (WIDTH + ACROSS), top_of_all + row_idx * (HEIGHT + DOWN)
            out.append(text(left, top - 8, f"{kind}, {link}", "start"))
            out += panel(
                [row for row in rows if text_of(row) == kind and link_of(row) == link],
                left,
                top,
                stages,
                low,
                high,
            )
    height = top_of_all + len(links) * (HEIGHT + DOWN) - 20
    return page(width, height, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path)
    parser.add_argument("svg", type=Path)
    arguments = parser.parse_args()
    recorded = json.loads(arguments.results.read_text())
    rows = recorded["rows"] if isinstance(recorded, dict) else recorded
    arguments.svg.write_text(drawing(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
