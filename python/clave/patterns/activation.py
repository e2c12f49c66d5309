"""GELU and SiLU written out. In the 16-bit floats each op of the written form rounds, so only the wide floats match."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import torch
from torch.fx import Node

from clave.patterns.calls import Match, close, need, same, val
from clave.patterns.registry import pattern
from clave.patterns.rewrite import emit

aten = torch.ops.aten
WIDE = (torch.float32, torch.float64)


def _powers(m: Match, factors: list[Any]) -> Counter[Any]:
    """How often each operand stands in a product, x ** n counted n times."""
    found: Counter[Any] = Counter()
    for f in factors:
        if m.is_kind(f, "pow"):
            x, n = m.take(f, "pow")
            need(isinstance(n, int | float) and n == int(n) and n > 0)
            found[x] += int(n)
        else:
            found[f] += 1
    return found


def _scaled_power(m: Match, node: Any, coefficient: float, x: Any, n: int) -> None:
    """node = coefficient * x ** n."""
    p = m.product(node)
    need(not p.under and close(p.coefficient, coefficient, val(node).dtype) and _powers(m, p.over) == {x: n})


def _is_erf(m: Match, node: Any, x: Any) -> None:
    (u,) = m.take(node, "erf")
    _scaled_power(m, u, math.sqrt(0.5), x, 1)


def _is_tanh(m: Match, node: Any, x: Any) -> None:
    """tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)), x perhaps taken out of the sum."""
    p = m.product(m.take(node, "tanh")[0])
    need(not p.under and close(p.coefficient, math.sqrt(2 / math.pi), _single(val(node).dtype)))
    factors = [f for f in p.over if f is not x]
    need(len(factors) == 1 and len(p.over) - len(factors) <= 1)
    if len(p.over) == 2:
        rest, one = m.plus_number(factors[0])
        need(one == 1)
        return _scaled_power(m, rest, 0.044715, x, 2)
    a, b = m.take(factors[0], "add")
    need(a is x or b is x)
    _scaled_power(m, b if a is x else a, 0.044715, x, 3)


def _single(dtype: torch.dtype) -> torch.dtype:
    """Models write sqrt(2 / pi) with ten digits."""
    return torch.float32 if dtype == torch.float64 else dtype


@pattern("gelu", "mul", "div")
def gelu(m: Match) -> Any:
    """x / 2 * (1 + erf(x / sqrt(2))), or with the tanh instead; Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415."""
    dtype = val(m.root).dtype
    p = m.product(m.root)
    need(dtype in WIDE and not p.under and close(p.coefficient, 0.5, dtype) and len(p.over) == 2)
    sums = [f for f in p.over if m.is_kind(f, "add")]
    for s in sums:
        x = p.over[1] if s is p.over[0] else p.over[0]
        inner = call_of_one_more(m, s)
        if inner is None:
            continue
        form, check = ("none", _is_erf) if m.is_kind(inner, "erf") else ("tanh", _is_tanh)
        check(m, inner, x)
        need(same(val(x).shape, val(m.root).shape) and val(x).dtype == dtype)
        return lambda: emit(m.root, aten.gelu.default, x, approximate=form)
    need(False)


def call_of_one_more(m: Match, s: Node) -> Any:
    """y of s = 1 + y where y is an erf or tanh, else None."""
    for y in s.args[:2]:
        if m.is_kind(y, "erf", "tanh") and m.plus_number(s) == (y, 1):
            return y
    return None


@pattern("silu", "mul", "div")
def silu(m: Match) -> Any:
    """x * sigmoid(x), or x / (1 + exp(-x))."""
    dtype = val(m.root).dtype
    p = m.product(m.root)
    need(dtype in WIDE and p.coefficient == 1)
    if p.under:
        need(len(p.over) == len(p.under) == 1)
        x = p.over[0]
        e, one = m.plus_number(p.under[0])
        need(one == 1 and m.take(m.take(e, "exp")[0], "neg")[0] is x)
    else:
        need(len(p.over) == 2)
        a, b = p.over
        x, gate = (b, a) if m.is_kind(a, "sigmoid") and a.args[0] is b else (a, b)
        need(m.take(gate, "sigmoid")[0] is x)
    need(same(val(x).shape, val(m.root).shape) and val(x).dtype == dtype)
    return lambda: emit(m.root, aten.silu.default, x)
