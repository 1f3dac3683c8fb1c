"""Writes tests/goldens/text: what Jinja2 and Hugging Face's tokenizers make of small cases.

snippets.jsonl has a line for every one-line template of template_cases.py; rendered.jsonl a line
for every template of the folder templates and every conversation. A line has "rendered", or, where
Jinja2, set up as transformers does, refuses, "refused" with the exception. The folder tokenizers
has the tokenizers of tokenizer_cases.py, tokenized.jsonl every text's ids and what they decode to:
"with_special" and "decoded_plain" where special tokens make a difference.
--check compares with the files that are there; of the tokenizers, it takes those that are there.

Needs jinja2 3.1 and tokenizers 0.23.
example: make_text_goldens.py --out tests/goldens/text
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from pathlib import Path

import tokenizer_cases
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


def tokenized_lines(folder: Path) -> list[dict]:
    from tokenizers import Tokenizer

    lines = []
    for path in sorted(folder.glob("*.json")):
        tokenizer = Tokenizer.from_file(str(path))
        for text in tokenizer_cases.TEXTS:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            decoded = tokenizer.decode(ids, skip_special_tokens=False)
            line = {"tokenizer": path.name, "text": text, "ids": ids, "decoded": decoded}
            with_special = tokenizer.encode(text).ids
            if with_special != ids:
                line["with_special"] = with_special
            plain = tokenizer.decode(ids, skip_special_tokens=True)
            if plain != decoded:
                line["decoded_plain"] = plain
            lines.append(line)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder tests/goldens/text")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args()
    env = environment()
    tokenizers = args.out / "tokenizers"
    if not args.check:
        tokenizers.mkdir(exist_ok=True)
        for name, tokenizer in tokenizer_cases.build_tokenizers().items():
            (tokenizers / f"{name}.json").write_text(tokenizer.to_str() + "\n")
    files = {
        "snippets.jsonl": snippet_lines(env),
        "rendered.jsonl": conversation_lines(env, args.out / "templates"),
        "tokenized.jsonl": tokenized_lines(tokenizers),
    }
    differs = 0
    for name, lines in files.items():
        text = "".join(
            json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
        )
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
