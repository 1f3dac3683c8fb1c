#!/usr/bin/env python3
"""Measures GGUF files of the Llama-3.2-1B shape on processors, beside llama.cpp, in turns.

    cmake --preset cpu-release && cmake --build build/cpu-release --target forerun linear_bench
    bench/measure_gguf.py --llama-dir /tmp/llama.cpp/build --cores 0-1 --out bench/results/gguf.json

--llama-dir is a build of llama.cpp that has llama-batched-bench. Needs numpy and the gguf package.
The weights are random, with the types that llama-quantize gives each tensor; the files are made where
they are missing (0.8 to 1.3 GB each) and kept. A section is one type of file. Without names of
sections those are measured that --out lacks, so that a run that was cut short can be continued.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from llama_batched import LlamaCell, run_batched
from recorder import ROOT, Recorder, record_sections, relative

sys.path.insert(0, str(ROOT / "tools"))

from model_shapes import ModelShape, shape_named  # noqa: E402

Type = gguf.GGMLQuantizationType
SHAPE = "llama-3.2-1b"
TOKENIZER = ROOT / "models/demo-target"
TOKENIZER_KEYS = ("model", "pre", "tokens", "token_type", "merges", "eos_token_id")
RMS = 0.02  # of the weights
# By type: where a block has f16 scales, and the value that gives RMS for random bits.
SCALES = {
    Type.Q4_0: {0: RMS / 4.6},
    Type.Q8_0: {0: RMS / 74},
    Type.Q4_K: {0: RMS / 200, 2: 7.5 * RMS / 200},  # the minima balance the scales
    Type.Q6_K: {208: RMS / 1370},
}
# The least that Forerun's speed over llama.cpp's should be, when decoding one request.
DECODING_TARGETS = {"q4_0": 1.7, "q4_k_m": 1.4, "q8_0": 1.25}
OTHER_TARGET = 1.5


@dataclass(frozen=True)
class Cell:
    """What one command of each program measures."""

    requests: int
    prompt: int
    tokens: int
    activations: tuple[str, ...]


CELLS = (
    Cell(1, 512, 33, ("bf16", "int8")),
    Cell(16, 32, 33, ("bf16", "int8")),
)


def tensor_type(kind: str, name: str, layer: int, layers: int) -> Type:
    """llama-quantize's choice for a model whose head is tied to its embedding."""
    if kind == "q8_0":
        return Type.Q8_0
    if name == "token_embd":
        return Type.Q6_K
    if kind == "q4_0":
        return Type.Q4_0
    eighth = layers // 8
    more_bits = layer < eighth or layer >= 7 * eighth or (layer - eighth) % 3 == 2
    return Type.Q6_K if name in ("attn_v", "ffn_down") and more_bits else Type.Q4_K


def matrices(shape: ModelShape) -> Iterator[tuple[str, int, int, int]]:
    """Names, layers, outputs and inputs; the layer of the embedding is -1."""
    hidden, ffn = shape.hidden_size, shape.intermediate_size
    query, kv = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    yield "token_embd", -1, shape.vocab_size, hidden
    for layer in range(shape.num_layers):
        yield "attn_q", layer, query, hidden
        yield "attn_k", layer, kv, hidden
        yield "attn_v", layer, kv, hidden
        yield "attn_output", layer, hidden, query
        yield "ffn_gate", layer, ffn, hidden
        yield "ffn_up", layer, ffn, hidden
        yield "ffn_down", layer, hidden, ffn


def random_rows(rng: np.random.Generator, kind: Type, outputs: int, inputs: int) -> np.ndarray:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    data = np.frombuffer(rng.bytes(outputs * inputs // block * size), dtype=np.uint8).copy()
    blocks = data.reshape(-1, size)
    for at, scale in SCALES[kind].items():
        blocks[:, at : at + 2] = np.frombuffer(np.float16(scale).tobytes(), dtype=np.uint8)
    return data.reshape(outputs, -1)


def add_tokenizer(rec: Recorder, writer: gguf.GGUFWriter, rows: int) -> None:
    """The demo target's, with unused tokens up to `rows`."""
    source = Path(rec.args.models).resolve() / "tokenizer.gguf"
    command = [rec.args.forerun, "convert", str(TOKENIZER), str(source), "--to", "q8_0", "--force"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    fields = gguf.GGUFReader(source).fields
    values = {key: fields[f"tokenizer.ggml.{key}"].contents() for key in TOKENIZER_KEYS}
    source.unlink()
    unused = [f"[PAD{row}]" for row in range(len(values["tokens"]), rows)]
    writer.add_tokenizer_model(values["model"])
    writer.add_tokenizer_pre(values["pre"])
    writer.add_token_list(values["tokens"] + unused)
    writer.add_token_types(values["token_type"] + [gguf.TokenType.UNUSED] * len(unused))
    writer.add_token_merges(values["merges"])
    writer.add_eos_token_id(values["eos_token_id"])


def write_model(rec: Recorder, path: Path, kind: str) -> None:
    shape = shape_named(SHAPE)
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(f"random {SHAPE} {kind}")
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.hidden_size)
    writer.add_block_count(shape.num_layers)
    writer.add_feed_forward_length(shape.intermediate_size)
    writer.add_head_count(shape.num_heads)
    writer.add_head_count_kv(shape.num_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(500000.0)
    writer.add_vocab_size(shape.vocab_size)
    add_tokenizer(rec, writer, shape.vocab_size)
    ones = np.ones(shape.hidden_size, dtype=np.float32)
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(shape.num_layers):
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", ones)
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", ones)
    for name, layer, outputs, inputs in matrices(shape):
        dtype = tensor_type(kind, name, layer, shape.num_layers)
        full = f"{name}.weight" if layer < 0 else f"blk.{layer}.{name}.weight"
        writer.add_tensor(full, random_rows(rng, dtype, outputs, inputs), raw_dtype=dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def model_file(rec: Recorder, kind: str) -> Path:
    path = Path(rec.args.models).resolve() / f"random-1b-{kind}.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        write_model(rec, partial, kind)
        partial.rename(path)
    return path


def read_bandwidth(rec: Recorder) -> float | None:
    """GB/s of a plain read loop."""
    program = rec.program("linear_bench")
    text = program and rec.attempt(
        [str(program), "--benchmark_filter=read/128MiB", "--benchmark_format=json"]
    )
    return max(row["GB/s"] for row in json.loads(text)["benchmarks"]) if text else None


def forerun(rec: Recorder, path: Path, cell: Cell, activations: str) -> tuple[dict, str] | None:
    command = [
        rec.args.forerun,
        "bench",
        *("--model", str(path), "--activations", activations),
        *("--prompts", "bench/workloads/code.jsonl", "--strategies", "autoregressive"),
        *("--temperatures", "0", "--requests", str(cell.requests)),
        *("--concurrency", str(cell.requests), "--prompt-tokens", str(cell.prompt)),
        *("--max-tokens", str(cell.tokens), "--repeat", "1", "--warmup", "0"),
        *("--context", "1024", "--no-shared-prefixes", "--cost-cache", "off", "--json", "-"),
    ]
    text = rec.attempt(command)
    if text is None:
        return None
    row = json.loads(text)["workloads"]["code"][0]
    return row, relative(shlex.join(command))


@dataclass
class Speeds:
    """Tokens per second, one entry a round."""

    prompt: list[float]
    decoding: list[float]  # of several requests: all of the time, with the prompts
    command: str = ""


def speeds_of(rec: Recorder, path: Path, cell: Cell) -> dict[str, Speeds]:
    """By activations, and "llama.cpp", in turns."""
    found: dict[str, Speeds] = {}

    def add(name: str, prompt_s: float, decoding: float, command: str) -> None:
        speeds = found.setdefault(name, Speeds([], []))
        speeds.prompt.append(cell.requests * cell.prompt / prompt_s)
        speeds.decoding.append(decoding)
        speeds.command = command

    for _ in range(rec.args.rounds):
        llama: LlamaCell | None = run_batched(rec, path, cell.requests, cell.prompt, cell.tokens)
        if llama:
            decoding = llama.tokens_per_s if cell.requests > 1 else llama.decoding_tokens_per_s
            add("llama.cpp", llama.prompt_s, decoding, llama.command)
        for activations in cell.activations:
            ours = forerun(rec, path, cell, activations)
            if ours:
                row, command = ours
                first_s = row["time_to_first_token_ms"]["max"] / 1e3
                # Some requests end before the last prompt has been read.
                measured = "tokens_per_s" if cell.requests > 1 else "decoding_tokens_per_s"
                add(activations, first_s, row[measured], command)
    return found


def add_speed(
    rec: Recorder, name: str, pair: tuple[list[float], list[float]], command: str, target: float
) -> None:
    """The ratio of the fastest rounds: other programs on the same cores only ever slow one down."""
    ours, llama = (max(values) for values in pair)
    ratios = [a / b for a, b in zip(*pair, strict=False)]
    rec.add(
        f"{name} over llama.cpp",
        ours / llama,
        "ratio",
        command,
        at_least=target,
        note=f"{ours:.1f} against {llama:.1f} tokens/s, the fastest of {len(ratios)} rounds; the "
        f"rounds' median ratio {statistics.median(ratios):.2f}",
    )


def measure(rec: Recorder, kind: str) -> None:
    path = model_file(rec, kind)
    bandwidth = read_bandwidth(rec)
    if bandwidth:
        rec.add("a plain read loop", bandwidth, "GB/s", "linear_bench, read/128MiB")
    for cell in CELLS:
        found = speeds_of(rec, path, cell)
        llama = found.pop("llama.cpp", None)
        title = "one request" if cell.requests == 1 else f"{cell.requests} requests"
        for activations, ours in found.items():
            name = f"{kind}, {activations}, {title}"
            if cell.requests == 1 and bandwidth:
                rec.add(
                    f"{name}, decoding: the file's bytes over the read loop's speed",
                    max(ours.decoding) * path.stat().st_size * 1e-9 / bandwidth,
                    "ratio",
                    ours.command,
                    at_least=0.9,
                )
            if not llama:
                continue
            decoding = (ours.decoding, llama.decoding)
            target = DECODING_TARGETS[kind] if cell.requests == 1 else OTHER_TARGET
            what = "decoding" if cell.requests == 1 else "output, prompts included"
            add_speed(rec, f"{name}, {what}", decoding, ours.command, target)
            if cell.requests == 1:
                prompt = (ours.prompt, llama.prompt)
                tokens = f"prompts of {cell.prompt}"
                add_speed(rec, f"{name}, {tokens}", prompt, ours.command, OTHER_TARGET)
        for name, speeds in {**found, **({"llama.cpp": llama} if llama else {})}.items():
            rec.rows.append(
                {
                    "file": kind,
                    "engine": name,
                    "requests": cell.requests,
                    "prompt": cell.prompt,
                    "prompt_tokens_per_s": speeds.prompt,
                    "tokens_per_s": speeds.decoding,
                    "command": speeds.command,
                }
            )


SECTIONS = {kind: lambda rec, kind=kind: measure(rec, kind) for kind in ("q4_0", "q4_k_m", "q8_0")}


def prepare(args: argparse.Namespace) -> None:
    args.llama = f"{args.llama_dir}/bin/llama-batched-bench"
    args.devices = ""
    if args.cores:
        first, _, last = args.cores.partition("-")
        os.sched_setaffinity(0, range(int(first), int(last or first) + 1))
    args.threads = len(os.sched_getaffinity(0))
    path = Path(args.out)
    done = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    missing = [name for name in SECTIONS if name not in done]
    if not args.sections and not missing:
        sys.exit(f"{path} has all sections; name those to be measured again")
    args.sections = args.sections or missing


def add_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sections", nargs="*", help=f"some of {', '.join(SECTIONS)}")
    parser.add_argument("--build", default="build/cpu-release")
    parser.add_argument("--llama-dir", required=True, help="build folder of llama.cpp")
    parser.add_argument("--models", default="build/models", help="folder of the files")
    parser.add_argument("--cores", help="run on these alone: 0-1 (default: all)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, help="of all sections together")
    parser.add_argument("--out", required=True)
    parser.set_defaults(prepare=prepare)


if __name__ == "__main__":
    record_sections(__doc__, SECTIONS, add_flags)
