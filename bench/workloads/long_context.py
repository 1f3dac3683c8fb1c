#!/usr/bin/env python3
"""Long contexts for benches, made on the spot: the same arguments give the same bytes.

    long_context.py OUT_DIR [--characters 25000] [--count 4] [--text DIR]

JSON lines of {"id", "prompt"} and, where what should follow is known, "expected":

needle.jsonl    one passage that nobody could guess, far back; the prompt ends in the middle of its
                repetition, and the rest of it is expected
needles.jsonl   four such passages far back, of which one is repeated
lists.jsonl     a long list, far back, and its beginning once more
NAME.jsonl      passages of each DIR/NAME.txt to be continued; where DIR is absent, none

A model that follows no instructions can do the first three: a passage seen before is likely to go on
as it did. Prompts are of about --characters characters; the demo pair's tokens have 3 to 4 of them.
"""

import argparse
import json
import pathlib
import random
import sys

NOUNS = """lantern harbour sparrow kettle orchard violin miller compass glacier parcel tailor meadow
    anchor copper saddle window pigeon bishop ribbon chimney island soldier teapot garden walnut
    steamer feather hammer cellar widow magnet pebble engine curtain barrel fiddle thimble ladder
    cabbage lantern-maker quarry bridge needle basket candle mirror turnip drummer sailor hatter""".split()
ADJECTIVES = """crimson hollow seventeen patient broken northern velvet bitter wooden silent crooked
    amber distant hungry polished frozen narrow gilded wandering foolish pale hidden sudden rusty
    gentle enormous blind purple humble forgotten""".split()
VERBS = """carried followed painted counted forgave measured buried answered borrowed polished sold
    watched mended praised chased weighed folded greeted scolded traded lifted hid burned wrapped
    named pulled refused drew tasted remembered""".split()
PLACES = "river mill church station market hill sea wood bridge garden inn cellar".split()
FILLERS = (
    "It was a quiet {a} afternoon, and the {n} stood by {p} as it had always done.",
    "Nobody spoke for a while, and the {a} {n} was not mentioned again.",
    "She looked at the {n}, and then at {p}, and said that it was late.",
    "In the morning the {n} was gone, and they walked to {p} without it.",
    "He thought of the {a} {n} which he had seen near {p} when he was young.",
    "There was a {n} on the table, and beside it a {a} {m}.",
    "The road went on past {p}, and the {n} was soon out of sight.",
)


def filler(rng, characters):
    """Prose of as many characters or a sentence more, a paragraph every few sentences."""
    parts, length = [], 0
    while length < characters:
        sentence = rng.choice(FILLERS).format(
            a=rng.choice(ADJECTIVES),
            n=rng.choice(NOUNS),
            m=rng.choice(NOUNS),
            p="the " + rng.choice(PLACES),
        )
        parts.append(sentence + ("\n\n" if rng.random() < 0.2 else " "))
        length += len(parts[-1])
    return "".join(parts)


def passage(rng, sentences=9):
    """Words that follow from nothing but having been seen before."""
    return " ".join(
        f"The {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} {rng.choice(VERBS)} "
        f"the {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}."
        for _ in range(sentences)
    )


def listing(rng, items=40):
    return "\n".join(
        f"{number}. {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}" for number in range(1, items + 1)
    )


def begin_of(text, share, separator):
    """About so much of it, up to behind a separator."""
    cut = text.index(separator, int(len(text) * share)) + len(separator)
    return text[:cut], text[cut:]


def hidden(rng, characters, texts, repeated, separator):
    """Texts spread over the first half of filler, then the beginning of one of them once more."""
    gap = characters // (2 * len(texts))
    parts = []
    for text in texts:
        parts += [filler(rng, gap), "\n\n", text, "\n\n"]
    told = sum(map(len, parts))
    begin, rest = begin_of(repeated, 0.25, separator)
    parts += [filler(rng, max(0, characters - told - len(begin))), "\n\n", begin]
    return {"prompt": "".join(parts).rstrip(" "), "expected": rest.strip(" ")}


def needle(rng, characters):
    text = passage(rng)
    return hidden(rng, characters, [text], text, ". ")


def needles(rng, characters):
    texts = [passage(rng) for _ in range(4)]
    return hidden(rng, characters, texts, rng.choice(texts), ". ")


def lists(rng, characters):
    text = listing(rng)
    return hidden(rng, characters, [text], text, "\n")


def continuations(path, characters, count):
    text = path.read_text(encoding="utf-8")
    for index in range(count):
        begin = text.index("\n\n", len(text) * index // count) + 2
        yield {"prompt": text[begin : begin + characters].rstrip()}


def write(out, name, entries):
    with open(out / f"{name}.jsonl", "w", encoding="utf-8") as file:
        for index, entry in enumerate(entries):
            file.write(json.dumps({"id": f"{name}-{index}", **entry}) + "\n")
    print(out / f"{name}.jsonl")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--characters", type=int, default=25000)
    parser.add_argument("--count", type=int, default=4, help="prompts of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=pathlib.Path, help="a folder of .txt files")
    args = parser.parse_args()
    if args.characters < 2000 or args.count < 1:
        parser.error(
            f"--characters, --count: found {args.characters}, {args.count}; "
            "accepted: at least 2000 and 1"
        )
    args.out.mkdir(parents=True, exist_ok=True)
    for task in (needle, needles, lists):
        entries = [
            task(random.Random(f"{task.__name__} {args.seed} {index}"), args.characters)
            for index in range(args.count)
        ]
        write(args.out, task.__name__, entries)
    texts = sorted(args.text.glob("*.txt")) if args.text else []
    if not texts:
        print("no --text with .txt files: no continuations", file=sys.stderr)
    for path in texts:
        write(args.out, path.stem, continuations(path, args.characters, args.count))


if __name__ == "__main__":
    main()
