"""llama.cpp's `llama-batched-bench` on the weights that Forerun runs: n prompts at once, then n sequences
decoding together. Random prompts, no sampling; it times the prompts as one and the decoding as one."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from recorder import Recorder, relative

# llama.cpp's types with as many bits a weight; if there are several, the fastest one counts.
TYPES = {"bf16": ["bf16"], "int4": ["q4_0", "q4_1"]}


@dataclass(frozen=True)
class LlamaCell:
    """One run: `requests` prompts of prompt_tokens, then `steps` tokens for each."""

    requests: int
    steps: int
    prompt_s: float
    decoding_s: float
    command: str

    @property
    def tokens_per_s(self) -> float:
        """Output tokens over all of the time; each prompt's own result is the first of them."""
        return self.requests * (self.steps + 1) / (self.prompt_s + self.decoding_s)

    @property
    def decoding_tokens_per_s(self) -> float:
        return self.requests * self.steps / self.decoding_s

    def row(self) -> dict:
        """By the names of `forerun bench`'s rows. All first tokens are there once all prompts have been
        read; were each given out at once, the middle one's would come after half of that time."""
        token_ms = 1e3 * self.decoding_s / self.steps
        return {
            "requests": self.requests,
            "tokens_per_s": self.tokens_per_s,
            "decoding_tokens_per_s": self.decoding_tokens_per_s,
            "time_to_first_token_ms": {
                "p50": 1e3 * self.prompt_s * (self.requests + 1) / (2 * self.requests),
                "max": 1e3 * self.prompt_s,
            },
            "between_tokens_ms": {"p50": token_ms, "p99": token_ms, "max": token_ms},
        }


def to_gguf(rec: Recorder, checkpoint: Path, dtype: str) -> Path | None:
    """The checkpoint's weights in this type, beside the other models; made where it is not there."""
    out = Path(rec.args.models) / f"{checkpoint.name}-{dtype}.gguf"
    if out.exists():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    command = [rec.args.forerun, "convert", str(checkpoint), str(out), "--to", dtype]
    return out if rec.attempt([*command, "--embedding", "bf16"]) is not None else None


def run_batched(
    rec: Recorder, gguf: Path, requests: int, prompt_tokens: int, tokens: int
) -> LlamaCell | None:
    """`tokens` a request, of which the prompt gives the first, as in Forerun."""
    steps = tokens - 1
    context = requests * 256 * -(-(prompt_tokens + tokens) // 256)  # it cuts it in equal parts
    where = (
        ["-ngl", "999"]
        if rec.args.devices
        else ["-ngl", "0", "-t", str(rec.args.threads), "-tb", str(rec.args.threads)]
    )
    command = [
        rec.args.llama,
        "-m",
        str(gguf),
        "-c",
        str(context),
        "-b",
        "2048",
        "-ub",
        "512",
        "-npp",
        str(prompt_tokens),
        "-ntg",
        str(steps),
        "-npl",
        str(requests),
        *where,
        "--output-format",
        "jsonl",
    ]
    # Without this variable threads sleep at barriers now and then, which makes decoding many times
    # slower.
    variables = {} if rec.args.devices else {"OMP_WAIT_POLICY": "active"}
    for _ in range(2):  # now and then it ends before its result is written
        text = rec.attempt(command, variables)
        if text is None:
            return None
        if result := re.search(r'{"n_kv_max".*}', text):
            break
    else:
        rec.failed.append({"command": relative(shlex.join(command)), "said": "no result, twice"})
        return None
    times = json.loads(result.group())
    shown = [os.path.basename(rec.args.llama), "-m", gguf.name, *command[3:]]
    return LlamaCell(
        requests,
        steps,
        times["t_pp"],
        times["t_tg"],
        shlex.join([*(f"{k}={v}" for k, v in variables.items()), *shown]),
    )
