"""Matrix products: mm, bmm, matmul, linear, addmm, baddbmm, dot, mv; and of rows in groups: grouped_mm."""

from __future__ import annotations

from typing import Any

from clave.builder import Slot
from clave.errors import Unsupported
from clave.lowering.registry import Context, Scalar, Tensor, lower
from clave.lowering.reshape import insert, reshape, swap
from clave.lowering.steps import compute, is_float, opmath, slot_as, step


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


# ---------------------------------------------------------------- groups of rows


def grouped(c: Context, a: Slot, b: Slot, ends: Slot, dtype: Any = None) -> Slot:
    """a: (T, K), b: (E, K, N), ends of the groups: (E); the product (T, N)."""
    return c.emit("GroupedMatmul", a=a, b=b, ends=ends, shape=(a.shape[0], b.shape[2]), dtype=dtype)


@lower("transformers::grouped_mm_fallback")
def grouped_mm_fallback(c: Context, a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """What transformers' experts call where torch's own op cannot be."""
    return grouped(c, *_operands(c, a, b), c.tensor(ends))


@lower("aten._grouped_mm.default")
def grouped_mm(c: Context, a: Tensor, b: Tensor, ends: Tensor | None, bias: Tensor | None, _: Any) -> Tensor:
    """a: (T, K), b: (E, K, N): rows in groups; a: (E, M, K), b: (K, T): columns in groups; both of three dimensions:
    batches. Between two matrices groups divide K, which only training needs."""
    if bias is not None:
        raise Unsupported("a bias")  # torch has no kernel for it either
    a, b = _operands(c, a, b)
    if a.rank == 3 and b.rank == 3:
        return product(c, a, b)
    if a.rank == 2 and b.rank == 2:
        raise Unsupported("two matrices in groups")
    if a.rank == 2:
        return grouped(c, a, b, c.tensor(ends))
    turned = grouped(c, c.tensor(swap(c, b, 0, 1)), c.tensor(swap(c, a, 1, 2)), c.tensor(ends))
    return swap(c, turned, 0, 1)


@lower("aten._weight_int8pack_mm.default")
def int8_weight(c: Context, x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """x: (M, K) times weight: (N, K), i8, with a scale for each of its rows."""
    t = opmath(c.dtype())
    columns = swap(c, slot_as(c, weight, t), 0, 1)
    sums = product(c, slot_as(c, x, t), columns, shape=c.shape(), dtype=t)
    return compute(c, step("mul", t, sums, scales))
