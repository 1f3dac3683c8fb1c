"""What the processes of a launch must have in common, and who is told of when they have not: files of
the model, weights, secrets, processors, a stage that hangs, hosts that cannot be started.

Usage: agreement_test.py PATH_OF_FORERUN [unittest options]
"""

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from launch import MPIRUN, Launch, all_gone, mpirun_command, run

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
FORERUN = ""
# The tests read and write none of the user's own files.
FOLDER = tempfile.TemporaryDirectory()
os.environ.update(XDG_CACHE_HOME=FOLDER.name, HOME=FOLDER.name)
COSTS = Path(FOLDER.name) / "costs"
DIGESTS = COSTS / "tensor-digests"
# A tensor of the last of two stages.
TENSOR = "model.layers.9.mlp.up_proj.qweight"


def generate(*args, model=TARGET, tokens=8, context=512):
    """A short context: Steps are measured five times as soon."""
    return [
        *(FORERUN, "generate", "--model", model, "--prompt", "def f(", "--max-tokens", tokens),
        *("--temperature", 0, "--strategy", "autoregressive", "--cost-cache", COSTS),
        *("--context", context, *args),
    ]


def one_of_three(changed, *args):
    """A launch whose rank 2 runs another command than ranks 0 and 1."""
    return mpirun_command(2) + generate(*args) + [":", "-n", "1"] + changed


def written(name, text, mode=0o600):
    path = Path(FOLDER.name) / name
    path.write_text(text)
    path.chmod(mode)
    return path


class Weights:
    """A safetensors file as (name, its header's entry, bytes)."""

    def __init__(self, file):
        data = file.read_bytes()
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        self.tensors = {}
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            self.tensors[name] = (entry, bytearray(data[8 + length + begin : 8 + length + end]))

    def write(self, file, names=None):
        header, offset = {}, 0
        names = list(names or self.tensors)
        for name in names:
            entry, data = self.tensors[name]
            header[name] = dict(entry, data_offsets=[offset, offset + len(data)])
            offset += len(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(file, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for name in names:
                out.write(self.tensors[name][1])


def copied(name):
    """A copy of the model that may be changed."""
    model = Path(FOLDER.name) / name
    shutil.copytree(TARGET, model)
    return model


class Agreement(unittest.TestCase):
    def refused(self, command, *words):
        done = run(command, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr

    def refused_for(self, model, *words):
        self.refused(
            one_of_three(generate(model=model)),
            *words,
            "rank 2 (stage 2 of 2, host ",
            "rank 0 (the coordinator, host ",
            "accepted: the same ",
            "in all processes",
        )

    def test_another_field_of_config_is_named(self):
        for change, words in (
            ({"rope_theta": 10000.0}, "config.json, rope_theta: rank 2"),
            (
                {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
                "config.json, rope_scaling.factor: rank 2",
            ),
        ):
            model = copied(f"config-{next(iter(change))}")
            config = json.loads((model / "config.json").read_text())
            # rope_parameters, which transformers 5 writes, would be read first.
            config.pop("rope_parameters", None)
            base = copied(f"base-{next(iter(change))}")
            (base / "config.json").write_text(json.dumps(config))
            (model / "config.json").write_text(json.dumps(dict(config, **change)))
            done = mpirun_command(2) + generate(model=base)
            self.refused(done + [":", "-n", "1"] + generate(model=model), words)

    def test_another_tokenizer_is_named(self):
        model = copied("tokenizer")
        text = json.loads((model / "tokenizer.json").read_text())
        (model / "tokenizer.json").write_text(json.dumps(text, indent=1) + "\n")
        self.refused_for(model, "tokenizer.json: rank 2")

    def test_other_weights_are_named(self):
        for name, change in (
            ("zeros", lambda data: bytearray(len(data))),
            (
                "bit",
                lambda data: (
                    data[: len(data) // 2]
                    + bytes([data[len(data) // 2] ^ 1])
                    + data[len(data) // 2 + 1 :]
                ),
            ),
        ):
            model = copied(name)
            weights = Weights(model / "model.safetensors")
            entry, data = weights.tensors[TENSOR]
            weights.tensors[TENSOR] = (entry, change(data))
            weights.write(model / "model.safetensors")
            self.refused_for(model, f"weights: tensor {TENSOR}: rank 2", "in model.safetensors")

    def test_a_sharded_copy_agrees_and_digests_are_kept(self):
        model = copied("sharded")
        weights = Weights(model / "model.safetensors")
        (model / "model.safetensors").unlink()
        names = sorted(weights.tensors)
        shards = {
            "model-00001-of-00002.safetensors": names[::2],
            "model-00002-of-00002.safetensors": names[1::2],
        }
        for shard, those in shards.items():
            weights.write(model / shard, those)
        index = {name: shard for shard, those in shards.items() for name in those}
        (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
        time.sleep(2.1)  # what has just been written is not kept
        command = one_of_three(generate(model=model))
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stderr)

        # The next launch believes what was kept, until a file changes.
        kept = [file for file in DIGESTS.iterdir() if str(model) in file.read_text()]
        self.assertEqual(len(kept), 2)
        for file in kept:
            lines = file.read_text().splitlines()
            changed = lines[:3] + [line.split()[0] + " " + "0" * 32 for line in lines[3:]]
            file.write_text("\n".join(changed) + "\n")
        self.refused(command, "(digest " + "0" * 32 + ")")
        for shard in shards:
            os.utime(model / shard)
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_another_secret_is_told_by_its_host(self):
        files = [written(f"secret{idx}", f"the-secret-of-{idx}") for idx in range(2)]
        stderr = self.refused(
            one_of_three(generate("--secret-file", files[1]), "--secret-file", files[0]),
            "secret: found different ones on rank 2 (stage 2 of 2, host ",
            "and on rank 0 (the coordinator, host ",
        )
        self.assertNotIn("the-secret-of", stderr)


class Processors(unittest.TestCase):
    def test_all_use_what_all_have(self):
        alone = run(["env", "FORERUN_ISA=scalar", *generate("--json")])
        self.assertEqual(alone.returncode, 0, alone.stderr)
        done = run(
            mpirun_command(2)
            + ["env", "FORERUN_ISA=avx2", *generate("--json")]
            + [":", "-n", "1", "env", "FORERUN_ISA=scalar", *generate("--json")]
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "instruction set" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn("all hosts use scalar, the best of rank 2 (stage 2 of 2", lines[0])
        self.assertIn("rank 1 (stage 1 of 2", lines[0].partition("better ones: ")[2])
        result, expected = json.loads(done.stdout), json.loads(alone.stdout)
        self.assertEqual(result["tokens"], expected["tokens"])
        self.assertEqual(result["numeric_fingerprint"], expected["numeric_fingerprint"])
        self.assertIn("scalar", result["numeric_fingerprint"])

    def test_forerun_isa_goes_to_all_hosts(self):
        hosts = written("hosts-isa.txt", "localhost slots=3\n")
        done = run(["env", "FORERUN_ISA=scalar", *generate("--json", "--hosts", hosts)])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("instruction set", done.stderr)
        self.assertIn("scalar", json.loads(done.stdout)["numeric_fingerprint"])
        done = run(["env", "FORERUN_ISA=i8086", *generate("--hosts", hosts)])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("FORERUN_ISA: found 'i8086'", done.stderr)


class Hangs(unittest.TestCase):
    def test_a_stage_that_answers_pings_and_does_not_compute_is_named(self):
        launch = Launch(
            mpirun_command(3)
            + generate(
                *("--stages", 2, "--ignore-eos", "--step-s", 5, "--link-delay-ms", 5),
                tokens=4000,
                context=8192,
            )
        )
        self.addCleanup(launch.close)
        numbers = launch.ranks(3)
        launch.wait_for_output()
        # Stops the one thread that computes.
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        attach, any_thread = 16, 0x40000000
        if libc.ptrace(attach, numbers[2], None, None) != 0:
            self.skipTest("no process may be traced: " + os.strerror(ctypes.get_errno()))
        os.waitpid(numbers[2], any_thread)
        deadline = time.monotonic() + 150
        while launch.process.poll() is None and time.monotonic() < deadline:
            try:
                os.waitpid(numbers[2], any_thread | os.WNOHANG)  # or its end stays with the test
            except ChildProcessError:
                break  # all ranks end together
            time.sleep(0.05)
        self.assertTrue(all_gone(numbers))
        # Debian 12's mpirun, its ranks gone, now and then waits for itself for ever (PMIx_server_finalize).
        try:
            self.assertNotEqual(launch.process.wait(timeout=10), 0)
        except subprocess.TimeoutExpired:
            pass
        stderr = launch.errors()
        self.assertRegex(
            stderr, r"rank 2 \(stage 2 of 2, host .*\): has worked on Step \d+ \(\d+ rows\) for"
        )


# Stands for ssh: writes its arguments down, and reaches no host.
AGENT = """#!/bin/sh
echo "$@" | cut -d' ' -f1-4 >> {log}
sleep 1
echo "ssh: connect to host ${{1#*@}} port 22: Connection refused" >&2
exit 255
"""


class HostFiles(unittest.TestCase):
    def setUp(self):
        self.log = Path(FOLDER.name) / "agent.log"
        self.log.unlink(missing_ok=True)
        agent = written("agent", AGENT.format(log=self.log), 0o700)
        self.env = dict(os.environ, OMPI_MCA_plm_rsh_agent=str(agent))

    def test_users_ports_and_ipv6_reach_ssh(self):
        hosts = written("hosts-ssh.txt", "localhost\nbob@hostb port=2222\n2001:db8::5 slots=1\n")
        done = run(generate("--hosts", hosts, "--start-s", 40), env=self.env)
        calls = sorted(" ".join(line.split()[:3]) for line in self.log.read_text().splitlines())
        self.assertEqual(len(calls), 2, calls)
        self.assertTrue(calls[0].startswith("2001:db8::5 orted"), calls)
        self.assertEqual(calls[1], "bob@hostb -p 2222")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no process can be started there: ssh: connect to host", done.stderr)

    def test_a_host_that_ssh_does_not_reach_is_one_line(self):
        hosts = written("hosts-bad.txt", "localhost\nbadhost\n")
        trace = [FORERUN, "trace", *generate("--hosts", hosts)[2:], "--json", os.devnull]
        for command in (generate("--hosts", hosts), trace):
            done = run(command, env=self.env)
            self.assertNotEqual(done.returncode, 0)
            told = [line for line in done.stderr.splitlines() if "badhost" in line]
            self.assertEqual(len(told), 1, done.stderr)
            self.assertIn("host badhost: no process can be started there: ssh: connect", told[0])
            self.assertNotIn("ORTE", done.stderr)


if __name__ == "__main__":
    FORERUN = sys.argv.pop(1)
    if MPIRUN is None:
        print("agreement_test: skipped, there is no mpirun")
        sys.exit(77)
    unittest.main()
