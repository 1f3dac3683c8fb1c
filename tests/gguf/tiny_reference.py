"""The float64 logits of the tiny checkpoints, and how far other logits may be from them."""

from __future__ import annotations

import numpy as np

import reference_model


def tokens_for(vocab: int, count: int = 48) -> list[int]:
    """The same ids for the same vocabulary, some of them more than once."""
    return [(index * index * 7 + index * 31 + 5) % vocab for index in range(count)]


def logits_of(model: reference_model.Model, rounding: reference_model.Exact | None = None):
    """Tokens, and their logits [tokens, vocab]."""
    tokens = tokens_for(len(model.embedding))
    model.rounding = rounding or reference_model.Exact()
    return tokens, model.forward([(model.sequence(), tokens)])[0]


def difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest |found - wanted| over the root mean square of `wanted`; infinite where shapes differ
    or a value is not finite."""
    if found.shape != wanted.shape or not np.all(np.isfinite(found)):
        return np.inf
    return float(np.abs(found - wanted).max() / np.sqrt(np.mean(wanted * wanted)))


def further_by(found: np.ndarray, rounded: np.ndarray, wanted: np.ndarray) -> float:
    """How many times as far from `wanted` as `rounded` is, in mean."""
    return mean_difference(found, wanted) / mean_difference(rounded, wanted)


def mean_difference(found: np.ndarray, wanted: np.ndarray) -> float:
    """The root mean square of the difference over that of `wanted`; infinite as in difference()."""
    if found.shape != wanted.shape or not np.all(np.isfinite(found)):
        return np.inf
    return float(np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted * wanted)))
