"""Rows of text that the target writes itself: whole conversations, answers about passages, continuations.

A row starts with a given prompt. Where the prompt is the beginning of a user's turn, the target finishes that too, at
temperature 1 without its unlikeliest tokens; answers come at the row's own temperature. When an answer ends, the next
user's turn begins, until the row is full. Only answers count as `made`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from head_training.target import Decoder, Target
from head_training.token_file import TokenRows

USER, ANSWER = 0, 1


@dataclass(frozen=True)
class Conversation:
    """Tokens around turns; of a model without a chat template all are empty and `ends` close a document."""

    prefix: list[int]  # what stands in front of the first user's turn
    to_answer: list[int]  # behind the token that ends a user's turn
    to_user: list[int]  # behind the token that ends an answer
    ends: list[int]  # the first one ends a turn, and is written for any of them

    @property
    def has_turns(self) -> bool:
        return bool(self.to_answer)


@dataclass(frozen=True)
class Start:
    """How a row begins."""

    prompt: list[int]
    role: int  # whose text follows the prompt
    temperature: float  # of answers
    turn_tokens: int  # a user's turn is ended after so many


class Writer:
    """Writes batches of rows of one length. On a GPU every step is the replay of a graph."""

    def __init__(
        self, target: Target, conversation: Conversation, batch: int, length: int, min_share: float
    ) -> None:
        device = target.device
        self.target, self.conversation, self.batch, self.length = (
            target,
            conversation,
            batch,
            length,
        )
        self.decoder = Decoder(target, batch, length)
        headers = [conversation.to_user, conversation.to_answer]
        most = max(1, *map(len, headers))
        self.headers = torch.tensor(
            [header + [0] * (most - len(header)) for header in headers], device=device
        )
        self.header_lengths = torch.tensor([len(header) for header in headers], device=device)
        self.ends = torch.tensor(conversation.ends, device=device)
        self.cut = -math.log(min_share)

        def longs(*size: int) -> torch.Tensor:
            return torch.zeros(*size, dtype=torch.long, device=device)

        self.prompt, self.tokens = longs(batch, length), longs(batch, length)
        self.prompt_lengths, self.role, self.header_at = longs(batch), longs(batch), longs(batch)
        self.turn_tokens, self.written, self.token = longs(batch), longs(batch), longs(batch)
        self.temperature = torch.zeros(batch, device=device)
        self.made = torch.zeros(batch, length, dtype=torch.bool, device=device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        if device.type == "cuda":
            self._capture()

    def _seen(self, position: int) -> int:
        return min(self.decoder.room, (position // Decoder.ROOM_STEP + 1) * Decoder.ROOM_STEP)

    def _capture(self) -> None:
        pool = None
        side = torch.cuda.Stream()
        for seen in sorted({self._seen(position) for position in range(self.length - 1)}):
            side.wait_stream(torch.cuda.current_stream())
            self.decoder.position.zero_()
            with torch.cuda.stream(side):
                self._advance(seen)
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                self._advance(seen)
            pool = pool or graph.pool()
            self.graphs[seen] = graph

    def _drawn(self, seen: int) -> torch.Tensor:
        """The token that each row would draw now."""
        logits = self.decoder.logits(self.token, seen).float()
        is_user = self.role == USER
        temperature = torch.where(is_user, torch.ones_like(self.temperature), self.temperature)
        floor = torch.where(
            is_user, logits.amax(-1) - self.cut, torch.full_like(self.temperature, -math.inf)
        )
        noise = torch.empty_like(logits).exponential_().log_()
        scores = (logits - temperature[:, None] * noise).masked_fill_(
            logits < floor[:, None], -math.inf
        )
        return scores.argmax(-1)

    def _advance(self, seen: int) -> None:
        following = self.decoder.position + 1
        drawn = self._drawn(seen)
        in_prompt = following < self.prompt_lengths
        in_header = ~in_prompt & (self.header_at < self.header_lengths[self.role])
        free = ~in_prompt & ~in_header
        is_answer = self.role == ANSWER
        if self.conversation.has_turns:
            stops = torch.isin(drawn, self.ends) | (~is_answer & (self.written >= self.turn_tokens))
            drawn = torch.where(stops, self.ends[0], drawn)
            ended = free & stops
        else:
            ended = torch.zeros_like(free)
        header = self.headers[self.role, self.header_at.clamp_max(self.headers.shape[1] - 1)]
        token = torch.where(free, drawn, header)
        token = torch.where(in_prompt, self.prompt.index_select(1, following)[:, 0], token)
        self.tokens.index_copy_(1, following, token[:, None])
        self.made.index_copy_(1, following, (free & is_answer)[:, None])
        self.written.copy_(
            torch.where(free & ~ended, self.written + 1, torch.zeros_like(self.written))
        )
        self.header_at.copy_(torch.where(ended, 0, self.header_at + in_header))
        self.role.copy_(torch.where(ended, 1 - self.role, self.role))
        self.token.copy_(token)
        self.decoder.position.add_(1)

    @torch.no_grad()
    def write(self, starts: list[Start]) -> TokenRows:
        """One row for each start, of which there are `batch`."""
        prompt = torch.zeros(self.batch, self.length, dtype=torch.long)
        for row, start in enumerate(starts):
            kept = start.prompt[: self.length]
            prompt[row, : len(kept)] = torch.tensor(kept)
        self.prompt.copy_(prompt)
        self.prompt_lengths.copy_(torch.tensor([len(start.prompt) for start in starts]))
        self.role.copy_(torch.tensor([start.role for start in starts]))
        self.temperature.copy_(torch.tensor([start.temperature for start in starts]))
        self.turn_tokens.copy_(torch.tensor([start.turn_tokens for start in starts]))
        self.header_at.fill_(self.headers.shape[1])
        self.written.zero_()
        self.made.zero_()
        self.tokens[:, 0].copy_(self.prompt[:, 0])
        self.token.copy_(self.prompt[:, 0])
        self.decoder.position.zero_()
        for position in range(self.length - 1):
            seen = self._seen(position)
            if seen in self.graphs:
                self.graphs[seen].replay()
            else:
                self._advance(seen)
        return TokenRows(self.tokens.to("cpu", torch.int32), self.made.cpu())
