"""Distances between the rows of matrices: cdist, pdist."""

from __future__ import annotations

import torch

from clave.builder import Int
from clave.errors import Unsupported
from clave.lowering.registry import Context, Filled, Scalar, Tensor, lower
from clave.lowering.reshape import expand, reshape


def _distances(c: Context, a: Tensor, b: Tensor, p: Scalar, shape: tuple[Int, ...]) -> Tensor:
    """Returns the distances (*, P, R) of rows of a (*, P, M) and b (*, R, M)."""
    batch, m = shape[:-2], a.shape[-1]
    if m == 0:
        return Filled(0.0, a.dtype, shape)
    a = expand(c, a, (*batch, shape[-2], m))
    b = expand(c, b, (*batch, shape[-1], m))
    return c.emit("Distance", a=c.tensor(a), b=c.tensor(b), p=float(p), shape=shape, dtype=a.dtype)


@lower("aten._cdist_forward.default", "aten._euclidean_dist.default")
def cdist(c: Context, a: Tensor, b: Tensor, p: Scalar = 2.0, *_: int | None) -> Tensor:
    return _distances(c, a, b, p, c.shape())


@lower("aten._pdist_forward.default")
def pdist(c: Context, x: Tensor, p: Scalar) -> Tensor:
    """Computes all distances and selects those of rows i < j."""
    n = x.shape[0]
    if not isinstance(n, int):
        raise Unsupported("a number of rows that is not known before the run")
    if n < 2:
        return Filled(0.0, x.dtype, c.shape())
    square = _distances(c, x, x, p, (n, n))
    rows, columns = torch.triu_indices(n, n, 1)
    index = c.constant(rows * n + columns, "pairs")
    return c.emit("IndexSelect", x=c.tensor(reshape(c, square, (n * n,))), axis=0, index=index)
