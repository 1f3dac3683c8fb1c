"""Hosts that lack the model are sent what their stages need, once; what breaks off goes on, what is
bad is sent again, and what cannot be kept is an error in one line.

Usage: send_model_test.py PATH_OF_FORERUN [unittest options]
"""

import functools
import json
import os
import re
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launch import MPIRUN, Launch, mpirun_command, run

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
FORERUN = ""
# The tests read and write none of the user's own files.
FOLDER = tempfile.TemporaryDirectory()
os.environ.update(XDG_CACHE_HOME=FOLDER.name, HOME=FOLDER.name)
NOWHERE = "/nowhere/demo-target"
WEIGHTS = "model.safetensors"
SENT = re.compile(r"sent (\d+) MB of the model to hosts")


def generate(*args, model=TARGET):
    return [
        *(FORERUN, "generate", "--model", model, "--prompt", "def f(", "--max-tokens", 12),
        *("--temperature", 0, "--cost-cache", Path(FOLDER.name) / "costs", "--context", 512),
        *("--json", *args),
    ]


def launched(*args, stages=2, model=TARGET, lacking=NOWHERE):
    """Stages that lack the model."""
    return [
        *(mpirun_command(1) + generate("--verbose", *args, model=model)),
        *(":", "-n", str(stages), *generate(*args, model=lacking)),
    ]


@functools.cache
def plain():
    """What one process says that decodes plainly."""
    done = run(generate("--strategy", "autoregressive"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["tokens"]


class SentModels(unittest.TestCase):
    def setUp(self):
        self.cache = Path(tempfile.mkdtemp(dir=FOLDER.name))
        self.flags = ("--model-cache", self.cache, "--strategy", "autoregressive")

    def start(self, command):
        """MB that were sent."""
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["tokens"], plain())
        sent = SENT.findall(done.stderr)
        return int(sent[0]) if sent else 0

    def refused(self, command, *words):
        done = run(command)
        self.assertNotEqual(done.returncode, 0)
        told = [line for line in done.stderr.splitlines() if line.startswith("forerun: ")]
        for word in words:
            self.assertIn(word, done.stderr)
        return told

    def copy(self):
        """The folder of the only model."""
        (folder,) = self.cache.iterdir()
        return folder

    def test_what_is_lacking_is_sent_once(self):
        whole_mb = (TARGET / WEIGHTS).stat().st_size // 1_000_000
        sent = self.start(launched(*self.flags))
        self.assertGreater(sent, whole_mb * 3 // 4)
        self.assertLess(sent, whole_mb * 2)  # the embedding goes to both, as the head
        self.assertTrue(self.copy().name.startswith("demo-target-"))
        self.assertEqual(self.start(launched(*self.flags)), 0)
        # Another cut lacks little.
        moved = self.start(launched(*self.flags, "--stage-layers", "2,8"))
        self.assertLess(moved, whole_mb // 2)

    def test_a_stage_has_its_layers_alone(self):
        flags = (*self.flags, "--stage-layers", "2,3,3,2")
        other = self.cache / "other"
        third = generate("--stage-layers", "2,3,3,2", *self.flags[2:], "--model-cache", other)
        third[third.index(TARGET)] = NOWHERE
        done = run(
            mpirun_command(3)
            + generate(*flags)
            + [":", "-n", "1", *third]
            + [":", "-n", "1", *generate(*flags)]
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["tokens"], plain())
        self.assertEqual(list(self.cache.iterdir()), [other])
        (folder,) = other.iterdir()
        file = (folder / WEIGHTS).stat()
        self.assertEqual(file.st_size, (TARGET / WEIGHTS).stat().st_size)
        self.assertLess(file.st_blocks * 512, file.st_size * 0.75)

    def test_with_a_draft_and_a_launch_of_its_own(self):
        hosts = self.cache / "hosts.txt"
        hosts.write_text("localhost slots=3\n")
        cache = self.cache / "models"
        for sends in (True, False):
            done = run(
                generate(
                    *("--hosts", hosts, "--send-model", "always", "--model-cache", cache),
                    *("--draft", DRAFT, "--strategy", "pipelined", "--verbose"),
                )
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["tokens"], plain())
            self.assertEqual(bool(SENT.search(done.stderr)), sends, done.stderr)
        (folder,) = cache.iterdir()
        self.assertTrue((folder / "tokenizer.json").exists())

    def test_never_is_an_error_as_before(self):
        self.refused(
            launched(*self.flags, "--send-model", "never"),
            f'model "{NOWHERE}": no such directory or file',
        )
        done = run(generate(*self.flags, "--send-model", "sometimes"))
        self.assertIn("--send-model", done.stderr)
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_a_transfer_that_broke_off_goes_on(self):
        whole = self.start(launched(*self.flags))
        shutil.rmtree(self.copy())
        launch = Launch(launched(*self.flags, "--link-gbit", 0.05))
        self.addCleanup(launch.close)
        deadline = time.monotonic() + 60
        arrived = 0
        while arrived < 8 << 20:
            self.assertLess(time.monotonic(), deadline, launch.errors())
            arrived = sum(file.stat().st_blocks * 512 for file in self.cache.glob("*/" + WEIGHTS))
            time.sleep(0.02)
        launch.kill()
        rest = self.start(launched(*self.flags))
        self.assertGreater(rest, 0)
        self.assertLess(rest, whole - 4)

    def test_a_bad_copy_is_noticed_and_mended(self):
        self.start(launched(*self.flags))
        file = self.copy() / WEIGHTS
        with file.open("r+b") as out:
            out.seek(file.stat().st_size // 2)
            byte = out.read(1)[0]
            out.seek(-1, os.SEEK_CUR)
            out.write(bytes([byte ^ 16]))
        self.refused(launched(*self.flags), "weights: tensor ", "has other bytes in " + WEIGHTS)
        # One chunk, perhaps to both stages, who share the folder.
        self.assertIn(self.start(launched(*self.flags)), (1, 2))
        self.assertEqual(self.start(launched(*self.flags)), 0)

    def test_another_model_of_the_name_is_another_copy(self):
        model = self.cache.parent / "changed" / "demo-target"
        shutil.copytree(TARGET, model)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps(config, indent=7))
        cache = self.cache
        self.start(launched(*self.flags))
        self.start(launched(*self.flags, model=model))
        self.assertEqual(len(list(cache.iterdir())), 2)

    def test_a_folder_that_cannot_be_made_is_named(self):
        told = self.refused(launched("--model-cache", "/proc/nothing"))
        self.assertEqual(len(told), 1, told)
        self.assertIn("(stage ", told[0])
        self.assertIn("copy of the model: /proc/nothing", told[0])
        self.assertIn("accepted: a folder with room that this user may write to", told[0])

    def test_a_full_disk_is_named(self):
        small = self.cache / "small"
        small.mkdir()
        inside = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            'mount -t tmpfs -o size=3m none "$0" && exec "$@"',
            small,
        ]
        if run([*inside, "true"]).returncode != 0:
            self.skipTest("no file system can be mounted here")
        command = launched("--model-cache", small)
        at = command.index(":") + 3
        told = self.refused(command[:at] + inside + command[at:])
        self.assertEqual(len(told), 1, told)
        self.assertRegex(told[0], rf"copy of the model: {small}.*: found \d MB of room for \d+ MB")


if __name__ == "__main__":
    FORERUN = sys.argv.pop(1)
    if MPIRUN is None:
        print("send_model_test: skipped, there is no mpirun")
        sys.exit(77)
    unittest.main()
