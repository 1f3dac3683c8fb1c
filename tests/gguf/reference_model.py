"""The decoder of Llama, Mistral, Qwen2 and Qwen3 over a GGUF file, in numpy's float64.

The reference for what Forerun computes on such files. Its weights are the f32 values that the gguf
package dequantizes to; everything after them is float64. It keeps a KV cache and runs the rows of
several sequences together, so that a model of 135M parameters writes 20 texts of 64 tokens in
minutes. Needs numpy and gguf.

example: reference_model.py SmolLM2-135M-Instruct.Q4_1.gguf --tokens 504,3575,282 --steps 8
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

# Rope turns neighbours (2j, 2j + 1) in a head of q or k, whose rows the converter to GGUF has put in
# that order; in the other architectures it turns (j, j + half).
ROPE_OF_NEIGHBOURS = {"llama": True, "qwen2": False, "qwen3": False}


class GgufFile:
    """Metadata and tensors of a GGUF file; of all parts where it is the first of a split file."""

    def __init__(self, path: Path) -> None:
        first = gguf.GGUFReader(path)
        self._fields = first.fields
        self._tensors = {tensor.name: tensor for tensor in first.tensors}
        for part in range(2, self.value("split.count", 1) + 1):
            name = re.sub(r"-00001-of-", f"-{part:05}-of-", path.name)
            reader = gguf.GGUFReader(path.with_name(name))
            self._tensors.update((tensor.name, tensor) for tensor in reader.tensors)

    def value(self, key: str, default=None):
        field = self._fields.get(key)
        return default if field is None else field.contents()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def type_name(self, name: str) -> str:
        return self._tensors[name].tensor_type.name

    def holds_integers(self, name: str) -> bool:
        return self.type_name(name) not in ("F32", "F16", "BF16")

    def tensor(self, name: str) -> np.ndarray:
        """Float64, row-major: a matrix is [outputs, inputs]."""
        tensor = self._tensors[name]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        return values.reshape(tuple(reversed(tensor.shape.tolist()))).astype(np.float64)


@dataclass(frozen=True)
class Config:
    """What the forward pass needs of the metadata."""

    architecture: str
    num_layers: int
    hidden: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_eps: float
    rope_dim: int  # dimensions at the front of a head that rope turns
    window: int | None  # positions a token sees, itself included; None: all

    @staticmethod
    def of(file: GgufFile) -> Config:
        architecture = file.value("general.architecture")
        if architecture not in ROPE_OF_NEIGHBOURS:
            raise ValueError(
                f"general.architecture: found {architecture}; accepted: {list(ROPE_OF_NEIGHBOURS)}"
            )

        def value(key: str, default=None):
            return file.value(f"{architecture}.{key}", default)

        hidden, heads = value("embedding_length"), value("attention.head_count")
        head_dim = value("attention.key_length", hidden // heads)
        return Config(
            architecture=architecture,
            num_layers=value("block_count"),
            hidden=hidden,
            num_heads=heads,
            num_kv_heads=value("attention.head_count_kv", heads),
            head_dim=head_dim,
            rms_eps=value("attention.layer_norm_rms_epsilon"),
            rope_dim=value("rope.dimension_count", head_dim),
            window=value("attention.sliding_window") or None,
        )


@dataclass(frozen=True)
class Rope:
    """Radians a position of every pair, [rope_dim / 2], and the factor on cosines and sines."""

    frequencies: np.ndarray
    magnitude: float

    @staticmethod
    def of(file: GgufFile, config: Config) -> Rope:
        def value(key: str, default=None):
            return file.value(f"{config.architecture}.rope.{key}", default)

        base = value("freq_base", 10000.0)
        pairs = np.arange(config.rope_dim // 2, dtype=np.float64)
        frequencies = base ** (-2.0 * pairs / config.rope_dim)
        if "rope_freqs.weight" in file:  # Llama 3's scaling, a divisor for every pair
            frequencies = frequencies / file.tensor("rope_freqs.weight")
        kind = value("scaling.type", "linear")
        factor = value("scaling.factor", value("scale_linear", 1.0))
        if kind == "yarn":
            return Rope.yarn(frequencies, base, config.rope_dim, factor, value)
        if kind not in ("none", "linear"):
            raise ValueError(f"rope.scaling.type: found {kind}; accepted: none, linear, yarn")
        return Rope(frequencies / factor if kind == "linear" else frequencies, 1.0)

    @staticmethod
    def yarn(frequencies: np.ndarray, base: float, dim: int, factor: float, value) -> Rope:
        """Pairs that turn often over the original context stay; those that turn seldom stretch."""
        context = value("scaling.original_context_length")

        def pair_that_turns(times: float) -> float:
            return dim * np.log(context / (times * 2 * np.pi)) / (2 * np.log(base))

        low = max(np.floor(pair_that_turns(value("scaling.yarn_beta_fast", 32.0))), 0)
        high = min(np.ceil(pair_that_turns(value("scaling.yarn_beta_slow", 1.0))), dim - 1)
        pairs = np.arange(dim // 2)
        stretched = np.clip((pairs - low) / max(0.001, high - low), 0, 1)
        blend = frequencies / factor * stretched + frequencies * (1 - stretched)
        magnitude = value("scaling.attn_factor", 1.0) * (1 + 0.1 * np.log(factor))
        return Rope(blend, float(magnitude))


class Exact:
    """What a model rounds on its way: nothing. roundings.py has others."""

    def inputs(self, rows: np.ndarray, integers: bool) -> np.ndarray:
        """Inputs [rows, inputs] of a matrix, whose stored weights are `integers` or floats."""
        return rows

    def residual(self, rows: np.ndarray) -> np.ndarray:
        return rows

    def cached(self, heads: np.ndarray) -> np.ndarray:
        """Keys behind rope, or values."""
        return heads

    def queries(self, heads: np.ndarray) -> np.ndarray:
        return heads

    def probabilities(self, weights: np.ndarray) -> np.ndarray:
        """Before they are divided by their sum; the largest of a query is 1."""
        return weights


@dataclass
class Layer:
    """Float64 weights of a layer by their names in the file, without "blk.N." and ".weight"."""

    weights: dict[str, np.ndarray]
    biases: dict[str, np.ndarray]
    integers: set[str]  # names of the matrices that are stored as integers

    LINEARS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    NORMS = ("attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm")

    @staticmethod
    def of(file: GgufFile, layer_idx: int) -> Layer:
        prefix = f"blk.{layer_idx}."
        names = [*Layer.LINEARS, *(n for n in Layer.NORMS if f"{prefix}{n}.weight" in file)]
        biased = [name for name in Layer.LINEARS if f"{prefix}{name}.bias" in file]
        return Layer(
            {name: file.tensor(f"{prefix}{name}.weight") for name in names},
            {name: file.tensor(f"{prefix}{name}.bias") for name in biased},
            {name for name in Layer.LINEARS if file.holds_integers(f"{prefix}{name}.weight")},
        )

    def linear(self, name: str, rows: np.ndarray, rounding: Exact) -> np.ndarray:
        out = rounding.inputs(rows, name in self.integers) @ self.weights[name].T
        return out + self.biases[name] if name in self.biases else out


class Sequence:
    """Keys and values of one text so far: for each layer [kv_heads, tokens, head_dim]."""

    def __init__(self, config: Config) -> None:
        empty = np.zeros((config.num_kv_heads, 0, config.head_dim))
        self.keys = [empty] * config.num_layers
        self.values = [empty] * config.num_layers

    @property
    def length(self) -> int:
        return self.keys[-1].shape[1]

    def append(self, layer_idx: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Both [tokens, kv_heads, head_dim]."""
        for kept, new in ((self.keys, keys), (self.values, values)):
            kept[layer_idx] = np.concatenate([kept[layer_idx], new.swapaxes(0, 1)], axis=1)


class Model:
    """All weights of a file in memory, 8 bytes each. `path`: the file, or the first of a split one."""

    def __init__(self, path: Path) -> None:
        file = GgufFile(path)
        self.rounding = Exact()
        self.config = Config.of(file)
        self.rope = Rope.of(file, self.config)
        self.rope_of_neighbours = ROPE_OF_NEIGHBOURS[self.config.architecture]
        self.embedding = file.tensor("token_embd.weight")
        tied = "output.weight" not in file
        self.head = self.embedding if tied else file.tensor("output.weight")
        self.head_integers = file.holds_integers("token_embd.weight" if tied else "output.weight")
        self.final_norm = file.tensor("output_norm.weight")
        self.layers = [Layer.of(file, idx) for idx in range(self.config.num_layers)]

    def sequence(self) -> Sequence:
        return Sequence(self.config)

    def forward(self, batch: list[tuple[Sequence, list[int]]]) -> list[np.ndarray]:
        """Appends each list of tokens to its sequence; the logits of each, [tokens, vocab]."""
        hidden = self.hidden(batch)
        logits = self.logits(np.concatenate(hidden))
        return np.split(logits, np.cumsum([len(tokens) for _, tokens in batch])[:-1])

    def next_logits(self, batch: list[tuple[Sequence, list[int]]]) -> np.ndarray:
        """The same, but only for the last token of each: [sequences, vocab]."""
        last = np.stack([rows[-1] for rows in self.hidden(batch)])
        return self.logits(last)

    def logits(self, rows: np.ndarray) -> np.ndarray:
        """Of rows after the last layer."""
        normed = self._norm(rows, self.final_norm)
        return self.rounding.inputs(normed, self.head_integers) @ self.head.T

    def hidden(self, batch: list[tuple[Sequence, list[int]]]) -> list[np.ndarray]:
        """Rows after the last layer, [tokens, hidden] for each sequence."""
        begins = np.cumsum([0, *(len(tokens) for _, tokens in batch)])
        slices = [slice(begin, end) for begin, end in zip(begins, begins[1:])]
        positions = np.concatenate([seq.length + np.arange(len(ids)) for seq, ids in batch])
        tokens = np.concatenate([np.asarray(ids, dtype=int) for _, ids in batch])
        rounding = self.rounding
        rows = rounding.residual(self.embedding[tokens])
        for layer_idx, layer in enumerate(self.layers):
            normed = self._norm(rows, layer.weights["attn_norm"])
            q, k, v = self._qkv(layer, normed, positions)
            mixed = np.empty((len(rows), self.config.num_heads * self.config.head_dim))
            for (seq, _), part in zip(batch, slices):
                seq.append(layer_idx, rounding.cached(k[part]), rounding.cached(v[part]))
                mixed[part] = self._attention(
                    q[part], seq.keys[layer_idx], seq.values[layer_idx], positions[part]
                )
            rows = rounding.residual(rows + layer.linear("attn_output", mixed, rounding))
            normed = self._norm(rows, layer.weights["ffn_norm"])
            gate = layer.linear("ffn_gate", normed, rounding)
            gate = gate / (1 + np.exp(-gate)) * layer.linear("ffn_up", normed, rounding)
            rows = rounding.residual(rows + layer.linear("ffn_down", gate, rounding))
        return [rows[part] for part in slices]

    def _norm(self, rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
        mean_square = np.mean(rows * rows, axis=-1, keepdims=True)
        return rows / np.sqrt(mean_square + self.config.rms_eps) * weight

    def _qkv(self, layer: Layer, rows: np.ndarray, positions: np.ndarray):
        """[rows, heads, head_dim] of each; q and k are turned by rope."""
        config, count = self.config, len(rows)

        def heads(name: str, number: int) -> np.ndarray:
            return layer.linear(name, rows, self.rounding).reshape(count, number, config.head_dim)

        q = heads("attn_q", config.num_heads)
        k, v = heads("attn_k", config.num_kv_heads), heads("attn_v", config.num_kv_heads)
        if "attn_q_norm" in layer.weights:
            q = self._norm(q, layer.weights["attn_q_norm"])
            k = self._norm(k, layer.weights["attn_k_norm"])
        return self._turn(q, positions), self._turn(k, positions), v

    def _turn(self, heads: np.ndarray, positions: np.ndarray) -> np.ndarray:
        angles = (positions[:, None] * self.rope.frequencies)[:, None, :]
        cos, sin = np.cos(angles) * self.rope.magnitude, np.sin(angles) * self.rope.magnitude
        dim = self.config.rope_dim
        if self.rope_of_neighbours:
            first, second = slice(0, dim, 2), slice(1, dim, 2)
        else:
            first, second = slice(0, dim // 2), slice(dim // 2, dim)
        turned = heads.copy()
        turned[..., first] = heads[..., first] * cos - heads[..., second] * sin
        turned[..., second] = heads[..., first] * sin + heads[..., second] * cos
        return turned

    def _attention(self, q, keys, values, positions) -> np.ndarray:
        """[tokens, heads * head_dim] of one sequence."""
        config, count = self.config, len(q)
        group = config.num_heads // config.num_kv_heads
        q = self.rounding.queries(q)
        q = q.reshape(count, config.num_kv_heads, group, config.head_dim).transpose(1, 2, 0, 3)
        scores = q @ keys[:, None].swapaxes(-1, -2) / np.sqrt(config.head_dim)
        behind = positions[:, None] - np.arange(keys.shape[1])
        seen = behind >= 0
        if config.window is not None:
            seen &= behind < config.window
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = self.rounding.probabilities(weights)
        weights /= weights.sum(axis=-1, keepdims=True)
        mixed = weights @ values[:, None]
        return mixed.transpose(2, 0, 1, 3).reshape(count, -1)


@dataclass(frozen=True)
class Choice:
    """The two best tokens of a greedy step and their logits."""

    token: int
    logit: float
    second: int
    second_logit: float

    @property
    def margin(self) -> float:
        return self.logit - self.second_logit

    @staticmethod
    def of(logits: np.ndarray) -> Choice:
        """The lowest id of equal logits is the better one."""
        token = int(np.argmax(logits))
        rest = logits.copy()
        rest[token] = -np.inf
        second = int(np.argmax(rest))
        return Choice(token, float(logits[token]), second, float(logits[second]))


def margins_of(logits: np.ndarray, tokens: list[int]) -> np.ndarray:
    """How far the logit of each token lies above the best of the others: [tokens]; below, if negative.

    `logits`: [tokens, vocab].
    """
    rows = np.arange(len(tokens))
    own = logits[rows, tokens]
    others = logits.copy()
    others[rows, tokens] = -np.inf
    return own - others.max(axis=-1)


def greedy(model: Model, prompts: list[list[int]], steps: int, progress=None) -> list[list[Choice]]:
    """`steps` tokens after each prompt; an end token does not end a text."""
    sequences = [model.sequence() for _ in prompts]
    pending = [list(prompt) for prompt in prompts]
    choices: list[list[Choice]] = [[] for _ in prompts]
    for step in range(steps):
        logits = model.next_logits(list(zip(sequences, pending)))
        for row, chosen in zip(logits, choices):
            chosen.append(Choice.of(row))
        pending = [[chosen[-1].token] for chosen in choices]
        if progress:
            progress(step + 1)
    return choices


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Continue token ids greedily: a line a step, with the two best tokens.",
        epilog="example: reference_model.py model.gguf --tokens 504,3575,282 --steps 8",
    )
    parser.add_argument("model", type=Path, help="GGUF file, or the first part of a split one")
    parser.add_argument("--tokens", required=True, help="ids of the prompt, with commas between")
    parser.add_argument("--steps", type=int, default=16, help="tokens to write")
    args = parser.parse_args()
    try:
        prompt = [int(token) for token in args.tokens.split(",")]
        model = Model(args.model)
    except (ValueError, OSError) as error:
        print(f"reference_model: {error}", file=sys.stderr)
        return 1
    for choice in greedy(model, [prompt], args.steps)[0]:
        print(
            f"{choice.token} {choice.logit:.4f}  {choice.second} {choice.second_logit:.4f}"
            f"  margin {choice.margin:.4f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
