#!/usr/bin/env python3
"""Examples can be pasted: every command of README.md's blocks, of each --help and every
`forerun generate --model models/...` of the guides runs as it stands.

    examples_test.py PATH_OF_FORERUN [unittest options]

They run by bash, in a folder that has what a clone has, with forerun in PATH. What builds, tests,
measures or needs a GPU or a download is named here and not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FORERUN = ""

# The beginnings of commands that are not run, because nothing else in them can be checked.
LEFT_OUT = (
    "scripts/",
    "cmake ",
    "cpack ",
    "bench/measure_cuda.py",
    "build/cuda-release/",
    "export PATH=",
)
TYPED = "hello\n"  # into commands that read standard input


def commands_of(block: str) -> list[str]:
    """The commands of lines of shell, without comments; lines that end with a backslash go on."""
    joined = re.sub(r"\\\n\s*", "", block)
    lines = (re.sub(r"\s+#.*", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def readme_commands() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [command for block in blocks for command in commands_of(block)]


def help_of(*command: str) -> str:
    return subprocess.run(
        [FORERUN, *command, "--help"], capture_output=True, text=True, check=True
    ).stdout


def help_commands(name: str) -> list[str]:
    """Lines of an example are indented; what is not says something of them."""
    _, _, example = help_of(name).partition("Example:\n")
    return commands_of("\n".join(line for line in example.splitlines() if line.startswith("  ")))


def guides_commands() -> list[str]:
    texts = [page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))]
    found = re.findall(
        r"^    (forerun generate --model models/(?:.*\\\n)*.*)",
        "\n".join(texts),
        flags=re.MULTILINE,
    )
    return [command for block in found for command in commands_of(block)]


class Examples(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in ("models", "bench", "examples"):
            (self.folder / name).symlink_to(ROOT / name)
        programs = self.folder / "build" / "cpu-release" / "bin"
        programs.mkdir(parents=True)
        (programs / "forerun").symlink_to(FORERUN)
        home = {"HOME": folder.name, "XDG_CACHE_HOME": folder.name, "XDG_STATE_HOME": folder.name}
        self.environment = {**os.environ, **home, "PATH": f"{programs}:{os.environ['PATH']}"}
        self.environment.pop("HF_HUB_CACHE", None)
        self.environment.pop("HF_HOME", None)

    def pasted(self, command: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            input=TYPED,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env=self.environment,
            timeout=200,
        )

    def serves(self, command: str) -> None:
        """Until it is asked to end; on any free port, for this machine may use the one named."""
        command = "exec " + re.sub(r"--port \d+", "--port 0", command)
        with subprocess.Popen(
            ["bash", "-c", command],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self.environment,
        ) as running:
            try:
                self.assertRegex(running.stdout.readline(), "^Serving ")
            finally:
                running.terminate()
            self.assertEqual(running.wait(timeout=60), 0)

    def runs(self, command: str) -> None:
        with self.subTest(command):
            if command.startswith("forerun serve "):
                self.serves(command)
                return
            done = self.pasted(command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotRegex(done.stderr, r"(?m)^forerun: ")

    def test_readme(self) -> None:
        run = [command for command in readme_commands() if not command.startswith(LEFT_OUT)]
        self.assertTrue(run)
        for command in run:
            self.runs(command)

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "they name two processors")
    def test_guides(self) -> None:
        commands = guides_commands()
        self.assertTrue(commands)
        for command in commands:
            self.runs(command)

    def test_tables_of_formats_are_that_of_the_program(self) -> None:
        listed = subprocess.run(
            [FORERUN, "inspect", "--formats"], capture_output=True, text=True, check=True
        ).stdout
        for name in ("README.md", "docs/gguf.md"):
            text = (ROOT / name).read_text(encoding="utf-8")
            tables = re.findall(
                r"^<!-- forerun inspect --formats -->\n(.*?)^<!-- end of formats -->\n",
                text,
                flags=re.MULTILINE | re.DOTALL,
            )
            self.assertEqual(
                tables, [listed], f"{name}: put what the marker's command prints behind it"
            )

    def test_help(self) -> None:
        names = re.findall(r"(?m)^  ([a-z]+) ", help_of().partition("Subcommands:\n")[2])
        self.assertIn("generate", names)
        for name in names:
            commands = help_commands(name)
            self.assertTrue(commands, f"{name} --help has no example")
            for command in commands:
                if "man -l" in command and shutil.which("man") is None:
                    continue
                if "Qwen/" in command:  # not here: what is missing, and how it is got
                    self.assertRegex(self.pasted(command).stderr, "hf download Qwen/")
                    continue
                self.runs(command)


if __name__ == "__main__":
    FORERUN = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
