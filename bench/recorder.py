"""What the measuring scripts share: running commands, holding figures against targets, recording."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path

import tabulate_results

ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    def __init__(self, args: argparse.Namespace, until: float = float("inf")) -> None:
        """`until`: what attempt() may use of time.monotonic()."""
        self.args = args
        self.until = until
        self.figures: list[dict] = []
        self.rows: list[dict] = []  # of a table, where a section has one
        self.failed: list[dict] = []  # what could not be measured, and why

    def run(self, command: list[str]) -> str:
        print("$", shlex.join(command), flush=True)
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        return done.stdout

    def attempt(self, command: list[str], variables: dict[str, str] | None = None) -> str | None:
        """As run, but a command that fails, or takes ten minutes or longer than there is time, is
        noted, and None comes back."""
        print("$", shlex.join(command), flush=True)
        seconds = min(600.0, self.until - time.monotonic())
        try:
            if seconds < 2:
                raise subprocess.SubprocessError("left out: no time left")
            done = subprocess.run(
                command,
                check=True,
                capture_output=True,
                text=True,
                cwd=ROOT,
                timeout=seconds,
                env={**os.environ, **(variables or {})},
            )
            return done.stdout
        except (OSError, subprocess.SubprocessError) as error:
            said = str(getattr(error, "stderr", "") or getattr(error, "stdout", "") or error)
            if isinstance(error, subprocess.TimeoutExpired):
                said = f"timed out after {seconds:.0f} s"
            shown = relative(shlex.join([Path(command[0]).name, *command[1:]]))
            self.failed.append({"command": shown, "said": relative(said[-1000:])})
            print(f"  FAILED: {said[-1000:]}", flush=True)
            return None

    def program(self, name: str) -> Path | None:
        """The program of that name anywhere under --build; None, noted, where it is not built."""
        found = [
            path
            for path in Path(self.args.build).rglob(name)
            if path.is_file() and os.access(path, os.X_OK)
        ]
        if not found:
            self.failed.append({"command": name, "said": f"not built under {self.args.build}"})
            print(f"  {name}: not built under {self.args.build}", flush=True)
        return found[0].resolve() if found else None

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        command: str,
        at_least: float | None = None,
        at_most: float | None = None,
        note: str = "",
        floor: float | None = None,
    ) -> None:
        holds = None
        target = None
        if at_least is not None:
            target, holds = f">= {at_least}", value >= at_least
        if at_most is not None:
            target, holds = f"<= {at_most}", value <= at_most
        figure = {
            "figure": name,
            "value": round(value, 4),
            "unit": unit,
            "target": target,
            "holds": holds,
            "command": command,
        }
        if floor is not None:
            figure |= {"floor": round(floor, 4), "over_floor": round(value / floor, 3)}
        if note:
            figure["note"] = note
        self.figures.append(figure)
        mark = {True: "holds", False: "MISSED", None: ""}[holds]
        over = "" if floor is None else f"{value / floor:.2f} x floor"
        print(f"  {name:64} {value:10.3f} {unit:10} {target or '':10} {over:12} {mark}", flush=True)


def compact(value: object) -> object:
    """A record with eight digits of every number, more than any was measured to, and without what a
    figure lacks (a target, say) or has like the one before it (the command)."""
    if isinstance(value, dict):
        return {name: compact(item) for name, item in value.items()}
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if not isinstance(value, list):
        return value
    items, before = [], None
    for item in map(compact, value):
        if isinstance(item, dict) and "figure" in item:
            command = item.get("command", before)
            if command == before:
                item.pop("command", None)
            before = command
            item = {name: value for name, value in item.items() if value is not None}
        items.append(item)
    return items


def record_text(record: object) -> str:
    """JSON of a results file: what holds plain values alone, a figure for instance, on one line."""
    return _lines(compact(record), "") + "\n"


def _lines(value: object, indent: str) -> str:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    if not any(isinstance(item, dict | list) for _, item in items):
        return json.dumps(value, separators=(",", ":"))
    inner = indent + " "
    names = [f"{json.dumps(name)}:" for name in value] if isinstance(value, dict) else repeat("")
    held = value.values() if isinstance(value, dict) else value
    lines = [
        inner + name + (_lines(item, inner) if isinstance(item, dict | list) else json.dumps(item))
        for name, item in zip(names, held)
    ]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n" + ",\n".join(lines) + f"\n{indent}{closing}"


def relative(path: str) -> str:
    return re.sub(re.escape(str(ROOT)) + "/?", "", path)


def gpus() -> list[str]:
    """Names and drivers of the GPUs that programs see; empty without a driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    done = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(len(found)))))
    # GPUs are given by number or by name (GPU-...); a name says nothing about the order.
    numbers = [int(n) if n.isdigit() else 0 for n in visible.split(",") if n]
    return [found[n] for n in numbers if n < len(found)]


def machine() -> dict:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    flags = re.search(r"flags\s*: (.*)", Path("/proc/cpuinfo").read_text())
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    count = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()
    facts = {
        "processor": model.group(1) if model else "unknown",
        "cores": int(count),
        "features": [f for f in wanted if flags and f in flags.group(1).split()],
    }
    return facts | ({"gpus": gpus()} if gpus() else {})


def commit() -> str:
    """Of this checkout; FORERUN_COMMIT names it where there is no repository."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    ).stdout.strip()
    return os.environ.get("FORERUN_COMMIT") or described or "unknown"


def cpu_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="+")
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--grown", default="", help="the target grown to the 1B shape")
    parser.add_argument("--grown-draft", default="", help="a draft for it, of a third of its cost")
    parser.add_argument("--prompts", nargs="*", default=[], help="instead of bench/workloads")
    parser.add_argument("--out", required=True)


def record_sections(
    doc: str,
    sections: dict[str, Callable[[Recorder], None]],
    add_flags: Callable[[argparse.ArgumentParser], None] = cpu_flags,
) -> None:
    """The command line of a script: measures the sections named (none: all) into --out.

    `add_flags` adds at least `sections`, --build and --out; its default for `prepare`, if it sets one, is
    called with what was parsed.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_flags(parser)
    args = parser.parse_args()
    unknown = [name for name in args.sections if name not in sections]
    if unknown:
        parser.error(f"sections {', '.join(unknown)}: expected some of {', '.join(sections)}")
    if prepare := getattr(args, "prepare", None):
        prepare(args)
    args.forerun = f"{args.build}/bin/forerun"
    path = Path(args.out)
    record = json.loads(path.read_text()) if path.exists() else {}
    end = time.monotonic() + (getattr(args, "seconds", None) or float("inf"))
    for section in args.sections or sections:
        longest = getattr(args, "section_seconds", None) or float("inf")
        recorder = Recorder(args, min(end, time.monotonic() + longest))
        sections[section](recorder)
        record[section] = {
            "machine": machine(),
            "commit": commit(),
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "figures": recorder.figures,
        }
        for name in ("rows", "failed"):
            if found := getattr(recorder, name):
                record[section][name] = found
        path.write_text(record_text(record))
        tabulate_results.refresh(path)
