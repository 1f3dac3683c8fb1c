"""Broken and foreign checkpoints: each gives one clear line and a non-zero exit.

Usage: checkpoint_test.py PATH_OF_FORERUN [unittest options]
"""

import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import process
from edited_checkpoint import EditedCheckpoint
from process import DRAFT, generate, run


class Checkpoints(EditedCheckpoint):
    def test_missing_directory(self):
        self.refused(generate("--prompt", "x", model="/nowhere/at/all"), "/nowhere/at/all")

    def test_missing_weights(self):
        (self.model / "model.safetensors").unlink()
        self.refused(generate("--prompt", "x", model=self.model), "model.safetensors")

    def test_missing_tokenizer(self):
        (self.model / "tokenizer.json").unlink()
        self.refused(generate("--prompt", "x", model=self.model), "tokenizer.json")

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
        self.refused(
            generate("--prompt", "x", model=self.model), "mamba", "llama", "nothing converts"
        )
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
        self.refused(
            generate("--prompt-file", self.folder.name),
            "--prompt-file",
            "Is a directory",
            "- for standard input",
        )
        self.refused(generate("--prompt-file", "/nowhere"), "/nowhere", "No such file")
        pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
        for name in (
            "model.safetensors",
            "tokenizer.json",
            "tokenizer_config.json",
            "config.json",
            "generation_config.json",
        ):
            kept = (self.model / name).read_bytes()
            (self.model / name).write_text(pointer)
            self.refused(
                generate("--prompt", "x", model=self.model), name, "LFS pointer", "git lfs pull"
            )
            (self.model / name).write_bytes(kept)
        (self.model / "chat_template.jinja").write_text(pointer)
        self.refused(
            run("chat", "--model", self.model, input="hello\n"),
            "chat_template.jinja",
            "git lfs pull",
        )

    def test_a_directory_without_permission(self):
        # Root may read everything: it becomes nobody, for whom the rest of the way is open.
        drop = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        if drop and shutil.which(drop[0]) is None:
            self.skipTest("no setpriv")
        forerun = Path(self.folder.name) / "forerun"
        shutil.copy(process.forerun(), forerun)
        Path(self.folder.name).chmod(0o755)
        for path, name in (
            (self.model, "config.json"),
            (self.model / "config.json", "config.json"),
            (self.model / "model.safetensors", "model.safetensors"),
        ):
            mode = path.stat().st_mode
            path.chmod(0)
            done = subprocess.run(
                [*drop, forerun, "generate", "--model", self.model, "--prompt", "x"],
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            path.chmod(mode)
            self.refused(done, name, "Permission denied")

    def test_chat_without_a_template(self):
        path = self.model / "tokenizer_config.json"
        config = json.loads(path.read_text())
        del config["chat_template"]
        path.write_text(json.dumps(config))
        self.refused(run("chat", "--model", self.model, input="hello\n"), "template")

    def test_other_formats_are_refused_by_name(self):
        self.edit_config(quantization_config={"quant_method": "quip", "bits": 4})
        self.refused(generate("--prompt", "x", model=self.model), "quip", "awq")
        gguf = Path(self.folder.name) / "weights.gguf"
        gguf.write_bytes(b"GGUF")
        self.refused(generate("--prompt", "x", model=gguf), "weights.gguf", "accepted")
        gguf.write_bytes(b"tjgg" + bytes(100))
        self.refused(generate("--prompt", "x", model=gguf), "convert_llama_ggml_to_gguf.py")

    def test_what_is_no_model_of_its_own(self):
        (self.model / "config.json").unlink()
        (self.model / "model.safetensors").rename(self.model / "adapter_model.safetensors")
        self.refused(generate("--prompt", "x", model=self.model), "adapter", "merge_and_unload")

    def test_another_computation(self):
        self.edit_config(num_experts=8)
        self.refused(generate("--prompt", "x", model=self.model), "num_experts", "may run it")


if __name__ == "__main__":
    process.main()
