#!/usr/bin/env python3
"""Measures the CPU figures that this project promises and records them with their targets.

    cmake --preset cpu-release && cmake --build build/cpu-release >/dev/null
    bench/measure_cpu.py linear demo memory host text --out bench/results/cpu.json
    tools/grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 --out /tmp/1b
    bench/measure_cpu.py grown --grown /tmp/1b --out bench/results/cpu.json

Sections given are replaced in --out; the others stay. Run it on a quiet machine.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from pathlib import Path

from recorder import ROOT, Recorder, record_sections, relative


def measure_linear(rec: Recorder) -> None:
    for threads in ("1", "2"):
        command = [
            "env",
            f"FORERUN_BENCH_THREADS={threads}",
            f"{rec.args.build}/src/kernels/linear/linear_bench",
            "--benchmark_filter=read/128MiB|4096x14336/(bf16|int4)/bf16/(1|8)/",
            "--benchmark_format=json",
            "--benchmark_repetitions=5",
            "--benchmark_enable_random_interleaving=true",
            "--benchmark_report_aggregates_only=true",
        ]
        reply = json.loads(rec.run(command))
        medians = {b["run_name"]: b for b in reply["benchmarks"] if b["aggregate_name"] == "median"}
        shown = relative(shlex.join(command))
        read = next(b for name, b in medians.items() if "read" in name)

        def find(weights: str, rows: int) -> dict:
            pattern = re.compile(rf"4096x14336/{weights}/bf16/(rows:)?{rows}(/|$)")
            return next(b for name, b in medians.items() if pattern.search(name))

        cores = "1 core" if threads == "1" else "2 cores"
        bandwidth = read["GB/s"]
        one_row, eight_rows, int4 = find("bf16", 1), find("bf16", 8), find("int4", 1)
        rec.add(f"plain read loop, {cores}", bandwidth, "GB/s", shown)
        for name, bench in (("bf16", one_row), ("int4", int4)):
            rec.add(
                f"linear 4096x14336 {name}, 1 row over the read loop, {cores}",
                bench["GB/s"] / bandwidth,
                "ratio",
                shown,
                at_least=0.8,
            )
        rec.add(
            f"linear 4096x14336 bf16, 8 rows over 1 row, {cores}",
            eight_rows["real_time"] / one_row["real_time"],
            "ratio",
            shown,
            at_most=1.5,
        )
        rec.add(
            f"linear 4096x14336 bf16, 8 rows over the read loop's time for the same bytes, {cores}",
            bandwidth / eight_rows["GB/s"],
            "ratio",
            shown,
        )
        rec.add(
            f"linear 4096x14336 int4 over bf16, rows/s at 1 row, {cores}",
            one_row["real_time"] / int4["real_time"],
            "ratio",
            shown,
            at_least=2.5,
        )


def bench_speculation(rec: Recorder, model: str, prompts: list[str], extra: list[str]) -> dict:
    out = "/tmp/forerun-bench.json"
    command = [
        rec.args.forerun,
        "bench",
        "--model",
        model,
        "--draft",
        "models/demo-draft",
        "--prompts",
        *prompts,
        "--strategies",
        "autoregressive,serial_tree",
        *extra,
    ]
    rec.run([*command, "--json", out])
    return {"rows": json.loads(Path(out).read_text()), "command": relative(shlex.join(command))}


def add_speculation(rec: Recorder, name: str, result: dict, targets: dict) -> None:
    for workload, rows in result["rows"]["workloads"].items():
        for row in rows:
            if row["strategy"] == "autoregressive":
                continue
            kind = "greedy" if row["temperature"] == 0 else f"temperature {row['temperature']:g}"
            note = (
                f"{row['tokens_per_s']:.0f} tokens/s, {row['tokens_per_step']:.2f} tokens a step, "
                f"acceptance {100 * row['acceptance']:.0f}%, worst prompt "
                f"{row['speed_up_worst_prompt']:.2f}x, identical {row['identical']}/{row['prompts']}"
            )
            rec.add(
                f"serial_tree over autoregressive, {name}, {workload}, {kind}",
                row["speed_up"],
                "ratio",
                result["command"],
                at_least=targets.get((workload, row["temperature"] > 0)),
                note=note,
            )


def measure_demo(rec: Recorder) -> None:
    files = rec.args.prompts or ["bench/workloads/code.jsonl", "bench/workloads/prose.jsonl"]
    result = bench_speculation(rec, "models/demo-target", files, ["--limit", "8", "--repeat", "7"])
    targets = {}
    for file in files:
        stem = Path(file).stem
        is_code = "code" in stem
        targets[(stem, False)] = 1.3 if is_code else 0.98
        targets[(stem, True)] = 1.15 if is_code else 0.98
    add_speculation(rec, "demo pair", result, targets)


def measure_grown(rec: Recorder) -> None:
    files = [f for f in rec.args.prompts if "code" in f] or ["bench/workloads/code.jsonl"]
    result = bench_speculation(
        rec, rec.args.grown, files, ["--limit", "4", "--repeat", "1", "--max-tokens", "64"]
    )
    stem = Path(files[0]).stem
    add_speculation(rec, "Llama-3.2-1B shape bf16", result, {(stem, False): 2.0, (stem, True): 1.7})


def peak_bytes(rec: Recorder, model: str) -> tuple[int, str]:
    command = [
        rec.args.forerun,
        "generate",
        "--model",
        model,
        "--prompt",
        "x",
        "--max-tokens",
        "64",
        "--ignore-eos",
        "--context",
        "1024",
        "--json",
    ]
    timed = subprocess.run(
        ["python3", "-c", _PEAK, *command], check=True, capture_output=True, text=True, cwd=ROOT
    )
    return int(timed.stdout) * 1024, relative(shlex.join(command))


# A child of its own, since the kernel only tells the largest of all children.
_PEAK = (
    "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
    "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)


def measure_memory(rec: Recorder) -> None:
    models = ["models/demo-target", "models/demo-draft"]
    if rec.args.grown:
        models.append(rec.args.grown)
    for model in models:
        facts = json.loads(rec.run([rec.args.forerun, "inspect", model, "--json"]))
        peak, command = peak_bytes(rec, model)
        weights = facts["weight_bytes"]["as stored"]
        kv = facts["kv_bytes_per_token_bf16"] * 1024
        rec.add(
            f"peak resident size beyond weights and KV, {facts['parameters'] / 1e6:.0f} M "
            "parameters",
            (peak - weights - kv) / 1e6,
            "MB",
            command,
            at_most=150,
        )


def measure_host(rec: Recorder) -> None:
    command = [
        f"{rec.args.build}/src/tree/token_tree_bench",
        "--benchmark_format=json",
        "--benchmark_repetitions=5",
        "--benchmark_report_aggregates_only=true",
    ]
    reply = json.loads(rec.run(command))
    for bench in reply["benchmarks"]:
        if bench["aggregate_name"] == "median":
            unit = {"ns": 1e-3, "us": 1.0, "ms": 1e3}[bench["time_unit"]]
            rec.add(
                f"tree operations of a round: {bench['run_name']}",
                bench["cpu_time"] * unit,
                "us",
                relative(shlex.join(command)),
                at_most=20,
            )


def measure_text(rec: Recorder) -> None:
    command = [
        f"{rec.args.build}/src/text/tokenizer_bench",
        "--benchmark_filter=encode_novel",
        "--benchmark_format=json",
    ]
    for bench in json.loads(rec.run(command))["benchmarks"]:
        rec.add(
            f"tokenizer, {bench['name'].split('/')[1]}, a novel, 1 core",
            bench["bytes_per_second"] / 1e6,
            "MB/s",
            relative(shlex.join(command)),
            at_least=5,
        )


SECTIONS = {
    "linear": measure_linear,
    "demo": measure_demo,
    "grown": measure_grown,
    "memory": measure_memory,
    "host": measure_host,
    "text": measure_text,
}

if __name__ == "__main__":
    record_sections(__doc__, SECTIONS)
