"""Trains a draft and a target of the Llama family on one corpus, and quantizes the target to int4.

Steps, each skipped where its result already lies in OUT: a byte-level BPE tokenizer shared by
both; the target; the draft, optionally distilled from the target (its loss mixes the corpus' next
token with the target's distribution); AWQ int4 of the target; a report of validation losses and
of how often the target's choice is among the draft's best 1, 2, 4 and 8.

Corpus: a folder of .txt files, documents separated by <|endoftext|>; files named val_*.txt are
held out. Needs torch, transformers, tokenizers, and in earnest one GPU: the demo pair took about
15 minutes on an H200.

example: train_pair.py corpus runs/pair --target-minutes 9 --draft-minutes 4 --distill 0.5
smoke test: train_pair.py corpus /tmp/pair --vocab 512 --max-steps 20 --batch-tokens 2048 \
    --target 128,256,2,2,1 --draft 128,128,1,2,1 --context 128 --long-context 256
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import help_alone  # noqa: F401  before what it stands in for

# isort: split
import numpy as np
import torch
import torch.nn.functional as F

END_OF_TEXT = "<|endoftext|>"
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
HEAD_DIM = 64
CHUNK_CHARS = 200_000
TOP = (1, 2, 4, 8)


@dataclass(frozen=True)
class Shape:
    """A model's size, given on the command line as width,ffn,layers,heads,kv_heads."""

    width: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int

    @staticmethod
    def parse(text: str) -> Shape:
        try:
            return Shape(*(int(part) for part in text.split(",")))
        except (TypeError, ValueError) as error:
            raise argparse.ArgumentTypeError(
                f"{text!r}: expected width,ffn,layers,heads,kv_heads"
            ) from error


@dataclass(frozen=True)
class Schedule:
    """How long and how one model is trained."""

    minutes: float
    max_steps: int | None
    learning_rate: float
    batch_tokens: int
    context: int
    long_context: int  # used for the last quarter


def documents(path: Path) -> Iterator[tuple[str, bool]]:
    """Pieces of a file's documents, and whether a piece ends its document."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for document in text.split(END_OF_TEXT):
        document = document.strip("\n")
        for at in range(0, len(document), CHUNK_CHARS):
            yield document[at : at + CHUNK_CHARS], at + CHUNK_CHARS >= len(document)


def train_tokenizer(files: list[Path], vocab_size: int):
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    # A quarter of the corpus, evenly spread, is plenty for merges.
    tokenizer.train_from_iterator(
        (
            piece[at : at + 50_000]
            for file in files
            for piece, _ in documents(file)
            for at in range(0, len(piece), 200_000)
        ),
        trainer,
    )
    return tokenizer


def encode_file(path: Path, tokenizer) -> np.ndarray:
    end_id = tokenizer.token_to_id(END_OF_TEXT)
    parts: list[np.ndarray] = []
    batch: list[tuple[str, bool]] = []

    def flush() -> None:
        encoded = tokenizer.encode_batch_fast([piece for piece, _ in batch])
        for encoding, (_, last) in zip(encoded, batch):
            parts.append(np.asarray(encoding.ids + [end_id] * last, dtype=np.int32))
        batch.clear()

    for piece in documents(path):
        batch.append(piece)
        if len(batch) == 256:
            flush()
    flush()
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def new_model(shape: Shape, vocab_size: int, max_positions: int):
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=shape.width,
            intermediate_size=shape.ffn,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.kv_heads,
            head_dim=HEAD_DIM,
            rms_norm_eps=1e-5,
            max_position_embeddings=max_positions,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
            attn_implementation="sdpa",
        )
    )


def autocast(device: str):
    return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")


def logits_of(model, ids: torch.Tensor, device: str) -> torch.Tensor:
    with autocast(device):
        return model(input_ids=ids, use_cache=False).logits


def sequences(tokens: torch.Tensor, length: int, limit: int) -> torch.Tensor:
    count = min(len(tokens) // length, limit)
    return tokens[: count * length].view(count, length).long()


@torch.no_grad()
def validation_loss(model, tokens: torch.Tensor, length: int, device: str) -> float:
    total = 0.0
    rows = sequences(tokens, length, 128)
    for batch in rows.split(8):
        logits = logits_of(model, batch, device)[:, :-1].float()
        total += F.cross_entropy(
            logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"
        ).item()
    return total / max(1, rows.shape[0] * (length - 1))


@torch.no_grad()
def agreement(target, draft, tokens: torch.Tensor, length: int, device: str) -> dict[int, float]:
    """Share of positions where the target's arg-max is among the draft's best k."""
    hits = {k: 0.0 for k in TOP}
    rows = sequences(tokens, length, 32)
    for batch in rows.split(8):
        choice = logits_of(target, batch, device).argmax(-1)
        best = logits_of(draft, batch, device).topk(max(TOP)).indices
        for k in TOP:
            hits[k] += (best[..., :k] == choice[..., None]).any(-1).sum().item()
    return {k: round(hit / max(1, rows.numel()), 3) for k, hit in hits.items()}


def learning_rate_factor(step: int, progress: float) -> float:
    """Warm-up over 150 steps, flat for a fifth of the time, then linearly down to 2%."""
    warm_up = min(1.0, (step + 1) / 150)
    decay = 1.0 if progress < 0.2 else max(0.02, 1 - (progress - 0.2) / 0.8)
    return warm_up * decay


def train(
    name: str,
    model,
    tokens: torch.Tensor,
    schedule: Schedule,
    device: str,
    teacher=None,
    distill: float = 0.0,
) -> None:
    """Trains in place. With a teacher the loss is (1 - distill) x next token + distill x KL."""
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}],
        lr=schedule.learning_rate,
        betas=(0.9, 0.95),
        fused=device == "cuda",
    )

    def loss_of(inputs: torch.Tensor, labels: torch.Tensor, guide: torch.Tensor | None):
        logits = logits_of(model, inputs, device).float().flatten(0, 1)
        loss = F.cross_entropy(logits, labels.flatten())
        if guide is None:
            return loss
        divergence = F.kl_div(
            F.log_softmax(logits, -1), guide, log_target=True, reduction="batchmean"
        )
        return (1 - distill) * loss + distill * divergence

    compiled = torch.compile(loss_of, dynamic=False) if device == "cuda" else loss_of
    step, begun = 0, time.monotonic()
    while True:
        progress = (time.monotonic() - begun) / (60 * schedule.minutes)
        if schedule.max_steps is not None:
            progress = step / schedule.max_steps
        if progress >= 1:
            break
        context = schedule.context if progress < 0.75 else schedule.long_context
        for group in optimizer.param_groups:
            group["lr"] = schedule.learning_rate * learning_rate_factor(step, progress)
        starts = torch.randint(
            0, len(tokens) - context - 1, (max(1, schedule.batch_tokens // context),), device=device
        )
        rows = tokens[starts[:, None] + torch.arange(context + 1, device=device)].long()
        inputs, labels = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        guide = None
        if teacher is not None and distill > 0:
            with torch.no_grad():
                guide = F.log_softmax(logits_of(teacher, inputs, device).float().flatten(0, 1), -1)
        loss = compiled(inputs, labels, guide)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step == 3 and schedule.max_steps is None:
            begun = time.monotonic()  # compilation does not count
        if step % 100 == 0:
            print(f"{name}: step {step}, context {context}, loss {loss.item():.3f}", flush=True)
        step += 1
    print(
        f"{name}: {sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, "
        f"{step} steps",
        flush=True,
    )
    model.eval()


def save(model, tokenizer, directory: Path, max_positions: int) -> None:
    """A bf16 checkpoint with its tokenizer; the model keeps its f32 weights."""
    from transformers import GenerationConfig

    state = {
        name: value.detach().to(torch.bfloat16).cpu()
        for name, value in model.state_dict().items()
        if name != "lm_head.weight"
    }
    model.generation_config = GenerationConfig(bos_token_id=0, eos_token_id=0)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(directory, state_dict=state)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": END_OF_TEXT,
        "eos_token": END_OF_TEXT,
        "add_bos_token": False,
        "model_max_length": max_positions,
    }
    (directory / "tokenizer_config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8"
    )


def load(directory: Path, device: str):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).to(device).eval()


def obtain(
    name: str,
    directory: Path,
    shape: Shape,
    tokenizer,
    tokens: torch.Tensor,
    schedule: Schedule,
    device: str,
    teacher=None,
    distill: float = 0.0,
):
    """The model saved in `directory`, trained first unless it is there already."""
    if not (directory / "config.json").is_file():
        model = new_model(shape, tokenizer.get_vocab_size(), schedule.long_context).to(device)
        train(name, model, tokens, schedule, device, teacher, distill)
        save(model, tokenizer, directory, schedule.long_context)
    return load(directory, device)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Train a draft and a target on a corpus; quantize the target to AWQ int4.",
        epilog="example: train_pair.py corpus runs/pair --target-minutes 9 --draft-minutes 4",
    )
    parser.add_argument("corpus", type=Path, help="folder of .txt files; val_*.txt are held out")
    parser.add_argument("out", type=Path, help="folder for target/, draft/, target-bf16/")
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument(
        "--target",
        type=Shape.parse,
        default=Shape(512, 1408, 10, 8, 4),
        metavar="W,FFN,L,H,KV",
        help="default: 512,1408,10,8,4",
    )
    parser.add_argument(
        "--draft",
        type=Shape.parse,
        default=Shape(192, 512, 3, 3, 1),
        metavar="W,FFN,L,H,KV",
        help="default: 192,512,3,3,1",
    )
    parser.add_argument("--target-minutes", type=float, default=9)
    parser.add_argument("--draft-minutes", type=float, default=3.5)
    parser.add_argument("--max-steps", type=int, help="train by steps instead of minutes")
    parser.add_argument("--batch-tokens", type=int, default=98304)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--long-context", type=int, default=8192)
    parser.add_argument(
        "--distill",
        type=float,
        default=0.0,
        help="weight of the target's distribution in the draft's loss, 0 to 1",
    )
    parser.add_argument("--group", type=int, default=128, help="inputs that share an int4 scale")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    return parser.parse_args()


def main() -> int:
    from tokenizers import Tokenizer

    import quantize_awq

    args = arguments()
    files = sorted(args.corpus.glob("*.txt"))
    held_out = [file for file in files if file.name.startswith("val_")]
    training = [file for file in files if file not in held_out]
    if not training or not held_out:
        raise SystemExit(f"{args.corpus}: needs .txt files and at least one val_*.txt")
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer_path = args.out / "tokenizer.json"
    if not tokenizer_path.is_file():
        train_tokenizer(training, args.vocab).save(str(tokenizer_path))
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    tokens = torch.from_numpy(np.concatenate([encode_file(f, tokenizer) for f in training]))
    tokens = tokens.to(args.device)
    print(f"{len(tokens) / 1e6:.1f} M tokens to train on", flush=True)
    validation = {
        file.stem[4:]: torch.from_numpy(encode_file(file, tokenizer)).to(args.device)
        for file in held_out
    }

    common = {
        "max_steps": args.max_steps,
        "batch_tokens": args.batch_tokens,
        "context": args.context,
        "long_context": args.long_context,
    }
    target = obtain(
        "target",
        args.out / "target-bf16",
        args.target,
        tokenizer,
        tokens,
        Schedule(args.target_minutes, learning_rate=2e-3, **common),
        args.device,
    )
    draft = obtain(
        "draft",
        args.out / "draft",
        args.draft,
        tokenizer,
        tokens,
        Schedule(args.draft_minutes, learning_rate=4e-3, **common),
        args.device,
        target if args.distill > 0 else None,
        args.distill,
    )
    batches = quantize_awq.calibration_batches(
        args.out / "target-bf16", held_out, 32, min(512, args.context)
    )
    shutil.rmtree(args.out / "target", ignore_errors=True)
    rounded = quantize_awq.quantize_directory(
        args.out / "target-bf16", args.out / "target", batches, args.group, args.device
    )
    report: dict = {"target": asdict(args.target), "draft": asdict(args.draft)}
    for name, ids in validation.items():
        losses = {
            kind: round(validation_loss(model, ids, args.context, args.device), 4)
            for kind, model in (("target bf16", target), ("target int4", rounded), ("draft", draft))
        }
        report[name] = {
            "loss": losses,
            "target's choice in draft's best": agreement(
                rounded, draft, ids, args.context, args.device
            ),
        }
    (args.out / "report.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
