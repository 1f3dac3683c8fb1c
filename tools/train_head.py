"""Trains an EAGLE-3 head for a target, on text that the target writes itself.

`prepare` turns prompts, texts and a chat template into tokens; `generate` lets the target write rows of text, or
`requests` and `pack` take them from Forerun's batches; `train` trains a head on such rows, in pieces that go on where
the last one ended; `evaluate` says how many tokens a step the head gets on prompts, as a chain and as a tree.
docs/heads.md goes through them. The target is a directory of safetensors with float or AWQ int4 weights; `forerun
convert` makes one of a GGUF file. Needs head_training/requirements.txt, of which tokenizers and jinja2 only where a
tokenizer is read; in earnest one GPU or several.

example: train_head.py prepare TARGET runs/head --openers openers.txt --texts novels/*.txt --bench bench.jsonl
  train_head.py generate TARGET runs/head/rows-0.pt --prompts runs/head/prompts.json --minutes 3
  torchrun --nproc-per-node 2 tools/train_head.py train TARGET runs/head --rows runs/head/rows-*.pt --minutes 8 --of 15
  train_head.py evaluate TARGET runs/head --prompts runs/head/prompts.json --bench runs/head/bench.json \\
      --texts runs/head/texts.json --out runs/head/accepted.json
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import torch
import torch._dynamo

from head_training import acceptance, curves, layout, preparing, prompts, training
from head_training.generation import Writer
from head_training.head import Head, HeadShape
from head_training.prompts import Prompts
from head_training.target import Target
from head_training.token_file import TokenRows


def device_and_type() -> tuple[torch.device, torch.dtype]:
    has_gpu = torch.cuda.is_available()
    return torch.device("cuda" if has_gpu else "cpu"), torch.bfloat16 if has_gpu else torch.float32


def shares(text: str) -> dict[str, float]:
    """ "opener:2,passage:1" -> shares by name."""
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return {name: float(share) for name, share in pairs}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME:SHARE,...") from error


def temperatures(text: str) -> dict[float, float]:
    return {float(name): share for name, share in shares(text).items()}


def run_generate(args: argparse.Namespace) -> int:
    torch.manual_seed(args.seed)
    given = Prompts.load(args.prompts)
    target = Target(args.target, *device_and_type(), compiles=True)
    documents = [
        document
        for path in args.documents
        for document in prompts.documents_of(TokenRows.load(path), given.conversation.ends)
    ]
    mixer = prompts.Mixer(given, documents, args.mix, args.temperatures, args.length, args.seed)
    turns = given.conversation
    common = turns.prefix + turns.ends[:1] + turns.to_answer + turns.ends[:1] + turns.to_user
    guard = prompts.Guard(given.guarded, common)
    writer = Writer(target, turns, args.batch, args.length, args.min_share)
    begun = time.monotonic()
    batches, dropped, took = [], 0, 0.0
    while not batches or (
        time.monotonic() - begun + took < args.minutes * 60 and len(batches) < args.batches
    ):
        started = time.monotonic()
        rows = writer.write([mixer.start() for _ in range(args.batch)])
        clean = guard.clean(rows)
        dropped += int((~clean).sum())
        batches.append(rows.part(clean))
        took = time.monotonic() - started
        share = float(rows.made.float().mean())
        rate = rows.tokens.numel() / took
        print(
            f"batch {len(batches)}: {rate:.0f} tokens/s, {share:.2f} of them made, {dropped} rows dropped",
            flush=True,
        )
    rows = TokenRows(
        torch.cat([part.tokens for part in batches]), torch.cat([part.made for part in batches])
    )
    rows.save(args.out)
    print(
        f"{args.out}: {rows.tokens.numel() / 1e6:.1f} M tokens, {float(rows.made.sum()) / 1e6:.1f} M made"
    )
    return 0


def draft_tokens(
    rows: list[TokenRows], count: int, vocab_size: int, ends: list[int]
) -> torch.Tensor:
    """The `count` tokens that the target made most often, in rising order; always those that end a text."""
    counts = torch.zeros(vocab_size, dtype=torch.long)
    for part in rows:
        counts += torch.bincount(part.tokens[part.made].long(), minlength=vocab_size)
    total = int(counts.sum())
    counts[ends] = total + 1
    chosen = counts.topk(count).indices.sort().values
    counts[ends] = 0
    print(
        f"{count} draft tokens cover {int(counts[chosen].sum()) / max(1, total):.4f} of what the target made"
    )
    return chosen


def new_head(args: argparse.Namespace, target: Target, rows: list[TokenRows]) -> Head:
    config = target.config
    ends = config.get("eos_token_id") or []
    ends = ends if isinstance(ends, list) else [ends]
    is_reduced = 0 < args.draft_vocab < target.vocab_size
    if is_reduced and (args.out / "model.safetensors").exists():
        tokens = layout.kept_tokens(args.out)
    elif is_reduced:
        tokens = draft_tokens(rows, args.draft_vocab, target.vocab_size, ends)
    else:
        tokens = torch.arange(target.vocab_size)
    shape = HeadShape(
        heads=args.heads or target.shape.heads,
        kv_heads=args.kv_heads or target.shape.kv_heads,
        head_dim=target.shape.head_dim,
        ffn=args.ffn or config["intermediate_size"],
        draft_vocab=len(tokens),
        own_lm_head=is_reduced,
        int4=args.int4,
    )
    return Head(target, shape, target.default_taps(), tokens)


def run_train(args: argparse.Namespace) -> int:
    torch._dynamo.config.recompile_limit = 64  # lengths of rows, numbers of rows
    processes = training.Processes()
    torch.manual_seed(args.seed)
    dtype = torch.bfloat16 if processes.device.type == "cuda" else torch.float32
    target = Target(args.target, processes.device, dtype, compiles=True)
    rows = [TokenRows.load(path) for path in args.rows]
    held = [part.part(slice(0, args.held)) for part in rows]
    head = new_head(args, target, rows).to(processes.device)
    given = {field.name: getattr(args, field.name) for field in dataclasses.fields(training.Plan)}
    plan = training.Plan(**given | {"of_minutes": args.of_minutes or args.minutes})

    def report(entry: dict) -> None:
        print(json.dumps(entry), flush=True)

    parts = [part.part(slice(args.held, None)) for part in rows]
    progress, is_over, lesson = training.train(
        head, target, parts, args.out / "state.pt", plan, processes, report
    )
    if processes.rank == 0:
        held = [
            TokenRows(part.tokens.to(target.device), part.made.to(target.device)) for part in held
        ]
        figures = {
            "steps": progress.steps,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds),
            "unroll": plan.unroll,
            "held_out_agreement": training.agreement(lesson, held, plan.batch_tokens)
            if args.held
            else [],
        }
        layout.write_head(args.out, head, target, figures)
        curves.write(args.out, progress.curve)
        print(json.dumps(figures | {"over": is_over}), flush=True)
    processes.close()
    return 0


def run_evaluate(args: argparse.Namespace) -> int:
    device, dtype = device_and_type()
    target = Target(args.target, device, dtype)
    given = Prompts.load(args.prompts)
    head = layout.read_head(args.head, target).to(device, target.dtype).eval()
    asked = [
        (entry["category"], entry["tokens"], entry["seed"])
        for entry in json.loads(args.bench.read_text())
    ]
    asked = asked[:: max(1, len(asked) // args.most)] if args.most else asked
    begun = time.monotonic()
    if args.texts.exists():
        texts = [acceptance.Text(**entry) for entry in json.loads(args.texts.read_text())]
    else:
        texts = acceptance.write_texts(
            target, asked, args.temperature, args.max_tokens, given.conversation.ends, args.batch
        )
        args.texts.write_text(json.dumps([vars(text) for text in texts], separators=(",", ":")))
    print(f"{len(texts)} texts after {time.monotonic() - begun:.0f} s", flush=True)
    by_text = []
    for text in texts:
        by_text.append(
            (text.category, acceptance.accepted_of(head, target, text, args.temperature))
        )
        if len(by_text) % 60 == 0:
            print(f"{len(by_text)} texts after {time.monotonic() - begun:.0f} s", flush=True)
    table = acceptance.tabulated(by_text)
    print(curves.table_text(table))
    args.out.write_text(
        json.dumps({"temperature": args.temperature, "by_category": table}, indent=1) + "\n"
    )
    return 0


def add_training(train: argparse.ArgumentParser) -> None:
    train.add_argument("out", type=Path, metavar="OUT", help="folder of the head and its state")
    train.add_argument("--rows", type=Path, nargs="+", required=True)
    train.add_argument("--minutes", type=float, default=8.0, help="of this piece")
    train.add_argument(
        "--of",
        type=float,
        dest="of_minutes",
        metavar="MINUTES",
        help="minutes of the whole run (those of the piece)",
    )
    train.add_argument(
        "--draft-vocab",
        type=int,
        default=0,
        help="tokens to guess among; 0: all, with the target's LM head",
    )
    train.add_argument("--ffn", type=int, help="width inside the MLP (the target's)")
    train.add_argument("--heads", type=int, help="of attention (the target's)")
    train.add_argument("--kv-heads", type=int)
    train.add_argument("--int4", action="store_true", help="AWQ int4, which training knows of")
    train.add_argument("--unroll", type=int, default=7, help="steps of the training-time test")
    train.add_argument("--decay", type=float, default=0.85, help="of a step's weight in the loss")
    train.add_argument("--batch-tokens", type=int, default=32768, help="of a process")
    train.add_argument("--optimizer", choices=("muon", "adamw"), default="muon")
    train.add_argument("--learning-rate", type=float, default=2e-3)
    train.add_argument("--warmup", type=int, default=100, help="steps")
    train.add_argument("--weight-decay", type=float, default=0.01)
    train.add_argument("--clip", type=float, default=1.0)
    train.add_argument("--max-steps", type=int, help="of the whole run, in place of minutes")
    train.add_argument(
        "--held", type=int, default=64, help="rows of each file that are not trained on"
    )
    train.add_argument("--log-every", type=int, default=50)
    train.add_argument("--seed", type=int, default=1)


def new_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        epilog="example:" + __doc__.split("example:")[1],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run, what: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=what, description=what)
        added.set_defaults(run=run)
        added.add_argument("target", type=Path, metavar="TARGET", help="directory of safetensors")
        return added

    prepare = command(
        "prepare", preparing.run_prepare, "writes prompts.json and bench.json, as tokens"
    )
    prepare.add_argument("out", type=Path, metavar="OUT", help="folder")
    prepare.add_argument(
        "--base", action="store_true", help="the target has no turns: rows are continuations"
    )
    prepare.add_argument(
        "--end",
        type=int,
        nargs="*",
        help="tokens that end a turn (those of generation_config.json)",
    )
    prepare.add_argument(
        "--openers",
        type=Path,
        help="lines: most tokens of the turn, a tab, its first words (English ones of our own)",
    )
    prepare.add_argument(
        "--questions", type=Path, help="lines: first words of a question behind a passage"
    )
    prepare.add_argument("--frames", type=Path, help="lines: words around a passage, which is {}")
    prepare.add_argument("--document-openers", type=Path, help="lines: first words of a document")
    prepare.add_argument(
        "--texts", type=Path, nargs="*", default=[], help="files to take passages from"
    )
    prepare.add_argument(
        "--bench",
        type=Path,
        nargs="*",
        default=[],
        help="JSONL of prompts to evaluate on, and to keep out",
    )

    generate = command("generate", run_generate, "lets the target write rows of text")
    generate.add_argument("out", type=Path, metavar="OUT", help="file of rows")
    generate.add_argument("--prompts", type=Path, required=True, help="what prepare wrote")
    generate.add_argument(
        "--documents", type=Path, nargs="*", default=[], help="rows to take passages from"
    )
    generate.add_argument(
        "--mix",
        type=shares,
        default={"opener": 1.0},
        help=f"KIND:SHARE,... of {', '.join(prompts.KINDS)}",
    )
    generate.add_argument(
        "--temperatures",
        type=temperatures,
        default={0.0: 1.0, 0.8: 1.0},
        help="T:SHARE,... of answers",
    )
    generate.add_argument(
        "--min-share",
        type=float,
        default=0.05,
        help="in user turns, of the likeliest token's probability",
    )
    generate.add_argument("--batch", type=int, default=2048)
    generate.add_argument("--length", type=int, default=512)
    generate.add_argument("--minutes", type=float, default=3.0)
    generate.add_argument("--batches", type=int, default=1 << 30, help="at most")
    generate.add_argument("--seed", type=int, default=1)

    requests = command(
        "requests", preparing.run_requests, "writes prompts for `forerun generate --batch`"
    )
    requests.add_argument("out", type=Path, metavar="OUT", help="JSON lines")
    requests.add_argument("--prompts", type=Path, required=True, help="what prepare wrote")
    requests.add_argument("--temperatures", type=temperatures, default={0.0: 1.0, 0.8: 1.0})
    requests.add_argument("--count", type=int, default=1000)
    requests.add_argument(
        "--length", type=int, default=512, help="tokens of a row, its prompt included"
    )
    requests.add_argument("--seed", type=int, default=1)

    packing = command(
        "pack", preparing.run_pack, "makes rows of what `forerun generate --batch` wrote"
    )
    packing.add_argument("out", type=Path, metavar="OUT", help="file of rows")
    packing.add_argument("--requests", type=Path, required=True, help="JSON lines that went in")
    packing.add_argument("--results", type=Path, required=True, help="JSON lines that came out")
    packing.add_argument("--length", type=int, default=512, help="tokens of a row")

    add_training(command("train", run_train, "trains a head for a piece of its run"))

    evaluate = command("evaluate", run_evaluate, "tokens a step on prompts, by category")
    evaluate.add_argument("head", type=Path, metavar="HEAD", help="folder of the head")
    evaluate.add_argument("--prompts", type=Path, required=True, help="what prepare wrote")
    evaluate.add_argument("--bench", type=Path, required=True, help="what prepare wrote")
    evaluate.add_argument(
        "--texts", type=Path, required=True, help="what the target writes; read where it exists"
    )
    evaluate.add_argument("--out", type=Path, required=True, help="JSON")
    evaluate.add_argument("--temperature", type=float, default=0.0)
    evaluate.add_argument("--max-tokens", type=int, default=256)
    evaluate.add_argument(
        "--most", type=int, default=0, help="about so many prompts, spread evenly; 0: all"
    )
    evaluate.add_argument("--batch", type=int, default=512)
    return parser


def main() -> int:
    args = new_parser().parse_args()
    try:
        return args.run(args)
    except (ValueError, FileNotFoundError, KeyError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
