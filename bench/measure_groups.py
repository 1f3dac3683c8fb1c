#!/usr/bin/env python3
"""Measures tensor-parallel groups on one machine: two devices of one thread beside one device of two.

    cmake --preset cpu-release && cmake --build build/cpu-release >/dev/null
    cmake --build build/cpu-release --target model_bench
    bench/measure_groups.py forward engine --out bench/results/groups.json
    tools/grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 --out /tmp/1b
    bench/measure_groups.py grown --grown /tmp/1b --out bench/results/groups.json

Sections given are replaced in --out; the others stay. Run it on a quiet machine.
"""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path

from recorder import Recorder, record_sections, relative


def measure_forward(rec: Recorder) -> None:
    """A forward of the demo target. In turns, and the fastest counts: of two busy cores, the times
    at which nobody else had one."""
    rounds = 7
    times: dict[tuple[str, int], list[float]] = {}
    command = []
    for _ in range(rounds):
        for teams in ("2", "1+1"):
            name = teams.replace("+", "[+]")
            command = [
                f"{rec.args.build}/src/model/model_bench",
                f"--benchmark_filter=demo-target/threads:{name}/rows:(1|8|64)/context:0",
                "--benchmark_min_time=0.3",
                "--benchmark_format=json",
            ]
            for row in json.loads(rec.run(command))["benchmarks"]:
                rows = int(row["name"].split("rows:")[1].split("/")[0])
                times.setdefault((teams, rows), []).append(row["real_time"])
    for rows in (1, 8, 64):
        team = min(times["2", rows])
        group = min(times["1+1", rows])
        rec.add(
            f"demo target, forward of {rows} rows: one device of 2 threads over two of 1",
            team / group,
            "ratio",
            relative(shlex.join(command)),
            note=f"{team:.3f} ms against {group:.3f} ms, the fastest of {rounds} runs in turns",
        )


def compare(rec: Recorder, what: str, model: str, tokens: int, prompts: int, rounds: int) -> None:
    """Plain decoding and speculation of whole requests, in turns."""
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for devices in ("cpu:0-1", "cpu:0,cpu:1"):
            out = str(Path(tempfile.gettempdir()) / "forerun-groups.json")
            command = [
                rec.args.forerun,
                "bench",
                "--model",
                model,
                "--draft",
                "models/demo-draft",
                "--devices",
                devices,
                "--prompts",
                "bench/workloads/code.jsonl",
                "--strategies",
                "autoregressive,serial_tree",
                "--temperatures",
                "0",
                "--limit",
                str(prompts),
                "--repeat",
                "1",
                "--max-tokens",
                str(tokens),
            ]
            rec.run([*command, "--json", out])
            for row in json.loads(Path(out).read_text())["workloads"]["code"]:
                rates.setdefault((devices, row["strategy"]), []).append(row["tokens_per_s"])
    for strategy in ("autoregressive", "serial_tree"):
        team = max(rates["cpu:0-1", strategy])
        group = max(rates["cpu:0,cpu:1", strategy])
        rec.add(
            f"{what}, {strategy}, code: cpu:0,cpu:1 over cpu:0-1",
            group / team,
            "ratio",
            relative(shlex.join(command)),
            note=f"{group:.1f} against {team:.1f} tokens/s, the fastest of {rounds} runs",
        )


def measure_engine(rec: Recorder) -> None:
    compare(rec, "demo pair", "models/demo-target", tokens=128, prompts=2, rounds=5)


def measure_grown(rec: Recorder) -> None:
    compare(rec, "1B shape, bf16", rec.args.grown, tokens=32, prompts=1, rounds=2)


if __name__ == "__main__":
    record_sections(
        __doc__, {"forward": measure_forward, "engine": measure_engine, "grown": measure_grown}
    )
