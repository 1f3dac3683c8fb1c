"""Writes tests/goldens: a tiny random checkpoint of every family, and what transformers computes.

For each family a directory with the checkpoint as transformers saves it, `golden.safetensors`
(tokens i32 [200], positions i32 [12], logits f32 [12, vocab]) and `golden.json` (a prompt and its
greedy continuation, and how far the logits move when a part is left out). Logits are float32 on
the CPU with eager attention, from the saved files. Every family is also perturbed: a golden that
a wrong rope, window, bias or norm would pass is refused. Of weights only checksums are kept:
golden_weights.py writes the same bytes anew. Of equal files the first is kept, others are links.

Needs torch, transformers 5, tokenizers, safetensors.
example: make_goldens.py --out tests/goldens
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np

import awq_format
import golden_weights
from golden_families import (
    BOS,
    EOS,
    FAMILIES,
    SPECIAL_TOKENS,
    VOCAB_SIZE,
    Family,
    legacy_config,
)

SEQUENCE_LEN = 200
# Either side of the window (32) and of page boundaries (64, 128), the first and the last.
POSITIONS = (0, 1, 30, 31, 32, 33, 63, 64, 65, 127, 128, 199)
GENERATE_TOKENS = 24
# Greedy continuations are kept clear of ties: smallest lead of the best logit, in units of the
# logits' standard deviation.
MIN_LEAD = 0.005
MIN_DISTINCT = 5  # different tokens in a continuation
# Smallest visible effect of a perturbation, max |difference| over the logits' root mean square;
# a hundred times the tolerance of the comparison.
MIN_EFFECT = 1e-2

PROMPTS = (
    "The river runs past the old mill, and",
    "def add(a, b):\n    return a + b\n\n\ndef",
    "When the rain had stopped, the two of them walked on towards the village",
    "import os\nimport sys\n\n\nclass Reader:\n    def __init__(self",
    "It is 12 o'clock; 345 people wait, and don't know why. Who'd tell them?",
    "for name in names:\n    print(name, len(name))\n",
    'She said: "There are more things in the garden than you would think."',
    "One, two, three, four, five, six, seven: all good children",
)


def build_tokenizer(family: Family):
    """Byte-level BPE of VOCAB_SIZE entries, special tokens first, saved as transformers does."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(family.split), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(PROMPTS, trainer)
    if tokenizer.get_vocab_size() != VOCAB_SIZE:
        raise RuntimeError(f"tokenizer has {tokenizer.get_vocab_size()} entries, not {VOCAB_SIZE}")
    if family.adds_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, 0)]
        )
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, clean_up_tokenization_spaces=False
    )
    wrapped.chat_template = family.chat_template
    return wrapped


def save_tokenizer(family: Family, directory: Path) -> None:
    tokenizer = build_tokenizer(family)
    tokenizer.save_pretrained(directory)
    template_file = directory / "chat_template.jinja"
    if family.template_in_config and template_file.is_file():
        config_path = directory / "tokenizer_config.json"
        config = json.loads(config_path.read_text(encoding="utf-8"))
        config["chat_template"] = template_file.read_text(encoding="utf-8")
        config_path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        template_file.unlink()


def new_model(family: Family, **overrides: object):
    """An untrained model of the family's config, float32, eager attention."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        family.model_type, **copy.deepcopy({**family.config, **overrides})
    )
    model = AutoModelForCausalLM.from_config(
        config, attn_implementation="eager", dtype=torch.float32
    )
    return model.eval()


def fill_weights(family: Family, model) -> None:
    """Gives the parameters the values that the family's files stand for."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            _, values = golden_weights.stored_tensors(family, name, tuple(parameter.shape))
            parameter.copy_(torch.from_numpy(values))
    model.tie_weights()


def save_awq(family: Family, model, directory: Path) -> None:
    """Writes the int4 checkpoint, of which the model is the dequantized twin."""
    assert family.awq_group is not None
    model.config.dtype = family.dtype
    config = model.config.to_dict()
    config["architectures"] = [type(model).__name__]
    config["quantization_config"] = awq_format.quantization_config(family.awq_group)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(
        json.dumps(config, indent=2, default=str) + "\n", encoding="utf-8"
    )
    model.generation_config.save_pretrained(directory)
    golden_weights.write_weights(family, directory, directory)


def make_checkpoint(family: Family, directory: Path):
    """Writes the checkpoint and returns the float32 model of what the files hold."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    model = new_model(family)
    fill_weights(family, model)
    model.generation_config = GenerationConfig(
        bos_token_id=0, eos_token_id=family.config["eos_token_id"], **family.generation
    )
    if family.awq_group is not None:
        save_awq(family, model, directory)
    else:
        model.to(getattr(torch, family.dtype))
        limit = {} if family.max_shard_size is None else {"max_shard_size": family.max_shard_size}
        model.save_pretrained(directory, **limit)
    config_path = directory / "config.json"
    if family.legacy_spelling:
        config = legacy_config(json.loads(config_path.read_text(encoding="utf-8")))
        config_path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if family.awq_group is not None:
        return model
    return AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    ).eval()


def logits_of(model, tokens: np.ndarray) -> np.ndarray:
    import torch

    with torch.no_grad():
        ids = torch.from_numpy(tokens.astype(np.int64))[None]
        return model(ids, use_cache=False).logits[0].float().numpy()


def _interleave(model) -> None:
    """Rows of q and k as a rope that pairs neighbouring dimensions would need them."""
    for layer in model.model.layers:
        attention = layer.self_attn
        for linear in (attention.q_proj, attention.k_proj):
            half = attention.head_dim // 2
            heads = linear.weight.data.view(-1, 2, half, linear.weight.shape[1])
            linear.weight.data.copy_(heads.transpose(1, 2).reshape(linear.weight.shape))


def _swap_kv_heads(model) -> None:
    for layer in model.model.layers:
        attention = layer.self_attn
        for linear in (attention.k_proj, attention.v_proj):
            heads = linear.weight.data.view(-1, attention.head_dim, linear.weight.shape[1])
            linear.weight.data.copy_(heads.flip(0).reshape(linear.weight.shape))


def _fill(model, part: str, value: float) -> None:
    for name, parameter in model.named_parameters():
        if part in name:
            parameter.data.fill_(value)


def perturbations(family: Family) -> dict[str, tuple[dict, Callable | None]]:
    """Name -> (config overrides, change of the weights): the mistakes a golden must show."""
    rope = family.config["rope_parameters"]
    known: dict[str, tuple[dict, Callable | None]] = {
        "theta": ({"rope_parameters": {**rope, "rope_theta": 2 * rope["rope_theta"]}}, None),
        "rope_scaling": (
            {"rope_parameters": {"rope_type": "default", "rope_theta": rope["rope_theta"]}},
            None,
        ),
        "attention_factor": ({"rope_parameters": {**rope, "attention_factor": 1.0}}, None),
        "rms_eps": ({"rms_norm_eps": 1e-6}, None),
        "interleaved_rope": ({}, _interleave),
        "norm_weights": ({}, lambda m: _fill(m, "layernorm.weight", 1.0)),
        "kv_order": ({}, _swap_kv_heads),
        "untied": ({}, lambda m: m.lm_head.weight.data.copy_(m.model.embed_tokens.weight.data)),
    }
    chosen = {
        name: known[name]
        for name in (
            "theta",
            "interleaved_rope",
            "rms_eps",
            "norm_weights",
            *(check for check in family.checks if check in known),
        )
    }
    if "bias" in family.checks:
        for part in ("q_proj.bias", "k_proj.bias", "v_proj.bias"):
            chosen[f"no {part}"] = ({}, lambda m, part=part: _fill(m, part, 0.0))
    if "qk_norm" in family.checks:
        chosen["no q_norm weight"] = ({}, lambda m: _fill(m, "q_norm.weight", 1.0))
        chosen["no k_norm weight"] = ({}, lambda m: _fill(m, "k_norm.weight", 1.0))
    if "window" in family.checks:
        window = family.config["sliding_window"]
        for other in (None, window - 1, window + 1):
            chosen[f"window {other}"] = ({"sliding_window": other}, None)
    return chosen


def effects(family: Family, model, tokens: np.ndarray, logits: np.ndarray) -> dict[str, float]:
    """How far each perturbation moves the chosen logits, over their root mean square."""
    rms = float(np.sqrt(np.mean(np.square(logits))))
    found: dict[str, float] = {}
    for name, (overrides, change) in perturbations(family).items():
        other = new_model(family, **overrides)
        other.load_state_dict(model.state_dict())
        other.tie_weights()
        if change is not None:
            change(other)
        moved = logits_of(other, tokens)[list(POSITIONS)]
        found[name] = round(float(np.abs(moved - logits).max()) / rms, 4)
        if not found[name] > MIN_EFFECT:
            raise RuntimeError(f"{family.name}: '{name}' moves the logits by {found[name]} only")
    return found


def candidate_prompts() -> list[str]:
    """The prompts, whole and cut short, in the order in which they are tried."""
    return [prompt[: len(prompt) - cut] for cut in (0, 3, 6, 9, 12, 15) for prompt in PROMPTS]


def greedy(family: Family, model, directory: Path) -> dict:
    """The first prompt whose continuation has no near-tie, no end token and some variety."""
    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(directory)
    ends = family.config["eos_token_id"]
    ends = set(ends if isinstance(ends, list) else [ends])
    refused: list[str] = []
    for prompt in candidate_prompts():
        ids = tokenizer(prompt)["input_ids"]
        with torch.no_grad():
            out = model.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=GENERATE_TOKENS,
                do_sample=False,
                pad_token_id=0,
            )
        full = out[0].tolist()
        new = full[len(ids) :]
        rows = logits_of(model, np.asarray(full))[len(ids) - 1 : -1]
        best = np.sort(rows, axis=-1)
        lead = float(((best[:, -1] - best[:, -2]) / rows.std(axis=-1)).min())
        agrees = rows.argmax(-1).tolist() == new
        ended = bool(ends & set(new)) or len(new) < GENERATE_TOKENS
        if agrees and not ended and lead >= MIN_LEAD and len(set(new)) >= MIN_DISTINCT:
            return {
                "prompt": prompt,
                "prompt_tokens": ids,
                "tokens": new,
                "text": tokenizer.decode(new, skip_special_tokens=True),
                "smallest_lead": round(lead, 4),
            }
        refused.append(f"agrees {agrees} ended {ended} lead {lead:.4f} of {len(set(new))} tokens")
    raise RuntimeError(f"{family.name}: no prompt continues well: {refused[:6]}")


def keep_checksums(family: Family, root: Path) -> None:
    """Removes the family's weights, if golden_weights.py writes the same, and lists their checksums."""
    checksums = golden_weights.read_checksums(root)
    checksums = {k: v for k, v in checksums.items() if not k.startswith(f"{family.name}/")}
    directory = root / family.name
    with tempfile.TemporaryDirectory() as again:
        for path in golden_weights.write_weights(family, directory, Path(again)):
            saved = directory / path.name
            value = golden_weights.checksum(saved)
            if golden_weights.checksum(path) != value:
                raise RuntimeError(f"{saved}: golden_weights.py writes other bytes")
            checksums[f"{family.name}/{path.name}"] = value
            saved.unlink()
    golden_weights.write_checksums(root, checksums)


def link_equal_files(root: Path) -> None:
    """Of files of families that are equal in name and bytes, all but the first become links."""
    first: dict[tuple[str, bytes], Path] = {}
    for path in sorted(root.glob("*/*.json")):
        kept = first.setdefault((path.name, path.read_bytes()), path)
        if kept is not path:
            path.unlink()
            path.symlink_to(Path("..") / kept.parent.name / kept.name)


def copy_linked_files(root: Path) -> None:
    """Undoes link_equal_files."""
    for path in root.glob("*/*.json"):
        if path.is_symlink():
            content = path.read_bytes()
            path.unlink()
            path.write_bytes(content)


def make_family(family: Family, root: Path) -> None:
    from safetensors.numpy import save_file

    directory = root / family.name
    shutil.rmtree(directory, ignore_errors=True)
    model = make_checkpoint(family, directory)
    save_tokenizer(family, directory)
    rng = np.random.Generator(np.random.PCG64(len(family.name)))
    tokens = rng.integers(len(SPECIAL_TOKENS), VOCAB_SIZE, SEQUENCE_LEN).astype(np.int32)
    logits = logits_of(model, tokens)[list(POSITIONS)]
    save_file(
        {
            "tokens": tokens,
            "positions": np.asarray(POSITIONS, dtype=np.int32),
            "logits": np.ascontiguousarray(logits),
        },
        directory / "golden.safetensors",
    )
    golden = {
        "family": family.name,
        "generate": greedy(family, model, directory),
        "effects": effects(family, model, tokens, logits),
    }
    (directory / "golden.json").write_text(
        json.dumps(golden, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    keep_checksums(family, root)
    size = sum(path.stat().st_size for path in directory.iterdir())
    print(f"{family.name}: {size / 1000:.0f} kB, effects {golden['effects']}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Make the tiny checkpoints and golden logits of tests/goldens.",
        epilog="example: make_goldens.py --out tests/goldens --family llama3 --family qwen2",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder; one subfolder a family")
    parser.add_argument(
        "--family",
        action="append",
        choices=[f.name for f in FAMILIES],
        help="make only this one (may be repeated); default: all",
    )
    args = parser.parse_args()
    failures = 0
    copy_linked_files(args.out)
    for family in FAMILIES:
        if args.family is None or family.name in args.family:
            try:
                make_family(family, args.out)
            except RuntimeError as error:
                failures += 1
                print(f"refused: {error}", flush=True)
    link_equal_files(args.out)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
