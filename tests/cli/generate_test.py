"""`forerun generate`: what it prints, streams and writes as JSON, on the demo pair.

Usage: generate_test.py PATH_OF_FORERUN [unittest options]
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import process
from process import DRAFT, GOLDENS, ROOT, TARGET, generate, needs_goldens, run


class Generate(process.CommandLine):
    def test_json_has_what_scripts_read(self):
        done = generate(
            "--draft",
            DRAFT,
            "--prompt",
            "def add(a, b):",
            "--max-tokens",
            12,
            "--temperature",
            0,
            "--json",
        )
        self.succeeded(done)
        reply = json.loads(done.stdout)
        self.assertIsInstance(reply["text"], str)
        self.assertIsInstance(reply["prompt_tokens"], int)
        self.assertEqual(len(reply["tokens"]), 12)
        self.assertEqual(reply["finish_reason"], "length")
        self.assertGreater(reply["tokens_per_s"], 0)
        self.assertGreaterEqual(reply["tokens_per_step"], 1)
        self.assertGreater(reply["time_to_first_token_ms"], 0)
        self.assertIn("strategy", reply)

    def test_the_fingerprint_names_the_stored_format(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("f16", "f32", "q8_0"):
                file = Path(folder) / f"{name}.gguf"
                self.succeeded(run("convert", DRAFT, file, "--to", name))
                options = ("--prompt", "a", "--max-tokens", 1, "--context", 512, "--json")
                done = generate(*options, model=file)
                fingerprint = json.loads(self.succeeded(done).stdout)["numeric_fingerprint"]
                stored = "Q8_0" if name == "q8_0" else name
                self.assertIn(f" weights={stored} ", fingerprint)

    def test_greedy_continuation_is_the_references(self):
        # An independent f32 forward pass writes this; bf16 parts from it at a near-tie.
        done = generate(
            "--prompt",
            'def fibonacci(n):\n    """',
            "--max-tokens",
            24,
            "--temperature",
            0,
            "--activations",
            "f32",
            "--json",
        )
        self.succeeded(done)
        self.assertTrue(
            json.loads(done.stdout)["text"].startswith(
                "Return the number of possible fibonacci numbers in the number\n"
                "    of ways of performing the operation."
            ),
            done.stdout,
        )

    @needs_goldens
    def test_checkpoints_written_by_transformers_continue_as_there(self):
        # Every family: f32, since random weights leave near-ties to bf16.
        goldens = sorted(GOLDENS.glob("*/golden.json"))
        self.assertGreaterEqual(len(goldens), 14)
        for golden in goldens:
            with self.subTest(golden.parent.name):
                wanted = json.loads(golden.read_text(encoding="utf-8"))["generate"]
                done = generate(
                    "--prompt",
                    wanted["prompt"],
                    "--max-tokens",
                    len(wanted["tokens"]),
                    "--temperature",
                    0,
                    "--activations",
                    "f32",
                    "--ignore-eos",
                    "--json",
                    model=golden.parent,
                )
                self.succeeded(done)
                reply = json.loads(done.stdout)
                self.assertEqual(reply["prompt_tokens"], len(wanted["prompt_tokens"]))
                self.assertEqual(reply["tokens"], wanted["tokens"])

    def test_streams_text_and_statistics_apart(self):
        done = generate("--prompt", "It was late", "--max-tokens", 8, "--temperature", 0.8)
        self.succeeded(done)
        self.assertTrue(done.stdout.startswith("It was late"))
        self.assertIn("tokens/s", done.stderr)
        self.assertNotIn("tokens/s", done.stdout)

    def test_statistics_of_a_single_token(self):
        done = self.succeeded(generate("--prompt", "x", "--max-tokens", 1))
        self.assertIn("— 1 token, ", done.stderr)
        self.assertNotIn("tokens/s", done.stderr)  # of no time

    def test_the_completion_alone(self):
        args = ("--prompt", "def add(a, b):", "--max-tokens", 20, "--temperature", 0)
        text = json.loads(generate(*args, "--json").stdout)["text"]
        self.assertEqual(generate(*args, "--no-echo").stdout, text + "\n")
        self.assertEqual(generate(*args).stdout, "def add(a, b):" + text + "\n")

    def test_json_lines_stream(self):
        args = ("--prompt", "def add(a, b):", "--max-tokens", 20, "--temperature", 0)
        whole = json.loads(generate(*args, "--json").stdout)
        done = generate(*args, "--json-lines", "--logprobs", 1)
        *events, last = map(json.loads, done.stdout.splitlines())
        self.assertGreater(len(events), 1)
        self.assertEqual("".join(event["text"] for event in events), whole["text"])
        self.assertEqual([token for event in events for token in event["tokens"]], whole["tokens"])
        for event in events:
            self.assertEqual([each[0]["token"] for each in event["logprobs"]], event["tokens"])
        self.assertEqual(
            (last["finish_reason"], last["prompt_tokens"]), ("length", whole["prompt_tokens"])
        )

    def test_prompts_are_scored(self):
        args = ("--max-tokens", 30, "--temperature", 0, "--json")
        written = json.loads(generate("--prompt", "def add(a, b):", *args, "--logprobs", 1).stdout)
        text = "def add(a, b):" + written["text"]
        scored = json.loads(
            generate("--prompt", text, "--json", "--prompt-logprobs", 1, "--max-tokens", 0).stdout
        )
        self.assertEqual((scored["text"], scored["tokens"]), ("", []))
        scores = scored["prompt_logprobs"]
        self.assertEqual(len(scores), scored["prompt_tokens"] - 1)
        first = scored["prompt_tokens"] - len(written["tokens"]) - 1
        self.assertEqual(scores[first : first + 10], written["logprobs"][:10])

    def test_lossy_rules_say_that_they_give_the_text_up(self):
        for accept in ("relaxed", "nucleus:0.8"):
            done = generate(
                "--prompt",
                "def f(",
                "--max-tokens",
                40,
                "--draft",
                DRAFT,
                "--strategy",
                "pipelined",
                "--accept",
                accept,
                "--stages",
                2,
                "--context",
                512,
                "--temperature",
                0,
                "--compare",
            )
            self.succeeded(done)
            self.assertRegex(
                done.stdout, rf"identical: (yes|no) \(--accept {accept} trades the text for speed"
            )

    def test_rejection_says_why_texts_may_differ(self):
        done = generate(
            "--draft",
            DRAFT,
            "--prompt",
            "def f(",
            "--max-tokens",
            20,
            "--compare",
            "--strategy",
            "serial_tree",
            "--shape",
            "chain",
            "--accept",
            "rejection",
            "--temperature",
            0.8,
        )
        self.succeeded(done)
        self.assertRegex(done.stdout, r"identical: (yes|no) \(--accept rejection keeps")

    def test_compare_says_identical(self):
        for temperature in ("0", "0.8"):
            done = generate(
                "--draft",
                DRAFT,
                "--prompt",
                "class Stack:\n",
                "--max-tokens",
                60,
                "--temperature",
                temperature,
                "--seed",
                3,
                "--compare",
            )
            self.succeeded(done)
            self.assertIn("identical: yes", done.stdout)

    def test_draft_devices_run_the_models_concurrently(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("one processor")
        done = generate(
            "--draft",
            DRAFT,
            "--prompt",
            "class Stack:\n",
            "--max-tokens",
            60,
            "--temperature",
            0.8,
            "--strategy",
            "parallel_tree",
            "--compare",
            "--target-devices",
            f"cpu:{cores[0]}",
            "--draft-devices",
            f"cpu:{cores[1]}",
        )
        self.succeeded(done)
        self.assertIn("parallel_tree", done.stdout)
        self.assertIn("identical: yes", done.stdout)

    def test_groups_of_devices_agree_at_their_degree(self):
        cores = sorted(os.sched_getaffinity(0))
        target = ",".join(3 * [f"cpu:{cores[0]}"])
        draft = ["--draft-devices", ",".join(2 * [f"cpu:{cores[1]}"])] if len(cores) > 1 else []
        done = generate(
            "--draft",
            DRAFT,
            "--prompt",
            "class Stack:\n",
            "--max-tokens",
            40,
            "--temperature",
            0.8,
            "--compare",
            "--context",
            512,
            "--target-devices",
            target,
            *draft,
        )
        self.succeeded(done)
        self.assertIn("identical: yes", done.stdout)

    def test_show_tree_marks_accepted_and_rejected(self):
        done = generate(
            "--draft",
            DRAFT,
            "--prompt",
            "import os\n",
            "--max-tokens",
            60,
            "--strategy",
            "serial_tree",
            "--shape",
            "best",
            "--temperature",
            0,
            "--show-tree",
        )
        self.succeeded(done)
        self.assertRegex(done.stdout, r"(?m)^  \+")
        self.assertRegex(done.stdout, r"✗ .*-")

    def test_seed_repeats_and_differs(self):
        def text(seed):
            done = generate(
                "--prompt",
                "The old house",
                "--max-tokens",
                20,
                "--temperature",
                1,
                "--seed",
                seed,
                "--json",
            )
            return json.loads(done.stdout)["tokens"]

        self.assertEqual(text(1), text(1))
        self.assertNotEqual(text(1), text(2))

    def test_a_random_seed_is_told_and_repeats(self):
        def reply(seed):
            return json.loads(
                generate(
                    "--prompt",
                    "The old house",
                    "--max-tokens",
                    20,
                    "--temperature",
                    1,
                    "--seed",
                    seed,
                    "--json",
                ).stdout
            )

        first, other = reply("random"), reply("random")
        self.assertNotEqual(first["seed"], other["seed"])
        self.assertEqual(reply(first["seed"])["tokens"], first["tokens"])
        self.assertEqual(reply(2**64 - 1)["seed"], 2**64 - 1)
        done = generate("--prompt", "x", "--max-tokens", 2, "--seed", "random")
        self.assertRegex(done.stderr, r"seed \d+")

    def test_stop_texts_are_taken_as_they_are(self):
        plain = json.loads(
            generate(
                "--prompt", "def add(a, b):", "--max-tokens", 40, "--temperature", 0, "--json"
            ).stdout
        )["text"]
        # A text of brackets is no list; were it one, its inside would end the output.
        word = next(word for word in plain.split() if word.isalpha())
        done = generate(
            "--prompt",
            "def add(a, b):",
            "--max-tokens",
            40,
            "--temperature",
            0,
            "--json",
            "--stop",
            f"[{word}]",
            "--stop",
            "[]",
            "--stop",
            "{}",
        )
        self.succeeded(done)
        self.assertEqual(json.loads(done.stdout)["text"], plain)
        # Two flags, two texts.
        done = generate(
            "--prompt",
            "def add(a, b):",
            "--max-tokens",
            40,
            "--temperature",
            0,
            "--json",
            "--stop",
            "never to be seen",
            "--stop",
            word,
        )
        self.assertEqual(json.loads(done.stdout)["text"], plain[: plain.index(word)])

    def test_stop_string_cuts_the_text(self):
        plain = json.loads(
            generate(
                "--prompt", "def add(a, b):", "--max-tokens", 40, "--temperature", 0, "--json"
            ).stdout
        )["text"]
        stop = plain[10:13]
        done = json.loads(
            generate(
                "--prompt",
                "def add(a, b):",
                "--max-tokens",
                40,
                "--temperature",
                0,
                "--json",
                "--stop",
                stop,
                "--draft",
                DRAFT,
            ).stdout
        )
        self.assertEqual(done["text"], plain[: plain.index(stop)])
        self.assertEqual(done["finish_reason"], "stop")

    def test_prompt_from_standard_input_and_config_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write(f'[generate]\nmodel = "{TARGET}"\nmax-tokens = 4\njson = true\n')
            config.flush()
            done = run("--config", config.name, "generate", "--prompt-file", "-", input="Once upon")
        self.succeeded(done)
        self.assertEqual(len(json.loads(done.stdout)["tokens"]), 4)

    @needs_goldens
    def test_auto_says_which_split_it_keeps(self):
        small = GOLDENS / "llama3"  # every split of it is measured at once
        args = ("--prompt", "def f(", "--max-tokens", 8, "--auto", "--json")
        done = generate("--draft", small, *args, model=small)
        self.succeeded(done)
        for word in ("both models sequentially", "forecast", "kept: ", "numeric fingerprint: "):
            self.assertIn(word, done.stderr)
        refused = generate("--prompt", "def f(", "--auto")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("no draft model", refused.stderr)

    def test_model_by_name_from_the_local_hub_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            repo = Path(folder) / "models--someone--demo"
            (repo / "refs").mkdir(parents=True)
            (repo / "refs" / "main").write_text("abc123")
            (repo / "snapshots").mkdir()
            (repo / "snapshots" / "abc123").symlink_to(DRAFT)
            environment = dict(os.environ, HF_HUB_CACHE=folder)
            for name in ("someone/demo", "someone/demo@main", "someone/demo@abc123"):
                self.succeeded(
                    generate(
                        "--prompt", "x", "--max-tokens", 2, "--json", model=name, env=environment
                    )
                )
            self.refused(
                generate("--prompt", "x", model="someone/demo@v2", env=environment),
                "someone--demo",
                "v2",
            )


LAYOUTS = {
    "awq-int4": ["--layout", "awq-gemm", "--group", "64"],
    "awq-gemv-int4": ["--layout", "awq-gemv", "--group", "32"],
    "awq-gemv-fast-int4": ["--layout", "awq-gemv-fast", "--group", "64"],
    "gptq-int4": ["--layout", "gptq", "--group", "64", "--desc-act"],
    "gptq-int8": ["--layout", "gptq", "--bits", "8", "--group", "32", "--v2"],
    "ct-int4": ["--layout", "packed", "--group", "32", "--symmetric"],
    "ct-int8": ["--layout", "int8", "--group", "-1", "--scale-dtype", "BF16"],
    "fp8": ["--layout", "fp8", "--scale-dtype", "F32"],
}


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy writes the checkpoints")
class QuantizedLayouts(process.CommandLine):
    def tokens(self, model):
        done = generate(
            "--prompt",
            "def add(a, b):",
            "--max-tokens",
            24,
            "--temperature",
            0,
            "--activations",
            "f32",
            "--context",  # a short one: Steps are measured five times as soon
            512,
            "--json",
            model=model,
        )
        return json.loads(self.succeeded(done).stdout)["tokens"]

    def test_a_layout_says_what_its_decoded_twin_says(self):
        for name, options in LAYOUTS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                model, twin = Path(folder) / "model", Path(folder) / "twin"
                tool = [sys.executable, ROOT / "tools" / "quantize_layouts.py"]
                subprocess.run(
                    [*tool, DRAFT, model, "--twin", twin, *options],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                found = self.tokens(model)
                self.assertEqual(len(found), 24)
                self.assertEqual(found, self.tokens(twin))
                inspected = self.succeeded(run("inspect", model)).stdout
                self.assertIn(name + " ", inspected)
                self.assertIn("Everything in this checkpoint is supported.", inspected)

    def narrow_model(self, folder):
        """A directory with one layer of 96 inputs."""
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        layer = {"dtype": "BF16", "shape": [8, 96], "data_offsets": [0, 2 * 8 * 96]}
        header = json.dumps({"model.layers.0.mlp.down_proj.weight": layer}).encode()
        data = len(header).to_bytes(8, "little") + header + bytes(2 * 8 * 96)
        (folder / "model.safetensors").write_bytes(data)
        return folder

    def test_a_width_without_a_place_is_refused_in_one_line(self):
        tool = [sys.executable, ROOT / "tools" / "quantize_layouts.py"]
        with tempfile.TemporaryDirectory() as folder:
            model = self.narrow_model(Path(folder) / "narrow")
            for options, words in (
                (["awq-gemv-fast", "--group", "32"], "found 96 inputs; accepted: a multiple of 64"),
                (["gptq", "--group", "64"], "found 96 inputs; accepted: a multiple of 64"),
                (
                    ["awq-gemv", "--group", "16"],
                    "--group: found 16; accepted with awq-gemv: -1, 32",
                ),
            ):
                with self.subTest(options):
                    done = subprocess.run(
                        [*tool, model, Path(folder) / "out", "--layout", *options],
                        capture_output=True,
                        text=True,
                    )
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(words, done.stderr)
                    self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    process.main()
