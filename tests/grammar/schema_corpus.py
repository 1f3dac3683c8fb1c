#!/usr/bin/env python3
"""A corpus of real JSON schemas through the grammars: how many compile, why others do not, what it costs.

    schema_corpus.py SCHEMA_CASES TOKENIZER_JSON FOLDER [--draw N] [--seed S] [--llguidance]
                     [--reading letter|intent] [--reorder] [--out FILE]

FOLDER holds JSON files of {"schema": ..., "tests": [{"valid": ..., "data": ...}]}, as the folder
maskbench/data of guidance-ai/jsonschemabench does. Without --draw all are taken, else N by the seed.
Each schema is compiled and its masks are prepared; each instance is written compact, as Python writes
it and indented, and the grammar must accept all three where the instance is valid, none where it is
not. --reorder writes properties in the order of the schema, the only one that is accepted with
--reading intent. --llguidance counts what that package compiles (where it is installed). --out keeps
what was found of each schema as JSON. Exits with 1 where an instance is judged wrong.
"""

import argparse
import collections
import json
import random
import re
import subprocess
import sys
from pathlib import Path

BATCH = 200  # schemas a run of SCHEMA_CASES


def collection_of(path):
    name = path.name.split("---")[0]
    return name.split("_")[0] if name.startswith(("BFCL", "JME")) else name


def texts_of(value):
    return [
        json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, ensure_ascii=False, indent=2),
    ]


def target_of(root, reference):
    """What a reference within the document names; {} for any other."""
    found = root
    for step in reference.lstrip("#").split("/")[1:] if reference.startswith("#") else ["?"]:
        step = step.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(step)] if isinstance(found, list) else found[step]
        except (KeyError, IndexError, ValueError, TypeError):
            return {}
    return found


def applying(root, schema, seen=()):
    """The schema and all that apply to the same value, as far as that can be said at a glance."""
    if not isinstance(schema, dict) or len(seen) > 30 or id(schema) in seen:
        return
    yield schema
    seen = (*seen, id(schema))
    if isinstance(schema.get("$ref"), str):
        yield from applying(root, target_of(root, schema["$ref"]), seen)
    for keyword in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(keyword, []) if isinstance(schema.get(keyword), list) else []:
            yield from applying(root, part, seen)
    for keyword in ("if", "then", "else"):
        yield from applying(root, schema.get(keyword), seen)
    for part in (schema.get("dependencies") or {}).values():
        yield from applying(root, part, seen)


def in_order(root, schemas, value):
    """`value` with properties in the order of the schemas that apply to it, then others."""
    schemas = [part for schema in schemas for part in applying(root, schema)]
    if isinstance(value, list):
        result = []
        for number, item in enumerate(value):
            inner = []
            for schema in schemas:
                listed = schema.get("items")
                if isinstance(listed, list):
                    inner.append(listed[number] if number < len(listed) else None)
                else:
                    inner.append(listed)
            result.append(in_order(root, inner, item))
        return result
    if not isinstance(value, dict):
        return value
    names = []
    for schema in schemas:
        names += [name for name in schema.get("properties") or {}]
        if isinstance(schema.get("required"), list):
            names += schema["required"]
    names = [name for name in dict.fromkeys(names) if name in value]
    names += [name for name in value if name not in names]
    result = {}
    for name in names:
        inner = []
        for schema in schemas:
            properties = schema.get("properties") or {}
            patterns = schema.get("patternProperties") or {}
            inner.append(properties.get(name))
            inner += [part for pattern, part in patterns.items() if re.search(pattern, name)]
            inner.append(schema.get("additionalProperties"))
        result[name] = in_order(root, inner, value[name])
    return result


def ask(command, cases, reading):
    """The answers of SCHEMA_CASES, None for a schema that ended it."""
    lines = [
        json.dumps(
            {
                "schema": case["schema"],
                "reading": reading,
                "texts": [text for test in case["tests"] for text in texts_of(test["data"])],
            }
        )
        for case in cases
    ]
    answers = []
    while len(answers) < len(lines):
        part = lines[len(answers) : len(answers) + BATCH]
        done = subprocess.run(
            command, input="\n".join(part) + "\n", capture_output=True, text=True, check=False
        )
        found = [json.loads(line) for line in done.stdout.split("\n")[:-1]]
        answers += found
        if len(found) < len(part):
            answers.append(None)
    return answers


def reason_of(error):
    """An error without places and values, so that alike ones are counted together."""
    error = re.sub(r"schema: #[^:]*/([^/:]*): found", r"schema: .../\1: found", error)
    error = (
        re.sub(r"found .*?; accepted", "...; accepted", error) if "keyword" not in error else error
    )
    return error[:150]


def llguidance_takes(schema):
    import llguidance

    grammar = json.dumps({"grammars": [{"json_schema": schema}]})
    return not llguidance.LLMatcher.validate_grammar(grammar, None)


def percentiles(values):
    values = sorted(values)
    at = [values[min(len(values) - 1, int(len(values) * q))] for q in (0.5, 0.9, 0.99)]
    return ", ".join(f"{v:.0f}" for v in (*at, values[-1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases")
    parser.add_argument("tokenizer")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--llguidance", action="store_true")
    parser.add_argument("--reading", choices=["letter", "intent"], default="letter")
    parser.add_argument("--reorder", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.json"))
    if options.draw:
        paths = sorted(random.Random(options.seed).sample(paths, options.draw))
    cases = [{"name": p.name, "kind": collection_of(p), **json.loads(p.read_text())} for p in paths]
    for case in cases if options.reorder else []:
        for test in case["tests"]:
            test["data"] = in_order(case["schema"], [case["schema"]], test["data"])
    answers = ask([options.cases, options.tokenizer], cases, options.reading)
    reasons = collections.Counter()
    table = collections.defaultdict(collections.Counter)
    wrong, records = [], []
    for case, answer in zip(cases, answers):
        row = table[case["kind"]]
        row["schemas"] += 1
        if options.llguidance and llguidance_takes(case["schema"]):
            row["llguidance"] += 1
            case["llguidance"] = True
        record = {"name": case["name"], "llguidance": case.get("llguidance", False)}
        records.append(record)
        if answer is None or "error" in answer:
            record["error"] = answer["error"] if answer else "ended"
            reasons[reason_of(record["error"])] += 1
            continue
        row["compile"] += 1
        record.update({key: answer[key] for key in ("compile_us", "prepare_us", "nodes")})
        accepted = iter(answer["accepted"])
        bad = []
        for number, test in enumerate(case["tests"]):
            judged = [next(accepted) for _ in range(3)]
            row["valid" if test["valid"] else "invalid"] += 1
            if judged != [test["valid"]] * 3:
                bad.append([number, test["valid"], judged])
                row["wrong"] += 1
        if bad:
            record["wrong"] = bad
            wrong.append(case["name"])
    compiled = [r for r in records if "nodes" in r]
    names = ["schemas", "compile", "llguidance", "valid", "invalid", "wrong"]
    print("| collection | " + " | ".join(names) + " |\n|" + " --- |" * (len(names) + 1))
    total = collections.Counter()
    for kind, row in sorted(table.items()):
        total.update(row)
        print(f"| {kind} | " + " | ".join(str(row[n]) for n in names) + " |")
    print("| all | " + " | ".join(str(total[n]) for n in names) + " |")
    if options.llguidance:
        only = [r["name"] for r in records if r["llguidance"] and "error" in r]
        print(f"taken by llguidance alone: {len(only)}")
    print(
        "compiling, microseconds p50, p90, p99, most: "
        + percentiles([r["compile_us"] for r in compiled])
    )
    print("preparing masks, the same: " + percentiles([r["prepare_us"] for r in compiled]))
    print("nodes, the same: " + percentiles([r["nodes"] for r in compiled]))
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")
    print(f"{len(wrong)} schemas with an instance judged wrong: {' '.join(wrong[:10])}")
    if options.out:
        options.out.write_text(json.dumps(records))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
