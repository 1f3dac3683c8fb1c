"""HTTP itself: limits, keys, origins, slow and absent clients, the server's end."""

import json
import re
import resource
import signal
import socket
import time
import unittest

import serving

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4, "temperature": 0}
LONG = {"prompt": "def f(", "max_tokens": 4000, "temperature": 0, "ignore_eos": True}


def raw(method, path, body=b"", *headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answer_of(connection):
    """All that comes until the server closes."""
    received = b""
    while True:
        piece = connection.recv(65536)
        if not piece:
            return received
        received += piece


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Plain(serving.ServerTest):
    FLAGS = ("--header-seconds", "0.5", "--max-body", "20000")

    def test_health_and_unknown_paths(self):
        status, headers, body = self.server.get("/health")
        self.assertEqual((status, body), (200, {"status": "ok"}))
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(self.server.get("/ready")[0], 200)
        self.refused(self.server.get("/v1/nothing"), 404, "/v1/nothing")
        answer = self.server.call("DELETE", "/health")
        self.refused(answer, 405, "DELETE")
        self.assertEqual(answer[1]["Allow"], "GET, HEAD, OPTIONS")

    def test_head_has_no_body(self):
        status, headers, body = self.server.call("HEAD", "/health")
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 0)

    def test_request_ids_come_back_where_they_are_fit(self):
        self.assertEqual(
            self.server.get("/health", **{"X-Request-Id": "mine-7"})[1]["X-Request-Id"], "mine-7"
        )
        made = self.server.get("/health", **{"X-Request-Id": "not fit"})[1]["X-Request-Id"]
        self.assertRegex(made, "^req-")

    def test_a_connection_serves_many_requests(self):
        connection = self.server.connect()
        for _ in range(50):
            connection.request("GET", "/health")
            self.assertEqual(connection.getresponse().read(), b'{"status":"ok"}')
        connection.close()

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.socket() as connection:
            connection.sendall(
                raw("GET", "/health")
                + raw("GET", "/v1/nothing")
                + raw("GET", "/ready", b"", "Connection: close")
            )
            text = answer_of(connection).decode()
        self.assertEqual(re.findall(r"HTTP/1.1 (\d+)", text), ["200", "404", "200"])

    def test_http_1_0_streams_end_with_the_connection(self):
        body = json.dumps({**HELLO, "stream": True}).encode()
        request = raw("POST", CHAT, body).replace(b"HTTP/1.1", b"HTTP/1.0")
        with self.server.socket() as connection:
            connection.sendall(request)
            text = answer_of(connection).decode()
        self.assertNotIn("chunked", text.lower())
        self.assertTrue(text.rstrip().endswith("data: [DONE]"))

    def test_expect_continue(self):
        body = json.dumps(HELLO).encode()
        head, body = raw("POST", CHAT, body, "Expect: 100-continue", "Connection: close").split(
            b"\r\n\r\n", 1
        )
        with self.server.socket() as connection:
            connection.sendall(head + b"\r\n\r\n")
            self.assertTrue(connection.recv(100).startswith(b"HTTP/1.1 100 Continue"))
            connection.sendall(body)
            self.assertIn(b"HTTP/1.1 200 OK", answer_of(connection))

    def test_chunked_bodies_are_read(self):
        body = json.dumps(HELLO).encode()
        chunks = (
            b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:7], body[7:]))
            + b"0\r\n\r\n"
        )
        head = raw(
            "POST",
            CHAT,
            b"",
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
            "Connection: close",
        )
        with self.server.socket() as connection:
            connection.sendall(head + chunks)
            self.assertIn(b"HTTP/1.1 200 OK", answer_of(connection))

    def test_malformed_requests(self):
        cases = [
            (b"nonsense\r\n\r\n", b"400"),
            (b"GET /health HTTP/9.9\r\n\r\n", b"505"),
            (b"GET /health HTTP/1.1\r\nbad header\r\n\r\n", b"400"),
            (raw("POST", CHAT, b"", "Content-Length: 5", "Transfer-Encoding: chunked"), b"400"),
            (raw("GET", "/health", b"", "X-Long: " + "x" * 40000), b"431"),
            (
                raw("POST", CHAT, b"", "Content-Type: application/json", "Content-Length: 30000"),
                b"413",
            ),
            (
                raw("POST", CHAT, b"", "Content-Type: application/json", "Content-Length: nine"),
                b"400",
            ),
        ]
        for request, status in cases:
            with self.server.socket() as connection:
                connection.sendall(request)
                answer = answer_of(connection)
                self.assertTrue(
                    answer.startswith(b"HTTP/1.1 " + status), (request[:60], answer[:200])
                )
                self.assertIn(b'{"error":', answer)

    def test_an_oversized_body_is_refused_while_it_comes(self):
        with self.server.socket() as connection:
            connection.sendall(
                raw("POST", CHAT, b"", "Content-Type: application/json", "Content-Length: 30000")
            )
            try:
                connection.sendall(b"x" * 30000)
            except OSError:
                pass  # it may have closed already
            self.assertIn(b"413", answer_of(connection)[:20])

    def test_headers_that_drip_in_are_cut_off(self):
        start = time.monotonic()
        with self.server.socket() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: loc")
            answer = answer_of(connection)
        self.assertTrue(answer.startswith(b"HTTP/1.1 408"), answer[:100])
        self.assertLess(time.monotonic() - start, 5)

    def test_no_json(self):
        for body, words in (
            ("{", "not JSON"),
            ("[1]", "object"),
            ('"x"', "object"),
            ("[" * 5000, "nested"),
            ("{" + ",".join(f'"{idx}":0' for idx in range(2100)) + "}", "members"),
            ("[" + ",".join(["{}"] * 6000) + "]", "object"),
            (b'{"prompt": "\xff"}', "UTF-8"),
        ):
            self.refused(self.server.post("/v1/completions", body), 400, words)
        self.refused(
            self.server.post("/v1/completions", "{}", {"Content-Type": "text/plain"}),
            415,
            "text/plain",
        )

    def test_other_hosts_and_origins(self):
        self.refused(
            self.server.get("/health", Host="evil.example"), 403, "evil.example", "--allowed-host"
        )
        self.assertEqual(self.server.get("/health", Host=f"127.0.0.1:{self.server.port}")[0], 200)
        own = f"http://localhost:{self.server.port}"
        self.assertEqual(self.server.get("/health", Host=own[7:], Origin=own)[0], 200)
        self.refused(
            self.server.get("/health", Origin="https://evil.example"), 403, "--cors-origin"
        )

    def test_a_client_that_leaves_frees_its_request(self):
        connection = self.server.socket()
        body = json.dumps({**LONG, "stream": True}).encode()
        connection.sendall(raw("POST", "/v1/completions", body))
        connection.recv(100)
        self.assertTrue(until(lambda: self.server.metric("forerun_running_requests") == 1))
        connection.close()
        self.assertTrue(until(lambda: self.server.metric("forerun_running_requests") == 0, 3))

    def test_a_client_that_waits_for_the_whole_and_leaves(self):
        connection = self.server.socket()
        connection.sendall(raw("POST", "/v1/completions", json.dumps(LONG).encode()))
        self.assertTrue(until(lambda: self.server.metric("forerun_running_requests") == 1))
        connection.close()
        self.assertTrue(until(lambda: self.server.metric("forerun_running_requests") == 0, 3))

    def test_a_slow_reader_holds_up_nobody(self):
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.connect((self.server.host, self.server.port))
        body = {**LONG, "max_tokens": 1000, "stream": True, "return_speculation": True}
        body = json.dumps(body).encode()
        slow.sendall(raw("POST", "/v1/completions", body))
        for _ in range(5):
            self.server.completion("def g(", max_tokens=16, temperature=0)
        received = answer_until_done(slow)
        slow.close()
        self.assertIn(b"[DONE]", received)


def answer_until_done(connection):
    received = b""
    while b"[DONE]" not in received:
        piece = connection.recv(65536)
        if not piece:
            break
        received += piece
    return received


class Keys(serving.ServerTest):
    def test_keys_guard_all_but_health(self):
        with serving.Server(env={"FORERUN_API_KEY": "secret"}) as server:
            self.assertEqual(server.get("/health")[0], 200)
            for path in ("/v1/models", "/metrics", "/props", "/slots", "/ready"):
                self.refused(server.get(path), 401, "Bearer")
                self.refused(server.get(path, Authorization="Bearer wrong"), 401)
                self.assertEqual(server.get(path, Authorization="Bearer secret")[0], 200)
            answer = server.post(CHAT, HELLO)
            self.assertEqual(self.refused(answer, 401)["code"], "invalid_api_key")
            self.assertEqual(answer[1]["WWW-Authenticate"], "Bearer")
            self.assertNotIn("secret", server.stderr())

    def test_a_line_of_log_a_request_without_its_text(self):
        with serving.Server("-v") as server:
            prompt = "def nobody_reads_this("
            body = {"prompt": prompt, "max_tokens": 3}
            server.post("/v1/completions", body, {"X-Request-Id": "mine-8"})
            self.assertTrue(until(lambda: "id=mine-8" in server.stderr()))
            (line,) = [line for line in server.stderr().splitlines() if "id=mine-8" in line]
            self.assertRegex(line, r"status=200 seconds=\d+\.\d+ prompt_tokens=\d+ cached_tokens=0")
            self.assertRegex(line, "output_tokens=3")
            self.assertNotIn("nobody_reads", server.stderr())

    def test_cors_where_asked_for(self):
        with serving.Server("--cors-origin", "https://chat.example") as server:
            status, headers, _ = server.call(
                "OPTIONS", CHAT, headers={"Origin": "https://chat.example"}
            )
            self.assertEqual(status, 204)
            self.assertEqual(headers["Access-Control-Allow-Origin"], "https://chat.example")
            connection = server.connect()
            connection.request(
                "POST",
                CHAT,
                json.dumps({**HELLO, "stream": True}),
                {"Content-Type": "application/json", "Origin": "https://chat.example"},
            )
            answer = connection.getresponse()
            self.assertEqual(answer.headers["Access-Control-Allow-Origin"], "https://chat.example")
            answer.read()
            self.refused(server.get("/health", Origin="https://other.example"), 403)

    @classmethod
    def setUpClass(cls):
        pass  # each test has a server of its own

    @classmethod
    def tearDownClass(cls):
        pass


class Load(unittest.TestCase):
    def test_what_is_too_much_is_told_to_come_again(self):
        with serving.Server("--max-requests", "1", "--max-waiting", "1") as server:
            held = []
            for _ in range(2):
                connection = server.socket()
                connection.sendall(
                    raw("POST", "/v1/completions", json.dumps({**LONG, "stream": True}).encode())
                )
                connection.recv(100)
                held.append(connection)
            status, headers, body = server.post(CHAT, HELLO)
            self.assertEqual(status, 429, body)
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            self.assertEqual(body["error"]["code"], "rate_limit_exceeded")
            for connection in held:
                connection.close()
            self.assertTrue(until(lambda: server.post(CHAT, HELLO)[0] == 200))

    def test_many_idle_connections_stay_open_beside_work(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        count = min(10_000, (hard if hard > 0 else 1 << 20) - 500)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (min(hard, count + 400) if hard > 0 else count + 400, hard)
        )
        with serving.Server() as server:
            before = server.resident_mb()
            idle = [server.socket() for _ in range(count)]
            self.assertTrue(until(lambda: server.metric("forerun_http_connections") >= count, 30))
            server.completion("def g(", max_tokens=64, temperature=0)
            grown = server.resident_mb() - before
            idle[0].sendall(raw("GET", "/health", b"", "Connection: close"))
            self.assertIn(b"200 OK", answer_of(idle[0]))
            for connection in idle:
                connection.close()
            self.assertLess(grown, 100, f"{count} connections took {grown:.0f} MB")
            self.assertTrue(until(lambda: server.metric("forerun_http_connections") <= 2, 30))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_descriptors_that_run_out_stop_nothing(self):
        with serving.Server("--max-connections", "20") as server:
            idle = [server.socket() for _ in range(60)]
            self.assertEqual(server.get("/health")[0], 200)
            server.completion("def g(", max_tokens=8, temperature=0)
            for connection in idle:
                connection.close()


class End(unittest.TestCase):
    def test_sigterm_lets_requests_end(self):
        with serving.Server() as server:
            connection = server.socket()
            body = json.dumps({**LONG, "max_tokens": 600, "stream": True}).encode()
            connection.sendall(raw("POST", "/v1/completions", body))
            connection.recv(10)
            server.process.send_signal(signal.SIGTERM)
            received = answer_until_done(connection)
            self.assertIn(b"[DONE]", received)
            self.assertEqual(server.process.wait(timeout=20), 0)
            with self.assertRaises(OSError):
                server.socket(timeout=2)

    def test_those_that_take_too_long_are_ended(self):
        with serving.Server("--drain-seconds", "0.3") as server:
            connection = server.socket()
            body = json.dumps({**LONG, "max_tokens": 8000, "stream": True}).encode()
            connection.sendall(raw("POST", "/v1/completions", body))
            connection.recv(10)
            start = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(timeout=20), 0)
            self.assertLess(time.monotonic() - start, 8)

    def test_a_port_that_is_taken(self):
        with serving.Server() as server:
            with self.assertRaisesRegex(AssertionError, "cannot listen on 127.0.0.1"):
                serving.Server("--port", str(server.port)).__enter__()


if __name__ == "__main__":
    serving.main()
