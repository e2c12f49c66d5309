"""Ops of clave's own for torch modules, each with the computation that torch runs when it is called eagerly."""

from __future__ import annotations

import torch


@torch.library.custom_op("clave::rope", mutates_args=())
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = True) -> torch.Tensor:
    """Rotary embedding of x: (*, L, n_heads, head_dim), by angles whose cos and sin are (L, head_dim / 2), or (B, L,
    head_dim / 2) for angles of each of x's (B, L, n_heads, head_dim).

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


@torch.library.custom_op(
    "clave::sdpa_with_kv_cache", mutates_args=("key_cache", "value_cache", "key_scale", "value_scale")
)
def sdpa_with_kv_cache(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    position: torch.Tensor,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attention over all tokens so far: writes k and v to the caches, in place, and attends to what is in them.

    q: (B, n_heads, L, D), k: (B, n_kv, L, D), v: (B, n_kv, L, Dv), F32, F16 or BF16, of the L tokens at `position` (one
    int64), position + 1, ...; n_heads is a multiple of n_kv. key_cache: (B, n_kv, C, D), value_cache: (B, n_kv, C, Dv):
    the token at p is row p mod C. Returns (B, n_heads, L, Dv).

    The query at p sees the keys of [0, p], which must be rows of the cache: else IndexError. With window, at most C, it
    sees those of (p - window, p], and p has no bound. A prompt goes to the cache in pieces of C - window + 1 tokens, so
    leave some room.
    scale: of q k^T, default D ** -0.5. softcap c: a score s becomes c * tanh(s / c).

    Caches may be F32, F16, BF16, or int8 with key_scale and value_scale (B, n_kv, C), F32: a row x is stored as
    round(x / s), to even, with s = max|x| / 127. What is attended to is always what the cache holds.
    """
    at, n, size = int(position), q.shape[2], key_cache.shape[2]
    if at < 0 or (window is None and at + n > size):
        raise IndexError(f"positions [{at}, {at + n}) do not fit into a cache of {size} rows")
    out = q.new_empty((*q.shape[:3], v.shape[3]))
    room = n if window is None else size - window + 1
    for i in range(0, n, max(room, 1)):
        part, p = slice(i, i + room), at + i
        m = k[:, :, part].shape[2]
        rows = torch.arange(p, p + m, device=q.device) % size
        _store(k[:, :, part], rows, key_cache, key_scale)
        _store(v[:, :, part], rows, value_cache, value_scale)
        seen = torch.arange(0 if window is None else max(0, p - window + 1), p + m, device=q.device)
        keys = _stored(seen % size, key_cache, key_scale)
        values = _stored(seen % size, value_cache, value_scale)
        distance = torch.arange(p, p + m, device=q.device)[:, None] - seen
        visible = (distance >= 0) if window is None else (distance >= 0) & (distance < window)
        out[:, :, part] = _attend(q[:, :, part], keys, values, visible, scale, softcap)
    return out


@sdpa_with_kv_cache.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    position: torch.Tensor,
    key_scale: object = None,
    value_scale: object = None,
    window: object = None,
    scale: object = None,
    softcap: object = None,
) -> torch.Tensor:
    return q.new_empty((*q.shape[:3], v.shape[3]))


def _store(x: torch.Tensor, rows: torch.Tensor, cache: torch.Tensor, scale: torch.Tensor | None) -> None:
    if scale is not None:
        x = x.float()
        largest = x.abs().amax(-1) / 127
        scale[:, :, rows] = largest
        x = torch.where(largest[..., None] > 0, torch.round(x / largest[..., None]), 0)
    cache[:, :, rows] = x.to(cache.dtype)


def _stored(rows: torch.Tensor, cache: torch.Tensor, scale: torch.Tensor | None) -> torch.Tensor:
    x = cache[:, :, rows].float()
    return x if scale is None else x * scale[:, :, rows, None]


def _attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    visible: torch.Tensor,
    scale: float | None,
    softcap: float | None,
) -> torch.Tensor:
    groups = q.shape[1] // max(keys.shape[1], 1)
    keys, values = (t.repeat_interleave(groups, 1) for t in (keys, values))
    scores = q.float() @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    return (torch.softmax(scores.masked_fill(~visible, -torch.inf), -1) @ values).to(q.dtype)
