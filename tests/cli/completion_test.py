"""What is generated from the flags: completion scripts, run by a real bash, and the manual page.

Usage: completion_test.py PATH_OF_FORERUN [unittest options]
"""

import shutil
import subprocess
import unittest

import process
from process import run

COMMANDS = (
    "generate",
    "chat",
    "serve",
    "bench",
    "inspect",
    "convert",
    "plan",
    "trace",
    "completion",
    "man",
)


class Completion(process.CommandLine):
    def completed(self, *words):
        """What bash offers behind these words, the last of which is being typed."""
        script = self.succeeded(run("completion", "bash")).stdout
        line = " ".join(f"'{word}'" for word in ("forerun", *words))
        done = subprocess.run(
            [
                "bash",
                "--norc",
                "-c",
                f"{script}\nCOMP_WORDS=({line})\nCOMP_CWORD={len(words)}\n_forerun\n"
                'printf "%s\\n" "${COMPREPLY[@]}"',
            ],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    @unittest.skipUnless(shutil.which("bash"), "no bash")
    def test_bash_completes(self):
        self.assertEqual(self.completed(""), list(COMMANDS))
        self.assertEqual(self.completed("gen"), ["generate"])
        self.assertEqual(self.completed("generate", "--temp"), ["--temperature"])
        self.assertEqual(self.completed("bench", "--temp"), ["--temperatures"])
        self.assertIn("--config", self.completed("generate", "--"))
        self.assertEqual(self.completed("generate", "--strategy", "par"), ["parallel_tree"])
        self.assertEqual(
            self.completed("generate", "--accept", ""), ["match", "rejection", "relaxed", "nucleus"]
        )
        self.assertEqual(self.completed("--config", "/dev/nul"), ["/dev/null"])
        self.assertEqual(self.completed("generate", "-m", "/dev/nul"), ["/dev/null"])

    def test_scripts_parse_and_name_every_flag(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.succeeded(run("completion", shell)).stdout
            for name in (*COMMANDS, "temperature", "prompt-file", "concurrency", "sparse_self"):
                self.assertIn(name, script)
            if shutil.which(shell):
                done = subprocess.run(
                    [shell, "-n"],
                    input=script,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=60,
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""), shell)
        self.refused(run("completion", "csh"), "csh", "bash", code=2)

    def test_manual_page(self):
        page = self.succeeded(run("man")).stdout
        self.assertTrue(page.startswith(".TH FORERUN 1"))
        for word in (
            "FORERUN GENERATE",
            r"\-\-temperature",
            r"\-\-max\-tokens",
            "EXIT STATUS",
            "chat\\-history",
        ):
            self.assertIn(word, page)
        if shutil.which("groff"):
            done = subprocess.run(
                ["groff", "-man", "-Tutf8", "-ww"],
                input=page,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("FORERUN(1)", done.stdout)


if __name__ == "__main__":
    process.main()
