#!/usr/bin/env python3
"""Where a kernel's warps stand still: adds up Nsight Compute's samples by stretches of instructions.

    ncu --set full -k regex:linear_tiles -c 1 -f -o out PROGRAM ...
    ncu -i out.ncu-rep --page source --csv > out.csv
    bench/stall_samples.py out.csv [--least PERCENT]

A stretch is instructions in a row that ran equally often: a loop's body, what runs once before it, what runs
once a tile behind it. Printed in the order of the code: share of the samples, how often it ran (warps), how many
instructions it has, the stall reasons that make up most of it, and its most sampled instructions.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

SAMPLES = "# Samples"
EXECUTED = "Instructions Executed"
STALL = "stall_"
NOT_ISSUED = "(Not Issued)"
MOST_REASONS = 3
MOST_LINES = 2
LINE_CHARACTERS = 44


@dataclass
class Instruction:
    index: int
    text: str
    executed: int
    samples: int
    stalls: Counter[str]


def number(cell: str) -> int:
    """Of a cell; 0 where it holds none."""
    try:
        return int(float(cell.replace(",", "")))
    except ValueError:
        return 0


def read_instructions(lines: Iterator[str]) -> list[Instruction]:
    """Of a CSV of the source page; its first rows name the kernel."""
    rows = csv.reader(lines)
    head = next((row for row in rows if SAMPLES in row), None)
    if head is None:
        raise ValueError(f"no column {SAMPLES!r}: not what `ncu --page source --csv` prints")
    column = {name: index for index, name in enumerate(head)}
    stalls = [
        (name.removeprefix(STALL), index)
        for name, index in column.items()
        if name.startswith(STALL) and not name.endswith(NOT_ISSUED)
    ]
    return [
        Instruction(
            index=index,
            text=" ".join(row[column["Source"]].split()),
            executed=number(row[column[EXECUTED]]),
            samples=number(row[column[SAMPLES]]),
            stalls=Counter({name: number(row[at]) for name, at in stalls}),
        )
        for index, row in enumerate(row for row in rows if len(row) == len(head))
    ]


def report(instructions: list[Instruction], least_percent: float) -> Iterator[str]:
    """Lines of a table; stretches of fewer samples than `least_percent` are one line at the end."""
    total = sum(instruction.samples for instruction in instructions)
    if total == 0:
        raise ValueError("no samples: collect section SourceCounters (--set full)")
    yield f"{'samples':>8} {'ran':>9} {'count':>6}  instructions"
    others = 0
    for executed, members in groupby(instructions, key=lambda each: each.executed):
        stretch = list(members)
        samples = sum(each.samples for each in stretch)
        if 100 * samples < least_percent * total:
            others += samples
            continue
        stalls = sum((each.stalls for each in stretch), Counter())
        reasons = ", ".join(
            f"{name} {100 * count / samples:.0f}%"
            for name, count in stalls.most_common(MOST_REASONS)
            if count > 0
        )
        yield (
            f"{100 * samples / total:7.1f}% {executed:9} {len(stretch):6}  "
            f"{stretch[0].index} to {stretch[-1].index}: {reasons}"
        )
        for each in sorted(stretch, key=lambda each: -each.samples)[:MOST_LINES]:
            yield f"{'':26}{100 * each.samples / total:5.1f}%  {each.index} {each.text[:LINE_CHARACTERS]}"
    yield f"{100 * others / total:7.1f}% in shorter ones"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=Path)
    parser.add_argument(
        "--least", type=float, default=2.0, help="percent of the samples (default 2)"
    )
    args = parser.parse_args()
    try:
        with args.csv.open(newline="", encoding="utf-8") as lines:
            for line in report(read_instructions(lines), args.least):
                print(line)
    except (OSError, ValueError) as error:
        print(f"{args.csv}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
