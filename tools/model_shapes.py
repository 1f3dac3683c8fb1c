"""Published model shapes, as the parts of config.json that fix the size of things."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
}


def shape_fields(config: dict) -> dict:
    """The sizes in a config.json by ModelShape's names, defaults as transformers has them."""
    heads = config["num_attention_heads"]
    return {
        "model_type": config["model_type"],
        "hidden_size": config["hidden_size"],
        "intermediate_size": config["intermediate_size"],
        "num_layers": config["num_hidden_layers"],
        "num_heads": heads,
        "num_kv_heads": config.get("num_key_value_heads") or heads,
        "head_dim": config.get("head_dim") or config["hidden_size"] // heads,
        "vocab_size": config["vocab_size"],
        "tied": bool(config.get("tie_word_embeddings", False)),
    }


@dataclass(frozen=True)
class ModelShape:
    """Sizes of a decoder-only model; biases on q, k and v go with the model type qwen2."""

    model_type: str
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    tied: bool

    @property
    def heads_per_kv(self) -> int:
        return self.num_heads // self.num_kv_heads

    @property
    def has_qkv_bias(self) -> bool:
        return self.model_type == "qwen2"

    def share(self, devices: int) -> ModelShape:
        """What one of `devices` equal devices holds of every layer, as a shape of its own."""
        parts = {
            name: getattr(self, name)
            for name in ("num_heads", "num_kv_heads", "intermediate_size", "vocab_size")
        }
        for name, count in parts.items():
            if devices < 1 or count % devices:
                raise ValueError(f"{name} {count} has no equal shares for {devices} devices")
        return replace(self, **{name: count // devices for name, count in parts.items()})

    @staticmethod
    def from_config(config: dict, where: str) -> ModelShape:
        """Reads config.json's fields; `where` names the file in messages."""
        model_type = config.get("model_type")
        if model_type not in ARCHITECTURES:
            raise ValueError(
                f"{where}: model_type {model_type!r}, expected one of {', '.join(ARCHITECTURES)}"
            )
        for flag in ("attention_bias", "mlp_bias"):
            if config.get(flag):
                raise ValueError(f"{where}: {flag} is set, only Qwen2's biases are supported")
        return ModelShape(**shape_fields(config))


PUBLISHED: dict[str, ModelShape] = {
    "llama-3.2-1b": ModelShape("llama", 2048, 8192, 16, 32, 8, 64, 128256, True),
    "llama-3.2-3b": ModelShape("llama", 3072, 8192, 28, 24, 8, 128, 128256, True),
    "llama-3.1-8b": ModelShape("llama", 4096, 14336, 32, 32, 8, 128, 128256, False),
    "llama-3-70b": ModelShape("llama", 8192, 28672, 80, 64, 8, 128, 128256, False),
    "qwen2.5-32b": ModelShape("qwen2", 5120, 27648, 64, 40, 8, 128, 152064, False),
    "qwen2-72b": ModelShape("qwen2", 8192, 29568, 80, 64, 8, 128, 152064, False),
}


def shape_named(text: str) -> ModelShape:
    """A shape by its name in PUBLISHED, or of a config.json given by path."""
    if text in PUBLISHED:
        return PUBLISHED[text]
    path = Path(text)
    if path.is_dir():
        path = path / "config.json"
    if not path.is_file():
        raise ValueError(f"shape {text!r}: neither {', '.join(PUBLISHED)} nor a config.json")
    return ModelShape.from_config(json.loads(path.read_text(encoding="utf-8")), str(path))
