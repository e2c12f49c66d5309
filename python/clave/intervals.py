"""Computes the interval of a host scalar from those of its operands. A bound of None means unbounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

from clave import schema

Bound = int | float | None
Interval = tuple[Bound, Bound]

ANY: Interval = (None, None)
_TRUTH: Interval = (0, 1)
_K = schema.ScalarKind
_TESTS = {_K.eq, _K.ne, _K.lt, _K.le, _K.gt, _K.ge, _K.and_, _K.or_, _K.not_}
_I64 = 2**63 - 1


def of(kind: schema.ScalarKind, a: Interval, b: Interval = ANY) -> Interval:
    """Returns the interval of kind(a, b), or of kind(a) if it has one operand."""
    if kind in _TESTS:
        return _TRUTH
    rule = _RULES.get(kind)
    low, high = ANY if rule is None else rule(a, b)
    return _finite(low), _finite(high)


def _finite(x: Bound) -> Bound:
    return x if x is not None and math.isfinite(x) and abs(x) < _I64 else None


def _add(a: Interval, b: Interval) -> Interval:
    return _sum(a[0], b[0]), _sum(a[1], b[1])


def _sum(x: Bound, y: Bound) -> Bound:
    return None if x is None or y is None else x + y


def _negative(a: Interval, _: Interval = ANY) -> Interval:
    low, high = a
    return None if high is None else -high, None if low is None else -low


def _multiply(a: Interval, b: Interval) -> Interval:
    if None not in (*a, *b):
        return _span(a, b, lambda x, y: x * y)
    if _is_from_zero(a) and _is_from_zero(b):
        return a[0] * b[0], None  # type: ignore[operator]
    return ANY


def _is_from_zero(a: Interval) -> bool:
    return a[0] is not None and a[0] >= 0


def _span(a: Interval, b: Interval, f: Callable[[Any, Any], Any]) -> Interval:
    """Returns the interval of a function that is monotonic in each operand."""
    try:
        ends = [f(x, y) for x, y in product(a, b)]
    except (OverflowError, ZeroDivisionError, ValueError):
        return ANY
    return min(ends), max(ends)


def _divide(f: Callable[[Any, Any], Any]) -> Callable[[Interval, Interval], Interval]:
    def rule(a: Interval, b: Interval) -> Interval:
        if b[0] is None or b[0] <= 0:
            return ANY
        if None not in (*a, *b):
            return _span(a, b, f)
        high = f(a[1], b[0]) if a[1] is not None and a[1] >= 0 else None
        return (0 if _is_from_zero(a) else None), high

    return rule


def _modulo(a: Interval, b: Interval) -> Interval:
    """Returns the interval of Python's modulo, whose sign is the divisor's."""
    if b[0] is None or b[0] <= 0:
        return ANY
    ends = [x for x in (None if b[1] is None else b[1] - 1, a[1] if _is_from_zero(a) else None) if x is not None]
    return 0, min(ends, default=None)


def _min(a: Interval, b: Interval) -> Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return low, min((x for x in (a[1], b[1]) if x is not None), default=None)


def _max(a: Interval, b: Interval) -> Interval:
    return _negative(_min(_negative(a), _negative(b)))


def _each(f: Callable[[Any], Any]) -> Callable[[Interval, Interval], Interval]:
    """Returns the rule of a function that does not decrease."""
    return lambda a, _: (None if a[0] is None else f(a[0]), None if a[1] is None else f(a[1]))


_RULES: dict[schema.ScalarKind, Callable[[Interval, Interval], Interval]] = {
    _K.add: _add,
    _K.sub: lambda a, b: _add(a, _negative(b)),
    _K.mul: _multiply,
    _K.floor_div: _divide(lambda x, y: x // y),
    _K.true_div: _divide(lambda x, y: x / y),
    _K.mod: _modulo,
    _K.min: _min,
    _K.max: _max,
    _K.neg: _negative,
    _K.to_float: _each(float),
    _K.to_int: _each(int),
    _K.floor: _each(math.floor),
    _K.ceil: _each(math.ceil),
    _K.round: _each(round),
}
