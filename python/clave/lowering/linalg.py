"""Linear algebra: ops of matrix products (addmv, addbmm, bilinear, the sum that einsum leaves), and factorisations of
matrices, with systems, inverses and determinants that use them.
"""

from __future__ import annotations

import torch

from clave import schema
from clave.builder import Int, Slot
from clave.dtypes import torch_dtype
from clave.errors import Unsupported
from clave.lowering.arange import counting
from clave.lowering.matmul import product
from clave.lowering.nonzero import broadcast
from clave.lowering.registry import Context, Filled, Scalar, Tensor, lower
from clave.lowering.reshape import expand, insert, permute, reshape, swap
from clave.lowering.scatter import scatter_into
from clave.lowering.slice import slice_
from clave.lowering.steps import compute, slot_as, step

D = schema.DType
K = schema.LinalgKind


def _all(c: Context, *xs: Tensor) -> list[Slot]:
    return [slot_as(c, x, c.dtype()) for x in xs]


@lower("aten.addmv.default")
def addmv(c: Context, bias: Tensor, a: Tensor, x: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """Returns beta * bias + alpha * a @ x. The bias is not read if beta is 0."""
    a, x, bias = _all(c, a, x, bias)
    column = None if beta == 0 else c.tensor(insert(c, bias, bias.rank))
    out = product(c, a, c.tensor(insert(c, x, 1)), column, alpha, beta, shape=(*c.shape(), 1))
    return reshape(c, out, c.shape())


@lower("aten.addbmm.default")
def addbmm(c: Context, bias: Tensor, a: Tensor, b: Tensor, beta: Scalar, alpha: Scalar) -> Tensor:
    """Returns beta * bias + alpha * the sum over batches of a @ b, by one product over batches and columns together."""
    a, b, bias = _all(c, a, b, bias)
    batch, rows, inner = a.shape
    wide = c.sizes.product([batch, inner])
    left = c.tensor(reshape(c, permute(c, a, [1, 0, 2]), (rows, wide)))
    right = c.tensor(reshape(c, b, (wide, b.shape[-1])))
    return product(c, left, right, None if beta == 0 else bias, alpha, beta)


@lower("aten.bilinear.default")
def bilinear(c: Context, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Returns out_o = x weight_o y + bias_o, as (x weight) (*, O, J) times y. x: (*, I), y: (*, J), weight: (O, I,
    J)."""
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
    """Returns the product of three tensors, each with inserted dimensions of size 1, summed over axes."""
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


# ---------------------------------------------------------------- factors


def _least(a: Int, b: Int) -> Int:
    if not isinstance(a, int) or not isinstance(b, int):
        raise Unsupported("matrices whose sizes are known only at run time")
    return min(a, b)


def _vectors(c: Context, a: Slot, b: Slot) -> bool:
    """True if torch treats the right side of a system as vectors, one for each matrix."""
    return b.rank == 1 or (a.rank - 1 == b.rank and b.shape == a.shape[:-1])


def _batched(c: Context, x: Tensor, lead: tuple[Int, ...]) -> Slot:
    return c.tensor(expand(c, x, (*lead, *x.shape[-2:])))


def _lu(c: Context, x: Slot, info: bool = False) -> tuple[Slot, Slot, Slot | None]:
    lead, k = x.shape[:-2], _least(*x.shape[-2:])
    pivots = c.builder.temp(D.I32, (*lead, k))
    more = {"info": c.builder.temp(D.I32, lead)} if info else {}
    lu = c.emit("Linalg", kind=K.lu, x=x, b=pivots, **more, shape=x.shape, dtype=x.dtype)
    return lu, pivots, more.get("info")


def _triangular(c: Context, a: Slot, b: Slot, upper: bool, unit: bool = False) -> Slot:
    """Returns a^-1 b. Leading dimensions broadcast."""
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    a, b = _batched(c, a, lead), _batched(c, b, lead)
    return c.emit("TriangularSolve", a=a, b=b, upper=upper, unit=unit, shape=b.shape, dtype=b.dtype)


def _order(c: Context, pivots: Slot, n: Int) -> Slot:
    """Returns the order of the rows after the exchanges, (*, n)."""
    return c.emit("PivotOrder", pivots=pivots, shape=(*pivots.shape[:-1], n), dtype=D.I64)


def _take_rows(c: Context, x: Slot, order: Slot) -> Slot:
    """Returns x (*, M, N) with its rows in an order (*, M)."""
    lead = broadcast(x.shape[:-2], order.shape[:-1])
    shape = (*lead, *x.shape[-2:])
    index = c.tensor(expand(c, insert(c, order, order.rank), shape))
    return c.emit("Gather", x=_batched(c, x, lead), axis=len(lead), index=index, shape=shape, dtype=x.dtype)


def _inverse_order(c: Context, order: Slot) -> Slot:
    """Returns the new place of each row."""
    axis = order.rank - 1
    places = c.tensor(expand(c, counting(c, 0, order.shape[-1]), order.shape))
    return c.tensor(scatter_into(c, Filled(0, D.I64, order.shape), axis, order, places))


def _lu_solve(c: Context, lu: Slot, pivots: Slot, b: Slot, transposed: bool = False) -> Slot:
    """Returns a^-1 b for a = P L U, or for its transpose."""
    order = _order(c, pivots, lu.shape[-2])
    if not transposed:
        b = _triangular(c, lu, _take_rows(c, b, order), upper=False, unit=True)
        return _triangular(c, lu, b, upper=True)
    turned = swap(c, lu, -2, -1)
    b = _triangular(c, turned, b, upper=False)
    b = _triangular(c, turned, b, upper=True, unit=True)
    return _take_rows(c, b, _inverse_order(c, order))


def _identity(c: Context, n: Int, dtype: schema.DType) -> Slot:
    i = counting(c, 0, n)
    equal = step("eq", D.I64, reshape(c, i, (n, 1)), i)
    return c.tensor(compute(c, step("cast", dtype, equal), (n, n), dtype))


def _eye_like(c: Context, x: Slot) -> Slot:
    return _batched(c, _identity(c, x.shape[-1], x.dtype), x.shape[:-2])


def _triangle(c: Context, x: Slot, upper: bool, diagonal: int = 0) -> Slot:
    return c.emit("Triangle", x=x, diagonal=diagonal, upper=upper, shape=x.shape, dtype=x.dtype)


def _diagonal(c: Context, x: Slot) -> Slot:
    shape = (*x.shape[:-2], _least(*x.shape[-2:]))
    return c.tensor(c.builder.view("Diagonal", x, shape, offset=0, axis1=x.rank - 2, axis2=x.rank - 1))


def _fold(c: Context, kind: schema.ReduceKind, x: Tensor) -> Slot:
    """Reduces the last dimension."""
    x = c.tensor(x)
    return c.emit("Reduce", kind=kind, x=x, axes=[x.rank - 1], keepdim=False, shape=x.shape[:-1], dtype=x.dtype)


def _sign_of_order(c: Context, pivots: Slot, dtype: schema.DType) -> Slot:
    """Returns the sign of the exchanges: a factor -1 for each row that was exchanged with another."""
    numbers = counting(c, 1, pivots.shape[-1])
    sign = step("where", dtype, step("ne", D.I64, pivots, numbers), -1, 1)
    return _fold(c, schema.ReduceKind.prod, compute(c, sign, pivots.shape, dtype))


@lower("aten.linalg_lu_factor_ex.default")
def lu_factor_ex(c: Context, x: Tensor, pivot: bool, _: bool) -> list[Tensor | None]:
    _with_pivots(pivot)
    return list(_lu(c, c.tensor(x), c.used(2)))


def _with_pivots(pivot: bool) -> None:
    if not pivot:
        raise Unsupported("LU without pivots")


def _unpack(c: Context, lu: Slot, pivots: Slot) -> list[Tensor | None]:
    """Returns P, L and U."""
    m, n = lu.shape[-2:]
    lead, k, axis = lu.shape[:-2], _least(m, n), lu.rank
    left = c.tensor(slice_(c, lu, axis - 1, 0, k, k))
    below = _triangle(c, left, False, -1)
    eye = step("eq", D.I64, reshape(c, counting(c, 0, m), (m, 1)), counting(c, 0, k))
    ones = compute(c, step("cast", lu.dtype, eye), (m, k), lu.dtype)
    low = compute(c, step("add", lu.dtype, below, ones), (*lead, m, k), lu.dtype)
    up = _triangle(c, c.tensor(slice_(c, lu, axis - 2, 0, k, k)), True)
    order = insert(c, _order(c, pivots, m), axis - 2)
    rows = reshape(c, counting(c, 0, m), (m, 1))
    turned = compute(c, step("cast", lu.dtype, step("eq", D.I64, rows, order)), (*lead, m, m), lu.dtype)
    return [turned, low, up]


@lower("aten.linalg_lu.default")
def lu(c: Context, x: Tensor, pivot: bool) -> list[Tensor | None]:
    _with_pivots(pivot)
    packed, pivots, _ = _lu(c, c.tensor(x))
    return _unpack(c, packed, pivots)


@lower("aten.lu_unpack.default")
def lu_unpack(c: Context, x: Tensor, pivots: Tensor, _: bool, __: bool) -> list[Tensor | None]:
    return _unpack(c, c.tensor(x), slot_as(c, pivots, D.I32))


@lower("aten.linalg_lu_solve.default")
def lu_solve(c: Context, x: Tensor, pivots: Tensor, b: Tensor, left: bool, adjoint: bool) -> Tensor:
    """Lowers lu_solve. A system x a = b is solved as a^T x^T = b^T."""
    packed, pivots, b = c.tensor(x), slot_as(c, pivots, D.I32), c.tensor(b)
    if left:
        return _lu_solve(c, packed, pivots, b, adjoint)
    return swap(c, _lu_solve(c, packed, pivots, swap(c, b, -2, -1), not adjoint), -2, -1)


@lower("aten._linalg_solve_ex.default")
def solve_ex(c: Context, a: Tensor, b: Tensor, left: bool, _: bool) -> list[Tensor | None]:
    """Lowers solve. Returns None for the factors, which only gradients need."""
    a, b = c.tensor(a), c.tensor(b)
    is_vector = _vectors(c, a, b)
    b = c.tensor(insert(c, b, b.rank)) if is_vector else b
    turned = not left and not is_vector
    lu, pivots, info = _lu(c, a, info=True)
    if turned:
        b = swap(c, b, -2, -1)
    x = _lu_solve(c, lu, pivots, b, turned)
    x = swap(c, x, -2, -1) if turned else x
    return [reshape(c, x, c.shape(0)), None, None, info]


@lower("aten.linalg_inv_ex.default")
def inv_ex(c: Context, a: Tensor, _: bool) -> list[Tensor | None]:
    a = c.tensor(a)
    lu, pivots, info = _lu(c, a, info=True)
    return [_lu_solve(c, lu, pivots, _eye_like(c, a)), info]


@lower("aten._linalg_det.default")
def det(c: Context, a: Tensor) -> list[Tensor | None]:
    lu, pivots, _ = _lu(c, c.tensor(a))
    product_ = _fold(c, schema.ReduceKind.prod, _diagonal(c, lu))
    return [
        compute(c, step("mul", lu.dtype, product_, _sign_of_order(c, pivots, lu.dtype)), c.shape(0), lu.dtype),
        lu,
        pivots,
    ]


@lower("aten._linalg_slogdet.default")
def slogdet(c: Context, a: Tensor) -> list[Tensor | None]:
    lu, pivots, _ = _lu(c, c.tensor(a))
    t, diagonal = lu.dtype, _diagonal(c, lu)
    signs = _fold(c, schema.ReduceKind.prod, compute(c, step("sign", t, diagonal), diagonal.shape, t))
    sign = compute(c, step("mul", t, signs, _sign_of_order(c, pivots, t)), c.shape(0), t)
    logs = _fold(c, schema.ReduceKind.sum, compute(c, step("log", t, step("abs", t, diagonal)), diagonal.shape, t))
    return [sign, logs, lu, pivots]


def _cholesky(c: Context, x: Tensor, upper: bool, info: bool) -> list[Tensor | None]:
    x = c.tensor(x)
    more = {"info": c.builder.temp(D.I32, x.shape[:-2])} if info else {}
    a = c.emit("Linalg", kind=K.cholesky, x=x, upper=upper, **more, shape=x.shape, dtype=x.dtype)
    return [a, more.get("info")]


@lower("aten.linalg_cholesky_ex.default")
def cholesky_ex(c: Context, x: Tensor, upper: bool, _: bool) -> list[Tensor | None]:
    return _cholesky(c, x, upper, c.used(1))


@lower("aten.cholesky.default")
def cholesky(c: Context, x: Tensor, upper: bool) -> Tensor:
    a, info = _cholesky(c, x, upper, True)
    check_info(c, info, "cholesky")
    assert a is not None
    return a


@lower("aten.cholesky_solve.default")
def cholesky_solve(c: Context, b: Tensor, a: Tensor, upper: bool) -> Tensor:
    return _cholesky_solve(c, c.tensor(a), c.tensor(b), upper)


def _cholesky_solve(c: Context, a: Slot, b: Slot, upper: bool) -> Slot:
    """Returns (L L^T)^-1 b, or (U^T U)^-1 b."""
    turned = swap(c, a, -2, -1)
    first, second = (turned, a) if upper else (a, turned)
    return _triangular(c, second, _triangular(c, first, b, False), True)


@lower("aten.cholesky_inverse.default")
def cholesky_inverse(c: Context, a: Tensor, upper: bool) -> Tensor:
    a = c.tensor(a)
    return _cholesky_solve(c, a, _eye_like(c, a), upper)


@lower("aten.linalg_solve_triangular.default")
def solve_triangular(c: Context, a: Tensor, b: Tensor, upper: bool, left: bool, unit: bool) -> Tensor:
    a, b = c.tensor(a), c.tensor(b)
    if left:
        return _triangular(c, a, b, upper, unit)
    return swap(c, _triangular(c, swap(c, a, -2, -1), swap(c, b, -2, -1), not upper, unit), -2, -1)


@lower("aten.triangular_solve.default")
def triangular_solve(c: Context, b: Tensor, a: Tensor, upper: bool, transpose: bool, unit: bool) -> list[Tensor | None]:
    a = c.tensor(a)
    turned = swap(c, a, -2, -1) if transpose else a
    return [_triangular(c, turned, c.tensor(b), upper != transpose, unit), expand(c, a, c.shape(1))]


@lower("aten.linalg_qr.default")
def qr(c: Context, x: Tensor, mode: str) -> list[Tensor | None]:
    """Lowers qr. mode: "reduced", "complete", or "r", which has no Q."""
    x = c.tensor(x)
    more = {} if mode == "r" else {"b": c.builder.temp(x.dtype, c.shape(0))}
    r = c.emit("Linalg", kind=K.qr, x=x, **more, shape=c.shape(1), dtype=x.dtype)
    return [more.get("b", Filled(0, x.dtype, c.shape(0))), r]


@lower("aten._linalg_eigh.default")
def eigh(c: Context, x: Tensor, triangle: str, vectors: bool) -> list[Tensor | None]:
    x = c.tensor(x)
    more = {"b": c.builder.temp(x.dtype, x.shape)} if vectors else {}
    upper = triangle.upper() == "U"
    values = c.emit("Linalg", kind=K.eigh, x=x, upper=upper, **more, shape=x.shape[:-1], dtype=x.dtype)
    return [values, more.get("b", Filled(0, x.dtype, c.shape(1)))]


def _svd(c: Context, x: Slot, u: tuple[Int, ...], v: tuple[Int, ...]) -> tuple[Slot, Slot, Slot]:
    """Returns U, S and V^T."""
    more = {"b": c.builder.temp(x.dtype, u), "c": c.builder.temp(x.dtype, v)}
    shape = (*x.shape[:-2], _least(*x.shape[-2:]))
    values = c.emit("Linalg", kind=K.svd, x=x, **more, shape=shape, dtype=x.dtype)
    return more["b"], values, more["c"]


@lower("aten._linalg_svd.default")
def svd(c: Context, x: Tensor, _: bool, vectors: bool, driver: str | None) -> list[Tensor | None]:
    x = c.tensor(x)
    if vectors and (c.used(0) or c.used(2)):
        return list(_svd(c, x, c.shape(0), c.shape(2)))
    values = c.emit("Linalg", kind=K.svd, x=x, shape=c.shape(1), dtype=x.dtype)
    return [*(Filled(0, x.dtype, c.shape(i)) if i != 1 else values for i in range(3))]


@lower("aten.linalg_matrix_exp.default")
def matrix_exp(c: Context, x: Tensor) -> Tensor:
    return c.emit("Linalg", kind=K.exp, x=c.tensor(x))


def _cutoff(c: Context, x: Slot, largest: Slot, atol: Tensor | None, rtol: Tensor | None) -> Tensor:
    """Returns the limit up to which values count as 0: max(atol, rtol * largest). largest: (*, 1), the largest values.

    The default of rtol is eps * max(M, N), or 0 if atol is positive.
    """
    t = x.dtype
    absolute, relative = (0.0 if v is None else insert(c, v, v.rank) for v in (atol, rtol))
    if rtol is None:
        eps = torch.finfo(torch_dtype(t)).eps * max(*x.shape[-2:])
        relative = eps if atol is None else step("where", t, step("gt", t, absolute, 0), 0.0, eps)
    limit = step("maximum", t, absolute, step("mul", t, relative, largest))
    return compute(c, limit, broadcast(largest.shape, *((*v.shape, 1) for v in (atol, rtol) if v is not None)), t)


@lower("aten.linalg_pinv.atol_rtol_tensor")
def pinv(c: Context, x: Tensor, atol: Tensor | None, rtol: Tensor | None, hermitian: bool) -> Tensor:
    """Returns V diag(1 / s) U^T over the singular values above the cutoff. A symmetric matrix uses eigenvalues and
    eigenvectors."""
    x = c.tensor(x)
    m, n = x.shape[-2:]
    lead, k, t = x.shape[:-2], _least(m, n), x.dtype
    if k == 0:
        return Filled(0, t, c.shape())
    if hermitian:
        vectors = c.builder.temp(t, x.shape)
        values = c.emit("Linalg", kind=K.eigh, x=x, b=vectors, shape=x.shape[:-1], dtype=t)
        u, right = vectors, vectors
        size = compute(c, step("abs", t, values), values.shape, t)
    else:
        u, values, v = _svd(c, x, (*lead, m, k), (*lead, k, n))
        right, size = swap(c, v, -2, -1), values
    largest = c.tensor(insert(c, _fold(c, schema.ReduceKind.max, size), len(lead)))
    counts = step("gt", t, size, _cutoff(c, x, largest, atol, rtol))
    inverse = compute(c, step("where", t, counts, step("reciprocal", t, values), 0), values.shape, t)
    scaled = compute(c, step("mul", t, right, insert(c, inverse, len(lead))), right.shape, t)
    return product(c, c.tensor(scaled), swap(c, u, -2, -1))


@lower("aten._linalg_check_errors.default")
def check_info(c: Context, info: Tensor | None, name: str, *_: bool) -> None:
    """Emits a check that fails if a factorisation failed."""
    if info is None:
        return
    flat = c.tensor(reshape(c, info, (c.sizes.product(info.shape),)))
    if flat.shape[0] == 0:
        return
    failed = c.emit("Reduce", kind=schema.ReduceKind.max, x=flat, axes=[], keepdim=False, shape=(), dtype=D.I32)
    number = c.builder.val("int")
    c.builder.emit("Item", x=slot_as(c, failed, D.I64), out=number)
    what = "not positive definite" if "cholesky" in name else "singular"
    c.builder.emit("Check", kind=schema.ScalarKind.eq, a=number, b=0, message=f"{name}: a matrix is {what}")
