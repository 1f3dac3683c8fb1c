#!/usr/bin/env python3
"""How long a GGUF file takes to open, beside reading it once, and the memory that opening takes.

    bench/measure_loading.py cold warm --model FILE.gguf --out bench/results/loading.json

Reading: read(2) of the whole file or, cold, touching every page of a mapping where that is faster. Opening: from
the start of `forerun generate` until its engine is made, costs of Steps known from an earlier start. Both in
turns, `--runs` times, each after the file has left the page cache (cold) or with all of it there (warm); the
medians are compared. Memory is what smaps_rollup calls anonymous, at its highest: mapped pages of the file are
apart. Run it on a quiet machine, with a file of a few gigabytes.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import re
import shutil
import statistics
import subprocess
import threading
import time
from pathlib import Path

from recorder import Recorder, record_sections, relative

PORTION = 4 << 20
LOADED = "chosen: numerics"  # the first line that forerun -v logs once an engine is made
SLOWER, MORE_BYTES = 1.3, 200_000_000  # targets


def forget(path: Path) -> None:
    """Lets the kernel drop the file's pages from memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_once(path: Path) -> float:
    buffer = bytearray(PORTION)
    begun = time.monotonic()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.monotonic() - begun


def map_once(path: Path) -> float:
    begun = time.monotonic()
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
        pages.madvise(mmap.MADV_SEQUENTIAL)
        for begin in range(0, len(pages), PORTION):
            sum(pages[begin : begin + PORTION : mmap.PAGESIZE])
    return time.monotonic() - begun


def anonymous_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0  # the process has ended
    found = re.search(r"^Anonymous:\s+(\d+) kB", text, flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def open_once(command: list[str]) -> tuple[float, int]:
    """Seconds until the engine is made, and the most anonymous bytes until then."""
    begun = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        peak, loaded = 0, threading.Event()

        def watch() -> None:
            nonlocal peak
            while not loaded.wait(0.02):
                peak = max(peak, anonymous_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        said, seconds = [], None
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if LOADED in line:
                seconds = time.monotonic() - begun
                peak = max(peak, anonymous_bytes(process.pid))
                break
        loaded.set()
        watcher.join()
        process.kill()
    if seconds is None:
        raise SystemExit(f"forerun ended before it said '{LOADED}': {''.join(said)[-1000:]}")
    return seconds, peak


def measure(recorder: Recorder, cold: bool) -> None:
    args = recorder.args
    path = Path(args.model)
    command = [args.forerun, "-v", "generate", "--model", str(path), "--prompt", "Hi"]
    command += ["--max-tokens", "1", "--context", "256", "--strategy", "autoregressive"]
    command += ["--cost-cache", f"{args.out}.costs"]
    shape = json.loads(recorder.run([args.forerun, "inspect", str(path), "--json"]))
    reading, mapping, opening, peaks = [], [], [], []
    read_once(path)
    open_once(command)  # measures and keeps what Steps cost
    for _ in range(args.runs):
        if cold:
            forget(path)
            mapping.append(map_once(path))
            forget(path)
        reading.append(read_once(path))
        if cold:
            forget(path)
        seconds, peak = open_once(command)
        opening.append(seconds)
        peaks.append(peak)
    gigabytes = path.stat().st_size / 1e9
    fastest = min(statistics.median(times) for times in (reading, mapping) if times)
    opened = statistics.median(opening)
    shown = relative(" ".join(command))
    shutil.rmtree(f"{args.out}.costs", ignore_errors=True)
    recorder.add("size of the file", gigabytes, "GB", shown)
    recorder.add("reading it once", fastest, "s", shown, note=f"{gigabytes / fastest:.2f} GB/s")
    recorder.add("opening it", opened, "s", shown, note=f"{gigabytes / opened:.2f} GB/s")
    # Packing binds where the file is in memory already.
    recorder.add(
        "opening over reading", opened / fastest, "x", shown, at_most=SLOWER if cold else None
    )
    weights = shape["weight_bytes"]["as stored"]
    recorder.add(
        "peak of anonymous memory beyond the weights",
        (max(peaks) - weights) / 1e6,
        "MB",
        shown,
        at_most=MORE_BYTES / 1e6,
        note="weights include an embedding that stays in the file",
    )


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", required=True)


SECTIONS = {
    "cold": lambda recorder: measure(recorder, cold=True),
    "warm": lambda recorder: measure(recorder, cold=False),
}

if __name__ == "__main__":
    record_sections(__doc__, SECTIONS, add_flags)
