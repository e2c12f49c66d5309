"""The errors that clave raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """What kind of error: the numbers of `clave_code` in clave.h."""

    OK = 0
    INVALID = 1
    UNSUPPORTED = 2
    NO_MEMORY = 3
    DEVICE = 4
    IO = 5
    CANCELLED = 6


class Error(RuntimeError):
    """Something clave could not do: one line, and `.code` says of which kind."""

    def __init__(self, message: str, code: Code = Code.INVALID) -> None:
        super().__init__(message)
        self.code = code


class Cancelled(Error):
    """A run ended because its caller asked for that; `.code` is CANCELLED."""

    def __init__(self, message: str, code: Code = Code.CANCELLED) -> None:
        super().__init__(message, code)


class Raised:
    """What a callback raised, until the library's call returns. A callback holds this object alone, so it does not keep
    the session or the options alive that hold the callback."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def take(self) -> BaseException | None:
        """The exception, once."""
        error, self.error = self.error, None
        return error


@dataclass(frozen=True)
class Origin:
    """Where in a model a call stands. module: its path ("layers.3.attn"), "" in the outermost module; line:
    "file.py:12: text", "" where torch keeps none.
    """

    method: str
    module: str
    line: str

    def __str__(self) -> str:
        return " at ".join(filter(None, (self.module, self.line)))


class UnsupportedOp(Error):
    """A graph holds ops that clave cannot run. `.ops` names each once: "aten.sort.default", "check::first".

    `.reasons` says for some of them what exactly is missing (an op that is supported, but not with these arguments).
    `.places` has for each op where it is called, one Origin per call.
    """

    def __init__(
        self,
        ops: list[str],
        reasons: Mapping[str, str] | None = None,
        places: Mapping[str, list[Origin]] | None = None,
    ) -> None:
        self.ops = ops
        self.reasons = dict(reasons or {})
        self.places = {op: list(where) for op, where in (places or {}).items()}
        noun = "op" if len(ops) == 1 else "ops"
        super().__init__(f"{len(ops)} unsupported {noun}: {', '.join(map(self._told, ops))}", Code.UNSUPPORTED)

    def _told(self, op: str) -> str:
        where = self.places.get(op, [])
        many = len({o.method for places in self.places.values() for o in places}) > 1
        parts = (self.reasons.get(op), f"{len(where)} calls" if len(where) > 1 else "", _told_places(where, many))
        said = "; ".join(filter(None, parts))
        return f"{op} ({said})" if said else op


_TOLD = 3  # places of an op that a message names


def _told_places(where: list[Origin], many: bool) -> str:
    """The first places, those of one line together. many: with the methods' names."""
    by_line: dict[str, list[str]] = {}
    for o in where[:_TOLD]:
        modules = by_line.setdefault(o.line, [])
        name = " of ".join(filter(None, (o.module, f"method {o.method!r}" if many else "")))
        if name and name not in modules:
            modules.append(name)
    told = [" at ".join(filter(None, (", ".join(modules), line))) for line, modules in by_line.items()]
    rest = f"{len(where) - _TOLD} more" if len(where) > _TOLD else ""
    return ", ".join(filter(None, (*told, rest)))


class Unsupported(Exception):
    """Raised by a lowering: its op is known, but not with these arguments. The exporter collects the reasons."""


class UsageError(Exception):
    """What of a command line cannot be meant so, in a line."""
