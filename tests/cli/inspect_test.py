"""`forerun inspect`: what it says of checkpoints and devices.

Usage: inspect_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import shutil
import struct

import process
from edited_checkpoint import EditedCheckpoint, tensors_of, write_tensors
from process import DRAFT, TARGET, generate, run


class Inspect(EditedCheckpoint):
    def test_inspect(self):
        done = run("inspect", TARGET)
        self.succeeded(done)
        self.assertIn("AWQ int4", done.stdout)
        self.assertEqual(json.loads(run("inspect", TARGET, "--json").stdout)["num_layers"], 10)
        self.assertIn("cpu:0", run("inspect", "--devices").stdout)
        devices = json.loads(run("inspect", "--devices", "--json").stdout)
        self.assertGreaterEqual(devices["cores"], 1)
        self.assertIsInstance(devices["gpus"], list)
        self.assertTrue(run("inspect", "--formats").stdout.startswith("| stored format |"))
        for other in ("--json", "--devices", "--all", TARGET):
            self.refused(run("inspect", "--formats", other), "--formats: found together with")
        nothing = run("inspect")
        self.assertIn("--devices", nothing.stderr)

    def test_modules(self):
        done = run("inspect", TARGET)
        self.succeeded(done)
        self.assertRegex(done.stdout, r"(?m)^mlp\.down_proj +0-9 +awq-int4 .* int4 .* int4 ")
        self.assertIn("Processors: every weight is read as it is stored.", done.stdout)
        each = run("inspect", TARGET, "--all").stdout
        for layer in range(10):
            self.assertRegex(each, rf"(?m)^model\.layers\.{layer}\.mlp\.down_proj +{layer} ")
        described = json.loads(run("inspect", TARGET, "--json").stdout)
        rows = {row["modules"]: row for row in described["modules"]}
        down = rows["mlp.down_proj"]
        self.assertEqual(down["layers"], list(range(10)))
        self.assertEqual((down["stored"], down["processors"]["format"]), ("awq-int4", "int4"))
        self.assertEqual(down["processors"]["change"], "as stored")

    def test_modules_of_other_weights(self):
        done = run("inspect", TARGET, "--weights", "q4_1")
        self.succeeded(done)
        self.assertRegex(done.stdout, r"(?m)^mlp\.down_proj .* q4_1, rounded .* refused")
        self.assertRegex(done.stdout, r"Processors: .*is rounded to q4_1")
        self.assertRegex(done.stdout, r"GPUs: --weights q4_1 is refused; accepted: as_stored")
        widened = run("inspect", TARGET, "--weights", "f32").stdout
        self.assertRegex(widened, r"Processors: .*is widened to f32")
        self.refused(run("inspect", TARGET, "--weights", "fp8"), "weights: found 'fp8'", "q4_1")
        self.refused(run("inspect", "--devices", "--weights", "int8"), "--devices", "--weights")

    def test_enlarged(self):
        """int4 keeps a scale and a zero point for every 32 inputs of a group of 96."""
        tensors = tensors_of(self.model)
        out, width, group = 512, 192, 96
        for layer in range(3):
            name = f"model.layers.{layer}.mlp.up_proj.weight"
            del tensors[name]
            shapes = {
                "packed": ("I32", [out, width // 8], bytes(range(256)) * (out * width // 512)),
                "scale": ("BF16", [out, width // group], b"\x80\x3f" * (out * width // group)),
                "zero_point": (
                    "I32",
                    [out // 8, width // group],
                    b"\x47" * (out * width // group // 2),
                ),
                "shape": ("I64", [2], struct.pack("<2Q", out, width)),
            }
            tensors |= {f"{name}_{part}": tensor for part, tensor in shapes.items()}
        write_tensors(self.model / "model.safetensors", tensors)
        weights = {"num_bits": 4, "group_size": group, "symmetric": False}
        self.edit_config(
            quantization_config={
                "quant_method": "compressed-tensors",
                "format": "pack-quantized",
                "config_groups": {"a": {"targets": ["re:.*up_proj"], "weights": weights}},
            }
        )
        done = run("inspect", self.model)
        self.succeeded(done)
        self.assertRegex(
            done.stdout, r"(?m)^mlp\.up_proj +0-2 +ct-int4 +155\.2 KB +int4, enlarged +184\.3 KB "
        )
        self.assertRegex(done.stdout, r"Processors: ct-int4 \(.*\) is enlarged to int4 \(")
        rows = json.loads(run("inspect", self.model, "--json").stdout)["modules"]
        changes = {row["modules"]: row["processors"] for row in rows}
        self.assertEqual(
            changes["mlp.up_proj"], {"format": "int4", "change": "enlarged", "bytes": 184320}
        )
        self.assertEqual(changes["mlp.gate_proj"]["change"], "as stored")

    def test_compare(self):
        nothing = run("inspect", TARGET, "--weights", "f32", "--compare")
        self.succeeded(nothing)
        self.assertIn("Nothing is rounded", nothing.stdout)
        done = run("inspect", TARGET, "--weights", "q8_0", "--compare")
        self.succeeded(done)
        self.assertRegex(done.stdout, r"(?m)^mlp\.up_proj +awq-int4 +q8_0 +\d\.\d\de-03 ")

        def errors(weights):
            flags = ("--weights", weights, "--compare", "--json")
            rows = json.loads(run("inspect", TARGET, *flags).stdout)["errors"]
            return {row["modules"]: row for row in rows}

        fine, coarse = errors("q8_0"), errors("q4_0")
        self.assertEqual(fine.keys(), coarse.keys())
        for kind, row in fine.items():
            self.assertLess(0, row["relative_error"])
            self.assertLess(8 * row["relative_error"], coarse[kind]["relative_error"])
            self.assertLessEqual(row["relative_error"], row["worst_relative_error"])
            self.assertTrue(row["worst_module"].endswith(kind))

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


if __name__ == "__main__":
    process.main()
