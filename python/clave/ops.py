"""Ops of clave's own for torch modules, each with the computation that torch runs when it is called eagerly."""

from __future__ import annotations

import torch


@torch.library.custom_op("clave::rope", mutates_args=())
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = True) -> torch.Tensor:
    """Rotary embedding of x: (*, L, n_heads, head_dim), by angles whose cos and sin are (L, head_dim / 2).

    Rotates the pairs (2i, 2i + 1) if interleaved, else (i, i + head_dim / 2): (a, b) -> (a cos - b sin, a sin + b cos).
    From "RoFormer", https://arxiv.org/abs/2104.09864, equation 34.
    """
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    a, b = pairs.unbind(-1)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1)
    return (turned if interleaved else turned.transpose(-1, -2)).reshape(x.shape)


@rope.register_fake
def _(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = True) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("clave::attention", mutates_args=())
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    causal: bool,
    masked: float | None,
) -> torch.Tensor:
    """softmax(q k^T * scale + mask) v, as the exporter writes what it recognises.

    q: (*, n_heads, Lq, D), k: (*, n_kv, Lk, D), v: (*, n_kv, Lk, Dv); n_heads is a multiple of n_kv, and leading sizes
    broadcast. mask: BOOL (true = attend) or q's dtype (added). masked: the score of a key that a BOOL mask hides, and
    a row of -inf is NaN, as softmax has it; None: a hidden key is left out, a row of none is 0.
    """
    groups = q.shape[-3] // max(k.shape[-3], 1)
    k, v = (t.float().repeat_interleave(groups, -3) for t in (k, v))
    scores = q.float() @ k.transpose(-1, -2) * scale
    hidden = -torch.inf if masked is None else masked
    if mask is not None:
        scores = torch.where(mask, scores, hidden) if mask.dtype == torch.bool else scores + mask
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    probabilities = torch.softmax(scores, -1)
    if masked is None:
        probabilities = probabilities.masked_fill((scores == -torch.inf).all(-1, keepdim=True), 0)
    return (probabilities @ v).to(q.dtype)


@attention.register_fake
def _(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: object, scale: float, causal: bool, masked: object
) -> torch.Tensor:
    lead = torch.broadcast_shapes(q.shape[:-3], k.shape[:-3], v.shape[:-3])
    return q.new_empty((*lead, *q.shape[-3:-1], v.shape[-1]))
