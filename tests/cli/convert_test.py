"""`forerun convert`: what comes back after a way there and back, what is refused, what is left.

tests/gguf/gguf_test.py compares what is written with the gguf package.

Usage: convert_test.py PATH_OF_FORERUN [unittest options]
"""

import fcntl
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
from pathlib import Path

import process
from edited_checkpoint import tensors_of, write_tensors
from process import DRAFT, GOLDENS, TARGET, generate, needs_goldens, run


def write_shards(source, folder, count):
    """A copy of the checkpoint whose tensors lie in so many files, in no order."""
    folder.mkdir(parents=True)
    for path in source.iterdir():
        if path.suffix != ".safetensors":
            shutil.copy(path, folder)
    tensors = list(tensors_of(source).items())
    names = {}
    for idx in range(count):
        file = f"model-{idx + 1:05}-of-{count:05}.safetensors"
        part = dict(tensors[idx::count])
        write_tensors(folder / file, part)
        names |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return sorted(folder.glob("*.safetensors"))


def split_gguf(path, count):
    """The parts of the file, as llama-gguf-split names and describes them."""
    data = path.read_bytes()
    _, version, num_tensors, num_values = struct.unpack_from("<4sIQQ", data)
    widths = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def after_string(at):
        return at + 8 + struct.unpack_from("<Q", data, at)[0]

    def after_value(kind, at):
        if kind == 8:
            return after_string(at)
        if kind != 9:
            return at + widths[kind]
        kind, length = struct.unpack_from("<IQ", data, at)
        at += 12
        for _ in range(length):
            at = after_value(kind, at)
        return at

    at = 24
    for _ in range(num_values):
        at = after_string(at)
        at = after_value(struct.unpack_from("<I", data, at)[0], at + 4)
    values = data[24:at]
    entries = []  # all but the offset, and the offset
    for _ in range(num_tensors):
        begin, at = at, after_string(at)
        at += 4 + 8 * struct.unpack_from("<I", data, at)[0] + 4
        entries.append((data[begin:at], struct.unpack_from("<Q", data, at)[0]))
        at += 8
    body = data[(at + 31) // 32 * 32 :]
    ends = [offset for _, offset in entries[1:]] + [len(body)]
    parts = []
    for idx in range(count):
        own = [(*entry, end) for entry, end in zip(entries, ends, strict=True)][idx::count]
        header = struct.pack("<4sIQQ", b"GGUF", version, len(own), 3 + (idx == 0) * num_values)
        header += values if idx == 0 else b""
        for key, kind, form, value in (
            (b"split.no", 2, "<H", idx),
            (b"split.count", 2, "<H", count),
            (b"split.tensors.count", 5, "<i", num_tensors),
        ):
            header += struct.pack("<Q", len(key)) + key + struct.pack("<I", kind)
            header += struct.pack(form, value)
        tensors = b""
        for entry, begin, end in own:
            header += entry + struct.pack("<Q", len(tensors))
            tensors += body[begin:end].ljust((end - begin + 31) // 32 * 32, b"\0")
        parts.append(path.with_name(f"{path.stem}-{idx + 1:05}-of-{count:05}.gguf"))
        parts[-1].write_bytes(header.ljust((len(header) + 31) // 32 * 32, b"\0") + tensors)
    return parts


def in_namespace(script, *args):
    """Runs a shell script that may mount file systems, which nobody else sees."""
    command = ["unshare", "-rm", "sh", "-ec", script, "sh", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


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
        short = ("--context", 512)  # Steps are measured five times as soon
        done = generate(*prompt, *short, "--no-echo", "--activations", "f32", model=model)
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
        args = ("--prompt", "x = ", "--max-tokens", 8, "--context", 512)
        done = generate(*args, "--draft", small, model=TARGET)
        self.succeeded(done)

    @needs_goldens
    def test_formats_of_embedding_and_head(self):
        path = self.convert(TARGET, "small.gguf", "--to", "Q4_1", "--embedding", "f16")
        self.assertRegex(run("inspect", path, "--tensors").stdout, r"token_embd.weight +f16")
        golden = GOLDENS / "llama3"
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

    @needs_goldens
    def test_no_description_of_quantization_is_left(self):
        source = self.folder / "source"
        shutil.copytree(GOLDENS / "llama-awq-g32", source)
        config = json.loads((source / "config.json").read_text())
        config["compression_config"] = config.pop("quantization_config")
        (source / "config.json").write_text(json.dumps(config))
        plain = self.convert(source, "plain", "--to", "bf16")
        self.succeeded(run("inspect", plain))
        self.assertFalse(
            {"compression_config", "quantization_config"}
            & set(json.loads((plain / "config.json").read_text()))
        )

    @needs_goldens
    def test_rows_that_are_no_whole_blocks(self):
        golden = GOLDENS / "llama-awq-g32"
        out = self.folder / "golden"
        refused = run("convert", golden, out, "--to", "awq:128")
        self.refused(refused, "no AWQ of groups of 128", "accepted: awq:")
        group = re.search(r"accepted: (awq:\d+)", refused.stderr)[1]
        self.succeeded(run("convert", golden, out, "--to", group))
        self.assertTrue(self.succeeded(run("inspect", out)))

    @needs_goldens
    def test_windows_and_rope_come_back(self):
        for name in ("mistral-window", "llama-yarn", "llama3"):
            golden = GOLDENS / name
            there = self.convert(golden, f"{name}.gguf", "--to", "f32")
            back = self.convert(there, name, "--to", "f32")
            facts = [json.loads(run("inspect", m, "--json").stdout) for m in (golden, back)]
            self.assertEqual(facts[0]["max_position"], facts[1]["max_position"])
            self.assertEqual(facts[0]["features"], facts[1]["features"])
            self.assertEqual(self.text(golden), self.text(back))

    def test_what_is_there_stays(self):
        out = self.folder / "draft.gguf"
        out.write_text("mine")
        self.refused(run("convert", DRAFT, out, "--to", "bf16"), "there already", "--force")
        self.assertEqual(out.read_text(), "mine")
        self.succeeded(run("convert", DRAFT, out, "--to", "bf16", "--force"))
        self.assertEqual(out.read_bytes()[:4], b"GGUF")
        folder = self.convert(DRAFT, "draft", "--to", "bf16")
        self.refused(run("convert", DRAFT, folder, "--to", "f32"), "there already", "--force")
        self.succeeded(run("convert", DRAFT, folder, "--to", "f32", "--force"))
        self.assertEqual(tensors_of(folder)["model.norm.weight"][0], "BF16")
        self.assertEqual(tensors_of(folder)["model.embed_tokens.weight"][0], "F32")
        (folder / "notes.txt").write_text("mine")
        self.refused(run("convert", DRAFT, folder, "--to", "f32", "--force"), "notes.txt")
        self.assertEqual((folder / "notes.txt").read_text(), "mine")

    def test_the_input_is_no_output(self):
        model = self.folder / "draft"
        shutil.copytree(DRAFT, model)
        self.refused(run("convert", model, model, "--to", "f32", "--force"), "found the input")
        link = self.folder / "link.gguf"
        path = self.convert(model, "draft.gguf", "--to", "bf16")
        link.symlink_to(path)
        for out in (path, link):
            self.refused(run("convert", path, out, "--to", "q8_0", "--force"), "found the input")

    def test_shards_of_a_directory(self):
        # The folder has DRAFT's name, which a GGUF file states.
        sharded = self.folder / "shards" / DRAFT.name
        shards = write_shards(DRAFT, sharded, 3)
        for name, kind in (("whole.gguf", "q4_0"), ("whole", "f16")):
            whole = self.convert(DRAFT, name, "--to", kind)
            same = self.convert(sharded, "same-" + name, "--to", kind)
            if whole.is_dir():
                self.assertTrue(tensors_of(whole) == tensors_of(same))
                self.assertFalse((same / "model.safetensors.index.json").exists())
            else:
                self.assertTrue(whole.read_bytes() == same.read_bytes())
        left = sorted(self.folder.iterdir())

        def refused(*words):
            for name in ("x.gguf", "x"):
                done = run("convert", sharded, self.folder / name, "--to", "bf16")
                self.refused(done, shards[1].name, *words)
            self.assertEqual(sorted(self.folder.iterdir()), left)

        data = shards[1].read_bytes()
        shards[1].unlink()
        refused("No such file")
        shards[1].write_bytes(data[:-1])
        refused("bytes")
        shutil.copy(shards[0], shards[1])
        refused("not found, though .*index.json")

    def test_parts_of_a_gguf_file(self):
        whole = self.convert(DRAFT, "draft.gguf", "--to", "q4_1")
        parts = split_gguf(whole, 3)
        for name, kind in (("again.gguf", "q8_0"), ("draft", "f16")):
            wanted = self.convert(whole, name, "--to", kind)
            found = self.convert(parts[0], "split-" + name, "--to", kind)
            if wanted.is_dir():
                self.assertTrue(tensors_of(found) == tensors_of(wanted))
                for file in ("config.json", "tokenizer.json"):
                    self.assertEqual((found / file).read_text(), (wanted / file).read_text())
            else:
                self.assertTrue(found.read_bytes() == wanted.read_bytes())
        left = sorted(set(self.folder.iterdir()) - set(parts))

        def refused(*words):
            for name in ("x.gguf", "x"):
                done = run("convert", parts[0], self.folder / name, "--to", "bf16")
                self.refused(done, *words)
            self.assertEqual(sorted(set(self.folder.iterdir()) - set(parts)), left)

        for out in parts:
            done = run("convert", parts[0], out, "--to", "bf16", "--force")
            self.refused(done, out.name, "found the name of part", "written whole")
        data = parts[1].read_bytes()
        parts[1].unlink()
        refused(parts[1].name, "part 2 of 3", "all parts in one folder")
        parts[1].write_bytes(data[:-64])
        refused(parts[1].name, "bytes")
        shutil.copy(parts[2], parts[1])
        refused(parts[1].name, "found part 3 of 3", "accepted: part 2 of 3")

    def test_a_name_that_is_no_name(self):
        folder = self.convert(DRAFT, "draft", "--to", "bf16")
        for out in (".", "./", ".."):
            done = run("convert", DRAFT, out, "--to", "f32", "--force", cwd=folder)
            self.refused(done, f"found {out.rstrip('/')} as the name")
        self.assertEqual(tensors_of(folder)["model.embed_tokens.weight"][0], "BF16")
        self.assertEqual(list(self.folder.iterdir()), [folder])

    def test_the_name_of_a_model(self):
        # With a slash at the end, which a shell adds, and seen from within.
        wanted = self.convert(DRAFT, "draft.gguf", "--to", "q8_0").read_bytes()
        self.assertIn(b"demo-draft", wanted)
        for name in (f"{DRAFT}/", "."):
            out = self.folder / "again.gguf"
            self.succeeded(run("convert", name, out, "--to", "q8_0", "--force", cwd=DRAFT))
            self.assertTrue(out.read_bytes() == wanted)

    def test_odd_names(self):
        there = self.convert(DRAFT, "ein Modell, 模型 é.gguf", "--to", "bf16")
        back = self.convert(there, "zurück 1", "--to", "bf16")
        self.assertTrue(tensors_of(back) == tensors_of(DRAFT))
        done = run("convert", back, os.fsencode(self.folder) + b"/a\xff\n.gguf", "--to", "q8_0")
        self.succeeded(done)
        self.assertIn("a\\xff", done.stderr)

    def test_two_at_once(self):
        for name in ("draft.gguf", "draft"):
            part = self.folder / (name + ".part")
            part.mkdir() if name == "draft" else part.touch()
            lock = os.open(part, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refused(
                run("convert", DRAFT, self.folder / name, "--to", "bf16"), "another conversion"
            )
            self.assertEqual(list(self.folder.iterdir()), [part])
            os.close(lock)
            shutil.rmtree(self.convert(DRAFT, name, "--to", "bf16"), ignore_errors=True)
            (self.folder / "draft.gguf").unlink(missing_ok=True)

    def test_a_link_into_the_output(self):
        out = self.convert(DRAFT, "out", "--to", "bf16")
        model = self.folder / "model"
        shutil.copytree(DRAFT, model)
        (model / "model.safetensors").unlink()
        (model / "model.safetensors").symlink_to(out / "model.safetensors")
        before = tensors_of(model)
        self.refused(run("convert", model, out, "--to", "f32", "--force"), "files of the input")
        self.assertTrue(tensors_of(model) == before)

    def test_a_vocabulary_with_too_few_rows(self):
        model = self.folder / "model"
        shutil.copytree(DRAFT, model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config | {"vocab_size": 8000}))
        tensors = tensors_of(model)
        dtype, (rows, width), data = tensors["model.embed_tokens.weight"]
        data = data[: len(data) // rows * 8000]
        tensors["model.embed_tokens.weight"] = (dtype, (8000, width), data)
        write_tensors(model / "model.safetensors", tensors)
        self.refused(
            run("convert", model, self.folder / "x.gguf", "--to", "bf16"),
            "8192 tokens for an embedding of 8000 rows",
        )
        self.assertEqual(list(self.folder.iterdir()), [model])

    def test_side_files_that_are_no_files(self):
        model = self.folder / "model"
        shutil.copytree(DRAFT, model)
        for make, words in (
            (os.mkdir, "not a regular file"),
            (os.mkfifo, "not a regular file"),
            (lambda path: os.symlink("nowhere", path), "No such file"),
        ):
            path = model / "merges.txt"
            make(path)
            done = run("convert", model, self.folder / "x", "--to", "bf16", timeout=30)
            self.refused(done, f"merges.txt: {words}")
            self.assertEqual(list(self.folder.iterdir()), [model])
            path.rmdir() if make is os.mkdir else path.unlink()

    def test_weights_beyond_the_range_of_scales(self):
        # Finite in bf16 and in AWQ, but not as blocks, whose scales and minima are f16.
        for source, name, bits, kinds in (
            (DRAFT, "model.layers.1.mlp.up_proj.weight", 0x7F61, ("q8_0", "q4_0", "q4_1")),
            (TARGET, "model.layers.1.mlp.up_proj.scales", 0x7B53, ("q4_1",)),
        ):
            model = self.folder / "model"
            shutil.copytree(source, model)
            tensors = tensors_of(model)
            dtype, shape, data = tensors[name]
            tensors[name] = (dtype, shape, struct.pack("<H", bits) + data[2:])
            write_tensors(model / "model.safetensors", tensors)
            for kind in kinds:
                done = run("convert", model, self.folder / "x.gguf", "--to", kind)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(
                    done.stderr.splitlines()[-1],
                    rf"blk.1.ffn_up.weight.*beyond the range of the scales of {kind.upper()}",
                )
                self.assertEqual(list(self.folder.iterdir()), [model])
            shutil.rmtree(model)

    def test_file_systems_that_take_nothing(self):
        if in_namespace("mount -t tmpfs none /tmp").returncode != 0:
            self.skipTest("this user may not mount a tmpfs")
        needed = sum(
            file.stat().st_size for file in self.convert(DRAFT, "d", "--to", "f32").iterdir()
        )
        # A page each is lost at the ends of files, which nothing accounts for beforehand.
        just = (needed + 4095) // 4096 * 4096
        place = self.folder / "place"
        place.mkdir()
        script = (
            'mount -t tmpfs -o "$1" none "$2"; shift; cd "$1"; shift; '
            'rc=0; "$@" || rc=$?; ls -A; exit $rc'
        )
        for options, out, words in (
            ("size=1m", "x.gguf", r"x.gguf: needs \d+\.\d MB; found 1\.0 MB free"),
            ("size=1m", "x", r"x: needs \d+\.\d MB; found 1\.0 MB free"),
            (f"size={just}", "x", r"x.part/.*: found no space left; accepted: a name where"),
            ("nr_inodes=3", "x", r"x.part/.*: found no space left; accepted: a name where"),
            ("ro", "x.gguf", "x.gguf.part: Read-only file system"),
            ("ro", "x", "x.part: Read-only file system"),
        ):
            with self.subTest(options + " " + out):
                command = (process.forerun(), "convert", DRAFT, out, "--to", "f32")
                done = in_namespace(script, options, place, *command)
                self.assertEqual(done.returncode, 1, done.stderr)
                lines = [x for x in done.stderr.splitlines() if not x.startswith("converting:")]
                self.assertEqual(len(lines), 1, done.stderr)
                self.assertRegex(lines[0], words)
                self.assertEqual(done.stdout, "")

    def test_a_mount_point_stays(self):
        if in_namespace("mount -t tmpfs none /tmp").returncode != 0:
            self.skipTest("this user may not mount a tmpfs")
        out = self.convert(DRAFT, "draft", "--to", "bf16")
        script = 'mount --bind "$1" "$1"; shift; exec "$@"'
        command = (process.forerun(), "convert", DRAFT, out, "--to", "f32", "--force")
        done = in_namespace(script, out, *command)
        self.assertEqual(done.returncode, 1)
        self.assertIn("draft: Device or resource busy", done.stderr)
        self.assertEqual(tensors_of(out)["model.embed_tokens.weight"][0], "BF16")
        self.assertEqual(list(self.folder.iterdir()), [out])

    def test_a_folder_that_may_not_be_written(self):
        if os.geteuid() == 0:
            self.skipTest("root may write everywhere")
        place = self.folder / "place"
        place.mkdir(mode=0o555)
        for name in ("x.gguf", "x"):
            done = run("convert", DRAFT, place / name, "--to", "bf16")
            self.refused(done, name + ".part: Permission denied")

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
        self.refused(
            run("convert", DRAFT, gguf, "--to", "awq"),
            "awq",
            "in a GGUF file: f32, bf16, f16, q4_0",
        )
        self.refused(run("convert", DRAFT, folder, "--to", "q8_0"), "q8_0", "OUT.gguf")
        self.refused(run("convert", DRAFT, folder, "--to", "awq", "--embedding", "q8_0"), "q8_0")
        self.refused(
            run("convert", DRAFT, gguf, "--to", "bf16", "--head", "f32"), "--head", "--embedding"
        )
        self.refused(run("convert", DRAFT, folder / "in" / "x", "--to", "f16"), "no such directory")
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    process.main()
