"""An EAGLE-3 head: one decoder layer that reads a token's embedding beside a feature of the text before it.

The row of token q takes the feature of token q - 1: the target's taps through `fc`, or what the layer itself gave for
the row before. Parameters have the names of the published layout (`midlayer`, as SafeAILab and SpecForge write it).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from head_training.attention import attend
from head_training.target import Shape, Target, rms_norm, rotate

INT4_GROUP = 128


@dataclass(frozen=True)
class HeadShape:
    """Sizes that the target does not fix."""

    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    draft_vocab: int
    own_lm_head: bool
    int4: bool  # linear weights are rounded to AWQ int4 wherever they are used


def as_int4(weight: torch.Tensor) -> torch.Tensor:
    """weight [out, in] rounded as awq_format.quantize() rounds it; gradients pass as if it were not."""
    grouped = weight.detach().float().unflatten(1, (-1, INT4_GROUP))
    low, high = (
        grouped.amin(-1, keepdim=True).clamp_max(0),
        grouped.amax(-1, keepdim=True).clamp_min(0),
    )
    step = ((high - low).clamp_min(1e-5) / 15).half().float()
    zero = (-low / step).round().clamp(0, 15)
    rounded = (((grouped / step).round() + zero).clamp(0, 15) - zero) * step
    return weight + (rounded.flatten(1) - weight.detach())


class Linear(nn.Linear):
    """Without a bias; `int4` rounds its weight."""

    def __init__(self, inputs: int, outputs: int, int4: bool) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.int4 = int4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, as_int4(self.weight) if self.int4 else self.weight)


class Norm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, self.weight, self.eps)


class Attention(nn.Module):
    def __init__(self, width: int, shape: HeadShape) -> None:
        super().__init__()
        own, shared = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = Linear(2 * width, own, shape.int4)
        self.k_proj = Linear(2 * width, shared, shape.int4)
        self.v_proj = Linear(2 * width, shared, shape.int4)
        self.o_proj = Linear(own, width, shape.int4)


class Mlp(nn.Module):
    def __init__(self, width: int, shape: HeadShape) -> None:
        super().__init__()
        self.gate_proj = Linear(width, shape.ffn, shape.int4)
        self.up_proj = Linear(width, shape.ffn, shape.int4)
        self.down_proj = Linear(shape.ffn, width, shape.int4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, width: int, shape: HeadShape, eps: float) -> None:
        super().__init__()
        self.hidden_norm, self.input_layernorm = Norm(width, eps), Norm(width, eps)
        self.post_attention_layernorm = Norm(width, eps)
        self.self_attn, self.mlp = Attention(width, shape), Mlp(width, shape)


class Head(nn.Module):
    """Parameters are f32. `tokens` [draft_vocab] lists the target's token of each logit, in rising order."""

    def __init__(
        self, target: Target, shape: HeadShape, taps: list[int], tokens: torch.Tensor
    ) -> None:
        super().__init__()
        width, eps = target.width, target.shape.eps
        self.shape, self.taps = shape, list(taps)
        self.fc = Linear(len(taps) * width, width, shape.int4)
        self.midlayer = Layer(width, shape, eps)
        self.norm = Norm(width, eps)
        self.norm.weight.data.copy_(target.norm.float().cpu())
        if shape.own_lm_head:
            self.lm_head = nn.Linear(width, shape.draft_vocab, bias=False)
            self.lm_head.weight.data.copy_(target.head[tokens.to(target.device)].float().cpu())
        self.register_buffer("tokens", tokens.long(), persistent=False)
        self.layer_shape = Shape(shape.heads, shape.kv_heads, shape.head_dim, eps)

    def lm_weight(self, target: Target) -> torch.Tensor:
        """[draft_vocab, width]: its own, or the target's, whole."""
        return self.lm_head.weight if self.shape.own_lm_head else target.head

    def project(self, embedded, feature, cos, sin):
        """embedded and feature [..., length, width] -> q, k, v [..., heads or kv_heads, length, head_dim], rotated."""
        layer, shape = self.midlayer, self.shape
        x = torch.cat([layer.input_layernorm(embedded), layer.hidden_norm(feature)], -1)
        attention = layer.self_attn
        q, k, v = (
            part(x).unflatten(-1, (-1, shape.head_dim)).transpose(-2, -3)
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        return rotate(q, cos, sin), rotate(k, cos, sin), v

    def finish(self, feature, attended):
        """attended [..., length, heads * head_dim] -> the layer's output, which is the next feature."""
        layer = self.midlayer
        x = feature + layer.self_attn.o_proj(attended)
        return x + layer.mlp(layer.post_attention_layernorm(x))


class Unrolled:
    """The training-time test: a head runs on its own features for several steps, at every row at once."""

    def __init__(self, head: Head, target: Target) -> None:
        self.head, self.target = head, target
        compiled = (
            torch.compile if target.device.type == "cuda" else (lambda function, **_: function)
        )
        self._project = compiled(head.project, dynamic=False)
        self._finish = compiled(self._finished, dynamic=False)

    def _finished(self, feature, attended):
        output = self.head.finish(feature, attended.transpose(1, 2).flatten(2))
        return output, self.head.norm(output)

    def __call__(self, tokens: torch.Tensor, taps: torch.Tensor, steps: int) -> list[torch.Tensor]:
        """tokens [batch, length], taps [batch, length, n width] -> for each step what its LM head reads.

        Row s of step n, [batch, length, width], guesses token s + n + 2; it has read token s + n + 1, and past the
        end of the text token 0.
        """
        head, target = self.head, self.target
        length = tokens.shape[1]
        groups = head.shape.heads // head.shape.kv_heads
        feature = head.fc(taps)
        own_keys, own_values, outputs = [], [], []
        for step in range(steps):
            read = F.pad(tokens, (0, step + 1))[:, step + 1 : step + 1 + length]
            rows = slice(step + 1, step + 1 + length)
            q, k, v = self._project(
                target.embedding[read], feature, target.cos[rows], target.sin[rows]
            )
            k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
            if step == 0:
                keys, values = k, v
            else:
                own_keys.append(k)
                own_values.append(v)
            feature, output = self._finish(feature, attend(q, keys, values, own_keys, own_values))
            outputs.append(output)
        return outputs
