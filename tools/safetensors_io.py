"""Reading and writing safetensors checkpoints with numpy alone.

bf16 has no numpy type: such tensors travel as their raw uint16 bits, and `to_float32` and
`to_bf16_bits` convert. Readers map the files into memory; the writer streams, so a checkpoint
larger than memory can be made shard by shard.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# safetensors' name of a type -> the numpy type that holds its bits.
STORAGE_TYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype("<u2"),
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


@dataclass(frozen=True)
class PlannedTensor:
    """A tensor to be written: its bits come as consecutive blocks of whole rows."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    blocks: Callable[[], Iterable[np.ndarray]]

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * STORAGE_TYPES[self.dtype].itemsize


def planned(name: str, dtype: str, bits: np.ndarray) -> PlannedTensor:
    """A tensor that is already in memory."""
    return PlannedTensor(name, dtype, bits.shape, lambda: (bits,))


def _write_file(path: Path, tensors: list[PlannedTensor]) -> Iterator[int]:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for tensor in tensors:
        header[tensor.name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.size_bytes],
        }
        offset += tensor.size_bytes
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)))
        file.write(encoded)
        for tensor in tensors:
            storage = STORAGE_TYPES[tensor.dtype]
            written = 0
            for block in tensor.blocks():
                bits = np.ascontiguousarray(block)
                if bits.dtype.itemsize != storage.itemsize:
                    raise TypeError(f"{tensor.name}: block of {bits.dtype}, expected {storage}")
                file.write(bits.data)
                written += bits.nbytes
                yield bits.nbytes
            if written != tensor.size_bytes:
                raise ValueError(
                    f"{tensor.name}: {written} bytes written, {tensor.size_bytes} announced"
                )


def write_checkpoint(
    directory: Path, tensors: list[PlannedTensor], max_shard_bytes: int = 4 << 30
) -> Iterator[int]:
    """Writes model.safetensors, or shards and their index where one file would pass the limit.

    A generator: yields the bytes of each block once it is written, so that the caller can show
    progress; nothing is written unless it is consumed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shards: list[list[PlannedTensor]] = [[]]
    shard_bytes = 0
    for tensor in tensors:
        if shards[-1] and shard_bytes + tensor.size_bytes > max_shard_bytes:
            shards.append([])
            shard_bytes = 0
        shards[-1].append(tensor)
        shard_bytes += tensor.size_bytes
    if len(shards) == 1:
        yield from _write_file(directory / SINGLE_NAME, shards[0])
        return
    weight_map: dict[str, str] = {}
    for shard_idx, shard in enumerate(shards):
        name = f"model-{shard_idx + 1:05d}-of-{len(shards):05d}.safetensors"
        yield from _write_file(directory / name, shard)
        weight_map.update({tensor.name: name for tensor in shard})
    total = sum(tensor.size_bytes for tensor in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
