"""What the tests of the server share: `forerun serve` as a process, and a plain client.

A test file ends with serving.main(), which takes the path of forerun from the command line.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TARGET = ROOT / "models" / "demo-target"
DRAFT = ROOT / "models" / "demo-draft"
PYTHON = ROOT / "build" / "venv" / "bin" / "python"  # with requirements.txt, see scripts/test
HOME = tempfile.TemporaryDirectory()  # nothing of the user's is read or written
# Where step costs are stored: ctest names one folder for all tests, so that they measure once.
CACHE = os.environ.get("FORERUN_TEST_CACHE", HOME.name)
# Every PART-th case of a product runs, so that each value of either side still does.
PART = int(os.environ.get("FORERUN_TEST_PART", "1"))
SKIPPED = 77

_forerun = ""


def runs(*turns):
    """Whether the combination of these indices is in the part of a product that runs."""
    return sum(turns) % PART == 0


class Server:
    """A server of the demo pair on a free port, ended with the `with` block. `model`, `draft`: others."""

    def __init__(self, *flags, env=None, draft=True, model=TARGET):
        self.flags = [str(flag) for flag in flags]
        self.env = {**os.environ, "HOME": HOME.name, "XDG_CACHE_HOME": CACHE, **(env or {})}
        if "--port" not in self.flags:
            self.flags += ["--port", "0"]
        self.draft = ["--draft", str(DRAFT if draft is True else draft)] if draft else []
        self.model = str(model)

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [_forerun, "serve", "--model", self.model, *self.draft, *self.flags],
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=self.env,
        )
        line = self.process.stdout.readline().decode()
        found = re.search(r"http://(\S+):(\d+)", line)
        if not found:
            self.process.wait(timeout=30)
            raise AssertionError(f"the server did not start: {line}\n{self.stderr()}")
        self.host, self.port = found.group(1), int(found.group(2))
        # Whatever else it prints must not fill the pipe.
        self.reader = threading.Thread(target=self.process.stdout.read, daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.log.close()

    @property
    def url(self):
        return f"http://{self.host}:{self.port}"

    def stderr(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def resident_mb(self):
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) / 1024

    def connect(self, timeout=180):
        return http.client.HTTPConnection(self.host, self.port, timeout=timeout)

    def socket(self, timeout=60):
        return socket.create_connection((self.host, self.port), timeout=timeout)

    def call(self, method, path, body=None, headers=None):
        """Status, headers and body; the body read as JSON where it is."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if content and answer.headers.get("Content-Type", "").startswith("application/json"):
            content = json.loads(content)
        return answer.status, answer.headers, content

    def get(self, path, **headers):
        return self.call("GET", path, headers=headers)

    def post(self, path, body, headers=None):
        return self.call("POST", path, body, headers)

    def completion(self, prompt, **fields):
        status, _, body = self.post("/v1/completions", {"prompt": prompt, **fields})
        assert status == 200, body
        return body

    def stream(self, path, body, ends_with="[DONE]"):
        """The JSON of each event but the last where that is what a stream must end with."""
        connection = self.connect()
        connection.request(
            "POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        events = [
            line[6:] for line in answer.read().decode().split("\n") if line.startswith("data: ")
        ]
        connection.close()
        if ends_with is not None:
            assert events.pop() == ends_with
        return [json.loads(event) for event in events]

    def metric(self, name):
        _, _, text = self.get("/metrics")
        total = 0.0
        for line in text.decode().splitlines():
            if line.startswith(name + " ") or line.startswith(name + "{"):
                total += float(line.rsplit(" ", 1)[1])
        return total


class ServerTest(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.FLAGS)
        cls.server.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.server.__exit__()

    def refused(self, answer, status, *words):
        got, _, body = answer
        self.assertEqual(got, status, str(body)[:500])
        message = body["error"]["message"]
        for word in words:
            self.assertIn(word, message)
        return body["error"]


def main():
    global _forerun
    _forerun = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)


def skip(why):
    print(why)
    sys.exit(SKIPPED)
