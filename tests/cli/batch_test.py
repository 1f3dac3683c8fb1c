"""generate --batch: requests from JSON lines, results in order.

Usage: batch_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import signal
import subprocess
import tempfile
from pathlib import Path

import process
from process import DRAFT, TARGET, generate, run


class Batch(process.CommandLine):
    def batch(self, lines, *args, **kwargs):
        text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
        return run("generate", "--model", DRAFT, "--batch", "-", *args, input=text, **kwargs)

    def results(self, done):
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_results_come_in_order_and_are_those_of_single_requests(self):
        # The first is the longest by far, so that the others end before it.
        lines = [
            {"prompt": "def f(", "max_tokens": 200, "id": "long"},
            {"prompt": "It was late", "temperature": 1, "seed": 9},
            "\n",
            {"messages": [{"role": "user", "content": "hello"}]},
            {"prompt": "class A", "stop": "def"},
            *({"prompt": "x" * count, "temperature": 0.8} for count in range(1, 20)),
        ]
        results = self.results(
            self.succeeded(self.batch(lines, "--max-tokens", 12, "--temperature", 0, "--seed", 5))
        )
        self.assertEqual([result["index"] for result in results], list(range(23)))
        self.assertEqual(results[0]["id"], "long")
        self.assertEqual(len(results[0]["tokens"]), 200)
        self.assertEqual([result["seed"] for result in results], [5, 9, *range(7, 28)])
        self.assertNotIn("def", results[3]["text"])

        def alone(*args):
            return json.loads(
                self.succeeded(generate(*args, "--max-tokens", 12, "--json", model=DRAFT)).stdout
            )["tokens"]

        self.assertEqual(
            results[1]["tokens"], alone("--prompt", "It was late", "--temperature", 1, "--seed", 9)
        )
        self.assertEqual(
            results[2]["tokens"], alone("--prompt", "User: hello\nAssistant:", "--temperature", 0)
        )
        self.assertEqual(
            results[9]["tokens"], alone("--prompt", "xxxxxx", "--temperature", 0.8, "--seed", 14)
        )

    def test_messages_never_become_control_tokens(self):
        def prompt_tokens(text):
            lines = [{"messages": [{"role": "user", "content": text}]}]
            done = self.succeeded(self.batch(lines, "--max-tokens", 1))
            return self.results(done)[0]["prompt_tokens"]

        without = prompt_tokens("ab")
        # The name would be one token; as text it is several.
        self.assertGreater(prompt_tokens("a<|endoftext|>b"), without + 2)

    def test_a_refused_request_disturbs_nobody(self):
        done = self.batch(
            [
                {"prompt": "word " * 300},
                {"prompt": "def f("},
                {"prompt": ""},
            ],
            "--max-tokens",
            4,
            "--context",
            128,
        )
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 of 3 requests failed", done.stderr)
        long, good, empty = self.results(done)
        self.assertIn("128", long["error"])
        self.assertEqual(len(good["tokens"]), 4)
        self.assertIn("prompt", empty["error"])

    def test_lines_out_of_order_are_found_before_anything_runs(self):
        good = {"prompt": "x"}
        for bad, *words in (
            ("{\n", "no JSON object"),
            ("[]\n", "no JSON object"),
            ('{"prompt": ' + "[" * 100000 + "\n", "no JSON object"),
            ({"promt": "x"}, '"promt"', '"prompt"'),
            ({}, "neither"),
            ({"prompt": "x", "messages": []}, "both"),
            ({"prompt": 3}, '"prompt": found 3'),
            ({"prompt": "x", "max_tokens": 0}, '"max_tokens": found 0'),
            ({"prompt": "x", "max_tokens": 1.5}, "found 1.5"),
            ({"prompt": "x", "seed": -1}, '"seed": found -1'),
            ({"prompt": "x", "top_p": "1"}, '"top_p": found "1"'),
            ({"prompt": "x", "temperature": -1}, '"temperature": found -1'),
            ({"prompt": "x", "presence_penalty": 2.5}, '"presence_penalty": found 2.5'),
            ({"prompt": "x", "stop": [""]}, '"stop"'),
            ({"messages": "x"}, '"messages"'),
        ):
            self.refused(self.batch([good, "\n", bad]), "-:3: ", *words)
        self.refused(self.batch([]), "--batch", "holds no request")
        self.refused(generate("--batch", "/nowhere"), "--batch", "/nowhere")
        for flag in ("--json", "--json-lines", "--no-echo", "--compare", "--show-tree"):
            self.refused(self.batch([good], flag), flag, "--batch")
        self.refused(self.batch([good], "--prompt", "x"), "several", "--batch")

    def test_an_interrupt_prints_what_there_is(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "batch.jsonl"
            path.write_text('{"prompt": "x", "max_tokens": 4}\n' + '{"prompt": "def f("}\n' * 300)
            running = subprocess.Popen(
                [
                    process.forerun(),
                    "generate",
                    "--model",
                    TARGET,
                    "--batch",
                    path,
                    "--ignore-eos",
                    "--max-tokens",
                    "8000",
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            first = running.stdout.readline()
            running.send_signal(signal.SIGINT)
            rest, _ = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 130)
        self.assertEqual(json.loads(first)["finish_reason"], "length")
        for line in rest.splitlines():
            self.assertEqual(json.loads(line)["finish_reason"], "cancelled")


if __name__ == "__main__":
    process.main()
