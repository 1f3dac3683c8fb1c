"""Stages in processes of their own, under a real mpirun on this machine: the tokens are those of one
process, what does not fit together is refused by name, and a death is an error in time.

Usage: multi_host_test.py PATH_OF_FORERUN [unittest options]
"""

import functools
import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launch import MPIRUN, SILENCE_S, Launch, all_gone, mpirun_command, peak_resident_bytes, run

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
FORERUN = ""
# Keeps the tests from reading or writing the user's files.
CACHE = tempfile.TemporaryDirectory()
os.environ.update(XDG_CACHE_HOME=CACHE.name, HOME=CACHE.name)

PROMPT = "def quicksort(numbers):\n"
# Served at the same time: greedy ones, drawn ones, a short and a long prompt.
REQUESTS = [
    {"prompt": PROMPT, "temperature": 0},
    {"prompt": PROMPT, "temperature": 0.8, "seed": 3},
    {"prompt": "It was late", "temperature": 1, "top_p": 0.9, "seed": 4},
    {"prompt": "class A:\n    def f(self):\n" * 8, "temperature": 0.3, "max_tokens": 24},
]
# Options for which the last stage needs data from the coordinator: token counts, biases, logprobs.
SAMPLING = (
    "--repetition-penalty",
    1.1,
    "--logit-bias",
    "11:2.5",
    "--logprobs",
    3,
    "--prompt-logprobs",
    2,
)


def written(name, text, mode=0o600):
    path = Path(CACHE.name) / name
    path.write_text(text)
    path.chmod(mode)
    return path


def generate(*args, model=TARGET, tokens=40):
    return [
        FORERUN,
        "generate",
        "--model",
        model,
        "--prompt",
        PROMPT,
        "--max-tokens",
        tokens,
        "--seed",
        7,
        "--cost-cache",
        Path(CACHE.name) / "costs",
        *args,
    ]


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
        40,
        "--context",  # a short one: Steps are measured five times as soon
        512,
        "--cost-cache",
        Path(CACHE.name) / "costs",
        *SAMPLING,
        *args,
    ]


class Launched(unittest.TestCase):
    def results(self, command):
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]


@functools.cache
def plain():
    """What one process says that decodes plainly."""
    return Launched().results(batch("--strategy", "autoregressive"))


class SameTokens(Launched):
    def compare(self, stages, strategy, *args, expected=plain):
        results = self.results(
            mpirun_command(stages + 1) + batch("--stages", stages, "--strategy", strategy, *args)
        )
        for result, alone in zip(results, expected(), strict=True):
            self.assertEqual(result["tokens"], alone["tokens"])
            self.assertEqual(result["logprobs"], alone["logprobs"])
            self.assertEqual(len(result["prompt_logprobs"]), result["prompt_tokens"] - 1)
            self.assertEqual(result["prompt_logprobs"], alone["prompt_logprobs"])
            self.assertEqual(result["strategy"].split()[0], strategy)
        if strategy != "autoregressive":
            self.assertGreater(sum(result["drafted_tokens"] for result in results), 0)
        if "--draft" in args:
            self.assertGreater(sum(result["accepted_tokens"] for result in results), 0)

    def test_two_stages_pipelined(self):
        self.compare(2, "pipelined", "--draft", DRAFT)

    def test_eight_stages_pipelined_over_slow_links(self):
        self.compare(8, "pipelined", "--draft", DRAFT, "--link-delay-ms", 1, "--link-gbit", 1)

    def test_plainly(self):
        self.compare(3, "autoregressive")

    def test_without_a_draft_model(self):
        # A tree of a fixed shape: a machine too busy for speculation to pay must not make it empty.
        self.compare(2, "serial_tree", "--source", "suffix", "--shape", "chain")

    def test_by_rejection_the_output_is_one_process_s(self):
        options = (
            "--draft",
            DRAFT,
            "--accept",
            "rejection",
            "--shape",
            "chain",
            "--source",
            "model",
        )
        self.compare(
            2,
            "serial_tree",
            *options,
            expected=lambda: self.results(
                batch("--stages", 2, "--strategy", "serial_tree", *options)
            ),
        )


class HostFile(Launched):
    def hosts(self, *names):
        return ["--hosts", written("hosts.txt", "".join(name + "\n" for name in names))]

    def test_starts_a_process_a_line(self):
        results = self.results(
            batch(
                "--draft",
                DRAFT,
                "--strategy",
                "pipelined",
                "--network",
                "lo",
                "--secret-file",
                written("secret", "only the user's"),
                *self.hosts("# all here", *["localhost"] * 4),
            )
        )
        self.assertEqual(
            [result["tokens"] for result in results], [result["tokens"] for result in plain()]
        )

    def test_what_is_no_host_is_refused_by_its_line(self):
        for line, bad in (
            ("-oProxyCommand=touch /tmp/x", "-oProxyCommand"),
            ("a;b", "a;b"),
            ("$(id)", "$(id)"),
        ):
            done = run(generate(*self.hosts("localhost", line)))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"hosts.txt, line 2: found '{bad}'", done.stderr)

    def test_a_file_that_cannot_be_read_is_refused(self):
        for path in ("/nowhere/hosts.txt", CACHE.name):
            done = run(generate("--hosts", path))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--hosts: '{path}' cannot be read", done.stderr)

    def test_a_secret_that_others_may_read_is_refused(self):
        secret = written("open_secret", "everybody's", 0o644)
        done = run(generate("--secret-file", secret, *self.hosts("localhost", "localhost")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("0600", done.stderr)

    def test_the_rank_that_fails_says_why(self):
        done = run(generate("--stages", 5, *self.hosts(*["localhost"] * 3)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("found 3 processes for 5 stages", done.stderr)


class Refusals(Launched):
    def refused(self, command, *words):
        done = run([*command, "--json"], timeout=90)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout.strip(), "")
        for word in words:
            self.assertIn(word, done.stderr)

    def one_rank_of_three_with(self, changed):
        """Rank 2 with other arguments than ranks 0 and 1."""
        same = generate("--draft", DRAFT)
        first = mpirun_command(2) + same
        return first + [":", "-n", "1"] + changed

    def test_other_options_are_named_with_both_values(self):
        self.refused(
            self.one_rank_of_three_with(generate("--draft", DRAFT, "--context", 512)),
            "context: rank 2 (stage 2 of 2",
            "has '512', rank 0 (the coordinator",
            "has '0'",
        )

    def test_another_model_is_named_by_a_field_of_its_config(self):
        self.refused(
            self.one_rank_of_three_with(generate("--draft", DRAFT, model=DRAFT)),
            "config.json, hidden_size: rank 2 (stage 2 of 2",
            "rank 0 (the coordinator",
        )

    def test_a_missing_model_is_told_by_the_rank_that_misses_it(self):
        missing = generate("--send-model", "never", model="/nowhere")
        self.refused(self.one_rank_of_three_with(missing), "rank 2", "/nowhere")

    def test_other_numbers_of_processes_are_refused(self):
        self.refused(
            mpirun_command(3) + generate("--stages", 3),
            "found 3 processes for 3 stages",
            "one for the text and the draft",
        )

    def test_a_bad_request_ends_the_launch(self):
        self.refused(mpirun_command(3) + generate("--logit-bias", "99999999:1"), "logit_bias")


class Memory(Launched):
    # The demo target's layers and words, in 440 MB.
    SHAPE = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 1024,
        "intermediate_size": 6144,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "num_hidden_layers": 10,
        "vocab_size": 8192,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
    }
    LAYER_BYTES = 2 * 1024 * (2 * 1024 + 2 * 512 + 3 * 6144)
    BESIDE_BYTES = (
        150 << 20
    )  # for all that is no layer: embedding, head, KV, rows, MPI, the program

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "growing a model takes numpy")
    def test_a_rank_holds_its_own_layers_and_no_more(self):
        shape = written("shape.json", json.dumps(self.SHAPE))
        model = Path(CACHE.name) / "grown"
        grown = run(
            [
                sys.executable,
                ROOT / "tools" / "grow_model.py",
                TARGET,
                "--shape",
                shape,
                "--dtype",
                "bf16",
                "--out",
                model,
            ]
        )
        self.assertEqual(grown.returncode, 0, grown.stderr)
        launch = Launch(
            mpirun_command(3)
            + generate(
                "--strategy",
                "autoregressive",
                "--context",
                512,
                "--stage-layers",
                "5,5",
                model=model,
                tokens=4,
            )
        )
        self.addCleanup(launch.close)
        peaks = {}
        while launch.process.poll() is None:
            for rank, number in launch.rank_numbers().items():
                peaks[rank] = max(peaks.get(rank, 0), peak_resident_bytes(number))
            time.sleep(0.02)
        code, _, stderr = launch.finish(timeout=60)
        self.assertEqual(code, 0, stderr)
        for rank, layers in enumerate((0, 5, 5)):
            with self.subTest(rank=rank, peak_mb=peaks[rank] >> 20):
                self.assertGreater(peaks[rank], layers * self.LAYER_BYTES)
                self.assertLess(peaks[rank], layers * self.LAYER_BYTES + self.BESIDE_BYTES)
        # Or the test could not fail.
        self.assertGreater(10 * self.LAYER_BYTES, 5 * self.LAYER_BYTES + self.BESIDE_BYTES)


class Deaths(Launched):
    def disturbed(self, rank, signal_number):
        launch = Launch(
            mpirun_command(4)
            + generate(
                "--draft",
                DRAFT,
                "--stages",
                3,
                "--strategy",
                "pipelined",
                "--ignore-eos",
                "--link-delay-ms",
                5,
                "--silence-s",
                SILENCE_S,
                tokens=4000,
            )
        )
        self.addCleanup(launch.close)
        numbers = launch.ranks(4)
        launch.wait_for_output()
        os.kill(numbers[rank], signal_number)
        code, _, stderr = launch.finish(timeout=60)
        self.assertNotEqual(code, 0)
        self.assertTrue(all_gone(numbers))
        return stderr

    def test_a_killed_stage_ends_the_launch(self):
        self.assertRegex(self.disturbed(3, signal.SIGKILL), r"rank 3\b")

    def test_a_stopped_stage_is_named(self):
        stderr = self.disturbed(2, signal.SIGSTOP)
        self.assertIn("rank 2 (stage 2 of 3", stderr)
        self.assertIn(f"{1000 * SILENCE_S} ms", stderr)

    def test_stages_leave_when_the_coordinator_is_stopped(self):
        self.assertIn("rank 0 (the coordinator", self.disturbed(0, signal.SIGSTOP))


if __name__ == "__main__":
    FORERUN = sys.argv.pop(1)
    if MPIRUN is None:
        print("multi_host_test: skipped, there is no mpirun")
        sys.exit(77)
    unittest.main()
