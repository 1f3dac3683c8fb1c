"""The same text by every strategy and under load: what 32 clients get at a time is what each prompt
gets alone by plain decoding, sampled with seeds, of formats and tool calls included.

    equal_text_test.py FORERUN [--prompts N]    more prompts than CI has time for (200: the target)

FORERUN_TEST_PART=4 sends a fourth of the calls: each setting some prompts, each prompt by some. The
setting whose guesses come out of the text sends all.

From 100 prompts on also with each model on its own processor, the target in stages, and the engine
in its own process.
"""

import collections
import concurrent.futures
import random
import sys
import time
import unittest

import cases
import serving

PROMPTS = 10
LOAD = 32
FLAGS = ("--tool-format", "hermes", "--max-requests", str(LOAD), "--kv-memory", "600MB")


class EqualText(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.calls = cases.cases(PROMPTS)
        with serving.Server(*FLAGS) as server:
            cls.expected = []
            for path, body in cls.calls:
                status, _, answer = server.post(path, cases.with_setting(body, "autoregressive"))
                assert status == 200, (body, answer)
                cls.expected.append(cases.said(answer))
        kinds = [said[0][0][2] for said in cls.expected]
        assert any(kinds), "no call of a tool among the answers"

    def compare(self, server, settings, load=LOAD):
        """Every call by every one of the settings, `load` at a time, in any order. Returns how many
        guesses of each were right."""
        # Guesses that come out of two or three texts alone may all be wrong.
        jobs = [
            (setting, idx)
            for turn, setting in enumerate(settings)
            for idx in range(len(self.calls))
            if serving.runs(turn, idx) or cases.SETTINGS[setting].get("source") == "suffix"
        ]
        random.Random(5).shuffle(jobs)

        def call(job):
            setting, idx = job
            path, body = self.calls[idx]
            status, _, answer = server.post(path, cases.with_setting(body, setting))
            if status != 200:
                return f"{job}: status {status}: {answer}"
            if cases.said(answer) != self.expected[idx]:
                return f"{job}: {cases.said(answer)} is not {self.expected[idx]}"
            accepted[setting] += answer["usage"]["speculation"]["accepted_tokens"]
            return None

        accepted = collections.Counter()
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(load) as pool:
            wrong = [found for found in pool.map(call, jobs) if found]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(jobs)}")
        for setting in settings:
            if cases.must_speculate(setting):
                self.assertGreater(accepted[setting], 0, f"{setting} has not speculated")
        print(f"{len(jobs)} answers equal, {time.monotonic() - start:.0f} s: {', '.join(settings)}")
        return accepted

    def test_every_strategy_under_load(self):
        with serving.Server(*FLAGS) as server:
            if PROMPTS < 100:  # strategies side by side
                self.compare(server, list(cases.SETTINGS))
                return
            for setting in cases.SETTINGS:
                self.compare(server, [setting])

    def test_pipelined_alone(self):
        setting = "pipelined, best"
        with serving.Server(*FLAGS) as server:
            accepted = self.compare(server, [setting], load=1)
        self.assertGreater(accepted[setting], 0)

    def test_other_placements(self):
        if PROMPTS < 100:
            self.skipTest("with --prompts 100 and more")
        apart = ("--devices", "cpu:0", "--draft-devices", "cpu:1")
        stages = ("--devices", "cpu:0/cpu:1")
        for flags, settings in (
            (apart, ["serial_tree", "parallel_tree", "auto"]),
            (stages, ["autoregressive", "pipelined", "auto"]),
            (("--isolate",), ["auto", "serial_tree"]),
        ):
            with self.subTest(flags=flags), serving.Server(*FLAGS, *flags) as server:
                self.compare(server, settings)


if __name__ == "__main__":
    if "--prompts" in sys.argv:
        place = sys.argv.index("--prompts")
        PROMPTS = int(sys.argv[place + 1])
        del sys.argv[place : place + 2]
    serving.main()
