"""Scaled dot product attention. Tolerance: two sums (head_dim and keys) and a softmax; torch's 16-bit kernels round the scores
or the probabilities to the dtype, ours do not: a few units of a value."""

import math

import torch
import torch.nn.functional as fn

from describe import BF16, BOOL, F16, F32, F64, FLOATS, Case, T, name_of

attention = fn.scaled_dot_product_attention
TOLERANCE = {F32: 2e-5, F64: 1e-12, F16: 6e-3, BF16: 5e-2}


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
    yield from shape_cases()
    yield from hidden_cases()


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
        attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2).reshape(2, 5, 32)
    )
    yield Case("projected", split, [T((2, 5, 4, 8)), T((2, 9, 4, 8)), T((2, 9, 4, 8))], **tol)
    yield Case("masked_keys", masked_keys, qkv(F32), **tol)
    yield Case("by_hand", by_hand, qkv(F32), **tol)
    large = [T((1, 2, 4, 8), F32, 20, 30), T((1, 2, 6, 8), F32, 20, 30), T((1, 2, 6, 8))]
    yield Case("large_scores", attention, large, rtol=1e-3, atol=1e-3)
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    yield Case("module", SelfAttention(module), [T((2, 7, 16))], **tol)


def hidden_cases():
    """Written out: a key that a mask hides has a score, and a row of -inf is NaN, where torch's whole op gives 0."""
    fills = {"inf": -math.inf, "min": torch.finfo(F32).min, "some": -2.0}
    rows = [T((2, 1, 5, 9), BOOL, values=(*[False] * 9, *[True, False] * 9)), T((2, 1, 5, 9), BOOL)]
    for dtype in (F32, F64, F16):
        tol = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        for name, fill in fills.items():
            if dtype is F16 and name == "min":
                continue
            hide = lambda q, k, v, m, f=fill: torch.softmax(torch.where(m, q @ k.transpose(-2, -1), f), -1) @ v
            yield Case(f"hidden_{name}_{name_of(dtype)}", hide, [*qkv(dtype), rows[0]], [*qkv(dtype), rows[1]], **tol)
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
