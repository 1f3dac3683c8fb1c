#!/usr/bin/env python3
"""Times llama.cpp beside Forerun on the same weights, the same threads, in turn.

llama.cpp is driven through the C interface of its Python package and only the time inside
`llama_decode` counts, so that Python costs it nothing; Forerun's figures are whole requests. It runs
in a process of its own with OMP_WAIT_POLICY=active (without it its threads now and then sleep at
barriers and it decodes many times slower), which is stopped while Forerun runs.

    pip install llama-cpp-python numpy
    forerun convert models/demo-target /tmp/demo-q4_1.gguf --to q4_1 --embedding bf16
    bench/compare_llama_cpp.py --gguf /tmp/demo-q4_1.gguf --model models/demo-target \
        --draft models/demo-draft --prompts bench/workloads/code.jsonl
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import llama_cpp
import numpy as np

from recorder import machine, record_text

ROOT = Path(__file__).resolve().parent.parent


class LlamaCpp:
    """One model and context; greedy."""

    def __init__(self, path: str, threads: int, context: int) -> None:
        llama_cpp.llama_log_set(_quiet, None)
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(
            path.encode(), llama_cpp.llama_model_default_params()
        )
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = context
        params.n_ubatch = 512
        params.n_threads = threads
        params.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        self.vocab_size = llama_cpp.llama_vocab_n_tokens(
            llama_cpp.llama_model_get_vocab(self.model)
        )

    def decode(self, tokens: list[int]) -> float:
        """Seconds inside llama_decode for `tokens` after what has been decoded before."""
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        start = time.perf_counter()
        code = llama_cpp.llama_decode(self.context, batch)
        llama_cpp.llama_synchronize(self.context)
        elapsed = time.perf_counter() - start
        if code != 0:
            raise RuntimeError(f"llama_decode failed with {code}")
        return elapsed

    def best_token(self) -> int:
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return int(np.argmax(np.ctypeslib.as_array(logits, shape=(self.vocab_size,))))

    def complete(self, prompt: list[int], count: int) -> tuple[list[int], float, float]:
        """Tokens, seconds of the prefill, seconds of the other `count` - 1 steps."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        prefill = self.decode(prompt)
        tokens = [self.best_token()]
        decoding = 0.0
        while len(tokens) < count:
            decoding += self.decode([tokens[-1]])
            tokens.append(self.best_token())
        return tokens, prefill, decoding


@llama_cpp.llama_log_callback
def _quiet(level, text, user_data):  # noqa: ANN001, ARG001
    pass


def serve(path: str, threads: int, context: int) -> None:
    """Answers lines of {"prompt": ids, "count": n} with what complete() returns."""
    model = LlamaCpp(path, threads, context)
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(model.complete(request["prompt"], request["count"])), flush=True)


class LlamaProcess:
    """LlamaCpp in a process that is stopped between calls."""

    def __init__(self, args: argparse.Namespace) -> None:
        command = [
            sys.executable,
            __file__,
            "--gguf",
            args.gguf,
            "--model",
            args.model,
            "--serve",
            "--threads",
            str(args.threads),
            "--context",
            str(args.context),
        ]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_WAIT_POLICY": "active"},
        )
        self.complete([1, 2, 3], 2)

    def complete(self, prompt: list[int], count: int) -> tuple[list[int], float, float]:
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(json.dumps({"prompt": prompt, "count": count}) + "\n")
        self.process.stdin.flush()
        tokens, prefill, decoding = json.loads(self.process.stdout.readline())
        self.process.send_signal(signal.SIGSTOP)
        return tokens, prefill, decoding

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def forerun(args: argparse.Namespace, prompt: str, count: int, strategy: str) -> dict:
    command = [
        str(args.forerun),
        "generate",
        "--model",
        args.model,
        "--prompt",
        prompt,
        "--max-tokens",
        str(count),
        "--temperature",
        "0",
        "--ignore-eos",
        "--json",
        "--strategy",
        strategy,
        "--activations",
        args.activations,
    ]
    if args.draft and strategy != "autoregressive":
        command += ["--draft", args.draft]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def prompt_tokens(args: argparse.Namespace, prompt: str) -> list[int]:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(Path(args.model) / "tokenizer.json")).encode(prompt).ids


def measure(args: argparse.Namespace) -> dict:
    llama = LlamaProcess(args)
    lines = Path(args.prompts).read_text(encoding="utf-8").splitlines()[: args.limit]
    prompts = [json.loads(line)["prompt"] for line in lines]
    long_prompt = ("\n".join(prompts) + "\n") * 64
    figures: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        figures.setdefault(name, []).append(value)

    agree = []
    for prompt in prompts:
        ids = prompt_tokens(args, prompt)
        runs: dict[str, list[float]] = {"llama": [], "autoregressive": [], "serial_tree": []}
        for _ in range(args.repeat):
            tokens, _, seconds = llama.complete(ids, args.count)
            runs["llama"].append((args.count - 1) / seconds)
            for strategy in ("autoregressive", "serial_tree"):
                result = forerun(args, prompt, args.count, strategy)
                runs[strategy].append(result["tokens_per_s"])
            same = [a == b for a, b in zip(tokens, result["tokens"], strict=False)]
            agree.append(same.index(False) if False in same else len(same))
        for name, values in runs.items():
            add(f"{name}_tokens_per_s", max(values))
    ids = prompt_tokens(args, long_prompt)[: args.prefill]
    text = _decode(args, ids)
    count = len(prompt_tokens(args, text))
    for _ in range(args.repeat + 2):
        _, prefill, _ = llama.complete(prompt_tokens(args, text), 1)
        add("llama_prefill_tokens_per_s", count / prefill)
        first = forerun(args, text, 1, "autoregressive")["time_to_first_token_ms"]
        add("prefill_tokens_per_s", 1000.0 * count / first)
    llama.close()
    medians = {name: statistics.median(values) for name, values in figures.items()}
    for name, base in (("autoregressive", "llama"), ("serial_tree", "llama")):
        ratios = [
            a / b
            for a, b in zip(
                figures[f"{name}_tokens_per_s"], figures[f"{base}_tokens_per_s"], strict=True
            )
        ]
        medians[f"{name}_over_llama"] = statistics.median(ratios)
    medians["prefill_over_llama"] = statistics.median(
        a / b
        for a, b in zip(
            figures["prefill_tokens_per_s"], figures["llama_prefill_tokens_per_s"], strict=True
        )
    )
    medians["prefill_tokens"] = count
    medians["median_equal_greedy_tokens"] = statistics.median(agree)
    return medians


def _decode(args: argparse.Namespace, ids: list[int]) -> str:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(Path(args.model) / "tokenizer.json")).decode(ids)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gguf", required=True, help="the weights as llama.cpp reads them")
    parser.add_argument("--model", required=True, help="the same weights as Forerun reads them")
    parser.add_argument("--draft", help="draft model for serial_tree")
    parser.add_argument("--prompts", default=str(ROOT / "bench/workloads/code.jsonl"))
    parser.add_argument("--forerun", default=str(ROOT / "build/cpu-release/bin/forerun"))
    parser.add_argument("--activations", default="bf16", help="Forerun's activations")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--count", type=int, default=128, help="tokens a request")
    parser.add_argument("--prefill", type=int, default=512, help="tokens of the prefill")
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--name", help="what to call this comparison in --out")
    parser.add_argument("--out", help="put the figures into this JSON file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.gguf, args.threads, args.context)
    figures = {key: round(value, 3) for key, value in measure(args).items()}
    for name, value in figures.items():
        print(f"{name:36} {value:12.3f}")
    if args.out:
        path = Path(args.out)
        record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        record[args.name or args.model] = {
            "machine": machine(),
            "commit": subprocess.run(
                ["git", "describe", "--always", "--dirty"],
                cwd=ROOT,
                text=True,
                capture_output=True,
                check=False,
            ).stdout.strip(),
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "command": " ".join(["bench/compare_llama_cpp.py", *sys.argv[1:]]),
            "llama_cpp_python": llama_cpp.__version__,
            "targets": {
                "autoregressive_over_llama": 1.0,
                "prefill_over_llama": 1.0,
                "serial_tree_over_llama": 1.3,
            },
            "figures": figures,
        }
        path.write_text(record_text(record), encoding="utf-8")
    return None


if __name__ == "__main__":
    main()
