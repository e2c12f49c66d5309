"""Elements of images within boxes: torchvision::roi_align and roi_pool. Does not need torchvision. Formulas:
torchvision.ops.roi_align, https://arxiv.org/abs/1703.06870, section 3; torchvision.ops.roi_pool,
https://arxiv.org/abs/1504.08083, section 2.1.

A box is divided into bins, (ph, pw). Each bin has one value per channel. The number of elements in a bin depends on the
size of the box.
"""

from __future__ import annotations

from dataclasses import dataclass

from clave import schema
from clave.builder import Int, Slot
from clave.lowering.arange import counting
from clave.lowering.bilinear import CORNERS, bags, neighbours
from clave.lowering.nonzero import read_count, repeated, running_totals, total
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import expand, insert, permute, reshape
from clave.lowering.slice import slice_
from clave.lowering.steps import Operand, compute, opmath, slot_as, step

D = schema.DType
_MAX_POSITIONS = 1 << 20  # limit of positions in a bin along an axis, so that i64 holds all products


def _table(c: Context, x: Slot) -> Slot:
    """Returns x (N, C, H, W) as rows of channels, (N * H * W, C)."""
    n, channels, *size = x.shape
    return c.tensor(reshape(c, permute(c, x, [0, 2, 3, 1]), (c.sizes.product((n, *size)), channels)))


def _rows(c: Context, x: Slot, index: Slot) -> Slot:
    return c.emit("IndexSelect", x=x, axis=0, index=index, shape=(*index.shape, *x.shape[1:]), dtype=x.dtype)


def _column(c: Context, x: Slot, i: int) -> Tensor:
    """Returns x[:, i : i + 1]."""
    return slice_(c, x, 1, i, i + 1, 1)


def _place(x: Tensor, picture: Operand, row: Operand, column: Operand) -> Operand:
    """Returns the row of an element in the table of x."""
    whole = step("add", D.I64, step("mul", D.I64, picture, x.shape[2]), row)
    return step("add", D.I64, step("mul", D.I64, whole, x.shape[3]), column)


@dataclass(frozen=True)
class _Parts:
    """Elements grouped into consecutive parts. first: (parts), i64, the number of elements before each part. owner,
    place: (total), i64, the part of each element, and the element's place in the part."""

    first: Slot
    owner: Slot
    place: Operand

    @property
    def total(self) -> Int:
        return self.owner.shape[0]


def _equal_parts(c: Context, each: int, n: Int) -> _Parts:
    count = c.sizes.multiply(n, each)
    owner = c.tensor(compute(c, step("floor_divide", D.I64, counting(c, 0, count), each), (count,), D.I64))
    return _Parts(counting(c, 0, n, each), owner, step("remainder", D.I64, counting(c, 0, count), each))


def _parts(c: Context, each: Slot) -> _Parts:
    """Makes parts. each: (parts), i64, the number of elements of each part."""
    n = read_count(c, total(c, each), None, None)
    ends = running_totals(c, each)
    first = c.tensor(compute(c, step("sub", D.I64, ends, each), each.shape, D.I64))
    owner = repeated(c, ends, n)
    return _Parts(first, owner, step("sub", D.I64, counting(c, 0, n), _rows(c, first, owner)))


# ---------------------------------------------------------------- averages


@dataclass(frozen=True)
class _Grid:
    """The geometry of boxes along a spatial axis: the start of each box, the length of a bin, and the positions in a
    bin."""

    start: Operand
    bin: Operand
    positions: Operand


@dataclass(frozen=True)
class _Align:
    """The arguments of one call, without the tensors."""

    scale: float
    bins: tuple[Int, Int]
    sampling: int  # positions in a bin along an axis; 0 or less: its length, rounded up
    aligned: bool

    def grid(self, c: Context, boxes: Slot, axis: int) -> _Grid:
        """Returns the grid of boxes, with operands (n, 1). boxes: (n, 5), as image, x1, y1, x2, y2."""
        t, shift = boxes.dtype, 0.5 if self.aligned else 0.0
        ends = (_column(c, boxes, i - axis) for i in (2, 4))
        start, end = (step("sub", t, step("mul", t, e, self.scale), shift) for e in ends)
        length = step("sub", t, end, start)
        if not self.aligned:
            length = step("maximum", t, length, 1.0)
        bin_ = step("div", t, length, self.bins[axis])
        adaptive = step("clamp", t, step("ceil", t, bin_), 0.0, _MAX_POSITIONS)
        return _Grid(start, bin_, self.sampling if self.sampling > 0 else adaptive)

    def parts(self, c: Context, boxes: Slot) -> _Parts:
        """Returns parts: for each box, the positions in one of its bins, row by row."""
        n = boxes.shape[0]
        if self.sampling > 0:
            return _equal_parts(c, self.sampling**2, n)
        counts = step("mul", D.I64, *(self.grid(c, boxes, axis).positions for axis in (0, 1)))
        return _parts(c, c.tensor(reshape(c, compute(c, counts, (n, 1), D.I64), (n,))))


def _along(c: Context, g: _Grid, index: Operand, bins: Int, size: Int, samples: Slot) -> tuple[Slot, Slot]:
    """Returns the neighbours of position `index` in each bin, and their weights in a mean: (bins, samples, 2) each. A
    weight is 0 if the position is more than 1 outside of the image, of size `size`. index: (samples, 1). samples: the
    boxes of the positions."""
    t, shape = samples.dtype, (bins, samples.shape[0])
    bin_ = reshape(c, counting(c, 0, bins), (bins, 1, 1))
    begin = step("add", t, g.start, step("mul", t, bin_, g.bin))
    within = step("div", t, step("mul", t, step("add", t, index, 0.5), g.bin), g.positions)
    position = compute(c, step("add", t, begin, within), (*shape, 1), t)
    places, weights = neighbours(c, t, position, shape, 0, c.sizes.subtract(size, 1))
    inside = step("logical_and", D.BOOL, step("ge", t, position, -1), step("le", t, position, size))
    weights = step("div", t, step("where", t, inside, weights, 0), g.positions)
    return places, c.tensor(compute(c, weights, places.shape, t))


@lower("torchvision::roi_align")
def roi_align(
    c: Context, x: Tensor, boxes: Tensor, scale: float, height: Int, width: Int, sampling: int, aligned: bool
) -> Tensor:
    """Returns the means over the positions in each bin, (K, C, height, width). x: (N, C, H, W). boxes: (K, 5), as
    image, x1, y1, x2, y2."""
    t, (k, channels, *_) = opmath(c.dtype()), c.shape()
    call, picture, given = _Align(scale, (height, width), sampling, aligned), slot_as(c, x, t), slot_as(c, boxes, t)
    parts = call.parts(c, given)
    s = parts.total
    samples = _rows(c, given, parts.owner)
    down, across = (call.grid(c, samples, axis) for axis in (0, 1))
    place = reshape(c, compute(c, parts.place, (s,), D.I64), (s, 1))
    row, column = (step(kind, D.I64, place, across.positions) for kind in ("floor_divide", "remainder"))
    rows, row_weights = _along(c, down, row, height, x.shape[2], samples)
    columns, column_weights = _along(c, across, column, width, x.shape[3], samples)
    tall, wide = (height, 1, s, 2, 1), (1, width, s, 1, 2)
    weights = step("mul", t, reshape(c, row_weights, tall), reshape(c, column_weights, wide))
    which = reshape(c, _column(c, samples, 0), (s, 1, 1))
    index = _place(x, which, reshape(c, rows, tall), reshape(c, columns, wide))
    bins = reshape(c, counting(c, 0, c.sizes.multiply(height, width)), (height, width, 1))
    first = step("mul", D.I64, step("add", D.I64, step("mul", D.I64, bins, s), parts.first), CORNERS)
    shape = (height, width, s, 2, 2)
    out = bags(c, _table(c, picture), index, shape, first, (height, width, k), weights)
    return slot_as(c, permute(c, reshape(c, out, (height, width, k, channels)), [2, 3, 0, 1]), c.dtype())


# ---------------------------------------------------------------- largest elements


def _rounded(t: schema.DType, x: Operand) -> Operand:
    """Rounds to the nearest integer, halves away from zero."""
    whole = step("trunc", t, x)
    far = step("ge", t, step("abs", t, step("sub", t, x, whole)), 0.5)
    return step("add", t, whole, step("where", t, far, step("sign", t, x), 0))


def _bins(c: Context, boxes: Slot, scale: float, n: Int, size: Int, axis: int) -> tuple[Slot, Slot]:
    """Returns the first element of each bin along a spatial axis of that size, and the number of its elements: (K, n),
    i64, each."""
    t, k = boxes.dtype, boxes.shape[0]
    start, end = (_rounded(t, step("mul", t, _column(c, boxes, i - axis), scale)) for i in (2, 4))
    length = step("maximum", t, step("add", t, step("sub", t, end, start), 1), 1)
    bin_ = step("div", t, length, n)
    numbers = (counting(c, i, n) for i in (0, 1))
    edges = (step(kind, t, step("mul", t, i, bin_)) for kind, i in zip(("floor", "ceil"), numbers, strict=True))
    low, high = (step("minimum", t, step("maximum", t, step("add", t, e, start), 0), size) for e in edges)
    count = step("maximum", t, step("sub", t, high, low), 0)
    return c.tensor(compute(c, low, (k, n), D.I64)), c.tensor(compute(c, count, (k, n), D.I64))


@lower("torchvision::roi_pool")
def roi_pool(c: Context, x: Tensor, boxes: Tensor, scale: float, height: Int, width: Int) -> list[Tensor | None]:
    """Returns the largest element of each bin, 0 for an empty one, in roi_align's shape. The second
    result is None instead of the elements' places, which only a gradient needs."""
    k, channels, *_ = c.shape(0)
    given, shape = slot_as(c, boxes, opmath(boxes.dtype)), (k, height, width)
    count = c.sizes.product(shape)
    rows, tall = (insert(c, s, 2) for s in _bins(c, given, scale, height, x.shape[2], 0))
    columns, wide = (insert(c, s, 1) for s in _bins(c, given, scale, width, x.shape[3], 1))
    corner = _place(x, insert(c, _column(c, given, 0), 2), rows, columns)
    each = (corner, step("mul", D.I64, tall, wide), expand(c, wide, shape))
    corners, counts, widths = (c.tensor(reshape(c, compute(c, e, shape, D.I64), (count,))) for e in each)
    parts = _parts(c, counts)
    corner, across = (_rows(c, s, parts.owner) for s in (corners, widths))
    down = step("mul", D.I64, step("floor_divide", D.I64, parts.place, across), x.shape[3])
    place = step("add", D.I64, step("add", D.I64, corner, down), step("remainder", D.I64, parts.place, across))
    out = bags(c, _table(c, c.tensor(x)), place, (parts.total,), parts.first, (count,))
    return [permute(c, reshape(c, out, (*shape, channels)), [0, 3, 1, 2]), None]
