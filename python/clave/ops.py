"""The ops that clave adds to torch, each with the computation that eager mode runs."""

from __future__ import annotations

import torch


@torch.library.custom_op("clave::rope", mutates_args=())
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = True) -> torch.Tensor:
    """Rotary embedding of x (*, L, n_heads, head_dim). cos, sin: of the angles, (L, head_dim / 2); or (B, L,
    head_dim / 2), with other angles for each element of x's batch (B, L, n_heads, head_dim).

    Rotates the pairs (2i, 2i + 1) if interleaved, otherwise (i, i + head_dim / 2): (a, b) -> (a cos - b sin, a sin +
    b cos). Returns the shape of x. From "RoFormer", https://arxiv.org/abs/2104.09864, equation 34.
    """
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    a, b = pairs.unbind(-1)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    rotated = torch.stack((a * cos - b * sin, a * sin + b * cos), -1)
    return (rotated if interleaved else rotated.transpose(-1, -2)).reshape(x.shape)


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
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Writes k and v to the caches, in place, and computes attention over all tokens so far.

    q: (B, n_heads, L, D), k: (B, n_kv, L, D), v: (B, n_kv, L, Dv), F32, F16 or BF16, of the L tokens at `position` (one
    int64), position + 1, ...; n_heads is a multiple of n_kv. key_cache: (B, n_kv, C, D), value_cache: (B, n_kv, C, Dv);
    row p mod C holds the token at p. Returns (B, n_heads, L, Dv).

    The query at p sees the keys of [0, p]. Raises IndexError if C rows cannot hold them. With window, at most C, the
    query sees the keys of (p - window, p], and p has no bound. The op then writes a prompt in pieces of C - window + 1
    tokens, so C should be larger than window.

    scale: factor of q k^T, default D ** -0.5. softcap c: replaces a score s by c * tanh(s / c). sinks: (n_heads), F32,
    a further score of each head that takes part in its softmax and has no value.

    Caches are F32, F16, BF16, or int8 with key_scale and value_scale (B, n_kv, C), F32: a row x is stored as
    round(x / s), to even, with s = max|x| / 127. Attention always reads the rounded values in the cache.
    """
    at, n, size = int(position), q.shape[2], key_cache.shape[2]
    if at < 0 or (window is None and at + n > size):
        raise IndexError(f"positions [{at}, {at + n}) exceed a cache of {size} rows")
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
        out[:, :, part] = _attend(q[:, :, part], keys, values, visible, scale, softcap, sinks)
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
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Attention of N tokens of any sequences, whose keys and values are stored in pages of R rows that sequences may
    share. Writes k and v to the pages, in place, and attends to their contents.

    q: (1, n_heads, N, D), k: (1, n_kv, N, D), v: (1, n_kv, N, Dv), F32, F16 or BF16; n_heads is a multiple of n_kv.
    Token i is at position[i] (int64) of sequence[i] (int32). Position p of sequence s is row p mod R of page
    page_table[s, p / R]; page_table: (S, P), int32. key_cache: (pages, n_kv, R, D), value_cache: (pages, n_kv, R, Dv),
    R a power of two from 16 to 65536. No two tokens may have the same row. Returns (1, n_heads, N, Dv).

    A token at p sees the keys of its sequence at [0, p], or with window at (p - window, p]. Raises IndexError for a
    sequence, position or page that does not exist. Entries of the table that no token needs can have any value. scale,
    softcap, sinks, and int8 caches with key_scale, value_scale (pages, n_kv, R): as for sdpa_with_kv_cache.
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
        out[:, :, mine] = _attend(q[:, :, mine], keys, values, visible, scale, softcap, sinks)
    return out


@sdpa_with_kv_cache.register_fake
@sdpa_with_pages.register_fake
def _(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    return q.new_empty((*q.shape[:3], v.shape[3]))


def _check_places(
    position: torch.Tensor, sequence: torch.Tensor, page_table: torch.Tensor, cache: torch.Tensor
) -> None:
    """Raises IndexError if a token's sequence or position, or a page up to it, does not exist."""
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
    """Writes x (N, n_kv, D) to (pages[i], :, rows[i]) of the cache."""
    if scale is not None:
        x, scale[pages, :, rows] = _rounded(x)
    cache[pages, :, rows] = x.to(cache.dtype)


def _joined(cache: torch.Tensor, pages: torch.Tensor) -> torch.Tensor:
    """Returns pages of a cache (pages, n_kv, R, ...) as the rows of one sequence: (1, n_kv, rows, ...)."""
    return cache[pages].transpose(0, 1).flatten(1, 2)[None]


def _rounded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns rows as an int8 cache stores them, and their scales."""
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
    sinks: torch.Tensor | None,
) -> torch.Tensor:
    groups = q.shape[1] // max(keys.shape[1], 1)
    keys, values = (t.repeat_interleave(groups, 1) for t in (keys, values))
    scores = q.float() @ keys.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    scores = scores.masked_fill(~visible, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.float()[:, None, None].expand(*scores.shape[:3], 1)], -1)
    return (torch.softmax(scores, -1)[..., : keys.shape[2]] @ values).to(q.dtype)


@torch.library.custom_op("clave::ssm_scan", mutates_args=("state",))
def ssm_scan(
    x: torch.Tensor,
    log_decay: torch.Tensor,
    b: torch.Tensor,
    c: torch.Tensor,
    state: torch.Tensor,
    rate: torch.Tensor | None = None,
) -> torch.Tensor:
    """The recurrence of a state space model over L tokens. It begins with `state` and replaces it by the last h, in
    place:

        h[t] = exp(log_decay[t] rate) h[t - 1] + x[t] b[t],  out[t] = the sum over n of h[t] c[t]

    x: (B, L, n_heads, P); log_decay: (B, L, n_heads); b, c: (B, L, n_groups, N), each shared by n_heads / n_groups
    heads; rate: (n_heads, N), or None for ones; state: (B, n_heads, P, N). Returns (B, L, n_heads, P).

    The state is F32 or F64, in which everything is computed. The other operands may be any floats.
    From "Mamba", https://arxiv.org/abs/2312.00752, algorithm 2, with dt x as x, dt as log_decay and A as rate. For
    "Mamba-2", https://arxiv.org/abs/2405.21060, log_decay is dt A.
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
