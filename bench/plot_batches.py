#!/usr/bin/env python3
"""Draws throughput and time between tokens over the number of requests, Forerun's and llama.cpp's, from what
measure_batches.py recorded, and prints the figures as a table.

    bench/measure_batches.py llama --llama .../llama-batched-bench --out bench/results/batches-DATE.json
    bench/plot_batches.py bench/results/batches-DATE.json docs/many-requests.svg

A column of panels a model. Time between tokens has a band from the median to the 99th percentile; llama.cpp's
bench reports means, and its sequences get a token in every step.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

from svg import page, text

COLOURS = {
    "forerun": "#228833",
    "llama.cpp bf16": "#4477aa",
    "llama.cpp q4_0": "#4477aa",
    "llama.cpp q4_1": "#aa3377",
}
LEFT, TOP, WIDTH, HEIGHT, ACROSS, DOWN = 66, 70, 220, 170, 72, 74

Lines = dict[str, list[dict]]  # an engine's rows by ascending number of requests


def by_model(rows: list[dict]) -> dict[str, Lines]:
    """In the order measured."""
    models: dict[str, Lines] = {}
    for row in rows:
        models.setdefault(row["model"], {}).setdefault(row["engine"], []).append(row)
    for lines in models.values():
        for line in lines.values():
            line.sort(key=lambda row: row["requests"])
    return models


def table(rows: list[dict]) -> str:
    """Markdown: tokens/s prompts included, tokens/s once all decode, median and p99 between tokens, last
    first token."""
    cells = [
        "| model | requests | tokens | engine | tokens/s | once all decode | between tokens, p99, ms | "
        "last first token, ms |",
        "| --- " * 8 + "|",
    ]
    for model, lines in by_model(rows).items():
        for row in sorted(
            (row for line in lines.values() for row in line), key=lambda row: row["requests"]
        ):
            between, first = row["between_tokens_ms"], row["time_to_first_token_ms"]
            decoding = row.get("decoding_tokens_per_s")
            cells.append(
                f"| {model} | {row['requests']} | {row['prompt']} + {row['tokens']} | "
                f"{row['engine']} | {row['tokens_per_s']:.1f} | "
                f"{f'{decoding:.1f}' if decoding else ''} | {between['p50']:.1f}, "
                f"{between['p99']:.1f} | {first['max']:.0f} |"
            )
    return "\n".join(cells)


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten that span both, for a logarithmic axis."""
    steps = [
        digit * 10.0**power
        for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        for digit in (1, 2, 5)
    ]
    first = max((step for step in steps if step <= low), default=steps[0])
    last = min((step for step in steps if step >= high), default=steps[-1])
    return [step for step in steps if first <= step <= last]


def panel(
    left: float,
    top: float,
    title: str,
    lines: Lines,
    counts: list[int],
    values: Callable[[dict], tuple[float, float]],
) -> list[str]:
    """One pair of axes, both logarithmic; `values` gives a row's value and the end of its band."""
    every = [value for line in lines.values() for row in line for value in values(row)]
    marks = ticks(min(every), max(every))
    low, high = math.log(marks[0]), math.log(marks[-1])
    span = max(math.log(counts[-1] / counts[0]), 1e-9)

    def x_of(count: int) -> float:
        return left + WIDTH * math.log(count / counts[0]) / span

    def y_of(value: float) -> float:
        return top + HEIGHT * (1 - (math.log(value) - low) / max(high - low, 1e-9))

    out = [text(left, top - 10, title, "start")]
    for mark in marks:
        out.append(
            f'<line x1="{left - 4}" y1="{y_of(mark):.1f}" x2="{left + WIDTH}" '
            f'y2="{y_of(mark):.1f}" stroke="#e5e5e5"/>'
        )
        out.append(text(left - 8, y_of(mark) + 4, f"{mark:g}", "end", "#555555", 11))
    for count in counts:
        out.append(text(x_of(count), top + HEIGHT + 16, str(count), colour="#555555", size=11))
    for engine, line in lines.items():
        colour = COLOURS.get(engine, "#222222")
        points = [(x_of(row["requests"]), *map(y_of, values(row))) for row in line]
        if any(abs(end - y) > 0.5 for _, y, end in points):
            around = [
                *((x, y) for x, y, _ in points),
                *((x, end) for x, _, end in reversed(points)),
            ]
            out.append(
                '<polygon points="'
                + " ".join(f"{x:.1f},{y:.1f}" for x, y in around)
                + f'" fill="{colour}" fill-opacity="0.15"/>'
            )
        out.append(
            '<polyline points="'
            + " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
            + f'" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        for row, (x, y, _) in zip(line, points):
            value, end = values(row)
            tip = f"{engine}, {row['requests']} requests: {value:.1f}" + (
                f", p99 {end:.1f}" if end != value else ""
            )
            out.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                f"<title>{escape(tip)}</title></circle>"
            )
    return out


def drawing(rows: list[dict], machine: str) -> str:
    models = by_model(rows)
    counts = sorted({row["requests"] for row in rows})
    width = LEFT + len(models) * (WIDTH + ACROSS)
    bottom = TOP + 2 * HEIGHT + DOWN
    out = [
        text(LEFT, 22, "Throughput, prompts included, and time between tokens", "start", size=14),
        text(LEFT, 40, machine, "start", "#555555"),
    ]
    for column, (model, lines) in enumerate(models.items()):
        left = LEFT + column * (WIDTH + ACROSS)
        out += panel(
            left,
            TOP,
            f"{model}, tokens/s",
            lines,
            counts,
            lambda row: (row["tokens_per_s"], row["tokens_per_s"]),
        )
        out += panel(
            left,
            TOP + HEIGHT + DOWN,
            "ms between tokens, median to p99",
            lines,
            counts,
            lambda row: (
                max(row["between_tokens_ms"]["p50"], 0.01),
                max(row["between_tokens_ms"]["p99"], 0.01),
            ),
        )
        out.append(text(left + WIDTH / 2, bottom + 34, "requests", colour="#555555", size=11))
    x = LEFT
    for engine in dict.fromkeys(row["engine"] for row in rows):
        out.append(
            f'<rect x="{x}" y="{bottom + 46}" width="10" height="10" '
            f'fill="{COLOURS.get(engine, "#222222")}"/>'
        )
        out.append(text(x + 16, bottom + 55, engine, "start"))
        x += 40 + 7 * len(engine)
    return page(width, bottom + 66, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results")
    parser.add_argument("svg")
    args = parser.parse_args()
    section = json.loads(Path(args.results).read_text())["llama"]
    facts = section["machine"]
    name = (
        facts["gpus"][0].split(",")[0]
        if facts.get("gpus")
        else f"{facts['processor']}, {facts['cores']} cores"
    )
    print(table(section["rows"]))
    Path(args.svg).write_text(
        drawing(section["rows"], f"{name}, {section['date'][:10]}, commit {section['commit']}")
    )


if __name__ == "__main__":
    main()
