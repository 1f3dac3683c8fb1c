"""`forerun serve --isolate`: the engine's process is killed again and again under load, and every
stream ends with the text of an undisturbed run.

    isolate_test.py FORERUN [--kills N] [--deadly-reads LIBRARY]

--kills: more than CI has time for; LIBRARY: of deadly_reads.cc.
"""

import concurrent.futures
import json
import os
import random
import shutil
import signal
import struct
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import serving

KILLS = 4
DEADLY_READS = None
POISON = [7, 77, 777]  # again and again: deadly_reads.cc looks for it
PROMPTS = ["def read_lines(path):", "class Stack:", "import os\n", "The quick brown fox", "x = ["]


FAULTY = 7001  # its embedding is NaN


def write_with_faulty_token(folder):
    """The demo target with a head of its own, and NaN where a token is embedded."""
    shutil.copytree(serving.TARGET, folder)
    config = json.loads((folder / "config.json").read_text())
    config["tie_word_embeddings"] = False
    (folder / "config.json").write_text(json.dumps(config))
    data = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header, tensors = json.loads(data[8 : 8 + length]), bytearray(data[8 + length :])
    embedding = header["model.embed_tokens.weight"]
    begin, end = embedding["data_offsets"]
    head = tensors[begin:end]
    header["lm_head.weight"] = {
        **embedding,
        "data_offsets": [len(tensors), len(tensors) + len(head)],
    }
    row = (end - begin) // embedding["shape"][0]
    tensors[begin + FAULTY * row : begin + (FAULTY + 1) * row] = b"\xff\x7f" * (row // 2)
    encoded = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(
        struct.pack("<Q", len(encoded)) + encoded + tensors + head
    )


def worker_of(server):
    """The process that has the engine; None while there is none."""
    for child in Path(f"/proc/{server.process.pid}/task").glob("*/children"):
        for pid in child.read_text().split():
            return int(pid)
    return None


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class GivenUp(unittest.TestCase):
    def test_routers_and_clients_are_told(self):
        if shutil.which("mpirun") is None:
            self.skipTest("without mpirun")
        hosts = Path(serving.HOME.name) / "hosts.txt"
        hosts.write_text("localhost\n" * 2)
        with serving.Server("--hosts", hosts, "--relaunches", 0, draft=False) as server:
            for path in ("/ready", "/health"):
                self.assertEqual(server.get(path)[0], 200)
            os.kill(worker_of(server), signal.SIGKILL)  # mpirun: one failure is one too many
            deadline = time.monotonic() + 60
            while server.get("/health")[0] == 200 and time.monotonic() < deadline:
                time.sleep(0.05)
            for path in ("/ready", "/health", "/v1/health"):
                status, headers, body = server.get(path)
                self.assertEqual(status, 503, path)
                self.assertIn("is not started again", body["error"]["message"])
                self.assertIn("Retry-After", headers)
            for path, body in (
                ("/v1/completions", {"prompt": "x"}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
            ):
                status, _, answer = server.post(path, body)
                self.assertEqual(status, 503, answer)
                self.assertIn("is not started again", answer["error"]["message"])


class Isolated(unittest.TestCase):
    def call(self, server, case, stream):
        prompt, seed = case
        body = {"prompt": prompt, "max_tokens": 120, "temperature": 0.8, "seed": seed}
        if not stream:
            return server.completion(**body)["choices"][0]["text"]
        events = server.stream("/v1/completions", body)
        return "".join(event["choices"][0]["text"] for event in events)

    def test_streams_outlive_the_engines_process(self):
        random.seed(7)
        cases = [(prompt, seed) for prompt in PROMPTS for seed in range(8)]
        with serving.Server() as plain:
            expected = {case: self.call(plain, case, False) for case in cases}
        with serving.Server("--isolate", "--max-waiting", "-1") as server:
            stop, kills, ended = threading.Event(), 0, 0
            with concurrent.futures.ThreadPoolExecutor(16) as pool:

                def work():
                    done = 0
                    while not stop.is_set():
                        case = random.choice(cases)
                        text = self.call(server, case, random.random() < 0.7)
                        if text != expected[case]:
                            return f"{case}: {text!r} is not {expected[case]!r}"
                        done += 1
                    return done

                jobs = [pool.submit(work) for _ in range(16)]
                before = None
                while kills < KILLS and not any(job.done() for job in jobs):
                    time.sleep(random.uniform(0.2, 1.5))
                    worker = worker_of(server)
                    if worker is None or worker == before:
                        continue
                    os.kill(worker, random.choice([signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT]))
                    before = worker
                    kills += 1
                time.sleep(2)
                stop.set()
                for job in jobs:
                    self.assertIsInstance(job.result(), int, job.result())
                    ended += job.result()
            self.assertGreaterEqual(kills, KILLS)
            self.assertGreater(ended, 0)
            print(f"{kills} kills, {ended} streams as undisturbed")

    def test_a_request_that_processes_die_of_is_failed_alone(self):
        if DEADLY_READS is None:
            self.skipTest("without --deadly-reads")
        cases = [(prompt, seed) for prompt in PROMPTS for seed in range(100, 110)]
        with serving.Server() as plain, concurrent.futures.ThreadPoolExecutor(16) as pool:
            texts = pool.map(lambda case: self.call(plain, case, False), cases)
            expected = dict(zip(cases, texts))
        isolated = serving.Server(
            "--isolate", "--max-waiting", "-1", env={"LD_PRELOAD": DEADLY_READS}
        )
        with isolated as server, concurrent.futures.ThreadPoolExecutor(60) as pool:
            first = worker_of(server)
            jobs = {}
            for place, case in enumerate(cases):
                if place == 25:
                    time.sleep(0.2)  # so that it meets some that run and some that wait
                    body = {"prompt": POISON * 20, "max_tokens": 50}
                    poisoned = pool.submit(server.post, "/v1/completions", body)
                jobs[case] = pool.submit(self.call, server, case, place % 2 == 0)
            for case, job in jobs.items():
                self.assertEqual(job.result(timeout=120), expected[case], case)
            status, _, answer = poisoned.result(timeout=120)
            self.assertEqual(status, 500, answer)
            self.assertIn("died with this request", answer["error"]["message"])
            self.assertNotEqual(worker_of(server), first, "no process has died")
            self.assertEqual(self.call(server, cases[0], True), expected[cases[0]])
            print(f"{len(jobs)} requests as undisturbed beside one that processes die of")

    def test_faults_of_rows_are_their_requests(self):
        """Logits of NaN, and parameters that made some, cost no process: eleven of each."""
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "model"
            write_with_faulty_token(model)
            with serving.Server("--isolate", model=model) as server:
                text = self.call(server, ("x = [", 3), False)
                worker = worker_of(server)
                faulty = {"prompt": [5, FAULTY, 6], "max_tokens": 4, "temperature": 0}
                biased = {"prompt": "x", "logit_bias": {"100": 3e38}, "repetition_penalty": 0.001}
                for body, words in [(faulty, "NaN"), (biased, "logit_bias|repetition_penalty")]:
                    for _ in range(11):
                        status, _, answer = server.post("/v1/completions", body)
                        self.assertEqual(status, 400, answer)
                        self.assertEqual(answer["error"]["type"], "invalid_request_error")
                        self.assertRegex(answer["error"]["message"], words)
                _, _, events = server.post("/v1/completions", {**faulty, "stream": True})
                self.assertIn("invalid_request_error", str(events))
                self.assertEqual(server.get("/ready")[0], 200)
                self.assertEqual(self.call(server, ("x = [", 3), True), text)
                self.assertEqual(worker_of(server), worker, "the engine was started anew")

    def test_what_is_refused_is_refused_as_ever(self):
        with serving.Server("--isolate") as server:
            status, _, body = server.post("/v1/completions", {"prompt": "x", "strategy": "magic"})
            self.assertEqual(status, 400)
            self.assertIn("magic", body["error"]["message"])
            status, _, body = server.post("/v1/completions", {"prompt": [5] * 9000})
            self.assertEqual((status, body["error"]["code"]), (400, "context_length_exceeded"))
            worker = worker_of(server)
        end = time.monotonic() + 10
        while is_running(worker) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertFalse(is_running(worker), "it outlives its server")


if __name__ == "__main__":
    if "--deadly-reads" in sys.argv:
        place = sys.argv.index("--deadly-reads")
        DEADLY_READS = sys.argv[place + 1]
        del sys.argv[place : place + 2]
    if "--kills" in sys.argv:
        place = sys.argv.index("--kills")
        KILLS = int(sys.argv[place + 1])
        del sys.argv[place : place + 2]
    serving.main()
