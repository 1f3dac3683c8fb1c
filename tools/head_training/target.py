"""The target of a head in PyTorch: a decoder of the Llama family with float or AWQ int4 weights.

Its values are those that are served: int4 is decoded, nothing is rounded but to the type that is
computed in. Positions start at 0; a tap is the residual stream behind so many layers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

import awq_format
import reference_model
from safetensors_io import Checkpoint

PROJECTIONS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")


@dataclass(frozen=True)
class Shape:
    """What a layer's functions need to know of the model."""

    heads: int
    kv_heads: int
    head_dim: int
    eps: float


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x [..., width] over its root mean square, times the weight; in f32, rounded to x's type."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()).to(
        x.dtype
    )


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rope in halves: x [..., head_dim]; cos and sin [..., head_dim] broadcast to it."""
    low, high = x.float().chunk(2, -1)
    return (torch.cat([low, high], -1) * cos + torch.cat([-high, low], -1) * sin).to(x.dtype)


def rope_table(config: dict, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines [rows, head_dim], f32, of the model that config.json describes."""
    rope = reference_model.rope_of(reference_model.ModelConfig.from_json(config))
    angles = torch.outer(
        torch.arange(rows, dtype=torch.float64),
        torch.from_numpy(np.asarray(rope.inv_freq, np.float64)),
    ).repeat(1, 2)
    factor = float(rope.attention_factor)
    return (angles.cos() * factor).float(), (angles.sin() * factor).float()


def split_qkv(qkv: torch.Tensor, layer: dict, shape: Shape) -> list[torch.Tensor]:
    """qkv [..., (heads + 2 kv_heads) head_dim] -> q, k, v of [..., heads, head_dim], normed where the layer does."""
    sizes = [shape.heads, shape.kv_heads, shape.kv_heads]
    parts = qkv.split([count * shape.head_dim for count in sizes], -1)
    q, k, v = (part.unflatten(-1, (count, shape.head_dim)) for part, count in zip(parts, sizes))
    if "q_norm" in layer:
        q, k = rms_norm(q, layer["q_norm"], shape.eps), rms_norm(k, layer["k_norm"], shape.eps)
    return [q, k, v]


def project(
    x: torch.Tensor, layer: dict, cos: torch.Tensor, sin: torch.Tensor, shape: Shape
) -> list[torch.Tensor]:
    """x [..., width] -> q, k, v [..., heads or kv_heads, head_dim]; cos and sin [..., head_dim] of x's rows."""
    qkv = F.linear(
        rms_norm(x, layer["attention_norm"], shape.eps), layer["qkv"], layer.get("qkv_bias")
    )
    q, k, v = split_qkv(qkv, layer, shape)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    return [rotate(q, cos, sin), rotate(k, cos, sin), v]


def finish(x: torch.Tensor, attended: torch.Tensor, layer: dict, shape: Shape) -> torch.Tensor:
    """The residual stream x [..., width] behind the layer; attended [..., heads head_dim]."""
    x = x + F.linear(attended, layer["o"])
    gate, up = F.linear(rms_norm(x, layer["mlp_norm"], shape.eps), layer["gate_up"]).chunk(2, -1)
    return x + F.linear(F.silu(gate) * up, layer["down"])


def layer_forward(
    x: torch.Tensor, layer: dict, cos: torch.Tensor, sin: torch.Tensor, shape: Shape
) -> torch.Tensor:
    """One layer over whole sequences: x [batch, length, width], cos and sin [length, head_dim]."""
    q, k, v = (part.transpose(1, 2) for part in project(x, layer, cos, sin, shape))
    groups = shape.heads // shape.kv_heads
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return finish(x, attended.transpose(1, 2).flatten(2), layer, shape)


def read_weight(checkpoint: Checkpoint, module: str) -> torch.Tensor:
    """A linear's or norm's f32 weight, [out, in] or [width], decoded where it is AWQ int4."""
    if f"{module}.qweight" not in checkpoint:
        return torch.from_numpy(np.array(checkpoint.float32(f"{module}.weight")))
    parts = [checkpoint.raw(f"{module}.{part}") for part in ("qweight", "qzeros", "scales")]
    return torch.from_numpy(awq_format.unpack(*parts).dequantize())


class Target:
    """The frozen model. All tensors are of `dtype` on `device`."""

    def __init__(
        self,
        directory: str | Path,
        device: torch.device,
        dtype: torch.dtype,
        compiles: bool = False,
    ) -> None:
        checkpoint = Checkpoint(directory)
        self.config = config = checkpoint.config
        self.device, self.dtype = device, dtype
        self.compiles = compiles and device.type == "cuda"
        self.num_layers, self.width = config["num_hidden_layers"], config["hidden_size"]
        heads = config["num_attention_heads"]
        self.shape = Shape(
            heads,
            config.get("num_key_value_heads") or heads,
            config.get("head_dim") or self.width // heads,
            config["rms_norm_eps"],
        )
        self.vocab_size = config["vocab_size"]

        def read(module: str) -> torch.Tensor:
            return read_weight(checkpoint, module).to(device, dtype)

        self.layers = [self._read_layer(checkpoint, read, idx) for idx in range(self.num_layers)]
        self.embedding = read("model.embed_tokens")
        self.norm = read("model.norm")
        self.head = read("lm_head") if "lm_head.weight" in checkpoint else self.embedding
        self.cos, self.sin = (
            table.to(device)
            for table in rope_table(config, min(config["max_position_embeddings"], 16384))
        )
        self._layer = self.compiled(layer_forward)

    @staticmethod
    def _read_layer(checkpoint: Checkpoint, read, idx: int) -> dict[str, torch.Tensor]:
        name = f"model.layers.{idx}"
        layer = {
            "attention_norm": read(f"{name}.input_layernorm"),
            "mlp_norm": read(f"{name}.post_attention_layernorm"),
            "qkv": torch.cat([read(f"{name}.{part}") for part in PROJECTIONS]),
            "o": read(f"{name}.self_attn.o_proj"),
            "gate_up": torch.cat([read(f"{name}.mlp.{part}_proj") for part in ("gate", "up")]),
            "down": read(f"{name}.mlp.down_proj"),
        }
        if f"{name}.{PROJECTIONS[0]}.bias" in checkpoint:
            biases = [np.array(checkpoint.float32(f"{name}.{part}.bias")) for part in PROJECTIONS]
            layer["qkv_bias"] = torch.from_numpy(np.concatenate(biases)).to(layer["qkv"])
        if f"{name}.self_attn.q_norm.weight" in checkpoint:
            layer["q_norm"], layer["k_norm"] = (
                read(f"{name}.self_attn.{part}_norm") for part in "qk"
            )
        return layer

    def compiled(self, function):
        """The function, compiled where that was asked for and there is a GPU: for many calls of few shapes."""
        return torch.compile(function) if self.compiles else function

    def default_taps(self) -> list[int]:
        """Behind how many layers heads are trained to look where their files name none."""
        return [2, self.num_layers // 2, self.num_layers - 3]

    @torch.no_grad()
    def hidden_states(
        self, tokens: torch.Tensor, taps: list[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """tokens [batch, length] -> what the LM head reads [batch, length, width], and the taps side by side."""
        length = tokens.shape[1]
        x, kept = self.embedding[tokens], {}
        for idx in range(self.num_layers + 1):
            if idx in taps:
                kept[idx] = x
            if idx < self.num_layers:
                x = self._layer(
                    x, self.layers[idx], self.cos[:length], self.sin[:length], self.shape
                )
        return rms_norm(x, self.norm, self.shape.eps), torch.cat([kept[tap] for tap in taps], -1)


class Decoder:
    """Decodes a batch whose rows all stand at the same position, one token a call.

    Keys and values lie in [batch, kv_heads, room, head_dim] for each layer. `position` [1] is
    a tensor, so that a CUDA graph of a call can be replayed; attention looks at a prefix of `room`.
    """

    ROOM_STEP = 128

    def __init__(self, target: Target, batch: int, room: int) -> None:
        self.target, self.batch = target, batch
        self.room = math.ceil(room / self.ROOM_STEP) * self.ROOM_STEP
        shape = target.shape
        size = (batch, shape.kv_heads, self.room, shape.head_dim)
        self.keys = [target.embedding.new_zeros(size) for _ in range(target.num_layers)]
        self.values = [target.embedding.new_zeros(size) for _ in range(target.num_layers)]
        self.position = torch.zeros(1, dtype=torch.long, device=target.device)
        self._slots = torch.arange(self.room, device=target.device)
        self._project, self._finish = target.compiled(project), target.compiled(finish)

    def logits(self, tokens: torch.Tensor, seen: int) -> torch.Tensor:
        """tokens [batch] at `position` -> logits [batch, vocab]; looks at the first `seen` slots up to `position`."""
        target, shape = self.target, self.target.shape
        cos, sin = target.cos[self.position], target.sin[self.position]
        bias = torch.zeros(seen, device=target.device).masked_fill(
            self._slots[:seen] > self.position, -1e30
        )
        rows = self.batch * shape.kv_heads
        x = target.embedding[tokens]
        for layer, keys, values in zip(target.layers, self.keys, self.values):
            q, k, v = self._project(x, layer, cos, sin, shape)
            keys.index_copy_(2, self.position, k.unsqueeze(2))
            values.index_copy_(2, self.position, v.unsqueeze(2))
            seen_keys = keys.view(rows, self.room, shape.head_dim)[:, :seen]
            seen_values = values.view(rows, self.room, shape.head_dim)[:, :seen]
            scores = torch.bmm(
                q.reshape(rows, -1, shape.head_dim), seen_keys.transpose(1, 2)
            ).float()
            weights = (scores * shape.head_dim**-0.5 + bias).softmax(-1).to(x.dtype)
            x = self._finish(x, torch.bmm(weights, seen_values).view(self.batch, -1), layer, shape)
        return F.linear(rms_norm(x, target.norm, shape.eps), target.head)
