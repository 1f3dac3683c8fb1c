"""Forerun's noise in PyTorch: what src/base/noise.h computes, for whole vocabularies at once."""

from __future__ import annotations

import torch

LOW_32 = 0xFFFFFFFF
TARGET_STREAM = 0
TAG = 0x464F5245


def _product(value: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """High and low 32 bits of value * factor, in int64, whose sign must not be touched."""
    low = value * (factor & 0xFFFF)
    high = value * (factor >> 16)
    total = (high & 0xFFFF) * 0x10000 + low
    return (high >> 16) + (total >> 32), total & LOW_32


def target_noise(seeds: torch.Tensor, positions: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """Gumbel noise of every token, f32 [rows, vocab_size], for seeds and positions [rows]."""
    blocks = torch.arange(-(-vocab_size // 4), device=positions.device)[None]
    zero = torch.zeros_like(blocks + positions[:, None])
    counter = [blocks + zero, positions[:, None] + zero, zero + TARGET_STREAM, zero + TAG]
    keys = [(seeds & LOW_32)[:, None], (seeds >> 32 & LOW_32)[:, None]]
    for _ in range(10):
        high0, low0 = _product(counter[0], 0xD2511F53)
        high1, low1 = _product(counter[2], 0xCD9E8D57)
        counter = [high1 ^ counter[1] ^ keys[0], low1, high0 ^ counter[3] ^ keys[1], low0]
        keys = [(keys[0] + 0x9E3779B9) & LOW_32, (keys[1] + 0xBB67AE85) & LOW_32]
    bits = torch.stack(counter, -1).flatten(1)[:, :vocab_size]
    uniform = ((bits >> 8).double() + 0.5) * 2.0**-24
    return (-torch.log(-torch.log(uniform))).float()
