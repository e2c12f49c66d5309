"""Checks of the numbers and names that callers give: what is wrong is one Error, `NAME: expected ..., got ...`."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from clave.errors import Error


class UnknownOption(Error, TypeError):
    """A keyword argument that a function does not have."""


def integer(name: str, value: Any, low: int, high: int, otherwise: str = "") -> int:
    """A whole number in [low, high]; 2.0 is 2. otherwise: what else the argument may be, for the message."""
    found = None
    if not _is_bool(value):
        try:
            found = operator.index(value)
        except TypeError:
            whole = isinstance(value, numbers.Real) and math.isfinite(value) and value == int(value)
            found = int(value) if whole else None
    if found is None or not low <= found <= high:
        raise Error(f"{name}: expected an integer of {low} to {_told(high)}{otherwise}, got {_shown(value)}")
    return found


def number(name: str, value: Any, low: float, high: float) -> float:
    """A number in [low, high], which NaN is not; infinite bounds say that the number itself is finite."""
    good = isinstance(value, numbers.Real) and not _is_bool(value) and math.isfinite(value) and low <= value <= high
    if not good:
        raise Error(f"{name}: expected {_range(low, high)}, got {_shown(value)}")
    return float(value)


def switch(name: str, value: Any) -> bool:
    if not _is_bool(value):
        raise Error(f"{name}: expected True or False, got {_shown(value)}")
    return bool(value)


def refuse_unknown(name: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> UnknownOption:
    """The error for a name that there is not. elsewhere: what others call ours, by their names; what of those is not
    among the known is clave.LLM's own."""
    known = list(known)
    near = elsewhere.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), None)
    if near is None:
        return UnknownOption(f"no option {name!r}")
    return UnknownOption(
        f"no option {name!r}; " + (f"did you mean {near!r}?" if near in known else f"clave.LLM takes {near!r}")
    )


def _is_bool(value: Any) -> bool:
    """True for numpy's too."""
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def _range(low: float, high: float) -> str:
    if math.isinf(low):
        return "a finite number"
    return f"a number of {low:g} or more" if math.isinf(high) else f"a number of {low:g} to {high:g}"


def _told(high: int) -> str:
    power = (high + 1).bit_length() - 1
    return f"2**{power} - 1" if high > 10**6 and high + 1 == 2**power else str(high)


def _shown(value: Any) -> str:
    return repr(value)[:80]
