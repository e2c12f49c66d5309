"""Checks the arguments that callers pass to the package. A bad one raises Error, `NAME: expected ..., got ...`."""

from __future__ import annotations

import difflib
import math
import numbers
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from clave.errors import Error


def described(x: Any) -> str:
    """Describes a value in a few words, for a message."""
    kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
    if x is None or isinstance(x, bool):
        return str(x)
    if isinstance(x, type):
        return f"the class {x.__qualname__}"
    if isinstance(x, str | bytes | int | float | complex):
        text = repr(x) if not isinstance(x, int) or -(10**30) < x < 10**30 else "one of many digits"
        return text[:60]
    if hasattr(x, "dtype"):
        try:
            return f"a {kind} of shape {tuple(x.shape)}"
        except Exception:  # a nested tensor has no shape
            return f"a {kind}"
    if isinstance(x, list | tuple | Mapping | set | frozenset):
        return f"a {kind} of {len(x)}"
    return f"a {kind}"


def refused(name: str, expected: str, got: Any) -> Error:
    return Error(f"{name}: expected {expected}, got {described(got)}")


def text(name: str, x: Any, expected: str = "a str") -> bytes:
    """Returns a str as UTF-8. Raises Error for a NUL, which ends a text in the library, and for a lone surrogate."""
    if not isinstance(x, str):
        raise refused(name, expected, x)
    if "\0" in x:
        raise Error(f"{name}: expected {expected} without NUL, got {described(x)}")
    try:
        return x.encode()
    except UnicodeEncodeError:
        raise Error(f"{name}: expected {expected} of Unicode, got {described(x)}, which has a lone surrogate") from None


def path(name: str, x: Any, expected: str = "a path (str or os.PathLike)") -> bytes:
    """Returns a path in the encoding of the file system. Raises Error if it is not a path or contains a NUL."""
    if not isinstance(x, str | os.PathLike):
        raise refused(name, expected, x)
    try:
        found = os.fsencode(x)
    except (TypeError, ValueError):
        raise refused(name, expected, x) from None
    if b"\0" in found:
        raise Error(f"{name}: expected a path without NUL, got {described(x)}")
    return found


def integer(name: str, x: Any, low: int, high: int, otherwise: str = "") -> int:
    """Returns a whole number in [low, high]: an int, an integer of numpy or torch, or a float such as 2.0. Raises Error
    for anything else. otherwise: other values that the argument may have, for the message."""
    found = None
    if not is_bool(x):
        try:
            found = operator.index(x)
        except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor without an element
            found = int(x) if _is_finite(x) and x == int(x) else None
    if found is None or not low <= found <= high:
        raise refused(name, f"an integer from {_number(low)} to {_number(high)}{otherwise}", x)
    return found


def number(name: str, x: Any, low: float, high: float) -> float:
    """Returns a finite number in [low, high] as a float. Raises Error for anything else. A bound may be infinite."""
    if is_bool(x) or not _is_finite(x) or not low <= x <= high:
        raise refused(name, _range(low, high), x)
    return float(x)


def _is_finite(x: Any) -> bool:
    """True for a finite number that a float can hold."""
    try:
        return isinstance(x, numbers.Real) and math.isfinite(x)
    except OverflowError:  # an int or a fraction beyond the largest float
        return False


def _range(low: float, high: float) -> str:
    if math.isinf(low):
        return "a finite number"
    return f"a number of at least {low:g}" if math.isinf(high) else f"a number from {low:g} to {high:g}"


def _number(n: int) -> str:
    power = (n + 1).bit_length() - 1
    return f"2**{power} - 1" if n > 10**6 and n + 1 == 2**power else str(n)


def is_bool(x: Any) -> bool:
    """True for a bool of Python or numpy."""
    return isinstance(x, bool) or type(x).__name__ in ("bool_", "bool")


def flag(name: str, x: Any) -> bool:
    """Returns True or False. Accepts bools of Python and numpy, 1 and 0, and raises Error for anything else."""
    if is_bool(x) or (isinstance(x, int) and x in (0, 1)):
        return bool(x)
    raise refused(name, "True or False", x)


def choice(name: str, x: Any, known: Iterable[str | None]) -> Any:
    """Returns one of the known names, or None if that is among them. Raises Error for anything else."""
    known = list(known)
    if (x is not None and not isinstance(x, str)) or x not in known:
        *some, last = [repr(k) for k in known]
        raise refused(name, f"{', '.join(some)} or {last}" if some else last, x)
    return x


def function(name: str, x: Any, expected: str = "a function") -> Any:
    if not callable(x):
        raise refused(name, expected, x)
    return x


def names(name: str, x: Any, expected: str = "a list of names") -> list[str]:
    """Returns several texts as a list. Raises Error for a single text, whose letters would be read as names."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise refused(name, expected, x)
    try:
        found = list(x)
    except Exception:  # a tensor without dimensions or elements
        raise refused(name, expected, x) from None
    for one in found:
        text(name, one, expected)
    return found


def ids(name: str, x: Any, high: int = 2**32 - 1) -> list[int]:
    """Returns token ids in [0, high] from a list, a tuple, or a one-dimensional integer array of numpy or torch."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise refused(name, "a list of integers", x)
    try:
        found = list(x)
    except Exception:
        raise refused(name, "a list of integers", x) from None
    return [integer(f"an id of {name}", i, 0, high) for i in found]


class UnknownOption(Error, TypeError):
    """A keyword argument that a function does not have."""


def refuse_unknown(name: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> UnknownOption:
    """Returns the error for an option that does not exist. elsewhere: maps the names that other programs use to our
    options. Such an option that is not in `known` belongs to clave.LLM."""
    known = list(known)
    near = elsewhere.get(name) or next(iter(difflib.get_close_matches(name, known, 1)), None)
    if near is None:
        return UnknownOption(f"no option {name!r}")
    return UnknownOption(
        f"no option {name!r}; " + (f"did you mean {near!r}?" if near in known else f"clave.LLM accepts {near!r}")
    )
