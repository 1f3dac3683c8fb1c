#!/usr/bin/env python3
"""Speculation over plain decoding by batch and context, at a given acceptance, beside what `forerun plan` predicts
(MagicDec's Figures 6 and 7), measured by replay_batches.

    bench/measure_speculation.py --model models/demo-target --draft models/demo-draft \\
        --requests 1 2 4 8 16 --contexts 1024 4096 7552 --budgets 512 --out bench/results/speculation-cpu-DATE.json \\
        --plot docs/speed-up-by-batch.svg --plot-predicted docs/predicted-and-measured.svg
    bench/measure_speculation.py --devices cuda:0 --gpus h200 --most-tokens 800000 --model DIR ...
    bench/measure_speculation.py --recorded bench/results/cuda-magicdec-DATE.json --gpus h200 --model CONFIG.json ...

Predicted is with --gpus from the description of a GPU, else from costs measured on the devices. --recorded takes
rows from files of runs in place of measuring. Cells of --out that are measured again are replaced; the others stay.
With --repeats the fastest of each counts, of runs and of plans from costs measured anew. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from plot_speculation import drawing_by_batch, drawing_predicted, table
from recorder import ROOT, commit, machine, relative

VIEW = "streaming_llm"  # replay_batches'
CHECKED_GUESSES = (
    3  # that forerun plan takes a hierarchy to have, a row each beside the chain's own
)


def key_of(row: dict) -> tuple:
    return (
        row.get("devices", 1),
        row["context"],
        row["requests"],
        row["strategy"],
        row["budget"],
        row["gamma"],
    )


def strategy_of(candidate: dict) -> str:
    """What replay_batches calls a candidate of forerun plan."""
    if candidate["checked_guesses"]:
        return f"hierarchy, {candidate['checked_guesses'] + 1} rows"
    if candidate["draft"] == "self":
        return "sparse_self"
    return "draft model, its view" if candidate["budget"] else "draft model"


def predictions(plan: dict) -> dict[tuple, dict]:
    """Of every candidate and gamma of a plan (forerun plan --all --json), by cell, strategy, budget and gamma."""
    candidates = {each["name"]: each for each in plan["candidates"]}
    found = {}
    for cell in plan["plans"]:
        for entry in cell["ranked"]:
            candidate = candidates.get(entry["candidate"])
            strategy, budget = (
                (strategy_of(candidate), candidate["budget"])
                if candidate
                else ("autoregressive", 0)
            )
            found[(cell["context"], cell["batch"], strategy, budget, entry["gamma"])] = {
                "plain_ms": entry["plain_ms"],
                "draft_ms": entry.get("draft_ms", 0.0),
                "verify_ms": entry.get("verify_ms", entry["plain_ms"]),
                "tokens_a_round": entry["tokens_per_round"],
                "tokens_per_s": entry["tokens_per_s"],
                "speed_up": entry["speed_up"],
            }
    return found


def fastest(plans: list[dict[tuple, dict]]) -> dict[tuple, dict]:
    """Of several plans each cell's fastest: costs are measured in moments, and machines with neighbours have slow
    ones."""
    best: dict[tuple, dict[tuple, dict]] = {}
    for plan in plans:
        for cell in {key[:2] for key in plan}:
            here = {key: entry for key, entry in plan.items() if key[:2] == cell}
            if cell not in best or plain_of(here) < plain_of(best[cell]):
                best[cell] = here
    return {key: entry for here in best.values() for key, entry in here.items()}


def plain_of(cell: dict[tuple, dict]) -> float:
    return min(entry["plain_ms"] for entry in cell.values())


def joined(rows: list[dict], predicted: dict[tuple, dict]) -> list[dict]:
    """Rows, each with its prediction, where there is one."""
    out = []
    for row in rows:
        found = predicted.get(
            (row["context"], row["requests"], row["strategy"], row["budget"], row["gamma"])
        )
        out.append(row | ({"predicted": found} if found else {}))
    return out


def plan_command(args: argparse.Namespace, rows: list[dict], devices: int) -> list[str]:
    """forerun plan for the cells, budgets and acceptances of the rows."""

    def listed(values: Iterable[int]) -> str:
        return ",".join(map(str, sorted(set(values))))

    budgets = listed(row["budget"] for row in rows if row["budget"])
    command = [
        f"{args.build}/bin/forerun",
        "plan",
        "--model",
        args.model,
        "--batch",
        listed(row["requests"] for row in rows),
        "--context",
        listed(row["context"] for row in rows),
        "--views",
        VIEW,
        "--budgets",
        budgets,
        "--acceptance",
        f"{VIEW}={args.acceptance:g}",
        "--all",
        "--json",
    ]
    if args.draft:
        command += ["--draft", args.draft, "--acceptance", f"draft={args.draft_acceptance:g}"]
    if args.gpus:
        return [*command, "--gpus", f"{args.gpus}:{devices}"]
    return [*command, "--devices", args.devices or "cpu", "--measure-anew"]


def said(command: list[str]) -> str:
    print("$", shlex.join(command), flush=True)
    return subprocess.run(command, check=True, cwd=ROOT, capture_output=True, text=True).stdout


def measure(args: argparse.Namespace) -> tuple[list[dict], str]:
    found = [path for path in Path(args.build).rglob("replay_batches") if path.is_file()]
    if not found:
        raise SystemExit(f"replay_batches: not built under {args.build}")

    def listed(values: list[int]) -> str:
        return ",".join(map(str, values))

    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "rows.json"
        command = [
            str(found[0]),
            "--model",
            args.model,
            "--requests",
            listed(args.requests),
            "--context",
            listed(args.contexts),
            "--most-tokens",
            str(args.most_tokens),
            "--tokens",
            str(args.tokens),
            "--repeats",
            str(args.repeats),
            "--acceptance",
            f"{args.acceptance:g}",
            "--budgets",
            listed(args.budgets),
            "--depths",
            listed(args.depths),
        ]
        if args.draft:
            command += [
                "--draft",
                args.draft,
                "--draft-acceptance",
                f"{args.draft_acceptance:g}",
                "--draft-depths",
                listed(args.draft_depths),
            ]
            if args.hierarchy_depths:
                command += [
                    "--hierarchy-depths",
                    listed(args.hierarchy_depths),
                    "--hierarchy-widths",
                    str(CHECKED_GUESSES + 1),
                ]
        if args.devices:
            command += ["--devices", args.devices]
        print("$", shlex.join(command), flush=True)
        subprocess.run([*command, "--json", str(out)], check=True, cwd=ROOT)
        devices = len(args.devices.split(",")) if args.devices else 1
        return [row | {"devices": devices} for row in json.loads(out.read_text())], relative(
            shlex.join(command)
        )


def recorded(path: str) -> list[dict]:
    """The rows of a file of this script's, or of runs; how many devices a run had is read from its command."""
    record = json.loads(Path(path).read_text())
    rows = [
        {name: value for name, value in row.items() if name != "predicted"}
        for row in record.get("rows", [])
    ]
    for run in record.get("runs", []):
        words = shlex.split(run["command"])
        devices = words[words.index("--devices") + 1].count(",") + 1 if "--devices" in words else 1
        # Rows written down in short, without their cell, are left out.
        rows += [
            row | {"devices": devices, "from": Path(path).name}
            for row in run["rows"]
            if {"requests", "context", "budget", "draft_ms"} <= row.keys()
        ]
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--model", required=True)
    parser.add_argument("--draft", default="")
    parser.add_argument("--devices", default="", help="cuda:0; without it the processors")
    parser.add_argument("--gpus", default="", help="as forerun plan's, without a count: h200")
    parser.add_argument(
        "--recorded", nargs="+", default=[], help="files of this script or of replay_batches"
    )
    parser.add_argument("--requests", nargs="+", type=int, default=[1, 2, 4, 8, 16])
    parser.add_argument("--contexts", nargs="+", type=int, default=[1024, 4096, 7552])
    parser.add_argument("--most-tokens", type=int, default=0, help="larger cells are left out")
    parser.add_argument("--tokens", type=int, default=64, help="of each request")
    parser.add_argument("--repeats", type=int, default=1, help="the fastest of each counts")
    parser.add_argument("--budgets", nargs="+", type=int, default=[512])
    parser.add_argument(
        "--acceptance", type=float, default=0.89, help="of the target through its view"
    )
    parser.add_argument("--depths", nargs="+", type=int, default=[1, 2, 3, 5])
    parser.add_argument("--draft-acceptance", type=float, default=0.66)
    parser.add_argument("--draft-depths", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--hierarchy-depths", nargs="*", type=int, default=[])
    parser.add_argument("--out", required=True)
    parser.add_argument(
        "--plot", default="", help="an SVG: the speed-up over the batch, by context and draft"
    )
    parser.add_argument("--plot-predicted", default="", help="an SVG: measured over predicted")
    return parser.parse_args()


def main() -> None:
    args = parse()
    path = Path(args.out)
    record = json.loads(path.read_text()) if path.exists() else {}
    if args.recorded:
        rows, command = [row for name in args.recorded for row in recorded(name)], ""
    else:
        rows, command = measure(args)
    kept = {key_of(row): row for row in record.get("rows", [])}
    commands = record.get("commands", [])
    for devices in sorted({row["devices"] for row in rows}):
        here = [row for row in rows if row["devices"] == devices]
        plan = plan_command(args, here, devices)
        times = 1 if args.gpus else args.repeats
        predicted = fastest([predictions(json.loads(said(plan))) for _ in range(times)])
        kept.update({key_of(row): row for row in joined(here, predicted)})
        commands.append(relative(shlex.join(plan)))
    facts = record.get("machine") or (
        {"recorded": [Path(name).name for name in args.recorded]} if args.recorded else machine()
    )
    record = {
        "machine": facts,
        "commit": commit(),
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commands": list(dict.fromkeys([*commands, *([command] if command else [])])),
        "rows": [kept[key] for key in sorted(kept)],
    }
    path.write_text(json.dumps(record, indent=1) + "\n")
    print(table(record["rows"]))
    if args.plot:
        Path(args.plot).write_text(drawing_by_batch(record["rows"]))
    if args.plot_predicted:
        Path(args.plot_predicted).write_text(drawing_predicted(record["rows"]))


if __name__ == "__main__":
    main()
