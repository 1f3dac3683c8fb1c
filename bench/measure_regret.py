#!/usr/bin/env python3
"""How far `auto` is from the best strategy measured, over a grid of requests and contexts.

    bench/workloads/long_context.py /tmp/long --text TEXTS
    bench/measure_regret.py --model models/demo-target --draft models/demo-draft \\
        --prompts /tmp/long/needle.jsonl --out bench/results/regret.json --plot docs/regret.svg
    bench/measure_regret.py --devices cuda:0 --model DIR --draft DIR --requests 1 8 24 --contexts 2000 32000 ...

In every cell all settings decode in turn behind the same prompts, which are read once (measure_settings). A
cell's regret is what `auto` lacks of the fastest of them, itself included. Cells of --out that are measured
again are replaced; the others stay. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import math
import shlex
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from recorder import ROOT, commit, machine, relative
from svg import page, text

PLAIN, AUTO = "strategy=autoregressive", "strategy=auto"
SETTINGS = [
    PLAIN,
    "strategy=serial_tree",
    "strategy=serial_tree,source=suffix",
    "strategy=sparse_self,view=streaming_llm,view_budget=512,draft_depth=2",
    "strategy=sparse_self,view=streaming_llm,view_budget=512,draft_depth=4",
    "strategy=sparse_self,view=snapkv,view_budget=1024,draft_depth=4",
    AUTO,
]
NEAR, SLOWER = 0.95, 0.98  # of the best, of plain decoding
SHARE_NEAR = 0.95  # of the cells
WIDTH, HEIGHT, LEFT, TOP = 132, 40, 120, 58


def name_of(setting: str) -> str:
    """Short, for tables: sparse_self streaming_llm 512 2."""
    return " ".join(part.split("=", 1)[1] for part in setting.split(","))


def cell_of(rows: list[dict], requests: int, context: int, temperature: float) -> dict:
    """What one cell comes to, from the rows of measure_settings at its temperature."""
    # Temperatures are recorded in single precision.
    rates = {
        row["setting"]: row["tokens_per_s"]
        for row in rows
        if math.isclose(row["temperature"], temperature, abs_tol=1e-6)
    }
    if AUTO not in rates or PLAIN not in rates:
        raise ValueError(f"no row of {AUTO} or {PLAIN} at temperature {temperature}")
    best = max(rates, key=lambda setting: rates[setting])
    return {
        "requests": requests,
        "context": context,
        "temperature": temperature,
        "best": name_of(best),
        "best_tokens_per_s": rates[best],
        "auto_over_best": rates[AUTO] / rates[best],
        "auto_over_plain": rates[AUTO] / rates[PLAIN],
        "tokens_per_s": {name_of(setting): rate for setting, rate in rates.items()},
    }


def summary(cells: list[dict]) -> dict:
    near = [cell for cell in cells if cell["auto_over_best"] >= NEAR]
    return {
        "cells": len(cells),
        "within_5_percent": len(near),
        "worst_over_best": min(cell["auto_over_best"] for cell in cells),
        "worst_over_plain": min(cell["auto_over_plain"] for cell in cells),
        "holds": len(near) >= SHARE_NEAR * len(cells)
        and all(cell["auto_over_plain"] >= SLOWER for cell in cells),
    }


def table(cells: list[dict]) -> str:
    lines = [
        "| requests | context | temperature | best | over plain | auto over plain | auto over best |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell in cells:
        over = cell["auto_over_plain"] / cell["auto_over_best"]
        lines.append(
            f"| {cell['requests']} | {cell['context']} | {cell['temperature']:g} | {cell['best']} | "
            f"{over:.2f} | {cell['auto_over_plain']:.2f} | {cell['auto_over_best']:.2f} |"
        )
    return "\n".join(lines)


def colour(over_best: float) -> str:
    """Green within 5% of the best, then yellow, red from 20% on."""
    lost = min(max(1 - over_best, 0.0), 0.2)
    if lost <= 1 - NEAR:
        return "#a6d96a"
    return "#fee08b" if lost < 0.1 else "#fdae61" if lost < 0.2 else "#d7191c"


def draw(cells: list[dict], title: str) -> str:
    """A grid a temperature: requests across, contexts down, what `auto` is of the best in each."""
    across = sorted({cell["requests"] for cell in cells})
    down = sorted({cell["context"] for cell in cells})
    temperatures = sorted({cell["temperature"] for cell in cells})
    panel = LEFT + WIDTH * len(across) + 20
    elements = [text(16, 22, title, anchor="start", size=14)]
    for number, temperature in enumerate(temperatures):
        left = LEFT + number * panel
        elements.append(text(left, TOP - 18, f"temperature {temperature:g}", anchor="start"))
        for column, requests in enumerate(across):
            elements.append(
                text(left + (column + 0.5) * WIDTH, TOP - 4, f"{requests} at once", size=11)
            )
        for row, context in enumerate(down):
            if number == 0:
                elements.append(
                    text(left - 8, TOP + (row + 0.6) * HEIGHT, f"{context} tokens", "end", size=11)
                )
            for column, requests in enumerate(across):
                found = [
                    cell
                    for cell in cells
                    if (cell["requests"], cell["context"], cell["temperature"])
                    == (requests, context, temperature)
                ]
                if not found:
                    continue
                x, y = left + column * WIDTH, TOP + row * HEIGHT
                cell = found[0]
                elements.append(
                    f'<rect x="{x}" y="{y}" width="{WIDTH - 2}" height="{HEIGHT - 2}" '
                    f'fill="{colour(cell["auto_over_best"])}"/>'
                )
                elements.append(
                    text(
                        x + WIDTH / 2, y + 16, f"{cell['auto_over_best']:.2f} of the best", size=11
                    )
                )
                elements.append(
                    text(x + WIDTH / 2, y + 31, f"{cell['auto_over_plain']:.2f} x plain", size=11)
                )
    return page(panel * len(temperatures) + 16, TOP + HEIGHT * len(down) + 16, elements)


def measure(args: argparse.Namespace, requests: int, context: int) -> tuple[list[dict], str]:
    found = [path for path in Path(args.build).rglob("measure_settings") if path.is_file()]
    if not found:
        raise SystemExit(f"measure_settings: not built under {args.build}")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "rows.json"
        command = [
            str(found[0]),
            "--model",
            args.model,
            "--draft",
            args.draft,
            "--prompts",
            args.prompts,
            "--requests",
            str(requests),
            "--prompt-tokens",
            str(context),
            "--tokens",
            str(args.tokens),
            "--repeats",
            str(args.repeats),
            "--temperatures",
            ",".join(f"{t:g}" for t in args.temperatures),
        ]
        for setting in args.settings:
            command += ["--setting", setting]
        if args.devices:
            command += ["--devices", args.devices]
        if args.kv_memory:
            command += ["--kv-memory", args.kv_memory]
        print("$", shlex.join(command), flush=True)
        subprocess.run([*command, "--json", str(out)], check=True, cwd=ROOT)
        return json.loads(out.read_text()), relative(shlex.join(command))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", required=True)
    parser.add_argument(
        "--prompts", required=True, help="JSON lines, cut or joined to the contexts"
    )
    parser.add_argument("--devices", default="", help="cuda:0; without it the processors")
    parser.add_argument("--kv-memory", default="")
    parser.add_argument("--requests", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--contexts", nargs="+", type=int, default=[512, 2048, 7552])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 0.8])
    parser.add_argument("--tokens", type=int, default=128, help="of each request")
    parser.add_argument("--repeats", type=int, default=2, help="the median of each counts")
    parser.add_argument(
        "--settings",
        nargs="+",
        default=SETTINGS,
        help=f"as measure_settings takes them; {PLAIN} first, {AUTO} among them",
    )
    parser.add_argument("--out", required=True)
    parser.add_argument("--plot", default="", help="an SVG of the grid")
    args = parser.parse_args()
    if args.settings[0] != PLAIN or AUTO not in args.settings:
        parser.error(f"--settings: expected {PLAIN} first and {AUTO} among them")
    return args


def main() -> None:
    args = parse()
    path = Path(args.out)
    record = json.loads(path.read_text()) if path.exists() else {}
    cells = {(c["requests"], c["context"], c["temperature"]): c for c in record.get("cells", [])}
    commands = record.get("commands", {})
    for context in args.contexts:
        for requests in args.requests:
            rows, command = measure(args, requests, context)
            for temperature in args.temperatures:
                cells[(requests, context, temperature)] = cell_of(
                    rows, requests, context, temperature
                )
            commands[f"{requests} x {context}"] = command
            ordered = [cells[key] for key in sorted(cells)]
            record = {
                "machine": machine(),
                "commit": commit(),
                "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "summary": summary(ordered),
                "cells": ordered,
                "commands": commands,
            }
            path.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record["cells"]))
    print(json.dumps(record["summary"]))
    if args.plot:
        Path(args.plot).write_text(draw(record["cells"], "auto beside the best strategy measured"))


if __name__ == "__main__":
    main()
