#!/usr/bin/env python3
"""Measures how neighbours whose grammars read a text in very many ways slow a stream.

`forerun serve` on the demo pair. For each grammar one stream runs alone, then beside `--greedy` requests
of the grammar that are sent again and again, then alone: p50, p99 and the longest of its gaps, in
milliseconds, and how the other requests ended. A plain request takes a share of each Step as well, so the
stream is also measured beside as many requests of a grammar that costs nothing.

    python3 bench/measure_greedy_grammars.py build/cpu-release/apps/forerun/forerun
"""

import argparse
import collections
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

ALTERNATIVES = " | ".join(f"r{i}" for i in range(24))
GRAMMARS = {
    "cheap": "root ::= [a-z ]*",
    "both_sides": "root ::= x\nx ::= [a-z ] | [a-z ] x | [a-z ] x [a-z ]",
    "twice_itself": "root ::= x\nx ::= [a-z ] | [a-z ] x x",
    "three_times": "root ::= x\nx ::= [a-z ] | [a-z ] x x | [a-z ] x x x",
    "nullable": 'root ::= x\nx ::= "" | [a-z ] x y | [a-z ] y x\ny ::= "" | [a-z ] y',
    "nested": "root ::= x\nx ::= [a-z ] y | [a-z ]\ny ::= x z | x\nz ::= x y | y [a-z ]",
    "counted": "root ::= (x | y){1,300}\nx ::= [a-z ] y?\ny ::= [a-z ] x?",
    "alternatives": "root ::= r0\n"
    + "\n".join(f"r{i} ::= [a-z ] ({ALTERNATIVES}) ({ALTERNATIVES})? | [a-z ]" for i in range(24)),
}


def post(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/completions", json.dumps(body), headers)
    return connection.getresponse()


def gaps_of_stream(port, tokens, prompt):
    body = {
        "prompt": prompt,
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "temperature": 0,
    }
    times = []
    lines = []
    for line in post(port, body):
        lines.append(line)
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
    if len(times) < 2:
        raise RuntimeError(f"the stream gave {len(times)} events: {lines[-3:]}")
    return [1e3 * (b - a) for a, b in zip(times, times[1:])]


def summary(gaps):
    ordered = sorted(gaps)

    def at(share):
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    return {"p50": round(at(0.5), 1), "p99": round(at(0.99), 1), "max": round(ordered[-1], 1)}


class Greedy:
    """Requests of one grammar, sent again and again by so many threads."""

    def __init__(self, port, grammar, count):
        self.outcomes = collections.Counter()
        self.stopping = False
        self.threads = [
            threading.Thread(target=self.run, args=(port, grammar, i)) for i in range(count)
        ]

    def run(self, port, grammar, who):
        turn = 0
        while not self.stopping:
            turn += 1
            body = {
                "prompt": f"Once upon a time {who}",
                "grammar": grammar,
                "max_tokens": 60,
                "temperature": 0.9,
                "seed": 100 * who + turn,
            }
            try:
                answer = json.loads(post(port, body).read())
            except OSError as error:
                self.outcomes[str(error)] += 1
                continue
            if "error" in answer:
                self.outcomes[re.sub(r"\d+", "n", answer["error"]["message"])[:110]] += 1
                time.sleep(0.02)
            else:
                self.outcomes[f"{answer['choices'][0]['finish_reason']}"] += 1
                self.outcomes["tokens"] += answer["usage"]["completion_tokens"]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        time.sleep(1.0)
        return self

    def __exit__(self, *_):
        self.stopping = True
        for thread in self.threads:
            thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("forerun")
    parser.add_argument("--model", default=str(ROOT / "models" / "demo-target"))
    parser.add_argument("--draft", default=str(ROOT / "models" / "demo-draft"))
    parser.add_argument("--greedy", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--grammars", default=",".join(GRAMMARS))
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home}
        command = [
            args.forerun,
            "serve",
            "--model",
            args.model,
            "--draft",
            args.draft,
            "--port",
            "0",
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, env=env)
        port = int(re.search(rb":(\d+)", server.stdout.readline()).group(1))
        threading.Thread(target=server.stdout.read, daemon=True).start()
        try:
            gaps_of_stream(port, 50, "A first one")
            for name in args.grammars.split(","):
                alone = gaps_of_stream(port, args.tokens, "The road goes on")
                with Greedy(port, GRAMMARS[name], args.greedy) as greedy:
                    beside = gaps_of_stream(port, args.tokens, "The road goes on")
                alone += gaps_of_stream(port, args.tokens, "The road goes on")
                before, after = summary(alone), summary(beside)
                ratio = round(after["p99"] / max(before["p99"], 1e-3), 2)
                line = {"grammar": name, "alone": before, "beside": after, "p99_ratio": ratio}
                print(json.dumps({**line, "others": dict(greedy.outcomes)}), flush=True)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()


if __name__ == "__main__":
    main()
