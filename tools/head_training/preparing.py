"""Turns prompts, texts and chat templates into tokens, where the target's tokenizer is at hand.

Needs tokenizers and jinja2; nothing after it does.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import spec_bench
from head_training import openers, prompts
from head_training.prompts import Prompts
from head_training.token_file import pack


class TargetText:
    """The target's tokenizer and chat template."""

    def __init__(self, directory: Path) -> None:
        from tokenizers import Tokenizer

        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        config = json.loads((directory / "tokenizer_config.json").read_text(encoding="utf-8"))
        generation = directory / "generation_config.json"
        model = json.loads(
            (generation if generation.exists() else directory / "config.json").read_text(
                encoding="utf-8"
            )
        )
        ends = model.get("eos_token_id", 0)
        self.ends = ends if isinstance(ends, list) else [ends]
        template = directory / "chat_template.jinja"
        self.template = (
            template.read_text(encoding="utf-8")
            if template.exists()
            else config.get("chat_template")
        )

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=False)

    def render(self, messages: list[dict], add_generation_prompt: bool = False) -> str:
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        return environment.from_string(self.template).render(
            messages=messages, add_generation_prompt=add_generation_prompt
        )


def lines_of(path: Path | None) -> list[str]:
    """Lines of a file, in which \\n stands for the end of a line."""
    if path is None:
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [
        line.replace("\\n", "\n") for line in lines if line.strip() and not line.startswith("#")
    ]


def turn_of(line: str) -> tuple[int, str]:
    most, tab, words = line.partition("\t")
    if not tab or not most.isdigit():
        raise ValueError(
            f"a line of --openers: found {line!r}; accepted: most tokens of the turn, a tab, its first words"
        )
    return int(most), words


def prompt_text(entry: dict) -> str:
    """The first turn of a line of a file of prompts."""
    for key in ("turns", "prompt", "text"):
        if entry.get(key):
            return entry[key][0] if key == "turns" else entry[key]
    raise ValueError(f"a line of prompts: found {sorted(entry)}; accepted: turns, prompt or text")


def jsonl(path: Path) -> list[dict]:
    return [
        json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
    ]


def bench_tokens(text: TargetText, entry: dict, is_base: bool) -> list[int]:
    """A prompt for evaluation: its first turn, in the chat template where the target has one."""
    first = prompt_text(entry)
    if is_base:
        return text.encode(first)
    return text.encode(
        text.render([{"role": "user", "content": first}], add_generation_prompt=True)
    )


def run_prepare(args: argparse.Namespace) -> int:
    text = TargetText(args.target)
    ends = args.end or text.ends
    if args.base:
        conversation = prompts.Conversation([], [], [], ends)
    else:
        conversation = prompts.conversation_of(text.render, text.encode, ends)
    made = Prompts(conversation)
    if not args.base:
        for most, words in (
            map(turn_of, lines_of(args.openers)) if args.openers else openers.turns()
        ):
            made.openers.append(text.encode(words))
            made.openers_turn.append(most)
        made.questions = [
            text.encode(words) for words in lines_of(args.questions) or openers.questions()
        ]
        frames = lines_of(args.frames) or openers.FRAMES
        made.frames = [[text.encode(part) for part in frame.split("{}")] for frame in frames]
        made.document_openers = [
            text.encode(words) for words in lines_of(args.document_openers) or openers.documents()
        ]
    for path in args.texts:
        content = path.read_text(encoding="utf-8", errors="replace")
        pieces = [content[at : at + 20000] for at in range(0, len(content), 20000)]
        made.passages += [tokens for tokens in map(text.encode, pieces) if len(tokens) >= 64]
    asked = [{"category": path.stem} | entry for path in args.bench for entry in jsonl(path)]
    for entry in asked:
        made.guarded += [text.encode(turn) for turn in entry.get("turns") or [prompt_text(entry)]]
    args.out.mkdir(parents=True, exist_ok=True)
    bench = [
        {
            "category": spec_bench.group_of(entry["category"]),
            "tokens": bench_tokens(text, entry, args.base),
            "seed": seed,
        }
        for seed, entry in enumerate(asked)
    ]
    (args.out / "bench.json").write_text(json.dumps(bench, separators=(",", ":")), encoding="utf-8")
    made.save(args.out / "prompts.json")
    print(
        f"{len(made.openers)} openers, {len(made.passages)} passages, {len(made.guarded)} guarded prompts"
    )
    return 0


def run_requests(args: argparse.Namespace) -> int:
    text = TargetText(args.target)
    given = Prompts.load(args.prompts)
    turns = given.conversation
    kind = "passage" if turns.has_turns else "continuation"
    mixer = prompts.Mixer(given, [], {kind: 1.0}, args.temperatures, args.length, args.seed)
    lines = []
    for seed in range(args.count):
        start = mixer.start()
        if turns.has_turns:
            said = start.prompt[len(turns.prefix) : -1 - len(turns.to_answer)]
            asked: dict = {"messages": [{"role": "user", "content": text.decode(said)}]}
        else:
            asked = {"prompt": text.decode(start.prompt)}
        most = max(1, args.length - len(start.prompt))
        lines.append(
            json.dumps(
                asked
                | {"temperature": start.temperature, "max_tokens": most, "seed": args.seed + seed}
            )
        )
    args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def run_pack(args: argparse.Namespace) -> int:
    text = TargetText(args.target)
    asked = jsonl(args.requests)
    packed = []
    for result in jsonl(args.results):
        if "tokens" not in result:  # a request that failed
            continue
        request = asked[result["index"]]
        if "messages" in request:
            prompt = text.encode(text.render(request["messages"], add_generation_prompt=True))
        else:
            prompt = text.encode(request["prompt"])
        packed.append((prompt + result["tokens"], len(prompt)))
    rows = pack(packed, args.length)
    rows.save(args.out)
    print(f"{args.out}: {len(rows)} rows, {int(rows.made.sum())} tokens made")
    return 0
