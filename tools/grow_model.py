"""Makes a checkpoint of a published shape out of a small trained one, computing its function.

The result has the size, the speed and the memory traffic of the real model, and the small
model's words, so that speed at full size and acceptance on real text can be measured without
downloading anything. growth_maps.py says where everything goes, growth_tensors.py what fills the
rest. Needs numpy only; writes shard by shard in bounded memory.

The head has its full size and is computed in full; ids that the small model lacks get a logit so
low that they are never drawn (where the shape is no wider than the small model, `live_vocab_size`
in config.json says where they begin).

Exactness: with one head_dim and a width ratio that is a power of four, live weights keep their
bits. With other ratios norm weights are stored in f32, lest bf16 round them once more; where
head_dim differs, query weights (int4: scales) are multiplied and rounded once more.
int4 output from int4 source takes nibbles, zero points and scales over as they are; from bf16 it
rounds to nearest: quantize first with quantize_awq.py for better weights.

example: grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 --out runs/target-1b
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np

import awq_format
import growth_tensors as tensors
from awq_format import AwqLinear
from checkpoint_writer import MAX_SHARD_BYTES, PlannedTensor, write_model
from growth_maps import NOTHING, GrowthMaps, check_fits, growth_maps
from growth_tensors import Placement, RandomBits
from model_shapes import ARCHITECTURES, PUBLISHED, ModelShape, shape_named
from safetensors_io import Checkpoint, to_bf16_bits

COPIED_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)
COPIED_CONFIG = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "max_position_embeddings",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
)


class SmallModel:
    """The trained checkpoint: matrices in f32, int4 or bf16 bits."""

    def __init__(self, directory: Path) -> None:
        self.checkpoint = Checkpoint(directory)
        config = self.checkpoint.config
        self.shape = ModelShape.from_config(config, str(directory / "config.json"))
        window = config.get("sliding_window")
        if window is not None and config.get("use_sliding_window", True):
            raise ValueError(f"{directory}: a sliding window of {window} cannot be kept")
        rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
        self.rope_type: str = rope.get("rope_type", rope.get("type", "default"))

    def linear(self, name: str) -> AwqLinear | np.ndarray:
        """The linear `name`, int4 as stored or f32 [out, in]."""
        source = self.checkpoint
        if f"{name}.qweight" in source:
            return awq_format.unpack(
                source.raw(f"{name}.qweight"),
                source.raw(f"{name}.qzeros"),
                source.raw(f"{name}.scales"),
            )
        return source.float32(f"{name}.weight")

    def dense(self, name: str) -> np.ndarray:
        """The linear `name` as f32 [out, in]."""
        linear = self.linear(name)
        return linear.dequantize() if isinstance(linear, AwqLinear) else linear

    def vector(self, name: str) -> np.ndarray | None:
        return self.checkpoint.float32(name) if name in self.checkpoint else None


@dataclasses.dataclass(frozen=True)
class Growth:
    """One run: from what, to what, and how the rest is filled."""

    small: SmallModel
    shape: ModelShape
    maps: GrowthMaps
    random: RandomBits
    int4: bool
    noise: float

    def _linear(
        self,
        name: str,
        source_name: str | None,
        out_src: np.ndarray,
        in_src: np.ndarray,
        factor: float = 1.0,
    ) -> list[PlannedTensor]:
        writes = name.endswith(("o_proj", "down_proj"))
        live_rows = (out_src != NOTHING) if writes else np.zeros(len(out_src), dtype=bool)
        noise_rms = 0.0
        if writes and self.noise > 0:
            # An added layer takes the size of the first layer's matrix.
            like = source_name or f"model.layers.0.{name.split('.', 3)[3]}"
            noise_rms = self.noise * float(np.sqrt(np.mean(np.square(self.small.dense(like)))))
        place = Placement(name, out_src, in_src, noise_rms, writes, name.endswith("q_proj"))
        if self.int4:
            live = None
            if source_name is not None:
                live = tensors.live_groups(place, self.small.linear(source_name), factor)
            return tensors.awq_matrix(place, live, live_rows, self.random)
        bits = None
        if source_name is not None:
            bits = to_bf16_bits(self.small.dense(source_name) * np.float32(factor))
        return [tensors.bf16_matrix(place, bits, live_rows, self.random)]

    @property
    def masks_vocab(self) -> bool:
        """Whether ids that the small model lacks get a logit far below all others."""
        return bool(self.maps.residual[-1] == NOTHING)

    def _norm(
        self, name: str, source_name: str | None, exponent: int = 0, last: float | None = None
    ) -> PlannedTensor:
        values = None
        if source_name is not None:
            weight = self.small.vector(source_name)
            if weight is None:
                raise ValueError(f"{self.small.checkpoint.directory}: no tensor {source_name}")
            values = weight * np.float32(self.maps.norm_factor)
        exact = math.frexp(self.maps.norm_factor)[0] == 0.5  # a power of two
        dtype = "BF16" if exact else "F32"
        residual = self.maps.residual
        return tensors.vector(name, residual, values, exponent, self.random, dtype, last)

    def _embedding(self, name: str, source_name: str) -> PlannedTensor:
        bits = to_bf16_bits(self.small.checkpoint.float32(source_name))
        constant = tensors.vocabulary_constant(self.maps.vocab) if self.masks_vocab else None
        place = Placement(name, self.maps.vocab, self.maps.residual, 0.0, True, False, constant)
        return tensors.bf16_matrix(place, bits, np.zeros(len(self.maps.vocab), bool), self.random)

    def layer(self, layer_idx: int) -> Iterator[PlannedTensor]:
        maps = self.maps
        prefix = f"model.layers.{layer_idx}."
        small_idx = int(maps.layers[layer_idx])
        source = None if small_idx == NOTHING else f"model.layers.{small_idx}."

        def of(name: str) -> str | None:
            return None if source is None else source + name

        for part, out_src, in_src, factor in (
            ("self_attn.q_proj", maps.query, maps.residual, maps.query_factor),
            ("self_attn.k_proj", maps.key, maps.residual, 1.0),
            ("self_attn.v_proj", maps.value, maps.residual, 1.0),
            ("self_attn.o_proj", maps.residual, maps.attended, 1.0),
            ("mlp.gate_proj", maps.ffn, maps.residual, 1.0),
            ("mlp.up_proj", maps.ffn, maps.residual, 1.0),
            ("mlp.down_proj", maps.residual, maps.ffn, 1.0),
        ):
            yield from self._linear(prefix + part, of(part), out_src, in_src, factor)
            if self.shape.has_qkv_bias and part[-6:] in ("q_proj", "k_proj", "v_proj"):
                bias = None if source is None else self.small.vector(f"{source}{part}.bias")
                if bias is not None:
                    bias = bias * np.float32(factor)
                yield tensors.vector(
                    f"{prefix}{part}.bias", out_src, bias, tensors.NEGLIGIBLE_EXPONENT, self.random
                )
        for part in ("input_layernorm.weight", "post_attention_layernorm.weight"):
            yield self._norm(prefix + part, of(part))

    def plan(self) -> Iterator[PlannedTensor]:
        """All tensors of the grown checkpoint, in the order in which they are written."""
        embedding = "model.embed_tokens"
        yield self._embedding(embedding, f"{embedding}.weight")
        for layer_idx in range(self.shape.num_layers):
            yield from self.layer(layer_idx)
        name, exponent = "model.norm.weight", tensors.LAST_NORM_EXPONENT
        yield self._norm(name, name, exponent, 2.0**exponent if self.masks_vocab else None)
        if not self.shape.tied:
            head = "lm_head.weight"
            if head not in self.small.checkpoint:
                head = f"{embedding}.weight"
            yield self._embedding("lm_head", head)
        elif "lm_head.weight" in self.small.checkpoint and not self.small.shape.tied:
            raise ValueError("the small model has a head of its own, the shape ties it")

    def config(self) -> dict:
        shape, small = self.shape, self.small.checkpoint.config
        config = {
            "architectures": [ARCHITECTURES[shape.model_type]],
            "model_type": shape.model_type,
            "hidden_act": small.get("hidden_act", "silu"),
            "hidden_size": shape.hidden_size,
            "intermediate_size": shape.intermediate_size,
            "num_hidden_layers": shape.num_layers,
            "num_attention_heads": shape.num_heads,
            "num_key_value_heads": shape.num_kv_heads,
            "head_dim": shape.head_dim,
            "vocab_size": shape.vocab_size,
            "tie_word_embeddings": shape.tied,
            "rms_norm_eps": small["rms_norm_eps"] * self.maps.eps_factor,
            "torch_dtype": "bfloat16",
            **{key: small[key] for key in COPIED_CONFIG if key in small},
        }
        if not self.masks_vocab:  # ids from here on belong to no token
            config["live_vocab_size"] = self.small.shape.vocab_size
        if shape.model_type == "qwen2":
            config["use_sliding_window"] = False
        if shape.model_type == "mistral":
            config["sliding_window"] = None
        if self.int4:
            config["quantization_config"] = awq_format.quantization_config(tensors.GROUP)
        return config


def grow(
    source: Path,
    out: Path,
    shape: ModelShape,
    int4: bool,
    seed: int = 0,
    noise: float = 0.0,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> int:
    """Writes the grown checkpoint and returns its bytes. Raises ValueError where it cannot."""
    small = SmallModel(source)
    check_fits(small.shape, shape, small.rope_type)
    rounds = int4 and "quantization_config" not in small.checkpoint.config
    maps = growth_maps(small.shape, shape, spread=rounds)
    growth = Growth(small, shape, maps, RandomBits(seed), int4, noise)
    total = write_model(out, list(growth.plan()), growth.config(), max_shard_bytes)
    for name in COPIED_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, out / name)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Grow a small checkpoint to a published shape without changing its words.",
        epilog="example: grow_model.py models/demo-target --shape llama-3.2-1b --dtype bf16 "
        "--out runs/target-1b",
    )
    parser.add_argument("source", type=Path, help="small Llama, Mistral or Qwen2 checkpoint")
    parser.add_argument(
        "--shape", required=True, help=f"{', '.join(PUBLISHED)}, or the path of a config.json"
    )
    parser.add_argument(
        "--dtype",
        choices=("bf16", "int4"),
        default="bf16",
        help="of the linears; embedding, norms and head are bf16",
    )
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--layers", type=int, help="instead of the shape's number of layers")
    parser.add_argument("--seed", type=int, default=0, help="of the fill")
    parser.add_argument(
        "--noise",
        type=float,
        default=0.0,
        help="share of the live weights' size that filled parts contribute with",
    )
    args = parser.parse_args()
    begun = time.monotonic()
    try:
        shape = shape_named(args.shape)
        if args.layers is not None:
            shape = dataclasses.replace(shape, num_layers=args.layers)
        if not args.noise >= 0:
            raise ValueError(f"--noise {args.noise}: expected 0 or more")
        written = grow(args.source, args.out, shape, args.dtype == "int4", args.seed, args.noise)
    except (ValueError, FileNotFoundError) as error:
        print(f"grow_model: {error}", file=sys.stderr)
        return 1
    seconds = time.monotonic() - begun
    print(f"{args.out}: {written / 1e9:.2f} GB in {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
