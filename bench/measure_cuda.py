#!/usr/bin/env python3
"""Measures the CUDA backend on a machine with 1 to 8 GPUs against its targets and floors.

    cmake --preset cuda-release && cmake --build build/cuda-release
    bench/measure_cuda.py                            # everything, some minutes
    bench/measure_cuda.py forwards --out FILE        # a section; the others in FILE stay

Writes models to memory-backed disk (--models), runs the tests, measures what this many GPUs allow and
prints and records it: machine, date, commit, command, target, floor (weights read once at 4.55 TB/s a
GPU) and how far above it. What cannot run is named and does not stop the rest. The binaries need only a
driver, so --build may be a folder of programs built elsewhere (FORERUN_COMMIT then names the commit).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
from contextlib import suppress
from datetime import date
from pathlib import Path

from gpu_models import READ_BYTES_PER_S, GpuModel, NotMadeError, on_disk, positions_of
from gpu_speculation import SHAPES, measure_speculation
from recorder import Recorder, gpus, record_sections, relative

ROWS = (1, 8, 16, 24, 32, 64)
MATRIX_FLOPS = 2.0 * 8192**3  # of compare_pytorch.py's product of large matrices
CONTEXT = 1000
# The targets, ms: model, GPUs, {rows: target}. Other rows are measured for the picture. Int4 models
# are also measured with a rounded head, which a draft has by default and a target may have.
ROUNDED_HEAD = {
    "llama-3.2-1b": "int4",
    "llama-3.2-3b": "int4",
    "llama-3.1-8b": "int8",
    "llama-3-70b": "int8",
}
FORWARDS = [
    (GpuModel("llama-3.2-1b", "int4"), [(1, {8: 0.45, 16: 0.56, 32: 0.72})]),
    (GpuModel("llama-3.2-1b", "bf16"), [(1, {1: 0.70})]),
    (GpuModel("llama-3.2-3b", "int4"), [(1, {8: 0.92, 16: 1.15, 32: 1.45})]),
    (GpuModel("llama-3.1-8b", "int4"), [(1, {1: 1.45, 8: 1.55, 16: 1.85, 32: 2.4, 64: 3.4})]),
    (GpuModel("llama-3.1-8b", "bf16"), [(1, {1: 3.7})]),
    (GpuModel("llama-3-70b", "int4", share=4), [(1, {8: 3.25, 16: 3.7, 32: 5.0, 64: 7.5})]),
    (
        GpuModel("llama-3-70b", "int4"),
        [
            (4, {8: 3.4, 16: 3.9, 32: 5.0}),
            (3, {8: 4.1}),
            (2, {8: 5.9, 16: 6.7, 32: 9.0}),
            (1, {}),
            (8, {}),
        ],
    ),
]


def json_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measured(rec: Recorder, command: list[str]) -> tuple[list[dict], str]:
    """Lines that a bench appends to the file named by --json, and its command; [] if it failed."""
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "lines"
        rec.attempt([*command, "--json", str(lines)])
        return json_lines(lines), relative(shlex.join([Path(command[0]).name, *command[1:]]))


def device_list(count: int) -> str:
    return ",".join(f"cuda:{n}" for n in range(count))


def measure_tests(rec: Recorder) -> None:
    """Every GPU test there is; the lossless suite on one GPU and, where there are more, on groups of two
    to four, and concurrent with the draft on a GPU of its own."""
    programs = sorted(
        path
        for path in Path(rec.args.build).rglob("*_cuda_test")
        if path.is_file() and os.access(path, os.X_OK)
    )
    runs = [(program, program.name, {}, []) for program in programs]
    if lossless := rec.program("lossless_test"):
        for count, on in enumerate(
            ("one GPU", "a group of two", "a group of three", "a group of four"), start=1
        ):
            if count <= len(gpus()):
                runs.append(
                    (
                        lossless,
                        f"lossless_test on {on}",
                        {"FORERUN_TEST_DEVICES": device_list(count)},
                        [],
                    )
                )
        if len(gpus()) > 1:
            # The other cases have no draft beside the target.
            runs.append(
                (
                    lossless,
                    "lossless_test on one GPU, the draft on another",
                    {"FORERUN_TEST_DEVICES": "cuda:0", "FORERUN_TEST_DRAFT_DEVICES": "cuda:1"},
                    ["--gtest_filter=*Concurrent*"],
                )
            )
    for program, title, variables, flags in runs:
        text = rec.attempt([str(program), "--gtest_brief=1", *flags], variables) or ""
        counts = dict(re.findall(r"\[ +(PASSED|SKIPPED) +\] (\d+) test", text))
        command = " ".join([*(f"{k}={v}" for k, v in variables.items()), program.name, *flags])
        rec.add(
            f"{title}: tests that pass",
            float(counts.get("PASSED", 0)),
            "tests",
            command,
            at_least=1,
            note=f"{counts.get('SKIPPED', 0)} left out",
        )


def measure_forwards(rec: Recorder) -> None:
    """Whole forwards at context 1,000: medians of graph replays."""
    bench = rec.program("decoder_cuda_bench")
    if bench is None:
        return
    for model, runs in FORWARDS:
        if rec.args.only and not {model.title, model.title.split()[0]} & set(rec.args.only):
            continue
        with suppress(NotMadeError), on_disk(rec, model) as (path,):
            for count, targets in runs:
                if rec.args.counts and count not in rec.args.counts:
                    continue
                if count > len(gpus()):
                    print(f"  {model.title} on {count} GPUs: left out, there are {len(gpus())}")
                    continue
                measure_forwards_of(rec, bench, model, path, count, targets)
                if model.dtype == "int4" and count <= 2:
                    head = ROUNDED_HEAD[model.shape]
                    measure_forwards_of(rec, bench, model, path, count, targets, head)


def measure_forwards_of(
    rec: Recorder,
    bench: Path,
    model: GpuModel,
    path: Path,
    count: int,
    targets: dict[int, float],
    head: str | None = None,
) -> None:
    lines, command = measured(
        rec,
        [
            str(bench),
            str(path),
            "--rows",
            ",".join(map(str, ROWS)),
            "--context",
            str(CONTEXT),
            *(["--devices", device_list(count)] if count > 1 else []),
            *([f"--{head}-head"] if head else []),
        ],
    )
    title = model.title + (f" with an {head} head" if head else "")
    floor = model.floor_ms(count, head)
    for line in lines:
        rec.add(
            f"{title}, {count} GPU{'s' * (count > 1)}, {line['rows']} rows",
            line["ms"],
            "ms",
            command.replace(str(path), "DIR"),
            at_most=targets.get(line["rows"]),
            floor=floor,
            note=f"a call, host and logits included: {line['call_ms']:.3f} ms"
            if "call_ms" in line
            else "",
        )
        rec.rows.append(
            {
                "model": title,
                "gpus": count,
                "rows": line["rows"],
                "ms": line["ms"],
                "floor_ms": floor,
            }
        )


# The times that this run has measured, in us, by the names that PyTorch's operators have, too.
OURS: dict[str, float] = {}
ATTENTION = "attention 70b-tp4 8 rows, context {}"
BUDGET_ROWS = 8
BUDGET_CONTEXTS = (500, CONTEXT, 32000)
# us of a layer of 70B int4 on 4 GPUs, 8 rows, context 1000.
BUDGET = {"QKV": 3.5, "attention": 4, "O": 6, "gate, up": 15.5, "down": 10.5}


def parts_of_a_layer(lines: list[dict]) -> dict[tuple[int, str], float]:
    """Microseconds by context and part; attention may be two kernels, of longer names."""
    parts: dict[tuple[int, str], float] = {}
    for line in lines:
        if name := line.get("part", ""):
            key = line["context"], "attention" if name.startswith("attention") else name
            parts[key] = parts.get(key, 0.0) + line["us_a_layer"]
    return parts


def measure_budget(rec: Recorder) -> None:
    """Parts of a layer inside a forward, by graphs that lack one: 70B int4 on 4 GPUs, and one GPU's
    quarter of it alone, where O and down lack their sums; attention at other contexts, as long as
    the model takes them."""
    bench = rec.program("decoder_cuda_bench")
    if bench is None:
        return
    # A quarter of the layers shows what all of them would, a layer.
    runs = [(GpuModel("llama-3-70b", "int4", share=4, layers=20), 1)]
    if len(gpus()) >= 4:
        runs.append((GpuModel("llama-3-70b", "int4"), 4))
    for model, count in runs:
        lines = []
        with suppress(NotMadeError), on_disk(rec, model) as (path,):
            devices = ["--devices", device_list(count)]
            contexts = [
                str(context)
                for context in BUDGET_CONTEXTS
                if context + BUDGET_ROWS <= positions_of(path)
            ]
            lines, command = measured(
                rec,
                [
                    str(bench),
                    str(path),
                    "--rows",
                    str(BUDGET_ROWS),
                    "--context",
                    ",".join(contexts),
                    "--budget",
                    *(devices if count > 1 else []),
                ],
            )
        for (context, part), us in parts_of_a_layer(lines).items():
            if context != CONTEXT and part != "attention":
                continue
            if part == "attention" and model.share == 4:
                OURS[ATTENTION.format(context)] = us
            floor = 1e6 * model.part_bytes(context).get(part, 0) / READ_BYTES_PER_S / count
            # Long contexts: 70% of the bandwidth.
            at_most = {500: 5, CONTEXT: BUDGET.get(part)}.get(context, round(floor / 0.7, 2))
            note = ""
            if us < 0:  # no cost that a target could be held against
                at_most, floor, note = None, 0.0, "the layer takes longer without it"
            rec.add(
                f"{model.title}, {count} GPU{'s' * (count > 1)}, 8 rows, context {context}, {part}",
                us,
                "us a layer",
                command.replace(str(path), "DIR"),
                at_most=at_most,
                floor=floor or None,
                note=note,
            )


def measure_attention(rec: Recorder) -> None:
    """Tree attention by itself, keys and values from memory; SwiftSpec's Table 7 has 9.6 and 13.4
    us."""
    bench = rec.program("attention_cuda_bench")
    if bench is None:
        return
    for filtered in ("70b-tp4", "8b"):
        lines, command = measured(rec, [str(bench), "--filter", filtered])
        for line in lines:
            shape, *numbers = line["figure"].removeprefix("attention alone ").split(" ", 1)
            rows, context = map(int, re.findall(r"\d+", numbers[0]))
            at_most = {500: 5, CONTEXT: 6}.get(context) if shape == "70b-tp4" else None
            if context == 32000:  # 70% of the bandwidth
                at_most = round(line["target"] / 0.7, 1)
            rec.add(
                line["figure"],
                line["value"],
                "us",
                command,
                floor=line["target"],
                at_most=at_most if rows == 8 else None,
                note=line["mode"],
            )


def torch_rows(rec: Recorder) -> str:
    return ",".join(rows for rows in rec.args.layer_rows.split(",") if rows in ("1", "8")) or "8"


def measure_layers(rec: Recorder) -> None:
    """Linear layers by themselves and in the order of a model, against their weights' bytes."""
    bench = rec.program("linear_cuda_bench")
    if bench is None:
        return
    rows, few = rec.args.layer_rows, torch_rows(rec)
    for flags in (
        ["--rows", rows],
        ["--norm", "--rows", few, "--filter", "qkv"],
        ["--forwards", "--norm", "--rows", rows],
    ):
        lines, command = measured(rec, [str(bench), *flags])
        for line in lines:
            name = line["figure"]
            if "--filter" in flags:
                name = name.replace(".qkv ", ".qkv with norm ")
            OURS[name] = line["value"]
            rec.add(
                name,
                line["value"],
                line["unit"],
                command,
                floor=line["target"],
                note=line["note"].partition("; ")[2],
            )


def measure_sums(rec: Recorder) -> None:
    """A linear layer and its sum over GPUs, beside the layer alone; SwiftSpec's Table 7 has 11.7 us for
    the attention block on 4 GPUs. With one GPU the sum goes through loopback, links left out."""
    bench = rec.program("linear_reduce_cuda_bench")
    for count in sorted({min(2, len(gpus())), min(3, len(gpus())), min(4, len(gpus()))}):
        if bench is None:
            return
        lines, command = measured(rec, [str(bench), "--gpus", str(count), "--rows", "8,16,32"])
        for line in lines:
            at_most = {"70b-tp4-int4.o 8 rows + sum": 8, "70b-tp4-int4.down 8 rows + sum": 16}
            rec.add(
                f"{line['figure']}, {count} GPU{'s' * (count > 1)}",
                line["value"],
                "us",
                command,
                at_most=at_most.get(line["figure"]) if count > 1 else None,
                floor=line["target"],
            )


def run_pytorch(rec: Recorder, *flags: str) -> list[dict]:
    """What compare_pytorch.py measures; [] where there is no torch."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "torch.json"
        command = ["python3", "bench/compare_pytorch.py", *flags, "--json", str(out)]
        rec.attempt(command)  # which writes what it has, should its time end
        return json.loads(out.read_text()) if out.exists() else []


def measure_prefill(rec: Recorder) -> None:
    """From a prompt to its first logits, beside what large matrix products reach in the same run."""
    bench = rec.program("prefill_cuda_bench")
    model = GpuModel("llama-3.1-8b", "bf16")
    if bench is None:
        return
    rates = [MATRIX_FLOPS / row["us"] / 1e6 for row in run_pytorch(rec, "--matrix")]
    lines = []
    with suppress(NotMadeError), on_disk(rec, model) as (path,):
        lines, command = measured(rec, [str(bench), str(path), "--tokens", "512,2048,8192"])
    for line in lines:
        tokens, shown = line["prompt_tokens"], command.replace(str(path), "DIR")
        rec.add(
            f"{model.title}, prompt of {tokens} tokens",
            line["ms"],
            "ms",
            shown,
            note=f"{line['tflops']:.0f} TFLOP/s",
        )
        if rates:
            rec.add(
                f"{model.title}, prompt of {tokens} tokens, share of the matrix rate",
                line["tflops"] / rates[0],
                "ratio",
                shown,
                at_least=0.30 if tokens == 8192 else None,
                note=f"PyTorch's product of 8,192: {rates[0]:.0f} TFLOP/s",
            )


def measure_pytorch(rec: Recorder) -> None:
    """The same operators in PyTorch and here, in the same run."""
    for needed, measure in (
        ("8b-bf16.qkv 8 rows", measure_layers),
        (ATTENTION.format(CONTEXT), measure_budget),
    ):
        if needed not in OURS:
            measure(Recorder(rec.args, rec.until))
    for row in run_pytorch(rec, "--rows", torch_rows(rec)):
        name, us = row["operator"], row["us"]
        if name in OURS:
            rec.add(
                f"PyTorch {row['how']} over ours, {name}",
                us / OURS[name],
                "ratio",
                "bench/compare_pytorch.py",
                at_least=1.0,
                note=f"PyTorch {row['torch']}: {us:.2f} us against {OURS[name]:.2f}",
            )
        else:
            rec.add(f"PyTorch {row['how']}, {name}", us, "us", "bench/compare_pytorch.py")


def measure_machine(rec: Recorder) -> None:
    """What the GPUs read and how they are linked."""
    forerun = rec.program("forerun")
    if forerun and (text := rec.attempt([str(forerun), "inspect", "--devices"])) is not None:
        print(text)
        for line in text.splitlines():
            for word, unit in zip(line.split(), line.split()[1:]):
                if line.startswith("cuda:") and unit == "GB/s" and word.isdigit():
                    rec.add(
                        f"{line.split()[0]} reads its memory",
                        float(word),
                        "GB/s",
                        "forerun inspect --devices",
                        note=f"floors take {READ_BYTES_PER_S:.3g}",
                    )
                    break


def gpu_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*", help="of " + ", ".join(SECTIONS))
    parser.add_argument("--build", default="build/cuda-release", help="where the programs are")
    parser.add_argument(
        "--models",
        default="/dev/shm/forerun-models",
        help="where models are written; 70B int4 takes 40 GB",
    )
    parser.add_argument(
        "--prompts",
        nargs="*",
        default=["bench/workloads/code.jsonl", "bench/workloads/prose.jsonl"],
    )
    parser.add_argument("--keep", action="store_true", help="leave models there for the next run")
    parser.add_argument(
        "--layer-rows", default="8,1,16,32", help="of layers; PyTorch's: 8,1 of them"
    )
    parser.add_argument("--only", nargs="*", help="forwards of these models: 1B '8B bf16' ...")
    parser.add_argument("--counts", nargs="*", type=int, help="forwards on so many GPUs: 1 2 ...")
    parser.add_argument("--seconds", type=float, help="in all; what then is left is left out")
    parser.add_argument("--section-seconds", type=float, help="a section")
    parser.add_argument("--limit", type=int, default=4, help="prompts of each file")
    parser.add_argument("--tokens", type=int, default=128, help="tokens a prompt")
    parser.add_argument(
        "--target", default="llama-3-70b", help="shape of speculation's target, int4"
    )
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, help="speculation with these trees")
    parser.add_argument("--drafts", nargs="*", choices=["1B", "3B"], help="speculation with these")
    parser.add_argument("--out", default=f"bench/results/cuda-{date.today()}.json")


# The most wanted first, should time run out.
SECTIONS = {
    "forwards": measure_forwards,
    "speculation": measure_speculation,
    "budget": measure_budget,
    "attention": measure_attention,
    "sums": measure_sums,
    "prefill": measure_prefill,
    "layers": measure_layers,
    "pytorch": measure_pytorch,
    "machine": measure_machine,
    "tests": measure_tests,
}

if __name__ == "__main__":
    if not gpus() and not {"-h", "--help"} & set(sys.argv):
        raise SystemExit("measure_cuda: this machine has no NVIDIA GPU (nvidia-smi names none)")
    record_sections(__doc__, SECTIONS, gpu_flags)
