"""Rotary embedding, written in several ways that models use. Tolerance: two products and a sum."""

import torch

from describe import F32, F64, FLOATS, Case, T, name_of, ulps


def half(x, cos, sin):
    """Rotates pairs (i, i + head_dim/2); x: (batch, length, heads, head_dim), cos and sin: (length, head_dim/2)."""
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - b * s, b * c + a * s], -1)


def rotate_half(x, cos, sin):
    """Rotates the same pairs by full-width tables, as Hugging Face's models; x: (batch, heads, length, head_dim)."""
    c, s = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
    n = x.shape[-1] // 2
    rotated = torch.cat([-x[..., n:], x[..., :n]], -1)
    return x * c + rotated * s


def interleaved(x, cos, sin):
    """Rotates pairs (2i, 2i + 1), as Meta's models do."""
    c, s = cos[None, :, None, :], sin[None, :, None, :]
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2)


def op_cases_of_each():
    """clave.ops.rope with different angles for each element of a batch."""
    from clave.ops import rope

    for dtype in FLOATS:
        tol = {"rtol": 2 * ulps(dtype, 8), "atol": 4 * ulps(dtype, 8)}
        for pairs in (True, False):
            inputs = [T((2, 5, 3, 66), dtype), T((2, 5, 33), dtype, -1, 1), T((2, 5, 33), dtype, -1, 1)]
            name = f"op_of_each_{'pairs' if pairs else 'halves'}_{name_of(dtype)}"
            yield Case(name, lambda x, c, s, p=pairs: rope(x, c, s, p), inputs, **tol)
    last = lambda x, c, s: rope(x, c[:, 1:], s[:, 1:], False)
    inputs = [T((3, 2, 5, 1, 4)), T((2, 6, 2), F32, -1, 1), T((2, 6, 2), F32, -1, 1)]
    yield Case("op_of_last_dimensions", last, inputs, rtol=1e-5, atol=1e-5)


def op_cases():
    """clave.ops.rope, which is one node."""
    from clave.ops import rope

    for dtype in FLOATS:
        tol = {"rtol": 2 * ulps(dtype, 8), "atol": 4 * ulps(dtype, 8)}
        for pairs in (True, False):
            inputs = [T((2, 5, 3, 8), dtype), T((5, 4), dtype, -1, 1), T((5, 4), dtype, -1, 1)]
            name = f"op_{'pairs' if pairs else 'halves'}_{name_of(dtype)}"
            yield Case(name, lambda x, c, s, p=pairs: rope(x, c, s, p), inputs, **tol)
            strided = lambda x, c, s, p=pairs: rope(x.transpose(1, 2), c[1:], s[1:], p)
            yield Case(f"{name}_strided", strided, [T((2, 3, 5, 6), dtype), T((6, 3), dtype), T((6, 3), dtype)], **tol)


def cases():
    for dtype in FLOATS:
        d, tol = name_of(dtype), {"rtol": 2 * ulps(dtype, 8), "atol": 4 * ulps(dtype, 8)}
        for dim in (8, 6, 64):
            tables = [T((5, dim // 2), dtype, -1, 1), T((5, dim // 2), dtype, -1, 1)]
            tol["whole"] = "the program has one op, rope"
            yield Case(f"half_{dim}_{d}", half, [T((2, 5, 3, dim), dtype), *tables], **tol)
            yield Case(f"rotate_half_{dim}_{d}", rotate_half, [T((2, 3, 5, dim), dtype), *tables], **tol)
            yield Case(f"interleaved_{dim}_{d}", interleaved, [T((2, 5, 3, dim), dtype), *tables], **tol)
            each = [T((2, 1, 5, dim // 2), dtype, -1, 1), T((2, 1, 5, dim // 2), dtype, -1, 1)]
            yield Case(f"rotate_half_of_each_{dim}_{d}", rotate_half, [T((2, 3, 5, dim), dtype), *each], **tol)
    yield from op_cases()
    yield from op_cases_of_each()
    tol = {"rtol": 1e-5, "atol": 1e-5}
    view = lambda x, c, s: interleaved(x.view(2, 5, 3, 8), c, s).transpose(1, 2)
    yield Case("of_projection", view, [T((2, 5, 24)), T((5, 4), F32, -1, 1), T((5, 4), F32, -1, 1)], **tol)
    yield Case("table_slice", lambda x, c, s: half(x, c[2:7], s[2:7]), [T((1, 5, 2, 8)), T((9, 4)), T((9, 4))], **tol)
    wide = lambda x, c, s: half(x.double(), c, s).float()
    yield Case("in_f64", wide, [T((1, 5, 2, 8)), T((5, 4), F64), T((5, 4), F64)], **tol)
