#!/usr/bin/env python3
"""Measures speculation in whole engines, emulated and simulated machines among them, and records it.

    cmake --preset cpu-release && cmake --build build/cpu-release >/dev/null
    bench/measure_engine.py table6 prefix round --out bench/results/engine.json
    tools/grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 --out /tmp/1b
    tools/grow_model.py models/demo-draft --shape llama-3.2-1b --layers 5 --dtype bf16 --out /tmp/1b-draft
    bench/measure_engine.py splits --grown /tmp/1b --grown-draft /tmp/1b-draft --out bench/results/engine.json

Sections given are replaced in --out; the others stay. Run it on a quiet machine.
"""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from pathlib import Path

from recorder import ROOT, Recorder, record_sections, relative


def measure_emulated(rec: Recorder) -> None:
    """The simulated executor against the emulated one, on machines of SwiftSpec's."""
    prompts, tokens = 4, 64
    # Concurrently, each model computes on a processor of its own, as on the emulated machine.
    cases = [
        ("serial", 2, []),
        ("serial", 4, []),
        ("parallel", 3, ["--target-devices", "cpu:0", "--draft-devices", "cpu:1"]),
    ]
    for workload in ("code", "prose"):
        for kind, depth, devices in cases:
            profile = f"bench/profiles/swiftspec.json#qwen2-72b-{kind}"
            simulate = [
                f"{rec.args.build}/bench/simulate_strategies",
                profile,
                f"bench/acceptance/demo-{workload}.json",
                str(tokens),
            ]
            simulated = rec.run(simulate)
            slowest = min(float(x) for x in re.findall(r"(\d+)x faster", simulated))
            out = str(Path(tempfile.gettempdir()) / "forerun-bench.json")
            command = [
                rec.args.forerun,
                "bench",
                "--model",
                "models/demo-target",
                "--draft",
                "models/demo-draft",
                "--emulate",
                profile,
                *devices,
                "--prompts",
                f"bench/workloads/{workload}.jsonl",
                "--strategies",
                f"autoregressive,{kind}_tree",
                "--shape",
                "best",
                "--verify-tokens",
                "8",
                "--draft-width",
                "8",
                "--draft-depth",
                str(depth),
                "--temperatures",
                "0",
                "--limit",
                str(prompts),
                "--repeat",
                "3",
                "--max-tokens",
                str(tokens),
            ]
            rec.run([*command, "--json", out])
            reply = json.loads(Path(out).read_text())
            row = reply["workloads"][workload][1]
            found = re.search(rf"{kind} bs8 w8 d{depth} +([\d.]+) tokens/s +([\d.]+)", simulated)
            rate, per_step = float(found.group(1)), float(found.group(2))
            late = reply["emulated"]
            name = f"{kind}_tree, {workload}, d {depth}"
            rec.add(
                f"simulated over emulated tokens/s, {name}, off by",
                abs(rate / row["tokens_per_s"] - 1.0),
                "ratio",
                relative(shlex.join(command)),
                at_most=0.05,
                note=f"simulated {rate:.1f} tokens/s, {per_step:.2f} tokens a step; emulated "
                f"{row['tokens_per_s']:.1f}, {row['tokens_per_step']:.2f}; "
                f"{late['late_steps']} of {late['steps']} Steps late; simulation at least "
                f"{slowest:.0f} times faster than what it simulates",
            )
            rec.add(
                f"simulated time over the time it takes, {name}",
                slowest,
                "ratio",
                relative(shlex.join(simulate)),
                at_least=100,
            )


def measure_table6(rec: Recorder) -> None:
    """Speculation sequential against concurrent (SwiftSpec's Figure 8) at the Step times of its Table 6,
    the demo pair's real acceptance, with that table's columns; plot_ablation.py draws it."""

    def measure(
        kind: str,
        depth: int,
        workload: str,
        temperature: float,
        extra: list[str],
        shape: str = "best",
    ) -> dict:
        # Concurrently, each model computes on a processor of its own, as on the emulated machine.
        devices = ["--target-devices", "cpu:0", "--draft-devices", "cpu:1"]
        strategy = "autoregressive" if depth == 0 else f"{kind}_tree"
        found, command, _ = bench_rows(
            rec,
            ["--model", "models/demo-target", "--draft", "models/demo-draft"],
            [
                "--emulate",
                f"bench/profiles/swiftspec.json#qwen2-72b-{kind}",
                *(devices if kind == "parallel" else []),
                "--prompts",
                f"bench/workloads/{workload}.jsonl",
                "--strategies",
                strategy,
                "--shape",
                shape,
                "--verify-tokens",
                "8",
                "--draft-width",
                "8",
                "--draft-depth",
                str(max(depth, 1)),
                "--temperatures",
                str(temperature),
                "--limit",
                "4",
                "--repeat",
                "1",
                "--max-tokens",
                "96",
                *extra,
            ],
        )
        return {**next(iter(found.values())), "depth": depth, "command": command}

    for workload in ("code", "prose"):
        for temperature, extra in ((0, []), (0.8, []), (0.8, ["--no-shared-noise"])):
            plain = measure("serial", 0, workload, temperature, [])
            serial = [measure("serial", d, workload, temperature, extra) for d in (1, 2, 3, 4, 5)]
            best = max(serial, key=lambda row: row["tokens_per_s"])
            parallel = measure("parallel", 3, workload, temperature, extra)
            kind = (
                "greedy"
                if temperature == 0
                else "temperature 0.8, shared noise"
                if not extra
                else "temperature 0.8, own noise"
            )
            for row in (plain, best, parallel):
                rec.rows.append(
                    {
                        "prompts": f"{workload}, {kind}",
                        **{
                            key: row[key]
                            for key in (
                                "strategy",
                                "depth",
                                "tokens_per_s",
                                "target_ms",
                                "draft_ms",
                                "tokens_per_step",
                                "command",
                            )
                        },
                    }
                )
            note = (
                f"serial_tree d {best['depth']}: {best['tokens_per_s']:.1f} tokens/s, "
                f"{best['tokens_per_step']:.2f} tokens a step; parallel_tree d 3: "
                f"{parallel['tokens_per_s']:.1f}, {parallel['tokens_per_step']:.2f}"
            )
            rec.add(
                f"parallel_tree over the best serial_tree, Table 6's times, {workload}, {kind}",
                parallel["tokens_per_s"] / best["tokens_per_s"],
                "ratio",
                parallel["command"],
                at_least=1.35 if temperature == 0 else 1.1 if not extra else None,
                note=note,
            )
            # Expansion that knows what is being verified.
            aware = measure("parallel", 3, workload, temperature, extra, "adaptive")
            rec.add(
                f"parallel_tree, adaptive, over the best serial_tree, Table 6's times, {workload}, "
                f"{kind}",
                aware["tokens_per_s"] / best["tokens_per_s"],
                "ratio",
                aware["command"],
                at_least=1.45 if temperature == 0 else None,
                note=f"{aware['tokens_per_s']:.1f} tokens/s, "
                f"{aware['tokens_per_step']:.2f} tokens a step",
            )
            if temperature == 0:
                rec.add(
                    f"tokens a step, parallel_tree over serial_tree at d 3, {workload}, {kind}",
                    parallel["tokens_per_step"] / serial[2]["tokens_per_step"],
                    "ratio",
                    parallel["command"],
                    at_least=0.75,
                )


def bench_rows(rec: Recorder, pair: list[str], extra: list[str]) -> tuple[dict, str, str]:
    """Rows of `forerun bench` by (strategy, workload, temperature), its command and its text."""
    out = str(Path(tempfile.gettempdir()) / "forerun-bench.json")
    command = [rec.args.forerun, "bench", *pair, *extra]
    text = rec.run([*command, "--json", out])
    rows = {
        (row["strategy"], workload, row["temperature"]): row
        for workload, found in json.loads(Path(out).read_text())["workloads"].items()
        for row in found
    }
    return rows, relative(shlex.join(command)), text


def measure_splits(rec: Recorder) -> None:
    """One core for each model against both cores for each in turn, and what --auto makes of it."""
    # Placements are compared, so guesses come from the draft alone in both.
    prompts = [
        "--prompts",
        "bench/workloads/code.jsonl",
        "bench/workloads/prose.jsonl",
        "--source",
        "model",
    ]
    pairs = {
        "demo pair": (
            ["--model", "models/demo-target", "--draft", "models/demo-draft"],
            [*prompts, "--limit", "4", "--repeat", "3"],
        )
    }
    if rec.args.grown and rec.args.grown_draft:
        pairs["draft a third of the target"] = (
            [
                "--model",
                rec.args.grown,
                "--draft",
                rec.args.grown_draft,
                "--draft-weights",
                "as_stored",
            ],
            [*prompts, "--limit", "2", "--repeat", "1", "--warmup", "1", "--max-tokens", "48"],
        )
    for pair_name, (pair, workload) in pairs.items():
        serial = bench_rows(rec, pair, [*workload, "--strategies", "serial_tree"])[0]
        parallel, command, _ = bench_rows(
            rec,
            pair,
            [
                *workload,
                "--strategies",
                "parallel_tree",
                "--target-devices",
                "cpu:0",
                "--draft-devices",
                "cpu:1",
            ],
        )
        seconds = {"sequentially": 0.0, "concurrently": 0.0}
        for (_, prompts_of, temperature), row in parallel.items():
            sequential = serial["serial_tree", prompts_of, temperature]
            kind = "greedy" if temperature == 0 else f"temperature {temperature:g}"
            rec.add(
                f"parallel_tree on 1 + 1 cores over serial_tree on 2 in turn, {pair_name}, "
                f"{prompts_of}, {kind}",
                row["tokens_per_s"] / sequential["tokens_per_s"],
                "ratio",
                command,
                note=f"{row['tokens_per_s']:.1f} against {sequential['tokens_per_s']:.1f} tokens/s",
            )
            seconds["sequentially"] += 1.0 / sequential["tokens_per_s"]
            seconds["concurrently"] += 1.0 / row["tokens_per_s"]
        _, command, text = bench_rows(
            rec,
            pair,
            [
                "--auto",
                "--prompts",
                "bench/workloads/prose.jsonl",
                "--limit",
                "1",
                "--repeat",
                "1",
                "--max-tokens",
                "8",
                "--strategies",
                "auto",
            ],
        )
        report = text[text.index("split: ") : text.index("numeric fingerprint")]
        kept = (
            "sequentially" if "sequentially" in report[report.index("kept:") :] else "concurrently"
        )
        rec.add(
            f"--auto keeps the faster split on 2 cores, {pair_name}",
            seconds["sequentially" if kept == "concurrently" else "concurrently"] / seconds[kept],
            "ratio",
            command,
            at_least=1.0,
            note=re.sub(r" +", " ", report.strip()),
        )


def measure_steps(rec: Recorder) -> None:
    """What a Step takes by rows, as engines measure it at start-up (context 256): the data of
    bench/profiles of this machine."""
    prompts = [
        "--prompts",
        "bench/workloads/prose.jsonl",
        "--limit",
        "1",
        "--repeat",
        "1",
        "--max-tokens",
        "2",
        "--strategies",
        "autoregressive",
        "--temperatures",
        "0",
    ]
    pairs = {"demo": ["--model", "models/demo-target", "--draft", "models/demo-draft"]}
    if rec.args.grown and rec.args.grown_draft:
        pairs["1b"] = [
            "--model",
            rec.args.grown,
            "--draft",
            rec.args.grown_draft,
            "--draft-weights",
            "as_stored",
        ]
    split = ["--target-devices", "cpu:0", "--draft-devices", "cpu:1"]
    for pair, models in pairs.items():
        for place, devices in (("shared", []), ("separate", split)):
            best: dict[tuple[str, int], float] = {}
            for _ in range(6):
                _, command, text = bench_rows(rec, models, [*devices, *prompts])
                rows = [int(word) for word in re.search(r"at rows(.*)", text).group(1).split()]
                for role in ("target", "draft"):
                    values = re.search(rf"^ *{role} +([\d. ]+)$", text, re.M).group(1).split()
                    for count, value in zip(rows, values):
                        best[role, count] = min(best.get((role, count), 1e9), float(value))
            for (role, count), value in best.items():
                rec.rows.append(
                    {
                        "pair": pair,
                        "devices": place,
                        "role": role,
                        "rows": count,
                        "ms": value,
                        "command": command,
                    }
                )
            rec.add(
                f"a Step of 8 rows, target over draft, {pair} pair, {place} cores",
                best["target", 8] / best["draft", 8],
                "ratio",
                command,
                note=f"{best['target', 8]:.3f} and {best['draft', 8]:.3f} ms",
            )


def measure_prefix(rec: Recorder) -> None:
    """Time to the first token where the prompt's KV is there already, against reading it."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    prompts = Path(tempfile.gettempdir()) / "forerun-prompts.jsonl"
    out = str(Path(tempfile.gettempdir()) / "forerun-bench.json")
    for length in (1000, 4000):
        lines = [
            json.dumps({"prompt": text[:length] + f"\nQuestion {number}: "}) for number in range(4)
        ]
        prompts.write_text("\n".join(lines) + "\n")
        first_ms = {}
        for extra in ([], ["--reuse-prompts"]):
            command = [
                rec.args.forerun,
                "bench",
                "--model",
                "models/demo-target",
                "--draft",
                "models/demo-draft",
                "--prompts",
                str(prompts),
                "--strategies",
                "autoregressive,serial_tree",
                "--temperatures",
                "0",
                "--max-tokens",
                "16",
                *extra,
            ]
            rec.run([*command, "--json", out])
            for row in json.loads(Path(out).read_text())["workloads"]["forerun-prompts"]:
                first_ms[row["strategy"], bool(extra)] = row["time_to_first_token_ms"]
                assert row["identical"] == row["prompts"]
        for strategy in ("autoregressive", "serial_tree"):
            read, shared = first_ms[strategy, False], first_ms[strategy, True]
            rec.add(
                f"time to the first token, prompt of {length} characters read over shared, {strategy}",
                read / shared,
                "ratio",
                relative(shlex.join(command)),
                note=f"{read:.2f} against {shared:.2f} ms; the prompts are the beginning of "
                "docs/architecture.md with a question each",
            )


def measure_round(rec: Recorder) -> None:
    """The host's time of a round, in thread CPU time, by the trace."""
    for strategy, devices in (
        ("serial_tree", []),
        ("parallel_tree", ["--target-devices", "cpu:0", "--draft-devices", "cpu:1"]),
    ):
        command = [
            rec.args.forerun,
            "trace",
            "--model",
            "models/demo-target",
            "--draft",
            "models/demo-draft",
            "--strategy",
            strategy,
            *devices,
            "--shape",
            "best",
            "--verify-tokens",
            "8",
            "--draft-width",
            "8",
            "--draft-depth",
            "4",
            "--prompt",
            "def fibonacci(n):",
            "--max-tokens",
            "1000",
        ]
        text = rec.run(command)
        shown = relative(shlex.join(command))
        found = re.search(r"host +([\d.]+) us a round median, ([\d.]+) us p99", text)
        turn = re.search(r"([\d.]+) us median, ([\d.]+) us p99 from a draft's result", text)
        gaps = re.findall(r"(target|draft) .*host gap ([\d.]+) us median, ([\d.]+) us p99", text)
        note = "wall time from work submitted to its Step: " + ", ".join(
            f"{model} {median} us median, {p99} us p99" for model, median, p99 in gaps
        )
        name = f"{strategy}, bs = w = 8, d = 4"
        rec.add(
            f"host time a round, median, {name}",
            float(found.group(1)),
            "us",
            shown,
            at_most=60,
            note=note,
        )
        rec.add(f"host time a round, p99, {name}", float(found.group(2)), "us", shown, at_most=200)
        rec.add(
            f"a draft's result to its next work, median, {name}",
            float(turn.group(1)),
            "us",
            shown,
            at_most=15,
        )


SECTIONS = {
    "emulated": measure_emulated,
    "table6": measure_table6,
    "splits": measure_splits,
    "prefix": measure_prefix,
    "round": measure_round,
    "steps": measure_steps,
}

if __name__ == "__main__":
    record_sections(__doc__, SECTIONS)
