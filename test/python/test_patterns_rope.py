"""Rotary embeddings in separate ops become one op, and near misses do not, as in test_patterns.py."""

import pytest
import torch
from test_patterns import F32, HD, H, L, found, x

pytestmark = pytest.mark.by_turn(17)


def half_tables(length=L, dim=HD, dtype=F32):
    angles = torch.arange(length)[:, None] * torch.linspace(0.1, 1, dim // 2)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate_half(x):
    n = x.shape[-1] // 2
    return torch.cat((-x[..., n:], x[..., :n]), dim=-1)


def rotate_pairs(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def by_angles(q, angles, axis=1):
    """Hugging Face's form: cos and sin of doubled angles, broadcast over heads."""
    emb = torch.cat((angles, angles), dim=-1)
    cos, sin = emb.cos().unsqueeze(axis), emb.sin().unsqueeze(axis)
    return q * cos + rotate_half(q) * sin


def partial(q, angles):
    emb = torch.cat((angles, angles), -1)[:, None]
    cos, sin = emb.cos(), emb.sin()
    turned, rest = q[..., :4], q[..., 4:]
    return torch.cat((turned * cos + rotate_half(turned) * sin, rest), -1)


def by_pairs(q, cos, sin):
    cos, sin = (t[:, :, None, :].repeat_interleave(2, 3) for t in (cos, sin))
    return q * cos + rotate_pairs(q) * sin


def by_axes(q, a, b):
    """Tables of two axes side by side, and pairs by unbind, as in image models."""
    even, odd = q.reshape(*q.shape[:-1], -1, 2).unbind(-1)
    emb = torch.cat([t.repeat_interleave(2, 1) for t in (a, b)], -1)[:, None]
    return q * emb.cos() + torch.stack([-odd, even], dim=-1).flatten(-2) * emb.sin()


def swapped(q, a):
    even, odd = q.reshape(*q.shape[:-1], -1, 2).unbind(-1)
    emb = a.repeat_interleave(2, 1)
    return q * emb.cos() + torch.stack([-even, odd], dim=-1).flatten(-2) * emb.sin()


def by_complex(q, angles):
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(q.float().reshape(*q.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[None, :, None, :]).flatten(3).type_as(q)


def by_parts(q, cos, sin):
    """Rotates the halves one by one, with tables that are not doubled."""
    a, b = q.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def by_parts_minus(q, cos, sin):
    a, b = q.chunk(2, -1)
    return torch.cat((a * cos + b * sin, b * cos - a * sin), -1)


def by_parts_of_pairs(q, turns):
    """Multiplies complex numbers in separate ops."""
    pairs = q.reshape(*q.shape[:-1], -1, 2)
    a, b, cos, sin = pairs[..., 0], pairs[..., 1], turns[:, None, :, 0], turns[:, None, :, 1]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)


def at_positions(q, positions, angles):
    """Selects rows of tables, as text models do."""
    e = torch.cat((angles, angles), -1)
    cos, sin = (t[positions].unsqueeze(1) for t in (e.cos(), e.sin()))
    return q * cos + rotate_half(q) * sin


def doubled(f):
    """Returns f of q and angles (L, HD / 2) that are doubled first."""
    return lambda q, a: f(q, torch.cat((a, a), -1))


def wrong_halves(q, c, s):
    c, s = (t[:, :, None].repeat_interleave(2, 3) for t in (c, s))
    return q * c + rotate_half(q) * s


def two_halves(q, a, b):
    e = torch.cat((a, b), -1)
    return q * e.cos() + rotate_half(q) * e.sin()


def two_inputs(q, k, a):
    e = torch.cat((a, a), -1)
    return q * e.cos() + rotate_half(k) * e.sin()


Q, ANGLES = x(2, H, L, HD), x(L, HD // 2)
TABLES = x(1, L, HD // 2), x(1, L, HD // 2)
ROPE = {
    "halves": (by_angles, (Q, x(1, L, HD // 2))),
    "halves_heads_last": (lambda q, a: by_angles(q, a, 2), (x(2, L, H, HD), x(1, L, HD // 2))),
    "sin_first": (doubled(lambda q, e: rotate_half(q) * e.sin() + e.cos() * q), (Q, ANGLES)),
    "scaled": (doubled(lambda q, e: q * (e.cos() * 1.2) + rotate_half(q) * (e.sin() * 1.2)), (Q, ANGLES)),
    "partial": (partial, (Q, x(1, L, 2))),
    "pairs": (by_pairs, (x(2, L, H, HD), *TABLES)),
    "axes": (by_axes, (x(2, L, H, HD), x(L, 1), x(L, HD // 2 - 1))),
    "complex": (by_complex, (x(2, L, H, HD), ANGLES)),
    "one_query": (by_angles, (x(2, H, 1, HD), x(1, 1, HD // 2))),
    "repeated": (lambda q, a: q * a.repeat(1, 2).cos() + rotate_half(q) * a.repeat(1, 2).sin(), (Q, ANGLES)),
    "parts": (by_parts, (Q, *half_tables())),
    "parts_of_pairs": (by_parts_of_pairs, (x(2, L, H, HD), x(L, HD // 2, 2))),
    "angles_of_each": (by_angles, (Q, x(2, L, HD // 2))),
    "angles_of_each_heads_last": (lambda q, a: by_angles(q, a, 2), (x(2, L, H, HD), x(2, L, HD // 2))),
    "pairs_of_each": (by_pairs, (x(2, L, H, HD), x(2, L, HD // 2), x(2, L, HD // 2))),
    "angles_of_last_dimensions": (by_angles, (x(3, 2, H, L, HD), x(2, L, HD // 2))),
    "positions_of_each": (at_positions, (Q, torch.stack((torch.arange(2, 2 + L), torch.arange(L))), x(9, HD // 2))),
    "positions": (at_positions, (x(1, H, L, HD), torch.arange(2, 2 + L)[None], x(9, HD // 2))),
}
NOT_ROPE = {
    "undoubled": (lambda q, c: q * c.cos() + rotate_half(q) * c.sin(), (Q, x(L, HD))),
    "two_halves": (two_halves, (Q, ANGLES, x(L, HD // 2))),
    "parts_minus": (by_parts_minus, (Q, *half_tables())),
    "minus": (doubled(lambda q, e: q * e.cos() - rotate_half(q) * e.sin()), (Q, ANGLES)),
    "not_negated": (doubled(lambda q, e: q * e.cos() + q.roll(HD // 2, -1) * e.sin()), (Q, ANGLES)),
    "uneven": (
        doubled(lambda q, e: q * e.cos() + torch.cat((-q[..., 3:], q[..., :3]), -1) * e.sin()),
        (Q, ANGLES),
    ),
    "swapped": (swapped, (Q, ANGLES)),
    "other_x": (two_inputs, (Q, x(2, H, L, HD), ANGLES)),
    "by_heads": (doubled(lambda q, e: q * e.cos() + rotate_half(q) * e.sin()), (Q, x(H, L, HD // 2))),
    "by_first_dimension": (lambda q, a: by_angles(q, a, 2), (x(3, 2, H, L, HD), x(3, 1, L, HD // 2))),
    "cos_of_each": (
        lambda q, c, s: q * c.repeat(1, 1, 1, 2).cos() + rotate_half(q) * s.repeat(1, 2).sin(),
        (Q, x(2, 1, L, HD // 2), ANGLES),
    ),
    "halves_of_pairs": (wrong_halves, (x(2, L, H, HD), *TABLES)),
    "pairs_of_halves": (doubled(lambda q, e: q * e.cos() + rotate_pairs(q) * e.sin()), (Q, ANGLES)),
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", ROPE)
def test_rope(form, decomposed):
    f, args = ROPE[form]
    assert found(f, args, decomposed) == {"rope": 1}


@pytest.mark.parametrize("form", NOT_ROPE)
def test_not_rope(form):
    f, args = NOT_ROPE[form]
    assert found(f, args) == {}


def test_rope_tables_that_are_constants():
    cos, sin = (torch.cat((t, t), -1) for t in half_tables())
    f = lambda q, cos, sin: q * cos + rotate_half(q) * sin
    assert found(f, (x(2, H, L, HD),), cos=cos, sin=sin) == {"rope": 1}
    cos = cos.clone()
    cos[3, 1] += 0.5
    assert found(f, (x(2, H, L, HD),), cos=cos, sin=sin) == {}
    turns = torch.polar(torch.ones(9, HD // 2), x(9, HD // 2))
    g = lambda q, turns: torch.view_as_real(
        torch.view_as_complex(q.view(*q.shape[:-1], -1, 2)) * turns[None, 1:7, None]
    ).flatten(-2)
    assert found(g, (x(2, L, H, HD),), turns=turns) == {"rope": 1}
