"""Matrix products: mm, bmm, matmul, linear, addmm, baddbmm, dot, mv."""

from __future__ import annotations

from typing import Any

from clave.builder import Slot
from clave.errors import Unsupported
from clave.lowering.registry import Context, Scalar, Tensor, lower
from clave.lowering.reshape import insert, reshape, swap
from clave.lowering.steps import is_float, slot_as


def product(
    c: Context,
    a: Slot,
    b: Slot,
    bias: Slot | None = None,
    alpha: Scalar = 1,
    beta: Scalar = 1,
    shape: Any = None,
    dtype: Any = None,
) -> Slot:
    if not isinstance(alpha, int | float) or not isinstance(beta, int | float):
        raise Unsupported("alpha or beta known only at run time")
    if not is_float(c.dtype() if dtype is None else dtype):
        alpha, beta = int(alpha), int(beta)  # as torch takes them
    return c.emit("Matmul", a=a, b=b, bias=bias, alpha=float(alpha), beta=float(beta), shape=shape, dtype=dtype)


def _operands(c: Context, *xs: Tensor) -> list[Slot]:
    return [slot_as(c, x, c.dtype()) for x in xs]


@lower("aten.mm.default", "aten.bmm.default")
def mm(c: Context, a: Tensor, b: Tensor) -> Tensor:
    return product(c, *_operands(c, a, b))


@lower("aten.addmm.default", "aten.baddbmm.default")
def addmm(c: Context, bias: Tensor, a: Tensor, b: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """beta * bias + alpha * a @ b; a bias times 0 is not read."""
    a, b, bias = _operands(c, a, b, bias)
    return product(c, a, b, None if beta == 0 else bias, alpha, beta)


@lower("aten.linear.default")
def linear(c: Context, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias; weight: (out, in)."""
    x, weight = _operands(c, x, weight)
    bias = None if bias is None else slot_as(c, bias, c.dtype())
    return _vectors(c, x, weight if weight.rank == 1 else swap(c, weight, 0, 1), bias)


@lower("aten.matmul.default", "aten.mv.default", "aten.dot.default", "aten.linalg_matmul.default")
def matmul(c: Context, a: Tensor, b: Tensor) -> Tensor:
    return _vectors(c, *_operands(c, a, b), None)


def _vectors(c: Context, a: Slot, b: Slot, bias: Slot | None) -> Tensor:
    """A vector on the left is a row, on the right a column; the dimension added for it goes away again."""
    out = list(c.shape())
    if b.rank == 1:
        b = c.tensor(insert(c, b, 1))
        out.append(1)
    if a.rank == 1:
        a = c.tensor(insert(c, a, 0))
        out.insert(len(out) - 1, 1)
    return reshape(c, product(c, a, b, bias, shape=tuple(out)), c.shape())
