"""Writes tests/goldens/text: what Jinja2 renders for chat templates, set up as transformers does.

snippets.jsonl has a line for every one-line template of template_cases.py; rendered.jsonl a line
for every template of the folder templates and every conversation. A line has "rendered", or, where
Jinja2 refuses, "refused" with the exception. --check compares with the files that are there.

Needs jinja2 3.1.
example: make_text_goldens.py --out tests/goldens/text
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path

from template_cases import CONVERSATIONS, SNIPPETS, VARIABLES_JSON

BOS, EOS = "<s>", "</s>"
NOW = datetime.datetime(2024, 7, 26, tzinfo=datetime.timezone.utc)  # noqa: UP017


def environment():
    """The environment of transformers' apply_chat_template, with a clock that stands still."""
    import jinja2
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        tags = {"generation"}

        def parse(self, parser):
            lineno = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body).set_lineno(lineno)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(env, source: str, variables: dict) -> dict:
    try:
        return {"rendered": env.from_string(source).render(**variables)}
    except Exception as error:  # whatever Python raises, the template is refused
        return {"refused": f"{type(error).__name__}: {error}"}


def snippet_lines(env) -> list[dict]:
    variables = json.loads(VARIABLES_JSON)
    lines = [{"variables": VARIABLES_JSON}]
    for topic, sources in SNIPPETS.items():
        for source in sources:
            made = render(env, source, variables)
            if " at 0x" in made.get("rendered", ""):
                raise SystemExit(f"{source} shows an address, another one every time")
            lines.append({"topic": topic, "source": source, **made})
    return lines


def conversation_lines(env, folder: Path) -> list[dict]:
    # As JSON texts within JSON: a reader that parses the line keeps the digits of every number.
    shown = {
        name: {
            key: value if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)
            for key, value in conversation.items()
        }
        for name, conversation in CONVERSATIONS.items()
    }
    lines = [{"conversations": shown}]
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_text()
        for name, conversation in CONVERSATIONS.items():
            variables = {
                "messages": conversation["messages"],
                "tools": conversation.get("tools"),
                "documents": None,
                "add_generation_prompt": conversation.get("add_generation_prompt", True),
                "bos_token": BOS,
                "eos_token": EOS,
                **conversation.get("variables", {}),
            }
            case = {"template": path.name, "conversation": name}
            lines.append({**case, **render(env, source, variables)})
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder tests/goldens/text")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args()
    env = environment()
    files = {
        "snippets.jsonl": snippet_lines(env),
        "rendered.jsonl": conversation_lines(env, args.out / "templates"),
    }
    differs = 0
    for name, lines in files.items():
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        path = args.out / name
        if args.check:
            differs += path.read_text() != text
        else:
            path.write_text(text)
    if differs:
        print(f"{differs} files differ from what {Path(__file__).name} makes", file=sys.stderr)
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
