#!/usr/bin/env python3
"""Draws the timelines that README.md and docs/ show anew, from traces of this machine.

    cmake --preset cpu-release && cmake --build build/cpu-release >/dev/null
    bench/draw_timelines.py docs

Emulated Steps last what the profile says; the host's turns between them are this machine's own, so run
it where nothing else runs. RUNS traces are taken of each timeline. A run was disturbed where a turn of
the host that is drawn lost its processor for longer than MOST_LOST_MS. Of the runs that were not, the
one of median speed is drawn, whatever it looks like; where they are fewer than a half, none is.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = 9
MOST_LOST_MS = 1.0
PROMPT = "def fibonacci(n):"  # as in forerun trace --help
WORKLOAD = "bench/workloads/code.jsonl"  # its first prompt, for the long timeline

TIMELINES = {
    "timeline-serial.svg": ("swiftspec.json#qwen2-72b-serial", "serial_tree", PROMPT, 0, 150),
    "timeline-parallel.svg": ("swiftspec.json#qwen2-72b-parallel", "parallel_tree", PROMPT, 0, 150),
    "timeline-pipelined.svg": ("specpipe.json#ethernet", "pipelined", None, 2950, 1150),
}


def lost_ms(trace: dict, from_ms: float, length_ms: float) -> float:
    """The longest time that a turn between from_ms and length_ms later lay without a processor."""
    turns = [
        event
        for event in trace["traceEvents"]
        if event["ph"] == "X"
        and event["name"].startswith("after ")
        and from_ms <= event["ts"] / 1e3 <= from_ms + length_ms
    ]
    return max(event["dur"] / 1e3 - event["args"]["cpu_ns"] / 1e6 for event in turns)


def take(forerun: str, name: str, folder: Path, run: int) -> tuple[float, bool, Path]:
    """Tokens a second, whether it was quiet, and the picture of one run."""
    profile, strategy, prompt, from_ms, length_ms = TIMELINES[name]
    if prompt is None:
        prompt = json.loads((ROOT / WORKLOAD).read_text().splitlines()[0])["prompt"]
    drawn, written = folder / f"{run}-{name}", folder / f"{run}-{name}.json"
    said = subprocess.run(
        [
            forerun,
            "trace",
            "--model",
            "models/demo-target",
            "--draft",
            "models/demo-draft",
            "--emulate",
            f"bench/profiles/{profile}",
            "--strategy",
            strategy,
            "--prompt",
            prompt,
            "--svg",
            drawn,
            "--json",
            written,
            "--from-ms",
            str(from_ms),
            "--length-ms",
            str(length_ms),
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout
    rate = float(re.search(r"([\d.]+) tokens/s", said)[1])
    return rate, lost_ms(json.loads(written.read_text()), from_ms, length_ms) <= MOST_LOST_MS, drawn


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the pictures")
    parser.add_argument(
        "--only", choices=TIMELINES, action="append", help="just this one; may repeat"
    )
    parser.add_argument("--forerun", default="build/cpu-release/bin/forerun")
    args = parser.parse_args()
    out = args.out.resolve()
    for name in args.only or TIMELINES:
        with tempfile.TemporaryDirectory() as folder:
            runs = [take(args.forerun, name, Path(folder), run) for run in range(RUNS)]
            quiet = sorted((rate, drawn) for rate, was_quiet, drawn in runs if was_quiet)
            print(f"{name}: {len(quiet)} of {RUNS} runs were quiet", flush=True)
            if len(quiet) < RUNS / 2:
                print(f"{name}: too few, not drawn", file=sys.stderr)
                return 1
            rate, drawn = quiet[len(quiet) // 2]
            print(f"{name}: {rate:g} tokens/s, the median of {quiet[0][0]:g} to {quiet[-1][0]:g}")
            (out / name).write_text(drawn.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
