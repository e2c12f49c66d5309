"""Sliding blocks of planes: im2col (torch's unfold of images) and col2im (fold)."""

from __future__ import annotations

from clave.builder import Int
from clave.lowering.conv import numbers
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import insert, reshape


def _fold(c: Context, op: str, x: Tensor, full_rank: int, window: dict[str, list[Int]]) -> Tensor:
    """x without a batch dimension is a batch of one."""
    shape = c.shape()
    batch, full = (x, shape) if x.rank == full_rank else (insert(c, x, 0), (1, *shape))
    fields = {k: numbers(v, 2) for k, v in window.items()}
    return reshape(c, c.emit(op, x=c.tensor(batch), **fields, shape=full), shape)


@lower("aten.im2col.default")
def im2col(
    c: Context, x: Tensor, kernel: list[Int], dilation: list[Int], padding: list[Int], stride: list[Int]
) -> Tensor:
    return _fold(c, "Im2col", x, 4, {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation})


@lower("aten.col2im.default")
def col2im(
    c: Context,
    x: Tensor,
    size: list[Int],
    kernel: list[Int],
    dilation: list[Int],
    padding: list[Int],
    stride: list[Int],
) -> Tensor:
    return _fold(c, "Col2im", x, 3, {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation})
