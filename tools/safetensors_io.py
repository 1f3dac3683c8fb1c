"""Reading safetensors checkpoints with numpy alone; checkpoint_writer.py writes them.

bf16 has no numpy type: such tensors travel as their raw uint16 bits, and `to_float32` and
`to_bf16_bits` convert. Files are mapped into memory.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# safetensors' name of a type -> the numpy type that holds its bits.
STORAGE_TYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
    "F8_E4M3": np.dtype("u1"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"


def to_float32(bits: np.ndarray, dtype: str) -> np.ndarray:
    """Values of a float tensor as f32; `dtype` is its safetensors name."""
    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if dtype in ("F16", "F32", "F64"):
        return bits.astype(np.float32)
    raise ValueError(f"dtype {dtype} does not hold floating point values")


def to_bf16_bits(values: np.ndarray) -> np.ndarray:
    """f32 values rounded to the nearest bf16, ties to even, as uint16 bits. NaN is not handled."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def round_to_bf16(values: np.ndarray) -> np.ndarray:
    """f32 values that bf16 holds exactly, nearest to the given ones."""
    return to_float32(to_bf16_bits(values), "BF16")


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor lies: its file, type, shape and byte range from the file's start."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: Path) -> dict[str, TensorInfo]:
    """The tensors of one .safetensors file by name. Raises ValueError on a malformed file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        if len(prefix) < 8:
            raise ValueError(f"{path}: {size} bytes, shorter than a safetensors header")
        (header_bytes,) = struct.unpack("<Q", prefix)
        if header_bytes > size - 8:
            raise ValueError(f"{path}: header of {header_bytes} bytes in a file of {size} bytes")
        entries = json.loads(file.read(header_bytes))
    start = 8 + header_bytes
    infos: dict[str, TensorInfo] = {}
    for name, entry in entries.items():
        if name == "__metadata__":
            continue
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if dtype not in STORAGE_TYPES:
            raise ValueError(
                f"{path}: tensor {name} has dtype {dtype}, not one of {', '.join(STORAGE_TYPES)}"
            )
        expected = math.prod(shape) * STORAGE_TYPES[dtype].itemsize
        if end - begin != expected or start + end > size:
            raise ValueError(
                f"{path}: tensor {name} spans bytes {begin}-{end}, "
                f"its shape needs {expected}, the file has {size}"
            )
        infos[name] = TensorInfo(path, dtype, shape, start + begin, start + end)
    return infos


class Checkpoint:
    """A directory with config.json and one or several .safetensors files, read on demand."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        config_path = self.directory / "config.json"
        if not config_path.is_file():
            raise FileNotFoundError(f"{config_path}: no such file; a checkpoint directory has one")
        self.config: dict = json.loads(config_path.read_text(encoding="utf-8"))
        self.tensors: dict[str, TensorInfo] = {}
        index_path = self.directory / INDEX_NAME
        if index_path.is_file():
            weight_map = json.loads(index_path.read_text(encoding="utf-8"))["weight_map"]
            files = sorted(set(weight_map.values()))
        else:
            files = [SINGLE_NAME]
        for file in files:
            self.tensors.update(read_header(self.directory / file))

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def raw(self, name: str) -> np.ndarray:
        """The tensor's bits, mapped read-only from the file (bf16 as uint16)."""
        if name not in self.tensors:
            raise KeyError(f"{self.directory}: no tensor {name}")
        info = self.tensors[name]
        dtype = STORAGE_TYPES[info.dtype]
        # Writers other than this one may leave the data unaligned, so the map is of bytes.
        mapped = np.memmap(
            info.path, dtype=np.uint8, mode="r", offset=info.begin, shape=(info.end - info.begin,)
        )
        return mapped.view(dtype).reshape(info.shape)

    def float32(self, name: str) -> np.ndarray:
        """The tensor's values as f32."""
        return to_float32(self.raw(name), self.tensors[name].dtype)
