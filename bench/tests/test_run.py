"""bench/run: finds every bench that CMake builds, says what each is for, and runs what is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def bench_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run"), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def files(*patterns: str) -> set[str]:
    return {path.stem for pattern in patterns for path in ROOT.glob(pattern)}


class Run(unittest.TestCase):
    def test_lists_every_bench_with_its_purpose(self) -> None:
        listed = bench_run("--list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        purposes = dict(re.findall(r"^(\w+)  +(\S.*)$", listed.stdout, flags=re.MULTILINE))
        scripts = files("bench/measure_*.py", "bench/compare_*.py")
        self.assertLess(scripts, set(purposes))
        sources = [path for end in ("cc", "cu") for path in ROOT.glob(f"src/**/*_bench.{end}")]
        sources += ROOT.glob("bench/*.cc")
        self.assertGreater(len(sources), 20)
        # A program for every source, and the server that http_load is measured beside.
        programs = set(purposes) - scripts - {"null_server"}
        self.assertEqual(len(programs), len(sources), (programs, sources))
        self.assertLess({"linear_bench", "linear_cuda_bench", "host_time_bench"}, programs)

    def test_runs_what_matches_with_arguments(self) -> None:
        done = bench_run("^measure_regret$", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("usage: measure_regret.py", done.stdout)

    def test_a_failure_is_told(self) -> None:
        failed = bench_run("^measure_(regret|cpu)$", "--no-such-flag")
        self.assertEqual(failed.returncode, 1)
        self.assertEqual(failed.stderr.count("failed with 2"), 2, failed.stderr)

    def test_nothing_matches(self) -> None:
        none = bench_run("no_such_bench")
        self.assertEqual((none.returncode, none.stdout), (2, ""))
        self.assertIn("bench/run --list names them", none.stderr)
        self.assertIn("no regular expression", bench_run("(").stderr)


if __name__ == "__main__":
    unittest.main()
