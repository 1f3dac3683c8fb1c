#!/usr/bin/env python3
"""Draws what measure_speculation.py recorded: the speed-up over the batch for several contexts, each strategy's best
setting with its gamma (MagicDec's Figures 6 and 7), and measured against predicted speed-ups; prints the best of each
cell as a table.

    bench/plot_speculation.py bench/results/speculation-cpu-DATE.json --by-batch docs/speed-up-by-batch.svg \\
        --predicted docs/predicted-and-measured.svg
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from xml.sax.saxutils import escape

from svg import legend, page, room_for, text

COLOURS = ["#228833", "#4477aa", "#aa3377", "#ccbb44", "#66ccee", "#ee6677", "#999999"]
LEFT, TOP, WIDTH, HEIGHT, ACROSS = 56, 84, 240, 180, 52
NEAR = 0.9  # of what was predicted


def family(row: dict) -> str:
    """What a line is drawn of: gamma is the best one's."""
    if row["strategy"] == "sparse_self":
        return f"self, K = {row['budget']}"
    if row["strategy"] == "draft model":
        return "draft, all it has"
    if row["strategy"].startswith("hierarchy"):
        return f"hierarchy, K = {row['budget']}"
    return f"draft, K = {row['budget']}"


def best_rows(rows: list[dict]) -> list[dict]:
    """The fastest gamma of each family in each cell, plain decoding left out."""
    best: dict[tuple, dict] = {}
    for row in rows:
        if row["strategy"] == "autoregressive":
            continue
        key = (row.get("devices", 1), row["context"], row["requests"], family(row))
        if key not in best or row["speed_up"] > best[key]["speed_up"]:
            best[key] = row
    return [best[key] for key in sorted(best)]


def share(row: dict) -> float:
    """Of the predicted speed-up."""
    return row["speed_up"] / row["predicted"]["speed_up"]


def table(rows: list[dict]) -> str:
    """Markdown; what was predicted in brackets."""
    plain = {
        (row.get("devices", 1), row["context"], row["requests"]): row
        for row in rows
        if row["strategy"] == "autoregressive"
    }
    lines = [
        "| devices | batch x context | draft | gamma | T_D, ms | T_V, ms | tokens a round | T_AR, ms | x | "
        "x of predicted |",
        "| --- " * 10 + "|",
    ]
    for row in best_rows(rows):
        cell = (row.get("devices", 1), row["context"], row["requests"])
        guess = row.get("predicted")

        def both(value: float, name: str) -> str:
            # In a hierarchy one Step serves several purposes, so its time cannot be split by them.
            known = guess and not (
                name.endswith("_ms") and name != "plain_ms" and row.get("check_rows")
            )
            return f"{value:.2f}" + (f" ({guess[name]:.2f})" if known else "")

        step = 1e3 * row["requests"] / plain[cell]["tokens_per_s"] if cell in plain else math.nan
        lines.append(
            f"| {cell[0]} | {row['requests']} x {row['context']} | {family(row)} | {row['gamma']} | "
            f"{both(row['draft_ms'], 'draft_ms')} | {both(row['verify_ms'], 'verify_ms')} | "
            f"{both(row['tokens_a_round'], 'tokens_a_round')} | {both(step, 'plain_ms')} | "
            f"{both(row['speed_up'], 'speed_up')} | {f'{share(row):.2f}' if guess else ''} |"
        )
    return "\n".join(lines)


def colours_of(rows: list[dict]) -> dict[str, str]:
    names = sorted({family(row) for row in rows})
    return {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(names)}


class Numbers:
    """Numbers beside points: above one, else below it, else left out, where another one stands."""

    def __init__(self) -> None:
        self.taken: list[tuple[float, float, float]] = []

    def place(self, x: float, y: float, content: str, colour: str, size: int = 10) -> list[str]:
        half = room_for(content, size) / 2
        for at in (y - 6, y + 6 + 0.76 * size):
            if all(
                abs(x - other_x) >= half + other_half or abs(at - other_y) >= size + 1
                for other_x, other_y, other_half in self.taken
            ):
                self.taken.append((x, at, half))
                return [text(x, at, content, colour=colour, size=size)]
        return []


def dot(x: float, y: float, colour: str, tip: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{colour}"><title>{escape(tip)}</title></circle>'


def drawing_by_batch(rows: list[dict]) -> str:
    """A panel a context: the best gamma of each family over the batch, which stands beside the point."""
    best = best_rows(rows)
    groups = sorted({(row.get("devices", 1), row["context"]) for row in best})
    counts = sorted({row["requests"] for row in best})
    colours = colours_of(best)
    highest = 0.5 * math.ceil(2 * max(1.5, *(row["speed_up"] for row in best)) + 0.2)
    span = max(math.log(counts[-1] / counts[0]), 1e-9)
    right = LEFT + max(len(groups), 3) * (WIDTH + ACROSS)
    entries, lower = legend(colours, LEFT, 52, right)
    top = TOP + 18 + lower
    out = [
        text(LEFT, 22, "Speed-up over plain decoding", "start", size=14),
        text(
            LEFT, 40, "by the sequences that decode at once; numbers are gamma", "start", "#555555"
        ),
        *entries,
    ]
    for column, (devices, context) in enumerate(groups):
        numbers = Numbers()
        left = LEFT + column * (WIDTH + ACROSS)
        on = f", {devices} devices" if devices > 1 else ""
        out.append(text(left, top - 10, f"{context:,} tokens each{on}", "start"))
        for half in range(round(2 * highest) + 1):
            y = top + HEIGHT * (1 - 0.5 * half / highest)
            out.append(
                f'<line x1="{left}" y1="{y:.1f}" x2="{left + WIDTH}" y2="{y:.1f}" '
                f'stroke="{"#222222" if half == 2 else "#e5e5e5"}"/>'
            )
            out.append(text(left - 6, y + 4, f"{half / 2:g}", "end", "#555555", 11))
        places = {count: left + WIDTH * math.log(count / counts[0]) / span for count in counts}
        for count in counts:
            out.append(
                text(places[count], top + HEIGHT + 16, str(count), colour="#555555", size=11)
            )
        for name, colour in colours.items():
            line = [
                row
                for row in best
                if (row.get("devices", 1), row["context"]) == (devices, context)
                and family(row) == name
            ]
            points = [
                (places[row["requests"]], top + HEIGHT * (1 - row["speed_up"] / highest))
                for row in line
            ]
            out.append(
                '<polyline points="'
                + " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
                + f'" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
            for row, (x, y) in zip(line, points):
                tip = f"{name}, {row['requests']} x {context}, gamma {row['gamma']}: {row['speed_up']:.2f}"
                out.append(dot(x, y, colour, tip))
                out += numbers.place(x, y, str(row["gamma"]), colour)
    return page(right, top + HEIGHT + 30, out)


def drawing_predicted(rows: list[dict]) -> str:
    """Every row with a prediction: its speed-up as predicted, across, and as measured."""
    both = [row for row in rows if row["strategy"] != "autoregressive" and "predicted" in row]
    if not both:
        raise ValueError("no row has a prediction")
    colours = colours_of(both)
    highest = 0.5 * math.ceil(
        2 * max(max(row["speed_up"], row["predicted"]["speed_up"]) for row in both)
    )
    side, right = 380, 720
    entries, lower = legend(colours, LEFT, 34, right)
    top = TOP + lower

    def place(predicted: float, measured: float) -> tuple[float, float]:
        return LEFT + side * predicted / highest, top + side * (1 - measured / highest)

    out = [
        text(
            LEFT,
            22,
            "Speed-up over plain decoding: predicted (across) and measured",
            "start",
            size=14,
        ),
        *entries,
    ]
    for half in range(round(2 * highest) + 1):
        x, y = place(half / 2, half / 2)
        out.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + side}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        )
        out.append(
            f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{top + side}" stroke="#e5e5e5"/>'
        )
        out.append(text(LEFT - 6, y + 4, f"{half / 2:g}", "end", "#555555", 11))
        out.append(text(x, top + side + 16, f"{half / 2:g}", colour="#555555", size=11))
    for slope, name in ((1.0, "as predicted"), (NEAR, f"{NEAR:.0%} of it")):
        (x0, y0), (x1, y1) = place(0, 0), place(highest, slope * highest)
        dash = "" if slope == 1.0 else ' stroke-dasharray="5 4"'
        out.append(
            f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#555555"{dash}/>'
        )
        out.append(text(x1 + 4, y1 + 4, name, "start", "#555555", 11))
    for row in both:
        x, y = place(row["predicted"]["speed_up"], row["speed_up"])
        out.append(
            dot(
                x,
                y,
                colours[family(row)],
                f"{family(row)}, {row['requests']} x {row['context']}, gamma {row['gamma']}: measured "
                f"{row['speed_up']:.2f}, predicted {row['predicted']['speed_up']:.2f}",
            )
        )
    return page(right, top + side + 30, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="+")
    parser.add_argument("--by-batch", default="", help="an SVG")
    parser.add_argument("--predicted", default="", help="an SVG")
    args = parser.parse_args()
    rows = [row for name in args.results for row in json.loads(Path(name).read_text())["rows"]]
    print(table(rows))
    if args.by_batch:
        Path(args.by_batch).write_text(drawing_by_batch(rows))
    if args.predicted:
        Path(args.predicted).write_text(drawing_predicted(rows))


if __name__ == "__main__":
    main()
