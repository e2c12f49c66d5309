"""Lowers tril and triu."""

from __future__ import annotations

from clave.errors import Unsupported
from clave.lowering.registry import Context, Tensor, lower


def _triangle(c: Context, x: Tensor, diagonal: int, upper: bool) -> Tensor:
    if not isinstance(diagonal, int):
        raise Unsupported("a diagonal known only at run time")
    return c.emit("Triangle", x=c.tensor(x), diagonal=diagonal, upper=upper)


@lower("aten.tril.default")
def tril(c: Context, x: Tensor, diagonal: int) -> Tensor:
    return _triangle(c, x, diagonal, False)


@lower("aten.triu.default")
def triu(c: Context, x: Tensor, diagonal: int) -> Tensor:
    return _triangle(c, x, diagonal, True)
