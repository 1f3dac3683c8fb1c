#!/usr/bin/env python3
"""Measures the server under load: its own processor time a token, pace of streams, and memory.

    cmake --preset cpu-release && cmake --build build/cpu-release >/dev/null
    bench/measure_server.py overhead demo --out bench/results/server.json

overhead   null_server: the HTTP and API of `forerun serve` over an engine that emits tokens at a set pace,
           --streams of them at a time beside --idle connections; calls one after the other, by themselves,
           and several tokens at a time.
demo       `forerun serve` of the demo pair with the same, by all strategies in turn, 5% of the clients leaving.
refusals   The same with room for fewer requests than come: 429s.

Sections given are replaced in --out; the others stay. docs/measuring-load.md says what each figure is. The
load generator runs on the same processors.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from recorder import ROOT, Recorder, record_sections, relative

MOST_US = 30  # processor time of the server a token
MOST_SPREAD = 4  # the 99th percentile of the time between tokens over its median
MOST_GROWTH = 40  # MiB: 20 up or down
STRATEGIES = "auto serial_tree autoregressive sparse_self parallel_tree".split()
WARM_UP_S = 90


@contextmanager
def serving(command: list[str]):
    """The process and its port, once it listens."""
    with tempfile.TemporaryDirectory() as cache:
        process = subprocess.Popen(
            [*command, "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "XDG_CACHE_HOME": cache},
        )
        try:
            line = process.stdout.readline()
            found = re.search(r":(\d+)$", line.strip())
            if not found:
                raise RuntimeError(f"{command[0]} did not start: {line}")
            yield process.pid, found[1]
        finally:
            for _ in range(2):
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)
            process.stdout.close()


def load(rec: Recorder, server: list[str], flags: list[str]) -> tuple[dict | None, str]:
    """The report of http_load, None where it failed, and what was run."""
    program = rec.program("http_load")
    if program is None:
        return None, ""
    with tempfile.TemporaryDirectory() as folder, serving(server) as (process, port):
        out = Path(folder) / "load.json"
        shown = relative(" ".join(["http_load", *flags])) + ", of " + relative(" ".join(server))
        print("$", shown, flush=True)
        # Calls that failed end it with 1, and are in its report.
        subprocess.run(
            [
                str(program),
                "--port",
                port,
                "--server-process",
                str(process),
                "--json",
                str(out),
                *flags,
            ],
            check=False,
            cwd=ROOT,
        )
        if out.exists():
            return json.loads(out.read_text()), shown
        rec.failed.append({"command": shown, "said": "no report"})
        return None, shown


def add_calls(rec: Recorder, what: str, report: dict, command: str) -> None:
    calls, idle = report["calls"], report["idle_connections"]
    busy = report["load_average"]
    note = (
        f"{calls['complete']} complete, {calls['refused_429']} refused with 429, {calls['left']} left; at most "
        f"{calls['most_at_once']} at once in {report['seconds']:.0f} s; load average of the machine "
        f"{busy['before']} before, {busy['after']} after"
    )
    rec.add(f"{what}: calls that failed", calls["failed"], "calls", command, at_most=0, note=note)
    if idle["opened"] > 0:
        rec.add(
            f"{what}: idle connections lost",
            idle["lost"],
            f"of {idle['opened']}",
            command,
            at_most=0,
        )


def add_pace(
    rec: Recorder, what: str, times: dict, command: str, at_most: float | None = None
) -> None:
    rec.add(
        f"{what}, p99 over p50",
        times["p99_ms"] / times["p50_ms"],
        "x",
        command,
        at_most=at_most,
        note=f"p50 {times['p50_ms']:.2f}, p99 {times['p99_ms']:.2f}, longest {times['max_ms']:.1f} ms",
    )


def overhead(rec: Recorder) -> None:
    program = rec.program("null_server")
    if program is None:
        return
    args = rec.args
    loads = {
        "one after the other": (["--step-ms", "20"], []),
        # A call lasts 1.2 s on average: six tenths of the streams are busy.
        "Poisson arrivals": (["--step-ms", "20"], ["--arrivals", f"poisson:{args.streams // 2}"]),
        "4 tokens at a time": (["--step-ms", "40", "--tokens-per-step", "4"], []),
    }
    for name, (server_flags, load_flags) in loads.items():
        server = [
            str(program),
            "--model",
            "models/demo-target",
            "--max-requests",
            str(args.streams),
            *server_flags,
        ]
        flags = [
            "--streams",
            str(args.streams),
            "--idle",
            str(args.idle),
            "--seconds",
            str(args.seconds_each),
            "--stamps",
            "--leave",
            "0.05",
            "--prompts",
            "bench/workloads/code.jsonl",
            *load_flags,
        ]
        report, command = load(rec, server, flags)
        if report is None:
            continue
        what = f"null engine, {name}"
        add_calls(rec, what, report, command)
        tokens = 4 if "4 tokens" in name else 1
        rec.add(
            f"{what}: the server's processor time a token",
            report["server_cpu"]["server_us_an_event"] / tokens,
            "us",
            command,
            at_most=MOST_US,
            note=f"{report['events']} events",
        )
        add_pace(
            rec,
            f"{what}: between the engine's stamps",
            report["between_stamps"],
            command,
            MOST_SPREAD,
        )
        add_pace(
            rec,
            f"{what}: between events at the client",
            report["between_events"],
            command,
            MOST_SPREAD,
        )
        rec.add(
            f"{what}: from stamp to client, p50",
            report["stamp_to_client"]["p50_ms"],
            "ms",
            command,
            note=f"p99 {report['stamp_to_client']['p99_ms']:.2f} ms",
        )


def demo(rec: Recorder) -> None:
    args = rec.args
    server = [
        args.forerun,
        "serve",
        "--model",
        "models/demo-target",
        "--draft",
        "models/demo-draft",
        "--max-requests",
        str(args.streams),
        "--kv-memory",
        "400MB",
        "--idle-seconds",
        "7200",
    ]
    flags = [
        "--streams",
        str(args.streams),
        "--idle",
        str(args.idle),
        "--seconds",
        str(args.demo_seconds),
        "--prompts",
        "bench/workloads/code.jsonl",
        "bench/workloads/prose.jsonl",
        "--leave",
        "0.05",
        "--warm-up-seconds",
        str(WARM_UP_S),
        "--silence-seconds",
        "180",
        "--strategies",
        *STRATEGIES,
    ]
    report, command = load(rec, server, flags)
    if report is None:
        return
    add_calls(rec, "demo pair", report, command)
    add_pace(rec, "demo pair: between events at the client", report["between_events"], command)
    memory = report["memory_mib"]
    rec.add(
        "demo pair: range of resident memory after warm-up",
        memory["most"] - memory["least"],
        "MiB",
        command,
        at_most=MOST_GROWTH,
        note=f"{memory['least']:.1f} to {memory['most']:.1f} from {WARM_UP_S} s on",
    )
    rec.rows = [
        {"s": round(s), "resident_mib": round(mib, 1)}
        for s, mib in memory["samples"][:: args.every]
    ]


def refusals(rec: Recorder) -> None:
    args = rec.args
    server = [
        args.forerun,
        "serve",
        "--model",
        "models/demo-target",
        "--draft",
        "models/demo-draft",
        "--max-requests",
        "32",
        "--max-waiting",
        "32",
    ]
    flags = [
        "--streams",
        str(args.streams),
        "--seconds",
        str(args.seconds_each),
        "--prompts",
        "bench/workloads/code.jsonl",
        "--max-tokens",
        "64",
    ]
    report, command = load(rec, server, flags)
    if report is None:
        return
    add_calls(rec, "room for 64", report, command)
    rec.add(
        "room for 64: calls refused with 429 and Retry-After",
        report["calls"]["refused_429"],
        "calls",
        command,
    )


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--seconds-each", type=float, default=60)
    parser.add_argument("--demo-seconds", type=float, default=600)
    parser.add_argument("--every", type=int, default=20, help="samples of memory that make a row")
    parser.add_argument("--out", required=True)


if __name__ == "__main__":
    record_sections(__doc__, {"overhead": overhead, "demo": demo, "refusals": refusals}, add_flags)
