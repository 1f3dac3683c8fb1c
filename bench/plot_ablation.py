#!/usr/bin/env python3
"""Prints the table of speculation sequentially and concurrently that measure_engine.py recorded (SwiftSpec's
Figure 8 and the columns of its Table 6), and draws it.

    bench/measure_engine.py table6 --out bench/results/engine.json
    bench/plot_ablation.py bench/results/engine.json docs/ablation.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from xml.sax.saxutils import escape

from svg import page, text

COLOURS = {"autoregressive": "#bbbbbb", "serial_tree": "#4477aa", "parallel_tree": "#228833"}
LEFT, TOP, PLOT_HEIGHT, BAR, GAP = 70, 56, 240, 34, 44


def table(rows: list[dict]) -> str:
    cells = [("prompts", "strategy", "d", "tokens/s", "target ms", "draft ms", "tokens/step", "")]
    base = 1.0
    for row in rows:
        if row["strategy"] == "autoregressive":
            base = row["tokens_per_s"]
        drafts = row["depth"] > 0
        cells.append(
            (
                row["prompts"],
                row["strategy"],
                str(row["depth"]) if drafts else "-",
                f"{row['tokens_per_s']:.1f}",
                f"{row['target_ms']:.2f}",
                f"{row['draft_ms']:.2f}" if drafts else "-",
                f"{row['tokens_per_step']:.2f}",
                f"{row['tokens_per_s'] / base:.2f}x",
            )
        )
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if i < 2 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths))
        )
        for line in cells
    )


def drawing(rows: list[dict]) -> str:
    groups: dict[str, list[dict]] = {}
    for row in rows:
        groups.setdefault(row["prompts"], []).append(row)
    top = 50 * (int(max(row["tokens_per_s"] for row in rows) / 50) + 1)
    width = LEFT + sum(BAR * len(group) + GAP for group in groups.values()) + 10
    bottom = TOP + PLOT_HEIGHT
    out = [
        text(
            LEFT,
            20,
            "tokens/s at the Step times of SwiftSpec's Table 6, the demo pair's acceptance",
            "start",
            size=14,
        ),
        text(LEFT, 38, "above a bar, tokens a target step", "start", "#555555"),
    ]
    for tick in range(0, top + 1, 50):
        y = bottom - PLOT_HEIGHT * tick / top
        out.append(
            f'<line x1="{LEFT - 4}" y1="{y:.1f}" x2="{width - 10}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        )
        out.append(text(LEFT - 10, y + 4, str(tick), "end", "#555555"))
    x = LEFT + GAP / 2
    for name, group in groups.items():
        for idx, row in enumerate(group):
            height = PLOT_HEIGHT * row["tokens_per_s"] / top
            left = x + idx * BAR
            tip = (
                f"{row['strategy']}: {row['tokens_per_s']:.1f} tokens/s, target "
                f"{row['target_ms']:.2f} ms, draft {row['draft_ms']:.2f} ms"
            )
            out.append(
                f'<rect x="{left:.1f}" y="{bottom - height:.1f}" width="{BAR - 4}" '
                f'height="{height:.1f}" fill="{COLOURS[row["strategy"]]}">'
                f"<title>{escape(tip)}</title></rect>"
            )
            out.append(
                text(
                    left + BAR / 2 - 2,
                    bottom - height - 5,
                    f"{row['tokens_per_step']:.1f}",
                    colour="#555555",
                    size=11,
                )
            )
        middle = x + BAR * len(group) / 2
        for line, part in enumerate(name.split(", ")):
            out.append(text(middle, bottom + 16 + 13 * line, part, size=11))
        x += BAR * len(group) + GAP
    x = LEFT
    for strategy, label in (
        ("autoregressive", "plain decoding"),
        ("serial_tree", "serial_tree, the best of d 1 to 5"),
        ("parallel_tree", "parallel_tree, d 3"),
    ):
        out.append(
            f'<rect x="{x}" y="{bottom + 58}" width="10" height="10" fill="{COLOURS[strategy]}"/>'
        )
        out.append(text(x + 16, bottom + 67, label, "start"))
        x += 40 + 7 * len(label)
    return page(width, bottom + 74, out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results")
    parser.add_argument("svg")
    args = parser.parse_args()
    rows = json.loads(Path(args.results).read_text())["table6"]["rows"]
    print(table(rows))
    Path(args.svg).write_text(drawing(rows))


if __name__ == "__main__":
    main()
