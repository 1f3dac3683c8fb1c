#!/usr/bin/env python3
"""Measures the CPU figures that this project promises and records them with their targets.

    scripts/demo >/dev/null                      # builds
    bench/measure_cpu.py linear demo memory host text --out bench/results/cpu.json
    tools/grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 --out /tmp/1b
    bench/measure_cpu.py grown --grown /tmp/1b --out bench/results/cpu.json

Sections given are replaced in --out; the others stay. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import tempfile
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.figures: list[dict] = []

    def run(self, command: list[str]) -> str:
        print("$", shlex.join(command), flush=True)
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        return done.stdout

    def add(self, name: str, value: float, unit: str, command: str,
            at_least: float | None = None, at_most: float | None = None, note: str = "") -> None:
        holds = None
        target = None
        if at_least is not None:
            target, holds = f">= {at_least}", value >= at_least
        if at_most is not None:
            target, holds = f"<= {at_most}", value <= at_most
        figure = {"figure": name, "value": round(value, 4), "unit": unit, "target": target,
                  "holds": holds, "command": command}
        if note:
            figure["note"] = note
        self.figures.append(figure)
        mark = {True: "holds", False: "MISSED", None: ""}[holds]
        print(f"  {name:64} {value:10.3f} {unit:10} {target or '':10} {mark}", flush=True)


def relative(path: str) -> str:
    return re.sub(re.escape(str(ROOT)) + "/?", "", path)


def measure_linear(rec: Recorder) -> None:
    for threads in ("1", "2"):
        command = ["env", f"FORERUN_BENCH_THREADS={threads}", f"{rec.args.build}/src/kernels/linear/linear_bench",
                   "--benchmark_filter=read/128MiB|4096x14336/(bf16|int4)/bf16/(1|8)/",
                   "--benchmark_format=json", "--benchmark_repetitions=5",
                   "--benchmark_enable_random_interleaving=true",
                   "--benchmark_report_aggregates_only=true"]
        reply = json.loads(rec.run(command))
        medians = {b["run_name"]: b for b in reply["benchmarks"] if b["aggregate_name"] == "median"}
        shown = relative(shlex.join(command))
        read = next(b for name, b in medians.items() if "read" in name)

        def find(weights: str, rows: int) -> dict:
            pattern = re.compile(rf"4096x14336/{weights}/bf16/(rows:)?{rows}(/|$)")
            return next(b for name, b in medians.items() if pattern.search(name))

        cores = "1 core" if threads == "1" else "2 cores"
        bandwidth = read["GB/s"]
        one, eight, int4 = find("bf16", 1), find("bf16", 8), find("int4", 1)
        rec.add(f"plain read loop, {cores}", bandwidth, "GB/s", shown)
        for name, bench in (("bf16", one), ("int4", int4)):
            rec.add(f"linear 4096x14336 {name}, 1 row over the read loop, {cores}",
                    bench["GB/s"] / bandwidth, "ratio", shown,
                    at_least=0.8)
        rec.add(f"linear 4096x14336 bf16, 8 rows over 1 row, {cores}",
                eight["real_time"] / one["real_time"], "ratio", shown, at_most=1.5)
        rec.add(f"linear 4096x14336 bf16, 8 rows over the read loop's time for the same bytes, {cores}",
                bandwidth / eight["GB/s"], "ratio", shown)
        rec.add(f"linear 4096x14336 int4 over bf16, rows/s at 1 row, {cores}",
                one["real_time"] / int4["real_time"], "ratio", shown, at_least=2.5)


def bench_speculation(rec: Recorder, model: str, prompts: list[str], extra: list[str]) -> dict:
    out = "/tmp/forerun-bench.json"
    command = [rec.args.forerun, "bench", "--model", model, "--draft", "models/demo-draft",
               "--prompts", *prompts, "--strategies", "autoregressive,serial_tree", *extra]
    rec.run([*command, "--json", out])
    return {"rows": json.loads(Path(out).read_text()), "command": relative(shlex.join(command))}


def add_speculation(rec: Recorder, name: str, result: dict, targets: dict) -> None:
    for workload, rows in result["rows"]["workloads"].items():
        for row in rows:
            if row["strategy"] == "autoregressive":
                continue
            kind = "greedy" if row["temperature"] == 0 else f"temperature {row['temperature']:g}"
            note = (f"{row['tokens_per_s']:.0f} tokens/s, {row['tokens_per_step']:.2f} tokens a step, "
                    f"acceptance {100 * row['acceptance']:.0f}%, worst prompt "
                    f"{row['speed_up_worst_prompt']:.2f}x, identical {row['identical']}/{row['prompts']}")
            rec.add(f"serial_tree over autoregressive, {name}, {workload}, {kind}", row["speed_up"],
                    "ratio", result["command"],
                    at_least=targets.get((workload, row["temperature"] > 0)), note=note)


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
    result = bench_speculation(rec, rec.args.grown, files,
                               ["--limit", "4", "--repeat", "1", "--max-tokens", "64"])
    stem = Path(files[0]).stem
    add_speculation(rec, "Llama-3.2-1B shape bf16", result, {(stem, False): 2.0, (stem, True): 1.7})


def peak_bytes(rec: Recorder, model: str) -> tuple[int, str]:
    command = [rec.args.forerun, "generate", "--model", model, "--prompt", "x", "--max-tokens", "64",
               "--ignore-eos", "--context", "1024", "--json"]
    timed = subprocess.run(["python3", "-c", _PEAK, *command], check=True, capture_output=True,
                           text=True, cwd=ROOT)
    return int(timed.stdout) * 1024, relative(shlex.join(command))


# A child of its own, since the kernel only tells the largest of all children.
_PEAK = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
         "stdout=subprocess.DEVNULL); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")


def measure_memory(rec: Recorder) -> None:
    models = ["models/demo-target", "models/demo-draft"]
    if rec.args.grown:
        models.append(rec.args.grown)
    for model in models:
        facts = json.loads(rec.run([rec.args.forerun, "inspect", model, "--json"]))
        peak, command = peak_bytes(rec, model)
        weights = facts["weight_bytes"]["as stored"]
        kv = facts["kv_bytes_per_token_bf16"] * 1024
        rec.add(f"peak resident size beyond weights and KV, {facts['parameters'] / 1e6:.0f} M "
                "parameters", (peak - weights - kv) / 1e6, "MB", command, at_most=150)


def measure_host(rec: Recorder) -> None:
    command = [f"{rec.args.build}/src/tree/token_tree_bench", "--benchmark_format=json",
               "--benchmark_repetitions=5", "--benchmark_report_aggregates_only=true"]
    reply = json.loads(rec.run(command))
    for bench in reply["benchmarks"]:
        if bench["aggregate_name"] == "median":
            unit = {"ns": 1e-3, "us": 1.0, "ms": 1e3}[bench["time_unit"]]
            rec.add(f"tree operations of a round: {bench['run_name']}", bench["cpu_time"] * unit,
                    "us", relative(shlex.join(command)), at_most=20)


def measure_text(rec: Recorder) -> None:
    command = [f"{rec.args.build}/src/text/tokenizer_bench", "--benchmark_filter=encode_novel",
               "--benchmark_format=json"]
    for bench in json.loads(rec.run(command))["benchmarks"]:
        rec.add(f"tokenizer, {bench['name'].split('/')[1]}, a novel, 1 core",
                bench["bytes_per_second"] / 1e6, "MB/s", relative(shlex.join(command)), at_least=5)


def measure_emulated(rec: Recorder) -> None:
    """The simulated executor against the emulated one, on machines of SwiftSpec's."""
    prompts, tokens = 4, 64
    # Side by side, each model computes on a processor of its own, as on the emulated machine.
    cases = [("serial", 2, []), ("serial", 4, []),
             ("parallel", 3, ["--target-devices", "cpu:0", "--draft-devices", "cpu:1"])]
    for workload in ("code", "prose"):
        for kind, depth, devices in cases:
            profile = f"bench/profiles/swiftspec.json#qwen2-72b-{kind}"
            simulate = [f"{rec.args.build}/bench/simulate_strategies", profile,
                        f"bench/acceptance/demo-{workload}.json", str(tokens)]
            simulated = rec.run(simulate)
            slowest = min(float(x) for x in re.findall(r"(\d+)x faster", simulated))
            out = str(Path(tempfile.gettempdir()) / "forerun-bench.json")
            command = [rec.args.forerun, "bench", "--model", "models/demo-target", "--draft",
                       "models/demo-draft", "--emulate", profile, *devices, "--prompts",
                       f"bench/workloads/{workload}.jsonl", "--strategies",
                       f"autoregressive,{kind}_tree", "--shape", "best", "--verify-tokens", "8",
                       "--draft-width", "8", "--draft-depth", str(depth), "--temperatures", "0",
                       "--limit", str(prompts), "--repeat", "3", "--max-tokens", str(tokens)]
            rec.run([*command, "--json", out])
            reply = json.loads(Path(out).read_text())
            row = reply["workloads"][workload][1]
            found = re.search(rf"{kind} bs8 w8 d{depth} +([\d.]+) tokens/s +([\d.]+)", simulated)
            rate, per_step = float(found.group(1)), float(found.group(2))
            late = reply["emulated"]
            name = f"{kind}_tree, {workload}, d {depth}"
            rec.add(f"simulated over emulated tokens/s, {name}, off by",
                    abs(rate / row["tokens_per_s"] - 1.0), "ratio", relative(shlex.join(command)),
                    at_most=0.05,
                    note=f"simulated {rate:.1f} tokens/s, {per_step:.2f} tokens a step; emulated "
                         f"{row['tokens_per_s']:.1f}, {row['tokens_per_step']:.2f}; "
                         f"{late['late_steps']} of {late['steps']} Steps late; simulation at least "
                         f"{slowest:.0f} times faster than what it simulates")
            rec.add(f"simulated time over the time it takes, {name}", slowest, "ratio",
                    relative(shlex.join(simulate)), at_least=100)


def measure_table6(rec: Recorder) -> None:
    """parallel_tree against the best serial_tree at SwiftSpec's Table 6 times, real acceptance."""

    def play(kind: str, depth: int, workload: str, temperature: float, extra: list[str]) -> dict:
        out = str(Path(tempfile.gettempdir()) / "forerun-bench.json")
        # Side by side, each model computes on a processor of its own, as on the emulated machine.
        devices = ["--target-devices", "cpu:0", "--draft-devices", "cpu:1"]
        command = [rec.args.forerun, "bench", "--model", "models/demo-target", "--draft",
                   "models/demo-draft", "--emulate",
                   f"bench/profiles/swiftspec.json#qwen2-72b-{kind}",
                   *(devices if kind == "parallel" else []), "--prompts",
                   f"bench/workloads/{workload}.jsonl", "--strategies", f"{kind}_tree", "--shape",
                   "best", "--verify-tokens", "8", "--draft-width", "8", "--draft-depth",
                   str(depth), "--temperatures", str(temperature), "--limit", "4", "--repeat", "1",
                   "--max-tokens", "96", *extra]
        rec.run([*command, "--json", out])
        row = json.loads(Path(out).read_text())["workloads"][workload][0]
        return {**row, "depth": depth, "command": relative(shlex.join(command))}

    for workload in ("code", "prose"):
        for temperature, extra in ((0, []), (0.8, []), (0.8, ["--no-shared-noise"])):
            serial = [play("serial", d, workload, temperature, extra) for d in (1, 2, 3, 4, 5)]
            best = max(serial, key=lambda row: row["tokens_per_s"])
            parallel = play("parallel", 3, workload, temperature, extra)
            kind = ("greedy" if temperature == 0 else "temperature 0.8, shared noise" if not extra
                    else "temperature 0.8, own noise")
            note = (f"serial_tree d {best['depth']}: {best['tokens_per_s']:.1f} tokens/s, "
                    f"{best['tokens_per_step']:.2f} tokens a step; parallel_tree d 3: "
                    f"{parallel['tokens_per_s']:.1f}, {parallel['tokens_per_step']:.2f}")
            rec.add(f"parallel_tree over the best serial_tree, Table 6's times, {workload}, {kind}",
                    parallel["tokens_per_s"] / best["tokens_per_s"], "ratio", parallel["command"],
                    at_least=1.35 if temperature == 0 else 1.1 if not extra else None, note=note)
            if temperature == 0:
                rec.add(f"tokens a step, parallel_tree over serial_tree at d 3, {workload}, {kind}",
                        parallel["tokens_per_step"] / serial[2]["tokens_per_step"], "ratio",
                        parallel["command"], at_least=0.75)


def measure_two_cores(rec: Recorder) -> None:
    """One core for each model, against both cores for each in turn."""
    rows = {}
    for name, extra in (("serial_tree", []),
                        ("parallel_tree", ["--target-devices", "cpu:0", "--draft-devices", "cpu:1"])):
        out = str(Path(tempfile.gettempdir()) / "forerun-bench.json")
        command = [rec.args.forerun, "bench", "--model", "models/demo-target", "--draft",
                   "models/demo-draft", *extra, "--prompts", "bench/workloads/code.jsonl",
                   "bench/workloads/prose.jsonl", "--strategies", f"autoregressive,{name}",
                   "--limit", "4", "--repeat", "3"]
        rec.run([*command, "--json", out])
        for workload, found in json.loads(Path(out).read_text())["workloads"].items():
            for row in found:
                if row["strategy"] == name:
                    rows[name, workload, row["temperature"]] = (row, relative(shlex.join(command)))
    for (name, workload, temperature), (row, command) in rows.items():
        if name == "serial_tree":
            continue
        serial = rows["serial_tree", workload, temperature][0]
        kind = "greedy" if temperature == 0 else f"temperature {temperature:g}"
        rec.add(f"parallel_tree on 1 + 1 cores over serial_tree on 2 in turn, {workload}, {kind}",
                row["tokens_per_s"] / serial["tokens_per_s"], "ratio", command,
                note=f"{row['tokens_per_s']:.0f} against {serial['tokens_per_s']:.0f} tokens/s; "
                     f"identical {row['identical']}/{row['prompts']}")


SECTIONS = {"linear": measure_linear, "demo": measure_demo, "grown": measure_grown,
            "memory": measure_memory, "host": measure_host, "text": measure_text,
            "emulated": measure_emulated, "table6": measure_table6, "two_cores": measure_two_cores}


def machine() -> dict:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    flags = re.search(r"flags\s*: (.*)", Path("/proc/cpuinfo").read_text())
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    count = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()
    return {"processor": model.group(1) if model else "unknown", "cores": int(count),
            "features": [f for f in wanted if flags and f in flags.group(1).split()]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="+", choices=sorted(SECTIONS))
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--grown", default="", help="the target grown to the 1B shape")
    parser.add_argument("--prompts", nargs="*", default=[], help="instead of bench/workloads")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    args.forerun = f"{args.build}/bin/forerun"
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True,
                            text=True, cwd=ROOT, check=False).stdout.strip()
    path = Path(args.out)
    record = json.loads(path.read_text()) if path.exists() else {}
    for section in args.sections:
        recorder = Recorder(args)
        SECTIONS[section](recorder)
        record[section] = {"machine": machine(), "commit": commit,
                           "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                           "figures": recorder.figures}
        path.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
