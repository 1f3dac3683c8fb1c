"""`forerun convert`: what comes back after a way there and back, what is refused, what is left.

tests/gguf/gguf_test.py compares what is written with the gguf package.

Usage: convert_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import resource
import shutil
import signal
import tempfile
from pathlib import Path

import process
from process import DRAFT, ROOT, TARGET, generate, run


def tensors_of(folder):
    """Dtype, shape and bytes of every tensor of a directory."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:begin]).items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                found[name] = (entry["dtype"], entry["shape"], data[begin + first : begin + end])
    return found


class Convert(process.CommandLine):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def convert(self, source, name, *args):
        out = self.folder / name
        self.succeeded(run("convert", source, out, *args))
        self.assertEqual(list(self.folder.glob("*.part")), [])
        return out

    def text(self, model):
        prompt = ("--prompt", "def add(a, b):", "--max-tokens", 12, "--temperature", 0)
        done = generate(*prompt, "--no-echo", "--activations", "f32", model=model)
        return self.succeeded(done).stdout

    def test_bf16_comes_back_bit_for_bit(self):
        there = self.convert(DRAFT, "draft.gguf", "--to", "bf16")
        back = self.convert(there, "draft", "--to", "bf16")
        wanted, found = tensors_of(DRAFT), tensors_of(back)
        self.assertEqual(found.keys(), wanted.keys())
        for name, tensor in wanted.items():
            self.assertTrue(found[name] == tensor, name)
        self.assertEqual(self.text(there), self.text(DRAFT))
        self.assertEqual(self.text(back), self.text(DRAFT))

    def test_chat_template_and_defaults_come_back(self):
        back = self.convert(
            self.convert(DRAFT, "draft.gguf", "--to", "bf16"), "draft", "--to", "f16"
        )
        wanted = json.loads((DRAFT / "tokenizer_config.json").read_text())
        found = json.loads((back / "tokenizer_config.json").read_text())
        for field in ("chat_template", "bos_token", "eos_token"):
            self.assertEqual(found[field], wanted[field])
        self.assertEqual(json.loads((back / "config.json").read_text())["torch_dtype"], "float16")
        self.assertIs(json.loads((back / "generation_config.json").read_text())["do_sample"], False)

    def test_blocks_are_copied(self):
        first = self.convert(TARGET, "first.gguf", "--to", "q8_0")
        second = self.convert(first, "second.gguf", "--to", "q8_0")
        self.assertTrue(first.read_bytes() == second.read_bytes())

    def test_awq_is_copied(self):
        found = tensors_of(self.convert(TARGET, "target", "--to", "awq"))
        wanted = tensors_of(TARGET)
        self.assertEqual(found.keys(), wanted.keys())
        for name, tensor in wanted.items():
            self.assertTrue(found[name] == tensor, name)

    def test_a_small_target_and_back(self):
        small = self.convert(TARGET, "target.gguf", "--to", "q4_0")
        self.assertLess(small.stat().st_size, 23e6)
        listed = run("inspect", small, "--tensors").stdout
        self.assertRegex(listed, r"token_embd.weight +Q8_0 +8192 x 512")
        self.assertRegex(listed, r"blk.0.attn_norm.weight +f32")
        back = self.convert(small, "target", "--to", "bf16")
        self.assertEqual(self.text(small), self.text(back))
        again = self.convert(back, "again", "--to", "awq:64")
        config = json.loads((again / "config.json").read_text())
        self.assertEqual(config["quantization_config"]["group_size"], 64)
        self.assertTrue(self.text(again))
        done = generate("--prompt", "x = ", "--draft", small, "--max-tokens", 8, model=TARGET)
        self.succeeded(done)

    def test_formats_of_embedding_and_head(self):
        path = self.convert(TARGET, "small.gguf", "--to", "Q4_1", "--embedding", "f16")
        self.assertRegex(run("inspect", path, "--tensors").stdout, r"token_embd.weight +f16")
        golden = ROOT / "tests" / "goldens" / "llama3"
        path = self.convert(golden, "golden.gguf", "--to", "bf16", "--head", "f32")
        self.assertRegex(run("inspect", path, "--tensors").stdout, r"\noutput.weight +f32")

    def test_sampling_defaults_come_back(self):
        source = self.folder / "source"
        shutil.copytree(DRAFT, source)
        wanted = {"temperature": 0.7, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.25}
        defaults = {"eos_token_id": 0, "do_sample": True, **wanted}
        (source / "generation_config.json").write_text(json.dumps(defaults))
        file = self.convert(source, "draft.gguf", "--to", "bf16")
        back = self.convert(file, "draft", "--to", "bf16")
        found = json.loads((back / "generation_config.json").read_text())
        self.assertEqual({key: found.get(key) for key in wanted}, wanted)
        self.assertNotIn("general.sampling", generate("--prompt", "x", model=file).stderr)

    def test_no_description_of_quantization_is_left(self):
        source = self.folder / "source"
        shutil.copytree(ROOT / "tests" / "goldens" / "llama-awq-g32", source)
        config = json.loads((source / "config.json").read_text())
        config["compression_config"] = config.pop("quantization_config")
        (source / "config.json").write_text(json.dumps(config))
        plain = self.convert(source, "plain", "--to", "bf16")
        self.succeeded(run("inspect", plain))
        self.assertFalse(
            {"compression_config", "quantization_config"}
            & set(json.loads((plain / "config.json").read_text()))
        )

    def test_rows_that_are_no_whole_blocks(self):
        golden = ROOT / "tests" / "goldens" / "llama-awq-g32"
        done = run("convert", golden, self.folder / "golden", "--to", "awq:128")
        self.succeeded(done)
        self.assertRegex(done.stderr, r"no AWQ of groups of 128; written as (bf16|f16|f32)")
        self.assertTrue(self.succeeded(run("inspect", self.folder / "golden")))

    def test_windows_and_rope_come_back(self):
        for name in ("mistral-window", "llama-yarn", "llama3"):
            golden = ROOT / "tests" / "goldens" / name
            there = self.convert(golden, f"{name}.gguf", "--to", "f32")
            back = self.convert(there, name, "--to", "f32")
            facts = [json.loads(run("inspect", m, "--json").stdout) for m in (golden, back)]
            self.assertEqual(facts[0]["max_position"], facts[1]["max_position"])
            self.assertEqual(facts[0]["features"], facts[1]["features"])
            self.assertEqual(self.text(golden), self.text(back))

    def test_what_is_there_stays(self):
        out = self.folder / "draft.gguf"
        out.write_text("mine")
        self.refused(run("convert", DRAFT, out, "--to", "bf16"), "is there", "--force")
        self.assertEqual(out.read_text(), "mine")
        self.succeeded(run("convert", DRAFT, out, "--to", "bf16", "--force"))
        self.assertEqual(out.read_bytes()[:4], b"GGUF")
        folder = self.convert(DRAFT, "draft", "--to", "bf16")
        self.refused(run("convert", DRAFT, folder, "--to", "f32"), "is there", "--force")
        self.succeeded(run("convert", DRAFT, folder, "--to", "f32", "--force"))
        self.assertEqual(tensors_of(folder)["model.norm.weight"][0], "BF16")
        self.assertEqual(tensors_of(folder)["model.embed_tokens.weight"][0], "F32")
        (folder / "notes.txt").write_text("mine")
        self.refused(run("convert", DRAFT, folder, "--to", "f32", "--force"), "notes.txt")
        self.assertEqual((folder / "notes.txt").read_text(), "mine")

    def test_the_input_is_no_output(self):
        model = self.folder / "draft"
        shutil.copytree(DRAFT, model)
        self.refused(run("convert", model, model, "--to", "f32", "--force"), "is the input")
        link = self.folder / "link.gguf"
        path = self.convert(model, "draft.gguf", "--to", "bf16")
        link.symlink_to(path)
        for out in (path, link):
            self.refused(run("convert", path, out, "--to", "q8_0", "--force"), "is the input")

    def test_a_write_that_fails_leaves_nothing(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        for name in ("draft.gguf", "draft"):
            done = run("convert", DRAFT, self.folder / name, "--to", "bf16", preexec_fn=limit)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.splitlines()[-1], r"draft.*\.part.*: File too large")
            self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_is_refused(self):
        gguf, folder = self.folder / "x.gguf", self.folder / "x"
        self.refused(run("convert"), "no input", "--to FORMAT")
        self.refused(run("convert", DRAFT), "no output")
        self.refused(run("convert", DRAFT, gguf), "no --to")
        self.refused(run("convert", DRAFT, gguf, "--to", "q9"), "q9", "q8_0", "q4_1", "awq:32")
        self.refused(run("convert", DRAFT, gguf, "--to", "q6_k"), "q6_k", "accepted")
        self.refused(run("convert", DRAFT, gguf, "--to", "awq"), "awq", "in a GGUF file: floats")
        self.refused(run("convert", DRAFT, folder, "--to", "q8_0"), "q8_0", "OUT.gguf")
        self.refused(run("convert", DRAFT, folder, "--to", "awq", "--embedding", "q8_0"), "q8_0")
        self.refused(
            run("convert", DRAFT, gguf, "--to", "bf16", "--head", "f32"), "--head", "--embedding"
        )
        self.refused(run("convert", DRAFT, folder / "in" / "x", "--to", "f16"), "no such directory")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    process.main()
