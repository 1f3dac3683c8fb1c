#!/usr/bin/env python3
"""Measures many requests at once and records it: throughput and times beside llama.cpp's batched bench, a
long prompt among requests that decode, arrivals in random time, `auto` over plain decoding by the
number of requests, the host's time a result, memory over thousands of requests.

    bench/measure_batches.py llama --llama llama.cpp/build/bin/llama-batched-bench --models /tmp/models \\
        --keep --out bench/results/batches.json
    bench/measure_batches.py arrivals auto host memory --models /tmp/models --out bench/results/batches.json
    bench/measure_batches.py --devices cuda:0 --llama ... --models /dev/shm/models --out ...

Sections given (none: all) are replaced in --out; the others stay. Models are grown from the demo pair
into --models (numpy) and converted for llama.cpp (numpy, gguf). Run it on a quiet machine; --seconds
ends it in time, what is left out is noted. --quick tries everything with few tokens.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpu_models import GpuModel, NotMadeError, on_disk
from llama_batched import TYPES, LlamaCell, run_batched, to_gguf
from recorder import ROOT, Recorder, record_sections, relative

WORKLOADS = ["bench/workloads/code.jsonl", "bench/workloads/prose.jsonl"]
DEMO, DEMO_DRAFT = Path("models/demo-target"), Path("models/demo-draft")
OVER_LLAMA_CPU = {"bf16": 1.2, "int4": 2.2}
# Tokens of those that decode while a long prompt is read, on processors and on GPUs.
LONGEST, LONGEST_GPU = 1200, 6000
POSITIONS = 40_000  # of grown models, so that a prompt of 32,000 tokens fits


@dataclass(frozen=True)
class Target:
    """A model that is measured; `grown`: made from the demo target, else the demo target itself."""

    title: str
    dtype: str
    grown: GpuModel | None = None
    draft: GpuModel | None = None  # None: the demo draft
    flags: list[str] = field(default_factory=list)
    large: bool = False  # on processors: fewer tokens where many requests take minutes


def targets(rec: Recorder) -> list[Target]:
    if rec.args.devices:
        draft = GpuModel("llama-3.2-1b", "int4", draft=True)
        found = [
            Target(f"8B {dtype}", dtype, GpuModel("llama-3.1-8b", dtype), draft)
            for dtype in ("bf16", "int4")
        ]
    else:
        found = [
            Target("demo target bf16", "bf16", flags=["--weights", "bf16"]),
            Target("demo target int4", "int4"),
            *(
                Target(f"1B {dtype}", dtype, GpuModel("llama-3.2-1b", dtype), large=True)
                for dtype in ("bf16", "int4")
            ),
        ]
    wanted = rec.args.only
    return [t for t in found if not wanted or t.title in wanted or t.title.split()[0] in wanted]


def first_int4(rec: Recorder) -> Target:
    return next(target for target in targets(rec) if target.dtype == "int4")


@contextmanager
def on_disk_as(rec: Recorder, target: Target, with_draft: bool = False) -> Iterator[list[Path]]:
    """The target's folder and, if asked for, its draft's."""
    grown = [model for model in (target.grown, target.draft if with_draft else None) if model]
    with on_disk(rec, *grown) as paths:
        for path in paths:
            config = json.loads((path / "config.json").read_text())
            config["max_position_embeddings"] = max(POSITIONS, config["max_position_embeddings"])
            (path / "config.json").write_text(json.dumps(config))
        made = iter(paths)
        folders = [next(made) if target.grown else DEMO]
        if with_draft:
            folders.append(next(made) if target.draft else DEMO_DRAFT)
        yield folders


@functools.cache
def kv_bytes_a_token(forerun: str, model: Path) -> int:
    text = subprocess.run(
        [forerun, "inspect", str(model), "--json"],
        check=True,
        cwd=ROOT,
        text=True,
        capture_output=True,
    ).stdout
    return json.loads(text)["kv_bytes_per_token_bf16"]


def kv_memory(rec: Recorder, models: list[Path], sizes: list[int]) -> list[str]:
    """Room for requests of these many tokens, prompt included, at the same time."""
    bytes_a_token = sum(kv_bytes_a_token(rec.args.forerun, model) for model in models)
    blocks = [-(-(tokens + 64) // 64) for tokens in sizes]  # one more, for the tree
    needed = bytes_a_token * 64 * (sum(blocks) + 4) * 17 // 16  # the longest's may be larger
    return ["--kv-memory", f"{max(64, -(-needed // 10**6))}MB", "--context", str(max(blocks) * 64)]


def bench(
    rec: Recorder, models: list[Path], flags: list[str], prompts: list[str]
) -> tuple[dict, str]:
    """What `forerun bench` recorded, without workloads where it failed, and the command."""
    command = [
        rec.args.forerun,
        "bench",
        "--model",
        str(models[0]),
        *(["--draft", str(models[1])] if len(models) > 1 else []),
        "--prompts",
        *prompts,
        *(["--devices", rec.args.devices] if rec.args.devices else []),
        *flags,
    ]
    shown = relative(shlex.join(command))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "bench.json"
        if rec.attempt([*command, "--json", str(out)]) is None:
            return {"workloads": {}}, shown
        return json.loads(out.read_text()), shown


def cell_tokens(rec: Recorder, target: Target, requests: int) -> tuple[int, int]:
    """Tokens of a prompt and a request."""
    prompt, tokens = rec.args.prompt_tokens, rec.args.tokens
    if target.large and requests >= 64 and not rec.args.full:
        return prompt // 4, tokens // 4
    return prompt, tokens


def measure_llama(rec: Recorder) -> None:
    """Throughput and times by the number of requests, ours and llama.cpp's in turn."""
    for target in targets(rec):
        with suppress(NotMadeError), on_disk_as(rec, target) as models:
            ggufs = {}
            if rec.args.llama:
                # On GPUs q4_0 has no layout of its own; from int4 it would be rounded anew, for minutes.
                types = TYPES[target.dtype][-1:] if rec.args.devices else TYPES[target.dtype]
                ggufs = {dtype: to_gguf(rec, ROOT / models[0], dtype) for dtype in types}
            kept = [dtype for dtype, path in ggufs.items() if path]
            try:
                for requests in rec.args.requests:
                    found = _measure_cell(
                        rec, target, models, requests, {dtype: ggufs[dtype] for dtype in kept}
                    )
                    # The slower type is not run with many requests too.
                    if found and 2 <= requests <= 8 and not rec.args.full:
                        kept = [max(found, key=lambda dtype: found[dtype].tokens_per_s)]
            finally:
                for path in ggufs.values():
                    if path and not rec.args.keep:
                        path.unlink()


def _measure_cell(
    rec: Recorder, target: Target, models: list[Path], requests: int, ggufs: dict[str, Path]
) -> dict[str, LlamaCell]:
    """One number of requests; what llama.cpp did, by type."""
    prompt, tokens = cell_tokens(rec, target, requests)
    flags = [
        "--strategy",
        "autoregressive",
        "--strategies",
        "autoregressive",
        "--temperatures",
        "0",
        "--concurrency",
        str(requests),
        "--prompt-tokens",
        str(prompt),
        "--max-tokens",
        str(tokens),
        "--warmup",
        "1",
        *target.flags,
        *kv_memory(rec, models, [prompt + tokens] * requests),
    ]
    ours: dict | None = None
    llama_cells: dict[str, LlamaCell] = {}
    command = ""
    for _ in range(rec.args.repeat):
        record, command = bench(rec, models, flags, WORKLOADS[:1])
        for row in record["workloads"].get("code", []):
            if ours is None or row["tokens_per_s"] > ours["tokens_per_s"]:
                ours = row
        for dtype, gguf in ggufs.items():
            cell = run_batched(rec, gguf, requests, prompt, tokens)
            if cell and (
                dtype not in llama_cells or cell.tokens_per_s > llama_cells[dtype].tokens_per_s
            ):
                llama_cells[dtype] = cell
    sizes = {"model": target.title, "prompt": prompt, "tokens": tokens}
    if ours:
        rec.rows.append({**sizes, "engine": "forerun", **ours, "command": command})
    for dtype, cell in llama_cells.items():
        rec.rows.append(
            {**sizes, "engine": f"llama.cpp {dtype}", **cell.row(), "command": cell.command}
        )
    if ours and llama_cells:
        _add_ratios(
            rec,
            f"{target.title}, {requests} requests of {prompt} + {tokens} tokens",
            ours,
            max(llama_cells.items(), key=lambda item: item[1].tokens_per_s),
            command,
            target.dtype,
        )
    elif ours:
        rec.add(
            f"{target.title}, {requests} requests of {prompt} + {tokens} tokens, prompts included",
            ours["tokens_per_s"],
            "tokens/s",
            command,
        )
    return llama_cells


def _add_ratios(
    rec: Recorder, name: str, ours: dict, fastest: tuple[str, LlamaCell], command: str, dtype: str
) -> None:
    kind, cell = fastest
    llama_row = cell.row()
    over = f"over llama.cpp's {kind}"
    on_gpu = bool(rec.args.devices)
    rec.add(
        f"throughput, prompts included, {over}, {name}",
        ours["tokens_per_s"] / cell.tokens_per_s,
        "ratio",
        command,
        at_least=None if on_gpu else OVER_LLAMA_CPU[dtype],
        note=f"{ours['tokens_per_s']:.1f} against {cell.tokens_per_s:.1f} tokens/s; {cell.command}",
    )
    if ours.get("decoding_tokens_per_s"):
        rec.add(
            f"throughput, once all decode, {over}, {name}",
            ours["decoding_tokens_per_s"] / cell.decoding_tokens_per_s,
            "ratio",
            command,
            at_least=(1.15 if ours["requests"] >= 128 else 1.3) if on_gpu else None,
            note=f"{ours['decoding_tokens_per_s']:.1f} against "
            f"{cell.decoding_tokens_per_s:.1f} tokens/s",
        )
    for which, what in (("p50", "median"), ("max", "last")):
        our_ms, llama_ms = (row["time_to_first_token_ms"][which] for row in (ours, llama_row))
        rec.add(
            f"time to the {what} request's first token {over}, {name}",
            our_ms / llama_ms,
            "ratio",
            command,
            at_most=1.0 if ours["requests"] == 16 and not on_gpu else None,
            note=f"{our_ms:.0f} against {llama_ms:.0f} ms",
        )


def measure_arrivals(rec: Recorder) -> None:
    """A long prompt among requests that decode; requests that come at random."""
    decoding = 16
    for target in targets(rec):
        if target.dtype != "int4":
            continue
        with suppress(NotMadeError), on_disk_as(rec, target) as models:
            long_prompt = rec.args.long_prompt
            longest = LONGEST_GPU if rec.args.devices else LONGEST
            flags = [
                "--strategy",
                "autoregressive",
                "--strategies",
                "autoregressive",
                "--temperatures",
                "0",
                "--requests",
                str(decoding),
                "--prompt-tokens",
                str(rec.args.prompt_tokens),
                "--long-prompt",
                str(long_prompt),
                "--max-tokens",
                str(longest),
                *target.flags,
                *kv_memory(
                    rec, models, [rec.args.prompt_tokens + longest] * decoding + [long_prompt] * 2
                ),
            ]
            record, command = bench(rec, models, flags, WORKLOADS[:1])
            for row in record["workloads"].get("code", []):
                row["destroy_ms"] = record["destroy_ms"]
                _add_long_prompt(
                    rec, f"{long_prompt} tokens among {decoding}, {target.title}", row, command
                )
                rec.rows.append({"model": target.title, **row})
    target = first_int4(rec)
    with suppress(NotMadeError), on_disk_as(rec, target, with_draft=True) as models:
        # In turn, at the same arrivals.
        flags = [
            "--strategies",
            "autoregressive,auto",
            "--temperatures",
            "0",
            "--requests",
            "64",
            "--arrivals",
            f"poisson:{rec.args.rate:g}",
            "--prompt-tokens",
            str(rec.args.prompt_tokens),
            "--max-tokens",
            str(rec.args.tokens),
            "--compare",
            *target.flags,
            *kv_memory(rec, models, [rec.args.prompt_tokens + rec.args.tokens] * 64),
        ]
        record, command = bench(rec, models, flags, WORKLOADS[:1])
        for row in record["workloads"].get("code", []):
            name = f"poisson, {rec.args.rate:g} a second, {row['strategy']}, {target.title}"
            first, between = row["time_to_first_token_ms"], row["between_tokens_ms"]
            rec.add(
                f"time to the first token, median, {name}",
                first["p50"],
                "ms",
                command,
                note=f"p95 {first['p95']:.0f}, p99 {first['p99']:.0f} ms; {row['tokens_per_s']:.0f} "
                f"tokens/s; identical {row['identical']} of {row['requests']}",
            )
            rec.add(
                f"time between tokens, mean, {name}",
                between["mean"],
                "ms",
                command,
                note=f"p50 {between['p50']:.1f}, p99 {between['p99']:.1f} ms; between events "
                f"{row['between_events_ms']['p50']:.1f} and "
                f"{row['between_events_ms']['p99']:.1f} ms",
            )
            rec.rows.append(
                {"model": target.title, "arrivals": f"poisson:{rec.args.rate:g}", **row}
            )


def _add_long_prompt(rec: Recorder, name: str, row: dict, command: str) -> None:
    before, during = row["before_between_tokens_ms"], row["during_between_tokens_ms"]
    rec.add(
        f"time between tokens, p99 over median, a prompt of {name}",
        during["p99"] / during["p50"],
        "ratio",
        command,
        at_most=2.0 if rec.args.devices else None,
        note=f"while it is read p50 {during['p50']:.1f}, p99 {during['p99']:.1f}, longest "
        f"{during['max']:.1f} ms; before p50 {before['p50']:.1f}, p99 {before['p99']:.1f} "
        f"ms; its first token after {row['time_to_first_token_ms']:.0f} ms",
    )
    # A Step lies between two tokens of a request that decodes.
    rec.add(
        f"cancelling it over the longest time between tokens, {name}",
        row["cancel_ms"] / during["max"],
        "ratio",
        command,
        at_most=1.0,
        note=f"{row['cancel_ms']:.1f} ms",
    )
    rec.add(
        f"destroying the engine over the longest time between tokens, {name}",
        row["destroy_ms"] / during["max"],
        "ratio",
        command,
        note=f"{row['destroy_ms']:.1f} ms, the weights' release included",
    )


def measure_auto(rec: Recorder) -> None:
    """`auto` beside plain decoding by the number of requests, in turn."""
    for target in targets(rec):
        if target.dtype != "int4":
            continue
        counts, tokens, repeat = [1, 2, 4, 8, 16, 32, 64], rec.args.tokens, 2
        if target.large and not rec.args.full:
            counts, tokens, repeat = [1, 4, 16], min(48, rec.args.tokens), 1
        with suppress(NotMadeError), on_disk_as(rec, target, with_draft=True) as models:
            flags = [
                "--strategies",
                "autoregressive,auto",
                "--temperatures",
                "0,0.8",
                "--concurrency",
                ",".join(map(str, counts)),
                "--max-tokens",
                str(tokens),
                "--repeat",
                str(repeat),
                "--compare",
                *target.flags,
                *kv_memory(rec, models, [128 + tokens] * max(counts)),
            ]
            record, command = bench(rec, models, flags, WORKLOADS)
            for workload, found in record["workloads"].items():
                for row in found:
                    rec.rows.append({"model": target.title, "workload": workload, **row})
                    if row["strategy"] == "auto":
                        _add_auto(rec, target, workload, row, command)


def _add_auto(rec: Recorder, target: Target, workload: str, row: dict, command: str) -> None:
    greedy = row["temperature"] == 0
    easy = rec.args.devices and greedy and workload == "code" and row["requests"] <= 8
    kind = "greedy" if greedy else f"temperature {row['temperature']:.1f}"
    rec.add(
        f"auto over plain decoding, {row['requests']} requests, {workload}, {kind}, {target.title}",
        row["speed_up"],
        "ratio",
        command,
        at_least=1.3 if easy else 0.98,
        note=f"{row['tokens_per_s']:.0f} tokens/s, {row['tokens_per_step']:.2f} tokens a step, "
        f"acceptance {100 * row['acceptance']:.0f}%, identical {row['identical']} of "
        f"{row['requests']}",
    )


def measure_host(rec: Recorder) -> None:
    """The host's thread CPU time a result, by the number of requests."""
    with suppress(NotMadeError), on_disk_as(rec, first_int4(rec), with_draft=True) as models:
        counts = [16, 64, 256]
        flags = [
            "--strategies",
            "autoregressive,auto",
            "--temperatures",
            "0",
            "--concurrency",
            ",".join(map(str, counts)),
            "--prompt-tokens",
            "32",
            "--max-tokens",
            str(min(48, rec.args.tokens)),
            "--host-time",
            *kv_memory(rec, models, [128] * max(counts)),
        ]
        record, command = bench(rec, models, flags, WORKLOADS[:1])
        for row in record["workloads"].get("code", []):
            plain = row["strategy"] == "autoregressive"
            rec.add(
                f"host time a result, {row['requests']} requests, {row['strategy']}",
                row["host_us_a_result"],
                "us",
                command,
                at_most=10 if plain else None,
                note=f"turns {row['host_turn_us']:.2f}, Steps {row['host_step_us']:.2f} us; "
                f"{row['results']} results; no Step runs for {row['idle_us']['p50']:.1f} us "
                f"in the median between two, p99 {row['idle_us']['p99']:.1f}",
            )
            rec.rows.append(row)


def measure_memory(rec: Recorder) -> None:
    """Whether thousands of requests through 64 places leave anything behind."""
    resident: dict[int, float] = {}
    shown = ""
    for requests in (1_000, 10_000):
        command = [
            rec.args.forerun,
            "bench",
            "--model",
            str(DEMO),
            "--strategy",
            "autoregressive",
            *(["--devices", rec.args.devices] if rec.args.devices else []),
            "--prompts",
            WORKLOADS[0],
            "--strategies",
            "autoregressive",
            "--temperatures",
            "0",
            "--requests",
            str(requests // (10 if rec.args.quick else 1)),
            "--concurrency",
            "64",
            "--prompt-tokens",
            "8",
            "--max-tokens",
            "4",
            "--warmup",
            "0",
            "--context",
            "256",
            "--kv-memory",
            "256MB",
        ]
        shown = relative(shlex.join(command))
        print("$", shown, flush=True)
        if rec.until - time.monotonic() < 60:
            rec.failed.append({"command": shown, "said": "left out: no time left"})
            return
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            rec.failed.append({"command": shown, "said": f"exit code {process.returncode}"})
            return
        resident[requests] = usage.ru_maxrss / 1024
    rec.add(
        "peak resident size, 10,000 requests beyond 1,000, through 64 places",
        resident[10_000] - resident[1_000],
        "MiB",
        shown,
        at_most=12,
        note=f"{resident[10_000]:.1f} and {resident[1_000]:.1f} MiB; the bench itself keeps "
        "tokens and times of every request, some 0.6 KB each",
    )


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}; none: all")
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument(
        "--models",
        default=str(Path(tempfile.gettempdir()) / "forerun-models"),
        help="where grown models are written",
    )
    parser.add_argument(
        "--keep", action="store_true", help="leave models there, and use what is there"
    )
    parser.add_argument("--llama", default="", help="llama.cpp's llama-batched-bench")
    parser.add_argument("--devices", default="", help="GPUs, cuda:0; without it the processors")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--only", nargs="*", default=[], help="targets: demo, 1B, '1B int4', 8B")
    parser.add_argument(
        "--requests", type=int, nargs="*", help="(default: 1 4 16 64; GPU 1 8 32 128)"
    )
    parser.add_argument("--prompt-tokens", type=int, help="(default: 256; GPU 2000)")
    parser.add_argument("--tokens", type=int, default=128, help="tokens a request")
    parser.add_argument("--long-prompt", type=int, help="(default: 3500; GPU 32000)")
    parser.add_argument("--rate", type=float, default=4.0, help="random arrivals a second")
    parser.add_argument("--repeat", type=int, default=1, help="in turn; the fastest of each counts")
    parser.add_argument(
        "--full", action="store_true", help="all tokens also where that takes many minutes"
    )
    parser.add_argument("--quick", action="store_true", help="few tokens: does it work?")
    parser.add_argument("--seconds", type=float, help="leave out what there is no time for")
    parser.add_argument("--out", required=True)
    parser.set_defaults(prepare=fill_in)


def fill_in(args: argparse.Namespace) -> None:
    """What depends on other flags."""
    on_gpu = bool(args.devices)
    args.requests = args.requests or ([1, 8, 32, 128] if on_gpu else [1, 4, 16, 64])
    args.prompt_tokens = args.prompt_tokens or (2000 if on_gpu else 256)
    args.long_prompt = args.long_prompt or (32_000 if on_gpu else 3500)
    if args.quick:
        args.prompt_tokens, args.tokens, args.long_prompt = 16, 8, 1000
        args.requests = args.requests[:2]


SECTIONS = {
    "llama": measure_llama,
    "arrivals": measure_arrivals,
    "auto": measure_auto,
    "host": measure_host,
    "memory": measure_memory,
}

if __name__ == "__main__":
    record_sections(__doc__, SECTIONS, add_flags)
