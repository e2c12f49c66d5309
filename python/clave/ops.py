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


@torch.library.custom_op(
    "clave::sdpa_with_pages", mutates_args=("key_cache", "value_cache", "key_scale", "value_scale")
)
def sdpa_with_pages(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    position: torch.Tensor,
    sequence: torch.Tensor,
    page_table: torch.Tensor,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
) -> torch.Tensor:
    """Attention of N tokens of any sequences, whose keys and values lie in pages of R rows that sequences may share:
    writes k and v there, in place, and attends to what is there.

    q: (1, n_heads, N, D), k: (1, n_kv, N, D), v: (1, n_kv, N, Dv), F32, F16 or BF16; n_heads is a multiple of n_kv.
    Token i stands at position[i] (int64) of sequence[i] (int32). Position p of sequence s is row p mod R of page
    page_table[s, p / R]; page_table: (S, P), int32. key_cache: (pages, n_kv, R, D), value_cache: (pages, n_kv, R, Dv),
    R a power of two from 16 to 65536. No two tokens may stand at one row. Returns (1, n_heads, N, Dv).

    A token at p sees the keys of its sequence at [0, p], with window at (p - window, p]. A sequence, position or page
    that is not there is an IndexError; entries of the table that no token needs may be anything.
    scale, softcap, and caches of int8 with key_scale, value_scale (pages, n_kv, R): as of sdpa_with_kv_cache.
    """
    rows = key_cache.shape[2]
    _check_places(position, sequence, page_table, key_cache)
    pages = page_table[sequence.long(), position // rows].long()
    for x, cache, of in ((k, key_cache, key_scale), (v, value_cache, value_scale)):
        _store_in_pages(x[0].transpose(0, 1), pages, position % rows, cache, of)
    out = q.new_empty((*q.shape[:3], v.shape[3]))
    for s in sequence.unique().tolist():
        mine = (sequence == s).nonzero()[:, 0]
        at, seen = position[mine], torch.arange(int(position[mine].max()) + 1, device=q.device)
        table = page_table[s, : len(seen) // rows + (len(seen) % rows > 0)].long()
        keys, values = (
            _stored(seen, _joined(cache, table), None if of is None else _joined(of, table))
            for cache, of in ((key_cache, key_scale), (value_cache, value_scale))
        )
        distance = at[:, None] - seen
        visible = (distance >= 0) if window is None else (distance >= 0) & (distance < window)
        out[:, :, mine] = _attend(q[:, :, mine], keys, values, visible, scale, softcap)
    return out


@sdpa_with_kv_cache.register_fake
@sdpa_with_pages.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    return q.new_empty((*q.shape[:3], v.shape[3]))


def _check_places(
    position: torch.Tensor, sequence: torch.Tensor, page_table: torch.Tensor, cache: torch.Tensor
) -> None:
    """Each token's place, and the pages before it, are there."""
    n_pages, rows = cache.shape[0], cache.shape[2]
    for p, s in zip(position.tolist(), sequence.tolist(), strict=True):
        if not 0 <= s < page_table.shape[0]:
            raise IndexError(f"sequence {s} of a page table of {page_table.shape[0]}")
        if not 0 <= p < page_table.shape[1] * rows:
            raise IndexError(f"position {p} in {page_table.shape[1]} pages of {rows} rows")
        pages = page_table[s, : p // rows + 1]
        if not bool(((pages >= 0) & (pages < n_pages)).all()):
            raise IndexError(f"pages {pages.tolist()} of {n_pages}")


def _store_in_pages(
    x: torch.Tensor, pages: torch.Tensor, rows: torch.Tensor, cache: torch.Tensor, scale: torch.Tensor | None
) -> None:
    """x: (N, n_kv, D) to (pages[i], :, rows[i]) of the cache."""
    if scale is not None:
        x, scale[pages, :, rows] = _rounded(x)
    cache[pages, :, rows] = x.to(cache.dtype)


def _joined(cache: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    """(pages, n_kv, R, ...) as the rows of one sequence: (1, n_kv, rows, ...)."""
    return cache[pages].transpose(0, 1).flatten(1, 2)[None]


def _rounded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows as what int8 caches hold, and their scales."""
    x = x.float()
    largest = x.abs().amax(-1) / 127
    return torch.where(largest[..., None] > 0, torch.round(x / largest[..., None]), 0), largest


def _store(x: torch.Tensor, rows: torch.Tensor, cache: torch.Tensor, scale: torch.Tensor | None) -> None:
    if scale is not None:
        x, scale[:, :, rows] = _rounded(x)
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


@torch.library.custom_op("clave::ssm_scan", mutates_args=("state",))
def ssm_scan(
    x: torch.Tensor,
    log_decay: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    state: torch.Tensor,
    rate: torch.Tensor | None = None,
) -> torch.Tensor:
    """The recurrence of a state space model over L tokens, from `state` on, which becomes the last h, in place:

        h[t] = exp(log_decay[t] rate) h[t - 1] + x[t] b[t],  out[t] = the sum over n of h[t] c[t]

    x: (B, L, n_heads, P); log_decay: (B, L, n_heads); b, c: (B, L, n_groups, N), each shared by n_heads / n_groups
    heads; rate: (n_heads, N), or None for ones; state: (B, n_heads, P, N). Returns (B, L, n_heads, P).

    The state is F32 or F64, which is what it is computed in; the others may be any floats.
    From "Mamba", https://arxiv.org/abs/2312.00752, algorithm 2, where x is dt x, log_decay dt and rate A; "Mamba-2",
    https://arxiv.org/abs/2405.21060, has log_decay dt A.
    """
    share = x.shape[2] // max(b.shape[2], 1)
    out, h = x.new_empty(x.shape), state
    for t in range(x.shape[1]):
        exponent = log_decay[:, t, :, None].to(h.dtype) * (1 if rate is None else rate.to(h.dtype))
        b_t, c_t = (y[:, t].to(h.dtype).repeat_interleave(share, 1)[:, :, None] for y in (b, c))
        h = torch.exp(exponent)[:, :, None] * h + x[:, t, :, :, None].to(h.dtype) * b_t
        out[:, t] = (h * c_t).sum(-1)
    if h is not state:
        state.copy_(h)
    return out


@ssm_scan.register_fake
def _(x: torch.Tensor, log_decay: object, b: object, c: object, state: object, rate: object = None) -> torch.Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)
