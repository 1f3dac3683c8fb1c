"""A weight file that shrinks, or is written to, while it is served: requests end with an error that
names it, and the process stays.

    lost_file_test.py FORERUN
"""

import json
import os
import shutil
import tempfile
import time
import unittest
from pathlib import Path

import serving

LONG = {"prompt": "def f(", "temperature": 0.8, "seed": 1, "max_tokens": 600, "ignore_eos": True}


def cut_to_nothing(file):
    os.truncate(file, 0)


def cut_within_a_page(file):
    os.truncate(file, file.stat().st_size - 100)


def write_into(file):
    with open(file, "r+b") as weights:
        weights.seek(file.stat().st_size // 2)
        weights.write(bytes(4096))


class LostFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = Path(folder.name) / "model"
        shutil.copytree(serving.TARGET, self.model)
        self.file = self.model / "model.safetensors"
        # This test is not about files that are written in the moment in which they are opened.
        os.utime(self.file, (time.time() - 60, time.time() - 60))

    def begin_stream(self, server):
        connection = server.connect()
        connection.request(
            "POST",
            "/v1/completions",
            json.dumps({**LONG, "stream": True}),
            {"Content-Type": "application/json"},
        )
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        self.addCleanup(connection.close)
        return answer

    def events(self, answer, count=None):
        events = []
        while count is None or len(events) < count:
            line = answer.readline().decode()
            if not line:
                break
            if line.startswith("data: {"):
                events.append(json.loads(line[6:]))
        return events

    def text(self, events):
        return "".join(event["choices"][0]["text"] for event in events if "choices" in event)

    def test_requests_end_with_an_error_that_names_it(self):
        with serving.Server(draft=False) as plain:
            whole = plain.completion(**LONG)["choices"][0]["text"]
        for damage, words in (
            (cut_to_nothing, "found 0 bytes"),
            (cut_within_a_page, "100 bytes less"),
            (write_into, "was written to"),
        ):
            with self.subTest(damage.__name__):
                self.file.write_bytes((serving.TARGET / "model.safetensors").read_bytes())
                os.utime(self.file, (time.time() - 60, time.time() - 60))
                size = self.file.stat().st_size
                if words == "100 bytes less":
                    words = f"found {size - 100} bytes, it had {size}"
                with serving.Server(draft=False, model=self.model) as server:
                    answer = self.begin_stream(server)
                    events = self.events(answer, count=3)
                    damage(self.file)
                    events += self.events(answer)
                    self.assertTrue(whole.startswith(self.text(events)), "tokens of other weights")
                    message = events[-1]["error"]["message"]
                    self.assertIn(str(self.file), message)
                    self.assertIn(words, message)
                    status, _, body = server.post("/v1/completions", {"prompt": "x"})
                    self.assertEqual(status, 503)
                    self.assertIn(str(self.file), body["error"]["message"])
                    for path in ("/health", "/ready"):
                        status, _, body = server.get(path)
                        self.assertEqual(status, 503, path)
                        self.assertIn(words, str(body), path)
                    self.assertIsNone(server.process.poll(), "the process has ended")
                    lines = [line for line in server.stderr().splitlines() if words in line]
                    self.assertEqual(len(lines), 1, server.stderr())

    def test_a_file_that_is_replaced_disturbs_nobody(self):
        with serving.Server(draft=False, model=self.model) as server:
            before = server.completion("def f(", temperature=0, max_tokens=50)
            other = self.model / "new"
            other.write_bytes(b"another model")
            other.rename(self.file)
            after = server.completion("def f(", temperature=0, max_tokens=50)
            self.assertEqual(before["choices"], after["choices"])

    def test_an_isolated_engine_goes_on_when_the_file_is_whole_again(self):
        copy = self.model / "copy"
        shutil.copy2(self.file, copy)
        with serving.Server("--isolate", draft=False, model=self.model) as server:
            whole = server.completion(**LONG)["choices"][0]["text"]
            answer = self.begin_stream(server)
            events = self.events(answer, count=3)
            cut_to_nothing(self.file)
            time.sleep(0.3)
            copy.rename(self.file)
            events += self.events(answer)
            self.assertEqual(self.text(events), whole)
            self.assertIn(str(self.file), server.stderr())


if __name__ == "__main__":
    serving.main()
