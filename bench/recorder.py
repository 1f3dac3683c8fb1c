"""What the measuring scripts share: running commands, holding figures against targets, recording."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Recorder:
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.figures: list[dict] = []
        self.rows: list[dict] = []  # of a table, where a section has one

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


def machine() -> dict:
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    flags = re.search(r"flags\s*: (.*)", Path("/proc/cpuinfo").read_text())
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16")
    count = subprocess.run(["nproc"], capture_output=True, text=True, check=True).stdout.strip()
    return {"processor": model.group(1) if model else "unknown", "cores": int(count),
            "features": [f for f in wanted if flags and f in flags.group(1).split()]}


def record_sections(doc: str, sections: dict[str, Callable[[Recorder], None]]) -> None:
    """The command line of a script: measures the sections named and puts them into --out."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="+", choices=sorted(sections))
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--grown", default="", help="the target grown to the 1B shape")
    parser.add_argument("--grown-draft", default="", help="a draft for it, of a third of its cost")
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
        sections[section](recorder)
        record[section] = {"machine": machine(), "commit": commit,
                           "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                           "figures": recorder.figures}
        if recorder.rows:
            record[section]["rows"] = recorder.rows
        path.write_text(json.dumps(record, indent=2) + "\n")
