"""Matrix products: mm, bmm, matmul, linear, addmm, baddbmm, dot, mv; grouped_mm for rows in groups; _scaled_mm for
8-bit floats."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Slot
from clave.errors import Unsupported
from clave.lowering.registry import WIDE, Context, Scalar, Tensor, lower
from clave.lowering.reshape import insert, reshape, swap
from clave.lowering.steps import cast, compute, is_float, slot_as, step


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
        alpha, beta = int(alpha), int(beta)  # as torch does
    return c.emit("Matmul", a=a, b=b, bias=bias, alpha=float(alpha), beta=float(beta), shape=shape, dtype=dtype)


def _operands(c: Context, *xs: Tensor) -> list[Slot]:
    return [slot_as(c, x, c.dtype()) for x in xs]


@lower("aten.mm.default", "aten.bmm.default", "aten._int_mm.default")
def mm(c: Context, a: Tensor, b: Tensor) -> Tensor:
    """Lowers products of two tensors. _int_mm multiplies 8-bit integers and returns I32."""
    return product(c, *_operands(c, a, b))


@lower("aten.addmm.default", "aten.baddbmm.default")
def addmm(c: Context, bias: Tensor, a: Tensor, b: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """Returns beta * bias + alpha * a @ b. The bias is not read if beta is 0."""
    a, b, bias = _operands(c, a, b, bias)
    return product(c, a, b, None if beta == 0 else bias, alpha, beta)


@lower("aten.linear.default")
def linear(c: Context, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns x @ weight.T + bias. weight: (out, in)."""
    x, weight = _operands(c, x, weight)
    bias = None if bias is None else slot_as(c, bias, c.dtype())
    return _vectors(c, x, weight if weight.rank == 1 else swap(c, weight, 0, 1), bias)


@lower("aten.matmul.default", "aten.mv.default", "aten.dot.default", "aten.linalg_matmul.default")
def matmul(c: Context, a: Tensor, b: Tensor) -> Tensor:
    return _vectors(c, *_operands(c, a, b), None)


def _vectors(c: Context, a: Slot, b: Slot, bias: Slot | None) -> Tensor:
    """Multiplies tensors. A vector is a row on the left and a column on the right, and the result lacks that
    dimension."""
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
    """Returns the product (T, N) of a (T, K) and b (E, K, N). ends: (E), the ends of the groups of rows."""
    return c.emit("GroupedMatmul", a=a, b=b, ends=ends, shape=(a.shape[0], b.shape[2]), dtype=dtype)


@lower("transformers::grouped_mm_fallback")
def grouped_mm_fallback(c: Context, a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """Lowers the op that transformers' experts call if torch's own op is not available."""
    return grouped(c, *_operands(c, a, b), c.tensor(ends))


@lower("aten._grouped_mm.default")
def grouped_mm(c: Context, a: Tensor, b: Tensor, ends: Tensor | None, bias: Tensor | None, _: Any) -> Tensor:
    """Lowers grouped products: a (T, K) and b (E, K, N) have groups of rows, a (E, M, K) and b (K, T) groups of
    columns, and two operands of rank 3 batches. Two matrices would have groups of K, which only training needs."""
    if bias is not None:
        raise Unsupported("a bias")  # torch has no kernel for it either
    a, b = _operands(c, a, b)
    if a.rank == 3 and b.rank == 3:
        return product(c, a, b)
    if a.rank == 2 and b.rank == 2:
        raise Unsupported("two matrices in groups")
    if a.rank == 2:
        return grouped(c, a, b, c.tensor(ends))
    transposed = grouped(c, c.tensor(swap(c, b, 0, 1)), c.tensor(swap(c, a, 1, 2)), c.tensor(ends))
    return swap(c, transposed, 0, 1)


# ---------------------------------------------------------------- 8-bit floats

D = schema.DType


def _scaled(
    c: Context, a: Tensor, b: Tensor, scales: tuple[Tensor, Tensor], bias: Tensor | None, divisor: Tensor | None
) -> Tensor:
    """Returns (a * scale) @ (b * scale) + bias, computed in f32 and rounded once. 8-bit results are first divided by
    `divisor`. Each scale is a number, or (M, 1) for a's rows and (1, N) for b's columns."""
    if any(s.shape not in ((), (1,)) and (s.rank != 2 or s.shape[k] != 1) for s, k in zip(scales, (1, 0), strict=True)):
        raise Unsupported("scales that are neither of tensors nor of rows")
    factors = [
        c.tensor(compute(c, step("mul", D.F32, cast(x, D.F32), scale), x.shape, D.F32))
        for x, scale in zip((a, b), scales, strict=True)
    ]
    added = None if bias is None else slot_as(c, bias, D.F32)
    out: Any = product(c, *factors, added, dtype=D.F32)
    if divisor is not None and c.dtype() in WIDE:
        out = step("div", D.F32, out, divisor)
    return compute(c, out)


@lower("aten._scaled_mm.default")
def scaled_mm(
    c: Context,
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None,
    divisor: Tensor | None,
    *_: Any,
) -> Tensor:
    return _scaled(c, a, b, (scale_a, scale_b), bias, divisor)


@lower("aten._scaled_mm_v2.default")
def scaled_mm_by_recipe(
    c: Context,
    a: Tensor,
    b: Tensor,
    scale_a: list[Tensor],
    recipe_a: list[int],
    swizzle_a: list[int],
    scale_b: list[Tensor],
    recipe_b: list[int],
    swizzle_b: list[int],
    bias: Tensor | None,
    *_: Any,
) -> Tensor:
    """Lowers recipes 0 and 1, which are scales of tensors and of rows."""
    if any(r not in ([0], [1]) for r in (recipe_a, recipe_b)) or any((*swizzle_a, *swizzle_b)):
        raise Unsupported("scales that are neither of tensors nor of rows")
    return _scaled(c, a, b, (scale_a[0], scale_b[0]), bias, None)
