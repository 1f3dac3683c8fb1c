"""What rows of training text begin with, as tokens: prepared where a tokenizer is, used where it need not be.

Openers are beginnings of a user's turn that the target finishes; frames are words around a passage; passages are
pieces of given texts, or of documents that the target wrote. Evaluation prompts are guarded: a row that shares a run
of GUARD_RUN tokens with one of them is dropped.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from head_training.generation import ANSWER, USER, Conversation, Start
from head_training.token_file import TokenRows

GUARD_RUN = 8
MARK_USER, MARK_ANSWER, MARK_AGAIN = "\ue000", "\ue001", "\ue002"
KINDS = ("opener", "question", "passage", "continuation", "document")
DOCUMENT_SHARE = 0.8  # of passages, where there are documents
HASH_FACTOR = 6364136223846793005


@dataclass
class Prompts:
    conversation: Conversation
    openers: list[list[int]] = field(default_factory=list)
    openers_turn: list[int] = field(default_factory=list)  # a turn is ended after so many tokens
    questions: list[list[int]] = field(default_factory=list)  # openers behind a passage
    frames: list[list[list[int]]] = field(default_factory=list)  # before and after a passage
    document_openers: list[list[int]] = field(default_factory=list)
    passages: list[list[int]] = field(default_factory=list)
    guarded: list[list[int]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), separators=(",", ":")), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Prompts:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Prompts(**found | {"conversation": Conversation(**found["conversation"])})


def conversation_of(render, encode, ends: list[int]) -> Conversation:
    """Takes a chat template apart: `render` makes text of messages, `encode` tokens of text."""
    text = render(
        [
            {"role": "user", "content": MARK_USER},
            {"role": "assistant", "content": MARK_ANSWER},
            {"role": "user", "content": MARK_AGAIN},
        ]
    )
    prefix, rest = text.split(MARK_USER)
    to_answer, rest = rest.split(MARK_ANSWER)
    to_user = rest.split(MARK_AGAIN)[0]

    def behind_end(part: str) -> list[int]:
        tokens = encode(part)
        if not tokens or tokens[0] not in ends:
            raise ValueError(
                f"chat template: found turns that end with {part!r}; accepted: a token that ends texts"
            )
        return tokens[1:]

    end = encode(to_answer)[:1] + [token for token in ends if token not in encode(to_answer)[:1]]
    return Conversation(encode(prefix), behind_end(to_answer), behind_end(to_user), end)


def run_hashes(tokens: torch.Tensor) -> torch.Tensor:
    """A hash of each run of GUARD_RUN tokens of rows [..., length], int64 [..., length - GUARD_RUN + 1]."""
    mixed = torch.zeros_like(tokens[..., GUARD_RUN - 1 :], dtype=torch.int64)
    for offset in range(GUARD_RUN):
        end = tokens.shape[-1] - GUARD_RUN + 1 + offset
        mixed = (mixed + tokens[..., offset:end].long() + 1) * HASH_FACTOR
        mixed = mixed ^ (mixed >> 29)
    return mixed


class Guard:
    """Finds rows that repeat a run of guarded prompts. Runs of `common` tokens, such as turns' headers, may repeat."""

    def __init__(self, guarded: list[list[int]], common: list[int]) -> None:
        hashes = [
            run_hashes(torch.tensor(tokens)) for tokens in guarded if len(tokens) >= GUARD_RUN
        ]
        found = torch.cat(hashes).unique() if hashes else torch.zeros(0, dtype=torch.int64)
        if len(common) >= GUARD_RUN:
            found = found[~torch.isin(found, run_hashes(torch.tensor(common)))]
        self.hashes = found

    def clean(self, rows: TokenRows) -> torch.Tensor:
        """True for rows [rows] that share no run with a guarded prompt outside of what the target made."""
        hashes = run_hashes(rows.tokens)
        found = torch.isin(hashes, self.hashes)
        given = ~rows.made.unfold(1, GUARD_RUN, 1).all(-1)
        return ~(found & given).any(1)


class Mixer:
    """Draws starts of rows, kinds and temperatures by the given shares."""

    def __init__(
        self,
        prompts: Prompts,
        documents: list[list[int]],
        shares: dict[str, float],
        temperatures: dict[float, float],
        length: int,
        seed: int,
    ) -> None:
        self.prompts, self.length = prompts, length
        self.documents = documents
        passages = prompts.passages or documents
        material = {
            "opener": prompts.openers,
            "question": prompts.questions and passages,
            "passage": prompts.frames and passages,
            "continuation": passages,
            "document": prompts.document_openers,
        }
        for kind in shares:
            if not material.get(kind):
                able = [name for name, found in material.items() if found]
                raise ValueError(
                    f"kind of row: found {kind}; accepted with these prompts: {', '.join(able)}"
                )
        self.kinds, self.shares = list(shares), list(shares.values())
        self.temperatures, self.weights = list(temperatures), list(temperatures.values())
        self.random = random.Random(seed)

    def _piece(self, low: int, high: int) -> list[int]:
        """`low` to `high` tokens of a passage, or all of a shorter one."""
        is_own = self.documents and (
            not self.prompts.passages or self.random.random() < DOCUMENT_SHARE
        )
        passage = self.random.choice(self.documents if is_own else self.prompts.passages)
        count = self.random.randint(low, high)
        begin = self.random.randrange(max(1, len(passage) - count + 1))
        return passage[begin : begin + count]

    def start(self) -> Start:
        prompts, draw = self.prompts, self.random
        turns = prompts.conversation
        kind = draw.choices(self.kinds, self.shares)[0]
        temperature = draw.choices(self.temperatures, self.weights)[0]
        if kind == "document":
            return Start(draw.choice(prompts.document_openers), USER, temperature, self.length)
        if kind == "continuation":
            return Start(self._piece(16, self.length // 3), ANSWER, temperature, 0)
        if kind == "opener":
            at = draw.randrange(len(prompts.openers))
            return Start(
                turns.prefix + prompts.openers[at], USER, temperature, prompts.openers_turn[at]
            )
        longest = self.length - 96
        passage = self._piece(48, max(49, longest // draw.choice((1, 1, 2, 4))))
        if kind == "question":
            prompt = turns.prefix + passage + draw.choice(prompts.questions)
            return Start(prompt, USER, temperature, 40)
        before, after = draw.choice(prompts.frames)
        prompt = turns.prefix + before + passage + after + turns.ends[:1] + turns.to_answer
        return Start(prompt, ANSWER, temperature, 0)


def documents_of(rows: TokenRows, ends: list[int]) -> list[list[int]]:
    """The text of each row up to the first token that ends one."""
    found = []
    for row in rows.tokens.tolist():
        length = next((idx for idx, token in enumerate(row) if token in ends), len(row))
        if length >= 96:
            found.append(row[:length])
    return found
