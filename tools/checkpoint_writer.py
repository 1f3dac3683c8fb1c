"""Writes safetensors checkpoints with numpy alone, block by block and several shards at once.

A checkpoint larger than memory can be made: a tensor is planned as a function that yields its rows.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from safetensors_io import INDEX_NAME, SINGLE_NAME, STORAGE_TYPES

MOST_WRITERS = 16  # blocks in flight bound the memory that writing takes
MAX_SHARD_BYTES = 1 << 30


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


def write_file(
    path: Path,
    tensors: list[PlannedTensor],
    written: Callable[[int], None] = lambda count: None,
) -> None:
    """Writes one .safetensors file; `written` is told the bytes of each block once it is written."""
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
            tensor_bytes = 0
            for block in tensor.blocks():
                bits = np.ascontiguousarray(block)
                if bits.dtype.itemsize != storage.itemsize:
                    raise TypeError(f"{tensor.name}: block of {bits.dtype}, expected {storage}")
                file.write(bits.data)
                tensor_bytes += bits.nbytes
                written(bits.nbytes)
            if tensor_bytes != tensor.size_bytes:
                raise ValueError(
                    f"{tensor.name}: {tensor_bytes} bytes written, {tensor.size_bytes} announced"
                )


def _shards(tensors: list[PlannedTensor], max_bytes: int) -> list[list[PlannedTensor]]:
    shards: list[list[PlannedTensor]] = [[]]
    shard_bytes = 0
    for tensor in tensors:
        if shards[-1] and shard_bytes + tensor.size_bytes > max_bytes:
            shards.append([])
            shard_bytes = 0
        shards[-1].append(tensor)
        shard_bytes += tensor.size_bytes
    return shards


def write_checkpoint(
    directory: Path,
    tensors: list[PlannedTensor],
    max_shard_bytes: int = MAX_SHARD_BYTES,
    written: Callable[[int], None] = lambda count: None,
) -> None:
    """Writes model.safetensors, or shards and their index where one file would pass the limit.

    Shards are written at once, a thread each: what takes time is the kernel's finding pages for
    the file (0.5 GB/s a thread on memory-backed disk), and writers of one file wait for each other.
    So tensors' `blocks` run on several threads. `written` is told the bytes of each block once it
    is written, one call at a time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shards = _shards(tensors, max_shard_bytes)
    names = [SINGLE_NAME]
    if len(shards) > 1:
        names = [f"model-{n + 1:05d}-of-{len(shards):05d}.safetensors" for n in range(len(shards))]
    lock = threading.Lock()

    def told(count: int) -> None:
        with lock:
            written(count)

    # The largest first: it should not be the one that everybody waits for.
    order = sorted(range(len(shards)), key=lambda n: -sum(t.size_bytes for t in shards[n]))
    with ThreadPoolExecutor(min(len(shards), os.cpu_count() or 1, MOST_WRITERS)) as pool:
        files = [pool.submit(write_file, directory / names[n], shards[n], told) for n in order]
        try:
            for file in as_completed(files):
                file.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if len(shards) == 1:
        return
    weight_map = {tensor.name: name for name, shard in zip(names, shards) for tensor in shard}
    total = sum(tensor.size_bytes for tensor in tensors)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / INDEX_NAME).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


class ProgressBar:
    """Bytes written, on standard error; silent where that is no terminal."""

    def __init__(self, total_bytes: int) -> None:
        self._total, self._done, self._begun = total_bytes, 0, time.monotonic()
        self._shown = 0.0
        self._live = sys.stderr.isatty()

    def advance(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if self._live and (now - self._shown > 0.1 or self._done == self._total):
            self._shown = now
            share = self._done / self._total
            rate = self._done / max(now - self._begun, 1e-6) / 1e9
            bar = "#" * int(30 * share)
            sys.stderr.write(
                f"\r[{bar:<30}] {share:4.0%} of {self._total / 1e9:.2f} GB, {rate:.2f} GB/s "
            )
            if self._done == self._total:
                sys.stderr.write("\n")
            sys.stderr.flush()


def write_model(
    directory: Path,
    tensors: list[PlannedTensor],
    config: dict,
    max_shard_bytes: int = MAX_SHARD_BYTES,
) -> int:
    """Writes tensors and config.json, shows progress and returns the tensors' bytes.

    Raises ValueError, having written nothing, where the directory holds something or the disk
    lacks the room.
    """
    if directory.exists() and any(directory.iterdir()):
        raise ValueError(f"{directory} exists and is not empty")
    directory.mkdir(parents=True, exist_ok=True)
    total = sum(tensor.size_bytes for tensor in tensors)
    free = shutil.disk_usage(directory).free
    if total > free:
        raise ValueError(f"{directory}: {total / 1e9:.1f} GB to write, {free / 1e9:.1f} GB free")
    write_checkpoint(directory, tensors, max_shard_bytes, ProgressBar(total).advance)
    text = json.dumps(config, indent=2) + "\n"
    (directory / "config.json").write_text(text, encoding="utf-8")
    return total
