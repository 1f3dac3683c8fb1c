"""What the tests of the command line share: forerun as a process of its own.

A test file ends with process.main(), which takes the path of forerun from the command line.
"""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
GOLDENS = ROOT / "build" / "goldens"
needs_goldens = unittest.skipUnless(
    GOLDENS.is_dir(), "tools/golden_weights.py, which ctest runs first, has not written them"
)
# Keeps the tests from reading or writing the user's files.
HOME = tempfile.TemporaryDirectory()
# Where step costs are stored: ctest names one folder for all tests, so that they measure once.
CACHE = os.environ.get("FORERUN_TEST_CACHE", HOME.name)
os.environ.update(XDG_CACHE_HOME=CACHE, HOME=HOME.name)

_forerun = ""


def forerun():
    return _forerun


def run(*args, **kwargs):
    kwargs.setdefault("text", True)
    return subprocess.run(
        [_forerun, *map(os.fspath, map(_text, args))],
        capture_output="stdout" not in kwargs,
        stderr=subprocess.PIPE if "stdout" in kwargs else None,
        timeout=kwargs.pop("timeout", 120),
        check=False,
        **kwargs,
    )


def _text(arg):
    return arg if isinstance(arg, (str, bytes)) else str(arg)


def generate(*args, model=TARGET, **kwargs):
    return run("generate", "--model", model, *args, **kwargs)


class CommandLine(unittest.TestCase):
    def succeeded(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, done, *words, code=None):
        """One clear line that has every one of `words`, a regular expression each."""
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertGreater(done.returncode, 0, "killed by a signal")
        if code is not None:
            self.assertEqual(done.returncode, code)
        stderr = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
        lines = [line for line in stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, stderr)
        for word in words:
            self.assertRegex(lines[0], "(?i)" + word)


def main():
    global _forerun
    _forerun = sys.argv.pop(1)
    unittest.main(module="__main__")
