"""A decoder-only forward pass in numpy float32: the plain reference the tools check against.

Covers Llama, Mistral (sliding window), Qwen2 (biases) and Qwen3 (q/k norm) checkpoints with every
rope scaling the engine reads, weights in f32, f16, bf16 or AWQ int4. It is written for clarity,
keeps no KV cache and loads a layer at a time; use it on small checkpoints.

example: reference_model.py models/demo-target --prompt 'def fibonacci(n):' --max-tokens 24
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np

import awq_format
from byte_bpe import ByteBpe
from model_shapes import shape_fields
from safetensors_io import Checkpoint, round_to_bf16

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class Rope:
    """Rotation frequencies [head_dim / 2] (radians a position) and the factor on cos and sin."""

    inv_freq: np.ndarray
    attention_factor: float


@dataclass(frozen=True)
class ModelConfig:
    """What the forward pass needs of config.json; reads the spellings of transformers 4 and 5."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    rms_eps: float
    tied: bool
    rope: dict = field(compare=False)
    max_positions: int = 2048
    window: int | None = None  # positions a token sees, itself included; None: all

    @staticmethod
    def from_json(config: dict) -> ModelConfig:
        model_type = config.get("model_type", "")
        if model_type not in MODEL_TYPES:
            raise ValueError(f"model_type {model_type!r}, expected one of {', '.join(MODEL_TYPES)}")
        rope = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
        rope.setdefault("rope_theta", config.get("rope_theta", 10000.0))
        rope["rope_type"] = rope.get("rope_type", rope.get("type", "default"))
        window = config.get("sliding_window")
        if model_type != "mistral" and not config.get("use_sliding_window", False):
            window = None
        return ModelConfig(
            **shape_fields(config),
            rms_eps=config["rms_norm_eps"],
            rope=rope,
            max_positions=config.get("max_position_embeddings", 2048),
            window=window,
        )


def _llama3_frequencies(inv_freq: np.ndarray, rope: dict) -> np.ndarray:
    factor, original = rope["factor"], rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    wavelength = 2 * math.pi / inv_freq
    smooth = np.clip((original / wavelength - low) / (high - low), 0.0, 1.0)
    return (1 - smooth) * inv_freq / factor + smooth * inv_freq


def _yarn(inv_freq: np.ndarray, rope: dict, config: ModelConfig) -> Rope:
    factor = rope["factor"]
    original = rope.get("original_max_position_embeddings") or config.max_positions
    dim, base = config.head_dim, rope["rope_theta"]

    def pair_of_rotations(rotations: float) -> float:
        return dim * math.log(original / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low = pair_of_rotations(rope.get("beta_fast") or 32)
    high = pair_of_rotations(rope.get("beta_slow") or 1)
    if rope.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    ramp = np.clip((np.arange(dim // 2) - low) / max(high - low, 0.001), 0, 1)
    scaled = inv_freq / factor * ramp + inv_freq * (1 - ramp)

    def magnitude(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    attention_factor = rope.get("attention_factor")
    if attention_factor is None:
        if rope.get("mscale") and rope.get("mscale_all_dim"):
            attention_factor = magnitude(rope["mscale"]) / magnitude(rope["mscale_all_dim"])
        else:
            attention_factor = magnitude(1.0)
    return Rope(scaled, attention_factor)


def rope_of(config: ModelConfig) -> Rope:
    """Frequencies after scaling, in f64 so that large positions keep their angle."""
    pairs = np.arange(config.head_dim // 2, dtype=np.float64)
    inv_freq = config.rope["rope_theta"] ** (-2 * pairs / config.head_dim)
    kind = config.rope["rope_type"]
    if kind == "default":
        return Rope(inv_freq, 1.0)
    if kind == "linear":
        return Rope(inv_freq / config.rope["factor"], 1.0)
    if kind == "llama3":
        return Rope(_llama3_frequencies(inv_freq, config.rope), 1.0)
    if kind == "yarn":
        return _yarn(inv_freq, config.rope, config)
    raise ValueError(f"rope type {kind!r}, expected default, linear, llama3 or yarn")


def rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """x [..., n] over the root of its mean square, times weight [n]."""
    mean_square = np.mean(np.square(x, dtype=np.float64), axis=-1, keepdims=True)
    return (x / np.sqrt(mean_square + eps)).astype(np.float32) * weight


def rotate(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """RoPE on x [rows, heads, head_dim]: dimension j pairs with j + head_dim / 2."""
    half = x.shape[-1] // 2
    left, right = x[..., :half], x[..., half:]
    c, s = cos[:, None, :], sin[:, None, :]
    return np.concatenate([left * c - right * s, right * c + left * s], axis=-1)


class ReferenceModel:
    """One checkpoint; `bf16_weights` rounds dequantized weights to bf16 as a bf16 copy would."""

    def __init__(self, directory: str | Path, bf16_weights: bool = False) -> None:
        self.checkpoint = Checkpoint(directory)
        self.config = ModelConfig.from_json(self.checkpoint.config)
        self.bf16_weights = bf16_weights
        self._layers: list[dict[str, np.ndarray]] | None = None

    def matrix(self, name: str) -> np.ndarray:
        """The weight [out, in] of the linear `name` as f32."""
        source = self.checkpoint
        if f"{name}.qweight" in source:
            weight = awq_format.unpack(
                source.raw(f"{name}.qweight"),
                source.raw(f"{name}.qzeros"),
                source.raw(f"{name}.scales"),
            ).dequantize()
        else:
            weight = source.float32(f"{name}.weight")
        return round_to_bf16(weight) if self.bf16_weights else weight

    def layer(self, layer_idx: int) -> dict[str, np.ndarray]:
        """Weights and biases of one layer by their names below model.layers.N."""
        prefix = f"model.layers.{layer_idx}."
        layer: dict[str, np.ndarray] = {}
        for name in (
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ):
            layer[name] = self.matrix(prefix + name)
            if f"{prefix}{name}.bias" in self.checkpoint:
                layer[f"{name}.bias"] = self.checkpoint.float32(f"{prefix}{name}.bias")
        for name in (
            "input_layernorm",
            "post_attention_layernorm",
            "self_attn.q_norm",
            "self_attn.k_norm",
        ):
            if f"{prefix}{name}.weight" in self.checkpoint:
                layer[name] = self.checkpoint.float32(f"{prefix}{name}.weight")
        return layer

    def keep_layers(self) -> ReferenceModel:
        """Holds all layers in memory from now on, for repeated forwards."""
        self._layers = [self.layer(idx) for idx in range(self.config.num_layers)]
        return self

    def _attention(
        self, layer: dict[str, np.ndarray], x: np.ndarray, cos: np.ndarray, sin: np.ndarray
    ) -> np.ndarray:
        config, rows = self.config, x.shape[0]

        def project(name: str, heads: int) -> np.ndarray:
            y = x @ layer[f"self_attn.{name}_proj"].T + layer.get(f"self_attn.{name}_proj.bias", 0)
            return y.reshape(rows, heads, config.head_dim)

        q = project("q", config.num_heads)
        k = project("k", config.num_kv_heads)
        v = project("v", config.num_kv_heads)
        if "self_attn.q_norm" in layer:
            q = rms_norm(q, layer["self_attn.q_norm"], config.rms_eps)
            k = rms_norm(k, layer["self_attn.k_norm"], config.rms_eps)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        distance = np.arange(rows)[:, None] - np.arange(rows)[None, :]
        hidden = distance < 0
        if config.window is not None:
            hidden |= distance >= config.window
        out = np.empty((rows, config.num_heads, config.head_dim), dtype=np.float32)
        heads_per_kv = config.num_heads // config.num_kv_heads
        for head_idx in range(config.num_heads):
            kv_idx = head_idx // heads_per_kv
            scores = q[:, head_idx] @ k[:, kv_idx].T / np.float32(math.sqrt(config.head_dim))
            scores[hidden] = -np.inf
            scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
            out[:, head_idx] = scores @ v[:, kv_idx] / scores.sum(axis=-1, keepdims=True)
        y = out.reshape(rows, -1) @ layer["self_attn.o_proj"].T
        return y + layer.get("self_attn.o_proj.bias", np.float32(0))

    def hidden_states(self, tokens: np.ndarray) -> np.ndarray:
        """Normed output [rows, hidden] of the last layer for one sequence of token ids."""
        config = self.config
        embedding = self.checkpoint.raw("model.embed_tokens.weight")[np.asarray(tokens)]
        dtype = self.checkpoint.tensors["model.embed_tokens.weight"].dtype
        x = (
            embedding.astype(np.float32)
            if dtype != "BF16"
            else (embedding.astype(np.uint32) << 16).view(np.float32)
        )
        rope = rope_of(config)
        angle = np.arange(len(tokens))[:, None] * rope.inv_freq[None, :]
        cos = (np.cos(angle) * rope.attention_factor).astype(np.float32)
        sin = (np.sin(angle) * rope.attention_factor).astype(np.float32)
        for layer_idx in range(config.num_layers):
            layer = self._layers[layer_idx] if self._layers else self.layer(layer_idx)
            normed = rms_norm(x, layer["input_layernorm"], config.rms_eps)
            x = x + self._attention(layer, normed, cos, sin)
            normed = rms_norm(x, layer["post_attention_layernorm"], config.rms_eps)
            gate = normed @ layer["mlp.gate_proj"].T
            up = normed @ layer["mlp.up_proj"].T
            activated = gate / (1 + np.exp(-np.clip(gate, -80, 80))) * up
            x = x + activated @ layer["mlp.down_proj"].T
        return rms_norm(x, self.checkpoint.float32("model.norm.weight"), config.rms_eps)

    def logits(self, tokens: np.ndarray) -> np.ndarray:
        """Logits [rows, vocab] of every position."""
        tied = self.config.tied or "lm_head.weight" not in self.checkpoint
        name = "model.embed_tokens.weight" if tied else "lm_head.weight"
        from_bits = self.checkpoint.raw(name)
        head = (
            (from_bits.astype(np.uint32) << 16).view(np.float32)
            if (self.checkpoint.tensors[name].dtype == "BF16")
            else from_bits.astype(np.float32)
        )
        return self.hidden_states(tokens) @ head.T

    def generate(self, tokens: list[int], max_tokens: int) -> list[int]:
        """Greedy continuation, recomputing everything at each token; stops at no token."""
        ids = list(tokens)
        for _ in range(max_tokens):
            ids.append(int(self.logits(np.asarray(ids))[-1].argmax()))
        return ids[len(tokens) :]


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Greedy text from a small checkpoint by a plain numpy float32 forward pass.",
        epilog="example: reference_model.py models/demo-target --prompt 'def fibonacci(n):'",
    )
    parser.add_argument("model", help="checkpoint directory with a byte-level BPE tokenizer.json")
    parser.add_argument("--prompt", default='def fibonacci(n):\n    """')
    parser.add_argument("--max-tokens", type=int, default=24)
    args = parser.parse_args()
    tokenizer = ByteBpe(Path(args.model) / "tokenizer.json")
    model = ReferenceModel(args.model).keep_layers()
    prompt = tokenizer.encode(args.prompt)
    sys.stdout.write(args.prompt + tokenizer.decode(model.generate(prompt, args.max_tokens)))
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
