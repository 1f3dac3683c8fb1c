"""The roundings that Forerun's bf16 and int8 activations make, for reference_model.Model.

src/kernels/precision.h names them. Everything between two roundings stays float64, so that a model
with these roundings is as far from the exact one as the roundings alone take it.
"""

from __future__ import annotations

import numpy as np

import reference_model


def to_bf16(values: np.ndarray) -> np.ndarray:
    """The nearest bf16, of two equally near ones the even one."""
    bits = values.astype(np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


class Bf16(reference_model.Exact):
    """`bf16_products`: attention multiplies bf16 (instruction sets avx512_bf16 and amx), so that
    queries and probabilities are rounded as well."""

    group = 128  # inputs that share a scale

    def __init__(self, bf16_products: bool) -> None:
        self._bf16_products = bf16_products

    def inputs(self, rows: np.ndarray, integers: bool) -> np.ndarray:
        rows = to_bf16(rows)
        return self._by_group(rows) if integers else rows

    def _by_group(self, rows: np.ndarray) -> np.ndarray:
        padded = np.pad(rows, ((0, 0), (0, -rows.shape[1] % self.group)))
        groups = padded.reshape(len(rows), -1, self.group)
        largest = np.abs(groups).max(axis=-1, keepdims=True)
        quantized = self._quantize(groups, np.where(largest > 0, largest, 1.0))
        return quantized.reshape(padded.shape)[:, : rows.shape[1]]

    def _quantize(self, groups: np.ndarray, largest: np.ndarray) -> np.ndarray:
        """16 bits: a unit is 2^-13 of the power of two at or below the largest input."""
        unit = np.exp2(np.floor(np.log2(largest)) - 13)
        return np.round(groups / unit) * unit

    def residual(self, rows: np.ndarray) -> np.ndarray:
        return to_bf16(rows)

    def cached(self, heads: np.ndarray) -> np.ndarray:
        return to_bf16(heads)

    def queries(self, heads: np.ndarray) -> np.ndarray:
        return to_bf16(heads) if self._bf16_products else heads

    def probabilities(self, weights: np.ndarray) -> np.ndarray:
        return to_bf16(weights) if self._bf16_products else weights


class Int8(Bf16):
    def _quantize(self, groups: np.ndarray, largest: np.ndarray) -> np.ndarray:
        unit = largest / 127
        return np.round(groups / unit) * unit


def of(activation: str, bf16_products: bool) -> reference_model.Exact:
    return {"bf16": Bf16, "int8": Int8}[activation](bf16_products)
