"""Calls of many kinds, and the strategies that they are sent with: what comparing tests share."""

import itertools
import json
import random
from pathlib import Path

import serving

SHARED_PROMPTS = serving.ROOT.parent / "shared" / "data" / "prompts"
OWN_PROMPTS = serving.ROOT / "bench" / "workloads"

# Every strategy, and every kind of source, shape and view; all of them accept by "match".
SETTINGS = {
    "autoregressive": {"strategy": "autoregressive"},
    "auto": {"strategy": "auto"},
    "serial_tree": {"strategy": "serial_tree"},
    "serial_tree, best, model": {
        "strategy": "serial_tree",
        "shape": "best",
        "source": "model",
        "verify_tokens": 12,
    },
    "serial_tree, chain, model+ngram": {
        "strategy": "serial_tree",
        "shape": "chain",
        "source": "model+ngram",
        "draft_depth": 5,
    },
    "serial_tree, levels by a list, suffix": {
        "strategy": "serial_tree",
        "shape": "1,2,2,1",
        "source": "suffix",
    },
    "sparse_self": {"strategy": "sparse_self", "view_budget": 192},
    "sparse_self, model": {"strategy": "sparse_self", "source": "model", "view_budget": 192},
    "parallel_tree": {"strategy": "parallel_tree"},
    "pipelined": {"strategy": "pipelined"},
    "pipelined, best": {"strategy": "pipelined", "shape": "best"},
}
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "size": {"type": "integer", "minimum": 0, "maximum": 500},
        "kind": {"enum": ["file", "folder", "grün"]},
    },
    "required": ["name", "size", "kind"],
    "additionalProperties": False,
}
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Bonn", "Kiel"]}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": "look", "parameters": CITY}},
    {"type": "function", "function": {"name": "rest"}},
]


def texts_of(path: Path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line["prompt"] if "prompt" in line else line["turns"][0] for line in lines]


def prompts(count):
    """Code, prose and questions in turn; the repository's own where there are no others."""
    names = ["demo_code", "demo_prose", "humaneval", "spec_bench"]
    files = [SHARED_PROMPTS / f"{name}.jsonl" for name in names]
    if not all(file.exists() for file in files):
        files = [OWN_PROMPTS / "code.jsonl", OWN_PROMPTS / "prose.jsonl"]
    lists = [texts_of(file) for file in files]
    turns = [
        texts[turn] for turn in range(max(map(len, lists))) for texts in lists if turn < len(texts)
    ]
    # Where there are too few, some come again without their beginning. Every third is followed by
    # as many others as a view needs to leave something out.
    made = [turns[i % len(turns)][3 * (i // len(turns)) :][:1200] for i in range(count)]
    for first in range(0, count, 3):
        others = itertools.cycle(made[first - 1 :: -1])
        made[first] += "\n" + next(others)
        while len(made[first]) < 1000:
            made[first] += "\n" + next(others)
    return made


def cases(count):
    """(path, body) of so many calls, none with a strategy; every kind is there from 10 on."""
    rng = random.Random(17)
    made = []
    for idx, prompt in enumerate(prompts(count)):
        plain = {"prompt": prompt, "max_tokens": rng.choice([24, 48, 80])}
        chat = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 48}
        drawn = {"temperature": rng.choice([0.6, 1.0, 1.4]), "seed": 1000 + idx}
        kinds = [
            ("completions", {**plain, "temperature": 0}),
            ("completions", {**plain, **drawn}),
            ("completions", {**plain, **drawn, "top_p": 0.9, "top_k": 40, "min_p": 0.02}),
            (
                "completions",
                {
                    **plain,
                    **drawn,
                    "frequency_penalty": 0.7,
                    "presence_penalty": 0.4,
                    "repetition_penalty": 1.1,
                    "logit_bias": {"300": 3, "301": -100},
                },
            ),
            ("completions", {**plain, **drawn, "n": 2, "stop": ["\n\n", "self."]}),
            ("completions", {**plain, **drawn, "max_tokens": 200, "guided_json": SCHEMA}),
            ("chat/completions", {**chat, "temperature": 0}),
            ("chat/completions", {**chat, **drawn, "logprobs": True, "top_logprobs": 2}),
            (
                "chat/completions",
                {
                    **chat,
                    **drawn,
                    "max_tokens": 200,
                    "tools": TOOLS,
                    "tool_choice": "required",
                    "parallel_tool_calls": False,
                },
            ),
            (
                "chat/completions",
                {
                    **chat,
                    **drawn,
                    "max_tokens": 200,
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {"name": "entry", "schema": SCHEMA},
                    },
                },
            ),
        ]
        path, body = kinds[idx % len(kinds)]
        made.append(("/v1/" + path, body))
    return made


def must_speculate(setting):
    """Whether that setting of SETTINGS guesses under load too: auto, and an adaptive tree, may find
    that it does not pay, and the stages of pipelined are full of other requests then."""
    fixed = SETTINGS[setting].keys() & {"shape", "view_budget"}
    return fixed and SETTINGS[setting]["strategy"] != "pipelined"


def with_setting(body, setting):
    """The call by that setting of SETTINGS."""
    speculation = dict(SETTINGS[setting])
    return {**body, "strategy": speculation.pop("strategy"), "speculation": speculation}


def said(answer):
    """All that must be equal of an answer: texts, calls, probabilities, how each choice ended."""
    choices = []
    for choice in answer["choices"]:
        message = choice.get("message", {})
        calls = [call["function"] for call in message.get("tool_calls") or []]
        choices.append(
            [
                choice.get("text"),
                message.get("content"),
                calls,
                choice.get("logprobs"),
                choice["finish_reason"],
            ]
        )
    return choices, answer["usage"]["completion_tokens"]
