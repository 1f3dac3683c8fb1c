"""Quantizes a Llama, Mistral, Qwen2 or Qwen3 checkpoint to AWQ int4 in AutoAWQ's "gemm" layout.

Activation-aware: inputs of large magnitude get finer steps by a scale that is folded into the
layer that produces them (Lin et al., AWQ, 2023), searched per block against the outputs on
calibration text; then each group's range is shrunk where that lowers the error the inputs see.
Runs layer by layer, on a GPU or the CPU. Needs torch, transformers, tokenizers.

example: quantize_awq.py runs/target-bf16 runs/target-awq --calibration corpus/val_code.txt
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np
import torch

import awq_format
import checkpoint_writer
import safetensors_io

TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "generation_config.json",
)
ALPHA_STEPS = 20  # exponents tried: 0, 1/20 .. 19/20
SHRINKS = (1.0, 0.95, 0.9, 0.85, 0.8)
ROWS_KEPT = 2048  # calibration rows a linear keeps for the scale search


@dataclass
class Block:
    """Linears that share an input, and the parameter of the layer that produces it."""

    producer: torch.nn.Module
    linears: list[torch.nn.Linear]
    kind: str  # "norm": weight [in]; "rows": a linear's rows; "values": v_proj's rows, grouped
    heads_per_kv: int = 1
    head_dim: int = 0


@dataclass
class Quantized:
    """Integer weights of one linear, [out, in / group, group] and [out, in / group]."""

    q: torch.Tensor
    zeros: torch.Tensor
    scales: torch.Tensor

    def dequantize(self) -> torch.Tensor:
        return ((self.q - self.zeros[..., None]) * self.scales[..., None]).flatten(1)


def round_to_int4(weight: torch.Tensor, group: int, shrink: float = 1.0) -> Quantized:
    """Groups of `group` inputs to 0..15 with a zero point; the range always contains zero."""
    grouped = weight.float().unflatten(1, (-1, group))
    low = grouped.amin(-1).clamp(max=0) * shrink
    high = grouped.amax(-1).clamp(min=0) * shrink
    scales = ((high - low).clamp(min=1e-5) / awq_format.MAX_Q).half().float()
    zeros = (-low / scales).round().clamp(0, awq_format.MAX_Q)
    q = ((grouped / scales[..., None]).round() + zeros[..., None]).clamp(0, awq_format.MAX_Q)
    return Quantized(q, zeros, scales)


def best_rounding(weight: torch.Tensor, second_moment: torch.Tensor, group: int) -> Quantized:
    """Per group the shrink of the range whose error, weighted by the inputs' power, is least."""
    best: Quantized | None = None
    best_error = torch.empty(0)
    power = second_moment.unflatten(0, (-1, group))
    for shrink in SHRINKS:
        tried = round_to_int4(weight, group, shrink)
        error = tried.dequantize().sub_(weight).square_().unflatten(1, (-1, group))
        error = (error * power).sum(-1)
        if best is None:
            best, best_error = tried, error
            continue
        better = error < best_error
        best_error = torch.where(better, error, best_error)
        best = Quantized(
            torch.where(better[..., None], tried.q, best.q),
            torch.where(better, tried.zeros, best.zeros),
            torch.where(better, tried.scales, best.scales),
        )
    assert best is not None
    return best


def blocks_of(layer: torch.nn.Module, config) -> list[Block]:
    attention, mlp = layer.self_attn, layer.mlp
    head_dim = attention.head_dim
    heads_per_kv = config.num_attention_heads // config.num_key_value_heads
    return [
        Block(
            layer.input_layernorm, [attention.q_proj, attention.k_proj, attention.v_proj], "norm"
        ),
        Block(attention.v_proj, [attention.o_proj], "values", heads_per_kv, head_dim),
        Block(layer.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj], "norm"),
        Block(mlp.up_proj, [mlp.down_proj], "rows"),
    ]


def _fold(block: Block, scale: torch.Tensor) -> None:
    """Multiplies the linears' columns by `scale` [in] and divides the producer by it."""
    for linear in block.linears:
        linear.weight.data.mul_(scale)
    if block.kind == "values":
        heads = scale.view(-1, block.heads_per_kv, block.head_dim)
        scale = heads[:, 0].reshape(-1)
    weight = block.producer.weight.data
    weight.div_(scale if block.kind == "norm" else scale[:, None])
    bias = getattr(block.producer, "bias", None)
    if block.kind != "norm" and bias is not None:
        bias.data.div_(scale)


def search_scale(block: Block, inputs: torch.Tensor, group: int) -> None:
    """Finds the scale of a block's input that rounding likes best, and folds it in."""
    magnitude = inputs.abs().mean(0)
    if block.kind == "values":  # heads that share a value head share its scale
        heads = magnitude.view(-1, block.heads_per_kv, block.head_dim)
        magnitude = heads.mean(1, keepdim=True).expand_as(heads).reshape(-1)
    magnitude = magnitude.clamp(min=1e-4)
    wanted = [inputs @ linear.weight.data.float().T for linear in block.linears]
    best_error, best_scale = float("inf"), torch.ones_like(magnitude)
    for step in range(ALPHA_STEPS):
        scale = magnitude.pow(step / ALPHA_STEPS)
        scale = scale / (scale.max() * scale.min()).sqrt()
        error = 0.0
        for linear, want in zip(block.linears, wanted):
            rounded = round_to_int4(linear.weight.data.float() * scale, group).dequantize()
            error += ((inputs / scale) @ rounded.T - want).square().mean().item()
        if error < best_error:
            best_error, best_scale = error, scale
    _fold(block, best_scale.to(block.linears[0].weight.dtype))


@dataclass
class Recorder:
    """Keeps rows of the inputs that reach a layer's linears, and their mean squares."""

    rows: dict[torch.nn.Linear, list[torch.Tensor]] = field(default_factory=dict)
    handles: list = field(default_factory=list)

    def watch(self, linears: list[torch.nn.Linear], batches: int) -> None:
        for linear in linears:
            self.rows[linear] = []

            def keep(module: torch.nn.Linear, args: tuple) -> None:
                flat = args[0].detach().float().flatten(0, -2)
                stride = max(1, flat.shape[0] * batches // ROWS_KEPT)
                self.rows[module].append(flat[::stride])

            self.handles.append(linear.register_forward_pre_hook(keep))

    def stop(self) -> None:
        for handle in self.handles:
            handle.remove()

    def inputs(self, linear: torch.nn.Linear) -> torch.Tensor:
        return torch.cat(self.rows[linear])


def layer_inputs(model, batches: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[dict]]:
    """What enters the first layer for each batch, and the other arguments each layer is given."""
    entering: list[torch.Tensor] = []
    arguments: list[dict] = [{} for _ in model.model.layers]
    handles = []
    for idx, layer in enumerate(model.model.layers):

        def keep(_module, args, kwargs, idx=idx) -> None:
            if idx == 0:
                entering.append(args[0] if args else kwargs["hidden_states"])
            arguments[idx] = {k: v for k, v in kwargs.items() if k != "hidden_states"}

        handles.append(layer.register_forward_pre_hook(keep, with_kwargs=True))
    with torch.no_grad():
        for batch in batches:
            model.model(batch, use_cache=False)
    for handle in handles:
        handle.remove()
    return entering, arguments


def run_layer(
    layer: torch.nn.Module, hidden: list[torch.Tensor], arguments: dict
) -> list[torch.Tensor]:
    outs = [layer(batch, **arguments) for batch in hidden]
    return [out[0] if isinstance(out, tuple) else out for out in outs]


def quantize_model(model, batches: list[torch.Tensor], group: int) -> dict[str, Quantized]:
    """Scales and rounds every linear but the head; the model is left holding the rounded weights.

    Later layers are calibrated on what the rounded earlier ones put out.
    """
    names = {module: name for name, module in model.named_modules()}
    done: dict[str, Quantized] = {}
    hidden, arguments = layer_inputs(model, batches)
    with torch.no_grad():
        for idx, layer in enumerate(model.model.layers):
            blocks = blocks_of(layer, model.config)
            linears = [linear for block in blocks for linear in block.linears]

            recorder = Recorder()
            recorder.watch(linears, len(batches))
            run_layer(layer, hidden, arguments[idx])
            recorder.stop()
            for block in blocks:
                search_scale(block, recorder.inputs(block.linears[0]), group)
            recorder = Recorder()  # once more: folding has changed what the linears see
            recorder.watch(linears, len(batches))
            run_layer(layer, hidden, arguments[idx])
            recorder.stop()
            for linear in linears:
                power = recorder.inputs(linear).square().mean(0)
                rounded = best_rounding(linear.weight.data.float(), power, group)
                linear.weight.data.copy_(rounded.dequantize())
                done[names[linear]] = Quantized(
                    *(t.to(torch.float32).cpu() for t in (rounded.q, rounded.zeros, rounded.scales))
                )
            hidden = run_layer(layer, hidden, arguments[idx])
            print(f"layer {idx + 1}/{len(model.model.layers)}", flush=True)
    return done


def packed_tensors(
    model, done: dict[str, Quantized], dtype: str
) -> Iterator[checkpoint_writer.PlannedTensor]:
    """Everything model.safetensors holds: int4 triples, and the rest in `dtype`."""
    for name, parameter in model.named_parameters():
        module, _, leaf = name.rpartition(".")
        if module in done and leaf == "weight":
            entry = done[module]
            q = entry.q.flatten(1).T.numpy().astype(np.uint8)
            zeros = entry.zeros.T.numpy().astype(np.uint8)
            yield checkpoint_writer.planned(f"{module}.qweight", "I32", awq_format.pack_nibbles(q))
            yield checkpoint_writer.planned(
                f"{module}.qzeros", "I32", awq_format.pack_nibbles(zeros)
            )
            scales = np.ascontiguousarray(entry.scales.T.numpy().astype(np.float16))
            yield checkpoint_writer.planned(f"{module}.scales", "F16", scales)
        else:
            values = parameter.detach().float().cpu().numpy()
            if dtype == "bfloat16":
                yield checkpoint_writer.planned(name, "BF16", safetensors_io.to_bf16_bits(values))
            else:
                yield checkpoint_writer.planned(name, "F16", values.astype(np.float16))


def quantize_directory(
    source: Path,
    out: Path,
    batches: list[torch.Tensor],
    group: int = 128,
    device: str = "cpu",
    dtype: str = "bfloat16",
):
    """Reads a checkpoint, writes its int4 twin, returns the model with the rounded weights."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32).to(device).eval()
    for name, module in model.named_modules():
        if (
            isinstance(module, torch.nn.Linear)
            and name != "lm_head"
            and (module.in_features % group)
        ):
            raise ValueError(
                f"{source}: {name} has {module.in_features} inputs, "
                f"no multiple of the group of {group}"
            )
    done = quantize_model(model, [batch.to(device) for batch in batches], group)
    out.mkdir(parents=True, exist_ok=True)
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    config["quantization_config"] = awq_format.quantization_config(group)
    config["dtype" if "dtype" in config else "torch_dtype"] = dtype
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, out / name)
    checkpoint_writer.write_checkpoint(out, list(packed_tensors(model, done, dtype)))
    return model


def calibration_batches(
    source: Path, files: list[Path], count: int, length: int
) -> list[torch.Tensor]:
    """`count` sequences of `length` tokens, spread over the files, in batches of four."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    rows: list[list[int]] = []
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")[: 50 * length * count]
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        wanted = -(-count // len(files))
        stride = max(length, (len(ids) - length) // wanted + 1)
        rows += [ids[at : at + length] for at in range(0, len(ids) - length + 1, stride)][:wanted]
    if not rows:
        raise ValueError(f"calibration text is shorter than one sequence of {length} tokens")
    rows = rows[: len(rows) // 4 * 4] or rows[:1]
    return list(torch.tensor(rows).split(4))


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Quantize a checkpoint to AWQ int4 (AutoAWQ's gemm layout).",
        epilog="example: quantize_awq.py runs/target-bf16 runs/target-awq "
        "--calibration corpus/val_code.txt --calibration corpus/val_prose.txt",
    )
    parser.add_argument("source", type=Path, help="checkpoint directory in bf16, f16 or f32")
    parser.add_argument("out", type=Path, help="directory to write")
    parser.add_argument(
        "--calibration",
        type=Path,
        action="append",
        required=True,
        help="text file like what the model will see (may be repeated)",
    )
    parser.add_argument("--group", type=int, default=128, help="inputs that share a scale")
    parser.add_argument("--sequences", type=int, default=32, help="calibration sequences")
    parser.add_argument("--length", type=int, default=512, help="tokens a sequence")
    parser.add_argument(
        "--dtype",
        choices=("bfloat16", "float16"),
        default="bfloat16",
        help="of embeddings, norms and head",
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    batches = calibration_batches(args.source, args.calibration, args.sequences, args.length)
    quantize_directory(args.source, args.out, batches, args.group, args.device, args.dtype)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
