#!/usr/bin/env python3
"""Tokens a step and tokens a second of a chat model with a trained head, by category of prompt, beside guesses from
the text alone and plain decoding: each prompt is answered by every method in turn, at temperature 0 and 0.8.

    bench/measure_heads.py --model SmolLM2-135M-Instruct.Q4_1.gguf --head DIR \\
        --prompts ../shared/data/prompts/spec_bench.jsonl --count 78 --out bench/results/heads-DATE.json

--prompts: a line of JSON each, with "category" and "turns"; the first turn is asked, without history. With --count
the same number of each category is drawn, evenly spread. The answers of all methods must be equal, at 0.8 too, since
a prompt's number is the seed of its request; the script fails where they are not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from recorder import ROOT, commit, machine, relative

sys.path.insert(0, str(ROOT / "tools"))
import spec_bench  # noqa: E402

TEMPERATURES = (0.0, 0.8)
PLAIN = {"strategy": "autoregressive"}
METHODS = {
    "plain": PLAIN,
    "text": {"strategy": "serial_tree", "source": "suffix"},
    "chain5": {"strategy": "serial_tree", "source": "model", "shape": "chain", "draft_depth": 5},
    "tree16": {
        "strategy": "serial_tree",
        "source": "model",
        "shape": "best",
        "verify_tokens": 16,
        "draft_width": 8,
        "draft_depth": 7,
    },
    "auto": {"strategy": "auto"},
}


def read_prompts(path: Path, count: int | None) -> list[dict]:
    """The prompts with their group; their number in the file is the seed."""
    groups: dict[str, list[dict]] = {}
    for number, line in enumerate(path.read_text().splitlines()):
        read = json.loads(line)
        group = spec_bench.group_of(read["category"])
        groups.setdefault(group, []).append(
            {"number": number, "group": group, "text": read["turns"][0]}
        )
    drawn = []
    each = len(max(groups.values(), key=len)) if count is None else max(1, count // len(groups))
    for members in groups.values():
        taken = min(each, len(members))
        drawn += [members[place * len(members) // taken] for place in range(taken)]
    return drawn


@contextlib.contextmanager
def serving(forerun: Path, model: str, head: str, flags: list[str]) -> Iterator[str]:
    """A server on a port of its own; yields its address."""
    command = [str(forerun), "serve", "--model", model, "--draft", head, "--port", "0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            for line in server.stdout:
                found = re.search(r"http://[\d.]+:\d+", line)
                if found:
                    yield found.group()
                    return
            raise SystemExit("the server did not start: see above")
        finally:
            server.terminate()


def ask(
    address: str, model: str, prompt: dict, temperature: float, method: str, tokens: int
) -> dict:
    speculation = METHODS[method]
    options = {key: value for key, value in speculation.items() if key != "strategy"}
    body = {
        "model": Path(model).stem if model.endswith(".gguf") else Path(model).name,
        "messages": [{"role": "user", "content": prompt["text"]}],
        "temperature": temperature,
        "seed": prompt["number"],
        "max_tokens": tokens,
        # A prompt that another method has read without the head would come from the cache without
        # the head's KV.
        "cache_salt": method,
        "speculation": {"strategy": speculation["strategy"], **options},
    }
    request = urllib.request.Request(
        address + "/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=600) as response:
        answer = json.load(response)
    usage = answer["usage"]
    steps = usage["speculation"]
    return {
        "text": answer["choices"][0]["message"]["content"],
        "tokens": usage["completion_tokens"] - 1,  # behind the one that the prompt's Step gives
        "steps": steps["target_steps"],
        "seconds": steps["decode_s"],
    }


def cell(rows: list[dict], method: str) -> dict:
    """Sums over prompts, and a 95% interval of tokens a step by drawing prompts anew."""
    mine = [row[method] for row in rows]
    tokens = sum(each["tokens"] for each in mine)
    steps = sum(each["steps"] for each in mine)
    found = {"tokens": tokens, "steps": steps, "tokens_a_step": tokens / max(1, steps)}
    draw = random.Random(1)
    ratios = []
    for _ in range(400):
        again = draw.choices(mine, k=len(mine))
        ratios.append(sum(a["tokens"] for a in again) / max(1, sum(a["steps"] for a in again)))
    cuts = statistics.quantiles(ratios, n=40)
    found["interval"] = [cuts[0], cuts[-1]]
    seconds = sum(each["seconds"] for each in mine)
    plain = sum(row["plain"]["seconds"] for row in rows) if "plain" in rows[0] else 0.0
    found["tokens_a_second"] = tokens / seconds if seconds > 0 else 0.0
    found["over_plain"] = plain / seconds if seconds > 0 else 0.0
    return found


def tabulate(rows: list[dict], methods: list[str]) -> dict:
    groups = sorted({row["group"] for row in rows}) + ["all"]
    table = {}
    for group in groups:
        chosen = [row for row in rows if group in ("all", row["group"])]
        table[group] = {method: cell(chosen, method) for method in methods}
    return table


def show(temperature: float, table: dict, methods: list[str]) -> None:
    print(f"\ntemperature {temperature}: tokens a step (tokens/s over plain decoding)")
    print("category".ljust(16), *[method.rjust(16) for method in methods])
    for group, cells in table.items():
        shown = [f"{c['tokens_a_step']:.2f} ({c['over_plain']:.2f}x)" for c in cells.values()]
        print(group.ljust(16), *[text.rjust(16) for text in shown])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--forerun", type=Path, default=ROOT / "build/cpu-release/bin/forerun")
    parser.add_argument("--model", required=True)
    parser.add_argument("--head", required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument(
        "--count", type=int, help="prompts, of all categories together; default: all"
    )
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--temperatures", nargs="+", type=float, default=list(TEMPERATURES))
    parser.add_argument(
        "--at-once", type=int, default=1, help="requests; with more than 1 times mean nothing"
    )
    parser.add_argument("--flags", default="", help="further flags of forerun serve, in one text")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no prompt after that"
    )
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()

    prompts = read_prompts(args.prompts, args.count)
    random.Random(7).shuffle(prompts)  # a run that is cut short has some of each category
    until = time.monotonic() + args.seconds
    record = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": machine(),
        "commit": commit(),
        "model": Path(args.model).name,
        "head": Path(args.head).name,
        "flags": args.flags,
        "tokens": args.tokens,
        "at_once": args.at_once,
        "sections": [],
    }
    with serving(args.forerun, args.model, args.head, args.flags.split()) as address:
        for temperature in args.temperatures:
            rows = []
            share = (
                until if temperature == args.temperatures[-1] else (time.monotonic() + until) / 2
            )

            def answer(
                prompt: dict, temperature: float = temperature, share: float = share
            ) -> None:
                if time.monotonic() > share:
                    return
                row = {"group": prompt["group"]}
                for method in args.methods:
                    row[method] = ask(address, args.model, prompt, temperature, method, args.tokens)
                texts = {row[method].pop("text") for method in args.methods}
                if len(texts) > 1:
                    raise SystemExit(f"prompt {prompt['number']}: answers differ: {texts}")
                rows.append(row)

            with ThreadPoolExecutor(args.at_once) as pool:
                list(pool.map(answer, prompts))
            if len(rows) < 2:
                print(f"temperature {temperature}: no time was left")
                continue
            table = tabulate(rows, args.methods)
            show(temperature, table, args.methods)
            record["sections"].append(
                {"temperature": temperature, "prompts": len(rows), "categories": table}
            )
    if args.out:
        args.out.write_text(json.dumps(record, indent=1) + "\n")
        print(f"recorded in {relative(str(args.out))}")


if __name__ == "__main__":
    main()
