#!/usr/bin/env python3
"""Random JSON schemas through the grammars, judged by the jsonschema package.

    schema_test.py SCHEMA_CASES TOKENIZER_JSON VENV_DIR [SCHEMAS]

For every schema: texts walked by random allowed tokens are JSON and valid; random valid instances, in
the form of whitespace that is accepted, are accepted; altered ones that are no longer valid are not;
masks of tokens are what trying every token gives. Where neither this Python nor that of VENV_DIR has
the package, the test is skipped (exit status 77).
"""

import copy
import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
SKIPPED = 77
DERIVED = 6  # texts walked for a schema
INSTANCES = 6


def python_with_jsonschema(folder):
    """This Python or that of the virtual environment `folder`; None where neither has the package."""
    for python in (sys.executable, str(Path(folder) / "bin" / "python")):
        try:
            if (
                subprocess.run(
                    [python, "-c", "import jsonschema"], capture_output=True, check=False
                ).returncode
                == 0
            ):
                return python
        except OSError:
            continue
    print("skipped: no jsonschema package; scripts/test installs it into build/venv")
    return None


def written(value, rng):
    """`value` as JSON in one of the forms that are accepted."""

    def gap():
        return rng.choice(["", "", " ", "\n" + " " * rng.randrange(9), "\n\t"])

    if isinstance(value, dict):
        members = [
            f"{gap()}{json.dumps(key, ensure_ascii=False)}:{rng.choice(['', ' '])}"
            f"{written(item, rng)}"
            for key, item in value.items()
        ]
        return "{" + ",".join(members) + (gap() if members else "") + "}"
    if isinstance(value, list):
        items = [gap() + written(item, rng) for item in value]
        return "[" + ",".join(items) + (gap() if items else "") + "]"
    return json.dumps(value, ensure_ascii=False)


def altered(value, rng):
    """A copy of `value` with one thing in it changed."""
    value = copy.deepcopy(value)
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        change = rng.randrange(4)
        if change == 0:
            del value[key]
        elif change == 1:
            value["surplus"] = 1
        else:
            value[key] = altered(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.8:
        i = rng.randrange(len(value))
        change = rng.randrange(4)
        if change == 0:
            del value[i]
        elif change == 1:
            value += [value[i]] * 3
        else:
            value[i] = altered(value[i], rng)
        return value
    if isinstance(value, str) and rng.random() < 0.7:
        return rng.choice([value + "x", value[:-1], value + "é" * 9, ""])
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.7:
        return rng.choice([value + 1, value - 1, -value, value * 10, value + 0.5])
    return rng.choice([None, True, 0, -1, 2.5, "", "other", [], {}, [None], {"a": 1}])


def exact_number(text):
    """A JSON number with a fraction or an exponent: an int where it is whole.

    A double would round 18 digits, and 444400890357599940.0 would be no multiple of 60.
    """
    value = Decimal(text)
    return int(value) if value == value.to_integral_value() else float(text)


def judge(cases, tokenizer, count):
    from jsonschema import Draft202012Validator

    from random_schema import FORMATS, random_case

    rng = random.Random(17)
    questions, validators, wanted = [], [], []
    for seed in range(count):
        schema, instance = random_case(rng)
        validator = Draft202012Validator(schema, format_checker=FORMATS)
        instances = [instance() for _ in range(INSTANCES)]
        texts = [(written(i, rng), True) for i in instances]
        for i in instances:
            assert validator.is_valid(i), f"this test makes invalid instances: {schema}\n{i!r}"
            other = altered(i, rng)
            if not validator.is_valid(other):
                texts.append((written(other, rng), False))
        questions.append(
            {
                "schema": schema,
                "reading": rng.choice(["letter", "intent"]),
                "count": DERIVED,
                "seed": seed,
                "texts": [text for text, _ in texts],
            }
        )
        validators.append(validator)
        wanted.append([valid for _, valid in texts])
    done = subprocess.run(
        [cases, tokenizer],
        input="".join(json.dumps(q) + "\n" for q in questions),
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    failures, derived, refused = [], 0, 0
    answers = done.stdout.split("\n")[:-1]  # splitlines would cut at U+2028
    assert len(answers) == count
    for question, validator, valid, line in zip(questions, validators, wanted, answers):
        answer = json.loads(line)
        shown = json.dumps(question["schema"], ensure_ascii=False)
        if "error" in answer:
            failures.append(f"{shown}\n  refused: {answer['error']}")
            continue
        if not answer["masks_hold"]:
            failures.append(f"{shown}\n  a mask differs from what its state accepts")
        for text in answer["derived"]:
            if text is None:
                failures.append(f"{shown}\n  a walk found no end")
                continue
            derived += 1
            try:
                error = next(
                    iter(validator.iter_errors(json.loads(text, parse_float=exact_number))), None
                )
            except ValueError as broken:
                error = broken
            if error is not None:
                failures.append(f"{shown}\n  derived {text!r}: {error}")
        for text, expected, accepted in zip(question["texts"], valid, answer["accepted"]):
            refused += not expected
            if expected != accepted:
                failures.append(f"{shown}\n  {'refuses' if expected else 'accepts'} {text!r}")
    print(
        f"{count} schemas, {derived} derived texts, {count * INSTANCES} valid and {refused} invalid "
        f"instances; {len(failures)} failures"
    )
    for failure in failures[:10]:
        print(failure)
    return 1 if failures or derived < count or refused < count else 0


def main():
    cases, tokenizer, folder = sys.argv[1:4]
    count = int(sys.argv[4]) if len(sys.argv) > 4 else 500
    python = python_with_jsonschema(folder)
    if python is None:
        return SKIPPED
    if python != sys.executable:
        return subprocess.run([python, *sys.argv], check=False).returncode
    return judge(cases, tokenizer, count)


if __name__ == "__main__":
    sys.exit(main())
