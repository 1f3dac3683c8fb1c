"""Priorities: who may raise them, who gives way, and that nobody waits for ever."""

import tempfile
import threading
from pathlib import Path

import serving

COMPLETIONS = "/v1/completions"


class OwnServers(serving.ServerTest):
    """Each test has a server of its own."""

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass


class Limits(OwnServers):
    def test_a_client_may_lower_its_priority_alone(self):
        with serving.Server() as server:
            for priority in (0, 5, 1_000_000):
                self.assertTrue(server.completion("x", max_tokens=1, priority=priority))
            for path, body in (
                (COMPLETIONS, {"prompt": "x"}),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
                ("/v1/responses", {"input": "x"}),
            ):
                answer = server.post(path, {**body, "priority": -1})
                error = self.refused(answer, 400, "accepted: at least 0")
                self.assertEqual(error["param"], "priority")

    def test_an_administrator_allows_more_by_key(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder) / "keys"
            keys.write_text("# who may what\nplain\n\nurgent min_priority=-10\n")
            with serving.Server("--api-key-file", keys, "--min-priority", "-2") as server:
                for key, priority, status in (
                    ("plain", -2, 200),
                    ("plain", -3, 400),
                    ("urgent", -10, 200),
                    ("urgent", -11, 400),
                ):
                    body = {"prompt": "x", "max_tokens": 1, "priority": priority}
                    answer = server.post(COMPLETIONS, body, {"Authorization": f"Bearer {key}"})
                    self.assertEqual(answer[0], status, (key, priority, answer))

    def test_who_names_no_priority_gets_the_least_that_is_allowed(self):
        with serving.Server("--min-priority", "3", draft=False) as server:
            for body in ({}, {"priority": 3}, {"priority": 4}):
                server.completion("x", max_tokens=1, **body)
            answer = server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 1, "priority": 2})
            self.refused(answer, 400, "accepted: at least 3")

    def test_a_key_file_that_says_something_else(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = Path(folder) / "keys"
            for line in ("a b", "a min_priority=", "a min_priority=1x", "a min_priority=-9999999"):
                keys.write_text("first\n" + line + "\n")
                with self.assertRaisesRegex(AssertionError, "line 2: found '.*accepted: min_pri"):
                    serving.Server("--api-key-file", keys).__enter__()


class Turns(OwnServers):
    def test_an_urgent_request_does_not_wait_for_eight_others(self):
        bodies = [
            {"prompt": f"Chapter {number}.", "max_tokens": 160, "seed": number, "ignore_eos": True}
            for number in range(8)
        ]
        flags = ("--max-requests", "8", "--min-priority", "-5")
        with serving.Server(*flags, draft=False) as server:
            quiet = [server.post(COMPLETIONS, body)[2]["choices"] for body in bodies]
            answers = {}

            def ask(number):
                answers[number] = server.post(COMPLETIONS, bodies[number])[2]["choices"]

            threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
            for thread in threads:
                thread.start()
            self.wait_until(lambda: server.metric("forerun_running_requests") == 8)
            server.completion("def f(", max_tokens=8, priority=-5)
            self.assertEqual(answers, {}, "it ended after one of those that it should overtake")
            for thread in threads:
                thread.join()
            self.assertGreaterEqual(server.metric("forerun_preemptions_total"), 1)
            self.assertEqual([answers[number] for number in range(8)], quiet)

    def test_a_normal_request_among_forty_of_a_higher_class_moves(self):
        tokens = 32
        flags = ("--max-requests", "8", "--max-waiting", "64", "--min-priority", "-1")
        with serving.Server(*flags, draft=False) as server:
            stop = threading.Event()
            served = []  # an entry an answer

            def ask_again_and_again(number):
                body = {"prompt": f"{number}", "max_tokens": tokens, "ignore_eos": True}
                while not stop.is_set():
                    server.completion(**body, priority=-1)
                    served.append(number)

            threads = [
                threading.Thread(target=ask_again_and_again, args=(number,)) for number in range(40)
            ]
            for thread in threads:
                thread.start()
            try:
                self.wait_until(lambda: len(served) > 8)
                before = len(served)
                normal = 4
                for _ in range(normal):
                    server.completion("It was", max_tokens=tokens, ignore_eos=True)
                others = len(served) - before
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
            self.assertGreaterEqual(normal / (normal + others), 1 / 20)

    def wait_until(self, condition):
        for _ in range(3000):
            if condition():
                return True
            threading.Event().wait(0.01)
        self.fail("it did not come to pass within half a minute")


if __name__ == "__main__":
    serving.main()
