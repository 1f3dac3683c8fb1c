#!/usr/bin/env python3
"""Measures kernels of tiles (AMX) against the AVX-512 path on the same cores, in one run.

    tools/grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 --out /tmp/1b
    bench/measure_amx.py --grown /tmp/1b --cores 0-1 --out bench/results/amx.json

Sections: layers, steps, prompt, speculation (none named: all). Needs a processor with AMX.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
from pathlib import Path

from recorder import ROOT, Recorder, record_sections, relative

ISAS = ("avx512_bf16", "amx")


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--grown", required=True, help="the target grown to the 1B shape, bf16")
    parser.add_argument("--cores", default="0-1", help="processors to use, for example 0-1")
    parser.add_argument("--out", required=True)


def on(isa: str, command: list[str]) -> list[str]:
    return ["env", f"FORERUN_ISA={isa}", *command]


def program(rec: Recorder, name: str) -> str:
    found = rec.program(name)
    if found is None:
        raise SystemExit(f"{name}: not built under {rec.args.build}")
    return str(found)


def shown(command: list[str]) -> str:
    return re.sub(r"/\S*/(?=forerun|linear_bench)", "", relative(" ".join(command)))


def threads(cores: str) -> int:
    first, _, last = cores.partition("-")
    return int(last or first) - int(first) + 1


def measure_layers(rec: Recorder) -> None:
    times: dict[tuple[str, str], float] = {}
    for isa in ISAS:
        command = on(
            isa,
            [
                "env",
                f"FORERUN_BENCH_THREADS={threads(rec.args.cores)}",
                program(rec, "linear_bench"),
                "--benchmark_min_time=0.1",
                "--benchmark_filter=^2048x8192/(bf16_pairs|int4|int8)/bf16/(1|4|8|16|512)/",
                "--benchmark_format=json",
                "--benchmark_repetitions=3",
                "--benchmark_report_aggregates_only=true",
            ],
        )
        for bench in json.loads(rec.run(command))["benchmarks"]:
            if bench["aggregate_name"] == "median":
                times[isa, bench["run_name"].removesuffix("/real_time")] = bench["real_time"]
                shape = bench["run_name"].removesuffix("/real_time")
                rec.add(
                    f"linear {shape}, {isa}, cores {rec.args.cores}",
                    bench["real_time"] * 1e-6,
                    "ms",
                    shown(command),
                )
    for (isa, shape), time in times.items():
        if isa == "amx":
            rec.add(
                f"linear {shape}, avx512_bf16 over amx, cores {rec.args.cores}",
                times["avx512_bf16", shape] / time,
                "ratio",
                "the two above",
            )


def measure_steps(rec: Recorder) -> None:
    for isa in ISAS:
        with tempfile.TemporaryDirectory() as kept:
            command = on(
                isa,
                [
                    program(rec, "forerun"),
                    "plan",
                    "--model",
                    rec.args.grown,
                    "--draft",
                    "models/demo-draft",
                    "--devices",
                    f"cpu:{rec.args.cores}",
                    "--cost-cache",
                    kept,
                    "--batch",
                    "1",
                    "--context",
                    "500",
                    "--json",
                ],
            )
            rec.run(command)
            costs = json.loads(next(Path(kept).iterdir()).read_text())
            command[command.index(kept)] = "DIR"
        for model in ("target", "draft"):
            steps = [s for s in costs[model]["steps"] if s["kv_tokens"] == 0]
            note = ", ".join(f"{s['rows']}: {1e3 * s['seconds']:.2f}" for s in steps)
            one_row_seconds = steps[0]["seconds"]
            for step in steps[1:]:
                if step["rows"] in (8, 16):
                    target = 1.15 if isa == "amx" and model == "target" else None
                    rec.add(
                        f"step of {step['rows']} rows over 1 row, {model}, {isa}, cores "
                        f"{rec.args.cores}",
                        step["seconds"] / one_row_seconds,
                        "ratio",
                        shown(command),
                        at_most=target,
                        note=f"ms at rows {note}; each attended token "
                        f"{1e6 * costs[model]['seconds_per_attended_token']:.3f} us",
                    )


def prompt_seconds(rec: Recorder, isa: str, prompt: str) -> tuple[int, float, float, str]:
    command = on(
        isa,
        [
            program(rec, "forerun"),
            "generate",
            "--model",
            rec.args.grown,
            "--prompt-file",
            prompt,
            "--max-tokens",
            "9",
            "--ignore-eos",
            "--strategy",
            "autoregressive",
            "--devices",
            f"cpu:{rec.args.cores}",
            "--context",
            "2048",
            "--temperature",
            "0",
            "--cost-cache",
            "off",
            "--json",
        ],
    )
    reply = json.loads(rec.run(command))
    return (
        reply["prompt_tokens"],
        reply["time_to_first_token_ms"] / 1e3,
        reply["tokens_per_s"],
        shown(command),
    )


def measure_prompt(rec: Recorder) -> None:
    lines = (ROOT / "bench/workloads/code.jsonl").read_text(encoding="utf-8").splitlines()
    text = ("\n".join(json.loads(line)["prompt"] for line in lines) * 20)[:2050]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        runs = [(isa, prompt_seconds(rec, isa, file.name)) for _ in range(3) for isa in ISAS]
    medians = {}
    for isa in ISAS:
        isa_runs = [run for name, run in runs if name == isa]
        tokens, command = isa_runs[0][0], isa_runs[0][3].replace(file.name, "PROMPT")
        medians[isa] = statistics.median(seconds for _, seconds, _, _ in isa_runs)
        rec.add(
            f"prompt of {tokens} tokens, {isa}, cores {rec.args.cores}",
            tokens / medians[isa],
            "tokens/s",
            command,
            note=f"medians of 3; plain decoding after it "
            f"{statistics.median(speed for _, _, speed, _ in isa_runs):.2f} tokens/s",
        )
    rec.add(
        f"prompt, amx over avx512_bf16, cores {rec.args.cores}",
        medians["avx512_bf16"] / medians["amx"],
        "ratio",
        "the two above",
        at_least=4.0,
    )


def measure_speculation(rec: Recorder) -> None:
    speed = {}
    for isa in ISAS:
        out = f"/tmp/forerun-amx-{isa}.json"
        command = on(
            isa,
            [
                program(rec, "forerun"),
                "bench",
                "--model",
                rec.args.grown,
                "--draft",
                "models/demo-draft",
                "--prompts",
                "bench/workloads/code.jsonl",
                "--strategies",
                "autoregressive,serial_tree",
                "--temperatures",
                "0.8",
                "--limit",
                "2",
                "--repeat",
                "1",
                "--warmup",
                "1",
                "--max-tokens",
                "64",
                "--target-devices",
                f"cpu:{rec.args.cores}",
                "--cost-cache",
                "off",
            ],
        )
        rec.run([*command, "--json", out])
        rows = next(iter(json.loads(Path(out).read_text())["workloads"].values()))
        for row in rows:
            speed[isa, row["strategy"]] = row["tokens_per_s"]
            rec.add(
                f"{row['strategy']} at 0.8, {isa}, cores {rec.args.cores}",
                row["tokens_per_s"],
                "tokens/s",
                shown(command),
                note=f"{row['tokens_per_step']:.2f} tokens a step, identical "
                f"{row['identical']}/{row['prompts']}",
            )
    rec.add(
        f"serial_tree at 0.8, amx over avx512_bf16, cores {rec.args.cores}",
        speed["amx", "serial_tree"] / speed["avx512_bf16", "serial_tree"],
        "ratio",
        "the ones above",
        at_least=1.3,
    )


SECTIONS = {
    "layers": measure_layers,
    "steps": measure_steps,
    "prompt": measure_prompt,
    "speculation": measure_speculation,
}

if __name__ == "__main__":
    record_sections(__doc__, SECTIONS, add_flags)
