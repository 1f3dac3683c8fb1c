"""The tiny checkpoints of tests/goldens: what each family's config says and how weights are drawn.

Nothing here needs torch. Every family exists to catch particular mistakes; `checks` names the
perturbations that make_goldens.py must find visible in the logits.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

import numpy as np

VOCAB_SIZE = 288
BOS, EOS, TURN_BEGIN, TURN_END = "<|bos|>", "<|eos|>", "<|turn|>", "<|end|>"
SPECIAL_TOKENS = (BOS, EOS, TURN_BEGIN, TURN_END)  # ids 0..3
MAX_POSITIONS = 512

SPLIT_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPLIT_QWEN2 = SPLIT_LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ '<|turn|>' + message['role'] + '\n' + message['content'] | trim + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|turn|>assistant\n' }}{% endif %}"
)

LLAMA3_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 128,
}
YARN_QWEN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 128,
}
YARN_LLAMA = {
    "rope_type": "yarn",
    "rope_theta": 50000.0,
    "factor": 8.0,
    "beta_fast": 8.0,
    "beta_slow": 2.0,
    "attention_factor": 1.25,
    "original_max_position_embeddings": 128,
}


@dataclass(frozen=True)
class Family:
    """One tiny checkpoint. `config` holds the arguments of transformers' config class."""

    name: str
    model_type: str  # llama, mistral, qwen2 or qwen3
    config: dict
    dtype: str = "float32"  # of the saved tensors; int4 families: of everything else
    checks: tuple[str, ...] = ()
    legacy_spelling: bool = False  # config.json as transformers 4 wrote it
    max_shard_size: int | None = None  # bytes
    awq_group: int | None = None
    adds_bos: bool = True
    split: str = SPLIT_LLAMA3
    chat_template: str | None = None
    template_in_config: bool = False  # else a chat_template.jinja beside it
    generation: dict = field(default_factory=dict)


def _shape(hidden: int, inter: int, heads: int, kv_heads: int, tied: bool, **more: object) -> dict:
    return {
        "hidden_size": hidden,
        "intermediate_size": inter,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "tie_word_embeddings": tied,
        "num_hidden_layers": 2,
        "vocab_size": VOCAB_SIZE,
        "max_position_embeddings": MAX_POSITIONS,
        "rms_norm_eps": 1e-3,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": None,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        **more,
    }


FAMILIES: tuple[Family, ...] = (
    Family("llama2", "llama", _shape(64, 96, 4, 4, False), "float16", ("untied",)),
    Family(
        "llama3",
        "llama",
        _shape(64, 96, 4, 2, False, rope_parameters=LLAMA3_SCALING, eos_token_id=[1, 3]),
        "bfloat16",
        ("untied", "kv_order", "rope_scaling"),
        chat_template=CHAT_TEMPLATE,
        template_in_config=True,
        generation={"do_sample": True, "temperature": 0.6, "top_p": 0.9},
    ),
    Family(
        "llama3-sharded",
        "llama",
        _shape(32, 64, 4, 2, True, head_dim=16, rope_parameters=LLAMA3_SCALING),
        "float32",
        ("kv_order", "rope_scaling"),
        max_shard_size=40_000,
    ),
    Family(
        "deepseek-coder",
        "llama",
        _shape(
            32,
            64,
            4,
            4,
            False,
            head_dim=16,
            rope_parameters={"rope_type": "linear", "rope_theta": 100000.0, "factor": 4.0},
        ),
        "float32",
        ("untied", "rope_scaling"),
        legacy_spelling=True,
    ),
    Family(
        "llama-yarn",
        "llama",
        _shape(32, 64, 2, 1, True, rope_parameters=YARN_LLAMA),
        "float32",
        ("rope_scaling", "attention_factor"),
        legacy_spelling=True,
    ),
    Family(
        "qwen2.5-yarn",
        "qwen2",
        _shape(64, 96, 4, 2, True, rope_parameters=YARN_QWEN),
        "bfloat16",
        ("rope_scaling", "attention_factor", "bias"),
        adds_bos=False,
        split=SPLIT_QWEN2,
    ),
    Family(
        "qwen2",
        "qwen2",
        _shape(64, 96, 4, 2, True),
        "float16",
        ("bias", "kv_order"),
        adds_bos=False,
        split=SPLIT_QWEN2,
        chat_template=CHAT_TEMPLATE,
    ),
    Family(
        "qwen3",
        "qwen3",
        _shape(32, 64, 4, 2, True, head_dim=16),
        "float32",
        ("qk_norm", "kv_order"),
        adds_bos=False,
        split=SPLIT_QWEN2,
    ),
    Family(
        "mistral-window",
        "mistral",
        _shape(32, 64, 4, 2, False, sliding_window=32, head_dim=16),
        "float32",
        ("untied", "window", "kv_order"),
    ),
    Family(
        "mistral",
        "mistral",
        _shape(32, 64, 4, 2, False, sliding_window=None, head_dim=16),
        "bfloat16",
        ("untied", "kv_order"),
    ),
    Family(
        "r1-distill-llama",
        "llama",
        _shape(32, 64, 4, 2, False, head_dim=16, rope_parameters=LLAMA3_SCALING),
        "bfloat16",
        ("untied", "kv_order", "rope_scaling"),
        legacy_spelling=True,
    ),
    Family(
        "r1-distill-qwen",
        "qwen2",
        _shape(64, 96, 4, 2, False),
        "bfloat16",
        ("untied", "bias", "kv_order"),
        legacy_spelling=True,
        split=SPLIT_QWEN2,
    ),
    Family(
        "llama-awq-g32",
        "llama",
        _shape(64, 96, 4, 2, False),
        "float16",
        ("untied", "kv_order"),
        legacy_spelling=True,
        awq_group=32,
    ),
    Family(
        "qwen2-awq-g128",
        "qwen2",
        _shape(128, 256, 4, 2, True),
        "bfloat16",
        ("bias", "kv_order"),
        legacy_spelling=True,
        awq_group=128,
        adds_bos=False,
        split=SPLIT_QWEN2,
    ),
)


def draw_weight(family: Family, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """f32 values of one parameter, fixed by the family's and the parameter's name.

    Scales are chosen so that every part shows in the logits: attention scores spread over about
    two units, biases and norm weights far from what leaving them out would give.
    """
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(f"{family.name}/{name}".encode())))
    if name.endswith("norm.weight"):
        return (1.0 + 0.25 * rng.standard_normal(shape)).astype(np.float32)
    if name.endswith(".bias"):
        return (0.7 * rng.standard_normal(shape)).astype(np.float32)
    if name == "model.embed_tokens.weight":
        return (0.2 * rng.standard_normal(shape)).astype(np.float32)
    gain = 1.5 if any(part in name for part in ("q_proj", "k_proj", "lm_head")) else 1.2
    return (gain / np.sqrt(shape[-1]) * rng.standard_normal(shape)).astype(np.float32)


def legacy_config(config: dict) -> dict:
    """config.json in the spelling of transformers 4: rope_theta, rope_scaling, torch_dtype."""
    old = dict(config)
    rope = dict(old.pop("rope_parameters"))
    old["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    if kind == "linear":
        old["rope_scaling"] = {"type": kind, **rope}
    elif kind != "default":
        old["rope_scaling"] = {"rope_type": kind, **rope}
    else:
        old["rope_scaling"] = None
    if "dtype" in old:
        old["torch_dtype"] = old.pop("dtype")
    old.pop("layer_types", None)
    old["transformers_version"] = "4.47.0"
    return old
