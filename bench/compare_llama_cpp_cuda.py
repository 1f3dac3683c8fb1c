#!/usr/bin/env python3
"""Times llama.cpp's CUDA backend beside Forerun on the same GPU and the same weights.

8B in int4 (llama.cpp: Q4_1, the same numbers) and in bf16: plain decoding at a context of 1,000 tokens, with the
head as stored (bf16) and with one of 8 bits on both sides (int8 in groups of 64, Q8_0), and prompts of 512 and
2,048. llama.cpp is timed by its own llama-bench, with and without flash attention and with micro-batches of 512
and 2,048, of which the fastest counts; Forerun by decoder_cuda_bench (a call, host and logits included) and
prefill_cuda_bench.

    cmake -B llama -S llama.cpp -DGGML_CUDA=ON && cmake --build llama --target llama-bench
    bench/compare_llama_cpp_cuda.py --llama-bench llama/bin/llama-bench --out FILE
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpu_models import GpuModel, NotMadeError, on_disk
from recorder import Recorder, gpus, record_sections, relative

CONTEXT = 1000
PROMPTS = (512, 2048)
GENERATED = 128
# What llama.cpp gets in place of a dtype.
GGUF_TYPES = {"int4": "q4_1", "bf16": "bf16"}
# Targets: Forerun's rate as a multiple of llama.cpp's, and its ms a token.
TARGETS = {"int4": (2.35, 1.45), "bf16": (1.28, 3.70)}


@dataclass(frozen=True)
class Head:
    """A head on both sides, and what is measured with it."""

    suffix: str  # of a figure's name
    gguf_dtype: str
    flags: tuple[str, ...]  # of decoder_cuda_bench
    prompts: tuple[int, ...]


HEADS = (
    Head("", "bf16", (), PROMPTS),
    Head(" with a head of 8 bits", "q8_0", ("--int8-head",), ()),
)


def to_gguf(rec: Recorder, model: Path, dtype: str, head: Head) -> Path | None:
    """The model as a file for llama.cpp beside it; None, noted, where that fails."""
    path = model.parent / f"{model.name}-{head.gguf_dtype}-head.gguf"
    forerun = rec.program("forerun")
    if path.exists() or forerun is None:
        return path if path.exists() else None
    command = [str(forerun), "convert", str(model), str(path), "--to", GGUF_TYPES[dtype]]
    done = rec.attempt([*command, "--embedding", head.gguf_dtype])
    return path if done is not None else None


def llama_rates(
    rec: Recorder, path: Path, prompts: tuple[int, ...]
) -> dict[str, tuple[float, str]]:
    """The best tokens a second of "decode" and of each prompt, and the command that reached it."""
    runs = [
        ("decode", ["-p", "0", "-n", str(GENERATED), "-d", str(CONTEXT)]),
        *((f"prompt {n}", ["-p", str(n), "-n", "0"]) for n in prompts),
    ]
    best: dict[str, tuple[float, str]] = {}
    for name, flags in runs:
        batches = [] if name == "decode" else ["-b", "2048", "-ub", "512,2048"]
        command = [rec.args.llama_bench, "-m", str(path), *flags, *batches, "-ngl", "99"]
        command += ["-fa", "0,1", "-r", str(rec.args.repeat), "-o", "json"]
        for row in json.loads(rec.attempt(command) or "[]"):
            chosen = f"-fa {int(row['flash_attn'])} -ub {row['n_ubatch']}"
            shown = shlex.join(["llama-bench", "-m", "FILE", *flags, "-ngl", "99"])
            if row["avg_ts"] > best.get(name, (0.0, ""))[0]:
                best[name] = row["avg_ts"], f"{shown} {chosen}"
    return best


def our_rates(rec: Recorder, path: Path, head: Head) -> dict[str, tuple[float, str]]:
    """Ours, by the same names."""
    lines = path.parent / f"{path.name}.lines"
    found: dict[str, tuple[float, str]] = {}
    runs = [("decoder_cuda_bench", ["--rows", "1", "--context", str(CONTEXT), *head.flags])]
    if head.prompts:
        runs.append(("prefill_cuda_bench", ["--tokens", ",".join(map(str, head.prompts))]))
    for program, flags in runs:
        bench = rec.program(program)
        if bench is None:
            continue
        lines.unlink(missing_ok=True)
        rec.attempt([str(bench), str(path), *flags, "--json", str(lines)])
        shown = relative(shlex.join([program, "DIR", *flags]))
        for line in map(json.loads, lines.read_text().splitlines() if lines.exists() else []):
            if "prompt_tokens" in line:
                tokens = line["prompt_tokens"]
                found[f"prompt {tokens}"] = 1e3 * tokens / line["ms"], shown
            elif line.get("rows") == 1 and "ms" in line:
                found["decode"] = 1e3 / line.get("call_ms", line["ms"]), shown
    lines.unlink(missing_ok=True)
    return found


def measure(rec: Recorder, dtype: str) -> None:
    model = GpuModel("llama-3.1-8b", dtype)
    with suppress(NotMadeError), on_disk(rec, model) as (path,):
        for head in HEADS:
            gguf = to_gguf(rec, path, dtype, head)
            llama_figures = llama_rates(rec, gguf, head.prompts) if gguf else {}
            ours = our_rates(rec, path, head)
            if gguf and not rec.args.keep:
                gguf.unlink()
            add_figures(rec, model.title, dtype, head, ours, llama_figures)


def add_figures(
    rec: Recorder,
    title: str,
    dtype: str,
    head: Head,
    ours: dict[str, tuple[float, str]],
    llama_figures: dict[str, tuple[float, str]],
) -> None:
    over, most_ms = TARGETS[dtype]
    for name, (rate, command) in ours.items():
        figure = f"{title}, {name}{head.suffix}"
        rec.add(f"{figure}, ours", rate, "tokens/s", command)
        if name == "decode":
            rec.add(f"{figure}, ours, a token", 1e3 / rate, "ms", command, at_most=most_ms)
        if name in llama_figures:
            llama_rate, llama_command = llama_figures[name]
            rec.add(f"{figure}, llama.cpp", llama_rate, "tokens/s", llama_command)
            rec.add(
                f"{figure}, ours over llama.cpp",
                rate / llama_rate,
                "ratio",
                "bench/compare_llama_cpp_cuda.py",
                at_least=over if name == "decode" else 1.0,
            )


SECTIONS = {
    "llama.cpp int4": lambda rec: measure(rec, "int4"),
    "llama.cpp bf16": lambda rec: measure(rec, "bf16"),
}


def flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--llama-bench", required=True, help="llama.cpp's program of that name")
    parser.add_argument("--build", default="build/cuda-release", help="where the programs are")
    parser.add_argument("--models", default="/dev/shm", help="where models are written: 33 GB")
    parser.add_argument("--keep", action="store_true", help="leave models there for the next run")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", required=True)


if __name__ == "__main__":
    if not gpus() and not {"-h", "--help"} & set(sys.argv):
        raise SystemExit("compare_llama_cpp_cuda: this machine has no NVIDIA GPU")
    record_sections(__doc__, SECTIONS, flags)
