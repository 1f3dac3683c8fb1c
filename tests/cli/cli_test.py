"""The command line as a user runs it: real processes on the demo pair and on broken checkpoints.

Usage: cli_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
FORERUN = ""
# Nothing of the user's is read or written.
CACHE = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = CACHE.name


def run(*args, **kwargs):
    return subprocess.run(
        [FORERUN, *map(str, args)],
        capture_output=True,
        text=True,
        timeout=kwargs.pop("timeout", 120),
        check=False,
        **kwargs,
    )


def generate(*args, model=TARGET, **kwargs):
    return run("generate", "--model", model, *args, **kwargs)


class Output(unittest.TestCase):
    def test_json_has_what_scripts_read(self):
        done = generate("--draft", DRAFT, "--prompt", "def add(a, b):", "--max-tokens", 12,
                        "--temperature", 0, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        reply = json.loads(done.stdout)
        self.assertIsInstance(reply["text"], str)
        self.assertIsInstance(reply["prompt_tokens"], int)
        self.assertEqual(len(reply["tokens"]), 12)
        self.assertEqual(reply["finish_reason"], "length")
        self.assertGreater(reply["tokens_per_s"], 0)
        self.assertGreaterEqual(reply["tokens_per_step"], 1)
        self.assertGreater(reply["time_to_first_token_ms"], 0)
        self.assertIn("strategy", reply)

    def test_greedy_continuation_is_the_references(self):
        # An independent f32 forward pass writes this; bf16 parts from it at a near-tie.
        done = generate("--prompt", 'def fibonacci(n):\n    """', "--max-tokens", 24,
                        "--temperature", 0, "--activations", "f32", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["text"].startswith(
            "Return the number of possible fibonacci numbers in the number\n"
            "    of ways of performing the operation."), done.stdout)

    def test_checkpoints_written_by_transformers_continue_as_there(self):
        # Every family: f32, since random weights leave near-ties to bf16.
        for golden in sorted(ROOT.glob("tests/goldens/*/golden.json")):
            with self.subTest(golden.parent.name):
                wanted = json.loads(golden.read_text(encoding="utf-8"))["generate"]
                done = generate("--prompt", wanted["prompt"], "--max-tokens", len(wanted["tokens"]),
                                "--temperature", 0, "--activations", "f32", "--ignore-eos", "--json",
                                model=golden.parent)
                self.assertEqual(done.returncode, 0, done.stderr)
                reply = json.loads(done.stdout)
                self.assertEqual(reply["prompt_tokens"], len(wanted["prompt_tokens"]))
                self.assertEqual(reply["tokens"], wanted["tokens"])

    def test_streams_text_and_statistics_apart(self):
        done = generate("--prompt", "It was late", "--max-tokens", 8, "--temperature", 0.8)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("It was late"))
        self.assertIn("tokens/s", done.stderr)
        self.assertNotIn("tokens/s", done.stdout)

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
        self.assertEqual((last["finish_reason"], last["prompt_tokens"]),
                         ("length", whole["prompt_tokens"]))

    def test_rejection_says_why_texts_may_differ(self):
        done = generate("--draft", DRAFT, "--prompt", "def f(", "--max-tokens", 20, "--compare",
                        "--strategy", "serial_tree", "--shape", "chain", "--accept", "rejection",
                        "--temperature", 0.8)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"identical: (yes|no) \(--accept rejection keeps")

    def test_compare_says_identical(self):
        for temperature in ("0", "0.8"):
            done = generate("--draft", DRAFT, "--prompt", "class Stack:\n", "--max-tokens", 60,
                            "--temperature", temperature, "--seed", 3, "--compare")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("identical: yes", done.stdout)

    def test_draft_devices_run_the_models_side_by_side(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("one processor")
        done = generate("--draft", DRAFT, "--prompt", "class Stack:\n", "--max-tokens", 60,
                        "--temperature", 0.8, "--strategy", "parallel_tree", "--compare",
                        "--target-devices", f"cpu:{cores[0]}", "--draft-devices", f"cpu:{cores[1]}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("parallel_tree", done.stdout)
        self.assertIn("identical: yes", done.stdout)

    def test_groups_of_devices_agree_at_their_degree(self):
        cores = sorted(os.sched_getaffinity(0))
        target = ",".join(3 * [f"cpu:{cores[0]}"])
        draft = ["--draft-devices", ",".join(2 * [f"cpu:{cores[1]}"])] if len(cores) > 1 else []
        done = generate("--draft", DRAFT, "--prompt", "class Stack:\n", "--max-tokens", 40,
                        "--temperature", 0.8, "--compare", "--target-devices", target, *draft)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("identical: yes", done.stdout)

    def test_show_tree_marks_accepted_and_rejected(self):
        done = generate("--draft", DRAFT, "--prompt", "import os\n", "--max-tokens", 60,
                        "--strategy", "serial_tree", "--shape", "best", "--temperature", 0,
                        "--show-tree")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  \+")
        self.assertRegex(done.stdout, r"✗ .*-")

    def test_help_lists_what_the_tables_hold(self):
        text = run("generate", "--help").stdout
        for name in ("auto", "autoregressive", "serial_tree", "parallel_tree", "model", "ngram",
                     "suffix", "adaptive", "best", "chain", "1,1,3,1,1"):
            self.assertIn(f"{name} (", text)

    def test_seed_repeats_and_differs(self):
        def text(seed):
            done = generate("--prompt", "The old house", "--max-tokens", 20, "--temperature", 1,
                            "--seed", seed, "--json")
            return json.loads(done.stdout)["tokens"]

        self.assertEqual(text(1), text(1))
        self.assertNotEqual(text(1), text(2))

    def test_a_random_seed_is_told_and_repeats(self):
        def reply(seed):
            return json.loads(generate("--prompt", "The old house", "--max-tokens", 20,
                                       "--temperature", 1, "--seed", seed, "--json").stdout)

        first, other = reply("random"), reply("random")
        self.assertNotEqual(first["seed"], other["seed"])
        self.assertEqual(reply(first["seed"])["tokens"], first["tokens"])
        self.assertEqual(reply(2**64 - 1)["seed"], 2**64 - 1)
        done = generate("--prompt", "x", "--max-tokens", 2, "--seed", "random")
        self.assertRegex(done.stderr, r"seed \d+")

    def test_stop_texts_are_taken_as_they_are(self):
        plain = json.loads(generate("--prompt", "def add(a, b):", "--max-tokens", 40,
                                    "--temperature", 0, "--json").stdout)["text"]
        # A text of brackets is no list; were it one, its inside would end the output.
        word = next(word for word in plain.split() if word.isalpha())
        done = generate("--prompt", "def add(a, b):", "--max-tokens", 40, "--temperature", 0,
                        "--json", "--stop", f"[{word}]", "--stop", "[]", "--stop", "{}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["text"], plain)
        # Two flags, two texts.
        done = generate("--prompt", "def add(a, b):", "--max-tokens", 40, "--temperature", 0,
                        "--json", "--stop", "never to be seen", "--stop", word)
        self.assertEqual(json.loads(done.stdout)["text"], plain[: plain.index(word)])

    def test_stop_string_cuts_the_text(self):
        plain = json.loads(generate("--prompt", "def add(a, b):", "--max-tokens", 40,
                                    "--temperature", 0, "--json").stdout)["text"]
        stop = plain[10:13]
        done = json.loads(generate("--prompt", "def add(a, b):", "--max-tokens", 40,
                                   "--temperature", 0, "--json", "--stop", stop,
                                   "--draft", DRAFT).stdout)
        self.assertEqual(done["text"], plain[: plain.index(stop)])
        self.assertEqual(done["finish_reason"], "stop")

    def test_prompt_from_standard_input_and_config_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
            config.write(f'[generate]\nmodel = "{TARGET}"\nmax-tokens = 4\njson = true\n')
            config.flush()
            done = run("--config", config.name, "generate", "--prompt-file", "-", input="Once upon")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(json.loads(done.stdout)["tokens"]), 4)

    def test_help_and_version(self):
        for command in ("generate", "chat", "bench", "inspect"):
            done = run(command, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Example:", done.stdout)
        self.assertRegex(run("--version").stdout, r"^forerun \d+\.\d+")

    def test_inspect(self):
        done = run("inspect", TARGET)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("AWQ int4", done.stdout)
        self.assertEqual(json.loads(run("inspect", TARGET, "--json").stdout)["num_layers"], 10)
        self.assertIn("cpu:0", run("inspect", "--devices").stdout)
        devices = json.loads(run("inspect", "--devices", "--json").stdout)
        self.assertGreaterEqual(devices["cores"], 1)
        self.assertIsInstance(devices["gpus"], list)
        nothing = run("inspect")
        self.assertIn("--devices", nothing.stderr)

    def test_bench_table_and_json(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bench.json"
            done = run("bench", "--model", TARGET, "--draft", DRAFT, "--prompts",
                       ROOT / "bench/workloads/code.jsonl", "--limit", 1, "--repeat", 1,
                       "--max-tokens", 16, "--strategies", "autoregressive,serial_tree",
                       "--temperatures", "0,0.8", "--json", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = json.loads(out.read_text())["workloads"]["code"]
        self.assertEqual(len(rows), 4)
        self.assertTrue(all(row["identical"] == 1 for row in rows))

    def test_what_steps_cost_is_measured_once(self):
        def report(*args):
            done = run("bench", "--model", TARGET, "--prompts", ROOT / "bench/workloads/code.jsonl",
                       "--limit", 1, "--repeat", 1, "--max-tokens", 4, "--strategies",
                       "autoregressive", "--temperatures", 0, "--context", 2000, *args)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        read = "as an earlier start has measured them"
        folder = Path(CACHE.name) / "forerun" / "step-costs"
        before = len(list(folder.glob("*"))) if folder.exists() else 0
        self.assertNotIn(read, report("--cost-cache", "off"))
        self.assertFalse(folder.exists() and len(list(folder.glob("*"))) > before)
        self.assertNotIn(read, report())
        self.assertEqual(len(list(folder.glob("*.json"))), before + 1)
        # A start in a quieter moment measures again.
        self.assertTrue(any(read in report() for _ in range(5)))
        self.assertNotIn(read, report("--measure-anew"))

    def bench_load(self, *args):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bench.json"
            done = run("bench", "--model", TARGET, "--draft", DRAFT, "--prompts",
                       ROOT / "bench/workloads/code.jsonl", "--warmup", 0, "--json", out, *args)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(out.read_text()), done.stdout

    def test_bench_of_many_requests(self):
        record, table = self.bench_load(
            "--concurrency", "1,3", "--requests", 6, "--arrivals", "poisson:200", "--max-tokens", 8,
            "--prompt-tokens", 40, "--strategies", "autoregressive,serial_tree", "--temperatures",
            "0,0.8", "--shape", "chain", "--compare", "--host-time")
        rows = record["workloads"]["code"]
        self.assertEqual([(row["temperature"] > 0, row["concurrency"], row["strategy"])
                          for row in rows],
                         [(hot, limit, strategy) for hot in (False, True) for limit in (1, 3)
                          for strategy in ("autoregressive", "serial_tree")])
        for row in rows:
            self.assertEqual(row["identical"], 6)
            self.assertEqual(row["prompt_tokens"], 6 * 40)
            self.assertEqual(row["output_tokens"], 6 * 8)
            for times in ("time_to_first_token_ms", "between_tokens_ms", "between_events_ms"):
                self.assertLessEqual(row[times]["p50"], row[times]["p99"])
                self.assertLessEqual(row[times]["p99"], row[times]["max"])
                self.assertGreater(row[times]["max"], 0)
            self.assertGreaterEqual(row["results"], row["output_tokens"] / row["tokens_per_step"])
            self.assertEqual(row["acceptance"] > 0, row["strategy"] == "serial_tree")
        self.assertEqual(record["arrivals"], "poisson:200")
        self.assertEqual(table.count("6/6"), len(rows))

    def test_bench_compares_although_nobody_decodes_plainly(self):
        record, _ = self.bench_load("--concurrency", "2", "--max-tokens", 6, "--strategies",
                                    "serial_tree", "--temperatures", "0.8", "--compare")
        self.assertEqual(record["workloads"]["code"][0]["identical"], 2)
        self.assertEqual(record["arrivals"], "all")

    def test_bench_of_a_long_prompt_among_requests_that_decode(self):
        record, _ = self.bench_load(
            "--requests", 2, "--prompt-tokens", 16, "--long-prompt", 1500, "--max-tokens", 1000,
            "--strategies", "autoregressive", "--temperatures", 0)
        (row,) = record["workloads"]["code"]
        self.assertEqual((row["requests"], row["long_prompt_tokens"]), (2, 1500))
        # At least the times that were running when the prompt came and when it had been read.
        self.assertGreaterEqual(row["tokens_during"], 2)
        self.assertGreater(row["during_between_tokens_ms"]["max"], 0)
        self.assertGreater(row["cancel_ms"], 0)
        self.assertGreater(record["destroy_ms"], 0)

    def test_auto_says_which_split_it_keeps(self):
        done = generate("--draft", DRAFT, "--prompt", "def f(", "--max-tokens", 8, "--auto", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("both models in turn", "forecast", "kept: ", "numeric fingerprint: "):
            self.assertIn(word, done.stderr)
        refused = generate("--prompt", "def f(", "--auto")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("no draft model", refused.stderr)

    def test_a_prompt_is_not_read_twice(self):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "bench.json"
            prompts = Path(folder) / "long.jsonl"
            prompts.write_text(json.dumps({"prompt": "x = 1\n" * 200}) + "\n")
            first_ms = []
            for extra in ([], ["--reuse-prompts"]):
                done = run("bench", "--model", TARGET, "--prompts", prompts, "--repeat", 1,
                           "--max-tokens", 4, "--strategies", "autoregressive", "--temperatures",
                           "0", "--json", out, *extra)
                self.assertEqual(done.returncode, 0, done.stderr)
                first_ms.append(json.loads(out.read_text())["workloads"]["long"][0]
                                ["time_to_first_token_ms"])
            self.assertGreater(first_ms[0], 2 * first_ms[1])

    def test_model_by_name_from_the_local_hub_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            repo = Path(folder) / "models--someone--demo"
            (repo / "refs").mkdir(parents=True)
            (repo / "refs" / "main").write_text("abc123")
            (repo / "snapshots").mkdir()
            (repo / "snapshots" / "abc123").symlink_to(DRAFT)
            environment = dict(os.environ, HF_HUB_CACHE=folder)
            done = generate("--prompt", "x", "--max-tokens", 2, "--json", model="someone/demo",
                            env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)


class Refusals(unittest.TestCase):
    """Each gives one clear line and a non-zero exit."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = Path(self.folder.name) / "model"
        shutil.copytree(DRAFT, self.model)

    def tearDown(self):
        self.folder.cleanup()

    def refused(self, done, *words):
        self.assertNotEqual(done.returncode, 0)
        self.assertGreaterEqual(done.returncode, 0, "killed by a signal")
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertRegex(lines[0], "(?i)" + word)

    def edit_config(self, **fields):
        path = self.model / "config.json"
        config = json.loads(path.read_text())
        config.update(fields)
        path.write_text(json.dumps(config))

    def edit_header(self, edit):
        path = self.model / "model.safetensors"
        data = path.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        edit(header)
        encoded = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(encoded)) + encoded + data[8 + length :])

    def test_missing_directory(self):
        self.refused(generate("--prompt", "x", model="/nowhere/at/all"), "/nowhere/at/all")

    def test_missing_weights(self):
        (self.model / "model.safetensors").unlink()
        self.refused(generate("--prompt", "x", model=self.model), "model.safetensors")

    def test_missing_tokenizer(self):
        (self.model / "tokenizer.json").unlink()
        self.refused(generate("--prompt", "x", model=self.model), "tokenizer.json")

    def test_inspect_supports_what_generate_runs(self):
        def unsupported(*words):
            for args in ((), ("--json",)):
                done = run("inspect", self.model, *args)
                self.refused(done, "not supported", *words)
                self.refused(generate("--prompt", "x", model=self.model), *words)
            self.assertNotIn("is supported", run("inspect", self.model).stdout)
            self.assertIs(json.loads(done.stdout)["supported"], False)
            self.assertRegex(json.loads(done.stdout)["unsupported"], words[0])

        path = self.model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["model"]["type"] = "Unigram"
        path.write_text(json.dumps(tokenizer))
        unsupported("Unigram", "BPE")
        path.unlink()
        unsupported("tokenizer.json")
        shutil.copy(DRAFT / "tokenizer.json", path)
        (self.model / "generation_config.json").write_text("{")
        unsupported("generation_config.json")

    def test_truncated_safetensors(self):
        path = self.model / "model.safetensors"
        for keep in (4, 100, 20000, 5_000_000):
            path.write_bytes((DRAFT / "model.safetensors").read_bytes()[:keep])
            self.refused(generate("--prompt", "x", model=self.model), "model.safetensors")

    def test_wrong_dtype(self):
        def edit(header):
            name = next(n for n in header if n.endswith("q_proj.weight"))
            header[name]["dtype"] = "I16"

        self.edit_header(edit)
        self.refused(generate("--prompt", "x", model=self.model), "q_proj", "i16")

    def test_unknown_architecture(self):
        self.edit_config(architectures=["MambaForCausalLM"], model_type="mamba")
        self.refused(generate("--prompt", "x", model=self.model), "mamba", "llama",
                     "nothing converts")
        self.edit_config(architectures=["InternLM2ForCausalLM"], model_type="internlm2")
        self.refused(generate("--prompt", "x", model=self.model), "internlm2", "convert2llama.py")

    def test_config_and_tensor_disagree(self):
        self.edit_config(intermediate_size=640)
        self.refused(generate("--prompt", "x", model=self.model), "640", "512")

    def test_broken_config(self):
        (self.model / "config.json").write_text("{")
        self.refused(generate("--prompt", "x", model=self.model), "config.json")

    def test_other_tokenizer(self):
        path = self.model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        vocabulary = tokenizer["model"]["vocab"]
        by_id = sorted(vocabulary, key=vocabulary.get)
        a, b = by_id[-1], by_id[-2]
        vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
        path.write_text(json.dumps(tokenizer))
        self.refused(generate("--prompt", "x", "--draft", self.model), "tokenizer")

    def test_prompt_longer_than_the_context(self):
        self.refused(generate("--prompt", "word " * 20000), "context|tokens")
        self.refused(generate("--prompt", "word " * 300, "--context", 128), "128")

    def test_weights_that_are_no_numbers(self):
        path = self.model / "model.safetensors"
        data = bytearray(path.read_bytes())
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8 : 8 + length])
        name = next(n for n in header if n.endswith("q_proj.weight"))
        begin = 8 + length + header[name]["data_offsets"][0]
        data[begin : begin + 2] = b"\xff\x7f"  # NaN of bf16
        path.write_bytes(data)
        self.refused(generate("--prompt", "x", model=self.model), "target, ", "NaN", "weights")

    def test_files_that_are_no_files(self):
        self.refused(generate("--prompt-file", self.folder.name), "--prompt-file",
                     "Is a directory", "- for standard input")
        self.refused(generate("--prompt-file", "/nowhere"), "/nowhere", "No such file")
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
        (self.model / "model.safetensors").write_text(pointer)
        self.refused(generate("--prompt", "x", model=self.model), "LFS pointer", "git lfs pull")

    def test_a_directory_without_permission(self):
        # Root may read everything: it becomes nobody, for whom the rest of the way is open.
        drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        if drop and shutil.which(drop[0]) is None:
            self.skipTest("no setpriv")
        forerun = Path(self.folder.name) / "forerun"
        shutil.copy(FORERUN, forerun)
        Path(self.folder.name).chmod(0o755)
        for path, name in ((self.model, "config.json"), (self.model / "config.json", "config.json"),
                           (self.model / "model.safetensors", "model.safetensors")):
            mode = path.stat().st_mode
            path.chmod(0)
            done = subprocess.run([*drop, forerun, "generate", "--model", self.model, "--prompt", "x"],
                                  capture_output=True, text=True, check=False, timeout=60)
            path.chmod(mode)
            self.refused(done, name, "Permission denied")

    def test_flags_that_would_do_nothing(self):
        self.refused(generate("--prompt", "x", "--logprobs", 3), "--logprobs", "--json")
        self.refused(generate("--prompt", "x", "--json", "--show-tree"), "--show-tree", "--json")
        self.refused(generate("--prompt", "x", "--json", "--no-echo"), "--no-echo", "--json")
        self.refused(generate("--prompt", "x", "--json", "--json-lines"), "--json-lines", "--json")
        self.refused(run("bench", "--model", TARGET, "--prompts", ROOT / "README.md",
                         "--temperature", 1), "--temperature", "did you mean --temperatures")

    def test_a_refused_request_prints_no_prompt(self):
        for args in (("--temperature", -1), ("--prompt-file", "-", "--context", 128)):
            prompt = () if "--prompt-file" in args else ("--prompt", "x y z")
            done = generate(*prompt, *args, input="word " * 300)
            self.refused(done, "found|tokens")
            self.assertEqual(done.stdout, "")

    def test_chat_without_a_template(self):
        path = self.model / "tokenizer_config.json"
        config = json.loads(path.read_text())
        del config["chat_template"]
        path.write_text(json.dumps(config))
        self.refused(run("chat", "--model", self.model, input="hello\n"), "template")

    def test_empty_prompt(self):
        self.refused(generate(), "--prompt TEXT", "--prompt-file FILE")
        self.refused(generate("--prompt", ""), "prompt")

    def test_flags_out_of_range(self):
        self.refused(generate("--prompt", "x", "--temperature", -1), "temperature", "-1")
        self.refused(generate("--prompt", "x", "--top-p", 1.5), "top.p", "1.5")
        self.refused(generate("--prompt", "x", "--max-tokens", 0), "max.*tokens", "0")
        self.refused(generate("--prompt", "x", "--strategy", "magic"), "magic", "auto, autoreg")
        self.refused(generate("--prompt", "x", "--shape", "star"), "star", "chain")
        self.refused(generate("--prompt", "x", "--accept", "hope"), "hope", "match")
        self.refused(generate("--prompt", "x", "--source", "oracle"), "oracle", "suffix")
        self.refused(generate("--prompt", "x", "--devices", ",".join(9 * ["cpu:0"])),
                     "found 9 devices", "1 to 8")
        self.refused(generate("--prompt", "x", "--devices", "cuda:0"), "cuda:0")
        self.refused(generate("--prompt", "x", "--draft", DRAFT, "--devices", "cpu:0",
                              "--draft-devices", "cpu:0"), "cpu:0", "draft")
        self.refused(generate("--prompt", "x", "--devices", "cpu:0", "--draft-devices", "cpu:1"),
                     "draft devices", "no draft model")
        self.refused(generate("--prompt", "x", "--strategy", "parallel_tree"),
                     "parallel_tree", "draft model")
        # Options that the strategy does not use; `auto` leaves them aside.
        self.refused(generate("--prompt", "x", "--strategy", "autoregressive", "--draft-width", 3),
                     "draft_width: found 3", "strategy autoregressive does not use it")
        self.refused(generate("--prompt", "x", "--strategy", "serial_tree", "--verify-tokens", 12),
                     "verify_tokens: found 12", "shape adaptive", "it uses source, shape")
        self.refused(generate("--prompt", "x", "--strategy", "autoregressive", "--no-shared-noise"),
                     "shared_noise: found false")
        done = generate("--prompt", "x", "--draft-width", 3, "--max-tokens", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(generate("--prompt", "x", "--draft-width", 129), "draft_width is 129", "1 to 128")
        self.refused(generate("--prompt", "x", "--children-per-leaf", 65),
                     "children_per_leaf is 65", "0 to 64")
        self.refused(generate("--prompt", "x", "--strategy", "autoregressive",
                              "--children-per-leaf", 3), "children_per_leaf: found 3")
        done = generate("--prompt", "x", "--children-per-leaf", 3, "--max-tokens", 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(generate("--prompt", "x", "--weights", "int3"), "int3", "int8")
        self.refused(generate("--prompt", "x", "--draft", DRAFT, "--strategy", "serial_tree",
                              "--accept", "rejection", "--shape", "best"), "rejection", "best")

    def test_texts_that_are_no_numbers(self):
        for entry in (":50", "99999999999:50", "6:1e39", "6:nan", "6:inf", "6:", "6", "a:1", "6:1x"):
            self.refused(generate("--prompt", "x", "--logit-bias", entry), "--logit-bias",
                         f"'{entry}'", "TOKEN:BIAS")
        for seed in ("18446744073709551616", "-1", "abc", "1.5", "random1"):
            self.refused(generate("--prompt", "x", f"--seed={seed}"), "--seed", f"'{seed}'",
                         "0 to 18446744073709551615", "random")
        self.refused(generate("--prompt", "x", "--stop", ""), "--stop", "found no text")

    def test_loads_that_make_no_sense(self):
        def bench(*args):
            return run("bench", "--model", TARGET, "--prompts", ROOT / "bench/workloads/code.jsonl",
                       *args)

        self.refused(bench("--requests", 0), "--requests", "found 0", "1 to 1000000")
        self.refused(bench("--requests", -5), "--requests", "found -5")
        self.refused(bench("--concurrency", "4,0"), "--concurrency", "found 0")
        self.refused(bench("--requests", 2, "--prompt-tokens", 0), "--prompt-tokens", "found 0")
        self.refused(bench("--requests", 2, "--max-tokens", -1), "--max-tokens", "found -1")
        self.refused(bench("--requests", 2, "--repeat", 0), "--repeat", "found 0")
        for flag, least in (("--repeat", 1), ("--warmup", 0), ("--limit", 0)):
            self.refused(bench(flag, least - 1), flag, f"found {least - 1}", f"{least} to 1000000")
            self.refused(bench(flag, -7), flag, "found -7")
        for arrivals in ("poisson:-1", "poisson:0", "poisson", "every:x", "sometimes"):
            self.refused(bench("--requests", 2, "--arrivals", arrivals), f"'{arrivals}'",
                         "poisson:REQUESTS_PER_SECOND")
        self.refused(bench("--arrivals", "all"), "--arrivals", "--requests")
        self.refused(bench("--compare"), "--compare", "--requests")
        self.refused(bench("--long-prompt", 9, "--concurrency", 2), "--long-prompt", "--requests")
        self.refused(bench("--long-prompt", 9, "--requests", 2, "--prompts",
                           ROOT / "bench/workloads/prose.jsonl"), "--long-prompt", "2 files")
        self.refused(bench("--requests", 2, "--prompt-tokens", 9000), "9000 tokens", "8192")
        self.refused(bench("--requests", 2, "--prompt-tokens", 16, "--long-prompt", 9000),
                     "9000 tokens", "8192")

    def test_no_memory_for_the_cache(self):
        self.refused(generate("--prompt", "x", "--kv-memory", "4KB"), "KV", "KB|bytes",
                     "--kv-memory")
        self.refused(generate("--prompt", "x", "--kv-memory", "60MB", "--context", 8000), "8000",
                     "a context of [0-9]+ tokens fits", "--context")
        self.refused(generate("--prompt", "x", "--kv-memory", "900TB"), "memory", "TB", "--context")
        limited = subprocess.run(["sh", "-c", 'ulimit -v 300000; exec "$@"', "sh", FORERUN, "generate",
                                  "--model", TARGET, "--prompt", "x"], capture_output=True,
                                 text=True, check=False, timeout=60)
        self.refused(limited, "--context")

    def test_other_formats_are_refused_by_name(self):
        self.edit_config(quantization_config={"quant_method": "gptq", "bits": 4})
        self.refused(generate("--prompt", "x", model=self.model), "gptq", "awq")
        gguf = Path(self.folder.name) / "weights.gguf"
        gguf.write_bytes(b"GGUF")
        self.refused(generate("--prompt", "x", model=gguf), "gguf", "safetensors")


if __name__ == "__main__":
    FORERUN = sys.argv.pop(1)
    unittest.main()
