"""Writes a checkpoint of a published shape whose weights are random: full size, no meaning.

For measuring forwards; grow_model.py makes checkpoints that speak. With --share N every layer has
what one of N equal devices holds (heads, KV heads, FFN channels, vocabulary), so that one GPU can
show what a model of several costs each of them, sums between devices left out. Needs numpy only.

example: random_checkpoint.py --shape llama-3-70b --share 4 --dtype int4 --out /dev/shm/quarter
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np

import awq_format
import growth_tensors as tensors
from checkpoint_writer import MAX_SHARD_BYTES, PlannedTensor, planned, write_model
from growth_maps import NOTHING
from growth_tensors import Placement, RandomBits
from model_shapes import ARCHITECTURES, PUBLISHED, ModelShape, shape_named
from safetensors_io import to_bf16_bits

INT4_RMS = 0.01  # of int4 weights; bf16 weights have 0.024


def nothing(count: int) -> np.ndarray:
    return np.full(count, NOTHING, dtype=np.int64)


def matrix(name: str, outputs: int, inputs: int, random: RandomBits) -> PlannedTensor:
    place = Placement(name, nothing(outputs), nothing(inputs))
    return tensors.bf16_matrix(place, None, np.zeros(outputs, dtype=bool), random)


def linear(
    name: str, outputs: int, inputs: int, int4: bool, random: RandomBits
) -> list[PlannedTensor]:
    if not int4:
        return [matrix(name, outputs, inputs, random)]
    place = Placement(name, nothing(outputs), nothing(inputs), noise_rms=INT4_RMS)
    return tensors.awq_matrix(place, None, np.ones(outputs, dtype=bool), random)


def norm(name: str, width: int) -> PlannedTensor:
    return planned(f"{name}.weight", "BF16", to_bf16_bits(np.ones(width, dtype=np.float32)))


def plan(shape: ModelShape, int4: bool, random: RandomBits) -> Iterator[PlannedTensor]:
    """All tensors, in the order in which they are written."""
    hidden, ffn = shape.hidden_size, shape.intermediate_size
    query, kv = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    yield matrix("model.embed_tokens", shape.vocab_size, hidden, random)
    for layer_idx in range(shape.num_layers):
        prefix = f"model.layers.{layer_idx}."
        for part, outputs, inputs in (
            ("self_attn.q_proj", query, hidden),
            ("self_attn.k_proj", kv, hidden),
            ("self_attn.v_proj", kv, hidden),
            ("self_attn.o_proj", hidden, query),
            ("mlp.gate_proj", ffn, hidden),
            ("mlp.up_proj", ffn, hidden),
            ("mlp.down_proj", hidden, ffn),
        ):
            yield from linear(prefix + part, outputs, inputs, int4, random)
            if shape.has_qkv_bias and part[-6:] in ("q_proj", "k_proj", "v_proj"):
                yield tensors.vector(
                    f"{prefix}{part}.bias", nothing(outputs), None, tensors.USUAL_EXPONENT, random
                )
        yield norm(prefix + "input_layernorm", hidden)
        yield norm(prefix + "post_attention_layernorm", hidden)
    yield norm("model.norm", hidden)
    if not shape.tied:
        yield matrix("lm_head", shape.vocab_size, hidden, random)


def config(shape: ModelShape, int4: bool) -> dict:
    out = {
        "architectures": [ARCHITECTURES[shape.model_type]],
        "model_type": shape.model_type,
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.intermediate_size,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim,
        "num_hidden_layers": shape.num_layers,
        "vocab_size": shape.vocab_size,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "tie_word_embeddings": shape.tied,
        "torch_dtype": "bfloat16",
        "eos_token_id": 2,
    }
    if int4:
        out["quantization_config"] = awq_format.quantization_config(tensors.GROUP)
    return out


def write_random(
    out: Path,
    shape: ModelShape,
    int4: bool,
    seed: int = 0,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> int:
    """Writes the checkpoint and returns its bytes. Raises ValueError where it cannot."""
    all_tensors = list(plan(shape, int4, RandomBits(seed)))
    return write_model(out, all_tensors, config(shape, int4), max_shard_bytes)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write a checkpoint of a published shape with random weights.",
        epilog="example: random_checkpoint.py --shape llama-3-70b --share 4 --dtype int4 "
        "--out /dev/shm/quarter",
    )
    parser.add_argument(
        "--shape", required=True, help=f"{', '.join(PUBLISHED)}, or the path of a config.json"
    )
    parser.add_argument(
        "--dtype", choices=("bf16", "int4"), required=True, help="of the linears; the rest is bf16"
    )
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--share", type=int, default=1, help="of one of so many devices; 1 is all")
    parser.add_argument("--layers", type=int, help="instead of the shape's number of layers")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begun = time.monotonic()
    try:
        shape = shape_named(args.shape).share(args.share)
        if args.layers is not None:
            shape = dataclasses.replace(shape, num_layers=args.layers)
        written = write_random(args.out, shape, args.dtype == "int4", args.seed)
    except (ValueError, FileNotFoundError) as error:
        print(f"random_checkpoint: {error}", file=sys.stderr)
        return 1
    print(f"{args.out}: {written / 1e9:.2f} GB in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
