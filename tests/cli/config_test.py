"""Flags from a file, and flags and commands that do not exist: refused with the nearest name.

Usage: config_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import tempfile
from pathlib import Path

import process
from process import DRAFT, generate, run


class Names(process.CommandLine):
    def test_mistyped_commands_and_flags(self):
        self.refused(run("genrate"), "no command 'genrate'", "generate", code=2)
        self.refused(run("xyzzy"), "no command 'xyzzy'", "generate, chat, serve, bench", code=2)
        self.refused(run(), "a command is missing", "generate, chat, serve, bench", code=2)
        self.refused(
            generate("--prompt", "x", "--max-token", 3),
            "no flag --max-token",
            "did you mean --max-tokens",
            code=2,
        )
        self.refused(generate("--prompt", "x", "--tempreature=3"), "did you mean --temperature")
        self.refused(generate("--prompt", "x", "--verbos"), "did you mean --verbose")
        self.refused(
            generate("--prompt", "x", "--frobnicate"),
            "no flag --frobnicate",
            "forerun generate --help",
        )
        self.refused(generate("--prompt", "two", "words"), "'words'", "no flag")
        self.refused(run("generate", "--prompt", "x"), "--model is required", code=2)
        self.refused(
            generate("--prompt", "x", "--max-tokens", "abc"),
            "--max-tokens: found 'abc'",
            "a whole number",
            code=2,
        )
        self.refused(
            generate("--prompt", "x", "--max-tokens", 99999999999), "--max-tokens", "99999999999"
        )
        self.refused(generate("--prompt", "x", "--prompt-file", "y"), "--prompt", "--prompt-file")


class ConfigFile(process.CommandLine):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "flags.toml"

    def with_config(self, text, *args):
        if isinstance(text, str):
            text = text.encode()
        self.path.write_bytes(text)
        return run("--config", self.path, "generate", "--prompt", "x", *args)

    def test_values_of_every_kind(self):
        done = self.with_config(
            f'verbose = true\n[generate]\nmodel = "{DRAFT}"\nmax-tokens = 40\njson = true\n'
            'temperature = 0.5\nseed = 7\nstop = ["[never]", "nor this one"]\nignore-eos = true\n'
        )
        reply = json.loads(self.succeeded(done).stdout)
        self.assertEqual((len(reply["tokens"]), reply["seed"]), (40, 7))
        self.assertIn("chosen:", done.stderr)
        # The command line wins; false leaves a flag out.
        done = self.with_config(
            f'[generate]\nmodel = "{DRAFT}"\nmax-tokens = 40\njson = false\n', "--max-tokens", 3
        )
        self.assertNotIn("{", self.succeeded(done).stdout)
        self.assertIn("3 tokens", done.stderr)

    def test_unknown_keys_and_sections(self):
        model = f'model = "{DRAFT}"\n'
        self.refused(
            self.with_config(f"[generate]\n{model}max-token = 3\n"),
            "flags.toml:3:1",
            "'max-token'",
            "did you mean max-tokens",
        )
        self.refused(
            self.with_config(f"[generat]\n{model}"),
            "flags.toml:1",
            r"\[generat\]",
            r"did you mean \[generate\]",
        )
        self.refused(
            self.with_config(f"[xyzzy]\n{model}"), r"\[xyzzy\]", "generate, chat, serve, bench"
        )
        self.refused(self.with_config("verbos = true\n"), "flags.toml:1:1", "did you mean verbose")
        self.refused(self.with_config(f"[chat]\n{model}prompt = 3\n"), "forerun chat has no flag")
        self.refused(self.with_config("help = true\n"), "'help'")
        self.refused(self.with_config("[generate.deeper]\nmodel = 3\n"), "deeper")

    def test_values_of_the_wrong_kind(self):
        self.refused(
            self.with_config(f'[generate]\nmodel = "{DRAFT}"\njson = "maybe"\n'),
            "flags.toml:3:8",
            "true or false",
        )
        self.refused(self.with_config("[generate]\nmodel = true\n"), "flags.toml:2", "'model'")
        self.refused(
            self.with_config(f'[generate]\nmodel = "{DRAFT}"\nmax-tokens = "many"\n'),
            "--max-tokens",
            "'many'",
        )

    def test_malformed_files(self):
        self.refused(self.with_config("[generate\nmodel = 3\n"), "flags.toml:1", "TOML")
        self.refused(self.with_config(f"[generate]\nmodel = {DRAFT}\n"), "flags.toml:2", "TOML")
        self.refused(self.with_config("nothing of sense\n"), "flags.toml:1", "TOML")
        self.refused(self.with_config("[generate]\nseed = 1\nseed = 2\n"), "flags.toml:3")
        self.refused(self.with_config(b"\xff\xfe\n"), "flags.toml:1")
        self.refused(self.with_config("# long\n" * 200000), "1 MiB")
        self.refused(run("--config", self.path.parent, "generate"), "--config", "cannot be read")
        self.refused(run("--config", "/nowhere.toml", "generate"), "/nowhere.toml")


if __name__ == "__main__":
    process.main()
