"""The table of patterns: which function recognises what, and at the root of which kinds of calls it is tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch.fx import Node

from clave.patterns.calls import Match

# Raises NoMatch, or gives the function that writes the replacement: called once nothing else reads what it covers.
Pattern = Callable[[Match], Callable[[], Node]]


@dataclass(frozen=True)
class Row:
    name: str
    kinds: frozenset[str]
    find: Pattern


PATTERNS: list[Row] = []


def pattern(name: str, *kinds: str) -> Callable[[Pattern], Pattern]:
    """Registers a pattern under the name that it is counted by. kinds: of its last call (`calls.call`)."""

    def register(f: Pattern) -> Pattern:
        PATTERNS.append(Row(name, frozenset(kinds), f))
        return f

    return register
