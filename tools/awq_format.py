"""AWQ int4 as AutoAWQ's "gemm" version lays it out, with numpy alone.

A linear of shape [out, in] is stored transposed: `qweight` int32 [in, out/8], `qzeros` int32
[in/group, out/8] and `scales` f16 [in/group, out]. Bits 4i..4i+3 of a word hold the column
8 * word + NIBBLE_ORDER[i]. A weight is (q - zero) * scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NIBBLE_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
MAX_Q = 15


@dataclass(frozen=True)
class AwqLinear:
    """Unpacked int4 weights, transposed as stored."""

    q: np.ndarray  # u8 [in, out], 0..15
    zeros: np.ndarray  # u8 [in / group, out], 0..15
    scales: np.ndarray  # f16 [in / group, out]

    @property
    def group_size(self) -> int:
        return self.q.shape[0] // self.zeros.shape[0]

    def dequantize(self) -> np.ndarray:
        """f32 [out, in], exact: an int of 5 bits times an f16 fits into f32."""
        group = self.group_size
        zeros = np.repeat(self.zeros, group, axis=0).astype(np.float32)
        scales = np.repeat(self.scales, group, axis=0).astype(np.float32)
        return np.ascontiguousarray(((self.q.astype(np.float32) - zeros) * scales).T)


def pack_nibbles(values: np.ndarray) -> np.ndarray:
    """u8 [rows, cols] of 0..15 -> int32 [rows, cols / 8] in AWQ's order."""
    rows, cols = values.shape
    if cols % 8:
        raise ValueError(f"{cols} columns do not fill words of eight")
    lanes = values.reshape(rows, cols // 8, 8)
    words = np.zeros((rows, cols // 8), dtype=np.uint32)
    for nibble, column in enumerate(NIBBLE_ORDER):
        words |= lanes[:, :, column].astype(np.uint32) << np.uint32(4 * nibble)
    return words.view(np.int32)


def unpack_nibbles(words: np.ndarray) -> np.ndarray:
    """int32 [rows, n] -> u8 [rows, 8 * n], the inverse of pack_nibbles."""
    unsigned = np.ascontiguousarray(words).view(np.uint32)
    lanes = np.empty((*unsigned.shape, 8), dtype=np.uint8)
    for nibble, column in enumerate(NIBBLE_ORDER):
        lanes[:, :, column] = (unsigned >> np.uint32(4 * nibble)) & np.uint32(MAX_Q)
    return lanes.reshape(unsigned.shape[0], -1)


def unpack(qweight: np.ndarray, qzeros: np.ndarray, scales: np.ndarray) -> AwqLinear:
    return AwqLinear(unpack_nibbles(qweight), unpack_nibbles(qzeros), np.ascontiguousarray(scales))


def quantize(weight: np.ndarray, group_size: int) -> AwqLinear:
    """Rounds f32 [out, in] to int4 with a zero point for each group of `group_size` inputs.

    The range of a group always contains zero, so that a zero weight stays exactly zero.
    """
    out_dim, in_dim = weight.shape
    if in_dim % group_size:
        raise ValueError(f"{in_dim} inputs are no multiple of the group of {group_size}")
    grouped = np.asarray(weight, dtype=np.float32).reshape(out_dim, -1, group_size)
    low = np.minimum(grouped.min(axis=-1), 0.0)
    high = np.maximum(grouped.max(axis=-1), 0.0)
    scales = (np.maximum(high - low, 1e-5) / MAX_Q).astype(np.float16)
    step = scales.astype(np.float32)
    zeros = np.clip(np.rint(-low / step), 0, MAX_Q)
    q = np.clip(np.rint(grouped / step[..., None]) + zeros[..., None], 0, MAX_Q)
    return AwqLinear(
        np.ascontiguousarray(q.reshape(out_dim, in_dim).T.astype(np.uint8)),
        np.ascontiguousarray(zeros.T.astype(np.uint8)),
        np.ascontiguousarray(scales.T),
    )


def quantization_config(group_size: int) -> dict:
    """The block that config.json carries, in AutoAWQ's spelling."""
    return {
        "quant_method": "awq",
        "bits": 4,
        "group_size": group_size,
        "version": "gemm",
        "zero_point": True,
        "modules_to_not_convert": ["lm_head"],
    }
