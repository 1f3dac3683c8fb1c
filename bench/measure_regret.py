#!/usr/bin/env python3
"""How far `auto` is from plain decoding and from the best strategy measured, over a grid of texts, requests, contexts
and temperatures.

    bench/measure_regret.py --model models/demo-target --draft models/demo-draft \\
        --texts code=bench/workloads/code.jsonl prose=bench/workloads/prose.jsonl --out bench/results/regret.json
    bench/measure_regret.py --devices cuda:0 --model DIR --draft DIR --requests 1 8 24 --contexts 2000 32000 ...

In every cell all rivals decode the same requests in turn, round after round, behind prompts that are read once
(measure_settings); each round has other seeds. What is held against a target is the ratio of the medians over rounds,
beside its 95% interval (rounds drawn anew). The best rival of a half of the rounds is held against `auto` in the other
half, so that none is best by luck. Cells of --out that are measured again are replaced; the others stay. Run it on a
quiet machine.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shlex
import statistics
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import tabulate_results
from recorder import ROOT, commit, machine, relative
from svg import page, text

PLAIN, AUTO = "strategy=autoregressive", "strategy=auto"
BUDGETS = (512, 1024, 2048)
RIVALS = [
    PLAIN,
    "strategy=serial_tree,source=suffix",
    "strategy=serial_tree,source=model",
    "strategy=serial_tree,source=model+suffix",
    *(
        f"strategy=sparse_self,view={view},view_budget={budget},draft_depth=4"
        for view in ("snapkv", "vegas", "streaming_llm")
        for budget in BUDGETS
    ),
    *(
        f"strategy=serial_tree,source=model,shape=best,verify_tokens={rows},draft_width=4,draft_depth={depth}"
        for rows, depth in ((4, 2), (8, 3), (16, 4))
    ),
    AUTO,
]
NEAR, SLOWER = 0.95, 0.98  # of the best, of plain decoding
SHARE_NEAR = 0.95  # of the cells
DRAWS = 1000  # of rounds, for an interval
WIDTH, HEIGHT, LEFT, TOP = 132, 40, 120, 58


def name_of(setting: str) -> str:
    """Short, for tables: sparse_self streaming_llm 512 2."""
    return " ".join(part.split("=", 1)[1] for part in setting.split(","))


def fits(setting: str, context: int) -> bool:
    """Whether the view, if the setting has one, leaves out some of such a context."""
    options = dict(part.split("=", 1) for part in setting.split(","))
    return int(options.get("view_budget", 0)) < context


def ratio_of(over: list[float], under: list[float]) -> tuple[float, list[float]]:
    """The ratio of the medians, and its interval by drawing rounds anew. Both lists are by round."""
    draw = random.Random(1)
    rounds = range(len(over))
    ratios = []
    for _ in range(DRAWS):
        drawn = draw.choices(rounds, k=len(over))
        ratios.append(
            statistics.median(over[each] for each in drawn)
            / statistics.median(under[each] for each in drawn)
        )
    cuts = statistics.quantiles(ratios, n=40)
    return statistics.median(over) / statistics.median(under), [cuts[0], cuts[-1]]


def over_best(runs: dict[str, list[float]]) -> float:
    """`auto` over the best of all, itself included, which the other half of the rounds names."""
    if len(runs[AUTO]) < 2:
        medians = {setting: rates[0] for setting, rates in runs.items()}
        return medians[AUTO] / max(medians.values())
    product = 1.0
    for half in (0, 1):
        seen = {s: statistics.median(rates[1 - half :: 2]) for s, rates in runs.items()}
        best = max(seen, key=lambda setting: seen[setting])
        product *= statistics.median(runs[AUTO][half::2]) / statistics.median(runs[best][half::2])
    return math.sqrt(product)


def cell_of(rows: list[dict], where: dict, temperature: float) -> dict:
    """What one cell comes to, from the rows of measure_settings at its temperature. `where`: its text, requests and
    context."""
    # Temperatures are recorded in single precision.
    runs = {
        row["setting"]: row["runs"]
        for row in rows
        if math.isclose(row["temperature"], temperature, abs_tol=1e-6)
    }
    if AUTO not in runs or PLAIN not in runs:
        raise ValueError(f"no row of {AUTO} or {PLAIN} at temperature {temperature}")
    medians = {setting: statistics.median(rates) for setting, rates in runs.items()}
    best = max(medians, key=lambda setting: medians[setting])
    over_plain, interval = ratio_of(runs[AUTO], runs[PLAIN])
    return {
        **where,
        "temperature": temperature,
        "rounds": len(runs[AUTO]),
        "best": name_of(best),
        "best_tokens_per_s": medians[best],
        "auto_over_best": over_best(runs),
        "auto_over_plain": over_plain,
        "auto_over_plain_interval": interval,
        "tokens_per_s": {name_of(setting): rate for setting, rate in medians.items()},
        "auto_runs": runs[AUTO],
        "plain_runs": runs[PLAIN],
    }


def summary(cells: list[dict]) -> dict:
    near = [cell for cell in cells if cell["auto_over_best"] >= NEAR]
    return {
        "cells": len(cells),
        "within_5_percent": len(near),
        "at_least_0.98_of_plain": sum(cell["auto_over_plain"] >= SLOWER for cell in cells),
        "worst_over_best": min(cell["auto_over_best"] for cell in cells),
        "worst_over_plain": min(cell["auto_over_plain"] for cell in cells),
        "holds": len(near) >= SHARE_NEAR * len(cells)
        and all(cell["auto_over_plain"] >= SLOWER for cell in cells),
    }


def figures_of(cells: list[dict]) -> list[dict]:
    """What the tables of results count: each cell's two ratios with their targets."""
    figures = []
    for cell in cells:
        named = (
            f"{cell.get('text', 'text')}, {cell['requests']} x {cell['context']} tokens, temperature "
            f"{cell['temperature']:g}"
        )
        for name, value, target in (
            ("plain decoding", cell["auto_over_plain"], SLOWER),
            ("the best rival", cell["auto_over_best"], NEAR),
        ):
            figures.append(
                {
                    "figure": f"auto over {name}: {named}",
                    "value": value,
                    "unit": "ratio",
                    "target": f">= {target}",
                    "holds": value >= target,
                }
            )
    return figures


def table(cells: list[dict]) -> str:
    lines = [
        "| text | requests | context | temperature | best | over plain | auto over plain | 95% | auto over best |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for cell in cells:
        over = cell["best_tokens_per_s"] / cell["tokens_per_s"][name_of(PLAIN)]
        low, high = cell.get("auto_over_plain_interval", [cell["auto_over_plain"]] * 2)
        lines.append(
            f"| {cell.get('text', '')} | {cell['requests']} | {cell['context']} | {cell['temperature']:g} | "
            f"{cell['best']} | {over:.2f} | {cell['auto_over_plain']:.3f} | {low:.3f} to {high:.3f} | "
            f"{cell['auto_over_best']:.2f} |"
        )
    return "\n".join(lines)


def colour(over_best: float) -> str:
    """Green within 5% of the best, then yellow, red from 20% on."""
    lost = min(max(1 - over_best, 0.0), 0.2)
    if lost <= 1 - NEAR:
        return "#a6d96a"
    return "#fee08b" if lost < 0.1 else "#fdae61" if lost < 0.2 else "#d7191c"


def draw(cells: list[dict], title: str) -> str:
    """A grid a temperature: requests across, texts and contexts down, what `auto` is of the best in each."""
    across = sorted({cell["requests"] for cell in cells})
    down = sorted({(cell.get("text", ""), cell["context"]) for cell in cells})
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
        for row, (name, context) in enumerate(down):
            if number == 0:
                elements.append(
                    text(
                        left - 8,
                        TOP + (row + 0.6) * HEIGHT,
                        f"{name} {context} tokens",
                        "end",
                        size=11,
                    )
                )
            for column, requests in enumerate(across):
                found = [
                    cell
                    for cell in cells
                    if (
                        cell.get("text", ""),
                        cell["requests"],
                        cell["context"],
                        cell["temperature"],
                    )
                    == (name, requests, context, temperature)
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


def measure(
    args: argparse.Namespace, prompts: str, requests: int, context: int
) -> tuple[list[dict], str]:
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
            prompts,
            "--requests",
            str(requests),
            "--prompt-tokens",
            str(context),
            "--tokens",
            str(args.tokens),
            "--repeats",
            str(args.rounds),
            "--seconds",
            f"{args.seconds:g}",
            "--temperatures",
            ",".join(f"{t:g}" for t in args.temperatures),
        ]
        for setting in args.settings:
            if fits(setting, context):
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
        "--texts",
        nargs="+",
        required=True,
        help="NAME=FILE: JSON lines, cut or joined to the contexts",
    )
    parser.add_argument("--devices", default="", help="cuda:0; without it the processors")
    parser.add_argument("--kv-memory", default="")
    parser.add_argument("--requests", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64])
    parser.add_argument("--contexts", nargs="+", type=int, default=[128])
    parser.add_argument("--temperatures", nargs="+", type=float, default=[0.0, 0.8])
    parser.add_argument("--tokens", type=int, default=128, help="of each request")
    parser.add_argument("--rounds", type=int, default=12, help="of each cell, at most")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="begin no round of a cell after so many"
    )
    parser.add_argument(
        "--settings",
        nargs="+",
        default=RIVALS,
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

    def key_of(cell: dict) -> tuple:
        return (cell.get("text", ""), cell["context"], cell["requests"], cell["temperature"])

    cells = {key_of(cell): cell for cell in record.get("cells", [])}
    commands = record.get("commands", {})
    for named in args.texts:
        name, prompts = named.split("=", 1)
        for context in args.contexts:
            for requests in args.requests:
                rows, command = measure(args, prompts, requests, context)
                where = {"text": name, "requests": requests, "context": context}
                for temperature in args.temperatures:
                    cell = cell_of(rows, where, temperature)
                    cells[key_of(cell)] = cell
                commands[f"{name}, {requests} x {context}"] = command
                ordered = [cells[key] for key in sorted(cells)]
                record = {
                    "machine": machine(),
                    "commit": commit(),
                    "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "summary": summary(ordered),
                    "figures": figures_of(ordered),
                    "cells": ordered,
                    "commands": commands,
                }
                path.write_text(json.dumps(record, indent=1) + "\n")
    tabulate_results.refresh(path)
    print(table(record["cells"]))
    print(json.dumps(record["summary"]))
    if args.plot:
        Path(args.plot).write_text(draw(record["cells"], "auto beside the best strategy measured"))


if __name__ == "__main__":
    main()
