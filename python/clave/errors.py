"""The errors that clave raises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Code(IntEnum):
    """The kind of an error, numbered as `clave_code` in clave.h."""

    OK = 0
    INVALID = 1
    UNSUPPORTED = 2
    NO_MEMORY = 3
    DEVICE = 4
    IO = 5
    CANCELLED = 6


class Error(RuntimeError):
    """The base of clave's errors. The message is one line, and `.code` is the kind of the error."""

    def __init__(self, message: str, code: Code = Code.INVALID) -> None:
        super().__init__(message)
        self.code = code


class Cancelled(Error):
    """A run that its caller cancelled. `.code` is CANCELLED."""

    def __init__(self, message: str, code: Code = Code.CANCELLED) -> None:
        super().__init__(message, code)


class Raised:
    """Holds the exception that a callback raised until the library's call returns.

    A callback refers only to this object, so it does not keep the session or the options alive that own the callback.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def take(self) -> BaseException | None:
        """Returns the exception and forgets it."""
        error, self.error = self.error, None
        return error


@dataclass(frozen=True)
class Origin:
    """The place of a call in a model. module: the module's path ("layers.3.attn"), "" for the outermost module. line:
    "file.py:12: text", "" if torch records none.
    """

    method: str
    module: str
    line: str

    def __str__(self) -> str:
        return " at ".join(filter(None, (self.module, self.line)))


class UnsupportedOp(Error):
    """A graph has ops that clave cannot run. `.ops` names each one once, such as "aten.sort.default", "check::first".

    `.reasons` says for some ops what is missing: an op may be supported, but not with the given arguments. `.places`
    has the calls of each op, one Origin per call.
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
        super().__init__(f"{len(ops)} unsupported {noun}: {', '.join(map(self._described, ops))}", Code.UNSUPPORTED)

    def _described(self, op: str) -> str:
        where = self.places.get(op, [])
        many = len({o.method for places in self.places.values() for o in places}) > 1
        parts = (self.reasons.get(op), f"{len(where)} calls" if len(where) > 1 else "", _described_places(where, many))
        detail = "; ".join(filter(None, parts))
        return f"{op} ({detail})" if detail else op


_MAX_PLACES = 3  # places of an op that a message names


def _described_places(where: list[Origin], many: bool) -> str:
    """Describes the first places of calls, grouped by line. many: there are several methods, whose names are added."""
    by_line: dict[str, list[str]] = {}
    for o in where[:_MAX_PLACES]:
        modules = by_line.setdefault(o.line, [])
        name = " of ".join(filter(None, (o.module, f"method {o.method!r}" if many else "")))
        if name and name not in modules:
            modules.append(name)
    described = [" at ".join(filter(None, (", ".join(modules), line))) for line, modules in by_line.items()]
    rest = f"{len(where) - _MAX_PLACES} more" if len(where) > _MAX_PLACES else ""
    return ", ".join(filter(None, (*described, rest)))


class Unsupported(Exception):
    """Raised by a lowering whose op is supported, but not with these arguments. The exporter collects the reasons."""


class UsageError(Exception):
    """A malformed command line, with a message of one line."""
