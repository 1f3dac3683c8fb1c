"""The loss of a head: cross-entropy with the target's whole distribution, which is its divergence from it.

Logits of a batch would not fit beside each other, so rows go in chunks, and gradients are made in the forward pass.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

CHUNK_LOGITS = 1 << 28  # of one chunk, on a GPU; elsewhere a sixteenth of it


def _teach(logits):
    """Probabilities and best token of each row."""
    wide = logits.float()
    return wide.softmax(-1).to(logits.dtype), wide.argmax(-1)


def _student(logits, wanted, best, weights):
    """Gradient by logits, weighted loss and number of rows that agree in their best token, of rows with a weight."""
    wide = logits.float()
    lse = wide.logsumexp(-1, keepdim=True)
    loss = ((lse[:, 0] - (wanted.float() * wide).sum(-1)) * weights).sum()
    gradient = ((wide - lse).exp() - wanted.float()) * weights[:, None]
    agreed = ((wide.argmax(-1) == best) & (weights > 0)).sum()
    return gradient.to(logits.dtype), loss, agreed


_compiled = {}


def _on(tensor, function):
    if not tensor.is_cuda:
        return function
    return _compiled.setdefault(function, torch.compile(function))


class _SoftCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, students, weight, teacher, teacher_weight, weights):
        steps, rows, _ = students.shape
        dtype = teacher.dtype
        lm = weight.detach().to(dtype)
        by_students = torch.zeros_like(students, dtype=dtype)
        by_weight = torch.zeros_like(weight) if weight.requires_grad else None
        losses, agreed = (torch.zeros(steps, device=students.device) for _ in range(2))
        room = CHUNK_LOGITS if students.is_cuda else CHUNK_LOGITS // 16
        chunk = max(1, room // lm.shape[0])
        with torch.autocast(students.device.type, enabled=False):
            for begin in range(0, rows, chunk):
                part = slice(begin, begin + chunk)
                wanted, best = _on(lm, _teach)(F.linear(teacher[part], teacher_weight))
                for step in range(steps):
                    x = students[step, part].to(dtype)
                    gradient, loss, hits = _on(lm, _student)(
                        F.linear(x, lm), wanted, best, weights[step, part]
                    )
                    losses[step] += loss
                    agreed[step] += hits
                    by_students[step, part] = gradient @ lm
                    if by_weight is not None:
                        by_weight += gradient.t() @ x
        ctx.gradients = by_students, by_weight
        return losses.sum(), losses, agreed

    @staticmethod
    def backward(ctx, grad, *_):
        by_students, by_weight = ctx.gradients
        return by_students * grad, None if by_weight is None else by_weight * grad, None, None, None


def soft_cross_entropy(students, weight, teacher, teacher_weight, weights):
    """students [steps, rows, width], weight [vocab, width]; teacher [rows, width] and its weight, without gradients;
    weights [steps, rows]: what each row counts in the sum.

    Returns the loss, its parts by step, and by step how many rows with a weight agree in the best token.
    """
    return _SoftCrossEntropy.apply(students, weight, teacher, teacher_weight, weights)
