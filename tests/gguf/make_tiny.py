"""Writes tiny random GGUF checkpoints: every stored format, architecture and way to share a head.

The bytes depend on the checkpoint's name alone. Blocks of the quantized formats are random bytes, so
that every bit of a block counts; only their scales are drawn so that weights have the spread of a
real model's. Needs numpy and gguf.

example: make_tiny.py build/tiny
"""

from __future__ import annotations

import argparse
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np

HIDDEN, FFN, HEADS, KV_HEADS = 256, 512, 4, 2
CONTEXT = 512
FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class Blocks:
    """Where a block has its f16 scale, and its f16 minimum if it has one."""

    scale: int
    minimum: int | None = None
    # Minimum over scale that puts the middle of the weights at zero: the middle quantized value,
    # negative where the format adds the minimum and positive where it subtracts it.
    ratio: float = 0.0


BLOCKS = {
    "Q4_0": Blocks(0),
    "Q4_1": Blocks(0, 2, -7.5),
    "Q5_0": Blocks(0),
    "Q5_1": Blocks(0, 2, -15.5),
    "Q8_0": Blocks(0),
    "Q2_K": Blocks(80, 82, 1.5),
    "Q3_K": Blocks(108),
    "Q4_K": Blocks(0, 2, 7.5),
    "Q5_K": Blocks(0, 2, 15.5),
    "Q6_K": Blocks(208),
    "IQ4_NL": Blocks(0),
    "IQ4_XS": Blocks(0),
}
FORMATS = (*FLOATS, *BLOCKS, "MXFP4")


def random_blocks(rng: np.random.Generator, rows: int, cols: int, kind: str, spread: float):
    """u8 [rows, bytes of a row]: blocks whose weights have about this standard deviation."""
    qtype = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[qtype]
    data = rng.integers(0, 256, (rows * cols // block, size), dtype=np.uint8)
    if kind == "MXFP4":
        # A byte of exponent; the values of four bits spread by 5.4 at exponent 128.
        exponent = 128 + np.log2(spread / 5.4)
        data[:, 0] = np.round(exponent + rng.uniform(-1, 1, len(data)))
        return data.reshape(rows, -1)
    layout = BLOCKS[kind]

    def put(offset: int, values: np.ndarray) -> None:
        data[:, offset : offset + 2] = values.astype("<f2")[:, None].view(np.uint8)

    ones = np.ones(len(data))
    put(layout.scale, ones)
    if layout.minimum is not None:
        put(layout.minimum, ones * layout.ratio)
    scale = spread / gguf.quants.dequantize(data, qtype).std() * rng.uniform(0.5, 1.5, len(data))
    if layout.minimum is None:
        scale *= rng.choice((-1, 1), len(data))
    else:
        put(layout.minimum, scale * layout.ratio * rng.uniform(0.9, 1.1, len(data)))
    put(layout.scale, scale)
    return data.reshape(rows, -1)


def random_matrix(rng: np.random.Generator, rows: int, cols: int, kind: str, spread: float):
    if kind not in FLOATS:
        return random_blocks(rng, rows, cols, kind, spread)
    values = rng.normal(0, spread, (rows, cols)).astype(np.float32)
    return gguf.quants.quantize(values, gguf.GGMLQuantizationType[kind])


@dataclass(frozen=True)
class Tiny:
    """A checkpoint to write."""

    name: str
    # Format of the matrices; `others` has those whose tensor's name has the key in it, first match.
    kind: str
    others: dict[str, str] = field(default_factory=dict)
    architecture: str = "llama"
    layers: int = 2
    head_dim: int = 64
    vocab: int = 320
    tied: bool = False
    pre: str = "llama-bpe"  # how the tokenizer splits texts
    rope_freqs: bool = False  # Llama 3's tensor of a divisor for every pair
    rope: dict[str, object] = field(default_factory=dict)  # metadata after "ARCHITECTURE.rope."
    parts: int = 1  # files; several only of an untied Llama

    def kind_of(self, tensor: str) -> str:
        return next((kind for part, kind in self.others.items() if part in tensor), self.kind)


TINIES = (
    *(Tiny(kind.lower(), kind) for kind in FORMATS),
    # As the common files of small models: the embedding is the head, and in finer blocks.
    Tiny("llama_tied", "Q4_1", {"token_embd": "Q8_0"}, tied=True, pre="smollm"),
    # As "Q4_K_M" stores it: V beside Q and K in another format, some layers' down projection too.
    Tiny(
        "llama3_mixed",
        "Q4_K",
        {"attn_v": "Q6_K", "blk.0.ffn_down": "Q6_K", "output.weight": "Q6_K"},
        layers=3,
        rope_freqs=True,
    ),
    Tiny(
        "all_mixed",
        "Q5_0",
        {
            "blk.0.attn_q": "Q3_K",
            "blk.0.attn_k": "Q5_K",
            "blk.0.attn_v": "F16",
            "blk.0.ffn_gate": "IQ4_NL",
            "blk.0.ffn_up": "Q8_0",
            "blk.1.attn_q": "BF16",
            "blk.1.attn_k": "F32",
            "token_embd": "Q2_K",
            "output.weight": "Q4_0",
        },
        vocab=333,
    ),
    Tiny(
        "linear_rope",
        "Q5_1",
        rope={"scaling.type": "linear", "scaling.factor": 4.0},
    ),
    Tiny(
        "qwen2",
        "Q4_K",
        {"attn_v": "Q6_K", "ffn_down": "Q6_K", "token_embd": "Q8_0", "output.weight": "Q6_K"},
        architecture="qwen2",
        pre="qwen2",
    ),
    Tiny(
        "qwen2_yarn",
        "Q8_0",
        architecture="qwen2",
        pre="qwen2",
        tied=True,
        rope={
            "scaling.type": "yarn",
            "scaling.factor": 4.0,
            "scaling.original_context_length": 128,
        },
    ),
    Tiny(
        "qwen3",
        "Q5_K",
        {"attn_k": "Q4_K", "token_embd": "Q6_K"},
        architecture="qwen3",
        layers=3,
        head_dim=128,
        pre="qwen2",
        tied=True,
    ),
    Tiny(
        "qwen3_untied",
        "IQ4_XS",
        {"attn_v": "Q5_K", "output.weight": "Q6_K"},
        architecture="qwen3",
        pre="qwen2",
    ),
    Tiny("split", "Q4_0", parts=2),
)

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
MERGES = ("t h", "th e", "Ġ the", "i n", "e r", "Ġ a", "o n", "r e", "Ġ s", "a n", "an d", "Ġ and")
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content']"
    " + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def byte_characters() -> list[str]:
    """GPT-2's printable character for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table.update((byte, chr(256 + idx)) for idx, byte in enumerate(others))
    return [table[byte] for byte in range(256)]


def add_tokenizer(writer: gguf.GGUFWriter, tiny: Tiny) -> None:
    """Control tokens, the bytes, the merges; what is left of the vocabulary is unused."""
    words = [*byte_characters(), *(merge.replace(" ", "") for merge in MERGES)]
    unused = [f"[PAD{idx}]" for idx in range(len(CONTROL) + len(words), tiny.vocab)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(tiny.pre)
    writer.add_token_list([*CONTROL, *words, *unused])
    writer.add_token_types(
        [gguf.TokenType.CONTROL] * len(CONTROL)
        + [gguf.TokenType.NORMAL] * len(words)
        + [gguf.TokenType.UNUSED] * len(unused)
    )
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(tiny.architecture == "llama")
    writer.add_chat_template(TEMPLATE)


def add_sizes(writer: gguf.GGUFWriter, tiny: Tiny) -> None:
    writer.add_name(tiny.name)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(tiny.layers)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    if tiny.architecture == "qwen3":  # other files leave it out where heads fill the hidden size
        writer.add_key_length(tiny.head_dim)
        writer.add_value_length(tiny.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    if tiny.architecture == "llama":
        writer.add_rope_dimension_count(tiny.head_dim)
        writer.add_vocab_size(tiny.vocab)
    for key, value in tiny.rope.items():
        kinds = {
            str: gguf.GGUFValueType.STRING,
            float: gguf.GGUFValueType.FLOAT32,
            int: gguf.GGUFValueType.UINT32,
        }
        writer.add_key_value(f"{tiny.architecture}.rope.{key}", value, kinds[type(value)])


def add_tensors(writer: gguf.GGUFWriter, tiny: Tiny, rng: np.random.Generator) -> None:
    def matrix(name: str, rows: int, cols: int, spread: float | None = None) -> None:
        kind = tiny.kind_of(name)
        data = random_matrix(rng, rows, cols, kind, spread or cols**-0.5)
        writer.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType[kind])

    def vector(name: str, size: int, middle: float, spread: float) -> None:
        writer.add_tensor(name, rng.normal(middle, spread, size).astype(np.float32))

    queries, keys = HEADS * tiny.head_dim, KV_HEADS * tiny.head_dim
    matrix("token_embd.weight", tiny.vocab, HIDDEN, 0.5)
    if tiny.rope_freqs:
        factors = np.linspace(1, 8, tiny.head_dim // 2, dtype=np.float32)
        writer.add_tensor("rope_freqs.weight", factors)
    for layer_idx in range(tiny.layers):
        blk = f"blk.{layer_idx}."
        vector(f"{blk}attn_norm.weight", HIDDEN, 1, 0.2)
        for name, rows in (("attn_q", queries), ("attn_k", keys), ("attn_v", keys)):
            # Attention prefers some tokens, so that their positions count.
            matrix(f"{blk}{name}.weight", rows, HIDDEN, None if name == "attn_v" else 0.1)
            if tiny.architecture == "qwen2":
                vector(f"{blk}{name}.bias", rows, 0, 0.5)
        if tiny.architecture == "qwen3":
            vector(f"{blk}attn_q_norm.weight", tiny.head_dim, 1, 0.3)
            vector(f"{blk}attn_k_norm.weight", tiny.head_dim, 1, 0.3)
        matrix(f"{blk}attn_output.weight", HIDDEN, queries)
        vector(f"{blk}ffn_norm.weight", HIDDEN, 1, 0.2)
        matrix(f"{blk}ffn_gate.weight", FFN, HIDDEN)
        matrix(f"{blk}ffn_up.weight", FFN, HIDDEN)
        matrix(f"{blk}ffn_down.weight", HIDDEN, FFN)
    vector("output_norm.weight", HIDDEN, 1, 0.2)
    if not tiny.tied:
        matrix("output.weight", tiny.vocab, HIDDEN)


def write(tiny: Tiny, folder: Path) -> Path:
    """The file to open: of several, the first."""
    rng = np.random.default_rng(zlib.crc32(tiny.name.encode()))
    tensors = 3 + 9 * tiny.layers  # of an untied Llama
    writer = gguf.GGUFWriter(
        folder / f"{tiny.name}.gguf",
        tiny.architecture,
        split_max_tensors=0 if tiny.parts == 1 else -(-tensors // tiny.parts),
    )
    add_sizes(writer, tiny)
    add_tokenizer(writer, tiny)
    add_tensors(writer, tiny, rng)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if tiny.parts == 1:
        return folder / f"{tiny.name}.gguf"
    return folder / f"{tiny.name}-00001-of-{tiny.parts:05}.gguf"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write a tiny random GGUF checkpoint of every kind.",
        epilog="example: make_tiny.py build/tiny",
    )
    parser.add_argument("folder", type=Path, help="folder to write them to")
    parser.add_argument("names", nargs="*", help="only these checkpoints")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for tiny in TINIES:
        if not args.names or tiny.name in args.names:
            print(write(tiny, args.folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
