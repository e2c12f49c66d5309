"""Sliding blocks: im2col (torch's unfold of images) and col2im (fold) in two dimensions, unfold_backward in one."""

from __future__ import annotations

from clave.builder import Int
from clave.lowering.conv import numbers
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import expand, insert, permute, reshape


def _fold(c: Context, op: str, x: Tensor, full_rank: int, window: dict[str, list[Int]]) -> Tensor:
    """Emits the op. An x without a batch dimension is a batch of one."""
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


@lower("aten.unfold_backward.default")
def unfold_backward(c: Context, x: Tensor, _: list[Int], axis: int, size: int, stride: int) -> Tensor:
    """Sums overlapping windows (istft). x has the windows along `axis`, and their elements in the last dimension."""
    if x.rank == 1:  # the window of a tensor without dimensions
        return reshape(c, x, c.shape())
    rank = x.rank - 1
    axis %= rank
    others = [d for d in range(rank) if d != axis]
    sizes = [c.shape()[axis] if d == axis else x.shape[d] for d in range(rank)]  # some sizes of the others may be 1
    lead = c.sizes.product([sizes[d] for d in others])
    windows = reshape(c, permute(c, x, [*others, rank, axis]), (lead, size, x.shape[axis]))
    fields = {"kernel": [1, size], "stride": [1, stride], "padding": [0, 0], "dilation": [1, 1]}
    out = c.emit("Col2im", x=c.tensor(windows), **fields, shape=(lead, 1, 1, sizes[axis]))
    order = [*others, axis]
    whole = permute(c, reshape(c, out, tuple(sizes[d] for d in order)), [order.index(d) for d in range(rank)])
    return expand(c, whole, c.shape())
