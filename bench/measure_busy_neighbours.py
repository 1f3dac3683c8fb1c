#!/usr/bin/env python3
"""Measures what busy neighbours take: decoding beside as many foreign busy threads as there are
processors, and undisturbed, in turn.

    cmake --preset cpu-release && cmake --build build/cpu-release >/dev/null
    bench/measure_busy_neighbours.py demo --out bench/results/busy-neighbours.json
    tools/grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 --out /tmp/1b
    bench/measure_busy_neighbours.py grown --grown /tmp/1b --out bench/results/busy-neighbours.json

Sections given are replaced in --out; the others stay. Run it on a quiet machine. A fair scheduler leaves
half of each processor, so 0.5 is all that there is to keep. The neighbours do nothing but count. Rates
are medians over the rounds, of all tokens over all decoding time.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from recorder import Recorder, record_sections, relative

STRATEGIES = ("autoregressive", "serial_tree", "auto")
TEMPERATURES = (0.0, 0.8)
KEPT = 0.3  # of the undisturbed speed
DROPPED = 0.9  # of plain decoding beside neighbours: what auto has at least


# Ends with its parent, so that a killed bench leaves no busy process behind.
NEIGHBOUR = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(10_000_000):
        pass
"""


@contextmanager
def neighbours(count: int):
    """`count` processes that never wait, each in a session of its own, as other people's are: Linux shares
    processors out among sessions first. Of the same priority as this one's."""
    running = [
        subprocess.Popen([sys.executable, "-c", NEIGHBOUR], start_new_session=True)
        for _ in range(count)
    ]
    own = Path("/proc/self/autogroup")
    for each in running:
        if own.exists() and (nice := own.read_text().rpartition(" ")[2].strip()) not in ("", "0"):
            Path(f"/proc/{each.pid}/autogroup").write_text(nice)
    try:
        yield
    finally:
        for each in running:
            each.kill()
        for each in running:
            each.wait()


def measure(rec: Recorder, what: str, model: str, tokens: int, prompts: int, rounds: int) -> None:
    rates: dict[tuple[str, float, bool], list[float]] = {}
    command: list[str] = []
    processors = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "bench.json")
        for turn in range(rounds + 1):
            for disturbed in (False, True):
                command = [
                    rec.args.forerun,
                    "bench",
                    "--model",
                    model,
                    "--draft",
                    "models/demo-draft",
                    "--prompts",
                    "bench/workloads/code.jsonl",
                    "--strategies",
                    ",".join(STRATEGIES),
                    "--temperatures",
                    ",".join(map(str, TEMPERATURES)),
                    "--limit",
                    str(prompts),
                    "--repeat",
                    "1",
                    "--max-tokens",
                    str(tokens),
                ]
                with neighbours(processors if disturbed else 0):
                    rec.run([*command, "--cost-cache", folder, "--json", out])
                rows = json.loads(Path(out).read_text())["workloads"]["code"]
                # Rows of auto are named by what it chose.
                asked = [(name, temperature) for temperature in TEMPERATURES for name in STRATEGIES]
                for (name, temperature), row in zip(asked, rows, strict=True):
                    if row["identical"] != row["prompts"]:
                        raise ValueError(f"{name}: texts differ")
                    if turn > 0:  # the first one measured what Steps cost
                        rates.setdefault((name, temperature, disturbed), []).append(
                            row["tokens_per_s"]
                        )
    shown = relative(shlex.join(command))
    for temperature in TEMPERATURES:
        for strategy in STRATEGIES:
            alone, beside = (
                statistics.median(rates[strategy, temperature, d]) for d in (False, True)
            )
            spread = rates[strategy, temperature, True]
            rec.rows.append(
                {
                    "model": what,
                    "strategy": strategy,
                    "temperature": temperature,
                    "tokens_per_s": alone,
                    "beside_neighbours": beside,
                    "kept": beside / alone,
                    "rounds_beside": spread,
                }
            )
            rec.add(
                f"{what}, {strategy} at {temperature:g}: beside {processors} neighbours",
                beside / alone,
                "of alone",
                shown,
                at_least=KEPT,
                note=f"{beside:.1f} for {alone:.1f} tokens/s, {min(spread):.1f} to {max(spread):.1f} beside",
            )
        plain, auto = (
            statistics.median(rates[name, temperature, True]) for name in ("autoregressive", "auto")
        )
        rec.add(
            f"{what}, auto at {temperature:g} beside neighbours over plain decoding there",
            auto / plain,
            "ratio",
            shown,
            at_least=DROPPED,
        )


def measure_demo(rec: Recorder) -> None:
    measure(rec, "demo pair", "models/demo-target", tokens=256, prompts=3, rounds=3)


def measure_grown(rec: Recorder) -> None:
    measure(rec, "1B shape, bf16", rec.args.grown, tokens=48, prompts=1, rounds=3)


if __name__ == "__main__":
    record_sections(__doc__, {"demo": measure_demo, "grown": measure_grown})
