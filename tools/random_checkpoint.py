"""Writes a checkpoint of a published shape whose weights are random: full size, no meaning.

For measuring forwards; grow_model.py makes checkpoints that speak. With --share N every layer has
what one of N equal devices holds (heads, KV heads, FFN channels, vocabulary), so that one GPU can
show what a model of several costs each of them, sums between devices left out. With --head N it
writes an EAGLE-3 head for a target of the shape, as SpecForge lays it out: a layer of the target's
size and an LM head of N tokens, without an embedding of its own. Needs numpy only.

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


def layer_linears(shape: ModelShape, attention_inputs: int) -> tuple[tuple[str, int, int], ...]:
    """Name, outputs and inputs of each linear of a layer."""
    hidden, ffn = shape.hidden_size, shape.intermediate_size
    query, kv = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    return (
        ("self_attn.q_proj", query, attention_inputs),
        ("self_attn.k_proj", kv, attention_inputs),
        ("self_attn.v_proj", kv, attention_inputs),
        ("self_attn.o_proj", hidden, query),
        ("mlp.gate_proj", ffn, hidden),
        ("mlp.up_proj", ffn, hidden),
        ("mlp.down_proj", hidden, ffn),
    )


def plan_head(
    shape: ModelShape, draft_vocab: int, int4: bool, random: RandomBits
) -> Iterator[PlannedTensor]:
    """All tensors of an EAGLE-3 head; row i of its LM head stands for every n-th token."""
    hidden = shape.hidden_size
    yield from linear("fc", hidden, 3 * hidden, int4, random)
    for part, outputs, inputs in layer_linears(shape, 2 * hidden):
        yield from linear(f"midlayer.{part}", outputs, inputs, int4, random)
    for name in ("input_layernorm", "hidden_norm", "post_attention_layernorm"):
        yield norm(f"midlayer.{name}", hidden)
    yield norm("norm", hidden)
    yield matrix("lm_head", draft_vocab, hidden, random)
    rows = np.arange(draft_vocab, dtype=np.int64)
    yield planned("d2t", "I64", rows * shape.vocab_size // draft_vocab - rows)


def plan(shape: ModelShape, int4: bool, random: RandomBits) -> Iterator[PlannedTensor]:
    """All tensors, in the order in which they are written."""
    hidden = shape.hidden_size
    yield matrix("model.embed_tokens", shape.vocab_size, hidden, random)
    for layer_idx in range(shape.num_layers):
        prefix = f"model.layers.{layer_idx}."
        for part, outputs, inputs in layer_linears(shape, hidden):
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


def config(shape: ModelShape, int4: bool, head: int | None = None) -> dict:
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
    if head is not None:
        out |= {
            "architectures": ["LlamaForCausalLMEagle3"],
            "num_hidden_layers": 1,
            "draft_vocab_size": head,
            "tie_word_embeddings": False,
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
    head: int | None = None,
) -> int:
    """Writes the checkpoint, or an EAGLE-3 head of `head` tokens for one, and returns its bytes.
    Raises ValueError where it cannot."""
    random = RandomBits(seed)
    tensors_of = plan(shape, int4, random)
    if head is not None:
        if shape.model_type != "llama" or not 0 < head <= shape.vocab_size:
            raise ValueError(
                f"a head of {head} tokens for {shape.model_type}; accepted: 1 to "
                f"{shape.vocab_size} tokens, for llama"
            )
        tensors_of = plan_head(shape, head, int4, random)
    return write_model(out, list(tensors_of), config(shape, int4, head), max_shard_bytes)


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
    parser.add_argument("--head", type=int, help="write an EAGLE-3 head of so many tokens instead")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    begun = time.monotonic()
    try:
        shape = shape_named(args.shape).share(args.share)
        if args.layers is not None:
            shape = dataclasses.replace(shape, num_layers=args.layers)
        written = write_random(args.out, shape, args.dtype == "int4", args.seed, head=args.head)
    except (ValueError, FileNotFoundError) as error:
        print(f"random_checkpoint: {error}", file=sys.stderr)
        return 1
    print(f"{args.out}: {written / 1e9:.2f} GB in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
