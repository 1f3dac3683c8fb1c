"""Converts a checkpoint with a byte-level BPE tokenizer to GGUF, to run llama.cpp beside ours.

AWQ int4 becomes Q4_1 without rounding the weights anew: a group of 128 inputs is four blocks of
32 that share a scale d and a minimum m = -zero * d; only m is rounded, to f16. Other types: bf16,
f16, f32, q8_0, q4_0, and q4_1 rounded to nearest where the source is not int4. Written tensor by
tensor. Needs numpy and gguf.

example: to_gguf.py models/demo-target runs/demo-target.gguf
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import gguf
import numpy as np

import awq_format
from awq_format import AwqLinear
from golden_families import SPLIT_LLAMA3, SPLIT_QWEN2
from reference_model import ModelConfig, rope_of
from safetensors_io import Checkpoint

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
LAYER_TENSORS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LAYER_NORMS = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
DTYPES = {
    "f32": gguf.GGMLQuantizationType.F32,
    "f16": gguf.GGMLQuantizationType.F16,
    "bf16": gguf.GGMLQuantizationType.BF16,
    "q8_0": gguf.GGMLQuantizationType.Q8_0,
    "q4_0": gguf.GGMLQuantizationType.Q4_0,
    "q4_1": gguf.GGMLQuantizationType.Q4_1,
}
BLOCK = 32  # weights that share d and m in Q4_1
Q4_1_BLOCK_BYTES = 20


@dataclass(frozen=True)
class OutTensor:
    """A tensor of the GGUF file: its logical shape, type, and how its bytes are made."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes_of: Callable[[], np.ndarray]  # uint8, or f32 for F32

    @property
    def row_bytes(self) -> int:
        block, size = gguf.GGML_QUANT_SIZES[DTYPES[self.dtype]]
        if self.shape[-1] % block:
            raise ValueError(
                f"{self.name}: rows of {self.shape[-1]} do not divide into blocks of {block}"
            )
        return self.shape[-1] // block * size


def rotary_order(heads: int, head_dim: int) -> np.ndarray:
    """Rows of q or k in the order of llama.cpp's "llama" rope, which pairs neighbours.

    Hugging Face pairs dimension j with j + head_dim / 2; the pairs move together.
    """
    rows = np.arange(heads * head_dim).reshape(heads, 2, head_dim // 2)
    return rows.swapaxes(1, 2).ravel()


def q4_1_bytes(linear: AwqLinear) -> np.ndarray:
    """u8 [out, in / 32 * 20]: per block f16 d, f16 m, and 16 bytes; a weight is q * d + m."""
    in_dim, out_dim = linear.q.shape
    if linear.group_size % BLOCK:
        raise ValueError(f"groups of {linear.group_size} do not divide into blocks of {BLOCK}")
    q = linear.q.T.reshape(out_dim, in_dim // BLOCK, 2, BLOCK // 2)
    repeat = linear.group_size // BLOCK
    scale = np.repeat(linear.scales.T, repeat, axis=1)
    zero = np.repeat(linear.zeros.T, repeat, axis=1)
    minimum = (-zero.astype(np.float32) * scale.astype(np.float32)).astype(np.float16)
    out = np.empty((out_dim, in_dim // BLOCK, Q4_1_BLOCK_BYTES), dtype=np.uint8)
    out[..., 0:2] = np.ascontiguousarray(scale)[..., None].view(np.uint8)
    out[..., 2:4] = minimum[..., None].view(np.uint8)
    out[..., 4:] = q[:, :, 0] | (q[:, :, 1] << 4)
    return out.reshape(out_dim, -1)


class Converter:
    """One conversion: which tensors the file gets, and its metadata."""

    def __init__(self, source: Path, dtype: str, embedding_dtype: str) -> None:
        self.checkpoint = Checkpoint(source)
        self.source = source
        self.config = ModelConfig.from_json(self.checkpoint.config)
        self.architecture = ARCHITECTURES[self.config.model_type]
        if self.config.window is not None:
            raise ValueError(
                f"{source}: sliding window of {self.config.window}; llama.cpp's architecture "
                f"{self.architecture} would ignore it"
            )
        if dtype == "auto":
            int4 = "model.layers.0.mlp.up_proj.qweight" in self.checkpoint
            dtype = "q4_1" if int4 else "bf16"
        self.dtype, self.embedding_dtype = dtype, embedding_dtype

    def _row_order(self, name: str) -> np.ndarray | None:
        if self.architecture != "llama":
            return None
        heads = {"q_proj": self.config.num_heads, "k_proj": self.config.num_kv_heads}
        count = heads.get(name.rsplit(".", 1)[-1])
        return None if count is None else rotary_order(count, self.config.head_dim)

    def _linear(self, name: str, out_name: str, dtype: str) -> OutTensor:
        source = self.checkpoint
        order = self._row_order(name)
        if f"{name}.qweight" not in source:
            shape = source.tensors[f"{name}.weight"].shape

            def dense() -> np.ndarray:
                raw = source.raw(f"{name}.weight")
                raw = raw if order is None else raw[order]
                if source.tensors[f"{name}.weight"].dtype == "BF16":
                    if dtype == "bf16":
                        return np.ascontiguousarray(raw).view(np.uint8)
                    raw = (raw.astype(np.uint32) << 16).view(np.float32)
                return gguf.quantize(raw.astype(np.float32), DTYPES[dtype])

            return OutTensor(out_name, shape, dtype, dense)
        in_dim, words = source.tensors[f"{name}.qweight"].shape

        def int4() -> np.ndarray:
            parts = (source.raw(f"{name}.{part}") for part in ("qweight", "qzeros", "scales"))
            linear = awq_format.unpack(*parts)
            if order is not None:
                linear = AwqLinear(
                    linear.q[:, order], linear.zeros[:, order], linear.scales[:, order]
                )
            if dtype == "q4_1":
                return q4_1_bytes(linear)
            return gguf.quantize(linear.dequantize(), DTYPES[dtype])

        return OutTensor(out_name, (words * 8, in_dim), dtype, int4)

    def _vector(self, name: str, out_name: str) -> OutTensor:
        shape = self.checkpoint.tensors[name].shape
        return OutTensor(out_name, shape, "f32", lambda: self.checkpoint.float32(name))

    def tensors(self) -> Iterator[OutTensor]:
        """Everything the file holds, in order."""
        source = self.checkpoint
        yield self._linear("model.embed_tokens", "token_embd.weight", self.embedding_dtype)
        if self.config.rope["rope_type"] == "llama3":
            pairs = np.arange(self.config.head_dim // 2)
            plain = self.config.rope["rope_theta"] ** (-2 * pairs / self.config.head_dim)
            factors = (plain / rope_of(self.config).inv_freq).astype(np.float32)
            yield OutTensor("rope_freqs.weight", factors.shape, "f32", lambda: factors)
        for layer_idx in range(self.config.num_layers):
            old, new = f"model.layers.{layer_idx}.", f"blk.{layer_idx}."
            for name, out_name in LAYER_TENSORS.items():
                yield self._linear(old + name, f"{new}{out_name}.weight", self.dtype)
                if f"{old}{name}.bias" in source:
                    if self._row_order(name) is not None:
                        raise ValueError(f"{self.source}: {old}{name}.bias with interleaved rope")
                    yield self._vector(f"{old}{name}.bias", f"{new}{out_name}.bias")
            for name, out_name in LAYER_NORMS.items():
                if f"{old}{name}.weight" in source:
                    yield self._vector(f"{old}{name}.weight", f"{new}{out_name}.weight")
        yield self._vector("model.norm.weight", "output_norm.weight")
        if not self.config.tied and "lm_head.weight" in source:
            yield self._linear("lm_head", "output.weight", self.embedding_dtype)

    def describe(self, writer: gguf.GGUFWriter) -> None:
        """Sizes and rope parameters."""
        config = self.config
        writer.add_name(self.source.resolve().name)
        writer.add_context_length(config.max_positions)
        writer.add_embedding_length(config.hidden_size)
        writer.add_block_count(config.num_layers)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_heads)
        writer.add_head_count_kv(config.num_kv_heads)
        writer.add_key_length(config.head_dim)
        writer.add_value_length(config.head_dim)
        writer.add_rope_dimension_count(config.head_dim)
        writer.add_layer_norm_rms_eps(config.rms_eps)
        writer.add_rope_freq_base(config.rope["rope_theta"])
        writer.add_vocab_size(config.vocab_size)
        kind = config.rope["rope_type"]
        if kind in ("linear", "yarn"):
            factor = config.rope["factor"]
            writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
            writer.add_rope_scaling_factor(factor)
        if kind == "yarn":
            # llama.cpp multiplies by 1 + 0.1 ln(factor) of its own accord.
            own = 1 + 0.1 * np.log(factor)
            writer.add_rope_scaling_attn_factors(rope_of(config).attention_factor / own)
            writer.add_rope_scaling_orig_ctx_len(config.rope["original_max_position_embeddings"])
            writer.add_rope_scaling_yarn_beta_fast(config.rope.get("beta_fast") or 32.0)
            writer.add_rope_scaling_yarn_beta_slow(config.rope.get("beta_slow") or 1.0)


def pre_tokenizer_name(tokenizer: dict, path: Path) -> str:
    """llama.cpp's name for the split of a byte-level tokenizer."""
    pre = tokenizer.get("pre_tokenizer") or {}
    parts = pre.get("pretokenizers", [pre])
    patterns = [part["pattern"].get("Regex") for part in parts if part.get("type") == "Split"]
    if patterns == [SPLIT_LLAMA3]:
        # The same split; the two names differ in whether a whole word may skip the merges.
        return "llama-bpe" if tokenizer["model"].get("ignore_merges") else "smaug-bpe"
    if patterns == [SPLIT_QWEN2]:
        return "qwen2"
    if not patterns and any(
        p.get("type") == "ByteLevel" and p.get("use_regex", True) for p in parts
    ):
        single = any(p.get("type") == "Digits" and p.get("individual_digits") for p in parts)
        return "smollm" if single else "gpt-2"
    raise ValueError(f"{path}: split {patterns} is not known by name; give it with --pre-tokenizer")


def add_tokenizer(writer: gguf.GGUFWriter, source: Path, config: dict, pre: str | None) -> None:
    path = source / "tokenizer.json"
    tokenizer = json.loads(path.read_text(encoding="utf-8"))
    model = tokenizer["model"]
    if model.get("type") != "BPE" or model.get("byte_fallback"):
        raise ValueError(f"{path}: only byte-level BPE tokenizers are converted")
    size = config["vocab_size"]
    tokens = [f"[PAD{idx}]" for idx in range(size)]
    kinds = [gguf.TokenType.UNUSED] * size
    for token, idx in model["vocab"].items():
        tokens[idx], kinds[idx] = token, gguf.TokenType.NORMAL
    for added in tokenizer.get("added_tokens", []):
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = (
            gguf.TokenType.CONTROL if added.get("special") else gguf.TokenType.USER_DEFINED
        )
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre or pre_tokenizer_name(tokenizer, path))
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)

    settings_path = source / "tokenizer_config.json"
    settings = json.loads(settings_path.read_text("utf-8")) if settings_path.is_file() else {}
    ends = config.get("eos_token_id")
    end = ends[0] if isinstance(ends, list) else ends
    begin = config.get("bos_token_id")
    if end is not None:
        writer.add_eos_token_id(end)
    if begin is not None:
        writer.add_bos_token_id(begin)
    template = json.dumps(tokenizer.get("post_processor"))
    writer.add_add_bos_token(
        bool(settings.get("add_bos_token", begin is not None and "SpecialToken" in template))
    )
    chat = settings.get("chat_template")
    if isinstance(chat, str):
        writer.add_chat_template(chat)


def convert(
    source: Path,
    out: Path,
    dtype: str = "auto",
    embedding_dtype: str = "bf16",
    pre: str | None = None,
) -> None:
    """Writes the GGUF file. Raises ValueError where the checkpoint cannot be expressed."""
    converter = Converter(source, dtype, embedding_dtype)
    writer = gguf.GGUFWriter(out, converter.architecture)
    converter.describe(writer)
    add_tokenizer(writer, source, converter.checkpoint.config, pre)
    tensors = list(converter.tensors())
    for tensor in tensors:
        row_bytes = tensor.row_bytes
        if tensor.dtype == "f32":
            writer.add_tensor_info(
                tensor.name,
                tensor.shape,
                np.dtype(np.float32),
                row_bytes * int(np.prod(tensor.shape[:-1])),
            )
            continue
        byte_shape = (*tensor.shape[:-1], row_bytes)
        writer.add_tensor_info(
            tensor.name,
            byte_shape,
            np.dtype(np.uint8),
            int(np.prod(byte_shape)),
            raw_dtype=DTYPES[tensor.dtype],
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors:
        data = tensor.bytes_of()
        if data.dtype != np.float32:
            data = np.ascontiguousarray(data).view(np.uint8)
        writer.write_tensor_data(np.ascontiguousarray(data))
    writer.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Convert a Hugging Face checkpoint (bf16, f16, f32 or AWQ int4) to GGUF.",
        epilog="example: to_gguf.py models/demo-target runs/demo-target.gguf",
    )
    parser.add_argument("source", type=Path, help="checkpoint directory")
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument(
        "--dtype",
        choices=("auto", *DTYPES),
        default="auto",
        help="of the linears; auto: q4_1 from AWQ, else bf16",
    )
    parser.add_argument(
        "--embedding-dtype",
        choices=("f32", "f16", "bf16", "q8_0"),
        default="bf16",
        help="of the embedding and the head",
    )
    parser.add_argument("--pre-tokenizer", help="llama.cpp's name of the split, where not known")
    args = parser.parse_args()
    try:
        convert(args.source, args.out, args.dtype, args.embedding_dtype, args.pre_tokenizer)
    except (ValueError, FileNotFoundError) as error:
        print(f"to_gguf: {error}", file=sys.stderr)
        return 1
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
