"""Ctrl-C and SIGTERM: every running request ends within a Step, what there is still comes, and the
process ends as a shell expects of one that was interrupted.

Usage: interrupt_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import math
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import process
from process import DRAFT, TARGET

LONG_PROMPT = "def f(x):\n    return x + 1\n" * 500


class Interrupt(process.CommandLine):
    def start(self, *args):
        return subprocess.Popen(
            [process.forerun(), *map(str, args)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_caught(self, running, number):
        """Until the process handles the signal: the engine is there."""
        while running.poll() is None:
            status = Path(f"/proc/{running.pid}/status").read_text()
            caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
            if int(caught.split()[1], 16) >> (number - 1) & 1:
                return
            time.sleep(0.005)
        self.fail(f"it has ended with {running.returncode}: {running.stderr.read()}")

    def test_generate_ends_with_130_and_its_statistics(self):
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            running = self.start(
                "generate",
                "--model",
                TARGET,
                "--prompt",
                "It was",
                "--max-tokens",
                7000,
                "--ignore-eos",
                "--temperature",
                0.8,
            )
            self.assertTrue(running.stdout.read(20))
            running.send_signal(number)
            _, stderr = running.communicate(timeout=60)
            self.assertEqual(running.returncode, code)
            self.assertIn("tokens/s", stderr)

    def test_json_still_comes(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as prompt:
            prompt.write("x = 1\n")
            prompt.flush()
            running = self.start(
                "generate",
                "--model",
                TARGET,
                "--prompt-file",
                prompt.name,
                "--max-tokens",
                8000,
                "--ignore-eos",
                "--json",
            )
            self.wait_until_caught(running, signal.SIGINT)
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

    def interrupted_bench(self, folder, delay_s, *args):
        """What it said, wrote and ended with, when it was interrupted `delay_s` after its start."""
        prompts = Path(folder) / "many.jsonl"
        prompts.write_text(
            "".join(json.dumps({"prompt": f"x = {number}\n"}) + "\n" for number in range(100_000))
        )
        out = Path(folder) / "bench.json"
        running = self.start(
            "bench",
            "--model",
            TARGET,
            "--prompts",
            prompts,
            "--limit",
            0,
            "--warmup",
            0,
            "--json",
            out,
            "-v",
            *args,
        )
        for line in running.stderr:
            if "chosen:" in line:
                break
        threading.Timer(delay_s, running.send_signal, [signal.SIGINT]).start()
        stdout, stderr = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130, stderr)
        written = json.loads(out.read_text())
        self.assertIs(written["interrupted"], True)
        self.assertIn(
            "the figures cover what was measured until then"
            if written["workloads"]
            else "before anything was measured",
            stderr,
        )
        return stdout, written["workloads"]

    def test_bench_says_what_it_had_measured(self):
        # Days, were it not interrupted. On a slow machine the first prompt takes its time.
        with tempfile.TemporaryDirectory() as folder:
            for delay_s in (1, 4, 16):
                stdout, workloads = self.interrupted_bench(
                    folder,
                    delay_s,
                    "--repeat",
                    1,
                    "-n",
                    4,
                    "--strategies",
                    "autoregressive,serial_tree",
                )
                if "many" in workloads:
                    break
            for strategy, row in zip(
                ("autoregressive", "serial_tree"), workloads["many"], strict=False
            ):
                self.assertEqual(row["strategy"], strategy)
                self.assertGreater(row["prompts"], 0)
                self.assertEqual(row["identical"], row["prompts"])
                self.assertIn(strategy, stdout)

    def test_bench_of_one_request_that_is_long(self):
        with tempfile.TemporaryDirectory() as folder:
            _, workloads = self.interrupted_bench(folder, 0.3, "-n", 8000, "--repeat", 1000)
            self.assertEqual(workloads, {})

    def test_bench_of_many_requests_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            for delay_s in (1, 4, 16):
                _, workloads = self.interrupted_bench(
                    folder, delay_s, "--concurrency", "1,2,4", "-n", 200, "--repeat", 100_000
                )
                if "many" in workloads:
                    break
            self.assertLessEqual(len(workloads["many"]), 2)

    def test_all_requests_of_a_trace(self):
        # Some 400,000 tokens, were they not cancelled: far beyond the time that is waited here.
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "trace.json"
            running = self.start(
                "trace",
                "--model",
                TARGET,
                "--prompt",
                "def f(",
                "-n",
                6000,
                "-v",
                "--requests",
                64,
                "--json",
                out,
            )
            for line in running.stderr:
                if "chosen:" in line:
                    break
            threading.Timer(0.5, running.send_signal, [signal.SIGINT]).start()
            running.communicate(timeout=60)
            self.assertEqual(running.returncode, 130)
            self.assertIn("traceEvents", json.loads(out.read_text()))

    def test_convert_leaves_nothing(self):
        # A feed-forward layer of zeros that takes no room on the disk and a while to encode.
        width = 1 << 21
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            model.mkdir()
            for path in DRAFT.iterdir():
                shutil.copy(path, model)
            config = json.loads((model / "config.json").read_text())
            config |= {"num_hidden_layers": 1, "intermediate_size": width}
            (model / "config.json").write_text(json.dumps(config))
            data = (DRAFT / "model.safetensors").read_bytes()
            header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            tensors, end = {}, 0
            for name, entry in header.items():
                if "layers.1." in name or "layers.2." in name or name == "__metadata__":
                    continue
                shape = [width if extent == 512 else extent for extent in entry["shape"]]
                begin, end = end, end + 2 * math.prod(shape)
                tensors[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
            text = json.dumps(tensors).encode()
            with (model / "model.safetensors").open("wb") as file:
                file.write(len(text).to_bytes(8, "little") + text)
                file.truncate(8 + len(text) + end)
            (Path(folder) / "x.gguf").write_text("mine")
            for number, out, flags in (
                (signal.SIGINT, "x.gguf", ("--to", "q4_1", "--force")),
                (signal.SIGTERM, "x", ("--to", "awq:32")),
            ):
                running = self.start("convert", model, Path(folder) / out, *flags)
                part = Path(folder) / (out + ".part")
                while not part.exists():
                    self.assertIsNone(running.poll())
                    time.sleep(0.005)
                running.send_signal(number)
                _, stderr = running.communicate(timeout=60)
                self.assertEqual(running.returncode, 128 + number, stderr)
                lines = [x for x in stderr.splitlines() if not x.startswith("converting:")]
                self.assertEqual(lines, ["forerun: interrupted; no output was written"])
                self.assertEqual(
                    sorted(path.name for path in Path(folder).iterdir()), ["model", "x.gguf"]
                )
                self.assertEqual((Path(folder) / "x.gguf").read_text(), "mine")


if __name__ == "__main__":
    process.main()
