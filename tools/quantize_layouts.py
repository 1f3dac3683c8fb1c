"""Rounds a bf16, f16 or f32 checkpoint to any layout of quantized layers that Forerun reads.

Rounded to nearest, without calibration: for tests and for trying formats. Layouts: AutoAWQ's three
versions, GPTQ, compressed-tensors (packed words, int8) and FP8. --twin writes the decoded values as
a plain f32 checkpoint. Needs numpy.

example: quantize_layouts.py models/demo-draft runs/draft-gptq --layout gptq --group 64 --desc-act
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np

import awq_format
from checkpoint_writer import PlannedTensor, planned, write_model
from safetensors_io import Checkpoint, round_to_bf16, to_bf16_bits

INTEGER_LAYOUTS = ("awq-gemm", "awq-gemv", "awq-gemv-fast", "gptq", "packed", "int8")
LAYOUTS = (*INTEGER_LAYOUTS, "fp8")
LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
FP8_BLOCK = 128
FAST_CHUNK = 64  # inputs of which awq-gemv-fast keeps four outputs together


@dataclass(frozen=True)
class Options:
    layout: str
    bits: int = 4
    group: int = 128  # -1: all inputs
    symmetric: bool = False
    desc_act: bool = False  # inputs sorted by their weights' size
    v2: bool = False  # GPTQ's zero points as they are, not less one
    scales: str = "block"  # FP8: tensor, channel or block
    scale_dtype: str = "F16"


@dataclass(frozen=True)
class Integers:
    q: np.ndarray  # u8 [out, in]
    zeros: np.ndarray  # i32 [out, groups]
    scales: np.ndarray  # f32 [out, groups], values of the scales' dtype
    group_of: np.ndarray  # i32 [in]

    def decoded(self) -> np.ndarray:
        zeros, scales = self.zeros[:, self.group_of], self.scales[:, self.group_of]
        return (self.q.astype(np.int32) - zeros).astype(np.float32) * scales


def rounded_scales(scales: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "F16":
        return scales.astype(np.float16).astype(np.float32)
    return round_to_bf16(scales) if dtype == "BF16" else scales.astype(np.float32)


def scale_tensor(name: str, scales: np.ndarray, dtype: str) -> PlannedTensor:
    if dtype == "BF16":
        return planned(name, dtype, to_bf16_bits(scales))
    numpy_dtype = np.float16 if dtype == "F16" else np.float32
    return planned(name, dtype, np.ascontiguousarray(scales.astype(numpy_dtype)))


def check_width(name: str, width: int, options: Options) -> None:
    """Raises ValueError where the layout has no place for a layer of so many inputs."""
    chunk = FAST_CHUNK if options.layout == "awq-gemv-fast" else 1
    for multiple, of_what in ((options.group, "--group"), (chunk, options.layout)):
        if multiple > 0 and width % multiple:
            raise ValueError(
                f"{name}: found {width} inputs; accepted: a multiple of {multiple} with {of_what}"
            )


def round_integers(weight: np.ndarray, options: Options) -> Integers:
    out, width = weight.shape
    group = width if options.group == -1 else options.group
    group_of = np.arange(width, dtype=np.int32) // group
    if options.desc_act:
        by_size = np.argsort(-np.square(weight).sum(axis=0), kind="stable")
        group_of[by_size] = np.arange(width, dtype=np.int32) // group
    order = np.argsort(group_of, kind="stable")
    grouped = weight[:, order].reshape(out, -1, group)
    most, middle = 2**options.bits - 1, 2 ** (options.bits - 1)
    if options.symmetric:
        steps = np.abs(grouped).max(axis=-1) / (middle - 1)
    else:
        low, high = np.minimum(grouped.min(-1), 0), np.maximum(grouped.max(-1), 0)
        steps = (high - low) / most
    scales = rounded_scales(np.maximum(steps, 1e-5), options.scale_dtype)
    zeros = np.full(scales.shape, middle)
    if not options.symmetric:
        lowest = 1 if options.layout == "gptq" and not options.v2 else 0
        zeros = np.clip(np.rint(-low / scales), lowest, most)
    by_input, zero_of = scales[:, group_of], zeros[:, group_of]
    q = np.clip(np.rint(weight / by_input) + zero_of, 0, most).astype(np.uint8)
    return Integers(q, zeros.astype(np.int32), scales.astype(np.float32), group_of)


def packed_words(values: np.ndarray, bits: int) -> np.ndarray:
    """[rows, n] -> int32 [rows, ceil(n * bits / 32)], the first value in the lowest bits."""
    per = 32 // bits
    filled = np.pad(values.astype(np.uint32), ((0, 0), (0, -values.shape[1] % per)))
    lanes = filled.reshape(values.shape[0], -1, per)
    shifts = (np.arange(per) * bits).astype(np.uint32)
    return np.bitwise_or.reduce(lanes << shifts, axis=-1).astype(np.uint32).view(np.int32)


def _filled(values: np.ndarray, group: int) -> np.ndarray:
    """Columns filled up with zeros to AutoAWQ's width."""
    multiple = 8 * (128 // group if group < 128 else 1)
    return np.pad(values, ((0, 0), (0, -values.shape[1] % multiple)))


def _awq(name: str, made: Integers, options: Options) -> list[PlannedTensor]:
    if options.layout == "awq-gemm":
        return [
            planned(f"{name}.qweight", "I32", awq_format.pack_nibbles(made.q.T)),
            planned(f"{name}.qzeros", "I32", awq_format.pack_nibbles(made.zeros.T)),
            scale_tensor(f"{name}.scales", made.scales.T, options.scale_dtype),
        ]
    group = made.q.shape[1] // made.zeros.shape[1]
    zeros, scales = _filled(made.zeros, group), _filled(made.scales, group)
    if options.layout == "awq-gemv":
        return [
            planned(f"{name}.qweight", "I32", packed_words(made.q, 4)),
            planned(f"{name}.qzeros", "I32", packed_words(zeros, 4)),
            scale_tensor(f"{name}.scales", scales, options.scale_dtype),
        ]
    out, width = made.q.shape
    # In 32 inputs, 8a + 2b + c goes to 8b + 4c + a; then FAST_CHUNK inputs of four outputs lie together.
    lanes = made.q.reshape(out, width // 32, 4, 4, 2).transpose(0, 1, 3, 4, 2).reshape(out, width)
    chunks = lanes.reshape(out // 4, 4, -1, FAST_CHUNK).transpose(0, 2, 1, 3)
    nibbles = chunks.reshape(out // 4, width, 4).astype(np.uint16)
    shifts = np.array([0, 4, 8, 12], dtype=np.uint16)
    words = np.bitwise_or.reduce(nibbles << shifts, axis=-1).astype(np.uint16).view(np.int16)
    return [
        planned(f"{name}.qweight", "I16", words),
        scale_tensor(f"{name}.qzeros", -(scales * zeros).T, "F16"),
        scale_tensor(f"{name}.scales", scales.T, "F16"),
    ]


def _gptq(name: str, made: Integers, options: Options) -> list[PlannedTensor]:
    stored_zeros = (made.zeros - (0 if options.v2 else 1)).T
    return [
        planned(f"{name}.qweight", "I32", packed_words(made.q, options.bits).T.copy()),
        planned(f"{name}.qzeros", "I32", packed_words(stored_zeros, options.bits)),
        scale_tensor(f"{name}.scales", made.scales.T, options.scale_dtype),
        planned(f"{name}.g_idx", "I32", made.group_of),
    ]


def _compressed(name: str, made: Integers, options: Options) -> list[PlannedTensor]:
    tensors = [scale_tensor(f"{name}.weight_scale", made.scales, options.scale_dtype)]
    middle = 2 ** (options.bits - 1)
    if options.layout == "int8":
        bytes_of = (made.q.astype(np.int32) - middle).astype(np.int8)
        tensors.append(planned(f"{name}.weight", "I8", bytes_of))
        zeros = planned(f"{name}.weight_zero_point", "I8", (made.zeros - middle).astype(np.int8))
    else:
        tensors.append(planned(f"{name}.weight_packed", "I32", packed_words(made.q, options.bits)))
        shape = np.array(made.q.shape, dtype=np.int64)
        tensors.append(planned(f"{name}.weight_shape", "I64", shape))
        words = packed_words(made.zeros.T, options.bits).T.copy()
        zeros = planned(f"{name}.weight_zero_point", "I32", words)
    if not options.symmetric:
        tensors.append(zeros)
    if options.desc_act:
        tensors.append(planned(f"{name}.weight_g_idx", "I32", made.group_of))
    return tensors


def e4m3_values() -> np.ndarray:
    """f32 [256]: what each code of float8 e4m3 stands for."""
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    small = np.ldexp(mantissa.astype(np.float32), -9)
    values = np.where(exponent == 0, small, np.ldexp(8.0 + mantissa, exponent - 10))
    values[(codes & 127) == 127] = np.nan
    return np.where(codes & 128, -values, values).astype(np.float32)


def round_fp8(name: str, weight: np.ndarray, options: Options):
    out, width = weight.shape
    rows, columns = {
        "tensor": (out, width), "channel": (1, width), "block": (FP8_BLOCK, FP8_BLOCK)
    }[options.scales]  # fmt: skip
    filled = np.pad(np.abs(weight), ((0, -out % rows), (0, -width % columns)))
    blocks = filled.reshape(filled.shape[0] // rows, rows, filled.shape[1] // columns, columns)
    largest = np.maximum(blocks.max(axis=(1, 3)), 1e-12)
    scales = rounded_scales(largest / 448.0, options.scale_dtype)
    by_weight = np.repeat(np.repeat(scales, rows, 0), columns, 1)[:out, :width]
    values = e4m3_values()
    positive = values[:127]
    wanted = np.abs(weight / by_weight).clip(max=448.0)
    above = np.searchsorted(positive, wanted).clip(max=126)
    below = (above - 1).clip(min=0)
    nearer_below = wanted - positive[below] < positive[above] - wanted
    codes = np.where(nearer_below, below, above).astype(np.uint8)
    codes |= np.where(np.signbit(weight), 128, 0).astype(np.uint8)
    suffix = "weight_scale_inv" if options.scales == "block" else "weight_scale"
    stored = scales.reshape(1) if options.scales == "tensor" else scales
    tensors = [
        planned(f"{name}.weight", "F8_E4M3", codes),
        scale_tensor(f"{name}.{suffix}", stored, options.scale_dtype),
    ]
    return tensors, values[codes] * by_weight


def quantized(name: str, weight: np.ndarray, options: Options):
    """The tensors of one layer, and f32 [out, in]: what they stand for."""
    if options.layout == "fp8":
        return round_fp8(name, weight, options)
    check_width(name, weight.shape[1], options)
    made = round_integers(weight, options)
    write = {"gptq": _gptq, "packed": _compressed, "int8": _compressed}.get(options.layout, _awq)
    return write(name, made, options), made.decoded()


def quantization_config(options: Options) -> dict:
    layout = options.layout
    if layout.startswith("awq"):
        config = awq_format.quantization_config(options.group)
        return config | {"version": layout.removeprefix("awq-").replace("-", "_")}
    if layout == "gptq":
        return {
            "quant_method": "gptq",
            "bits": options.bits,
            "group_size": options.group,
            "desc_act": options.desc_act,
            "sym": options.symmetric,
            "checkpoint_format": "gptq_v2" if options.v2 else "gptq",
        }
    if layout == "fp8":
        block = [FP8_BLOCK, FP8_BLOCK] if options.scales == "block" else None
        return {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": block,
            "modules_to_not_convert": ["lm_head"],
        }
    in_groups = options.group != -1
    weights = {
        "num_bits": options.bits,
        "type": "int",
        "symmetric": options.symmetric,
        "strategy": "group" if in_groups else "channel",
        "group_size": options.group if in_groups else None,
        "actorder": "group" if options.desc_act else None,
    }
    return {
        "quant_method": "compressed-tensors",
        "format": "int-quantized" if layout == "int8" else "pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
        "ignore": ["lm_head"],
    }


def quantize_directory(source: Path, out: Path, options: Options, twin: Path | None = None) -> int:
    """Writes the checkpoint and its decoded twin; returns the tensors' bytes of the former."""
    checkpoint = Checkpoint(source)
    tensors: list[PlannedTensor] = []
    plain: list[PlannedTensor] = []
    for name, info in checkpoint.tensors.items():
        module, _, leaf = name.rpartition(".")
        if leaf == "weight" and module.rpartition(".")[2] in LINEARS:
            made, decoded = quantized(module, checkpoint.float32(name), options)
            tensors += made
            if twin is not None:
                plain.append(planned(name, "F32", decoded))
        else:
            kept = planned(name, info.dtype, checkpoint.raw(name))
            tensors.append(kept)
            plain.append(kept)
    config = {k: v for k, v in checkpoint.config.items() if k != "quantization_config"}
    size = write_model(out, tensors, config | {"quantization_config": quantization_config(options)})
    if twin is not None:
        write_model(twin, plain, config)
    for directory in [out] + ([twin] if twin is not None else []):
        for file in source.iterdir():
            if file.is_file() and file.name != "config.json" and ".safetensors" not in file.name:
                shutil.copy(file, directory / file.name)
    return size


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, help="checkpoint directory in bf16, f16 or f32")
    parser.add_argument("out", type=Path, help="directory to write")
    parser.add_argument("--twin", type=Path, help="directory for the decoded values in f32")
    parser.add_argument("--layout", choices=LAYOUTS, required=True)
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4, help="gptq and packed")
    parser.add_argument("--group", type=int, default=128, help="inputs a scale; -1: all")
    parser.add_argument("--symmetric", action="store_true", help="without zero points")
    parser.add_argument("--desc-act", action="store_true", help="sorted inputs: gptq and packed")
    parser.add_argument("--v2", action="store_true", help="gptq: zero points as they are")
    parser.add_argument("--scales", choices=("tensor", "channel", "block"), default="block")
    parser.add_argument("--scale-dtype", choices=("F16", "BF16", "F32"), default="F16")
    args = parser.parse_args()
    if args.layout.startswith("awq") and (args.bits != 4 or args.symmetric or args.desc_act):
        parser.error("awq: 4 bits with zero points, in order")
    if args.layout.startswith("awq-gemv") and args.group < 128 and args.group not in (-1, 32, 64):
        parser.error(
            f"--group: found {args.group}; accepted with {args.layout}: -1, 32, 64, 128..."
        )
    if args.group == 0 or args.group < -1:
        parser.error(f"--group: found {args.group}; accepted: -1 (all inputs), or from 1 on")
    options = Options(
        layout=args.layout,
        bits=8 if args.layout == "int8" else args.bits,
        group=args.group,
        symmetric=args.symmetric,
        desc_act=args.desc_act,
        v2=args.v2,
        scales=args.scales,
        scale_dtype="F16" if args.layout == "awq-gemv-fast" else args.scale_dtype,
    )
    try:
        size = quantize_directory(args.source, args.out, options, args.twin)
    except ValueError as refused:
        parser.error(str(refused))
    print(f"{args.out}: {size / 1e6:.1f} MB of weights")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
