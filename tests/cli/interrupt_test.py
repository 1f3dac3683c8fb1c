"""Ctrl-C and SIGTERM: every running request ends within a Step, what there is still comes, and the
process ends as a shell expects of one that was interrupted.

Usage: interrupt_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import process
from process import TARGET

LONG_PROMPT = "def f(x):\n    return x + 1\n" * 500


class Interrupt(process.CommandLine):
    def start(self, *args):
        return subprocess.Popen([process.forerun(), *map(str, args)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def test_generate_ends_with_130_and_its_statistics(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            running = self.start("generate", "--model", TARGET, "--prompt", "It was",
                                 "--max-tokens", 7000, "--ignore-eos", "--temperature", 0.8)
            self.assertTrue(running.stdout.read(20))
            running.send_signal(number)
            _, stderr = running.communicate(timeout=60)
            self.assertEqual(running.returncode, code)
            self.assertIn("tokens/s", stderr)

    def test_json_still_comes(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as prompt:
            prompt.write("x = 1\n")
            prompt.flush()
            running = self.start("generate", "--model", TARGET, "--prompt-file", prompt.name, "-v",
                                 "--max-tokens", 8000, "--ignore-eos", "--json")
            for line in running.stderr:  # it has been admitted
                if "chosen:" in line:
                    break
            running.send_signal(signal.SIGINT)
            stdout, _ = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assertEqual(json.loads(stdout)["finish_reason"], "cancelled")

    def test_while_a_prompt_is_read(self):
        running = self.start("generate", "--model", TARGET, "--prompt", LONG_PROMPT, "-n", 4)
        self.assertTrue(running.stdout.read(20))  # its echo: it has been submitted
        running.send_signal(signal.SIGINT)
        _, stderr = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assertIn("0 tokens", stderr)

    def test_all_requests_of_a_trace(self):
        # Some 400,000 tokens, were they not cancelled: far beyond the time that is waited here.
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "trace.json"
            running = self.start("trace", "--model", TARGET, "--prompt", "def f(", "-n", 6000, "-v",
                                 "--requests", 64, "--json", out)
            for line in running.stderr:
                if "chosen:" in line:
                    break
            threading.Timer(0.5, running.send_signal, [signal.SIGINT]).start()
            running.communicate(timeout=60)
            self.assertEqual(running.returncode, 130)
            self.assertIn("traceEvents", json.loads(out.read_text()))


if __name__ == "__main__":
    process.main()
