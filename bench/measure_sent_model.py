#!/usr/bin/env python3
"""How long a launch takes to send a model to hosts that lack it, and to start again with their copies.

    bench/measure_sent_model.py --model runs/target-1b --out bench/results/sent-model.json

Hosts are network namespaces of this machine, each stage's with a /tmp of its own and a link of --rate to the
others. The model lies below this machine's /tmp, where the stages' hosts do not see it; their copies lie in theirs,
in memory. All processes share this machine's processors, which on hosts of their own they would not: a transfer
over TCP, its digests and those of the coordinator are all paid for here.

Sending: from when the coordinator has learned who lacks the model until all have what their stages load, its own
digests of the files included, over the time that the largest stage's bytes take at the link's rate. Starts: until the
engine is made, step costs known. Memory: the most that a stage's process has had resident, over the bytes that the
file has of its layers (and of the head; an embedding stays in the file), the KV of --context 512 included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recorder import ROOT, Recorder, record_sections, relative

sys.path.insert(0, str(ROOT / "tests" / "multi_host"))
from launch import peak_resident_bytes  # noqa: E402
from namespaces import Namespaces  # noqa: E402

LOADED = "chosen: numerics"  # the first line that forerun -v logs once an engine is made
SENT = re.compile(r"sent (\d+) MB of the model to hosts that lacked it in ([0-9.]+) s")
HOSTS = 3
CACHE = "/tmp/models"  # each stage's host has its own
SLOWER, SECOND_START_S, MORE_BYTES = 1.3, 5.0, 150_000_000  # targets


def inside(network: Namespaces, host: int, *command: str) -> str:
    done = subprocess.run(
        [*network.inside(host), *command], check=True, capture_output=True, text=True
    )
    return done.stdout


def start(network: Namespaces, command: list[str]) -> tuple[float, str, list[int]]:
    """Seconds until the engine is made, what was said, and each stage's peak of memory in bytes."""
    begun = time.monotonic()
    with subprocess.Popen(
        [*network.inside(0), *command],
        env=network.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    ) as process:
        said, seconds, peaks = [], None, []
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if LOADED in line:
                seconds = time.monotonic() - begun
                peaks = [
                    max(peak_resident_bytes(number) for number in network.processes(host))
                    for host in range(1, HOSTS)
                ]
        process.wait()
    if seconds is None:
        raise SystemExit(f"forerun ended before it said '{LOADED}': {''.join(said)[-2000:]}")
    return seconds, "".join(said), peaks


def measure(recorder: Recorder) -> None:
    args = recorder.args
    network = Namespaces(HOSTS, args.rate, own_files=True)
    try:
        with tempfile.TemporaryDirectory(dir="/tmp") as here:
            measure_on(recorder, network, Path(here))
    finally:
        network.close()


def measure_on(recorder: Recorder, network: Namespaces, here: Path) -> None:
    args = recorder.args
    # Where the stages' hosts see it, and the model where they do not.
    program = Path(network.folder.name) / "forerun"
    shutil.copy(args.forerun, program)
    model = here / Path(args.model).name
    os.symlink(Path(args.model).resolve(), model)
    hosts = here / "hosts.txt"
    hosts.write_text("".join(name + "\n" for name in network.names))
    command = [str(program), "generate", "-v", "--model", str(model), "--hosts", str(hosts)]
    command += ["--network", network.network, "--model-cache", CACHE]
    command += ["--cost-cache", str(here / "costs"), "--context", "512", "--prompt", "def f("]
    command += ["--max-tokens", "8", "--strategy", "autoregressive"]
    shown = "bench/measure_sent_model.py " + relative(
        shlex.join(["--model", args.model, "--rate", args.rate, "--runs", str(args.runs)])
    )
    start(network, command)  # measures and keeps what Steps cost
    sending, over_links, first, second, peaks = [], [], [], [], []
    for _ in range(args.runs):
        for host in range(1, HOSTS):
            inside(network, host, "rm", "-rf", CACHE)
        shutil.rmtree(here / "costs" / "chunk-digests", ignore_errors=True)
        seconds, said, peak = start(network, command)
        first.append(seconds)
        peaks.append(peak)
        found = SENT.search(said)
        if found is None:
            raise SystemExit(f"nothing was sent: {said[-2000:]}")
        sending.append(float(found[2]))
        copies = [
            1024 * int(inside(network, host, "du", "-sk", CACHE).split()[0])
            for host in range(1, HOSTS)
        ]
        over_links.append(sending[-1] / (8 * max(copies) / bits_of(args.rate)))
        seconds, said, peak = start(network, command)
        if SENT.search(said):
            raise SystemExit("the second start has sent something")
        second.append(seconds)
        peaks.append(peak)
    size = sum(path.stat().st_size for path in Path(args.model).iterdir())
    print(said, flush=True)
    recorder.add("bytes of the model", size / 1e9, "GB", shown)
    for host, copy in enumerate(copies):
        recorder.add(f"bytes of stage {host + 1}'s copy", copy / 1e9, "GB", shown)
    recorder.add("sending, digests included", statistics.median(sending), "s", shown)
    recorder.add(
        "sending over the largest copy's bytes at the link's rate",
        statistics.median(over_links),
        "x",
        shown,
        at_most=SLOWER,
        note="every process on this machine's processors",
    )
    recorder.add("first start", statistics.median(first), "s", shown)
    recorder.add("second start", statistics.median(second), "s", shown, at_most=SECOND_START_S)
    for host, held in enumerate(bytes_of_stages(Path(args.model), said)):
        peak = max(peak[host] for peak in peaks)
        recorder.add(
            f"peak of stage {host + 1}'s memory beyond its layers",
            (peak - held) / 1e6,
            "MB",
            shown,
            at_most=MORE_BYTES / 1e6,
        )


def bytes_of_stages(model: Path, said: str) -> list[int]:
    """What the file has of each stage's layers and, for the last one, of the head."""
    with (model / "model.safetensors").open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    header.pop("__metadata__", None)
    sizes = {
        name: end - begin
        for name, tensor in header.items()
        for begin, end in [tensor["data_offsets"]]
    }
    head = (
        "lm_head." if any(name.startswith("lm_head.") for name in sizes) else "model.embed_tokens."
    )
    stages = re.findall(r"stage \d+: layers (\d+) to (\d+) of \d+(.*)", said)
    bytes_of = []
    for first, last, rest in stages:
        begins = [f"model.layers.{layer}." for layer in range(int(first), int(last) + 1)]
        begins += [head] if "head" in rest else []
        bytes_of.append(sum(size for name, size in sizes.items() if name.startswith(tuple(begins))))
    return bytes_of


def bits_of(rate: str) -> float:
    number, unit = re.fullmatch(r"([0-9.]+)([kmg])bit", rate).groups()
    return float(number) * {"k": 1e3, "m": 1e6, "g": 1e9}[unit]


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*")
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--model", required=True, help="a folder of about a gigabyte")
    parser.add_argument("--rate", default="1gbit", help="of each link")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", required=True)


SECTIONS = {"sending": measure}

if __name__ == "__main__":
    record_sections(__doc__, SECTIONS, add_flags)
