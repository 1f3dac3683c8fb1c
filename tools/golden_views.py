"""Draws keys and queries, and says by plain numpy which tokens views of the KV choose by them.

The rules are those of the papers: SnapKV (Li et al., 2024, section 4), Vegas (Yue et al., 2026), the exact top K of
MagicDec (section 4.4), laid out in blocks as docs/writing-a-view.md says. Each file of OUT/views is read by
tests/views/golden_views_test.cc, which runs the views themselves along the same text.

example: golden_views.py --out build/goldens
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np

from checkpoint_writer import planned, write_file

ROOT = Path(__file__).resolve().parents[1]
BLOCK = 64  # tokens of a KV block
HEADS, KV_HEADS, HEAD_DIM = 4, 2, 64
WINDOW = 32  # the last tokens, which choose
POOLING = 5
PROMPT, END = 500, 900  # tokens of the text before the first draft, and at the end
VERIFIED = 3  # rows of a verification, all of which are right
VEGAS_TOKENS = 16  # between two choices
# Between the least important token that is chosen and the next one, relative: more than rounding to f32 can move.
MARGIN = 2e-5
BUDGETS = {"snapkv": (128, 320), "vegas": (128, 320), "topk": (128, 320)}


def importance(queries: np.ndarray, keys: np.ndarray, seen: list[int]) -> np.ndarray:
    """[kv_heads][tokens]: what the rows' softmax over the tokens that each sees gives a token, summed over the rows
    and over the query heads of the KV head. queries [rows][heads][dim], keys [tokens][kv_heads][dim]."""
    total = np.zeros((KV_HEADS, max(seen)))
    for query, visible in zip(queries, seen, strict=True):
        for head in range(HEADS):
            kv_head = head // (HEADS // KV_HEADS)
            scores = keys[:visible, kv_head] @ query[head] / np.sqrt(HEAD_DIM)
            weights = np.exp(scores - scores.max())
            total[kv_head, :visible] += weights / weights.sum()
    return total


def pooled(values: np.ndarray, width: int) -> np.ndarray:
    """The mean of `width` neighbours; beyond the ends there is nothing."""
    kernel = np.ones(width) / width
    return np.array([np.convolve(row, kernel, mode="same") for row in values])


def most_important(values: np.ndarray, count: int) -> np.ndarray:
    """[kv_heads][count] tokens in the order of the text; raises where the choice is too close to tell."""
    rows = []
    for row in values:
        order = np.argsort(-row, kind="stable")
        least, next_one = row[order[count - 1]], row[order[count]]
        if least - next_one < MARGIN * least:
            raise CloseCallError
        rows.append(np.sort(order[:count]))
    return np.array(rows, dtype=np.int32)


class CloseCallError(Exception):
    """Two tokens are about equally important at the edge of a choice."""


class Text:
    """Keys and queries of every token of a text."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.keys = random.standard_normal((END, KV_HEADS, HEAD_DIM)).astype(np.float32)
        self.queries = (1.5 * random.standard_normal((END, HEADS, HEAD_DIM))).astype(np.float32)

    def chosen_by(self, rows: range, seen: list[int], before: int, count: int, pooling: int):
        queries = self.queries[rows.start : rows.stop].astype(np.float64)
        weighed = importance(queries, self.keys.astype(np.float64), seen)[:, :before]
        return most_important(pooled(weighed, pooling), count)

    def by_last_tokens(self, prefix: int, before: int, count: int) -> np.ndarray:
        rows = range(prefix - WINDOW, prefix)
        return self.chosen_by(rows, [row + 1 for row in rows], before, count, POOLING)


# A choice: the prefix's tokens when it is made, and the chosen tokens of each KV head.
Choice = tuple[int, np.ndarray]


def snap_kv(text: Text, budget: int) -> list[Choice]:
    """The last 32 tokens choose all of the budget but a block, among the tokens before the block that the first of
    them lies in; again when the text has grown by half of the budget, in blocks, at least one."""
    head = budget // BLOCK - 1
    most = 2 + max(budget // 2 // BLOCK - 1, 1)  # blocks behind the head
    choices: list[Choice] = []
    tail = 0
    for prefix in range(PROMPT, END, VERIFIED):
        if tail and prefix // BLOCK + 1 - tail <= most:
            continue
        tail = (prefix - WINDOW) // BLOCK
        choices.append((prefix, text.by_last_tokens(prefix, tail * BLOCK, head * BLOCK)))
    return choices


def vegas(text: Text, budget: int) -> list[Choice]:
    """The first choice as SnapKV's; then the rows of a verification choose, by what they pay to the tokens before
    them all, once 16 tokens have come."""
    head = budget // BLOCK - 1
    choices: list[Choice] = []
    for prefix in range(PROMPT, END - VERIFIED, VERIFIED):
        before = (prefix - WINDOW) // BLOCK * BLOCK
        if not choices:
            choices.append((prefix, text.by_last_tokens(prefix, before, head * BLOCK)))
        if prefix - choices[-1][0] >= VEGAS_TOKENS:
            rows = range(prefix, prefix + VERIFIED)
            seen = [prefix] * VERIFIED
            tokens = text.chosen_by(rows, seen, before, head * BLOCK, POOLING)
            choices.append((prefix, tokens))
    return choices


def top_k(text: Text, budget: int) -> list[Choice]:
    """Each draft row chooses for itself, among the tokens before its block."""
    head = budget // BLOCK - 1
    return [
        (
            prefix,
            text.chosen_by(
                range(prefix, prefix + 1), [prefix], prefix // BLOCK * BLOCK, head * BLOCK, 1
            ),
        )
        for prefix in range(PROMPT, END, VERIFIED)
    ]


VIEWS: dict[str, Callable[[Text, int], list[Choice]]] = {
    "snapkv": snap_kv,
    "vegas": vegas,
    "topk": top_k,
}


def drawn(view: str, budget: int) -> tuple[Text, list[Choice]]:
    """A text in which no choice is close."""
    for seed in range(1000):
        text = Text(seed)
        try:
            return text, VIEWS[view](text, budget)
        except CloseCallError:
            continue
    raise SystemExit(f"golden_views.py: {view} {budget}: every text has a close call")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "goldens")
    out = parser.parse_args().out / "views"
    out.mkdir(parents=True, exist_ok=True)
    for view, budgets in BUDGETS.items():
        for budget in budgets:
            text, choices = drawn(view, budget)
            tensors = {
                "keys": text.keys.reshape(END, -1),
                "queries": text.queries.reshape(END, -1),
                "prefixes": np.array([prefix for prefix, _ in choices], dtype=np.int32),
                "chosen": np.stack([tokens for _, tokens in choices]),
            }
            write_file(
                out / f"{view}-{budget}.safetensors",
                [
                    planned(name, "F32" if values.dtype == np.float32 else "I32", values)
                    for name, values in tensors.items()
                ],
            )


if __name__ == "__main__":
    main()
