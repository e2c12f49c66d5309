"""Scaled dot product attention. Tolerance: two sums (head_dim and keys) and a softmax, all in f32."""

import math

import torch
import torch.nn.functional as fn

from clave.ops import sdpa_with_kv_cache
from describe import BF16, BOOL, F16, F32, F64, FLOATS, I8, I64, Case, T, name_of

attention = fn.scaled_dot_product_attention
TOLERANCE = {F32: 2e-5, F64: 1e-12, F16: 2e-5, BF16: 2e-5}


def qkv(dtype, batch=2, heads=4, kv=None, queries=5, keys=9, dim=8, v_dim=None):
    kv = kv or heads
    return [
        T((batch, heads, queries, dim), dtype),
        T((batch, kv, keys, dim), dtype),
        T((batch, kv, keys, v_dim or dim), dtype),
    ]


def cases():
    for dtype in FLOATS:
        d, tol = name_of(dtype), {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        yield Case(f"plain_{d}", attention, qkv(dtype), **tol)
        yield Case(f"causal_{d}", lambda q, k, v: attention(q, k, v, is_causal=True), qkv(dtype, queries=9), **tol)
        yield Case(f"scaled_{d}", lambda q, k, v: attention(q, k, v, scale=0.3), qkv(dtype), **tol)
        yield Case(
            f"grouped_{d}", lambda q, k, v: attention(q, k, v, enable_gqa=True), qkv(dtype, heads=6, kv=2), **tol
        )
        yield Case(f"bool_mask_{d}", lambda q, k, v, m: attention(q, k, v, m), [*qkv(dtype), T((5, 9), BOOL)], **tol)
        yield Case(
            f"float_mask_{d}",
            lambda q, k, v, m: attention(q, k, v, m),
            [*qkv(dtype), T((2, 1, 5, 9), dtype, -3, 3)],
            **tol,
        )
        yield Case(f"one_query_{d}", attention, qkv(dtype, queries=1, keys=33, dim=16), **tol)
        yield Case(f"odd_{d}", attention, qkv(dtype, batch=1, heads=3, queries=7, keys=13, dim=5, v_dim=3), **tol)
    yield from special_cases()
    yield from shape_cases()
    yield from hidden_cases()
    yield from cached_cases()
    yield from unwritten_cases()
    yield from ring_cases()
    yield from block_cases()


def special_cases():
    """Computes scores that are finite only after scaling, and infinite values."""
    for dtype in (F32, BF16):
        tol = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        for queries, keys, dim in ((1, 6, 3), (20, 6, 3), (1, 9, 300), (20, 9, 300)):
            q, k, v = qkv(dtype, batch=1, heads=1, queries=queries, keys=keys, dim=dim, v_dim=2)
            q.values, k.values = (3e38, *[0.0] * (dim - 1)), (1.75, *[0.0] * (dim - 1))
            name = f"{name_of(dtype)}_{queries}_of_{dim}"
            whole = "torch's kernels scale q and k, or their product, which overflows"
            one = lambda q, k, v: attention(q, k, v, scale=0.5)
            yield Case(f"huge_scores_{name}", one, [q, k, v], whole=whole, **tol)
            q, k, v = qkv(dtype, batch=1, heads=2, queries=queries, keys=keys, dim=dim, v_dim=2)
            v.values = (*[0.5, -0.25] * (keys - 1), math.inf, -math.inf)
            yield Case(f"infinite_values_{name}", attention, [q, k, v], **tol)


def shape_cases():
    tol = {"rtol": 2e-5, "atol": 2e-5}
    yield Case("rank3", attention, [T((4, 5, 8)), T((4, 9, 8)), T((4, 9, 8))], **tol)
    yield Case(
        "long",
        lambda q, k, v: attention(q, k, v, is_causal=True),
        qkv(F32, batch=1, heads=2, queries=130, keys=130, dim=64),
        **tol,
    )
    yield Case("wide_head", attention, qkv(F32, heads=2, dim=128), **tol)
    yield Case("causal_wide", lambda q, k, v: attention(q, k, v, is_causal=True), qkv(F32, queries=3, keys=7), **tol)
    yield Case("causal_tall", lambda q, k, v: attention(q, k, v, is_causal=True), qkv(F32, queries=7, keys=3), **tol)
    split = lambda q, k, v: (
        attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2).flatten(2)
    )
    yield Case("projected", split, [T((2, 5, 4, 8)), T((2, 9, 4, 8)), T((2, 9, 4, 8))], **tol)
    many = [T((2, 100, 2, 24)), T((2, 523, 2, 24)), T((2, 523, 2, 20))]  # rows of keys are copied together
    yield Case("projected_many", split, many, **tol)
    yield Case("masked_keys", masked_keys, qkv(F32), **tol)
    yield Case("by_hand", by_hand, qkv(F32), **tol)
    large = [T((1, 2, 4, 8), F32, 20, 30), T((1, 2, 6, 8), F32, 20, 30), T((1, 2, 6, 8))]
    yield Case("large_scores", attention, large, rtol=1e-3, atol=1e-3)
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    yield Case("module", SelfAttention(module), [T((2, 7, 16))], **tol)


def hidden_cases():
    """Attention from separate ops: a masked key has a score, and a row of -inf is NaN, where torch's op returns 0."""
    fills = {"inf": -math.inf, "min": torch.finfo(F32).min, "some": -2.0}
    rows = [T((2, 1, 5, 9), BOOL, values=(*[False] * 9, *[True, False] * 9)), T((2, 1, 5, 9), BOOL)]
    for dtype in (F32, F64, F16):
        tol = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        for name, fill in fills.items():
            if dtype is F16 and name == "min":
                continue
            hide = lambda q, k, v, m, f=fill: torch.softmax(torch.where(m, q @ k.transpose(-2, -1), f), -1) @ v
            inputs = [*qkv(dtype), rows[0]], [*qkv(dtype), rows[1]]
            whole = "the program has one op, attention"
            yield Case(f"hidden_{name}_{name_of(dtype)}", hide, *inputs, whole=whole, **tol)
    tol = {"rtol": 2e-5, "atol": 2e-5}
    added = lambda q, k, v, m: torch.softmax(q @ k.transpose(-2, -1) + m, -1) @ v
    yield Case("added_inf", added, [*qkv(F32), T((5, 9), values=(-math.inf,) * 12 + (0.0,))], **tol)
    one = qkv(F32, queries=1, keys=300, dim=16)
    hide = lambda q, k, v, m: torch.softmax((q @ k.mT).masked_fill(m, -math.inf), -1) @ v
    yield Case("hidden_row", hide, [*one, T((300,), BOOL, values=(True,))], [*one, T((300,), BOOL)], **tol)
    yield Case(
        "hidden_by_sdpa",
        attention_of_none,
        [*qkv(F32), T((5, 9), values=(-math.inf,)), T((5, 9), BOOL, values=(False,))],
        **tol,
    )
    yield Case("no_keys", lambda q, k, v: (attention(q, k, v), by_hand(q, k, v)), qkv(F32, keys=0), **tol)
    yield Case(
        "repeated_by_hand",
        lambda q, k, v: by_hand(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)),
        qkv(F32, kv=2),
        **tol,
    )
    shared = lambda q, k, v: (
        by_hand(q, k[:, :1], v[:, :1]),
        attention(q, k[:, :1], v[:, :1]),
        attention(q[0], k[0], v[0]),
        attention(q[0, 0], k[0, 0], v[0, 0]),
    )
    yield Case("shared_heads", shared, qkv(F32), **tol)


def attention_of_none(q, k, v, m, n):
    return attention(q, k, v, m), attention(q, k, v, n)


class SelfAttention(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x, x, x, need_weights=False)[0]


def masked_keys(q, k, v):
    return attention(q, k, v, attn_mask=(torch.arange(9) < 6)[None, :].expand(5, 9))


def by_hand(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return torch.softmax(scores, -1) @ v


class Cached(torch.nn.Module):
    """q: (B, L, n_heads, D), k and v: (B, L, n_kv, D or v_dim), as a model projects them; the position is ().
    unwritten: the value of cache rows that are not written yet; in int8 caches, the value of their scales."""

    def __init__(self, kv=2, rows=12, dim=8, v_dim=None, batch=1, dtype=F32, unwritten=0.0, sinks=None, **kwargs):
        super().__init__()
        self.kwargs = kwargs
        self.sinks = None if sinks is None else torch.nn.Parameter(torch.tensor(sinks), requires_grad=False)
        codes = 99 if dtype is I8 else unwritten
        self.register_buffer("keys", torch.full((batch, kv, rows, dim), codes, dtype=dtype))
        self.register_buffer("values", torch.full((batch, kv, rows, v_dim or dim), codes, dtype=dtype))
        for name in ("key_scale", "value_scale"):
            self.register_buffer(name, torch.full((batch, kv, rows), unwritten) if dtype is I8 else None)

    def forward(self, q, k, v, position):
        scales = (self.key_scale, self.value_scale)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        more = self.kwargs if self.sinks is None else self.kwargs | {"sinks": self.sinks}
        return sdpa_with_kv_cache(q, k, v, self.keys, self.values, position, *scales, **more)


LENGTH = torch.export.Dim("length", min=1, max=1000)
ANY_LENGTH = ({1: LENGTH}, {1: LENGTH}, {1: LENGTH}, None)


def cached(name, first, then, dtype=F32, cache=None, heads=4, kv=2, dim=8, v_dim=None, batch=1, **kwargs):
    """Runs the inputs of `first`, of `then` and of `first` again; each is (length, position)."""
    new = lambda n, at: [
        T((batch, n, heads, dim), dtype),
        T((batch, n, kv, dim), dtype),
        T((batch, n, kv, v_dim or dim), dtype),
        T((), I64, values=(at,)),
    ]
    module = Cached(kv, dim=dim, v_dim=v_dim, batch=batch, dtype=cache or dtype, **kwargs)
    tol = TOLERANCE[dtype]
    shapes = ANY_LENGTH if first[0] != then[0] and min(first[0], then[0]) > 0 else None
    return Case(
        f"cached_{name}",
        module,
        new(*first),
        other=new(*then),
        rtol=tol,
        atol=tol,
        state=True,
        dynamic_shapes=shapes,
    )


def cached_cases():
    for dtype in (F32, F16, BF16):
        for cache in (F32, F16, BF16, I8):
            yield cached(f"{name_of(dtype)}_in_{name_of(cache)}", (5, 0), (1, 5), dtype, cache)
    for dim in (1, 3, 80, 256, 300):
        yield cached(f"dim_{dim}", (5, 0), (2, 5), dim=dim)
        yield cached(f"dim_{dim}_i8", (5, 0), (1, 5), dim=dim, cache=I8)
    yield cached("batch", (3, 1), (2, 4), batch=2, v_dim=5)
    for heads in (1, 2, 3, 8, 20):
        yield cached(f"share_{heads}", (4, 0), (1, 4), heads=heads, kv=1)
    yield cached("last", (1, 11), (1, 0))
    yield cached("all", (12, 0), (1, 11))
    yield cached("none", (0, 3), (0, 12))
    yield cached("scaled", (5, 0), (1, 5), scale=0.3, softcap=1.5)
    yield cached("scaled_i8", (20, 0), (1, 20), rows=40, cache=I8, scale=0.3, softcap=1.5, dtype=F16)
    sinks = (0.5, -3.0, 20.0, -torch.inf)  # most of the weight, none, and a score that is hidden
    yield cached("sinks", (5, 0), (1, 5), sinks=sinks)
    yield cached("sinks_batch", (3, 1), (2, 4), batch=2, v_dim=5, sinks=sinks)
    yield cached("sinks_i8", (20, 0), (1, 20), rows=40, cache=I8, scale=0.3, softcap=1.5, dtype=F16, sinks=sinks)
    yield cached("sinks_ring", (20, 0), (3, 20), rows=9, window=4, kv=1, sinks=sinks)
    yield cached("sinks_split", (600, 0), (1, 600), rows=700, kv=1, dim=16, sinks=sinks)
    yield cached("sinks_blocks", (70, 0), (40, 70), rows=120, dim=64, sinks=sinks)
    yield cached("split", (600, 0), (1, 600), rows=700, heads=2, kv=1, dim=16)
    yield cached("split_i8", (600, 0), (3, 600), rows=700, heads=2, kv=1, dim=16, cache=I8)
    odd = T((1, 5, 2, 8), values=(*[1.0, 0.0] * 9, math.nan, *[0.0] * 16, math.inf))
    inputs = [T((1, 5, 4, 8)), odd, T((1, 5, 2, 8)), T((), I64, values=(0, 5))]
    for cache in (F32, I8):
        yield Case(f"cached_odd_{name_of(cache)}", Cached(dtype=cache), inputs, state=True, rtol=2e-5, atol=2e-5)
    new = lambda n, at: [T((1, n, 4, 8)), T((1, n, 2, 8)), T((1, n, 2, 8)), T((), I64, values=(at,))]
    for name, n, at, error in (
        ("end", 1, 12, "positions [12, 13) exceed a cache of 12 rows"),
        ("beyond", 5, 8, "positions [8, 13) exceed a cache of 12 rows"),
        ("negative", 1, -1, "positions [-1, 0) exceed a cache"),
        ("far", 1, 2**63 - 1, "exceed a cache of 12 rows"),
        ("long", 13, 0, "13 new rows do not fit into a cache of 12"),
    ):
        yield Case(
            f"cached_error_{name}",
            Cached(),
            new(n, at),
            other=new(2, 0),
            error=error,
            state=True,
            dynamic_shapes=ANY_LENGTH,
            rtol=2e-5,
            atol=2e-5,
        )
    bad = [new(1, -1), new(1, 0)]
    negative = "positions [-1, 0) exceed a cache"
    yield Case("cached_error_ring", Cached(window=5), bad[0], other=bad[1], error=negative, state=True, rtol=2e-5)


def unwritten_cases():
    """Cache rows that are not written yet are NaN: no kernel may read them, not even to multiply them by 0."""
    for cache in (F32, F16, BF16, I8):
        how = {"cache": cache, "unwritten": math.nan}
        yield cached(f"unwritten_{name_of(cache)}", (5, 0), (1, 5), **how)
        yield cached(f"unwritten_split_{name_of(cache)}", (600, 0), (1, 600), rows=700, heads=2, kv=1, dim=16, **how)
        yield cached(f"unwritten_blocks_{name_of(cache)}", (70, 0), (17, 70), rows=120, dim=100, heads=6, **how)
        yield cached(f"unwritten_ring_{name_of(cache)}", (7, 0), (3, 7), rows=40, window=33, heads=8, kv=1, **how)


def ring_cases():
    for name, rows, window, first, then in (
        ("decode", 6, 4, (3, 0), (1, 3)),
        ("wrapped", 6, 4, (3, 4), (1, 7)),
        ("far", 6, 4, (1, 1000), (1, 1001)),
        ("prompt", 6, 4, (20, 0), (1, 20)),
        ("no_room", 4, 4, (11, 2), (1, 13)),
        ("one", 5, 1, (7, 0), (1, 7)),
        ("wide", 40, 33, (100, 3), (9, 103)),
        ("split", 700, 600, (1000, 0), (1, 1000)),
    ):
        yield cached(f"ring_{name}", first, then, rows=rows, window=window)
    yield cached("ring_i8", (20, 0), (1, 20), rows=6, window=4, cache=I8)
    yield cached("ring_f16", (20, 0), (1, 20), F16, rows=6, window=4, softcap=2.0)
    yield cached("ring_share", (20, 0), (3, 20), rows=9, window=4, heads=5, kv=1, batch=2)


def block_cases():
    """Has more rows, keys and columns than a block; several heads share keys."""
    tol = {"rtol": 2e-5, "atol": 2e-5}
    grouped = lambda q, k, v: attention(q, k, v, is_causal=True, enable_gqa=True)
    yield Case("blocks_causal", grouped, qkv(F32, 1, 6, 2, queries=75, keys=75, dim=64), **tol)
    yield Case("blocks_few_rows", grouped, qkv(F32, 2, 10, 2, queries=3, keys=40, dim=36), **tol)
    for dtype in (F32, F16, F64):
        tol = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        masked = lambda q, k, v, m: attention(q, k, v, m)
        sizes = qkv(dtype, 1, 2, queries=67, keys=70, dim=130, v_dim=250)
        yield Case(f"blocks_wide_{name_of(dtype)}", masked, [*sizes, T((1, 2, 67, 70), dtype, -3, 3)], **tol)
    hidden = [*qkv(BF16, 1, 3, queries=33, keys=290, dim=100, v_dim=37), T((33, 290), BOOL)]
    yield Case("blocks_hidden", lambda q, k, v, m: attention(q, k, v, m), hidden, **tol)
    yield cached("blocks", (70, 0), (40, 70), rows=120, dim=64, heads=6)
    yield cached("blocks_i8", (70, 0), (17, 70), rows=90, dim=100, v_dim=128, cache=I8, heads=6, softcap=1.5)
    yield cached("blocks_ring", (90, 3), (45, 93), rows=70, window=36, dim=33, batch=2)
    yield cached("team", (70, 0), (1, 70), F16, rows=80, dim=130, v_dim=250, heads=8, kv=1, softcap=1.5)
