#!/usr/bin/env python3
"""What large bodies cost a server's other clients.

    measure_blocking_bodies.py FORERUN [--turns 5] [--tokens 200] [--senders 4] [--kind WORDS] [--out F.json]

Serves the demo pair. A neighbour reads a stream and notes the gaps between its events; small calls
are timed until their answer. Both are measured in turns: undisturbed, and while `senders` clients send
bodies of one kind without pause. Times are wall times, which include other work on the machine; turns
alternate so that this affects both alike.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "server"))
import serving  # noqa: E402

BLANKS = " " * 4_000_000
KINDS = {
    "4 MB of blanks, completion": ("/v1/completions", {"prompt": BLANKS, "max_tokens": 1}),
    "4 MB of blanks, chat": (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": BLANKS}], "max_tokens": 1},
    ),
    "4 MB of blanks, /tokenize": ("/tokenize", {"prompt": BLANKS}),
    "600 KB of letters, completion": (
        "/v1/completions",
        {"prompt": "a b c d " * 75_000, "max_tokens": 1},
    ),
}


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


class Turn:
    def __init__(self):
        self.gaps, self.calls, self.large = [], [], []


def stream_gaps(server, tokens, gaps):
    connection = server.connect()
    body = {"prompt": "def f(", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    connection.request(
        "POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"}
    )
    answer = connection.getresponse()
    last = None
    while line := answer.readline():
        if not line.startswith(b"data: {"):
            continue
        now = time.monotonic()
        if last is not None:
            gaps.append(now - last)
        last = now
    connection.close()


def one_turn(server, tokens, senders, kind):
    turn = Turn()
    over = threading.Event()

    def send():
        path, body = KINDS[kind]
        text = json.dumps(body)
        while not over.is_set():
            start = time.monotonic()
            status, _, _ = server.post(path, text)
            turn.large.append((time.monotonic() - start, status))

    def call():
        while not over.is_set():
            start = time.monotonic()
            server.completion("def g(", max_tokens=1, temperature=0)
            turn.calls.append(time.monotonic() - start)
            over.wait(0.05)

    threads = [threading.Thread(target=call)]
    if kind is not None:
        threads += [threading.Thread(target=send) for _ in range(senders)]
    for thread in threads:
        thread.start()
    stream_gaps(server, tokens, turn.gaps)
    over.set()
    for thread in threads:
        thread.join()
    return turn


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("forerun")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--senders", type=int, default=4)
    parser.add_argument(
        "--kind", default="", help="only kinds of bodies that have this in their name"
    )
    parser.add_argument("--out")
    arguments = parser.parse_args()
    serving._forerun = arguments.forerun
    results = {}
    with serving.Server() as server:
        one_turn(server, 50, 0, None)  # warms up
        for kind in filter(lambda name: arguments.kind in name, KINDS):
            figures = {"undisturbed": Turn(), "disturbed": Turn()}
            for _ in range(arguments.turns):
                for name, loaded in (("undisturbed", None), ("disturbed", kind)):
                    turn = one_turn(server, arguments.tokens, arguments.senders, loaded)
                    for field in ("gaps", "calls", "large"):
                        getattr(figures[name], field).extend(getattr(turn, field))
            results[kind] = {
                name: {
                    "gap_p50_ms": 1e3 * quantile(turn.gaps, 0.5),
                    "gap_p99_ms": 1e3 * quantile(turn.gaps, 0.99),
                    "small_call_p50_ms": 1e3 * quantile(turn.calls, 0.5),
                    "small_call_p99_ms": 1e3 * quantile(turn.calls, 0.99),
                    "small_calls": len(turn.calls),
                    "large_calls": len(turn.large),
                    "large_call_p50_ms": 1e3
                    * (quantile([each for each, _ in turn.large], 0.5) or 0),
                    "statuses": sorted({status for _, status in turn.large}),
                }
                for name, turn in figures.items()
            }
            print(kind, json.dumps(results[kind], indent=1), flush=True)
    if arguments.out:
        Path(arguments.out).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
