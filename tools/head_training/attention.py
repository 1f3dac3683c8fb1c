"""Attention of a head while it is unrolled: a causal prefix, and a few keys of the row's own.

In step n of the training-time test row s stands for the n-th guess after token s. It sees the prefix, which is
keys 0 to s of step 0, and its own n keys of steps 1 to n. Both parts share one softmax. The prefix goes through
PyTorch's flash attention; its backward pass takes any output and log-sum-exp, so it is given those of the whole
softmax and returns the prefix's part of the gradients. The row's own part is written out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

aten = torch.ops.aten


def _flash(q, k, v):
    """Causal attention of [batch, heads, length, dim] -> output, log-sum-exp [batch, heads, length], kept state."""
    if q.is_cuda:
        out, lse, *state, _ = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)
        return out, lse, state
    out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    return out, lse, []


def _flash_backward(grad, q, k, v, out, lse, state):
    if q.is_cuda:
        cum_q, cum_k, max_q, max_k, seed, offset = state
        return aten._scaled_dot_product_flash_attention_backward(
            grad, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, 0.0, True, seed, offset
        )
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad, q, k, v, out, lse, 0.0, True
    )


def _merge(out, lse, q, own_keys, own_values):
    """Adds the row's own keys [steps, batch, heads, length, dim] to an attended prefix."""
    scores = (q * own_keys).float().sum(-1) * q.shape[-1] ** -0.5
    total = torch.logaddexp(lse, scores.logsumexp(0))
    own = ((scores - total).exp()[..., None] * own_values.float()).sum(0)
    return (out.float() * (lse - total).exp()[..., None] + own).to(q.dtype), total


def _own_gradients(grad, out, total, q, own_keys, own_values):
    """Gradients by q (the part of its own keys), own_keys and own_values."""
    scale = q.shape[-1] ** -0.5
    grad = grad.float()
    scores = (q * own_keys).float().sum(-1) * scale
    weights = (scores - total).exp()
    delta = (grad * out.float()).sum(-1)
    by_scores = weights * ((grad * own_values.float()).sum(-1) - delta) * scale
    by_q = (by_scores[..., None] * own_keys.float()).sum(0).to(q.dtype)
    by_keys = (by_scores[..., None] * q.float()).to(q.dtype)
    return by_q, by_keys, (weights[..., None] * grad).to(q.dtype)


_compiled = {}


def _on(tensor: torch.Tensor, function):
    """The function, compiled where the tensor lies on a GPU."""
    if not tensor.is_cuda:
        return function
    return _compiled.setdefault(function, torch.compile(function))


class _PrefixAndOwn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, keys, values, own_keys, own_values):
        prefix, lse, state = _flash(q, keys, values)
        if q.is_cuda:  # one compilation for any number of steps
            torch._dynamo.maybe_mark_dynamic(own_keys, 0)
            torch._dynamo.maybe_mark_dynamic(own_values, 0)
        out, total = _on(q, _merge)(prefix, lse, q, own_keys, own_values)
        ctx.save_for_backward(q, keys, values, own_keys, own_values, out, total)
        ctx.state = state
        return out

    @staticmethod
    def backward(ctx, grad):
        q, keys, values, own_keys, own_values, out, total = ctx.saved_tensors
        grad = grad.contiguous()
        by_q, by_keys, by_values = _flash_backward(grad, q, keys, values, out, total, ctx.state)
        if q.is_cuda:
            torch._dynamo.maybe_mark_dynamic(own_keys, 0)
            torch._dynamo.maybe_mark_dynamic(own_values, 0)
        own = _on(q, _own_gradients)(grad, out, total, q, own_keys, own_values)
        return by_q + own[0], by_keys, by_values, own[1], own[2]


def attend(q, keys, values, own_keys, own_values):
    """All of [batch, heads, length, dim]; own_keys and own_values are lists of such, one a step, maybe empty."""
    if not own_keys:
        return F.scaled_dot_product_attention(q, keys, values, is_causal=True)
    return _PrefixAndOwn.apply(q, keys, values, torch.stack(own_keys), torch.stack(own_values))
