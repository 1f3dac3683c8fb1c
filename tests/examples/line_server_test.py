"""256 clients of examples/line_server at once: line_server_test.py LINE_SERVER

Each gets what it gets alone; clients that go away disturb nobody; the server has one thread for all
of them and ends when it is asked to.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

CLIENTS = 256
TOKENS = 12
MODELS = os.path.join(os.path.dirname(__file__), "..", "..", "models")
PROMPTS = ["def fibonacci(n):", "import os", "The old house", "class Tree:", "for i in range(", "x"]


class LineServer(unittest.TestCase):
    binary = ""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        cache = os.environ.get("FORERUN_TEST_CACHE", self.scratch.name)
        self.path = os.path.join(self.scratch.name, "lines")
        self.server = subprocess.Popen(
            [
                self.binary,
                os.path.join(MODELS, "demo-target"),
                os.path.join(MODELS, "demo-draft"),
                self.path,
                str(TOKENS),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XDG_CACHE_HOME": cache},
        )
        self.assertEqual(self.server.stdout.readline(), "listening\n")

    def tearDown(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()
        self.scratch.cleanup()

    def ask(self, prompt):
        client = socket.socket(socket.AF_UNIX)
        client.connect(self.path)
        client.sendall(prompt.encode() + b"\n")
        return client

    def read_all(self, clients):
        """What each client of {key: socket} is sent until its connection closes."""
        texts = {key: b"" for key in clients}
        open_ones = {client.fileno(): key for key, client in clients.items()}
        poll = select.poll()
        for descriptor in open_ones:
            poll.register(descriptor, select.POLLIN)
        while open_ones:
            ready = poll.poll(120000)
            self.assertTrue(ready, f"{len(open_ones)} clients wait for ever")
            for descriptor, _ in ready:
                key = open_ones[descriptor]
                part = clients[key].recv(65536)
                texts[key] += part
                if not part:
                    poll.unregister(descriptor)
                    del open_ones[descriptor]
                    clients[key].close()
        return texts

    def test_256_clients_each_as_alone(self):
        alone = {}
        for prompt in PROMPTS:
            alone[prompt] = self.read_all({0: self.ask(prompt)})[0]
            self.assertTrue(alone[prompt], prompt)
        clients = {number: self.ask(PROMPTS[number % len(PROMPTS)]) for number in range(CLIENTS)}
        # Some go away, with their prompt being read or waiting.
        for number in range(0, CLIENTS, 16):
            clients.pop(number).close()
        texts = self.read_all(clients)
        self.assertEqual(len(texts), CLIENTS - CLIENTS // 16)
        for number, text in texts.items():
            self.assertEqual(text, alone[PROMPTS[number % len(PROMPTS)]], number)

    def test_a_refused_prompt_is_told_why(self):
        text = self.read_all({0: self.ask("word " * 20000)})[0]
        self.assertIn(b"error: prompt: found", text)

    def test_it_ends_when_asked_while_it_serves(self):
        clients = [self.ask(prompt) for prompt in PROMPTS]
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(timeout=120), 0)
        for client in clients:
            client.close()


if __name__ == "__main__":
    LineServer.binary = sys.argv.pop(1)
    unittest.main()
