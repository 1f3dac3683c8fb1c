#!/usr/bin/env python3
"""Writes block_goldens.txt: what the gguf package decodes and encodes, for block_format_test.cc.

Needs numpy and gguf (0.19). Blocks and floats come from splitmix64, so that the test makes the same
ones; a line holds a hash of the result (64-bit FNV-1a of its bytes, every NaN as 0x7fc00000) and its
beginning.

    make_block_goldens.py > block_goldens.txt

A line of decoding:
    decode FORMAT TYPE WEIGHTS BYTES OFFSETS SET HASH  8 floats as hexadecimal words
TYPE is ggml's number, WEIGHTS and BYTES are those of a block, OFFSETS are where the block's f16
numbers begin ("-": none). There are 64 blocks a line, whose bytes are those of
splitmix64(TYPE), the lowest byte of a number first. SET says what becomes of the f16 numbers:
    any      nothing
    finite   bit 14 is cleared: below 2 in magnitude
    special  number j of block i becomes SPECIAL[(i >> 3 j) & 7]

A line of encoding:
    encode FORMAT SET HASH  the first 8 bytes, hexadecimal
There are 64 blocks of 32 floats; r is the next number of splitmix64(ggml's type of the format) and
i the block. SET is one of
    unit      ((r >> 40) - 2^23) 2^-23
    wide      ((r >> 40) - 2^23) 2^(i - 63): scales from below f16's smallest number to beyond f16
    large     ((r >> 40) - 2^23) 2^103
    tiny      ((r >> 40) - 2^23) 2^-143: scales are subnormal in f32
    halves    i even: (r mod 509 - 254) / 2, the first one 127; i odd: (r mod 31 - 16) / 2, the
              first two -8 and 7: ties of rounding. Where i mod 4 is 2 or 3, these times
              1 + (2 i + 1) / 2048, which makes scales ties of f16
    constant  0, -0, 1, -1 for i mod 4 = 0 to 3
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

MASK = (1 << 64) - 1
BLOCKS = 64
SPECIAL = (0x0000, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E01)
OFFSETS = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "IQ4_NL": (0,),
    "IQ4_XS": (0,),
    "MXFP4": (),
}
ENCODED = ("Q8_0", "Q4_0", "Q4_1")
FLOAT_SETS = ("unit", "wide", "large", "tiny", "halves", "constant")


def splitmix64(state: int) -> Iterator[int]:
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def fnv1a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def block_bytes(
    ggml_type: int, bytes_of_block: int, offsets: tuple[int, ...], kind: str
) -> np.ndarray:
    stream = splitmix64(ggml_type)
    count = BLOCKS * bytes_of_block
    words = [next(stream) for _ in range((count + 7) // 8)]
    blocks = np.array(words, dtype="<u8").view(np.uint8)[:count].reshape(BLOCKS, bytes_of_block)
    for j, offset in enumerate(offsets):
        for i, block in enumerate(blocks):
            if kind == "finite":
                block[offset + 1] &= 0xBF
            elif kind == "special":
                value = SPECIAL[(i >> (3 * j)) & 7]
                block[offset], block[offset + 1] = value & 0xFF, value >> 8
    return blocks


def decode_line(name: str, offsets: tuple[int, ...], kind: str) -> str:
    ggml_type = GGMLQuantizationType[name]
    weights, bytes_of_block = GGML_QUANT_SIZES[ggml_type]
    blocks = block_bytes(int(ggml_type), bytes_of_block, offsets, kind)
    values = quants.dequantize(blocks, ggml_type)
    words = values.astype("<f4").view("<u4").ravel()
    words[np.isnan(values).ravel()] = 0x7FC00000
    listed = ",".join(map(str, offsets)) or "-"
    first = " ".join(f"{word:08x}" for word in words[:8])
    digest = fnv1a(words.tobytes())
    return (
        f"decode {name} {int(ggml_type)} {weights} {bytes_of_block} {listed} {kind}"
        f" {digest:016x} {first}"
    )


def floats(ggml_type: int, kind: str) -> np.ndarray:
    stream = splitmix64(ggml_type)
    values = np.zeros((BLOCKS, 32), dtype=np.float32)
    exponents = {"unit": -23, "large": 103, "tiny": -143}
    for i in range(BLOCKS):
        for w in range(32):
            r = next(stream)
            if kind == "constant":
                values[i, w] = (0.0, -0.0, 1.0, -1.0)[i % 4]
            elif kind == "halves":
                starts = (127.0,) if i % 2 == 0 else (-8.0, 7.0)
                random = (r % 509 - 254) / 2 if i % 2 == 0 else (r % 31 - 16) / 2
                factor = 1 + (2 * i + 1) / 2048 if i % 4 >= 2 else 1
                values[i, w] = (starts[w] if w < len(starts) else random) * factor
            else:
                whole = np.float32((r >> 40) - (1 << 23))
                values[i, w] = np.ldexp(whole, exponents.get(kind, i - 63))
    return values


def encode_line(name: str, kind: str) -> str:
    ggml_type = GGMLQuantizationType[name]
    encoded = quants.quantize(floats(int(ggml_type), kind), ggml_type).tobytes()
    return f"encode {name} {kind} {fnv1a(encoded):016x} {encoded[:8].hex()}"


def main() -> None:
    np.seterr(all="ignore")
    print("# By make_block_goldens.py, which explains the lines.")
    for name, offsets in OFFSETS.items():
        for kind in ("finite", "any", "special") if offsets else ("any",):
            print(decode_line(name, offsets, kind))
    for name in ENCODED:
        for kind in FLOAT_SETS:
            print(encode_line(name, kind))


if __name__ == "__main__":
    main()
