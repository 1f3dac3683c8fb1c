"""Where each part of a small model goes in a larger one that computes the same function.

A map is an int array over the large model's indices: the small model's index that lands there, or
-1 where the large model has something the small one lacks.

- Residual stream and FFN: the first channels, or, where weights are rounded to int4, channels
  spread evenly: a scale then serves few live inputs, and rounding costs a narrow model as little
  as it costs a wide one. The rest carries nothing. RMSNorm then divides by the mean over more
  channels: with m = sum(x^2), x / sqrt(m / n + eps) of the small width n equals
  sqrt(n / N) * x / sqrt(m / N + eps * n / N) of the large width N. So norm weights are multiplied
  by sqrt(n / N), exact where that is a power of two, and eps by n / N.
- KV head g goes to KV head g, its query heads to the first slots of that group.
- Rotary dimensions: pair i of head_dim d turns by theta^(-2i/d) a position. With head_dim D = r d
  the pair r i turns alike, so pair i goes to pair r i. Scores are divided by sqrt(D) instead of
  sqrt(d): query weights make up for it by sqrt(r).
- Value channels keep their index within the head.
- Layers are spread evenly; those between add nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from model_shapes import ModelShape

NOTHING = -1


@dataclass(frozen=True)
class GrowthMaps:
    """The maps, and the factors that go with them."""

    residual: np.ndarray  # [hidden]
    ffn: np.ndarray  # [intermediate]
    query: np.ndarray  # [heads * head_dim], rotary order
    key: np.ndarray  # [kv_heads * head_dim], rotary order
    value: np.ndarray  # [kv_heads * head_dim]
    attended: np.ndarray  # [heads * head_dim], what o_proj reads
    vocab: np.ndarray  # [vocab]
    layers: np.ndarray  # [layers]
    norm_factor: float
    eps_factor: float
    query_factor: float


def _every(step: int, live: int, size: int) -> np.ndarray:
    out = np.full(size, NOTHING, dtype=np.int64)
    out[: live * step : step] = np.arange(live)
    return out


def check_fits(small: ModelShape, large: ModelShape, rope_type: str) -> None:
    """Raises ValueError naming the first thing of which the small model has too much."""
    for what, has, room in (
        ("hidden channels", small.hidden_size, large.hidden_size),
        ("FFN channels", small.intermediate_size, large.intermediate_size),
        ("layers", small.num_layers, large.num_layers),
        ("KV heads", small.num_kv_heads, large.num_kv_heads),
        ("query heads a KV head", small.heads_per_kv, large.heads_per_kv),
        ("dimensions a head", small.head_dim, large.head_dim),
        ("vocabulary entries", small.vocab_size, large.vocab_size),
    ):
        if has > room:
            raise ValueError(f"the small model has {has} {what}, the shape has room for {room}")
    if large.head_dim % small.head_dim:
        raise ValueError(
            f"head_dim {large.head_dim} of the shape is no multiple of the small model's "
            f"{small.head_dim}, so rotary frequencies cannot be kept"
        )
    if rope_type == "yarn" and large.head_dim != small.head_dim:
        raise ValueError("rope type yarn ties frequencies to head_dim, so head_dim must be equal")
    if small.has_qkv_bias and not large.has_qkv_bias:
        raise ValueError("the small model has attention biases (qwen2), the shape has none")


def _rotary_slots(small: ModelShape, large: ModelShape) -> np.ndarray:
    """Dimension of the large head for each dimension of the small head."""
    spread = large.head_dim // small.head_dim
    pairs = np.arange(small.head_dim // 2) * spread
    return np.concatenate([pairs, pairs + large.head_dim // 2])


def growth_maps(small: ModelShape, large: ModelShape, spread: bool = False) -> GrowthMaps:
    """All maps; the shapes must have passed check_fits. `spread`: channels, evenly."""

    def channels(live: int, size: int) -> np.ndarray:
        return _every(size // live if spread else 1, live, size)

    rotary = _rotary_slots(small, large)
    straight = np.arange(small.head_dim)

    def heads(slots: list[int], dims: np.ndarray, total: int) -> np.ndarray:
        out = np.full(total * large.head_dim, NOTHING, dtype=np.int64)
        for head_idx, slot in enumerate(slots):
            out[slot * large.head_dim + dims] = head_idx * small.head_dim + straight
        return out

    query_slots = [
        head_idx // small.heads_per_kv * large.heads_per_kv + head_idx % small.heads_per_kv
        for head_idx in range(small.num_heads)
    ]
    kv_slots = list(range(small.num_kv_heads))
    layers = np.full(large.num_layers, NOTHING, dtype=np.int64)
    layers[np.arange(small.num_layers) * large.num_layers // small.num_layers] = np.arange(
        small.num_layers
    )
    ratio = small.hidden_size / large.hidden_size
    return GrowthMaps(
        residual=channels(small.hidden_size, large.hidden_size),
        ffn=channels(small.intermediate_size, large.intermediate_size),
        query=heads(query_slots, rotary, large.num_heads),
        key=heads(kv_slots, rotary, large.num_kv_heads),
        value=heads(kv_slots, straight, large.num_kv_heads),
        attended=heads(query_slots, straight, large.num_heads),
        vocab=_every(1, small.vocab_size, large.vocab_size),
        layers=layers,
        norm_factor=math.sqrt(ratio),
        eps_factor=ratio,
        query_factor=math.sqrt(large.head_dim / small.head_dim),
    )
