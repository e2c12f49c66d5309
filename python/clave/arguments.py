"""Checks of what callers give to the package: what is wrong is one Error, `NAME: expected ..., got ...`."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

from clave.errors import Error


def described(x: Any) -> str:
    """A value in a few words, for a message."""
    kind = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
    if x is None or isinstance(x, bool):
        return str(x)
    if isinstance(x, type):
        return f"the class {x.__qualname__}"
    if isinstance(x, str | bytes | int | float | complex):
        text = repr(x) if not isinstance(x, int) or -(10**30) < x < 10**30 else "one of many digits"
        return f"{kind} {text[:60]}"
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
    """UTF-8 for the library, which reads up to a NUL."""
    if not isinstance(x, str):
        raise refused(name, expected, x)
    if "\0" in x:
        raise Error(f"{name}: expected {expected} without NUL, got {described(x)}")
    try:
        return x.encode()
    except UnicodeEncodeError:
        raise Error(f"{name}: expected {expected} of Unicode, got {described(x)}, which has half a character") from None


def path(name: str, x: Any, expected: str = "a path (str or os.PathLike)") -> bytes:
    """As the system spells it."""
    if not isinstance(x, str | os.PathLike):
        raise refused(name, expected, x)
    try:
        found = os.fsencode(x)
    except (TypeError, ValueError):
        raise refused(name, expected, x) from None
    if b"\0" in found:
        raise Error(f"{name}: expected a path without NUL, got {described(x)}")
    return found


def integer(name: str, x: Any, low: int, high: int) -> int:
    """A whole number in [low, high]: an int, or numpy's or torch's."""
    bounds = f"an integer in [{_number(low)}, {_number(high)}]"
    try:
        found = operator.index(x)
    except (TypeError, ValueError, RuntimeError):  # RuntimeError: a tensor without an element
        raise refused(name, bounds, x) from None
    if isinstance(x, bool) or not low <= found <= high:
        raise refused(name, bounds, x)
    return found


def _number(n: int) -> str:
    power = (n + 1).bit_length() - 1
    return f"2**{power} - 1" if n > 10**6 and n + 1 == 2**power else str(n)


def flag(name: str, x: Any) -> bool:
    """True or False; numpy's, 1 and 0 are taken for them."""
    if isinstance(x, bool) or type(x).__name__ in ("bool_", "bool") or (isinstance(x, int) and x in (0, 1)):
        return bool(x)
    raise refused(name, "True or False", x)


def choice(name: str, x: Any, known: Iterable[str | None]) -> Any:
    """One of a few names, or None where that is among them."""
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
    """Several texts. One text is none: it would be taken for its letters."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise refused(name, expected, x)
    try:
        found = list(x)
    except Exception:  # a tensor without dimensions or elements
        raise refused(name, expected, x) from None
    for one in found:
        text(name, one, expected)
    return found


def ids(name: str, x: Any) -> list[int]:
    """Ids of tokens: a list, a tuple, or one dimension of integers of numpy's or torch's."""
    if isinstance(x, str | bytes | Mapping) or not isinstance(x, Iterable):
        raise refused(name, "a list of integers", x)
    try:
        found = list(x)
    except Exception:
        raise refused(name, "a list of integers", x) from None
    return [integer(f"an id of {name}", i, 0, 2**32 - 1) for i in found]
