"""Deformable convolution: torchvision::deform_conv2d, as a product with elements read at the offset positions. Does not
need torchvision. Formula: torchvision.ops.deform_conv2d; https://arxiv.org/abs/1811.11168, equation 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from clave import schema
from clave.builder import Int, Slot
from clave.lowering.arange import counting
from clave.lowering.bilinear import CORNERS, bags, neighbours
from clave.lowering.conv import numbers
from clave.lowering.matmul import product
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import insert, permute, reshape
from clave.lowering.slice import select
from clave.lowering.steps import Operand, opmath, slot_as, step

D = schema.DType


@dataclass(frozen=True)
class _Window:
    """The sizes of one call's operands, and the geometry of its window, rows before columns."""

    n: Int
    channels: int
    groups: int  # number of groups of channels with their own offsets
    kernel: list[int]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    size: tuple[Int, Int]  # rows and columns of the image
    out: tuple[Int, Int]

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def places(self) -> tuple[Int, ...]:
        """The shape of the rows of channels that are read: (N, OH, OW, taps, groups)."""
        return (self.n, *self.out, self.taps, self.groups)


def _table(c: Context, x: Slot, w: _Window) -> Slot:
    """Returns (N * (H + 2) * (W + 2) * groups, channels / groups): the images' elements with a border of zeros."""
    h, v = (c.sizes.add(s, 2) for s in w.size)
    frame = {"before": [0, 0, 1, 1], "after": [0, 0, 1, 1], "mode": schema.PadMode.constant, "value": 0.0}
    framed = c.emit("Pad", x=x, **frame, shape=(w.n, w.channels, h, v), dtype=x.dtype)
    rows = c.sizes.product((w.n, h, v, w.groups))
    return c.tensor(reshape(c, permute(c, framed, [0, 2, 3, 1]), (rows, w.channels // w.groups)))


def _positions(c: Context, offset: Slot, w: _Window, axis: int) -> Operand:
    """Returns (*places, 1): the position of each tap of each window along a spatial axis. A position of -1 or less is
    moved to the end, where both neighbours are in the border."""
    place = torch.arange(w.taps) // w.kernel[1] if axis == 0 else torch.arange(w.taps) % w.kernel[1]
    taps = c.constant((place * w.dilation[axis] - w.padding[axis]).reshape(-1, 1, 1), "taps")
    shape: list[Int] = [1, 1, 1, 1, 1]
    shape[axis] = w.out[axis]
    begin = step("mul", D.I64, reshape(c, counting(c, 0, w.out[axis]), tuple(shape)), w.stride[axis])
    split = reshape(c, offset, (w.n, w.groups, w.taps, 2, *w.out))
    moved = permute(c, select(c, split, 3, axis), [0, 3, 4, 2, 1])
    at = step("add", offset.dtype, step("add", D.I64, begin, taps), insert(c, moved, 5))
    return step("where", offset.dtype, step("gt", offset.dtype, at, -1), at, w.size[axis])


def _columns(c: Context, x: Slot, offset: Slot, mask: Slot | None, w: _Window) -> Slot:
    """Returns (bags, channels / groups): the row of channels that each place reads, times its mask."""
    t, wide = x.dtype, (*w.places, 2, 2)
    rows, columns = (neighbours(c, t, _positions(c, offset, w, a), w.places, -1, w.size[a]) for a in (0, 1))
    weights: Operand = step("mul", t, insert(c, rows[1], 6), insert(c, columns[1], 5))
    if mask is not None:
        split = permute(c, reshape(c, mask, (w.n, w.groups, w.taps, *w.out)), [0, 3, 4, 2, 1])
        weights = step("mul", t, weights, reshape(c, split, (*w.places, 1, 1)))
    picture = reshape(c, counting(c, 0, w.n), (w.n, 1, 1, 1, 1, 1, 1))
    row = step("add", D.I64, step("mul", D.I64, picture, c.sizes.add(w.size[0], 2)), insert(c, rows[0], 6))
    place = step("add", D.I64, step("mul", D.I64, row, c.sizes.add(w.size[1], 2)), insert(c, columns[0], 5))
    groups = reshape(c, counting(c, 0, w.groups), (w.groups, 1, 1))
    index = step("add", D.I64, step("mul", D.I64, place, w.groups), groups)
    count = c.sizes.product(w.places)
    return bags(c, _table(c, x, w), index, wide, counting(c, 0, count, CORNERS), (count,), weights)


@lower("torchvision::deform_conv2d")
def deform_conv2d(
    c: Context,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: Int,
    stride_w: Int,
    pad_h: Int,
    pad_w: Int,
    dilation_h: Int,
    dilation_w: Int,
    groups: Int,
    offset_groups: Int,
    use_mask: bool,
) -> Tensor:
    """Returns (N, O, OH, OW). x: (N, C, H, W), weight: (O, C / groups, kh, kw), offset: (N, offset_groups * kh * kw *
    2, OH, OW), in pairs (down, right), mask: (N, offset_groups * kh * kw, OH, OW), bias: (O)."""
    t, out = opmath(c.dtype()), c.shape()
    channels, groups, offset_groups = numbers([x.shape[1], groups, offset_groups], 3)
    w = _Window(
        n=x.shape[0],
        channels=channels,
        groups=offset_groups,
        kernel=numbers(list(weight.shape[2:]), 2),
        stride=numbers([stride_h, stride_w], 2),
        padding=numbers([pad_h, pad_w], 2),
        dilation=numbers([dilation_h, dilation_w], 2),
        size=(x.shape[2], x.shape[3]),
        out=(out[2], out[3]),
    )
    read = _columns(c, slot_as(c, x, t), slot_as(c, offset, t), slot_as(c, mask, t) if use_mask else None, w)
    return reshape(c, _product(c, read, weight, bias, groups, w), out)


def _product(c: Context, read: Slot, weight: Tensor, bias: Tensor, groups: int, w: _Window) -> Slot:
    """Returns (N, groups, O / groups, OH * OW): the weight's rows times the elements that were read, which are first
    rounded to the result's dtype."""
    per, across, size = w.channels // groups, weight.shape[0], c.sizes.product(w.out)
    filters = c.sizes.divide(across, groups)
    split = reshape(c, slot_as(c, read, c.dtype()), (w.n, size, w.taps, groups, per))
    columns = reshape(c, permute(c, split, [0, 3, 2, 4, 1]), (w.n, groups, w.taps * per, size))
    kernel = permute(c, reshape(c, slot_as(c, weight, c.dtype()), (groups, filters, per, w.taps)), [0, 1, 3, 2])
    rows = reshape(c, kernel, (groups, filters, w.taps * per))
    added = reshape(c, slot_as(c, bias, c.dtype()), (groups, filters, 1))
    shape = (w.n, groups, filters, size)
    return product(c, c.tensor(rows), c.tensor(columns), c.tensor(added), shape=shape)
