"""Files of a head, in the layout that SpecForge and SafeAILab publish: config.json and model.safetensors.

Behind how many of the target's layers taps lie is written at the top level, where vLLM and Forerun look. A head that
guesses among part of the vocabulary has an LM head of its own, `d2t` and `t2d`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

import awq_format
import safetensors_io
from checkpoint_writer import PlannedTensor, planned, write_checkpoint
from head_training.head import INT4_GROUP, Head, HeadShape
from head_training.target import Target, read_weight

ARCHITECTURE = "LlamaForCausalLMEagle3"
TAPS = "eagle_aux_hidden_state_layer_ids"
FROM_TARGET = (
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "vocab_size",
    "max_position_embeddings",
)


def config_of(head: Head, target: Target) -> dict:
    shape = head.shape
    config = {key: target.config[key] for key in FROM_TARGET if target.config.get(key) is not None}
    config.update(
        architectures=[ARCHITECTURE],
        model_type="llama",
        hidden_act="silu",
        num_hidden_layers=1,
        hidden_size=target.width,
        target_hidden_size=target.width,
        intermediate_size=shape.ffn,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        draft_vocab_size=shape.draft_vocab,
        tie_word_embeddings=False,
        torch_dtype="bfloat16",
        **{TAPS: head.taps},
    )
    if shape.int4:
        config["quantization_config"] = awq_format.quantization_config(INT4_GROUP)
    return config


def bf16(name: str, weight: torch.Tensor) -> PlannedTensor:
    values = weight.detach().float().cpu().numpy()
    return planned(name, "BF16", safetensors_io.to_bf16_bits(values))


def tensors_of(head: Head, target: Target) -> list[PlannedTensor]:
    tensors = []
    for name, weight in head.state_dict().items():
        if not head.shape.int4 or weight.dim() < 2 or name.startswith("lm_head"):
            tensors.append(bf16(name, weight))
            continue
        module = name.removesuffix(".weight")
        packed = awq_format.quantize(weight.float().cpu().numpy(), INT4_GROUP)
        tensors += [
            planned(f"{module}.qweight", "I32", awq_format.pack_nibbles(packed.q)),
            planned(f"{module}.qzeros", "I32", awq_format.pack_nibbles(packed.zeros)),
            planned(f"{module}.scales", "F16", packed.scales.view(np.uint16)),
        ]
    if head.shape.draft_vocab != target.vocab_size:
        tokens = head.tokens.cpu().numpy().astype(np.int64)
        has_row = np.zeros(target.vocab_size, dtype=bool)
        has_row[tokens] = True
        tensors.append(planned("d2t", "I64", tokens - np.arange(len(tokens), dtype=np.int64)))
        tensors.append(planned("t2d", "BOOL", has_row))
    return tensors


def write_head(directory: Path, head: Head, target: Target, training: dict) -> None:
    """Writes or overwrites a head; `training` says in config.json how it was made."""
    write_checkpoint(directory, tensors_of(head, target), 1 << 40, lambda _: None)
    config = config_of(head, target) | {"training": training}
    (directory / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def kept_tokens(directory: Path) -> torch.Tensor:
    """The draft tokens of a head that lies there, in rising order: a run that goes on keeps them."""
    has_row = np.array(safetensors_io.Checkpoint(directory).raw("t2d"))
    return torch.from_numpy(has_row.nonzero()[0])


def read_head(directory: str | Path, target: Target) -> Head:
    """A head that write_head() wrote, or one of the same tensor names, with f32 parameters on the CPU."""
    checkpoint = safetensors_io.Checkpoint(directory)
    config = checkpoint.config
    if config.get("architectures") != [ARCHITECTURE]:
        raise ValueError(
            f"{directory}: architectures: found {config.get('architectures')}; accepted: [{ARCHITECTURE}]"
        )
    heads = config["num_attention_heads"]
    draft_vocab = config.get("draft_vocab_size") or target.vocab_size
    shape = HeadShape(
        heads=heads,
        kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim") or config["hidden_size"] // heads,
        ffn=config["intermediate_size"],
        draft_vocab=draft_vocab,
        own_lm_head="lm_head.weight" in checkpoint,
        int4=False,  # its values are of int4 already
    )
    tokens = torch.arange(draft_vocab)
    if "d2t" in checkpoint:
        tokens = tokens + torch.from_numpy(np.array(checkpoint.raw("d2t")).astype(np.int64))
    head = Head(target, shape, config.get(TAPS) or target.default_taps(), tokens)
    head.load_state_dict(
        {name: read_weight(checkpoint, name.removesuffix(".weight")) for name in head.state_dict()}
    )
    return head
