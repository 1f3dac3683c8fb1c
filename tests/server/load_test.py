"""The load generator itself, against a server without a model: what it counts is what happened.

load_test.py NULL_SERVER HTTP_LOAD
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
NULL_SERVER, HTTP_LOAD = "", ""


class NullServer:
    def __init__(self, *flags):
        self.flags = flags

    def __enter__(self):
        model = ROOT / "models" / "demo-target"
        self.process = subprocess.Popen(
            [NULL_SERVER, "--model", model, "--port", "0", *self.flags], stdout=subprocess.PIPE
        )
        self.port = re.search(r":(\d+)$", self.process.stdout.readline().decode().strip()).group(1)
        return self

    def wait_for_streams(self, count):
        """Until so many requests run at once."""
        for _ in range(300):
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
                running = re.search(
                    r"^forerun_running_requests (\d+)", answer.read().decode(), re.M
                )
            if running and int(running.group(1)) >= count:
                return
            time.sleep(0.1)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        self.process.stdout.close()


def load(server, *flags):
    """The exit status and the report of a load."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [
                HTTP_LOAD,
                "--port",
                server.port,
                "--stamps",
                "--server-process",
                str(server.process.pid),
                "--warm-up-seconds",
                "0",
                "--json",
                report,
                *flags,
            ],
            capture_output=True,
            timeout=120,
            check=False,
        )
        return done.returncode, json.loads(report.read_text()), done.stdout.decode()


class Load(unittest.TestCase):
    def test_streams_one_after_the_other(self):
        with NullServer("--step-ms", "5") as server:
            status, report, table = load(
                server,
                "--streams",
                "20",
                "--seconds",
                "1.5",
                "--idle",
                "200",
                "--leave",
                "0.2",
                "--max-tokens",
                "64",
            )
        self.assertEqual(status, 0, table)
        calls = report["calls"]
        self.assertEqual((calls["failed"], calls["refused_429"]), (0, 0))
        self.assertGreater(calls["complete"], 20)
        self.assertGreater(calls["left"], 0)
        self.assertEqual(calls["most_at_once"], 20)
        self.assertEqual(report["idle_connections"], {"opened": 200, "lost": 0})
        self.assertGreater(report["events"], report["output_tokens"] * 0.8)
        # The engine's pace, and no event before it was made.
        self.assertGreater(report["between_stamps"]["p50_ms"], 4.9)
        self.assertGreater(report["stamp_to_client"]["p50_ms"], 0)
        cpu = report["server_cpu"]
        self.assertGreater(cpu["server_us_an_event"], 0)
        self.assertLess(cpu["engine_thread_s"], cpu["all_s"])
        self.assertGreater(report["memory_mib"]["most"], 1)

    def test_arrivals_of_their_own(self):
        with NullServer("--step-ms", "5") as server:
            status, report, table = load(
                server,
                "--streams",
                "50",
                "--arrivals",
                "poisson:40",
                "--seconds",
                "2",
                "--max-tokens",
                "16",
            )
        self.assertEqual(status, 0, table)
        self.assertTrue(40 < report["calls"]["complete"] < 130, table)

    def test_refusals_are_told_from_failures(self):
        with NullServer("--step-ms", "5", "--max-requests", "2", "--max-waiting", "1") as server:
            status, report, table = load(server, "--streams", "10", "--seconds", "1")
        self.assertEqual(status, 0, table)
        self.assertGreater(report["calls"]["refused_429"], 0)
        self.assertGreater(report["calls"]["complete"], 0)

    def test_a_server_that_dies_is_seen(self):
        with NullServer("--step-ms", "5") as server:

            def kill_when_busy():
                server.wait_for_streams(5)
                os.kill(server.process.pid, signal.SIGKILL)

            killer = threading.Thread(target=kill_when_busy)
            killer.start()
            start = time.monotonic()
            status, report, table = load(
                server, "--streams", "5", "--seconds", "1", "--idle", "10", "--max-tokens", "4000"
            )
            killer.join()
        self.assertNotEqual(status, 0)
        self.assertGreaterEqual(report["calls"]["failed"], 5, table)
        self.assertEqual(report["idle_connections"]["lost"], 10)
        self.assertLess(time.monotonic() - start, 30)


if __name__ == "__main__":
    NULL_SERVER, HTTP_LOAD = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main(verbosity=2)
