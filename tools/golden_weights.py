"""Makes the checkpoints of tests/goldens whole: writes the weights that the tree leaves out.

Weights are drawn from a family's and a parameter's name (golden_families.py), so the tree keeps
their checksums alone (tests/goldens/weights.sha256), those of the files that transformers wrote.
Writes one folder a family: copies of what tests/goldens/FAMILY holds, and its weights, byte for
byte as transformers wrote them. Folders that are whole already stay as they are.

example: golden_weights.py --out build/goldens
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np

import awq_format
from checkpoint_writer import PlannedTensor, planned, write_file
from golden_families import FAMILIES, Family, draw_weight
from safetensors_io import INDEX_NAME, SINGLE_NAME, to_bf16_bits, to_float32

ROOT = Path(__file__).resolve().parents[1]
GOLDENS = ROOT / "tests" / "goldens"
CHECKSUMS = "weights.sha256"
STORED_AS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def parameters(family: Family) -> dict[str, tuple[int, ...]]:
    """Shapes of the family's parameters by name, in the order in which its model has them."""
    config = family.config
    hidden, inter = config["hidden_size"], config["intermediate_size"]
    head_dim = config.get("head_dim", hidden // config["num_attention_heads"])
    width = {
        "q_proj": config["num_attention_heads"] * head_dim,
        "k_proj": config["num_key_value_heads"] * head_dim,
        "v_proj": config["num_key_value_heads"] * head_dim,
    }
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config["vocab_size"], hidden)
    }
    for index in range(config["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        for name, rows in width.items():
            shapes[f"{layer}.self_attn.{name}.weight"] = (rows, hidden)
            if family.model_type == "qwen2":
                shapes[f"{layer}.self_attn.{name}.bias"] = (rows,)
        shapes[f"{layer}.self_attn.o_proj.weight"] = (hidden, width["q_proj"])
        if family.model_type == "qwen3":
            shapes[f"{layer}.self_attn.q_norm.weight"] = (head_dim,)
            shapes[f"{layer}.self_attn.k_norm.weight"] = (head_dim,)
        shapes[f"{layer}.mlp.gate_proj.weight"] = (inter, hidden)
        shapes[f"{layer}.mlp.up_proj.weight"] = (inter, hidden)
        shapes[f"{layer}.mlp.down_proj.weight"] = (hidden, inter)
        shapes[f"{layer}.input_layernorm.weight"] = (hidden,)
        shapes[f"{layer}.post_attention_layernorm.weight"] = (hidden,)
    shapes["model.norm.weight"] = (hidden,)
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return shapes


def stored_tensors(
    family: Family, name: str, shape: tuple[int, ...]
) -> tuple[list[PlannedTensor], np.ndarray]:
    """What a file holds for a parameter, and the f32 values that this stands for."""
    values = draw_weight(family, name, shape)
    if family.awq_group is not None and name.endswith("_proj.weight"):
        packed = awq_format.quantize(values, family.awq_group)
        module = name.removesuffix(".weight")
        tensors = [
            planned(f"{module}.qweight", "I32", awq_format.pack_nibbles(packed.q)),
            planned(f"{module}.qzeros", "I32", awq_format.pack_nibbles(packed.zeros)),
            planned(f"{module}.scales", "F16", packed.scales),
        ]
        return tensors, packed.dequantize()
    dtype = STORED_AS[family.dtype]
    bits = {"F32": lambda: values, "F16": lambda: values.astype(np.float16)}.get(
        dtype, lambda: to_bf16_bits(values)
    )()
    return [planned(name, dtype, bits)], to_float32(bits, dtype)


def write_weights(family: Family, source: Path, directory: Path) -> list[Path]:
    """Writes the family's files of weights into `directory` and returns them.

    The index in `source` says which shard holds what; families in one file have none.
    """
    tensors = [
        tensor
        for name, shape in parameters(family).items()
        for tensor in stored_tensors(family, name, shape)[0]
    ]
    if family.awq_group is None:
        tensors.sort(key=lambda tensor: tensor.name)  # as transformers writes them
    files: dict[str, list[PlannedTensor]] = {SINGLE_NAME: tensors}
    if family.max_shard_size is not None:
        shards = json.loads((source / INDEX_NAME).read_text(encoding="utf-8"))["weight_map"]
        files = {name: [] for name in sorted(set(shards.values()))}
        for tensor in tensors:
            files[shards[tensor.name]].append(tensor)
    for name, held in files.items():
        unfinished = directory / f"{name}.{os.getpid()}"
        write_file(unfinished, held)
        unfinished.replace(directory / name)
    return [directory / name for name in files]


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_checksums(goldens: Path) -> dict[str, str]:
    """SHA-256 of the files of weights, by FAMILY/NAME; of none where no file lists them."""
    path = goldens / CHECKSUMS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {name: value for value, name in (line.split("  ", 1) for line in lines)}


def write_checksums(goldens: Path, checksums: dict[str, str]) -> None:
    lines = [f"{value}  {name}\n" for name, value in sorted(checksums.items())]
    (goldens / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def make_whole(family: Family, goldens: Path, out: Path, wanted: dict[str, str]) -> None:
    """Brings out/FAMILY up to date. Raises ValueError if other weights are drawn than were."""
    source, directory = goldens / family.name, out / family.name
    directory.mkdir(parents=True, exist_ok=True)
    for path in source.iterdir():
        copy = directory / path.name
        if not copy.is_file() or copy.read_bytes() != path.read_bytes():
            unfinished = directory / f"{path.name}.{os.getpid()}"
            shutil.copyfile(path, unfinished)
            unfinished.replace(copy)
    names = [name for name in wanted if name.startswith(f"{family.name}/")]
    if all((out / name).is_file() and checksum(out / name) == wanted[name] for name in names):
        return
    for path in write_weights(family, source, directory):
        name = f"{family.name}/{path.name}"
        if checksum(path) != wanted.get(name):
            path.unlink()
            raise ValueError(
                f"{out / name}: found other bytes than {CHECKSUMS} lists, drawn by numpy "
                f"{np.__version__}; accepted: a numpy that draws the same normal numbers"
            )


def make_all(out: Path) -> None:
    """Brings out/FAMILY up to date for every family. Raises ValueError as make_whole."""
    wanted = read_checksums(GOLDENS)
    for family in FAMILIES:
        make_whole(family, GOLDENS, out, wanted)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write the checkpoints of tests/goldens with their weights.",
        epilog="example: golden_weights.py --out build/goldens",
    )
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "goldens", help="default: build/goldens"
    )
    args = parser.parse_args()
    try:
        make_all(args.out)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
