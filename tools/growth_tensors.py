"""Builds the tensors of a grown model block by block: live values among random fill.

What is filled must cost what real weights cost and contribute nothing. True zeros run faster on
real hardware (less switching), and products that underflow run slower on x86, so:

- matrices that read the residual stream (q, k, v, gate, up) are filled with random bf16 of usual
  size: extra heads and channels compute something, which nobody reads. Only q's extra rows read
  the live channels with weights near 2^-100, lest extra dimensions of a head add to its scores;
- matrices that write it (embedding, o, down) and the head are filled with random mantissas near
  2^-100: what they write into the unused channels stays near 2^-90, far below the rounding of the
  live ones, yet its products with weights of usual size stay normal numbers. The last norm scales
  the unused channels up by 2^80, so that their products with the head are normal numbers too;
- int4: random nibbles under zero scales;
- tokens that the small model lacks must never be chosen, though the whole head is computed: the
  last unused channel carries a constant from every embedding to the last norm, which brings it to
  the size of live channels, and these tokens' rows of the head make it a logit of -2^14 over the
  residual's size.

With a noise level, what fills o and down in rows (int4: columns) that write live channels has that
share of the small matrix' root mean square instead.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import awq_format
from awq_format import AwqLinear
from checkpoint_writer import PlannedTensor
from growth_maps import NOTHING
from safetensors_io import to_bf16_bits, to_float32

BLOCK_BYTES = 32 << 20
RANDOM_WORDS = (8 << 20) + 1031  # uint16; an odd length, so that no row repeats its neighbour
GROUP = 128
USUAL_EXPONENT = -6  # random weights of +-[2^-6, 2^-5)
NEGLIGIBLE_EXPONENT = -100
LAST_NORM_EXPONENT = 80
CONSTANT_EXPONENT = -78  # above what layers write there, two below what the last norm makes 1
NEVER_EXPONENT = 12
RMS_OF_MANTISSAS = 1.5275  # of a uniform value in [1, 2)
RMS_OF_NIBBLES = 4.61  # of 0..15 around 7.5


class RandomBits:
    """A block of random bits read cyclically, from a place that a tensor's name fixes."""

    def __init__(self, seed: int) -> None:
        generator = np.random.Generator(np.random.SFC64(seed))
        self._words = generator.integers(0, 1 << 16, RANDOM_WORDS, dtype=np.uint16)
        self._floats: dict[int, np.ndarray] = {}
        self._seed = seed

    def start(self, name: str) -> int:
        return zlib.crc32(f"{self._seed}/{name}".encode()) % RANDOM_WORDS

    @staticmethod
    def _cycle(source: np.ndarray, at: int, count: int) -> np.ndarray:
        out = np.empty(count, dtype=source.dtype)
        filled = 0
        while filled < count:
            begin = (at + filled) % len(source)
            take = min(count - filled, len(source) - begin)
            out[filled : filled + take] = source[begin : begin + take]
            filled += take
        return out

    def words(self, at: int, count: int) -> np.ndarray:
        """uint16 [count] of random bits."""
        return self._cycle(self._words, at, count)

    def bf16(self, exponent: int, at: int, count: int) -> np.ndarray:
        """bf16 bits [count] of random sign and mantissa and one exponent."""
        if exponent not in self._floats:
            fixed = np.uint16((exponent + 127) << 7)
            self._floats[exponent] = (self._words & np.uint16(0x807F)) | fixed
        return self._cycle(self._floats[exponent], at, count)


@dataclass(frozen=True)
class Placement:
    """A large matrix [out, in]: which row and column of the small one lands where."""

    name: str
    out_src: np.ndarray
    in_src: np.ndarray
    noise_rms: float = 0.0  # of the fill that writes live channels; 0: negligible
    writes_residual: bool = False
    # Rows without a source read next to nothing: q_proj's, since the unused dimensions of a live
    # head are summed into its scores.
    quiet_rows: bool = False
    last_column: np.ndarray | None = None  # bf16 bits [out] of an input that carries a constant

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.out_src), len(self.in_src)


def bf16_matrix(
    place: Placement, small_bits: np.ndarray | None, live_rows: np.ndarray, random: RandomBits
) -> PlannedTensor:
    """A bf16 matrix. `small_bits` uint16 [out, in] of the small model, None in an added layer.

    `live_rows` says which rows write live channels, where noise may go.
    """
    rows, cols = place.shape
    exponent = NEGLIGIBLE_EXPONENT if place.writes_residual else USUAL_EXPONENT
    in_live = np.flatnonzero(place.in_src != NOTHING)

    def blocks() -> Iterator[np.ndarray]:
        step = max(1, BLOCK_BYTES // (2 * cols))
        at = random.start(place.name)
        for begin in range(0, rows, step):
            end = min(rows, begin + step)
            block = random.bf16(exponent, at + begin * cols, (end - begin) * cols)
            block = block.reshape(end - begin, cols)
            noisy = np.flatnonzero(live_rows[begin:end])
            if place.noise_rms > 0 and len(noisy):
                bits = random.bf16(0, at + begin * cols + 1, len(noisy) * cols)
                values = (bits.astype(np.uint32) << 16).view(np.float32)
                scaled = to_bf16_bits(values * (place.noise_rms / RMS_OF_MANTISSAS))
                block[noisy] = scaled.reshape(len(noisy), cols)
            source = place.out_src[begin:end]
            if place.quiet_rows:
                quiet = np.flatnonzero(source == NOTHING)
                bits = random.bf16(NEGLIGIBLE_EXPONENT, at + begin, len(quiet) * len(in_live))
                block[np.ix_(quiet, in_live)] = bits.reshape(len(quiet), len(in_live))
            if small_bits is not None:
                out_live = np.flatnonzero(source != NOTHING)
                if len(out_live):
                    live = small_bits[np.ix_(source[out_live], place.in_src[in_live])]
                    block[np.ix_(out_live, in_live)] = live
            if place.last_column is not None:
                block[:, -1] = place.last_column[begin:end]
            yield block

    return PlannedTensor(f"{place.name}.weight", "BF16", (rows, cols), blocks)


def vector(
    name: str,
    source: np.ndarray,
    values: np.ndarray | None,
    exponent: int,
    random: RandomBits,
    dtype: str = "BF16",
    last: float | None = None,
) -> PlannedTensor:
    """A norm weight or bias: f32 `values` of the small model where they land, else random.

    `dtype` is BF16 or F32; F32 keeps norm weights exact where bf16 would round them again. `last`,
    a power of two, is the last value.
    """

    def blocks() -> Iterator[np.ndarray]:
        bits = random.bf16(exponent, random.start(name), len(source))
        if last is not None:
            bits[-1:] = to_bf16_bits(np.array([last]))
        live = np.flatnonzero(source != NOTHING)
        if dtype == "F32":
            out = to_float32(bits, "BF16")
            if values is not None:
                out[live] = values[source[live]]
            yield out
            return
        if values is not None and len(live):
            bits[live] = to_bf16_bits(values)[source[live]]
        yield bits

    return PlannedTensor(name, dtype, (len(source),), blocks)


def vocabulary_constant(vocab: np.ndarray) -> np.ndarray:
    """bf16 bits [vocab] of the constant's channel in embedding and head: see the file's top."""
    live, never = 2.0**CONSTANT_EXPONENT, -(2.0**NEVER_EXPONENT)
    return to_bf16_bits(np.where(vocab == NOTHING, never, live).astype(np.float32))


@dataclass(frozen=True)
class LiveGroups:
    """The groups of the large input dimension that hold live inputs, and their int4 content."""

    groups: np.ndarray  # indices of these groups, ascending
    linear: AwqLinear  # q [len(groups) * GROUP, small out]
    carried: bool  # taken over bit for bit, not rounded anew


def live_groups(place: Placement, small: AwqLinear | np.ndarray, row_factor: float) -> LiveGroups:
    """Int4 content of the live groups, from int4 (carried over if groups allow it) or f32.

    A group is carried over when all of its live inputs come from one group of the small model;
    inputs without a source get the zero point, which is exactly no weight.
    """
    by_group = place.in_src.reshape(-1, GROUP)
    groups = np.flatnonzero((by_group != NOTHING).any(axis=1))
    compact = by_group[groups]
    position = np.flatnonzero(compact.ravel() != NOTHING)
    source = compact.ravel()[position]
    if isinstance(small, AwqLinear) and small.group_size == GROUP:
        origin = np.where(compact == NOTHING, NOTHING, compact // GROUP)
        first = origin.max(axis=1)
        if ((origin == NOTHING) | (origin == first[:, None])).all():
            zeros = small.zeros[first]
            q = np.repeat(zeros, GROUP, axis=0)
            q[position] = small.q[source]
            scales = small.scales[first]
            if row_factor != 1.0:
                scales = (scales.astype(np.float32) * np.float32(row_factor)).astype(np.float16)
            return LiveGroups(groups, AwqLinear(q, zeros, scales), True)
    weight = small.dequantize() if isinstance(small, AwqLinear) else small
    spread = np.zeros((weight.shape[0], len(groups) * GROUP), dtype=np.float32)
    spread[:, position] = weight[:, source] * np.float32(row_factor)
    return LiveGroups(groups, awq_format.quantize(spread, GROUP), False)


def awq_matrix(
    place: Placement, live: LiveGroups | None, live_rows: np.ndarray, random: RandomBits
) -> list[PlannedTensor]:
    """qweight, qzeros and scales of one linear; `live` is None in an added layer."""
    out_dim, in_dim = place.shape
    if in_dim % GROUP or out_dim % 8:
        raise ValueError(
            f"{place.name}: {out_dim} x {in_dim} does not divide into groups of "
            f"{GROUP} inputs and words of eight outputs"
        )
    groups, words = in_dim // GROUP, out_dim // 8
    out_live = np.flatnonzero(place.out_src != NOTHING)
    source = place.out_src[out_live]
    at = random.start(place.name)
    slot_of = np.full(groups, NOTHING, dtype=np.int64)
    if live is not None:
        slot_of[live.groups] = np.arange(len(live.groups))

    def random_words(begin: int, rows: int) -> np.ndarray:
        bits = random.words(at + begin * words * 2, rows * words * 2)
        return bits.view(np.int32).reshape(rows, words)

    def weight_blocks() -> Iterator[np.ndarray]:
        for group_idx in range(groups):
            block = random_words(group_idx * GROUP, GROUP)
            slot = slot_of[group_idx]
            if live is not None and slot != NOTHING:
                nibbles = awq_format.unpack_nibbles(block)
                rows = live.linear.q[slot * GROUP : (slot + 1) * GROUP]
                nibbles[:, out_live] = rows[:, source]
                block = awq_format.pack_nibbles(nibbles)
            yield block

    def zero_blocks() -> Iterator[np.ndarray]:
        nibbles = awq_format.unpack_nibbles(random_words(in_dim + 1, groups))
        if place.noise_rms > 0:
            nibbles[:, live_rows] = 8
        if live is not None:
            nibbles[np.ix_(live.groups, out_live)] = live.linear.zeros[:, source]
        yield awq_format.pack_nibbles(nibbles)

    def scale_blocks() -> Iterator[np.ndarray]:
        scales = np.zeros((groups, out_dim), dtype=np.float16)
        if place.noise_rms > 0:
            scales[:, live_rows] = place.noise_rms / RMS_OF_NIBBLES
        if live is not None:
            scales[np.ix_(live.groups, out_live)] = live.linear.scales[:, source]
        yield scales

    return [
        PlannedTensor(f"{place.name}.qweight", "I32", (in_dim, words), weight_blocks),
        PlannedTensor(f"{place.name}.qzeros", "I32", (groups, words), zero_blocks),
        PlannedTensor(f"{place.name}.scales", "F16", (groups, out_dim), scale_blocks),
    ]
