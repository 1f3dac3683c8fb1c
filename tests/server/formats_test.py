"""Output formats through the server: answers by random JSON schemas are valid and the same under
every strategy, and speculation gains with a format what it gains without.

    formats_test.py FORERUN [--schemas N] [--texts N]    more than CI has time for (500, 80)

FORERUN_TEST_PART: each schema by some strategies, each strategy with some schemas; plain decoding,
which they are compared with, with all.
"""

import collections
import concurrent.futures
import itertools
import json
import os
import random
import sys
import time

import cases
import serving

sys.path.insert(0, str(serving.ROOT / "tests" / "grammar"))
try:
    from jsonschema import Draft202012Validator

    import random_schema
except ImportError:
    if serving.PYTHON.exists() and os.path.realpath(sys.prefix) != os.path.realpath(
        serving.PYTHON.parent.parent
    ):
        os.execv(serving.PYTHON, [str(serving.PYTHON), *sys.argv])
    serving.skip("skipped: no jsonschema; scripts/test installs tests/server/requirements.txt")

SCHEMAS, TEXTS = 8, 4
LOAD = 32
MAX_TOKENS = 160
STRATEGIES = ["autoregressive", "serial_tree", "parallel_tree", "sparse_self", "pipelined", "auto"]
# Trees of one size whatever Steps cost at the moment, so that both runs draft alike.
GAINS = ["serial_tree, best, model", "serial_tree, chain, model+ngram", "sparse_self, model"]
LEAST_GAIN_KEPT = 0.8
ANY_TEXT = r"[\x01-\U0010FFFF]*"
KINDS = [(str.isalpha, "[a-zA-Z]+"), (str.isdigit, "[0-9]+"), (str.isspace, r"[ \t\r\n]+")]


def literal(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") + '"'


def shape_of(text):
    """A grammar of texts with letters, digits and blanks where this one has them, and anything
    behind it."""

    def kind_of(letter):
        ascii_kinds = (kind for test, kind in KINDS if letter.isascii() and test(letter))
        return next(ascii_kinds, None)

    parts = []
    for kind, letters in itertools.groupby(text, kind_of):
        parts.append(kind or literal("".join(letters)))
    return "root ::= " + " ".join([*parts, ANY_TEXT])


class Schemas(serving.ServerTest):
    FLAGS = ("--max-requests", str(LOAD), "--kv-memory", "600MB")

    def test_answers_by_random_schemas(self):
        rng = random.Random(23)
        schemas = [random_schema.random_case(rng)[0] for _ in range(SCHEMAS)]
        prompts = cases.prompts(SCHEMAS)
        jobs = [
            (idx, strategy)
            for idx in range(SCHEMAS)
            for turn, strategy in enumerate(STRATEGIES)
            if turn == 0 or serving.runs(idx, turn)
        ]

        def call(job):
            idx, strategy = job
            body = {
                "prompt": prompts[idx][:400] + "\nAs JSON: ",
                "max_tokens": MAX_TOKENS,
                "temperature": 0.0 if idx % 4 == 0 else 1.0,
                "seed": idx,
                "strategy": strategy,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "x", "schema": schemas[idx]},
                },
            }
            status, _, answer = self.server.post("/v1/completions", body)
            if status != 200:
                return f"status {status}: {answer}", None
            choice = answer["choices"][0]
            return choice["text"], choice["finish_reason"]

        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(LOAD) as pool:
            answers = dict(zip(jobs, pool.map(call, jobs)))
        ends, wrong = collections.Counter(), []
        for (idx, strategy), (text, reason) in answers.items():
            ends[reason] += 1
            if (text, reason) != answers[idx, "autoregressive"]:
                wrong.append(f"{strategy}: {text!r} is not {answers[idx, 'autoregressive']!r}")
            elif reason is None:
                wrong.append(f"{text} for {json.dumps(schemas[idx])}")
            elif reason == "stop":
                validator = Draft202012Validator(schemas[idx], format_checker=random_schema.FORMATS)
                try:
                    found = [error.message for error in validator.iter_errors(json.loads(text))]
                except ValueError as broken:
                    found = [str(broken)]
                wrong += [f"{strategy}: {text!r}: {error}" for error in found]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(jobs)}")
        self.assertGreater(ends["stop"], len(jobs) / 4, ends)
        print(
            f"{SCHEMAS} schemas, {len(jobs)} answers, {time.monotonic() - start:.0f} s: "
            f"{ends['stop']} ended by themselves, all valid; {ends['length']} were cut"
        )

    def test_speculation_gains_as_much_with_a_format(self):
        """What is written without a format is written again with one that allows it: any text, the
        shape of that text, that text alone."""
        formats = {
            "any text": lambda text: "root ::= " + ANY_TEXT,
            "its shape": shape_of,
            "its text": lambda text: f"root ::= {literal(text)} {ANY_TEXT}",
        }
        steps = collections.Counter()  # (setting, format) -> target steps

        def call(setting, body):
            status, _, answer = self.server.post(
                "/v1/completions", cases.with_setting(body, setting)
            )
            self.assertEqual(status, 200, answer)
            return answer["choices"][0]["text"], answer["usage"]["speculation"]["target_steps"]

        def compare(job):
            (idx, prompt), setting = job
            body = {"prompt": prompt, "max_tokens": 64, "seed": idx}
            body["temperature"] = 0.0 if idx % 2 == 0 else 0.7
            text, free_steps = call(setting, body)
            steps[setting, "none"] += free_steps
            for name, grammar_of in formats.items():
                again, its_steps = call(setting, {**body, "grammar": grammar_of(text)})
                self.assertEqual(again, text, f"{setting}: {name}")
                steps[setting, name] += its_steps

        jobs = [
            ((idx, prompt), setting)
            for idx, prompt in enumerate(cases.prompts(TEXTS))
            for turn, setting in enumerate(GAINS)
            if serving.PART == 1 or (idx + turn) % 2 == 0
        ]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(compare, jobs))
        for setting in GAINS:
            kept = {name: steps[setting, "none"] / steps[setting, name] for name in formats}
            shown = ", ".join(f"{name} {ratio:.3f}" for name, ratio in kept.items())
            print(
                f"{TEXTS} texts again, tokens a step over those without a format: "
                f"{setting}: {shown}"
            )
            self.assertGreaterEqual(min(kept.values()), LEAST_GAIN_KEPT, setting)


if __name__ == "__main__":
    for flag in ("--schemas", "--texts"):
        if flag in sys.argv:
            place = sys.argv.index(flag)
            globals()[flag[2:].upper()] = int(sys.argv[place + 1])
            del sys.argv[place : place + 2]
    serving.main()
