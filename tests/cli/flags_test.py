"""Flags: what help lists, and one clear line for values that are out of range or do nothing.

Usage: flags_test.py PATH_OF_FORERUN [unittest options]
"""

import subprocess

import process
from process import DRAFT, ROOT, TARGET, generate, run


class Flags(process.CommandLine):
    def test_help_lists_what_the_tables_hold(self):
        text = run("generate", "--help").stdout
        for name in (
            "auto",
            "autoregressive",
            "serial_tree",
            "parallel_tree",
            "model",
            "ngram",
            "suffix",
            "adaptive",
            "best",
            "chain",
            "1,1,3,1,1",
        ):
            self.assertIn(f"{name} (", text)

    def test_help_and_version(self):
        for command in ("generate", "chat", "bench", "inspect", "convert"):
            done = run(command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Example:", done.stdout)
        self.assertRegex(run("--version").stdout, r"^forerun \d+\.\d+")

    def test_flags_that_would_do_nothing(self):
        self.refused(generate("--prompt", "x", "--logprobs", 3), "--logprobs", "--json")
        self.refused(
            generate("--prompt", "x", "--prompt-logprobs", 3), "--prompt-logprobs", "--json"
        )
        self.refused(generate("--prompt", "x", "--json", "--show-tree"), "--show-tree", "--json")
        self.refused(generate("--prompt", "x", "--json", "--no-echo"), "--no-echo", "--json")
        self.refused(generate("--prompt", "x", "--json", "--json-lines"), "--json-lines", "--json")
        self.refused(
            run("bench", "--model", TARGET, "--prompts", ROOT / "README.md", "--temperature", 1),
            "--temperature",
            "did you mean --temperatures",
        )

    def test_flags_of_what_is_not_there(self):
        for flag, value in (
            ("--network", "eth0"),
            ("--relaunches", 3),
            ("--silence-s", 3),
            ("--start-s", 3),
            ("--link-gbit", 1),
            ("--secret-file", "/nowhere"),
        ):
            self.refused(
                generate("--prompt", "x", flag, value), f"{flag}: found in one process", "mpirun"
            )
        self.refused(
            generate("--prompt", "x", "--draft-weights", "bf16"), "draft_weights", "no draft model"
        )
        self.refused(generate("--prompt", "x", "--draft-window", 64), "no draft model")
        self.refused(run("inspect", TARGET, "--devices"), "--devices", "demo-target")
        self.refused(run("inspect", "--tensors", "--devices"), "--devices", "--tensors")
        self.refused(
            run("trace", "--model", DRAFT, "--prompt", "x", "--from-ms", 3), "--from-ms", "--svg"
        )
        self.refused(run("trace", "--model", DRAFT, "--prompt", "x", "--length-ms", 3), "--svg")

    def test_flags_given_twice_or_without_a_value(self):
        self.refused(
            generate("--prompt", "x", "-n", 3, "-n", 4), "--max-tokens: found 2 times", code=2
        )
        self.refused(
            run("trace", "--model", DRAFT, "--prompt", "x", "--json"),
            "--json: its value is missing",
            code=2,
        )

    def test_help_and_version_as_words(self):
        for words, flags in (
            (("help",), ("--help",)),
            (("version",), ("--version",)),
            (("help", "generate"), ("generate", "--help")),
        ):
            self.assertEqual(self.succeeded(run(*words)).stdout, run(*flags).stdout)

    def test_a_refused_request_prints_no_prompt(self):
        for args in (("--logit-bias", "99999999:1"), ("--prompt-file", "-", "--context", 128)):
            prompt = () if "--prompt-file" in args else ("--prompt", "x y z")
            done = generate(*prompt, *args, input="word " * 300)
            self.refused(done, "found|tokens")
            self.assertEqual(done.stdout, "")

    def test_empty_prompt(self):
        self.refused(generate(), "--prompt TEXT", "--prompt-file FILE")
        self.refused(generate("--prompt", ""), "prompt")

    def test_flags_out_of_range(self):
        self.refused(generate("--prompt", "x", "--temperature", -1), "temperature", "-1")
        # Its logits would be infinite, and the weights blamed.
        for penalty in ("1e-42", "1e30"):
            self.refused(
                generate("--prompt", "x", "--repetition-penalty", penalty),
                "repetition.penalty",
                "0.01 to 100",
            )
        self.refused(generate("--prompt", "x", "--top-p", 1.5), "top.p", "1.5")
        self.refused(generate("--prompt", "x", "--max-tokens", -1), "max.*tokens", "-1")
        self.refused(generate("--prompt", "x", "--strategy", "magic"), "magic", "auto, autoreg")
        self.refused(generate("--prompt", "x", "--shape", "star"), "star", "chain")
        self.refused(generate("--prompt", "x", "--accept", "hope"), "hope", "match")
        self.refused(generate("--prompt", "x", "--source", "oracle"), "oracle", "suffix")
        self.refused(
            generate("--prompt", "x", "--devices", ",".join(9 * ["cpu:0"])),
            "found 9 devices",
            "1 to 8",
        )
        self.refused(generate("--prompt", "x", "--devices", "cuda:0"), "cuda:0")
        self.refused(
            generate(
                "--prompt", "x", "--draft", DRAFT, "--devices", "cpu:0", "--draft-devices", "cpu:0"
            ),
            "cpu:0",
            "draft",
        )
        self.refused(
            generate("--prompt", "x", "--devices", "cpu:0", "--draft-devices", "cpu:1"),
            "draft devices",
            "no draft model",
        )
        self.refused(
            generate("--prompt", "x", "--strategy", "parallel_tree"), "parallel_tree", "draft model"
        )
        # Options that the strategy does not use; `auto` leaves them aside.
        self.refused(
            generate("--prompt", "x", "--strategy", "autoregressive", "--draft-width", 3),
            "draft_width: found 3",
            "strategy autoregressive does not use it",
        )
        self.refused(
            generate("--prompt", "x", "--strategy", "serial_tree", "--verify-tokens", 12),
            "verify_tokens: found 12",
            "shape adaptive",
            "it uses source, shape",
        )
        self.refused(
            generate("--prompt", "x", "--strategy", "autoregressive", "--no-shared-noise"),
            "shared_noise: found false",
        )
        done = generate("--prompt", "x", "--draft-width", 3, "--max-tokens", 2)
        self.succeeded(done)
        self.refused(
            generate("--prompt", "x", "--draft-width", 129), "draft_width: found 129", "1 to 128"
        )
        self.refused(
            generate("--prompt", "x", "--children-per-leaf", 65),
            "children_per_leaf: found 65",
            "0 to 64",
        )
        self.refused(
            generate("--prompt", "x", "--strategy", "autoregressive", "--children-per-leaf", 3),
            "children_per_leaf: found 3",
        )
        done = generate("--prompt", "x", "--children-per-leaf", 3, "--max-tokens", 2)
        self.succeeded(done)
        self.refused(generate("--prompt", "x", "--weights", "int3"), "int3", "int8")
        self.refused(
            generate(
                "--prompt",
                "x",
                "--draft",
                DRAFT,
                "--strategy",
                "serial_tree",
                "--accept",
                "rejection",
                "--shape",
                "best",
            ),
            "rejection",
            "best",
        )

    def test_texts_that_are_no_numbers(self):
        for entry in (
            ":50",
            "99999999999:50",
            "6:1e39",
            "6:nan",
            "6:inf",
            "6:",
            "6",
            "a:1",
            "6:1x",
            "6:3e38",
            "6:-100.5",
        ):
            self.refused(
                generate("--prompt", "x", "--logit-bias", entry),
                "--logit-bias",
                f"'{entry}'",
                "TOKEN:BIAS",
            )
        for penalty in ("1e-42", "0.009", "101", "nan", "0", "x"):
            self.refused(
                generate("--prompt", "x", "--repetition-penalty", penalty),
                "--repetition-penalty",
                f"'{penalty}'",
                "0.01 to 100",
            )
        self.refused(generate("--prompt", "x", "--extra-draft-steps", 2), "extra_draft_steps", "2")
        for seed in ("18446744073709551616", "-1", "abc", "1.5", "random1"):
            self.refused(
                generate("--prompt", "x", f"--seed={seed}"),
                "--seed",
                f"'{seed}'",
                "0 to 18446744073709551615",
                "random",
            )
        self.refused(generate("--prompt", "x", "--stop", ""), "--stop", "found no text")
        for size in ("4XB", "XB", "-1", "1e9", "inf", "4GBs", "4 G B", "99999999999GB"):
            self.refused(
                generate("--prompt", "x", f"--kv-memory={size}"),
                "--kv-memory",
                f"found '{size}'",
                "512MB, 4GB or 1.5GiB",
            )

    def test_sizes_of_memory(self):
        for size in ("100000000", "0.1GB", "100 mb", "95.4MiB", "100M"):
            self.succeeded(generate("--prompt", "x", "--max-tokens", 1, "--kv-memory", size))

    def test_no_memory_for_the_cache(self):
        self.refused(
            generate("--prompt", "x", "--kv-memory", "4KB"), "KV", "KB|bytes", "--kv-memory"
        )
        self.refused(
            generate("--prompt", "x", "--kv-memory", "60MB", "--context", 8000),
            "8000",
            "a context of [0-9]+ tokens fits",
            "--context",
        )
        self.refused(generate("--prompt", "x", "--kv-memory", "900TB"), "memory", "TB", "--context")
        limited = subprocess.run(
            [
                "sh",
                "-c",
                'ulimit -v 300000; exec "$@"',
                "sh",
                process.forerun(),
                "generate",
                "--model",
                TARGET,
                "--prompt",
                "x",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        self.refused(limited, "--context")


if __name__ == "__main__":
    process.main()
