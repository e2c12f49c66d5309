"""Linear algebra made of matrix products: addmv, addbmm, bilinear; and the trilinear sum that decompositions leave."""

from __future__ import annotations

from clave import schema
from clave.builder import Slot
from clave.lowering.matmul import product
from clave.lowering.registry import Context, Scalar, Tensor, lower
from clave.lowering.reshape import insert, permute, reshape
from clave.lowering.steps import compute, slot_as, step


def _all(c: Context, *xs: Tensor) -> list[Slot]:
    return [slot_as(c, x, c.dtype()) for x in xs]


@lower("aten.addmv.default")
def addmv(c: Context, bias: Tensor, a: Tensor, x: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """beta * bias + alpha * a @ x; a bias times 0 is not read."""
    a, x, bias = _all(c, a, x, bias)
    column = None if beta == 0 else c.tensor(insert(c, bias, bias.rank))
    out = product(c, a, c.tensor(insert(c, x, 1)), column, alpha, beta, shape=(*c.shape(), 1))
    return reshape(c, out, c.shape())


@lower("aten.addbmm.default")
def addbmm(c: Context, bias: Tensor, a: Tensor, b: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """beta * bias + alpha * the sum over batches of a @ b: one product over batches and columns together."""
    a, b, bias = _all(c, a, b, bias)
    batch, rows, inner = a.shape
    wide = c.sizes.product([batch, inner])
    left = c.tensor(reshape(c, permute(c, a, [1, 0, 2]), (rows, wide)))
    right = c.tensor(reshape(c, b, (wide, b.shape[-1])))
    return product(c, left, right, None if beta == 0 else bias, alpha, beta)


@lower("aten.bilinear.default")
def bilinear(c: Context, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x: (*, I), y: (*, J), weight: (O, I, J): out_o = x weight_o y + bias_o, as (x weight) (*, O, J) times y."""
    x, y, weight = _all(c, x, y, weight)
    n_out, n_x, n_y = weight.shape
    lead = c.shape()[:-1]
    rows = c.sizes.product(lead)
    table = c.tensor(reshape(c, permute(c, weight, [1, 0, 2]), (n_x, c.sizes.product([n_out, n_y]))))
    flat = c.tensor(reshape(c, x, (rows, n_x)))
    wide = product(c, flat, table, shape=(rows, table.shape[-1]))
    left = c.tensor(reshape(c, wide, (rows, n_out, n_y)))
    column = c.tensor(reshape(c, y, (rows, n_y, 1)))
    added = None if bias is None else c.tensor(insert(c, slot_as(c, bias, c.dtype()), 1))
    return reshape(c, product(c, left, column, added, shape=(rows, n_out, 1)), c.shape())


@lower("aten._trilinear.default")
def trilinear(
    c: Context,
    a: Tensor,
    b: Tensor,
    d: Tensor,
    grow_a: list[int],
    grow_b: list[int],
    grow_d: list[int],
    axes: list[int],
    _: int,
) -> Tensor:
    """The product of three tensors, each with dimensions of 1 inserted, summed over axes."""
    grown = []
    for x, places in ((a, grow_a), (b, grow_b), (d, grow_d)):
        for axis in sorted(places):
            x = insert(c, x, axis)
        grown.append(x)
    shape = tuple(next((s for s in sizes if s != 1), 1) for sizes in zip(*(x.shape for x in grown), strict=True))
    dtype = c.dtype()
    whole = compute(c, step("mul", dtype, step("mul", dtype, grown[0], grown[1]), grown[2]), shape, dtype)
    axes = sorted(axis % len(shape) for axis in axes)
    if not axes:
        return reshape(c, whole, c.shape())
    return c.emit("Reduce", kind=schema.ReduceKind.sum, x=c.tensor(whole), axes=axes, keepdim=False)
