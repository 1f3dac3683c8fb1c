"""A small byte-level BPE tokenizer on the standard library, for checks and tests.

Reads tokenizer.json of Llama 3's kind: a split by regular expression, the byte alphabet, merges.
Letters and digits are those of Python's `re`, which differ from Unicode's \\p{L} and \\p{N} in rare
scripts; for real work use the `tokenizers` package.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

# Llama 3's split pattern in the terms of Python's re.
SPLIT = re.compile(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\w]?[^\W\d_]+|_[^\W\d_]+"
    r"|\d{1,3}"
    r"| ?(?:[^\s\w]|_)+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_alphabet() -> list[str]:
    """The printable character that stands for each byte, in GPT-2's table."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {byte: chr(byte) for byte in printable}
    extra = 256
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(extra)
            extra += 1
    return [table[byte] for byte in range(256)]


class ByteBpe:
    """Encodes and decodes text with one tokenizer.json; special tokens in text stay plain text."""

    def __init__(self, path: str | Path) -> None:
        model = json.loads(Path(path).read_text(encoding="utf-8"))["model"]
        if model.get("type") != "BPE":
            raise ValueError(f"{path}: tokenizer model {model.get('type')}, expected BPE")
        self.vocab: dict[str, int] = model["vocab"]
        pairs = [
            tuple(m.split(" ", 1)) if isinstance(m, str) else tuple(m) for m in model["merges"]
        ]
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._alphabet = byte_alphabet()
        self._bytes = {char: byte for byte, char in enumerate(self._alphabet)}
        self._tokens = {idx: token for token, idx in self.vocab.items()}

    def _merge(self, word: str) -> list[int]:
        parts = list(word)
        while len(parts) > 1:
            ranked = [
                (self._ranks.get((left, right), len(self._ranks)), at)
                for at, (left, right) in enumerate(zip(parts, parts[1:]))
            ]
            rank, at = min(ranked)
            if rank == len(self._ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return [self.vocab[part] for part in parts]

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in SPLIT.findall(text):
            ids.extend(self._merge("".join(self._alphabet[b] for b in piece.encode("utf-8"))))
        return ids

    def decode(self, ids: list[int]) -> str:
        chars = "".join(self._tokens.get(idx, "") for idx in ids)
        return bytes(self._bytes[c] for c in chars if c in self._bytes).decode("utf-8", "replace")
