#!/usr/bin/env python3
"""Times the operators of measure_cuda.py's table in PyTorch on the same GPU.

    bench/compare_pytorch.py --json FILE [--matrix]

Each operator is captured in a CUDA graph of many calls over distinct weights or caches, together
several times the L2, so that every call reads memory as it would inside a model; the median of replays
over the number of calls. Linear layers: F.linear in bf16 and, where the layer is int4, PyTorch's own
int4 product (_weight_int4pack_mm, group 128). Norm and SwiGLU are separate operators there. Attention:
scaled_dot_product_attention with a tree's mask. The names are those of linear_cuda_bench. An operator
that this PyTorch lacks is named and left out. Needs torch and a GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812

COLD_BYTES = 400e6  # distinct bytes a graph reads: eight times the L2
MOST_CALLS = 64
REPLAYS = 15
GROUP = 128

# (model, int4, [(layer, inputs, outputs)]); outputs of gate_up are both halves.
LAYERS = [
    (
        "70b-tp4-int4",
        True,
        [("qkv", 8192, 2560), ("o", 2048, 8192), ("gate_up", 8192, 14336), ("down", 7168, 8192)],
    ),
    (
        "8b-int4",
        True,
        [("qkv", 4096, 6144), ("o", 4096, 4096), ("gate_up", 4096, 28672), ("down", 14336, 4096)],
    ),
    (
        "3b-int4",
        True,
        [("qkv", 3072, 5120), ("o", 3072, 3072), ("gate_up", 3072, 16384), ("down", 8192, 3072)],
    ),
    (
        "1b-int4",
        True,
        [("qkv", 2048, 3072), ("o", 2048, 2048), ("gate_up", 2048, 16384), ("down", 8192, 2048)],
    ),
    (
        "1b-bf16",
        False,
        [("qkv", 2048, 3072), ("o", 2048, 2048), ("gate_up", 2048, 16384), ("down", 8192, 2048)],
    ),
    (
        "8b-bf16",
        False,
        [
            ("qkv", 4096, 6144),
            ("o", 4096, 4096),
            ("gate_up", 4096, 28672),
            ("down", 14336, 4096),
            ("head", 4096, 128256),
        ],
    ),
]
# (model, query heads, KV heads, head_dim) of one device.
HEADS = [("70b-tp4", 16, 2, 128), ("8b", 32, 8, 128)]


def graph_us(call: Callable[[int], torch.Tensor], copies: int) -> float:
    """Microseconds a call: the median of replays of a graph of one call a copy."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for copy in range(min(copies, 3)):
            call(copy)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for copy in range(copies):
                call(copy)
        times = []
        for _ in range(REPLAYS + 2):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end) / copies)
    return statistics.median(times[2:])


def copies_of(size_bytes: float) -> int:
    return max(2, min(MOST_CALLS, int(COLD_BYTES / size_bytes) + 1))


def bf16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


def linear_calls(layer: str, inputs: int, outputs: int, rows: int) -> tuple[Callable, int]:
    """The layer as a model runs it: gate_up with its SwiGLU."""
    copies = copies_of(2.0 * inputs * outputs)
    weights = [bf16(outputs, inputs) for _ in range(copies)]
    x = bf16(rows, inputs)
    if layer != "gate_up":
        return lambda copy: F.linear(x, weights[copy]), copies

    def gated(copy: int) -> torch.Tensor:
        gate, up = F.linear(x, weights[copy]).chunk(2, dim=-1)
        return F.silu(gate) * up

    return gated, copies


def int4_calls(layer: str, inputs: int, outputs: int, rows: int) -> tuple[Callable, int]:
    copies = copies_of(0.52 * inputs * outputs)
    x = bf16(rows, inputs)
    packed = []
    for _ in range(copies):
        nibbles = torch.randint(0, 256, (outputs, inputs // 2), dtype=torch.uint8, device="cuda")
        packed.append(
            (
                torch.ops.aten._convert_weight_to_int4pack(nibbles, 8),
                bf16(inputs // GROUP, outputs, 2),
            )
        )

    def product(copy: int) -> torch.Tensor:
        weight, scales = packed[copy]
        out = torch.ops.aten._weight_int4pack_mm(x, weight, GROUP, scales)
        if layer != "gate_up":
            return out
        gate, up = out.chunk(2, dim=-1)
        return F.silu(gate) * up

    return product, copies


def norm_calls(inputs: int, outputs: int, rows: int) -> tuple[Callable, int]:
    """RMSNorm and the linear layer after it."""
    copies = copies_of(2.0 * inputs * outputs)
    weights = [bf16(outputs, inputs) for _ in range(copies)]
    x, scale = bf16(rows, inputs), bf16(inputs)
    return (lambda copy: F.linear(F.rms_norm(x, (inputs,), scale, 1e-5), weights[copy])), copies


def matrix_calls() -> tuple[Callable, int]:
    """Square matrices of 8,192 in bf16: what the matrix units do at best."""
    left, right = bf16(8192, 8192), bf16(8192, 8192)
    return (lambda copy: left @ right), 4


def attention_calls(
    heads: int, kv_heads: int, dim: int, rows: int, context: int
) -> tuple[Callable, int]:
    """`rows` tree nodes over `context` positions: each sees the prefix and its ancestors."""
    keys = context + rows
    copies = copies_of(4.0 * kv_heads * keys * dim)
    q = bf16(1, heads, rows, dim)
    caches = [(bf16(1, kv_heads, keys, dim), bf16(1, kv_heads, keys, dim)) for _ in range(copies)]
    mask = torch.ones(rows, keys, dtype=torch.bool, device="cuda")
    mask[:, context:] = torch.tril(mask[:, context:])

    def call(copy: int) -> torch.Tensor:
        k, v = caches[copy]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    return call, copies


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", required=True, type=Path)
    parser.add_argument("--rows", default="8,1")
    parser.add_argument("--matrix", action="store_true", help="only a product of large matrices")
    args = parser.parse_args()
    all_rows = [int(text) for text in args.rows.split(",")]
    found: list[dict] = []

    def measure(operator: str, how: str, make: Callable[[], tuple[Callable, int]]) -> None:
        try:
            call, copies = make()
            us = graph_us(call, copies)
        except (RuntimeError, AttributeError, TypeError) as error:
            print(f"{operator}, {how}: left out: {str(error).splitlines()[0]}", file=sys.stderr)
            return
        found.append({"operator": operator, "how": how, "us": us, "torch": torch.__version__})
        print(f"{operator:36} {how:12} {us:9.2f} us", flush=True)
        args.json.write_text(json.dumps(found, indent=1) + "\n")

    measure("matrix", "bf16", matrix_calls)
    for rows in [] if args.matrix else all_rows:
        for model, is_int4, layers in LAYERS:
            for layer, inputs, outputs in layers:
                name = f"{model}.{layer} {rows} rows"
                measure(name, "bf16", lambda: linear_calls(layer, inputs, outputs, rows))
                if is_int4:
                    measure(name, "int4", lambda: int4_calls(layer, inputs, outputs, rows))
            _, inputs, outputs = layers[0]
            measure(
                f"{model}.qkv with norm {rows} rows",
                "bf16",
                lambda: norm_calls(inputs, outputs, rows),
            )
    for model, heads, kv_heads, dim in [] if args.matrix else HEADS:
        for context in (500, 1000, 32000):
            measure(
                f"attention {model} 8 rows, context {context}",
                "bf16",
                lambda: attention_calls(heads, kv_heads, dim, 8, context),
            )
    return 0 if found else 1


if __name__ == "__main__":
    raise SystemExit(main())
