"""A supervised launch that is disturbed at random moments: processes are killed and stopped, links
are cut. Every request ends with the tokens of one process or with an error that says why, in time;
requests after it are answered; nothing stays behind.

Usage: fault_test.py PATH_OF_FORERUN [--faults N] [--seed N] [--report]
"""

import argparse
import collections
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from launch import MPIRUN, Launch, all_gone, open_files, resident_bytes, run

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
RANKS = 4
SILENCE_S = 1
# From a fault to a launch that serves again: silence, the old one's end, the new one's start, on a
# machine with fewer processors than processes.
RECOVERY_S = 30
REQUESTS = 12
TOKENS = 400


def requests():
    prompts = (
        "def quicksort(numbers):\n",
        "It was late",
        "class A:\n    def f(self):\n",
        "import os\n",
    )
    return [
        {
            "prompt": prompts[index % len(prompts)],
            "seed": index,
            "max_tokens": TOKENS - 8 * index,
            "temperature": 0 if index % 3 == 0 else 0.8,
        }
        for index in range(REQUESTS)
    ]


def command(forerun, folder, *args):
    lines = folder / "requests.jsonl"
    lines.write_text("".join(json.dumps(line) + "\n" for line in requests()))
    return [
        forerun,
        "generate",
        "--model",
        TARGET,
        "--draft",
        DRAFT,
        "--batch",
        lines,
        "--ignore-eos",
        "--repetition-penalty",
        1.1,
        "--cost-cache",
        folder / "costs",
        *args,
    ]


def signal_all(numbers, number):
    for process in numbers:
        try:
            os.kill(process, number)
        except ProcessLookupError:
            pass


class Disturber:
    """What happens to a launch. Whatever it stops or cuts, it lets go again."""

    def __init__(self, folder, seed):
        self.random = random.Random(seed)
        self.cuts = folder / "cuts"
        self.happened = collections.Counter()

    def disturb(self, launch):
        kinds = {
            "kill a rank": self.kill_rank,
            "kill mpirun": self.kill_mpirun,
            "stop a rank": self.stop_rank,
            "stop mpirun": self.stop_mpirun,
            "cut a link": self.cut_link,
            "orphan a stopped rank": self.orphan_stopped_rank,
        }
        kind = self.random.choice(list(kinds))
        time.sleep(self.random.uniform(0, 1.5))
        if kinds[kind](launch):
            self.happened[kind] += 1
            return True
        return False

    def rank(self, launch):
        ranks = launch.rank_numbers()
        return [ranks[self.random.choice(sorted(ranks))]] if ranks else []

    def kill_rank(self, launch):
        numbers = self.rank(launch)
        signal_all(numbers, signal.SIGKILL)
        return numbers

    def kill_mpirun(self, launch):
        numbers = launch.mpirun_numbers()
        signal_all(numbers, signal.SIGKILL)
        return numbers

    def stop(self, numbers):
        signal_all(numbers, signal.SIGSTOP)
        time.sleep(self.random.uniform(0, 3 * SILENCE_S))
        signal_all(numbers, signal.SIGCONT)
        return numbers

    def stop_rank(self, launch):
        return self.stop(self.rank(launch))

    def stop_mpirun(self, launch):
        return self.stop(launch.mpirun_numbers())

    def cut_link(self, launch):
        if not launch.rank_numbers():
            return False
        rank_a, rank_b = self.random.sample(range(RANKS), 2)
        self.cuts.write_text(f"{rank_a} {rank_b}\n")
        time.sleep(self.random.uniform(0, 3 * SILENCE_S))
        self.cuts.unlink()
        return True

    def orphan_stopped_rank(self, launch):
        rank = self.rank(launch)
        signal_all(rank, signal.SIGSTOP)
        self.kill_mpirun(launch)
        time.sleep(self.random.uniform(0, SILENCE_S))
        signal_all(rank, signal.SIGCONT)
        return rank


class Trial:
    def __init__(self, forerun, folder, seed):
        self.forerun = forerun
        self.folder = folder
        self.disturber = Disturber(folder, seed)
        self.hosts = folder / "hosts.txt"
        self.hosts.write_text("localhost\n" * RANKS)
        self.results = collections.Counter()
        self.errors = collections.Counter()
        self.relaunches = 0
        done = run(command(forerun, folder, "--strategy", "autoregressive"))
        assert done.returncode == 0, done.stderr
        self.expected = [json.loads(line)["tokens"] for line in done.stdout.splitlines()]
        assert len(self.expected) == REQUESTS and all(self.expected)

    def disturb_one_service(self, faults):
        """requests concurrently under up to so many faults; how many there were."""
        launch = Launch(
            command(
                self.forerun,
                self.folder,
                "--strategy",
                "pipelined",
                "--hosts",
                self.hosts,
                "--silence-s",
                SILENCE_S,
                "--start-s",
                30,
                "--relaunches",
                20,
                "--link-delay-ms",
                5,
                "--link-cuts",
                self.disturber.cuts,
                "--verbose",
            )
        )
        seen = set()
        try:
            seen.update(launch.ranks(RANKS))
            # A launch that has never started is an error at once and is not tried again.
            launch.wait_for_words("the launch is up")
            files, memory = open_files(launch.process.pid), resident_bytes(launch.process.pid)
            happened = 0
            while happened < faults and launch.process.poll() is None:
                happened += bool(self.disturber.disturb(launch))
                seen.update(launch.rank_numbers().values(), launch.mpirun_numbers())
            if launch.process.poll() is None:
                # A launch that is being replaced has a pipe and a folder more.
                assert open_files(launch.process.pid) <= files + 8, "descriptors are lost"
                assert resident_bytes(launch.process.pid) < memory + (64 << 20), "memory is lost"
            code, out, err = launch.finish(timeout=faults * RECOVERY_S + 120)
        finally:
            launch.close()
            self.disturber.cuts.unlink(missing_ok=True)
        self.check_results(code, out, err)
        self.check_leftovers(launch.process.pid, seen)
        return happened

    def check_results(self, code, out, err):
        lines = [json.loads(line) for line in out.splitlines()]
        assert len(lines) == REQUESTS, f"{len(lines)} of {REQUESTS} have ended: {code}\n{err}"
        for line, expected in zip(lines, self.expected, strict=True):
            if "error" in line:
                assert line["error"].strip(), line
                self.errors[line["error"]] += 1
            else:
                assert line["tokens"] == expected, (
                    f"request {line['index']} has other tokens\n{err}"
                )
            self.results["error" if "error" in line else "right"] += 1
        # The last fault lies behind: a service that is given up has failed to recover.
        assert "error" not in lines[-1], err
        self.relaunches += err.count("is lost and started again")

    @staticmethod
    def check_leftovers(supervisor, seen):
        assert all_gone(seen), "processes are left"
        for parent in ("/tmp", "/dev/shm"):
            left = [
                path for path in Path(parent).glob("forerun-*") if f"-{supervisor}-" in path.name
            ]
            assert not left, left


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("forerun")
    parser.add_argument("--faults", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if MPIRUN is None:
        print("fault_test: skipped, there is no mpirun")
        return 77
    with tempfile.TemporaryDirectory() as name:
        # Keeps the test from reading or writing the user's files.
        os.environ.update(XDG_CACHE_HOME=name, HOME=name)
        trial = Trial(args.forerun, Path(name), args.seed)
        begin = time.monotonic()
        left, services = args.faults, 0
        while left > 0:
            happened = trial.disturb_one_service(min(left, 8))
            left -= happened
            services += 1
            if args.report:
                print(
                    f"{args.faults - left} faults, {trial.relaunches} relaunches, "
                    f"{dict(trial.results)}",
                    flush=True,
                )
        seconds = time.monotonic() - begin
    print(
        f"{sum(trial.disturber.happened.values())} faults {dict(trial.disturber.happened)} in "
        f"{services} services and {seconds:.0f} s: {trial.relaunches} relaunches, requests "
        f"{dict(trial.results)} {dict(trial.errors)}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
