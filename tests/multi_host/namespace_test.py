"""Stages on hosts with addresses and interfaces of their own: network namespaces of this machine,
joined at 1 Gbit/s. The tokens are those of one process, they come over the network, and a cut link
is told of by the name of the host behind it.

Usage: namespace_test.py PATH_OF_FORERUN [unittest options]
"""

import functools
import json
import os
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launch import MPIRUN, SILENCE_S, Launch, all_gone, mpirun_command, run
from namespaces import Namespaces

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
FORERUN = ""
NETWORK = None  # of three hosts
HIDDEN_SIZE = json.loads((TARGET / "config.json").read_text())["hidden_size"]
# Keeps the tests from reading or writing the user's files.
CACHE = tempfile.TemporaryDirectory()
os.environ.update(XDG_CACHE_HOME=CACHE.name, HOME=CACHE.name)

REQUESTS = [
    {"prompt": "def quicksort(numbers):\n", "temperature": 0},
    {"prompt": "It was late", "temperature": 1, "top_p": 0.9, "seed": 4},
]
TOKENS = 48


def written(name, text):
    path = Path(CACHE.name) / name
    path.write_text(text)
    return path


def batch(*args):
    lines = written("requests.jsonl", "".join(json.dumps(line) + "\n" for line in REQUESTS))
    return [
        FORERUN,
        "generate",
        "--model",
        TARGET,
        "--batch",
        lines,
        "--max-tokens",
        TOKENS,
        "--cost-cache",
        Path(CACHE.name) / "costs",
        *args,
    ]


def hosts_file():
    return written("hosts.txt", "".join(name + "\n" for name in NETWORK.names))


def tokens_of(done):
    return [json.loads(line)["tokens"] for line in done.stdout.splitlines()]


@functools.cache
def plain():
    """What one process says that decodes plainly."""
    return tokens_of(run(batch("--strategy", "autoregressive")))


class OverANetwork(unittest.TestCase):
    def setUp(self):
        self.environment = NETWORK.environment()

    def results(self, *args):
        done = run(
            [
                *NETWORK.inside(0),
                *batch("--hosts", hosts_file(), "--network", NETWORK.network, *args),
            ],
            env=self.environment,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_tokens_are_those_of_one_process(self):
        before = NETWORK.sent_bytes(1)
        done = self.results("--strategy", "autoregressive")
        self.assertEqual(tokens_of(done), plain())
        # The hidden rows of the prompts and tokens went from the first stage to the second.
        rows = len(REQUESTS) * TOKENS
        self.assertGreater(NETWORK.sent_bytes(1) - before, rows * HIDDEN_SIZE * 2)

    def test_tokens_are_those_of_one_process_with_a_draft(self):
        done = self.results("--strategy", "pipelined", "--draft", DRAFT, "--link-delay-ms", 1)
        self.assertEqual(tokens_of(done), plain())

    def test_a_cut_link_is_told_of_by_its_host(self):
        command = [*NETWORK.inside(0), *mpirun_command(1)[:-2]]
        for layer in ("btl_tcp_if_include", "oob_tcp_if_include"):
            command += ["--gmca", layer, NETWORK.network]
        for number, name in enumerate(NETWORK.names):
            command += [":"] if number else []
            command += [
                "-n",
                "1",
                "--host",
                name,
                FORERUN,
                "generate",
                "--model",
                TARGET,
                "--prompt",
                "def f(",
                "--max-tokens",
                4000,
                "--ignore-eos",
                "--link-delay-ms",
                5,
                "--silence-s",
                SILENCE_S,
            ]
        launch = Launch(command, env=self.environment)
        self.addCleanup(launch.close)
        numbers = launch.ranks(3)
        launch.wait_for_output()
        self.addCleanup(NETWORK.mend, 2)
        NETWORK.cut(2)
        # mpirun itself may wait for ever for the host that it cannot tell to end.
        deadline = time.monotonic() + 30
        while "host forerun-2" not in launch.errors() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertIn("rank 2 (stage 2 of 2, host forerun-2)", launch.errors())
        self.assertTrue(all_gone(numbers), "a rank outlives its launch")

    def test_requests_outlive_a_cut_link(self):
        launch = Launch(
            [
                *NETWORK.inside(0),
                *batch(
                    "--hosts",
                    hosts_file(),
                    "--network",
                    NETWORK.network,
                    "--strategy",
                    "autoregressive",
                    "--link-delay-ms",
                    30,
                    "--silence-s",
                    SILENCE_S,
                    "--start-s",
                    15,
                    "--relaunches",
                    20,
                    "--verbose",
                ),
            ],
            env=self.environment,
        )
        self.addCleanup(launch.close)
        launch.wait_for_words("the launch is up")
        self.addCleanup(NETWORK.mend, 2)
        old = set(serving())
        NETWORK.cut(2)
        launch.wait_for_words(
            "is lost and started again: rank 2 (stage 2 of 2, host forerun-2)", 30
        )
        # Also on the host that cannot be told.
        self.assertTrue(all_gone(old), "a rank of the old launch is left")
        NETWORK.mend(2)
        code, out, err = launch.finish(timeout=120)
        self.assertEqual(code, 0, err)
        self.assertEqual([json.loads(line)["tokens"] for line in out.splitlines()], plain())
        self.assertTrue(all_gone(serving()), "a rank outlives its launch")


def serving():
    """Processes of supervised launches of this program, wherever they are. Those that remove a
    launch's files stay as long as mpirun's daemon on their host."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            if (folder / "comm").read_text().strip() == "forerun-sweeper":
                continue
        except OSError:
            continue
        if command[:2] == [os.fsencode(os.path.realpath(FORERUN)), b"serve-launch"]:
            found.append(int(folder.name))
    return found


if __name__ == "__main__":
    FORERUN = sys.argv.pop(1)
    if MPIRUN is None:
        print("namespace_test: skipped, there is no mpirun")
        sys.exit(77)
    try:
        NETWORK = Namespaces(3, "1gbit")
    except OSError as error:
        print(f"namespace_test: skipped, {error}")
        sys.exit(77)
    try:
        unittest.main()
    finally:
        NETWORK.close()
