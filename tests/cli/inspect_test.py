"""`forerun inspect`: what it says of checkpoints and devices.

Usage: inspect_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import shutil

import process
from edited_checkpoint import EditedCheckpoint
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
        nothing = run("inspect")
        self.assertIn("--devices", nothing.stderr)

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
