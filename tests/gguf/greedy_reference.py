"""Writes the golden of greedy texts that gguf_test.py compares Forerun with.

Continues every prompt of a file by 64 tokens with reference_model.py, end tokens included, and notes
the tokens and how far each one's logit lies above the next best. The prompts' ids come from Hugging
Face's tokenizers, with the vocabulary and the merges of the GGUF file and SmolLM's split: digits one
by one, then GPT-2's pattern; texts of conversations come from Jinja2 and the file's own template.
Of every text it also notes how far the roundings of the bf16 and int8 activations move those margins.
Needs numpy, gguf, tokenizers and jinja2; a model of 135M parameters takes a few minutes.

example: greedy_reference.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2_prompts.json smollm2_greedy.json
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path

import gguf
import jinja2
import numpy as np
import tokenizers

import reference_model
import roundings

STEPS = 64


def tokenizer_of(file: reference_model.GgufFile) -> tokenizers.Tokenizer:
    pre = file.value("tokenizer.ggml.pre")
    if file.value("tokenizer.ggml.model") != "gpt2" or pre != "smollm":
        raise ValueError(f"tokenizer.ggml.pre: found {pre}; accepted: smollm of a gpt2 model")
    tokens = file.value("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in file.value("tokenizer.ggml.merges")]
    vocab = {token: idx for idx, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    kinds = file.value("tokenizer.ggml.token_type")
    control = [t for t, kind in zip(tokens, kinds) if kind == gguf.TokenType.CONTROL]
    tokenizer.add_special_tokens(control)
    if tokenizer.get_vocab_size() != len(tokens):
        raise ValueError(f"tokenizer: {tokenizer.get_vocab_size()} tokens of {len(tokens)}")
    return tokenizer


def text_of(prompt: dict, template: str) -> str:
    if "prompt" in prompt:
        return prompt["prompt"]
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(
        messages=prompt["messages"], add_generation_prompt=True
    )


def moved_by(activation: str, model: reference_model.Model, texts: list[dict]) -> None:
    """Adds to each text by how much the roundings move its margins, in mean (root mean square), all
    tokens before being the same.

    The attention of most processors multiplies f32; where it multiplies bf16, margins move further.
    """
    model.rounding = roundings.of(activation, bf16_products=False)
    for text in texts:
        ids = text["prompt_tokens"] + text["tokens"][:-1]
        rows = model.hidden([(model.sequence(), ids)])[0][len(text["prompt_tokens"]) - 1 :]
        moved = reference_model.margins_of(model.logits(rows), text["tokens"]) - text["margins"]
        text.setdefault("moved", {})[activation] = float(f"{np.sqrt(np.mean(moved**2)):.4g}")
        print(f"{activation}, {text['id']}: {text['moved'][activation]}", file=sys.stderr)


def make(model_path: Path, prompts: list[dict]) -> dict:
    file = reference_model.GgufFile(model_path)
    tokenizer = tokenizer_of(file)
    texts = [text_of(prompt, file.value("tokenizer.chat_template")) for prompt in prompts]
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]

    def progress(step: int) -> None:
        print(f"\r{step} of {STEPS} tokens", end="", file=sys.stderr, flush=True)

    model = reference_model.Model(model_path)
    chosen = reference_model.greedy(model, ids, STEPS, progress)
    print(file=sys.stderr)
    for prompt, text in zip(prompts, chosen):
        written = tokenizer.decode([choice.token for choice in text], skip_special_tokens=False)
        print(f"{prompt['id']}: {written!r}", file=sys.stderr)
    made = [
        {
            **prompt,
            "text": text,
            "prompt_tokens": prompt_ids,
            "tokens": [choice.token for choice in choices],
            "margins": [float(f"{choice.margin:.4g}") for choice in choices],
        }
        for prompt, text, prompt_ids, choices in zip(prompts, texts, ids, chosen)
    ]
    for activation in ("bf16", "int8"):
        moved_by(activation, model, made)
    return {
        "model": model_path.name,
        "sha256": hashlib.sha256(model_path.read_bytes()).hexdigest(),
        "texts": made,
    }


def lines_of(golden: dict) -> str:
    """JSON with a line for each text."""
    texts = ",\n".join(json.dumps(text, ensure_ascii=False) for text in golden["texts"])
    head = {key: value for key, value in golden.items() if key != "texts"}
    return json.dumps(head)[:-1] + ', "texts": [\n' + texts + "\n]}\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write the golden of greedy texts of a GGUF file with SmolLM's tokenizer.",
        epilog="example: greedy_reference.py model.gguf smollm2_prompts.json smollm2_greedy.json",
    )
    parser.add_argument("model", type=Path, help="GGUF file")
    parser.add_argument("prompts", type=Path, help="JSON list of {id, prompt or messages}")
    parser.add_argument("out", type=Path, help="file to write")
    args = parser.parse_args()
    try:
        golden = make(args.model, json.loads(args.prompts.read_text(encoding="utf-8")))
    except (ValueError, OSError) as error:
        print(f"greedy_reference: {error}", file=sys.stderr)
        return 1
    args.out.write_text(lines_of(golden), encoding="utf-8")
    margins = [margin for text in golden["texts"] for margin in text["margins"]]
    small = sum(margin < 0.05 for margin in margins)
    print(f"{args.out}: {small} of {len(margins)} margins below 0.05", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
