"""Turns symbolic sizes, torch.export's symbols and sympy expressions over them, into host scalars and host ops."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import sympy
import torch

from clave import intervals, schema
from clave.builder import Float, Int, MethodBuilder, Val
from clave.errors import Code, Error, Unsupported
from clave.naming import words
from clave.private import ValueRanges, as_python, is_bitwise, is_sqrt
from clave.private import sympy_functions as F

_K = schema.ScalarKind
_I64_MAX = 2**63 - 1

_BINARY: dict[Any, schema.ScalarKind] = {
    F.FloorDiv: _K.floor_div,
    F.CleanDiv: _K.floor_div,
    F.Mod: _K.mod,
    F.PythonMod: _K.mod,
    sympy.Mod: _K.mod,
    sympy.Eq: _K.eq,
    sympy.Ne: _K.ne,
    sympy.Lt: _K.lt,
    sympy.Le: _K.le,
    sympy.Gt: _K.gt,
    sympy.Ge: _K.ge,
}
_CHAINS: dict[Any, schema.ScalarKind] = {
    sympy.Add: _K.add,
    sympy.Mul: _K.mul,
    sympy.Max: _K.max,
    sympy.Min: _K.min,
    F.Max: _K.max,
    F.Min: _K.min,
    sympy.And: _K.and_,
    sympy.Or: _K.or_,
}
_TO_BOOL = {_K.eq, _K.ne, _K.lt, _K.le, _K.gt, _K.ge, _K.and_, _K.or_, _K.not_}
_REAL_BINARY: dict[Any, schema.ScalarKind] = {F.FloatTrueDiv: _K.true_div, F.FloatPow: _K.pow, sympy.Pow: _K.pow}
_ROUNDED: dict[Any, schema.ScalarKind] = {
    F.FloorToInt: _K.floor,
    F.CeilToInt: _K.ceil,
    F.RoundToInt: _K.round,
    F.TruncToInt: _K.to_int,
    sympy.floor: _K.floor,
    sympy.ceiling: _K.ceil,
}


def _has_real(e: Any) -> bool:
    """True if an operand is neither an integer nor a condition."""
    return any(not (a.is_Boolean or _is_integer(a)) for a in e.args)


def _is_integer(e: Any) -> bool:
    """True for an integer, also for integer functions that sympy does not know to be one."""
    whole = bool(is_bitwise(e)) or type(e) in _BINARY or type(e) in _CHAINS
    return bool(e.is_integer) or (whole and all(map(_is_integer, e.args)))


def expression(x: Any) -> Any:
    """Returns the sympy expression of a SymInt, SymBool or SymFloat. Numbers and expressions are returned unchanged."""
    return x.node.expr if isinstance(x, torch.SymInt | torch.SymBool | torch.SymFloat) else x


def bound(x: Any) -> int | None:
    """Returns a finite int64 bound, or None for infinity."""
    if not isinstance(x, int | sympy.Integer):
        return None
    return int(x) if abs(int(x)) < _I64_MAX - 1 else None


def _is_within(condition: Any, ranges: dict[Any, ValueRanges[Any]]) -> bool:
    """True if a condition on one symbol holds in all of its range, as far as the ends of the range tell."""
    if len(condition.free_symbols) != 1 or not isinstance(condition, sympy.core.relational.Relational):
        return False
    (symbol,) = condition.free_symbols
    r = ranges.get(symbol)
    if r is None or not (condition.lhs - condition.rhs).is_polynomial(symbol):
        return False
    if isinstance(condition, sympy.Ne):
        solutions = sympy.solve(condition.lhs - condition.rhs, symbol)
        return all(x.is_integer is False or x < r.lower or x > r.upper for x in solutions)
    linear = sympy.degree(condition.lhs - condition.rhs, symbol) == 1
    return linear and all(condition.subs(symbol, end) == True for end in (r.lower, r.upper))  # noqa: E712


class Sizes:
    """The host scalars of one method: the values of symbols, and of expressions, each of which is computed once."""

    def __init__(self, builder: MethodBuilder, ranges: dict[Any, ValueRanges[Any]], names: dict[Any, str]) -> None:
        self.builder = builder
        self.ranges = dict(ranges)
        self.names = names
        self.known: dict[Any, Val] = {}
        self.void: set[Any] = set()  # conditions that torch asserts by mistake
        self.pending: list[tuple[Val, Any]] = []  # sizes of inputs that are expressions
        self._intervals: dict[int, tuple[Val, intervals.Interval]] = {}  # intervals of computed values, by id

    def bind(self, symbol: sympy.Symbol) -> Val:
        """Returns a new value for the symbol, with the bounds that torch.export found."""
        r = self.ranges.get(symbol)
        low, high = (bound(r.lower), bound(r.upper)) if r is not None else (None, None)
        self.known[symbol] = self.builder.val("int", self.names.get(symbol, str(symbol)), low, high)
        return self.known[symbol]

    def words(self, x: Any) -> str:
        """Returns an expression, or a text that contains some, with the user's names."""
        return words(x, self.names)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Opens the body of a control op. Values that are computed inside the block are known only there."""
        known = dict(self.known)
        try:
            yield
        finally:
            self.known = known

    def resolve(self, x: Any) -> Int:
        """Returns the value of an int, a SymInt or SymBool, or a sympy expression. Emits host ops that compute it."""
        e = expression(x)
        if isinstance(e, bool | int | sympy.Integer):
            return int(e)
        if e in (sympy.true, sympy.false):
            return int(e == sympy.true)
        if e not in self.known:
            self.known[e] = self._compute(e)
        return self.known[e]

    def shape(self, sizes: Any) -> tuple[Int, ...]:
        return tuple(self.resolve(s) for s in sizes)

    def number(self, x: Any) -> Int | Float:
        """Returns the value of a SymInt, SymBool or SymFloat."""
        return self.real(expression(x)) if isinstance(x, torch.SymFloat) else self.resolve(x)

    def scalar(self, kind: schema.ScalarKind, a: Int, b: Int | None = None, name: str = "") -> Val:
        out = self.builder.val("bool" if kind in _TO_BOOL else "int", name)
        self.builder.emit("IntScalar", kind=kind, a=a, b=b, out=out)
        return self._bounded(out, kind, a, b)

    def _bounded(self, out: Val, kind: schema.ScalarKind, a: Float, b: Float | None) -> Val:
        """Sets the bounds of a value from those of its operands, and returns it. A size has no negative lower bound."""
        low, high = intervals.of(kind, self._interval(a), self._interval(b))
        self._intervals[id(out)] = (out, (low, high))
        if out.type == "int":
            out.min, out.max = (int(low) if low is not None and low >= 0 else None), None if high is None else int(high)
            if out.max is not None and out.max < 0:
                out.max = None
        return out

    def _interval(self, x: Float | None) -> intervals.Interval:
        if not isinstance(x, Val):
            return (x, x)
        if id(x) in self._intervals and x.type != "int":
            return self._intervals[id(x)][1]
        if x.type == "bool":
            return (0, 1)
        known = self._intervals.get(id(x), (x, intervals.ANY))[1]
        return (known[0] if x.min is None else x.min, known[1] if x.max is None else x.max)

    def _compare(self, kind: schema.ScalarKind, e: Any) -> Val:
        if not _has_real(e):
            return self.scalar(kind, *map(self.resolve, e.args), name=self.words(e))
        return self._float_scalar(kind, *map(self.real, e.args), type="bool")

    def check(self, condition: Any, message: str) -> None:
        """Emits a run-time check of a SymBool or a sympy condition. Raises Error if it can never hold."""
        message = self.words(message)
        e = expression(condition)
        if e in (True, sympy.true) or e in self.void:
            return
        if e in (False, sympy.false):
            raise Error(f"the graph asserts a condition that never holds: {message}")
        if isinstance(e, sympy.And):
            for part in e.args:
                self.check(part, message)
            return
        if isinstance(e, sympy.core.relational.Relational) and not _has_real(e):
            kind, a, b = _BINARY[type(e)], self.resolve(e.lhs), self.resolve(e.rhs)
        else:
            kind, a, b = _K.ne, self.resolve(e), 0
        self.builder.emit("Check", kind=kind, a=a, b=b, message=message)

    def expect(self, condition: Any) -> None:
        """Emits a run-time check of a condition that torch assumed of inputs' sizes when it captured the model, unless
        their bounds imply it."""
        if not condition.free_symbols <= self.known.keys() or _is_within(condition, self.ranges):
            return
        what = f"the model was captured for sizes with {as_python(condition)}"
        try:
            self.check(condition, what)
        except Unsupported as e:
            raise Error(f"{self.words(what)}, which a program cannot check: {e}", Code.UNSUPPORTED) from e

    def equate(self, value: Val, x: Any, message: str) -> None:
        """Equates `value` and expression x: solves x for its unknown symbol, if it has one, and emits a run-time check.
        Raises Error if x has several unknown symbols or is not linear."""
        e = expression(x)
        unknown = [s for s in e.free_symbols if s not in self.known]
        if not unknown:
            self.builder.emit("Check", kind=_K.eq, a=value, b=self.resolve(e), message=message)
            return
        if len(unknown) > 1 or len(e.free_symbols) > 1 or not e.is_polynomial() or sympy.degree(e, unknown[0]) != 1:
            raise Error(f"{message}: sizes {', '.join(map(self.words, unknown))} do not follow from it alone")
        a, b = (int(c) for c in sympy.Poly(e, unknown[0]).all_coeffs())
        numerator = self.scalar(_K.sub, value, b) if b else value
        solved = self.scalar(_K.floor_div, numerator, a, self.names.get(unknown[0], str(unknown[0])))
        r = self.ranges.get(unknown[0])
        if r is not None:
            solved.min, solved.max = bound(r.lower), bound(r.upper)
        self.known[unknown[0]] = solved
        self.builder.emit("Check", kind=_K.eq, a=value, b=self.resolve(e), message=message)

    def _compute(self, e: Any) -> Val:
        if isinstance(e, sympy.Symbol):
            raise Unsupported(f"size {self.words(e)} is not known when it is needed")
        if isinstance(e, sympy.core.relational.Relational):
            return self._compare(_BINARY[e.func], e)
        if e.func in _BINARY:
            return self.scalar(_BINARY[e.func], *map(self.resolve, e.args), name=self.words(e))
        if e.func is sympy.Add:
            return self._sum(e)
        if e.func in _CHAINS:
            return reduce(lambda a, b: self.scalar(_CHAINS[e.func], a, b, self.words(e)), map(self.resolve, e.args))
        return self._special(e)

    def _sum(self, e: Any) -> Val:
        """Computes a + b - c, with the added terms first, so that no partial sum is negative without need."""
        terms = sorted(e.args, key=lambda t: (t.could_extract_minus_sign(), not t.free_symbols, str(t)))
        total = self.resolve(terms[0])
        for t in terms[1:]:
            kind, t = (_K.sub, -t) if t.could_extract_minus_sign() else (_K.add, t)
            total = self.scalar(kind, total, self.resolve(t), self.words(e))
        assert isinstance(total, Val)
        return total

    def _special(self, e: Any) -> Val:
        if isinstance(e, sympy.Pow | F.PowByNatural) and e.args[1].is_Integer and int(e.args[1]) > 0:
            return reduce(
                lambda a, b: self.scalar(_K.mul, a, b, self.words(e)), [self.resolve(e.args[0])] * int(e.args[1])
            )
        if isinstance(e, F.ModularIndexing):
            base, divisor, modulus = map(self.resolve, e.args)
            return self.scalar(_K.mod, self.scalar(_K.floor_div, base, divisor), modulus, self.words(e))
        if isinstance(e, F.CeilDiv):
            a, b = map(self.resolve, e.args)
            return self.scalar(_K.neg, self.scalar(_K.floor_div, self.scalar(_K.neg, a), b), name=self.words(e))
        if isinstance(e, sympy.Not):
            return self.scalar(_K.not_, self.resolve(e.args[0]), name=self.words(e))
        if is_bitwise(e):
            return self._bitwise(e)
        if type(e) in _ROUNDED:
            return self._rounded(_ROUNDED[type(e)], self.real(e.args[0]))
        if isinstance(e, F.Identity):
            inner = self.resolve(e.args[0])
            return inner if isinstance(inner, Val) else self.scalar(_K.add, inner, 0)
        if isinstance(e, sympy.Piecewise):
            return self._piecewise(e, self.resolve, self.scalar, 0)
        raise Unsupported(f"size arithmetic {self.words(e)}")

    def _bitwise(self, e: Any) -> Val:
        """Computes a & mask, or a | mask = a + mask - (a & mask), for a number `mask`, in two's complement."""
        numbers = [int(x) for x in e.args if x.is_Integer]
        if len(numbers) != 1:
            raise Unsupported(f"size arithmetic {self.words(e)}: one of the two sides must be a number")
        a, mask = self.resolve(next(x for x in e.args if not x.is_Integer)), numbers[0]
        common = self._masked(a, mask)
        if is_bitwise(e) == "or":
            common = self.subtract(self.add(a, mask), common)
        return common if isinstance(common, Val) else self.scalar(_K.add, common, 0)

    def _masked(self, a: Int, mask: int) -> Int:
        """Computes a & mask: the sum of (a mod 2**high) - (a mod 2**low) over the runs [low, high) of set bits."""
        if mask < 0:
            return self.subtract(a, self._masked(a, ~mask))
        total: Int = 0
        for run in re.finditer("1+", f"{mask:b}"[::-1]):
            low, high = (1 << bit for bit in run.span())
            total = self.add(total, self.subtract(self.modulo(a, high), self.modulo(a, low) if low > 1 else 0))
        return total

    def _piecewise(self, e: Any, value_of: Callable[[Any], Any], scalar: Callable[..., Val], total: Float) -> Val:
        """Computes `total`, which is 0, plus the sum of value_i * (condition_i and no earlier condition)."""
        before: Int = 0
        for value, condition in e.args:
            c = self.resolve(condition)
            chosen = self.scalar(_K.gt, c, before)
            total = scalar(_K.add, total, scalar(_K.mul, value_of(value), chosen))
            before = self.scalar(_K.or_, before, c)
        assert isinstance(total, Val)
        return total

    # ---- floating-point values made of sizes

    def real(self, e: Any) -> Float:
        """Returns the value of a sympy expression of a SymFloat."""
        if e.is_number and not e.free_symbols:
            return float(e)
        if e.is_integer:
            return self.resolve(e)
        if e not in self.known:
            self.known[e] = self._compute_real(e)
        return self.known[e]

    def _compute_real(self, e: Any) -> Val:
        if isinstance(e, F.ToFloat):
            return self._float_scalar(_K.to_float, self.resolve(e.args[0]))
        if isinstance(e, F.IntTrueDiv):
            return self._float_scalar(_K.true_div, *map(self.resolve, e.args))
        if type(e) in _REAL_BINARY:
            return self._float_scalar(_REAL_BINARY[type(e)], *map(self.real, e.args))
        if type(e) in _CHAINS:
            return reduce(lambda a, b: self._float_scalar(_CHAINS[type(e)], a, b), map(self.real, e.args))
        if is_sqrt(e):
            return self._float_scalar(_K.sqrt, self.real(e.args[0]))
        if isinstance(e, F.TruncToFloat):
            return self._float_scalar(_K.to_float, self._rounded(_K.to_int, self.real(e.args[0])))
        if isinstance(e, sympy.Piecewise):
            return self._piecewise(e, self.real, self._float_scalar, 0.0)
        raise Unsupported(f"arithmetic {self.words(e)}")

    def _rounded(self, kind: schema.ScalarKind, x: Float) -> Val:
        """Rounds a float to an integer: down, up, to the nearest (even at halves), or towards zero (to_int)."""
        if kind != _K.to_int:
            x = self._float_scalar(kind, x)
        return self._float_scalar(_K.to_int, x, type="int")

    def _float_scalar(self, kind: schema.ScalarKind, a: Float, b: Float | None = None, type: str = "float") -> Val:
        out = self.builder.val(type)
        self.builder.emit("Scalar", kind=kind, a=a, b=b, out=out)
        return self._bounded(out, kind, a, b)

    # ---- arithmetic on literals and values

    def _arithmetic(self, kind: schema.ScalarKind, f: Callable[[int, int], int], a: Int, b: Int) -> Int:
        if isinstance(a, int) and isinstance(b, int):
            return f(a, b)
        key = (kind, a, b)
        if key not in self.known:
            self.known[key] = self.scalar(kind, a, b)
        return self.known[key]

    def add(self, a: Int, b: Int) -> Int:
        return a if b == 0 else b if a == 0 else self._arithmetic(_K.add, operator.add, a, b)

    def subtract(self, a: Int, b: Int) -> Int:
        return a if b == 0 else self._arithmetic(_K.sub, operator.sub, a, b)

    def multiply(self, a: Int, b: Int) -> Int:
        return a if b == 1 else b if a == 1 else self._arithmetic(_K.mul, operator.mul, a, b)

    def divide(self, a: Int, b: Int) -> Int:
        """Returns the quotient, rounded down."""
        return self._arithmetic(_K.floor_div, operator.floordiv, a, b)

    def modulo(self, a: Int, b: Int) -> Int:
        return self._arithmetic(_K.mod, operator.mod, a, b)

    def product(self, dims: Iterable[Int]) -> Int:
        return reduce(self.multiply, sorted(dims, key=lambda d: isinstance(d, Val)), 1)
