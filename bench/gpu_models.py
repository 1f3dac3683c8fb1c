"""Models for measuring on GPUs: written to memory-backed disk, used, and removed again."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from recorder import ROOT, Recorder

sys.path.insert(0, str(ROOT / "tools"))

from model_shapes import PUBLISHED, ModelShape  # noqa: E402

READ_BYTES_PER_S = 4.55e12  # what one H200 reads of its memory, measured
INT4_BITS = 4 + 16 / 128 + 4 / 128  # a weight with its share of scale and zero point
HEAD_BITS = {"bf16": 16, "int8": 8 + 16 / 64, "int4": INT4_BITS}
TITLES = {
    "llama-3.2-1b": "1B",
    "llama-3.2-3b": "3B",
    "llama-3.1-8b": "8B",
    "llama-3-70b": "70B",
    "qwen2.5-32b": "Qwen 32B",
    "qwen2-72b": "Qwen 72B",
}


@dataclass(frozen=True)
class GpuModel:
    """A published shape; `share` n: what one of n devices holds of it, random;
    `draft`: grown from the demo pair's draft, else from its target."""

    shape: str
    dtype: str
    share: int = 1
    draft: bool = False
    layers: int | None = None  # instead of the shape's

    @property
    def title(self) -> str:
        part = "" if self.share == 1 else f", 1/{self.share} of every layer"
        return f"{TITLES[self.shape]} {self.dtype}{part}"

    @property
    def folder(self) -> str:
        source = "draft" if self.draft else "target"
        return f"{self.shape}-{self.dtype}-{source}-share{self.share}-layers{self.layers or 'all'}"

    @property
    def sizes(self) -> ModelShape:
        shape = PUBLISHED[self.shape].share(self.share)
        return shape if self.layers is None else replace(shape, num_layers=self.layers)

    def part_bytes(self, context: int = 0) -> dict[str, float]:
        """Bytes that each part of a layer must read, by decoder_cuda_bench's names; attention the
        cache of `context` tokens."""
        s = self.sizes
        query, kv = s.num_heads * s.head_dim, s.num_kv_heads * s.head_dim
        weight = (INT4_BITS if self.dtype == "int4" else 16) / 8
        return {
            "QKV": s.hidden_size * (query + 2 * kv) * weight,
            "attention": 2.0 * 2 * kv * context,
            "O": query * s.hidden_size * weight,
            "gate, up": 2 * s.hidden_size * s.intermediate_size * weight,
            "down": s.intermediate_size * s.hidden_size * weight,
        }

    def weight_bytes(self, head: str | None = None) -> float:
        """Bytes that a forward must read: linear layers and head, the latter in bf16 if not in `head`."""
        s = self.sizes
        head_bytes = HEAD_BITS[head or "bf16"] / 8 * s.vocab_size * s.hidden_size
        return s.num_layers * sum(self.part_bytes().values()) + head_bytes

    def floor_ms(self, gpus: int = 1, head: str | None = None) -> float:
        return 1e3 * self.weight_bytes(head) / READ_BYTES_PER_S / gpus

    def command(self, out: Path) -> list[str]:
        to = [
            "--shape",
            self.shape,
            "--dtype",
            self.dtype,
            "--out",
            str(out),
            *(["--layers", str(self.layers)] if self.layers else []),
        ]
        if self.share > 1:
            return [sys.executable, "tools/random_checkpoint.py", "--share", str(self.share), *to]
        source = "models/demo-draft" if self.draft else "models/demo-target"
        return [sys.executable, "tools/grow_model.py", source, *to]


def positions_of(model: Path) -> int:
    """How many positions the model in this folder has."""
    return json.loads((model / "config.json").read_text())["max_position_embeddings"]


class NotMadeError(Exception):
    """A model could not be written; the recorder has noted why."""


@contextmanager
def on_disk(rec: Recorder, *models: GpuModel) -> Iterator[list[Path]]:
    """Directories of the models, which differ; removed at the end unless --keep, and used again
    where they are kept. Records how long writing a large one took. Raises NotMadeError where the disk
    lacks the room."""
    paths = []
    try:
        for model in models:
            path = Path(rec.args.models) / model.folder
            paths.append(path)
            if (path / "config.json").exists():  # written last
                continue
            shutil.rmtree(path, ignore_errors=True)
            begun = time.monotonic()
            if rec.attempt(model.command(path)) is None:
                raise NotMadeError(model.title)
            if model.weight_bytes() > 30e9:
                rec.add(
                    f"{model.title} written",
                    time.monotonic() - begun,
                    "s",
                    " ".join(model.command(Path("DIR"))[1:]),
                    at_most=90,
                )
        yield paths
    finally:
        for path in [] if rec.args.keep else paths:
            shutil.rmtree(path, ignore_errors=True)
