"""How many tokens a step a head would get, in PyTorch: chains, best-first trees, and guesses from the text alone.

The target writes a text for each prompt, greedy or with Forerun's noise. At every token of it the head guesses on, and
of the guesses those count that the text goes on with. At temperature > 0 the head adds the noise that the target will
use, as the engine's rule `match` does. Steps of a text are then walked in turn.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F

from head_training.head import Head
from head_training.noise import target_noise
from head_training.target import Decoder, Target

CHAIN, TREE_ROWS, TEXT_RUN = 5, 16, 3
ROOTS = 256  # of one pass


@dataclass(frozen=True)
class Text:
    """A prompt with what the target wrote after it."""

    category: str
    tokens: list[int]
    prompt: int  # tokens
    seed: int


@torch.no_grad()
def write_texts(
    target: Target,
    prompts: list[tuple[str, list[int], int]],
    temperature: float,
    most: int,
    ends: list[int],
    batch: int,
) -> list[Text]:
    """Up to `most` tokens after each (category, tokens, seed), prompts of like length beside each other."""
    texts: dict[int, Text] = {}
    order = sorted(range(len(prompts)), key=lambda idx: len(prompts[idx][1]))
    for begin in range(0, len(order), batch):
        chosen = order[begin : begin + batch]
        rows = [prompts[idx] for idx in chosen]
        lengths = torch.tensor([len(tokens) for _, tokens, _ in rows], device=target.device)
        room = int(lengths.max()) + most
        tokens = torch.zeros(len(rows), room, dtype=torch.long, device=target.device)
        for row, (_, prompt, _) in enumerate(rows):
            tokens[row, : len(prompt)] = torch.tensor(prompt)
        seeds = torch.tensor([seed for _, _, seed in rows], device=target.device)
        stops = torch.tensor(ends, device=target.device)
        done = torch.zeros_like(lengths, dtype=torch.bool)
        decoder = Decoder(target, len(rows), room)
        for position in range(room - 1):
            logits = decoder.logits(tokens[:, position], min(decoder.room, position + 1)).float()
            following = position + 1
            if temperature > 0 and following >= int(lengths[0]):
                noise = target_noise(seeds, torch.full_like(seeds, following), target.vocab_size)
                logits = logits / temperature + noise
            is_free = following >= lengths
            tokens[:, following] = torch.where(is_free, logits.argmax(-1), tokens[:, following])
            done |= is_free & (
                torch.isin(tokens[:, following], stops) | (following + 1 >= lengths + most)
            )
            decoder.position.add_(1)
            if position % 32 == 0 and bool(done.all()):
                break
        for idx, (category, prompt, seed), row in zip(chosen, rows, tokens.tolist()):
            made = row[len(prompt) : len(prompt) + most]
            length = next((at + 1 for at, token in enumerate(made) if token in ends), most)
            texts[idx] = Text(category, prompt + made[:length], len(prompt), seed)
    return [texts[idx] for idx in range(len(prompts))]


class Guesses:
    """A head at all roots of one text: root r has read tokens 0 to r. Root is node 0; others are added in turn."""

    def __init__(
        self, head: Head, target: Target, tokens: torch.Tensor, taps: torch.Tensor, nodes: int
    ) -> None:
        self.head, self.target, self.taps = head, target, taps
        self.lm_weight = head.lm_weight(target).to(target.dtype)
        length = len(tokens) - 1
        rows = slice(1, length + 1)
        feature = head.fc(taps[:length])
        q, k, v = head.project(
            target.embedding[tokens[1:]], feature, target.cos[rows], target.sin[rows]
        )
        groups = head.shape.heads // head.shape.kv_heads
        attended = F.scaled_dot_product_attention(
            q[None],
            k.repeat_interleave(groups, 0)[None],
            v.repeat_interleave(groups, 0)[None],
            is_causal=True,
        )[0]
        self.keys, self.values = k, v
        self.features = head.finish(feature, attended.transpose(0, 1).flatten(1))
        self.nodes = nodes

    def begin(self, roots: torch.Tensor) -> torch.Tensor:
        """Starts trees at roots [count]; returns the roots' scores [count, draft_vocab]."""
        shape = self.head.shape
        self.roots = roots
        size = (len(roots), shape.kv_heads, self.nodes, shape.head_dim)
        self.node_keys, self.node_values = self.keys.new_zeros(size), self.keys.new_zeros(size)
        self.node_features = self.features.new_zeros(
            len(roots), self.nodes, self.features.shape[-1]
        )
        self.node_features[:, 0] = self.features[roots - 1]
        length = self.keys.shape[1]
        self.hidden = torch.arange(length, device=roots.device)[None] >= roots[:, None]
        return self._logits(self.node_features[:, 0])

    def _logits(self, feature: torch.Tensor) -> torch.Tensor:
        return F.linear(self.head.norm(feature), self.lm_weight).float()

    def add(self, node: int, tokens, parents, depths, ancestors) -> torch.Tensor:
        """Node `node` of each tree [count]: token, parent, depth, ancestors [count, nodes] with itself; its logits."""
        head, target, shape = self.head, self.target, self.head.shape
        count = len(tokens)
        feature = self.node_features[torch.arange(count, device=tokens.device), parents]
        rows = self.roots + depths
        q, k, v = head.project(
            target.embedding[tokens][:, None],
            feature[:, None],
            target.cos[rows][:, None, None],
            target.sin[rows][:, None, None],
        )
        self.node_keys[:, :, node], self.node_values[:, :, node] = k[:, :, 0], v[:, :, 0]
        q = q.reshape(count, shape.kv_heads, -1, shape.head_dim)
        prefix = torch.einsum("cgqd,gsd->cgqs", q, self.keys).float()
        own = (q @ self.node_keys.transpose(-1, -2)).float()
        scores = torch.cat(
            [
                prefix.masked_fill(self.hidden[:, None, None], -1e30),
                own.masked_fill(~ancestors[:, None, None], -1e30),
            ],
            -1,
        )
        weights = (scores * shape.head_dim**-0.5).softmax(-1).to(q.dtype)
        length = self.keys.shape[1]
        attended = torch.einsum("cgqs,gsd->cgqd", weights[..., :length], self.values)
        attended = attended + weights[..., length:] @ self.node_values
        self.node_features[:, node] = feature = head.finish(feature, attended.reshape(count, -1))
        return self._logits(feature)


def accepted_by_tree(guesses: Guesses, tokens: torch.Tensor, roots, scores_of) -> torch.Tensor:
    """Best-first trees at each root -> how many of the guesses hold [count, nodes], after each node."""
    count, nodes, device = len(roots), guesses.nodes, roots.device
    width = nodes - 1
    every = torch.arange(count, device=device)
    open_scores = torch.full((count, nodes * width), -torch.inf, device=device)
    open_tokens = torch.zeros(count, nodes * width, dtype=torch.long, device=device)
    depths = torch.zeros(count, nodes, dtype=torch.long, device=device)
    holds = torch.zeros(count, nodes, dtype=torch.bool, device=device)
    ancestors = torch.zeros(count, nodes, nodes, dtype=torch.bool, device=device)
    holds[:, 0] = True
    padded = F.pad(tokens, (0, nodes + 1), value=-1)
    best, rows = scores_of(guesses.begin(roots), roots + 1).topk(width, -1)
    open_scores[:, :width], open_tokens[:, :width] = best, guesses.head.tokens[rows]
    for node in range(1, nodes):
        at = open_scores.argmax(1)
        reached, token, parent = open_scores[every, at], open_tokens[every, at], at // width
        open_scores[every, at] = -torch.inf
        depth = depths[every, parent] + 1
        depths[:, node] = depth
        holds[:, node] = holds[every, parent] & (token == padded[roots + depth])
        ancestors[:, node] = ancestors[every, parent]
        ancestors[:, node, node] = True
        if node + 1 < nodes:
            logits = guesses.add(node, token, parent, depth, ancestors[:, node])
            best, rows = scores_of(logits, roots + depth + 1).topk(width, -1)
            part = slice(node * width, (node + 1) * width)
            open_scores[:, part] = reached[:, None] + best
            open_tokens[:, part] = guesses.head.tokens[rows]
    return torch.cummax(depths * holds, 1).values


def accepted_by_chain(guesses: Guesses, tokens: torch.Tensor, roots, scores_of) -> torch.Tensor:
    """The best guess after the best guess -> how many hold [count], of nodes - 1."""
    count, nodes, device = len(roots), guesses.nodes, roots.device
    padded = F.pad(tokens, (0, nodes + 1), value=-1)
    ancestors = torch.zeros(count, nodes, dtype=torch.bool, device=device)
    holds = torch.ones(count, dtype=torch.bool, device=device)
    accepted = torch.zeros(count, dtype=torch.long, device=device)
    scores = scores_of(guesses.begin(roots), roots + 1)
    for depth in range(1, nodes):
        token = guesses.head.tokens[scores.argmax(-1)]
        holds = holds & (token == padded[roots + depth])
        accepted += holds
        if depth + 1 < nodes:
            ancestors[:, depth] = True
            depths = torch.full_like(roots, depth)
            scores = scores_of(
                guesses.add(depth, token, depths - 1, depths, ancestors), roots + depth + 1
            )
    return accepted


def accepted_by_text(tokens: list[int], first: int) -> list[int]:
    """Guesses copied from where the last tokens stood before, CHAIN at most -> how many hold, by root from `first`."""
    last: list[dict[tuple[int, ...], int]] = [{} for _ in range(TEXT_RUN + 1)]
    accepted = []
    for root in range(len(tokens) - 1):
        guesses: list[int] = []
        for run in range(min(TEXT_RUN, root + 1), 0, -1):
            key = tuple(tokens[root + 1 - run : root + 1])
            before = last[run].get(key)
            if before is not None and not guesses:
                guesses = tokens[before + 1 : before + 1 + CHAIN]
            last[run][key] = root
        if root >= first:
            following = tokens[root + 1 : root + 1 + len(guesses)]
            agree = [guess == token for guess, token in zip(guesses, following)]
            accepted.append((agree + [False]).index(False))
    return accepted


def walked(accepted: list[int], count: int) -> tuple[int, int]:
    """Tokens and steps of a text whose `count` roots accept so many guesses each."""
    at = steps = 0
    while at < count:
        at += min(accepted[at] + 1, count - at)
        steps += 1
    return count, steps


@torch.no_grad()
def accepted_of(
    head: Head, target: Target, text: Text, temperature: float
) -> dict[str, tuple[int, int]]:
    """Tokens and steps of one text by each kind of guessing; empty where it is too short to guess in."""
    count = len(text.tokens) - 1 - text.prompt
    if count < 2:
        return {}
    tokens = torch.tensor(text.tokens, device=target.device)
    _, taps = target.hidden_states(tokens[None], head.taps)
    noise = None
    if temperature > 0:
        positions = torch.arange(
            text.prompt, len(text.tokens) + TREE_ROWS + 1, device=target.device
        )
        seeds = torch.full_like(positions, text.seed)
        noise = torch.cat(
            [
                target_noise(*part, target.vocab_size)
                for part in zip(seeds.split(64), positions.split(64))
            ]
        )
        noise = noise[:, head.tokens]

    def scores_of(logits: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        if noise is None:
            return logits.log_softmax(-1)
        return (
            (logits / temperature).log_softmax(-1) + noise[positions - text.prompt]
        ).log_softmax(-1)

    found: dict[str, list[int]] = {f"chain{CHAIN}": [], f"tree{TREE_ROWS}": []}
    for roots in torch.arange(text.prompt, len(text.tokens) - 1, device=target.device).split(ROOTS):
        chain = Guesses(head, target, tokens, taps[0], CHAIN + 1)
        found[f"chain{CHAIN}"] += accepted_by_chain(chain, tokens, roots, scores_of).tolist()
        tree = Guesses(head, target, tokens, taps[0], TREE_ROWS)
        found[f"tree{TREE_ROWS}"] += accepted_by_tree(tree, tokens, roots, scores_of)[
            :, -1
        ].tolist()
    found[f"text{CHAIN}"] = accepted_by_text(text.tokens, text.prompt)
    return {kind: walked(accepted, count) for kind, accepted in found.items()}


def tabulated(
    by_text: list[tuple[str, dict[str, tuple[int, int]]]],
) -> dict[str, dict[str, list[float]]]:
    """[tokens, steps, tokens a step] by category, `all` last, and kind of guessing."""
    table: dict[str, dict[str, list[float]]] = {}
    for category in [*sorted({category for category, _ in by_text}), "all"]:
        for own_category, kinds in by_text:
            if category not in (own_category, "all"):
                continue
            for kind, (tokens, steps) in kinds.items():
                entry = table.setdefault(category, {}).setdefault(kind, [0, 0, 0.0])
                entry[0] += tokens
                entry[1] += steps
                entry[2] = round(entry[0] / entry[1], 3)
    return table
