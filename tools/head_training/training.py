"""Training a head: batches, the schedule, several processes, and a state that outlives a piece of the run.

The learning rate follows the share of the planned minutes that is over, whichever pieces they came in. With
WORLD_SIZE and RANK set, as torchrun does, each process takes its share of the rows and gradients are averaged.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed

from head_training.head import Head, Unrolled
from head_training.loss import soft_cross_entropy
from head_training.target import Target
from head_training.token_file import TokenRows

LOWEST_RATE = 0.01  # of the peak, at the end
LM_HEAD_PART = 0.25  # of the rate: an LM head starts as the target's


@dataclass(frozen=True)
class Plan:
    minutes: float  # of this piece
    of_minutes: float  # of the whole run
    batch_tokens: int  # of one process
    learning_rate: float
    warmup: int
    weight_decay: float
    clip: float
    unroll: int
    decay: float  # of a step's weight in the loss, from one step to the next
    optimizer: str
    max_steps: int | None
    log_every: int
    seed: int


@dataclass
class Progress:
    """What has been done, over all pieces."""

    steps: int = 0
    tokens: int = 0  # over all processes
    seconds: float = 0.0
    curve: list[dict] = field(default_factory=list)


class Processes:
    """This process among those that train together; alone where the environment names none."""

    def __init__(self) -> None:
        self.count = int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = int(os.environ.get("RANK", "0"))
        if torch.cuda.is_available():
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
            torch.cuda.set_device(self.device)
        else:
            self.device = torch.device("cpu")
        if self.count > 1:
            torch.distributed.init_process_group("nccl" if self.device.type == "cuda" else "gloo")

    def mean(self, values: torch.Tensor) -> None:
        """Averages a tensor over the processes, in place."""
        if self.count > 1:
            torch.distributed.all_reduce(values)
            values /= self.count

    def close(self) -> None:
        if self.count > 1:
            torch.distributed.destroy_process_group()


def batches(
    parts: list[TokenRows], plan: Plan, rank: int, steps: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of one file's rows each, for ever; every epoch in another order, files mixed."""
    generator = torch.Generator().manual_seed(plan.seed + 7919 * rank + 104729 * steps)
    while True:
        epoch = []
        for idx, part in enumerate(parts):
            size = min(len(part), max(1, plan.batch_tokens // part.tokens.shape[1]))
            order = torch.randperm(len(part), generator=generator)
            epoch += [(idx, rows) for rows in order.split(size) if len(rows) == size]
        for at in torch.randperm(len(epoch), generator=generator).tolist():
            idx, rows = epoch[at]
            rows = rows.to(parts[idx].tokens.device)
            yield parts[idx].tokens[rows].long(), parts[idx].made[rows]


class Lesson:
    """The loss of a batch: each step of the unrolled head against the target, at tokens that the target chose."""

    def __init__(self, head: Head, target: Target, unroll: int, decay: float) -> None:
        self.head, self.target, self.unroll = head, target, unroll
        self.unrolled = Unrolled(head, target)
        parts = decay ** torch.arange(unroll, dtype=torch.float32, device=target.device)
        self.parts = parts / parts.sum()
        whole = head.shape.draft_vocab == target.vocab_size
        self.teacher_weight = target.head if whole else target.head[head.tokens]

    def __call__(self, tokens: torch.Tensor, made: torch.Tensor):
        """tokens and made [batch, length] -> loss, and by step: its sum, agreements, rows that count."""
        hidden, taps = self.target.hidden_states(tokens, self.head.taps)
        # The target's row t chooses token t + 1.
        teaches = torch.zeros_like(made)
        teaches[:, :-1] = made[:, 1:]
        rows = teaches.flatten().nonzero()[:, 0]
        at = rows % tokens.shape[1]
        with torch.autocast(
            tokens.device.type, torch.bfloat16, enabled=self.target.dtype == torch.bfloat16
        ):
            outputs = self.unrolled(tokens, taps, self.unroll)
        # Row s of step n guesses what the target's row s + n + 1 chooses.
        back = [step + 1 for step in range(self.unroll)]
        students = torch.stack(
            [output.flatten(0, 1)[(rows - by).clamp_min(0)] for output, by in zip(outputs, back)]
        )
        counts = torch.stack([at >= by for by in back]).float()
        number = counts.sum(1)
        weights = counts * (self.parts / number.clamp_min(1))[:, None]
        loss, by_step, agreed = soft_cross_entropy(
            students,
            self.head.lm_weight(self.target),
            hidden.flatten(0, 1)[rows],
            self.teacher_weight,
            weights,
        )
        return loss, torch.stack([by_step / self.parts * number, agreed, number])


def optimizers_of(head: Head, plan: Plan) -> list[torch.optim.Optimizer]:
    """AdamW; or Muon for the matrices of the layer and AdamW for the rest. A group's `part` is of the rate."""
    matrices, others, lm_head = [], [], []
    for name, parameter in head.named_parameters():
        is_hidden = parameter.dim() == 2 and plan.optimizer == "muon"
        (lm_head if name.startswith("lm_head") else matrices if is_hidden else others).append(
            parameter
        )
    groups = [{"params": others, "part": 1.0}, {"params": lm_head, "part": LM_HEAD_PART}]
    made: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(
            [group for group in groups if group["params"]],
            betas=(0.9, 0.95),
            weight_decay=plan.weight_decay,
            fused=next(head.parameters()).is_cuda,
        )
    ]
    if matrices:
        groups = [{"params": matrices, "part": 1.0}]
        made.append(
            torch.optim.Muon(groups, weight_decay=plan.weight_decay, adjust_lr_fn="match_rms_adamw")
        )
    return made


def rate_at(share: float, steps: int, plan: Plan) -> float:
    """The learning rate once `share` of the run is over: a cosine, behind a warm-up counted in steps."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
    return (
        plan.learning_rate
        * min(1.0, (steps + 1) / plan.warmup)
        * (LOWEST_RATE + (1 - LOWEST_RATE) * cosine)
    )


def average_gradients(head: Head, seconds: float, processes: Processes) -> float:
    """Averages gradients and `seconds` over the processes, so that all agree when a piece ends."""
    if processes.count == 1:
        return seconds
    gradients = [parameter.grad for parameter in head.parameters()]
    flat = torch.cat(
        [gradient.flatten() for gradient in gradients] + [gradients[0].new_tensor([seconds])]
    )
    processes.mean(flat)
    at = 0
    for gradient in gradients:
        gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
        at += gradient.numel()
    return float(flat[-1])


@torch.no_grad()
def agreement(lesson: Lesson, parts: list[TokenRows], batch_tokens: int) -> list[float]:
    """By step, how often the head's best token is the target's, on rows that were held out."""
    sums = 0
    for part in parts:
        for rows in torch.arange(len(part)).split(max(1, batch_tokens // part.tokens.shape[1])):
            sums = sums + lesson(part.tokens[rows].long(), part.made[rows])[1]
    return [round(value, 4) for value in (sums[1] / sums[2].clamp_min(1)).tolist()]


def train(
    head: Head,
    target: Target,
    parts: list[TokenRows],
    state_path: Path,
    plan: Plan,
    processes: Processes,
    report,
):
    """Trains for a piece of the run and keeps its state; `report` takes each entry of the curve.

    Returns the progress, whether the run is over, and the lesson. Raises ValueError where the state is of another run.
    """
    device = target.device
    parts = [TokenRows(part.tokens.to(device), part.made.to(device)) for part in parts]
    parts = [part.part(slice(processes.rank, None, processes.count)) for part in parts]
    lesson = Lesson(head, target, plan.unroll, plan.decay)
    optimizers = optimizers_of(head, plan)
    progress = Progress()
    kind = vars(head.shape) | {"taps": head.taps, "optimizer": plan.optimizer}
    if state_path.exists():
        state = torch.load(state_path, map_location=device, weights_only=True)
        if state["kind"] != kind:
            raise ValueError(
                f"{state_path}: found a run of {state['kind']}; accepted: {kind}, or another folder"
            )
        head.load_state_dict(state["head"])
        for optimizer, kept in zip(optimizers, state["optimizers"]):
            optimizer.load_state_dict(kept)
        progress = Progress(**state["progress"])
    begun = time.monotonic()
    spent, elapsed, sums, logged = progress.seconds, 0.0, 0, 0.0

    def is_over() -> bool:
        if plan.max_steps is not None:
            return progress.steps >= plan.max_steps
        return spent + elapsed >= plan.of_minutes * 60

    for tokens, made in batches(parts, plan, processes.rank, progress.steps):
        if is_over() or elapsed >= plan.minutes * 60:
            break
        share = (
            progress.steps / plan.max_steps
            if plan.max_steps
            else (spent + elapsed) / (plan.of_minutes * 60)
        )
        rate = rate_at(share, progress.steps, plan)
        loss, figures = lesson(tokens, made)
        head.zero_grad(set_to_none=True)
        loss.backward()
        elapsed = average_gradients(head, time.monotonic() - begun, processes)
        norm = torch.nn.utils.clip_grad_norm_(head.parameters(), plan.clip)
        if bool(torch.isfinite(norm)):
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = rate * group["part"]
                optimizer.step()
        progress.steps += 1
        progress.tokens += tokens.numel() * processes.count
        progress.seconds = spent + elapsed
        sums = sums + figures
        if progress.steps % plan.log_every == 0:
            sums = sums.clone()
            processes.mean(sums)
            means = sums[:2] / sums[2].clamp_min(1)
            entry = {
                "step": progress.steps,
                "tokens": progress.tokens,
                "seconds": round(progress.seconds, 1),
                "rate": rate,
                "gradient_norm": round(float(norm), 4),
                "ms_a_step": round((elapsed - logged) / plan.log_every * 1e3, 1),
                "loss": [round(value, 4) for value in means[0].tolist()],
                "agreement": [round(value, 4) for value in means[1].tolist()],
            }
            progress.curve.append(entry)
            sums, logged = 0, elapsed
            if processes.rank == 0:
                report(entry)
    if processes.rank == 0:
        state_path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(
            {
                "kind": kind,
                "head": head.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                "progress": vars(progress),
            },
            state_path,
        )
    return progress, is_over(), lesson
