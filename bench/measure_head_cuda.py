#!/usr/bin/env python3
"""Measures an EAGLE-3 head beside its target on one GPU: shapes of Llama-3.1-8B and its published
head, random weights.

    cmake --preset cuda-release && cmake --build build/cuda-release --target head_cuda_bench
    bench/measure_head_cuda.py                       # everything, a few minutes
    bench/measure_head_cuda.py int4 --rows 8         # an int4 target alone

Writes the models to memory-backed disk (--models). Each section is a target's format: what keeping
taps costs a forward, and the passes of the head in bf16, with an int4 LM head and in int4: a depth
of a tree, and a catch-up on rows that the target has verified. Floors: weights read once.

Sections replayed_int4 and replayed_bf16 run serial_tree with the head, while its guesses come true as
often as asked for (replay_batches): tokens a second at 5.4 tokens a step of one request, which is what the
published head of this model reaches on greedy MATH500, and at 3.5 of each of 32. A round takes as long
whatever comes of it, so the rate is the measured one times 5.4 over the tokens a step of that run.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from datetime import date
from pathlib import Path

from gpu_models import HEAD_BITS, READ_BYTES_PER_S, GpuModel
from measure_cuda import measured
from recorder import ROOT, Recorder, gpus, record_sections

SHAPE = "llama-3.1-8b"
DRAFT_VOCAB = 32000
# Formats of the head's layers and of its LM head, by the bench's flag.
HEADS = {"": ("bf16", "bf16"), "--int4-head": ("bf16", "int4"), "--int4": ("int4", "int4")}
DEPTH_TARGET_MS = {8: 0.12}  # with an int4 head
MOST_OF_TAPS = 0.01  # of a forward

# Tokens a step of one request and of each of 32, and settings of replay_batches that bring about as many.
RANK_HITS = "0.07,0.03,0.02,0.01,0.01"  # chances of a head's second to sixth guess
ONE, MANY = 5.4, 3.5
REPLAYS = {
    1: (
        ["--draft-acceptance", "0.884", "--draft-depths", "7"],
        ["--draft-acceptance", "0.86", "--draft-depths", "8", "--trees", "12x4x7"],
        ["--draft-acceptance", "0.845", "--draft-depths", "5", "--trees", "16x4x7,16x8x7"],
    ),
    32: (["--draft-acceptance", "0.83", "--draft-depths", "3,4", "--trees", "4x1x3,6x2x4"],),
}
# Tokens a second of one request; over plain decoding of 32.
REPLAY_TARGETS = {"int4": (1650, 1.05), "bf16": (950, 1.6)}


def depth_floor_ms(layers: str, lm_head: str) -> float:
    """What a depth must read: a layer with an attention of twice the inputs, and the LM head."""
    sizes = GpuModel(SHAPE, "bf16").sizes
    query, kv = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    weights = sizes.hidden_size * (2 * (query + 2 * kv) + query + 3 * sizes.intermediate_size)
    bits = weights * HEAD_BITS[layers] + DRAFT_VOCAB * sizes.hidden_size * HEAD_BITS[lm_head]
    return 1e3 * bits / 8 / READ_BYTES_PER_S


def write_models(rec: Recorder, dtype: str) -> tuple[Path, Path]:
    """The target and its head, random; kept ones are used again."""
    target = Path(rec.args.models) / f"{SHAPE}-{dtype}-random"
    head = Path(rec.args.models) / f"{SHAPE}-head-random"
    for path, flags in (
        (target, ["--dtype", dtype]),
        (head, ["--dtype", "bf16", "--head", str(DRAFT_VOCAB)]),
    ):
        if (path / "config.json").exists():  # written last
            continue
        shutil.rmtree(path, ignore_errors=True)
        tool = [sys.executable, "tools/random_checkpoint.py", "--shape", SHAPE]
        rec.run([*tool, *flags, "--out", str(path)])
    return target, head


def measure_target(rec: Recorder, dtype: str) -> None:
    bench = rec.program("head_cuda_bench")
    if bench is None:
        return
    target, head = write_models(rec, dtype)
    for flag, (layers, lm_head) in HEADS.items():
        flags = [flag] if flag else []
        lines, command = measured(
            rec, [str(bench), str(target), str(head), "--rows", rec.args.rows, *flags]
        )
        command = command.replace(str(target), "TARGET").replace(str(head), "HEAD")
        plain_ms = 0.0
        for line in lines:
            rows, ms, what = line["rows"], line["ms"], line["pass"]
            note = f"a call, host and logits included: {line['call_ms']:.3f} ms"
            if what.startswith("target"):
                if flag:
                    continue  # the same target again
                rec.add(f"8B {dtype}, {rows} rows, {what}", ms, "ms", command, note=note)
                if what == "target":
                    plain_ms = ms
                else:
                    rec.add(
                        f"8B {dtype}, {rows} rows, share of taps",
                        ms / plain_ms - 1,
                        "",
                        command,
                        at_most=MOST_OF_TAPS,
                    )
                continue
            is_depth = what == "head, a depth"
            rec.add(
                f"{layers} head with an {lm_head} LM head, {rows} rows, {what.removeprefix('head, ')}",
                ms,
                "ms",
                command,
                at_most=DEPTH_TARGET_MS.get(rows) if is_depth and layers == "int4" else None,
                floor=depth_floor_ms(layers, lm_head) if is_depth else None,
                note=note,
            )
    if not rec.args.keep:
        shutil.rmtree(target, ignore_errors=True)


def measure_replayed(rec: Recorder, dtype: str) -> None:
    bench = rec.program("replay_batches")
    if bench is None:
        return
    target, head = write_models(rec, dtype)
    shutil.copy(ROOT / rec.args.tokenizer, target)  # random weights come without one
    for weights in ("int4", "auto"):
        for requests, settings in REPLAYS.items():
            for setting in settings:
                with tempfile.TemporaryDirectory() as scratch:
                    out = Path(scratch) / "rows.json"
                    command = [str(bench), "--model", str(target), "--draft", str(head)]
                    command += [
                        "--draft-weights",
                        weights,
                        "--devices",
                        "cuda:0",
                        "--context",
                        "1000",
                    ]
                    command += [
                        "--requests",
                        str(requests),
                        "--tokens",
                        "1000" if requests == 1 else "256",
                    ]
                    command += ["--rank-hits", RANK_HITS, "--repeats", "3", *setting]
                    rec.attempt([*command, "--json", str(out)])
                    rows = json.loads(out.read_text()) if out.exists() else []
                shown = " ".join([bench.name, *command[1:]])
                shown = shown.replace(str(target), "TARGET").replace(str(head), "HEAD")
                add_replayed(rec, rows, dtype, weights, shown)


def add_replayed(rec: Recorder, rows: list[dict], dtype: str, weights: str, command: str) -> None:
    """Figures of a run's rows, of which the first is plain decoding."""
    head = "int4 head" if weights == "int4" else "bf16 head with an int4 LM head"
    for row in rows[1:]:
        requests = row["requests"]
        share = (ONE if requests == 1 else MANY) / row["tokens_a_round"]
        of_one, of_many = REPLAY_TARGETS[dtype]
        name = row["strategy"].removeprefix("head, ") + f" of depth {row['gamma']}"
        rec.add(
            f"8B {dtype}, {head}, {requests} request{'s' * (requests > 1)}, {name}, "
            + (f"at {ONE} tokens a step" if requests == 1 else f"over plain, at {MANY} a step"),
            share * (row["tokens_per_s"] if requests == 1 else row["speed_up"]),
            "tokens/s" if requests == 1 else "x",
            command,
            at_least=(of_one if requests == 1 else of_many) if weights == "int4" else None,
            note=f"measured {row['tokens_per_s']:.0f} tokens/s at {row['tokens_a_round']:.2f} tokens a step, "
            f"plain {rows[0]['tokens_per_s']:.0f}; a depth {row['draft_ms']:.2f} ms, "
            f"a verification {row['verify_ms']:.2f}",
        )


def flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*", help="of " + ", ".join(SECTIONS))
    parser.add_argument("--build", default="build/cuda-release", help="where the programs are")
    parser.add_argument(
        "--models", default="/dev/shm/forerun-models", help="where models are written"
    )
    parser.add_argument("--keep", action="store_true", help="leave models there for the next run")
    parser.add_argument(
        "--tokenizer",
        default="models/demo-target/tokenizer.json",
        help="for replays: text is not looked at, only its tokens are drawn",
    )
    parser.add_argument("--rows", default="1,8,16,32", help="of a pass")
    parser.add_argument("--out", default=f"bench/results/head-cuda-{date.today()}.json")


SECTIONS = {
    dtype: lambda rec, dtype=dtype: measure_target(rec, dtype) for dtype in ("int4", "bf16")
} | {
    f"replayed_{dtype}": lambda rec, dtype=dtype: measure_replayed(rec, dtype)
    for dtype in REPLAY_TARGETS
}

if __name__ == "__main__":
    if not gpus() and not {"-h", "--help"} & set(sys.argv):
        raise SystemExit(
            "measure_head_cuda: this machine has no NVIDIA GPU (nvidia-smi names none)"
        )
    record_sections(__doc__, SECTIONS, flags)
