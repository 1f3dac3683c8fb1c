"""The rules of RFC 9110 and 9112 for requests, through raw sockets: where one ends and the next begins, whose
host is meant, clients that close one half, bodies that stall, the end of a stream at drain.
"""

import json
import re
import signal
import socket
import threading
import time
import unittest

import serving
from http_test import CHAT, HELLO, LONG, answer_of, raw, until

COMPLETIONS = "/v1/completions"
BODY = json.dumps({"prompt": "def f(", "max_tokens": 2}).encode()
# Bytes that give an answer of their own if the server takes them for the next request.
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"


def statuses(answer):
    """Statuses of the final answers; interim ones are left out."""
    return [
        int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer) if status != b"100"
    ]


def post(*headers, version="1.1", host="Host: localhost", path=COMPLETIONS):
    lines = [f"POST {path} HTTP/{version}", "Content-Type: application/json", *headers]
    if host is not None:
        lines.insert(1, host)
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def get(target="/health", method="GET", version="1.1", *headers):
    lines = [f"{method} {target} HTTP/{version}", "Host: localhost", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


class Rules(serving.ServerTest):
    FLAGS = ("--max-body", "400000", "--body-memory", "1000000", "--body-stall-seconds", "1")

    def exchange(self, request):
        """All that comes back until the server closes, which it must."""
        with self.server.socket(timeout=10) as connection:
            connection.sendall(request)
            return answer_of(connection)

    def refused_and_closed(self, request, *accepted):
        """One answer, of one of these statuses, whatever follows the request."""
        for behind in (b"", HIDDEN):
            answer = self.exchange(request + behind)
            self.assertEqual(len(statuses(answer)), 1, (request, answer))
            self.assertIn(statuses(answer)[0], accepted, (request, answer))
            self.assertIn(b'{"error":', answer)
            if answer.startswith(b"HTTP/1.1"):  # with 1.0 every connection is, unless it says other
                self.assertIn(b"Connection: close", answer)

    def taken(self, request, *expected):
        """The statuses of a connection whose last request says Connection: close."""
        answer = self.exchange(request)
        self.assertEqual(statuses(answer), list(expected), (request, answer[:500]))
        return answer

    def test_no_body_is_the_next_request(self):
        for coding in ("identity", "gzip", "xchunked", "chunked, identity", "chunked, chunked", ""):
            self.refused_and_closed(post(f"Transfer-Encoding: {coding}") + HIDDEN, 400)
        self.refused_and_closed(post("Transfer-Encoding: gzip, chunked") + HIDDEN, 501)
        self.refused_and_closed(
            post("Transfer-Encoding: gzip", "Transfer-Encoding: chunked") + HIDDEN, 501
        )
        self.refused_and_closed(
            post("Transfer-Encoding: chunked", "Transfer-Encoding: identity") + HIDDEN, 400
        )
        self.refused_and_closed(
            post("Transfer-Encoding: chunked", version="1.0") + b"0\r\n\r\n", 400
        )

    def test_lengths_that_differ_or_are_beside_a_coding(self):
        for headers in (
            ("Content-Length: 2", "Content-Length: 3"),
            ("Content-Length: 2", "Content-Length: 2"),
            ("Content-Length: 2, 2",),
            ("Content-Length: +2",),
            ("Content-Length: 0x2",),
            ("Content-Length:",),
            ("Content-Length: 99999999999999999999",),
            ("Content-Length: 2", "Transfer-Encoding: chunked"),
            ("Transfer-Encoding: chunked", "Content-Length: 2"),
            ("Content-Length: 2", "Transfer-Encoding:"),
        ):
            self.refused_and_closed(post(*headers) + b"{}", 400)

    def test_lines(self):
        for request in (
            b"GET /health HTTP/1.1\nHost: localhost\n\n",
            b"GET /health HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n",
            get("/health", "GET", "1.1", "X: y", " folded"),
            b"GET /health HTTP/1.1\r\n X: y\r\nHost: localhost\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
            get("/health", "GET", "1.1", "X: \0"),
            b"GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"GET /health\r\nHost: localhost\r\n\r\n",
        ):
            self.refused_and_closed(request, 400)
        self.refused_and_closed(get(version="2.0"), 505)

    def test_a_request_behind_empty_lines(self):
        close = get("/health", "GET", "1.1", "Connection: close")
        self.taken(b"\r\n\r\n" + close, 200)
        self.taken(get() + b"\r\n" + close, 200, 200)

    def test_empty_lines_alone_are_no_request(self):
        with serving.Server("--header-seconds", "0.3") as server:
            with server.socket() as connection:
                connection.sendall(b"\r\n")
                time.sleep(1)  # longer than a request's headers may take
                connection.sendall(get("/health", "GET", "1.1", "Connection: close"))
                self.assertEqual(statuses(answer_of(connection)), [200])

    def test_hosts(self):
        for hosts in ((), ("Host: localhost", "Host: localhost"), ("Host: a b",), ("Host: a/b",)):
            request = "\r\n".join(["GET /health HTTP/1.1", *hosts]).encode() + b"\r\n\r\n"
            self.refused_and_closed(request, 400)
        self.refused_and_closed(
            b"GET http://localhost/health HTTP/1.1\r\n\r\n",
            400,
        )
        self.taken(b"OPTIONS / HTTP/1.0\r\n\r\n", 204)  # HAProxy's check
        self.taken(b"GET /health HTTP/1.0\r\n\r\n", 200)
        self.taken(b"GET /health HTTP/1.0\r\nHost: evil.example\r\n\r\n", 403)

    def test_targets(self):
        def closing(target, method="GET"):
            return get(target, method, "1.1", "Connection: close")

        self.taken(closing("http://localhost/health?x"), 200)
        # The target's host counts, not the header's.
        self.taken(closing("http://evil.example/health"), 403)
        own = closing("http://localhost/health").replace(b"Host: localhost", b"Host: evil.example")
        self.taken(own, 200)
        self.taken(closing("/%68ealth"), 200)
        self.assertIn(b"demo-target", self.taken(closing("/v1/models/demo%2Dtarget"), 200))
        self.assertIn(b"Allow: GET, HEAD, POST, OPTIONS", self.taken(closing("*", "OPTIONS"), 204))
        for target in ("*", "health", "ftp://localhost/", "/%zz", "/%00", "/health#x"):
            self.refused_and_closed(get(target), 400)
        self.refused_and_closed(get("localhost:80", "CONNECT"), 501)
        self.refused_and_closed(get("/health", "BREW"), 501)

    def test_a_path_is_the_same_for_keys_and_routes(self):
        with serving.Server(env={"FORERUN_API_KEY": "secret"}) as server:
            for path in ("/v1/models", "/%76%31/models", "/health/../v1/models"):
                self.assertNotEqual(server.get(path)[0], 200, path)
            self.assertEqual(server.get("/%68ealth")[0], 200)

    def test_codings_of_bodies(self):
        length = f"Content-Length: {len(BODY)}"
        for coding in ("gzip", "br", "identity, gzip"):
            answer = self.exchange(post(length, f"Content-Encoding: {coding}") + BODY)
            self.assertEqual(statuses(answer), [415])
            self.assertIn(b"Accept-Encoding: identity", answer)
        self.taken(post(length, "Content-Encoding: identity", "Connection: close") + BODY, 200)

    def test_chunks(self):
        def chunked(*parts, end=b"0\r\n\r\n"):
            chunks = b"".join(b"%x%s\r\n%s\r\n" % (len(part), ext, part) for part, ext in parts)
            return post("Transfer-Encoding: chunked", "Connection: close") + chunks + end

        whole = (BODY, b"")
        self.taken(chunked((BODY[:3], b';name=value;other="a b"'), (BODY[3:], b"")), 200)
        self.taken(chunked(whole, end=b"000\r\nX-Trailer: a\r\nHost: evil.example\r\n\r\n"), 200)
        for bad in (
            b"xyz\r\n",
            b"-5\r\n",
            b"0x5\r\n",
            b"\r\n",
            b"ffffffffffffffffff\r\n",
            b"5\nabcde",
        ):
            self.refused_and_closed(
                post("Transfer-Encoding: chunked") + bad + b"\r\n" + HIDDEN, 400, 413
            )
        self.refused_and_closed(post("Transfer-Encoding: chunked") + b"5\r\nabcdeXX5\r\n\r\n", 400)
        # The value of a header field may not be longer than 64 KiB for Beast, which ended the server.
        for trailer in (b"X: " + b"y" * 70_000, b"y" * 70_000 + b": x"):
            long = b"0\r\n" + trailer + b"\r\n\r\n"
            self.refused_and_closed(post("Transfer-Encoding: chunked") + long, 431)
        folded = post("Transfer-Encoding: chunked") + b"0\r\nX: y\r\n z\r\n\r\n"
        self.refused_and_closed(folded, 400)
        endless = post("Transfer-Encoding: chunked") + b"5;" + b"x" * 300_000
        self.assertEqual(statuses(self.exchange(endless)), [431])

    def test_expectations(self):
        length = f"Content-Length: {len(BODY)}"
        answer = self.taken(
            post(length, "Expect: 100-continue", "Connection: close", version="1.0") + BODY, 200
        )
        self.assertNotIn(b"100 Continue", answer)
        self.refused_and_closed(post(length, "Expect: 200-maybe") + BODY, 417)

    def test_nothing_is_read_behind_an_error(self):
        self.taken(get() + b"nonsense\r\n\r\n" + HIDDEN, 200, 400)
        self.taken(post("Content-Length: 500000") + HIDDEN, 413)
        self.taken(get("/health", "HEAD") + b"\x16\x03\x01" + HIDDEN, 200, 400)

    def test_other_protocols_are_passed_over(self):
        headers = ("Connection: close, Upgrade", "Upgrade: h2c, websocket", "TE: trailers, gzip")
        self.taken(get("/health", "GET", "1.1", *headers), 200)

    def test_who_closes_one_half_gets_the_answer(self):
        for fields in ({}, {"stream": True}):
            body = json.dumps({**LONG, "max_tokens": 300, **fields}).encode()
            with self.server.socket() as connection:
                connection.sendall(raw("POST", COMPLETIONS, body))
                connection.shutdown(socket.SHUT_WR)
                answer = answer_of(connection)
            self.assertEqual(statuses(answer), [200])
            ends = b"[DONE]" if fields else b'"completion_tokens":300'
            self.assertIn(ends, answer)

    def test_who_closes_one_half_gets_all_that_was_asked(self):
        with self.server.socket() as connection:
            connection.sendall(raw("POST", COMPLETIONS, BODY) + get())
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(statuses(answer_of(connection)), [200, 200])

    def test_who_has_gone_ends_its_request_even_behind_another(self):
        connection = self.server.socket()
        connection.sendall(raw("POST", COMPLETIONS, json.dumps(LONG).encode()) + get())
        self.assertTrue(until(lambda: self.server.metric("forerun_running_requests") == 1))
        connection.close()
        self.assertTrue(until(lambda: self.server.metric("forerun_running_requests") == 0, 3))

    def test_bodies_share_their_memory_and_stalled_ones_end(self):
        stalled = []
        for _ in range(8):
            connection = self.server.socket()
            connection.sendall(post("Content-Length: 300000") + b" " * 290_000)
            stalled.append(connection)
        answers = [answer_of(connection) for connection in stalled]
        found = [statuses(answer)[0] for answer in answers]
        self.assertEqual(set(found), {408, 503}, found)
        self.assertLessEqual(found.count(408), 3)  # 7/8 of a million bytes
        for answer in answers:
            self.assertEqual(b"Retry-After: " in answer, statuses(answer) == [503])
        for connection in stalled:
            connection.close()
        self.assertEqual(
            self.server.completion("def f(", max_tokens=2)["object"], "text_completion"
        )

    def test_small_bodies_have_room_beside_stalled_ones(self):
        stalled = []
        for _ in range(5):
            connection = self.server.socket()
            connection.sendall(post("Content-Length: 300000") + b" " * 290_000)
            stalled.append(connection)
        self.assertEqual(self.server.post(CHAT, HELLO)[0], 200)
        for connection in stalled:
            connection.close()


class LargeCalls(serving.ServerTest):
    def test_a_text_that_cannot_fit_is_refused_by_its_length(self):
        for body in (
            {"prompt": " " * 4_000_000},
            {"prompt": "a b c d " * 75_000},  # more than the bytes alone tell
            {"prompt": " " * 4_000_000, "echo": True, "logprobs": 1},
        ):
            error = self.refused(
                self.server.post(COMPLETIONS, {"max_tokens": 1, **body}),
                400,
                "more than 8191 tokens",
                "context",
            )
            self.assertEqual(error["code"], "context_length_exceeded")
        for text in (" " * 4_000_000, "<|endoftext|>" * 20_000):
            answer = self.server.post(CHAT, {"messages": [{"role": "user", "content": text}]})
            self.refused(answer, 400, "tokens")

    def test_small_calls_wait_for_no_large_one(self):
        text = json.dumps({"prompt": "a b c d " * 25_000})
        ends = []

        def tokenize():
            self.assertEqual(self.server.post("/tokenize", text)[0], 200)
            ends.append("large")

        threads = [threading.Thread(target=tokenize) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)  # they are there
        for _ in range(2):
            self.assertEqual(self.server.post("/tokenize", {"prompt": "def f("})[0], 200)
            ends.append("small")
        for thread in threads:
            thread.join()
        self.assertLess(max(at for at, kind in enumerate(ends) if kind == "small"), 4, ends)


class SlowFormats(serving.ServerTest):
    def test_small_calls_wait_for_no_format_that_takes_long(self):
        for flags in ((), ("--isolate",)):
            with self.subTest(flags), serving.Server(*flags, draft=False) as server:
                ends = []

                def ask(letter, server=server, ends=ends):
                    regex = f"({letter}?){{500}}{letter}{{500}}"
                    body = {"prompt": "x", "max_tokens": 1, "guided_regex": regex}
                    self.refused(server.post(COMPLETIONS, body), 400, "steps")
                    ends.append("slow")

                server.completion("x", max_tokens=1)
                threads = [threading.Thread(target=ask, args=(letter,)) for letter in "abcdef"]
                for thread in threads:
                    thread.start()
                time.sleep(0.2)  # they are there
                for _ in range(2):
                    server.completion("x", max_tokens=1)
                    server.completion("x", max_tokens=1, guided_regex="[a-z]+")
                    ends.append("small")
                for thread in threads:
                    thread.join()
                last = max(at for at, kind in enumerate(ends) if kind == "small")
                self.assertLess(last, 6, ends)


class Origins(unittest.TestCase):
    # The headers that openai 6.9 for JavaScript sends from a page.
    ASKED = (
        "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,"
        "x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,"
        "x-stainless-runtime-version,x-stainless-timeout"
    )

    def test_openai_s_library_in_a_page(self):
        origin = "https://chat.example"
        with serving.Server("--cors-origin", origin, env={"FORERUN_API_KEY": "secret"}) as server:
            status, headers, _ = server.call(
                "OPTIONS",
                CHAT,
                headers={
                    "Origin": origin,
                    "Access-Control-Request-Method": "POST",
                    "Access-Control-Request-Headers": self.ASKED,
                },
            )
            self.assertEqual(status, 204)
            allowed = [name.strip() for name in headers["Access-Control-Allow-Headers"].split(",")]
            self.assertLessEqual(set(self.ASKED.split(",")), set(allowed))
            self.assertEqual(headers["Access-Control-Allow-Origin"], origin)
            self.assertIn("POST", headers["Access-Control-Allow-Methods"])
            for answer in (
                server.post(CHAT, HELLO, {"Origin": origin, "Authorization": "Bearer secret"}),
                server.post(CHAT, HELLO, {"Origin": origin}),  # an error can be read too
            ):
                exposed = answer[1]["Access-Control-Expose-Headers"].lower()
                self.assertIn("x-request-id", exposed)
                self.assertEqual(answer[1]["Access-Control-Allow-Origin"], origin)
            answer = server.call(
                "OPTIONS",
                CHAT,
                headers={
                    "Origin": "https://other.example",
                    "Access-Control-Request-Method": "POST",
                },
            )
            self.assertEqual(answer[0], 403)
            self.assertNotIn("Access-Control-Allow-Origin", answer[1])


class Drain(unittest.TestCase):
    def test_what_is_cut_off_is_told(self):
        with serving.Server("--drain-seconds", "0.5") as server:
            held = []
            for path, fields in (
                (COMPLETIONS, {"stream": True}),
                (COMPLETIONS, {}),
                (CHAT, {"stream": True}),
                ("/v1/responses", {"stream": True}),
            ):
                body = {"max_tokens": 8000, "ignore_eos": True, **fields}
                if path == COMPLETIONS:
                    body["prompt"] = "def f("
                elif path == CHAT:
                    body["messages"] = HELLO["messages"]
                else:
                    body = {"input": "Hello", "max_output_tokens": 8000, "stream": True}
                connection = server.socket()
                connection.sendall(raw("POST", path, json.dumps(body).encode()))
                held.append(connection)
            unfinished = server.socket()
            unfinished.sendall(post("Content-Length: 100") + b"{")
            self.assertTrue(until(lambda: server.metric("forerun_running_requests") >= 3))
            server.process.send_signal(signal.SIGTERM)
            answers = [answer_of(connection) for connection in held]
            self.assertEqual(server.process.wait(timeout=20), 0)
        for answer in (answers[0], answers[2]):
            self.assertEqual(statuses(answer), [200])
            self.assertIn(b'data: {"error":{', answer)
            self.assertTrue(answer.endswith(b"0\r\n\r\n"), answer[-200:])
        self.assertEqual(statuses(answers[1]), [503])
        self.assertIn(b"Retry-After", answers[1])
        if b"response.completed" not in answers[3]:  # nothing keeps its model from ending
            self.assertIn(b"event: error", answers[3])
        self.assertEqual(statuses(answer_of(unfinished)), [503])
        for connection in (*held, unfinished):
            connection.close()


if __name__ == "__main__":
    serving.main()
