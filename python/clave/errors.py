"""The errors that clave raises."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class Code(IntEnum):
    """What kind of error: the numbers of `clave_code` in clave.h."""

    OK = 0
    INVALID = 1
    UNSUPPORTED = 2
    NO_MEMORY = 3
    DEVICE = 4
    IO = 5


class Error(RuntimeError):
    """Something clave could not do: one line, and `.code` says of which kind."""

    def __init__(self, message: str, code: Code = Code.INVALID) -> None:
        super().__init__(message)
        self.code = code


class UnsupportedOp(Error):
    """A graph holds ops that clave cannot run. `.ops` names each once: "aten.sort.default", "check::first".

    `.reasons` says for some of them what exactly is missing (an op that is supported, but not with these arguments).
    """

    def __init__(self, ops: list[str], reasons: Mapping[str, str] | None = None) -> None:
        self.ops = ops
        self.reasons = dict(reasons or {})
        listed = (f"{op} ({self.reasons[op]})" if op in self.reasons else op for op in ops)
        noun = "op" if len(ops) == 1 else "ops"
        super().__init__(f"{len(ops)} unsupported {noun}: {', '.join(listed)}", Code.UNSUPPORTED)


class Unsupported(Exception):
    """Raised by a lowering: its op is known, but not with these arguments. The exporter collects the reasons."""
