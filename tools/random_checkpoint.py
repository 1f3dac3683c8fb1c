"""Writes a checkpoint of a published shape whose weights are random: full size, no meaning.

For measuring forwards where every row of the vocabulary counts; grow_model.py makes checkpoints
that speak. Needs torch and a GPU; an 8B in int4 takes seconds.

example: random_checkpoint.py --shape llama-3.1-8b --dtype int4 --out /dev/shm/8b
"""

from __future__ import annotations

import argparse
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import torch

from model_shapes import ARCHITECTURES, PUBLISHED, ModelShape, shape_named

GROUP = 128
NAMES = {torch.bfloat16: "BF16", torch.int32: "I32", torch.float16: "F16"}
Tensors = list[tuple[str, torch.Tensor]]


def random_bf16(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * 0.02).to(torch.bfloat16)


def linear(name: str, outputs: int, inputs: int, dtype: str) -> Tensors:
    if dtype == "bf16":
        return [(f"{name}.weight", random_bf16(outputs, inputs))]
    words = (inputs, outputs // 8)
    groups = inputs // GROUP
    zeros = 0x88888888 - (1 << 32)  # 8 in every nibble
    return [
        (f"{name}.qweight",
         torch.randint(-(2**31), 2**31 - 1, words, device="cuda", dtype=torch.int32)),
        (f"{name}.qzeros", torch.full((groups, outputs // 8), zeros, device="cuda",
                                      dtype=torch.int32)),
        (f"{name}.scales", torch.full((groups, outputs), 0.002, device="cuda",
                                      dtype=torch.float16)),
    ]


def ones(width: int) -> torch.Tensor:
    return torch.ones(width, device="cuda", dtype=torch.bfloat16)


def files(shape: ModelShape, dtype: str) -> Iterator[Tensors]:
    """One file's tensors at a time: the ends of the model, then each layer."""
    hidden = shape.hidden_size
    q = shape.num_heads * shape.head_dim
    kv = shape.num_kv_heads * shape.head_dim
    mlp = shape.intermediate_size
    ends = [("model.embed_tokens.weight", random_bf16(shape.vocab_size, hidden)),
            ("model.norm.weight", ones(hidden))]
    if not shape.tied:
        ends.append(("lm_head.weight", random_bf16(shape.vocab_size, hidden)))
    yield ends
    for layer in range(shape.num_layers):
        prefix = f"model.layers.{layer}."
        tensors: Tensors = [(prefix + "input_layernorm.weight", ones(hidden)),
                            (prefix + "post_attention_layernorm.weight", ones(hidden))]
        for module, outputs, inputs in (
            ("self_attn.q_proj", q, hidden), ("self_attn.k_proj", kv, hidden),
            ("self_attn.v_proj", kv, hidden), ("self_attn.o_proj", hidden, q),
            ("mlp.gate_proj", mlp, hidden), ("mlp.up_proj", mlp, hidden),
            ("mlp.down_proj", hidden, mlp),
        ):
            tensors += linear(prefix + module, outputs, inputs, dtype)
            if shape.has_qkv_bias and module[-6:] in ("q_proj", "k_proj", "v_proj"):
                tensors.append((f"{prefix}{module}.bias", random_bf16(outputs)))
        yield tensors


def write(path: Path, tensors: Tensors) -> None:
    header, offset = {}, 0
    for name, tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 64)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in tensors:
            file.write(tensor.contiguous().view(torch.uint8).cpu().numpy().data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", required=True, choices=sorted(PUBLISHED))
    parser.add_argument("--dtype", required=True, choices=("bf16", "int4"))
    parser.add_argument("--out", required=True, type=Path)
    args = parser.parse_args()
    shape = shape_named(args.shape)
    args.out.mkdir(parents=True, exist_ok=True)
    weight_map = {}
    for index, tensors in enumerate(files(shape, args.dtype)):
        name = f"model-{index:05d}.safetensors"
        write(args.out / name, tensors)
        weight_map.update(dict.fromkeys((tensor for tensor, _ in tensors), name))
    index_json = {"metadata": {}, "weight_map": weight_map}
    (args.out / "model.safetensors.index.json").write_text(json.dumps(index_json))
    config = {
        "architectures": [ARCHITECTURES[shape.model_type]], "model_type": shape.model_type,
        "hidden_size": shape.hidden_size, "intermediate_size": shape.intermediate_size,
        "num_attention_heads": shape.num_heads, "num_key_value_heads": shape.num_kv_heads,
        "head_dim": shape.head_dim, "num_hidden_layers": shape.num_layers,
        "vocab_size": shape.vocab_size, "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": shape.tied,
        "torch_dtype": "bfloat16" if args.dtype == "bf16" else "float16", "eos_token_id": 2,
    }
    if args.dtype == "int4":
        config["quantization_config"] = {"quant_method": "awq", "bits": 4, "group_size": GROUP,
                                         "zero_point": True, "version": "gemm"}
    (args.out / "config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
