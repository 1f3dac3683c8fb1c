"""--help of every tool answers where no package is installed; other uses name what is missing.

example: python3 -m unittest discover -s tools/tests -p 'test_help.py'
"""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[1]


def bare(*args: str) -> subprocess.CompletedProcess:
    """Runs a tool without site-packages."""
    return subprocess.run(
        [sys.executable, "-S", *args], capture_output=True, text=True, check=False, timeout=60
    )


class HelpTest(unittest.TestCase):
    def test_every_tool(self):
        tools = [path for path in TOOLS.glob("*.py") if "ArgumentParser" in path.read_text("utf-8")]
        self.assertGreater(len(tools), 5)
        for tool in tools:
            with self.subTest(tool.name):
                done = bare(str(tool), "--help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("usage: " + tool.name, done.stdout)

    def test_a_missing_package_is_named(self):
        done = bare(str(TOOLS / "grow_model.py"), "source")
        self.assertIn("No module named 'numpy'", done.stderr)


if __name__ == "__main__":
    unittest.main()
