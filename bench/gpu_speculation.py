"""Speculation on GPUs: a large target with small drafts, both grown from the demo pair."""

from __future__ import annotations

import json
import shlex
import tempfile
from contextlib import suppress
from pathlib import Path

from gpu_models import GpuModel, NotMadeError, on_disk
from recorder import Recorder, gpus, relative

DRAFTS = (
    GpuModel("llama-3.2-1b", "int4", draft=True),
    GpuModel("llama-3.2-3b", "int4", draft=True),
)
# The drafts of a round: a tree of a fixed size; a tree sized by measured costs (perhaps without any
# draft token; serial_tree then also drafts from the text so far); such a tree from the draft model
# alone; or from a draft model with an int4 head (the default for large vocabularies).
SHAPES = {
    "best of 8": [
        "--shape",
        "best",
        "--verify-tokens",
        "8",
        "--draft-width",
        "4",
        "--draft-depth",
        "4",
    ],
    "adaptive": ["--shape", "adaptive"],
    "adaptive, the draft alone": ["--shape", "adaptive", "--source", "model"],
    "adaptive, int4 head": ["--shape", "adaptive", "--draft-weights", "int4_head"],
}
# A pair of the paper accepts about this much; the demo pair's greedy text loops and flatters.
PAPER_TOKENS_PER_STEP = 3.3
TARGETS = {("code", 0.8): 620, ("prose", 0.8): 520, ("code", 0.0): 1000, ("prose", 0.0): 830}
TARGET_REPLAYED = 780


def devices(first: int, count: int) -> str:
    return ",".join(f"cuda:{n}" for n in range(first, first + count))


def placements(count: int) -> list[tuple[str, list[str]]]:
    """Strategy and flags: sequential, the target on all GPUs and the draft on one of them, then concurrent
    on parts of them."""
    used = min(count, 4)
    found = [
        ("serial_tree", ["--target-devices", devices(0, used), "--draft-devices", devices(0, 1)])
    ]
    for draft in {2: [1], 3: [1], 4: [1, 2]}.get(used, []):
        found.append(
            (
                "parallel_tree",
                [
                    "--target-devices",
                    devices(0, used - draft),
                    "--draft-devices",
                    devices(used - draft, draft),
                ],
            )
        )
    return found


def measure_speculation(rec: Recorder) -> None:
    """Greedy and at temperature 0.8, on code and prose, beside plain decoding in the same run."""
    target = GpuModel(rec.args.target, "int4")
    forerun = rec.program("forerun")
    if forerun is None:
        return
    drafts = [draft for draft in DRAFTS if draft.title.split()[0] in (rec.args.drafts or "1B 3B")]
    shapes = rec.args.shapes or list(SHAPES)
    with suppress(NotMadeError), on_disk(rec, target, *drafts) as (target_path, *draft_paths):
        for shape in shapes:
            flags = SHAPES[shape]
            # The shapes without the text as a source run only where the others are fastest.
            few = "alone" in shape
            for draft, draft_path in zip(drafts[:1] if few else drafts, draft_paths):
                for strategy, where in placements(len(gpus()))[: 1 if few else None]:
                    # Plain decoding once a placement: it has no draft.
                    first = draft is drafts[0] and shape == shapes[0]
                    strategies = f"autoregressive,{strategy}" if first else strategy
                    _measure(
                        rec,
                        [
                            str(forerun),
                            "bench",
                            "--model",
                            str(target_path),
                            "--draft",
                            str(draft_path),
                            *where,
                            "--strategies",
                            strategies,
                            *flags,
                        ],
                        f"{target.title} with {draft.title}",
                        shape,
                    )


def _measure(rec: Recorder, command: list[str], pair: str, shape: str) -> None:
    command = [
        *command,
        "--prompts",
        *rec.args.prompts,
        "--limit",
        str(rec.args.limit),
        "--repeat",
        "1",
        "--warmup",
        "1",
        "--max-tokens",
        str(rec.args.tokens),
    ]
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "bench.json"
        if rec.attempt([*command, "--json", str(out)]) is None:
            return
        workloads = json.loads(out.read_text())["workloads"]
    target_at, draft_at = (
        command[command.index(flag) + 1].split(",")
        for flag in ("--target-devices", "--draft-devices")
    )
    place = str(len(target_at))
    if not set(draft_at) <= set(target_at):
        place += f" + {len(draft_at)}"
    shown = relative(shlex.join([Path(command[0]).name, *command[1:]]))
    large = rec.args.target == "llama-3-70b" and len(gpus()) >= 4
    for workload, rows in workloads.items():
        for row in rows:
            kind = "greedy" if row["temperature"] == 0 else f"temperature {row['temperature']:.1f}"
            guesses = row["strategy"] != "autoregressive"
            what = f"{row['strategy']}, {shape}," if guesses else "plain decoding"
            name = f"{pair}, {what} on {place}, {workload}, {kind}"
            at_least = None
            if guesses and large:
                at_least = TARGETS.get((workload.split("_")[-1], round(row["temperature"], 1)))
            # Sequentially, a round also waits for the draft's Steps; concurrently it need not.
            drafting = (
                row["draft_steps_per_step"] * row["draft_ms"] if "serial" in row["strategy"] else 0
            )
            gap_ms = row["step_ms"] - row["target_ms"] - drafting
            rec.add(
                name,
                row["tokens_per_s"],
                "tokens/s",
                shown,
                at_least=at_least,
                note=f"{row['tokens_per_step']:.2f} tokens a step, round {row['step_ms']:.2f} "
                f"ms, target {row['target_ms']:.2f}, draft {row['draft_ms']:.2f}, outside "
                f"of Steps {gap_ms:.3f}"
                + (
                    f"; {row['identical']} of {row['prompts']} texts identical"
                    if any("autoregressive" in word for word in command)
                    else ""
                ),
            )
            rec.rows.append(
                {"pair": pair, "placement": place, "shape": shape, "workload": workload, **row}
            )
            if guesses and shape == next(iter(SHAPES)):
                rec.add(
                    f"{name}, {PAPER_TOKENS_PER_STEP} tokens a step in its round time",
                    1e3 * PAPER_TOKENS_PER_STEP / row["step_ms"],
                    "tokens/s",
                    shown,
                    at_least=TARGET_REPLAYED if at_least else None,
                )
