"""Rotary embedding written out: x * cos + rotate_half(x) * sin with doubled tables, by halves or pairs; and complex."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

import clave.ops  # noqa: F401 (registers clave::rope)
from clave.patterns.attention import constant_of, fill_of
from clave.patterns.calls import Match, NoMatch, call, is_tensor, need, same, through, val
from clave.patterns.registry import pattern
from clave.patterns.rewrite import emit, reshaped

aten = torch.ops.aten
_MAPS = ("cos", "sin", "cast", "same")  # of each element alone


def _last_half(m: Match, node: Any, x: Any, second: bool) -> None:
    """node = x[..., half:] or x[..., :half]."""
    y, axis, start, stop, step = m.take(node, "slice")
    size = val(x).shape[-1]
    need(y is x and axis == val(x).dim() - 1 and step == 1 and isinstance(size, int) and size % 2 == 0)
    need(start in ((size // 2, size // 2 - size) if second else (0,)))
    need(stop is None or stop >= size if second else stop in (size // 2, size // 2 - size))


def _rotated_halves(m: Match, node: Any) -> Any:
    """x of node = cat([-x[..., half:], x[..., :half]], -1)."""
    parts, axis = m.take(node, "cat")
    need(len(parts) == 2 and axis == val(node).dim() - 1)
    c = call(parts[1])
    need(c is not None and c.kind == "slice")
    x = c.args[0]  # type: ignore[union-attr]
    _last_half(m, m.take(parts[0], "neg")[0], x, True)
    _last_half(m, parts[1], x, False)
    return x


def _every_other(m: Match, node: Any, x: Any, second: bool) -> None:
    """node = x[..., second::2]."""
    y, axis, start, stop, step = m.take(node, "slice")
    size = val(x).shape[-1]
    need(y is x and axis == val(x).dim() - 1 and isinstance(size, int) and size % 2 == 0)
    need(start == int(second) and step == 2 and (stop is None or stop >= size))


def _rotated_pairs(m: Match, node: Any) -> Any:
    """x of node = stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2), or with the pairs taken by unbind."""
    (stacked,) = m.take(node, "reshape")
    c = call(stacked)
    need(c is not None and same(val(stacked).shape[:-2], val(node).shape[:-1]) and same(val(stacked).shape[-1], 2))
    parts = _stacked(m, stacked)
    first = call(parts[1])
    need(first is not None)
    if first.kind != "slice" or first.args[4] != 2:  # type: ignore[union-attr]
        return _unbound(m, *parts)
    x = first.args[0]  # type: ignore[union-attr]
    _every_other(m, m.take(parts[0], "neg")[0], x, True)
    _every_other(m, parts[1], x, False)
    return x


def _unbound(m: Match, minus: Any, even: Any) -> Any:
    """x whose pairs, a last axis of 2, are [even, -minus]."""
    pairs, at = _picked(m, even)
    other, after = _picked(m, m.take(minus, "neg")[0])
    need(other is pairs and (at, after) == (0, 1))
    c = call(pairs)
    need(c is not None and c.kind == "reshape")
    x = c.args[0]  # type: ignore[union-attr]
    *lead, half, two = val(pairs).shape
    need(same(two, 2) and same([*lead, 2 * half], val(x).shape))
    return x


def _picked(m: Match, node: Any) -> tuple[Any, int]:
    """(y, i) of node = y[..., i], or y[..., i : i + 1] under a shape with or without the 1."""
    if m.is_kind(node, "select"):
        y, axis, i = m.take(node, "select")
        need(axis == val(y).dim() - 1)
        return y, i
    part = node
    if m.is_kind(node, "reshape"):
        (part,) = m.take(node, "reshape")
        need(same([*val(node).shape, 1], val(part).shape))
    y, axis, i, stop, _ = m.take(part, "slice")
    need(axis == val(y).dim() - 1 and stop == i + 1)
    return y, i


def _stacked(m: Match, node: Any) -> list[Any]:
    """The parts of a stack along a new last axis, also as a cat of unsqueezed ones."""
    c = call(node)
    need(c is not None and c.kind in ("stack", "cat"))
    parts, axis = m.take(node, c.kind)  # type: ignore[union-attr]
    need(len(parts) == 2 and axis == val(node).dim() - 1)
    if c.kind == "stack":  # type: ignore[union-attr]
        return list(parts)
    inner = []
    for p in parts:
        if m.is_kind(p, "slice"):
            inner.append(p)
            continue
        (x,) = m.take(p, "reshape")
        need(same([*val(x).shape, 1], val(p).shape))
        inner.append(x)
    return inner


# ---------------------------------------------------------------- tables


def _doubled(x: Any, interleaved: bool) -> bool:
    """Whether the last axis of x holds each of its numbers twice: its halves are equal, or its neighbours."""
    data = constant_of(x)
    if data is not None:
        half = data.shape[-1] // 2
        a, b = (data[..., ::2], data[..., 1::2]) if interleaved else (data[..., :half], data[..., half:])
        return torch.equal(a, b)
    c = call(x)
    if c is None:
        return False
    if c.kind in _MAPS:
        return _doubled(c.args[0], interleaved)
    if c.kind == "mul":
        return all(not is_tensor(a) or val(a).numel() == 1 or _doubled(a, interleaved) for a in c.args)
    if c.kind == "slice":
        return c.args[1] != val(x).dim() - 1 and _doubled(c.args[0], interleaved)
    if (c.kind in ("expand", "reshape") and not interleaved) or c.kind == "expand":
        return same(val(x).shape[-1], val(c.args[0]).shape[-1]) and _doubled(c.args[0], interleaved)
    if c.kind == "cat" and interleaved:  # tables of several axes side by side
        return c.args[1] == val(x).dim() - 1 and all(
            same(val(t).shape[-1] % 2, 0) and _doubled(t, True) for t in c.args[0]
        )
    if c.kind == "cat":
        return c.args[1] == val(x).dim() - 1 and len(c.args[0]) == 2 and c.args[0][0] is c.args[0][1]
    if c.kind == "reshape":
        return _repeated_pairs(x, c.args[0]) or (
            same(val(x).shape[-1], val(c.args[0]).shape[-1]) and _doubled(c.args[0], interleaved)
        )
    return False


def _repeated_pairs(x: Any, wide: Any) -> bool:
    """x flattens (..., D / 2, 2), where the last axis is an expanded 1 or a stack of one tensor."""
    shape = val(wide).shape
    if len(shape) < 2 or not same(shape[-1], 2) or not same([*shape[:-2], shape[-2] * 2], val(x).shape):
        return False
    c = call(through(wide, "same"))
    if c is not None and c.kind == "stack":
        return c.args[1] == len(shape) - 1 and len(c.args[0]) == 2 and c.args[0][0] is c.args[0][1]
    return c is not None and c.kind == "expand" and same([*shape[:-1], 1], val(c.args[0]).shape)


def _length_axis(x: torch.Tensor, table: torch.Tensor) -> int:
    """The axis of x, -2 or -3, along which the table's rows lie; its other axes are 1."""
    ahead = [1] * (x.dim() - table.dim()) + list(table.shape)
    need(x.dim() >= 3 and table.dim() <= x.dim() and same(ahead[-1], x.shape[-1]))
    for axis in (-2, -3):
        others = [s for i, s in enumerate(ahead[:-1], -len(ahead)) if i != axis]
        if same(ahead[axis], x.shape[axis]) and all(same(s, 1) for s in others):
            return axis
    raise NoMatch


def _table(m: Match, t: Any, axis: int, interleaved: bool) -> Node:
    """(L, D / 2) of a doubled table that broadcasts to x."""
    size = val(t).shape[-1]
    half = (
        emit(m.root, aten.slice.Tensor, t, val(t).dim() - 1, 0, size, 2)
        if interleaved
        else emit(m.root, aten.slice.Tensor, t, val(t).dim() - 1, 0, size // 2, 1)
    )
    length = val(t).shape[axis] if val(t).dim() >= -axis else 1
    return reshaped(m.root, half, [length, size // 2])


def _write(m: Match, x: Any, cos: Any, sin: Any, axis: int, interleaved: bool) -> Node:
    """x: (..., H, L, D) or (..., L, H, D) by `axis`; the op wants the second."""
    if axis == -2:
        x = emit(m.root, aten.transpose.int, x, -3, -2)
    out = emit(m.root, torch.ops.clave.rope.default, x, cos, sin, interleaved)
    return emit(m.root, aten.transpose.int, out, -3, -2) if axis == -2 else out


@pattern("rope", "add")
def rope(m: Match) -> Any:
    """x * cos + rotated(x) * sin, where rotated turns halves or pairs; Su et al., https://arxiv.org/abs/2104.09864."""
    a, b = m.take(m.root, "add")
    saved = set(m.inner)
    for plain, turned in ((a, b), (b, a)):
        for i in (0, 1):
            m.inner = set(saved)
            try:
                return _rope(m, plain, turned, i)
            except NoMatch:
                continue
    raise NoMatch


def _rope(m: Match, plain: Any, turned: Any, i: int) -> Any:
    """turned = rotated * sin, with `rotated` as operand i."""
    operands = m.take(turned, "mul")
    rotated, sin = operands[i], operands[1 - i]
    c = call(rotated)
    need(c is not None and c.kind in ("cat", "reshape") and is_tensor(sin))
    interleaved = c.kind == "reshape"  # type: ignore[union-attr]
    x = _rotated_pairs(m, rotated) if interleaved else _rotated_halves(m, rotated)
    p, q = m.take(plain, "mul")
    need((p is x) != (q is x))
    cos = q if p is x else p
    need(is_tensor(cos) and val(cos).dtype == val(sin).dtype == val(x).dtype == val(m.root).dtype)
    need(same(val(x).shape, val(m.root).shape) and same(val(cos).shape, val(sin).shape))
    axis = _length_axis(val(x), val(cos))
    need(_doubled(cos, interleaved) and _doubled(sin, interleaved))
    return lambda: _write(m, x, _table(m, cos, axis, interleaved), _table(m, sin, axis, interleaved), axis, interleaved)


# ---------------------------------------------------------------- complex numbers


@pattern("rope", "reshape")
def complex_rope(m: Match) -> Any:
    """view_as_real(view_as_complex(pairs of x) * angles).flatten(-2), as Meta's models write it."""
    turned = call(m.root).args[0]  # type: ignore[union-attr]
    c = call(turned)
    need(c is not None and c.kind == "view_as_real" and val(m.root).dtype in (torch.float32, torch.float64))
    product = c.args[0]  # type: ignore[union-attr]
    inner = call(product)
    need(inner is not None and inner.kind == "mul")
    m.inner |= {turned, product}
    a, b = inner.args  # type: ignore[union-attr]
    source, angles = (a, b) if m.is_kind(a, "view_as_complex") else (b, a)
    need(m.is_kind(source, "view_as_complex") and is_tensor(angles) and val(angles).dtype.is_complex)
    m.inner.add(source)
    pairs = call(source).args[0]  # type: ignore[union-attr]
    need(same(val(pairs).shape, val(turned).shape))
    need(same([*val(pairs).shape[:-2], val(pairs).shape[-2] * 2], val(m.root).shape))
    half = val(angles)
    axis = _length_axis(torch.empty(val(source).shape, device="meta"), torch.empty(half.shape, device="meta"))
    return lambda: _write_complex(m, pairs, angles, axis)


def _write_complex(m: Match, pairs: Any, angles: Any, axis: int) -> Node:
    x = reshaped(m.root, pairs, val(m.root).shape)
    length = val(angles).shape[axis] if val(angles).dim() >= -axis else 1
    c = call(through(angles, "same", "reshape"))
    if c is not None and c.kind == "polar" and _is_one(c.args[0]):
        parts = [emit(m.root, f, c.args[1]) for f in (aten.cos.default, aten.sin.default)]
    else:
        real = emit(m.root, aten.view_as_real.default, angles)
        parts = [emit(m.root, aten.select.int, real, -1, i) for i in (0, 1)]
    cos, sin = (reshaped(m.root, p, [length, val(angles).shape[-1]]) for p in parts)
    return _write(m, x, cos, sin, axis, True)


def _is_one(x: Any) -> bool:
    return is_tensor(x) and fill_of(x) == 1
