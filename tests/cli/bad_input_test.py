"""Input that no test of a model thinks of: bytes that are no UTF-8, files that never end or are no
files, an output that is full, flags out of all range. Each gives one clear line.

Usage: bad_input_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import os
import shutil
import tempfile
from pathlib import Path

import process
from process import DRAFT, ROOT, TARGET, generate, run

CODE = ROOT / "bench/workloads/code.jsonl"
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


class BadInput(process.CommandLine):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def copied(self, model=DRAFT, **tokenizer_config):
        copy = self.folder / "model"
        shutil.copytree(model, copy)
        path = copy / "tokenizer_config.json"
        config = json.loads(path.read_text())
        config.update(tokenizer_config)
        path.write_text(json.dumps(config))
        return copy

    def chat(self, *args, **kwargs):
        return run("chat", "--model", self.model, "--max-tokens", 4, *args, text=False, **kwargs)

    def test_chat_refuses_what_is_no_utf8_and_goes_on(self):
        self.model = self.copied(chat_template=TEMPLATE)
        done = self.chat(input=b"\xff\nhello\n")
        self.assertIn(b"0xff at offset 0", done.stderr)
        self.assertIn(b"UTF-8", done.stderr)
        self.assertIn(b" 4 tokens,", done.stderr)  # of the next line
        self.refused(
            self.chat("--system", b"caf\xe9", input=b"hello\n"), "--system", "0xe9", "UTF-8"
        )
        done = self.chat(input=b"/system caf\xe9\nhello\n")
        self.assertIn(b"line: found byte 0xe9", done.stderr)
        self.assertIn(b"4 tokens", done.stderr)

    def test_no_byte_of_a_broken_file_commands_the_terminal(self):
        bad = b"\xff \xc2\x9b31m \x1b[31m"
        name = "\x1b[31mred"
        for file, content in (
            ("config.json", b'{"architectures": ["' + bad + b'"]}'),
            ("config.json", b'{"architectures": ["\\u001b[31m\\u009b31m"]}'),
            ("config.json", bad),
            ("generation_config.json", b'{"temperature": ' + bad + b"}"),
            ("tokenizer.json", b'{"model": ' + bad),
            ("model.safetensors.index.json", b'{"weight_map": {"' + bad + b'": 1}}'),
            ("model.safetensors", bad),
        ):
            with self.subTest(file=file, content=content):
                model = self.folder / name
                shutil.copytree(DRAFT, model)
                (model / file).write_bytes(content)
                done = generate("--prompt", "x", model=model, text=False)
                shutil.rmtree(model)
                self.refused(done, "forerun: ")
                told = done.stderr.decode()  # fails where it is no UTF-8
                self.assertFalse([c for c in told if c < " " and c != "\n" or "\x7f" <= c < "\xa0"])

    def test_bench_writes_json_of_a_file_whose_name_is_no_utf8(self):
        prompts = os.fsencode(self.folder) + b"/caf\xe9.jsonl"
        with open(prompts, "wb") as file:
            file.write(b'{"prompt": "def f("}\n')
        out = self.folder / "bench.json"
        done = run(
            "bench",
            "--model",
            DRAFT,
            "--prompts",
            prompts,
            "--repeat",
            1,
            "--warmup",
            0,
            "--max-tokens",
            4,
            "--strategies",
            "autoregressive",
            "--temperatures",
            0,
            "--json",
            out,
            text=False,
        )
        self.succeeded(done)
        self.assertIn("caf\ufffd", json.loads(out.read_text())["workloads"])

    def test_prompts_that_never_end(self):
        self.refused(generate("--prompt-file", "/dev/zero"), "--prompt-file", "/dev/zero", "64 MiB")
        with open("/dev/zero", "rb") as zeros:
            self.refused(generate("--prompt-file", "-", stdin=zeros), "standard input", "64 MiB")

        self.refused(
            run("bench", "--model", DRAFT, "--prompts", "/dev/zero", timeout=20),
            "prompts",
            "/dev/zero",
            "256 MiB",
        )

    def test_a_fifo_in_place_of_a_file(self):
        model = self.copied()
        for name, said in (
            ("model.safetensors", "not a regular file"),
            ("tokenizer.json", "not a regular file"),
            ("config.json", "config.json: is not a regular file"),
            ("generation_config.json", "is not a regular file"),
        ):
            path = model / name
            path.rename(self.folder / name)
            os.mkfifo(path)
            self.refused(generate("--prompt", "x", model=model, timeout=20), name, said)
            path.unlink()
            (self.folder / name).rename(path)

    def test_numbers_of_requests(self):
        self.refused(
            run("trace", "--model", TARGET, "--prompt", "x", "--requests", 1000000000),
            "--requests",
            "1000000000",
            "1 to 4096",
        )
        self.refused(
            run(
                "bench",
                "--model",
                TARGET,
                "--prompts",
                CODE,
                "--requests",
                1000000,
                "--prompt-tokens",
                8000,
            ),
            "--prompt-tokens",
            "8000000000",
        )

    def test_json_on_standard_output(self):
        done = run(
            "bench",
            "--model",
            DRAFT,
            "--prompts",
            CODE,
            "--repeat",
            1,
            "--limit",
            1,
            "--max-tokens",
            4,
            "--strategies",
            "autoregressive",
            "--temperatures",
            0,
            "--json",
            "-",
        )
        self.assertIn("code", json.loads(self.succeeded(done).stdout)["workloads"])
        self.assertIn("tokens/s", done.stderr)
        done = run("trace", "--model", DRAFT, "--prompt", "x", "--max-tokens", 4, "--json", "-")
        self.assertIn("traceEvents", json.loads(self.succeeded(done).stdout))

    def test_a_full_standard_output_is_no_success(self):
        bench = [
            "bench",
            "--model",
            DRAFT,
            "--prompts",
            CODE,
            "--repeat",
            1,
            "--limit",
            1,
            "--max-tokens",
            4,
            "--strategies",
            "autoregressive",
            "--temperatures",
            0,
        ]
        generating = ["generate", "--model", DRAFT, "--prompt", "x", "--max-tokens", 4]
        plan = ["plan", "--model", TARGET, "--gpus", "h200", "--batch", 1, "--context", 2000]
        for args in (
            generating,
            [*generating, "--json"],
            ["inspect", TARGET],
            ["inspect", TARGET, "--json"],
            ["inspect", "--devices"],
            bench,
            plan,
            ["trace", "--model", DRAFT, "--prompt", "x", "--max-tokens", 4],
            ["--version"],
            ["generate", "--help"],
        ):
            with self.subTest(args[0]), open("/dev/full", "w", encoding="utf-8") as full:
                done = run(*args, stdout=full)
                self.assertEqual(done.returncode, 1)
                self.assertIn("standard output: cannot be written", done.stderr)
        for args, typed in (
            (["chat", "--model", DRAFT, "--max-tokens", 4], "hello\n"),
            (["generate", "--model", DRAFT, "--batch", "-"], '{"prompt": "x"}\n'),
        ):
            with self.subTest(args[0]), open("/dev/full", "w", encoding="utf-8") as full:
                done = run(*args, stdout=full, input=typed)
                self.assertEqual(done.returncode, 1)
                self.assertIn("standard output: cannot be written", done.stderr)


if __name__ == "__main__":
    process.main()
