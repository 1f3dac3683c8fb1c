"""Files of rows of tokens: what generation and packing write, what training and evaluation read.

A .pt file with `tokens` [rows, length] and `made` [rows, length], true where the target itself chose the token: only
such tokens teach a head. Rows of prompts for evaluation have `prompt` [rows] and `end` [rows], lengths in tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class TokenRows:
    tokens: torch.Tensor  # int32
    made: torch.Tensor  # bool

    def save(self, path: str | Path) -> None:
        torch.save(
            {"tokens": self.tokens.to(torch.int32).cpu(), "made": self.made.bool().cpu()}, path
        )

    @staticmethod
    def load(path: str | Path) -> TokenRows:
        found = torch.load(path, weights_only=True)
        if not isinstance(found, dict) or not {"tokens", "made"} <= set(found):
            raise ValueError(
                f"{path}: found no rows of tokens; accepted: a file that `generate` or `pack` wrote"
            )
        return TokenRows(found["tokens"], found["made"])

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def part(self, rows) -> TokenRows:
        return TokenRows(self.tokens[rows], self.made[rows])


def pack(texts: list[tuple[list[int], int]], length: int) -> TokenRows:
    """Rows of one text each, cut at `length`; a text is its tokens and how many of them were the prompt."""
    tokens = torch.zeros(len(texts), length, dtype=torch.int32)
    made = torch.zeros(len(texts), length, dtype=torch.bool)
    for row, (text, prompt) in enumerate(texts):
        kept = text[:length]
        tokens[row, : len(kept)] = torch.tensor(kept, dtype=torch.int32)
        made[row, prompt : len(kept)] = True
    return TokenRows(tokens, made)
