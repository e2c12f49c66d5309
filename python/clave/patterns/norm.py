"""Layer norm and RMS norm written out, and norms that a 16-bit module computes in f32.

Only f32 and f64 match, where the whole op differs from its parts in the order of sums alone. Hugging Face's modules
cast 16-bit activations to f32, normalise, round, and multiply by the weight after: the rounded part becomes a 16-bit
norm without a weight (which rounds once as well), and the multiplication stays.
"""

from __future__ import annotations

from typing import Any

import torch

from clave.patterns.activation import WIDE
from clave.patterns.calls import Match, NoMatch, arguments, call, is_tensor, need, same, val
from clave.patterns.registry import pattern
from clave.patterns.rewrite import emit, reshaped
from clave.trace import op_name

aten = torch.ops.aten


def _normalized(x: Any, axes: tuple[int, ...]) -> list[int]:
    """The sizes of the axes, which must be the last ones and known."""
    shape = val(x).shape
    need(axes == tuple(range(len(shape) - len(axes), len(shape))))
    sizes = list(shape[len(shape) - len(axes) :])
    need(sizes and all(isinstance(s, int) for s in sizes))
    return sizes


def _is_parameter(w: Any, sizes: list[int], dtype: torch.dtype) -> bool:
    """w has the normalised shape, perhaps behind ones."""
    if not is_tensor(w):
        return False
    shape = list(val(w).shape)
    ahead = shape[: len(shape) - len(sizes)]
    return val(w).dtype == dtype and shape[len(ahead) :] == sizes and all(isinstance(s, int) and s == 1 for s in ahead)


def _parameter(m: Match, w: Any, sizes: list[int]) -> Any:
    return w if w is None or list(val(w).shape) == sizes else reshaped(m.root, w, sizes)


def _one_weight(rest: list[Any], x: Any, sizes: list[int], dtype: torch.dtype) -> Any:
    """The factor beside x, None if x is alone."""
    need(rest.count(x) == 1 and len(rest) <= 2)
    others = [f for f in rest if f is not x]
    need(all(_is_parameter(w, sizes, dtype) for w in others))
    return others[0] if others else None


@pattern("rms_norm", "mul", "div")
def rms_norm(m: Match) -> Any:
    """x / sqrt(mean(x ** 2) + eps) * weight; Zhang and Sennrich, https://arxiv.org/abs/1910.07467."""
    dtype = val(m.root).dtype
    p = m.product(m.root)
    need(dtype in WIDE and p.coefficient == 1)
    for s, rest in m.inverse_root(p):
        y, eps = m.plus_number(s)
        squared, axes = m.mean(y)
        x = m.square(squared)
        sizes = _normalized(x, axes)
        weight = _one_weight(rest, x, sizes, dtype)
        need(eps >= 0 and val(x).dtype == dtype and same(val(x).shape, val(m.root).shape))
        return lambda: emit(m.root, aten.rms_norm.default, x, sizes, _parameter(m, weight, sizes), eps)
    raise NoMatch


def _centred(m: Match, d: Any) -> tuple[Any, tuple[int, ...]]:
    """(x, axes) of d = x - x.mean(axes)."""
    x, mean = m.take(d, "sub")
    y, axes = m.mean(mean)
    need(y is x and is_tensor(x))
    return x, axes


def _variance(m: Match, v: Any) -> tuple[Any, tuple[int, ...]]:
    """(x, axes) of v, the variance of x without correction."""
    if m.is_kind(v, "var"):
        x, axes, keepdim, correction = m.take(v, "var")
        need(keepdim and correction == 0)
        return x, axes
    squared, axes = m.mean(v)
    x, inner = _centred(m, m.square(squared))
    need(axes == inner)
    return x, axes


@pattern("layer_norm", "mul", "div", "add")
def layer_norm(m: Match) -> Any:
    """(x - mean(x)) / sqrt(var(x) + eps) * weight + bias; Ba et al., https://arxiv.org/abs/1607.06450."""
    need(val(m.root).dtype in WIDE)
    c = call(m.root)
    if c is not None and c.kind != "add":
        return _layer_norm(m, m.root, None)
    a, b = m.take(m.root, "add")
    for scaled, bias in ((a, b), (b, a)):
        if m.is_kind(scaled, "mul", "div") and is_tensor(bias):
            return _layer_norm(m, scaled, bias)
    raise NoMatch


def _layer_norm(m: Match, scaled: Any, bias: Any) -> Any:
    dtype = val(m.root).dtype
    p = m.product(scaled)
    need(p.coefficient == 1)
    for s, rest in m.inverse_root(p):
        v, eps = m.plus_number(s)
        x, axes = _variance(m, v)
        sizes = _normalized(x, axes)
        centred = [f for f in rest if m.is_kind(f, "sub")]
        need(len(centred) == 1 and _centred(m, centred[0]) == (x, axes))
        weight = _one_weight(rest, centred[0], sizes, dtype)
        need(bias is None or _is_parameter(bias, sizes, dtype))
        need(eps >= 0 and val(x).dtype == dtype and same(val(x).shape, val(m.root).shape))
        return lambda: emit(
            m.root,
            aten.layer_norm.default,
            x,
            sizes,
            _parameter(m, weight, sizes),
            _parameter(m, bias, sizes),
            eps,
            False,
        )
    raise NoMatch


_NORMS = {"aten.rms_norm.default": 1, "aten.layer_norm.default": 2}  # and how many parameters they have
_NARROW = (torch.float16, torch.bfloat16)


def _narrow(x: Any, dtype: torch.dtype) -> Any:
    """y of that dtype of which x is the f32 copy."""
    c = call(x)
    need(c is not None and c.kind == "cast" and val(c.args[0]).dtype == dtype)
    return c.args[0]  # type: ignore[union-attr]


@pattern("norm_in_16_bits", "cast")
def norm_in_16_bits(m: Match) -> Any:
    """A norm in f32 of a widened x whose result is narrowed again: our 16-bit norms compute in f32 and round once."""
    dtype = val(m.root).dtype
    c = call(m.root)
    norm = c.args[0] if c is not None else None
    need(dtype in _NARROW and is_tensor(norm) and norm.op == "call_function" and op_name(norm.target) in _NORMS)
    need(val(norm).dtype == torch.float32)
    m.inner.add(norm)
    x, sizes, *more = arguments(norm)
    n_parameters = _NORMS[op_name(norm.target)]
    parameters = [None if w is None else _narrow(w, dtype) for w in more[:n_parameters]]
    source = _narrow(x, dtype)
    eps = more[n_parameters]
    need(eps is not None)
    tail = (False,) if n_parameters == 2 else ()
    return lambda: emit(m.root, norm.target, source, sizes, *parameters, eps, *tail)
