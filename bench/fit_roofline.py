#!/usr/bin/env python3
"""Fits what src/planner/gpu_spec.cc says of GPUs: shares of their peaks, and the host's seconds.

    bench/fit_roofline.py            # prints the table, and how well it predicts both halves of the rows
    bench/fit_roofline.py --write    # also writes the table into src/planner/gpu_spec.cc
    bench/fit_roofline.py --own      # the same of one's own engine on H200: narrow heads, drafts, links, rounds

The rows are those of MagicDec's tables (bench/profiles/magicdec.json, all but those of MLC-LLM), or of this project's
records of whole rounds (OWN). Every second row of a table, the first among them, is fitted; the others are held out
(src/planner/roofline_tables_test.cc holds them to what it requires). The formula is that of src/planner/roofline.h.
Needs numpy.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src/planner/gpu_spec.cc"
OWN = ("speculation-cuda-2026-11-23.json", "cuda-magicdec-2026-11-22.json")
SNAPKV_TOKENS = 2049  # the paper's best budgets (section 5.2)
STREAMING_TOKENS = 512

# Models by how their names in magicdec.json begin, longest first.
MODELS = {
    "TinyLlama-1.1B": "tinyllama-1.1b",
    "Llama3.2-1B": "llama-3.2-1b",
    "Llama3.1-8B": "llama-3.1-8b",
    "Llama2-7B-32K": "llama-2-7b-32k",
    "Mistral-7B-v0.3": "mistral-7b-v0.3",
    "Qwen-2.5-7B": "qwen2.5-7b",
    "Qwen-2.5-32B": "qwen2.5-32b",
}

# Bytes/s of the memory, FLOP/s, bytes/s of a link, seconds of an exchange: known_gpus()'s.
PEAKS = {
    "h200": (4.8e12, 989e12, 450e9, 1.4e-6),
    "h100": (3.35e12, 989e12, 450e9, 1.4e-6),
    "a100": (2.039e12, 312e12, 300e9, 1.4e-6),
    "l40": (0.864e12, 181e12, 32e9, 8e-6),
}


@dataclass(frozen=True)
class Constants:
    """GpuEfficiency and HostSeconds of src/planner/gpu_spec.h; the defaults are the H200's that are not fitted."""

    weights: float = 0.95
    attention: float = 0.92
    narrow_attention: float = 0.92
    matrix: float = 0.52
    attention_arithmetic: float = 0.5
    link: float = 1.0
    step: float = 0.0
    layer: float = 12e-6
    sequence: float = 2.5e-6
    draft_sequence: float = 2.5e-6
    round: float = 0.0


# What is fitted: where it starts, and by what factor (its logarithm) it is expected to differ from that. Rows that say
# nothing of a constant leave it where it starts.
PAPERS = {
    "weights": (0.9, 0.1),
    "attention": (0.85, 0.3),
    "matrix": (0.4, 0.6),
    "attention_arithmetic": (0.5, 0.7),
    "step": (2e-4, 1.0),
    "layer": (80e-6, 0.7),
    "sequence": (15e-6, 1.0),
    "round": (1e-3, 0.7),
}
OURS = {
    "narrow_attention": (0.7, 0.4),
    "link": (0.1, 1.5),
    "draft_sequence": (15e-6, 0.7),
    "round": (2e-4, 1.0),
}
# Relative errors that count as one: of a Step's time, and of the speed-up.
STEP_ERROR = 0.1
SPEEDUP_ERROR = 0.03


@dataclass(frozen=True)
class Work:
    """DeviceWork of src/planner/roofline.h."""

    weight_bytes: float
    row_flops: float
    kv_token_bytes: float
    pair_flops: float
    layers: int
    hidden: int
    head_dim: int


@dataclass(frozen=True)
class Row:
    table: str
    gpu: str
    devices: int
    target: Work
    draft: Work
    draft_devices: int
    self_drafting: bool
    batch: int
    context: int
    gamma: int
    budget: int  # tokens that a draft row sees; 0: all
    plain: float  # seconds
    draft_step: float
    verify: float
    tokens_per_round: float
    speedup: float


@dataclass(frozen=True)
class Times:
    plain: float
    draft: float
    verify: float
    speedup: float


def config_of(model: str) -> dict:
    return json.loads((ROOT / f"bench/profiles/models/{model}.json").read_text())


def draft_devices_of(model: str, devices: int) -> int:
    """A draft model is spread over no more devices than it has KV heads, as the paper runs Qwen-2.5-7B on four."""
    return min(devices, config_of(model)["num_key_value_heads"])


def work_of(model: str, devices: int, bytes_per_weight: float = 2.0) -> Work:
    config = config_of(model)
    hidden = config["hidden_size"]
    head_dim = config.get("head_dim", hidden // config["num_attention_heads"])
    layers = config["num_hidden_layers"]
    heads = -(-config["num_attention_heads"] // devices)
    kv_heads = -(-config["num_key_value_heads"] // devices)
    layer = 2 * hidden * (heads + kv_heads) * head_dim
    layer += 3 * hidden * config["intermediate_size"] / devices
    head = config["vocab_size"] * hidden / devices
    return Work(
        weight_bytes=layers * layer * bytes_per_weight + 2.0 * head,
        row_flops=2.0 * (layers * layer + head),
        kv_token_bytes=layers * 2.0 * kv_heads * head_dim * 2.0,
        pair_flops=layers * 4.0 * heads * head_dim,
        layers=layers,
        hidden=hidden,
        head_dim=head_dim,
    )


def step_seconds(
    work: Work, row: Row, constants: Constants, rows: int, seen: int, of_draft: bool
) -> float:
    """A Step of `rows` rows a sequence that see `seen` tokens."""
    bandwidth, flops, link, exchange = PEAKS[row.gpu]
    devices = row.draft_devices if of_draft else row.devices
    attention = constants.attention if work.head_dim >= 128 else constants.narrow_attention
    seconds = work.weight_bytes / (bandwidth * constants.weights)
    seconds += constants.step + work.layers * constants.layer
    a_row = work.row_flops / (flops * constants.matrix)
    if devices > 1:
        seconds += 2 * work.layers * (devices - 1) * exchange
        sent = 2 * work.layers * 2.0 * (devices - 1) / devices * work.hidden * 2.0
        a_row += sent / (link * constants.link)
    seconds += a_row * row.batch * rows
    seconds += work.kv_token_bytes * row.batch * seen / (bandwidth * attention)
    pairs = row.batch * rows * seen
    seconds += constants.attention_arithmetic * work.pair_flops * pairs / flops
    sequence = constants.draft_sequence if of_draft else constants.sequence
    return seconds + sequence * (row.batch - 1)


def predict(row: Row, constants: Constants) -> Times:
    seen = min(row.budget, row.context) if row.budget else row.context
    plain = step_seconds(row.target, row, constants, 1, row.context, False)
    verify = step_seconds(row.target, row, constants, row.gamma + 1, row.context, False)
    draft = step_seconds(row.draft, row, constants, 1, seen, not row.self_drafting)
    token = (row.gamma * draft + verify + constants.round) / row.tokens_per_round
    return Times(plain, draft, verify, plain / token)


def model_named(name: str) -> str:
    return next(model for start, model in MODELS.items() if name.startswith(start))


def paper_rows() -> list[Row]:
    file = json.loads((ROOT / "bench/profiles/magicdec.json").read_text())
    rows = []
    for profile in file["profiles"].values():
        target, draft = file["models"][profile["target"]], file["models"][profile["draft"]]
        devices = target["devices"]
        name = draft["model"]
        itself = "self-speculation" in name
        draft_devices = devices if itself else draft_devices_of(model_named(name), devices)
        budget = SNAPKV_TOKENS if "SnapKV" in name else 0
        if "StreamingLLM" in name or "budget=512" in "".join(profile.get("notes", [])):
            budget = STREAMING_TOKENS
        rows += [
            Row(
                table=each["source"],
                gpu=profile["machine"].split()[-1].lower(),
                devices=devices,
                target=work_of(model_named(target["model"]), devices),
                draft=work_of(model_named(name), draft_devices),
                draft_devices=draft_devices,
                self_drafting=itself,
                batch=each["batch"],
                context=each["prefill"],
                gamma=each["gamma"],
                budget=budget,
                plain=1e-3 * each["t_ar_ms"],
                draft_step=1e-3 * each["gamma_t_d_ms"] / each["gamma"],
                verify=1e-3 * each["t_v_ms"],
                tokens_per_round=each["omega"],
                speedup=each["speedup"],
            )
            for each in profile.get("rounds", [])
        ]
    return rows


def own_rows() -> list[Row]:
    """Rounds of the 8B bf16, through its own view and with a 1B draft of int4 layers."""
    rows = []
    for file in OWN:
        record = json.loads((ROOT / "bench/results" / file).read_text())
        for run in record.get("runs", [record]):
            plain: dict[tuple[int, int], float] = {}
            for each in run["rows"]:
                cell = (each.get("requests", 16), each.get("context", 32000))
                strategy = each["strategy"]
                if strategy == "autoregressive":
                    seconds = 1e-3 * each.get("verify_ms", 0.0)
                    plain[cell] = seconds or cell[0] / each["tokens_per_s"]
                    continue
                if strategy.startswith("hierarchy"):
                    continue
                devices = 2 if "cuda:1" in run.get("command", "") else 1
                itself = strategy == "sparse_self"
                target = work_of("llama-3.1-8b", devices)
                rows.append(
                    Row(
                        table=file,
                        gpu="h200",
                        devices=devices,
                        target=target,
                        draft=target if itself else work_of("llama-3.2-1b", 1, 0.53),
                        draft_devices=devices if itself else 1,
                        self_drafting=itself,
                        batch=cell[0],
                        context=cell[1],
                        gamma=each["gamma"],
                        budget=each.get("budget", 0),
                        plain=plain[cell],
                        draft_step=1e-3 * each["draft_ms"],
                        verify=1e-3 * each["verify_ms"],
                        tokens_per_round=each["tokens_a_round"],
                        speedup=each["speed_up"],
                    )
                )
    return rows


def halves(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Every second row of each table, the first among them; and the others."""
    seen: dict[str, int] = defaultdict(int)
    parts: tuple[list[Row], list[Row]] = ([], [])
    for row in rows:
        parts[seen[row.table] % 2].append(row)
        seen[row.table] += 1
    return parts


def minimum(residuals: Callable[[np.ndarray], np.ndarray], size: int) -> np.ndarray:
    """Levenberg and Marquardt's method, from zero."""
    at = np.zeros(size)
    damping = 1.0
    errors = residuals(at)
    while damping < 1e12:
        nudges = 1e-5 * np.eye(size)
        slopes = np.array([(residuals(at + nudge) - errors) / 1e-5 for nudge in nudges]).T
        normal = slopes.T @ slopes + damping * np.eye(size)
        moved = at - np.linalg.solve(normal, slopes.T @ errors)
        found = residuals(moved)
        if found @ found < (1.0 - 1e-12) * (errors @ errors):
            at, errors, damping = moved, found, damping / 3.0
        else:
            damping *= 4.0
    return at


def fit(rows: list[Row], fixed: Constants, free: dict[str, tuple[float, float]]) -> Constants:
    def constants(at: np.ndarray) -> Constants:
        values = {
            name: start * np.exp(width * by)
            for (name, (start, width)), by in zip(free.items(), at, strict=True)
        }
        if "narrow_attention" not in free:
            values["narrow_attention"] = values["attention"]
        if "draft_sequence" not in free:
            values["draft_sequence"] = values["sequence"]
        return replace(fixed, **{name: float(value) for name, value in values.items()})

    def residuals(at: np.ndarray) -> np.ndarray:
        errors = list(at)
        for row in rows:
            times = predict(row, constants(at))
            steps = (
                times.plain / row.plain,
                times.draft / row.draft_step,
                times.verify / row.verify,
            )
            errors += [np.log(ratio) / STEP_ERROR for ratio in steps]
            errors.append(np.log(times.speedup / row.speedup) / SPEEDUP_ERROR)
        return np.array(errors)

    return constants(minimum(residuals, len(free)))


def accuracy(rows: list[Row], constants: Constants | dict[str, Constants]) -> str:
    errors, signs = [], 0
    for row in rows:
        own = constants[row.gpu] if isinstance(constants, dict) else constants
        predicted = predict(row, own).speedup
        errors.append(abs(predicted / row.speedup - 1.0))
        signs += (predicted > 1.0) == (row.speedup > 1.0)
    within = sum(error <= 0.1 for error in errors)
    return (
        f"{len(rows)} rows: speed-up off by {max(errors):.1%} at worst, {np.mean(errors):.1%} on average, "
        f"{within} within 10%; gain or loss right in {signs}"
    )


def table_line(gpu: str, constants: Constants) -> str:
    def number(name: str) -> str:
        return f".{name} = {float(f'{getattr(constants, name):.3g}')!r}"

    shares = ("weights", "attention", "narrow_attention", "matrix", "attention_arithmetic", "link")
    seconds = ("step", "layer", "sequence", "draft_sequence", "round")

    def struct(names: tuple[str, ...]) -> str:
        return "{" + ",\n      ".join(map(number, names)) + "}"

    return f'    {{"{gpu}",\n     {struct(shares)},\n     {struct(seconds)}}},\n'


def fitted_table() -> tuple[str, str]:
    """The lines of gpu_spec.cc, and how well they predict."""
    fitted, held = halves(paper_rows())
    constants = {
        gpu: fit([row for row in fitted if row.gpu == gpu], Constants(), PAPERS)
        for gpu in ("h100", "a100", "l40")
    }
    lines = "".join(table_line(gpu, each) for gpu, each in constants.items())
    said = [f"fitted: {accuracy(fitted, constants)}"]
    for gpu, each in constants.items():
        said.append(f"held out, {gpu}: {accuracy([r for r in held if r.gpu == gpu], each)}")
    said.append(f"held out: {accuracy(held, constants)}")
    return lines, "\n".join(said)


def written(text: str, lines: str) -> str:
    begin, end = "    // fitted: begin\n", "    // fitted: end\n"
    before, rest = text.split(begin)
    return before + begin + lines + end + rest.split(end)[1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--own", action="store_true")
    args = parser.parse_args()
    if args.own:
        fitted, held = halves(own_rows())
        ours = fit(fitted, Constants(), OURS)
        print(table_line("h200", ours))
        print(f"fitted: {accuracy(fitted, ours)}\nheld out: {accuracy(held, ours)}")
        return
    lines, said = fitted_table()
    print(f"{lines}\n{said}")
    if args.write:
        TABLE.write_text(written(TABLE.read_text(), lines))


if __name__ == "__main__":
    main()
