"""Non-maximum suppression: torchvision::nms, as a Scan over the boxes in the order of their scores. Does not need
torchvision. Formula: torchvision.ops.nms.
"""

from __future__ import annotations

import sympy
import torch

from clave import schema
from clave.builder import Slot
from clave.dtypes import torch_dtype
from clave.lowering.arange import counting
from clave.lowering.control import emit_scan
from clave.lowering.nonzero import columns, unknown_size
from clave.lowering.registry import Context, Filled, Tensor, lower
from clave.lowering.slice import select
from clave.lowering.sort import ordered
from clave.lowering.steps import Operand, compute, opmath, slot_as, step

D = schema.DType


def _not_above(threshold: float, dtype: schema.DType) -> float:
    """Returns the largest number of the dtype that is not above the threshold. A number of the dtype exceeds the result
    exactly if it exceeds the threshold."""
    t = torch.tensor(threshold, dtype=torch.float64)
    near = t.to(torch_dtype(dtype))
    return float(near if near <= t else torch.nextafter(near, near.new_full((), -torch.inf)))


def _shared(c: Context, boxes: Slot, box: Slot) -> Slot:
    """Returns (N): the area of the intersection of each of boxes (N, 4) with box (4). Boxes are x1, y1, x2, y2."""
    t, n = boxes.dtype, boxes.shape[0]
    all_sides = [select(c, boxes, 1, i) for i in range(4)]
    sides = [c.tensor(select(c, box, 0, i)) for i in range(4)]
    low = [step("maximum", t, a, b) for a, b in zip(all_sides[:2], sides[:2], strict=True)]
    high = [step("minimum", t, a, b) for a, b in zip(all_sides[2:], sides[2:], strict=True)]
    width, height = (step("maximum", t, step("sub", t, b, a), 0) for a, b in zip(low, high, strict=True))
    return c.tensor(compute(c, step("mul", t, width, height), (n,), t))


def _areas(c: Context, boxes: Slot) -> Slot:
    t, n = boxes.dtype, boxes.shape[0]
    x1, y1, x2, y2 = (select(c, boxes, 1, i) for i in range(4))
    return c.tensor(compute(c, step("mul", t, step("sub", t, x2, x1), step("sub", t, y2, y1)), (n,), t))


def _suppressed(c: Context, boxes: Slot, threshold: float) -> Slot:
    """Returns (N), BOOL: true for boxes that overlap a better kept box by more than the threshold. Best boxes first."""
    t, n = boxes.dtype, boxes.shape[0]
    areas, places = _areas(c, boxes), counting(c, 0, n)
    none = c.tensor(Filled(0, D.BOOL, (n,)))
    with c.body(f"{c.node.name}.box") as body:
        gone, box, area, place = (c.builder.temp(d, s) for d, s in ((D.BOOL, (n,)), (t, (4,)), (t, ()), (D.I64, ())))
        body.args = [gone, box, area, place]
        shared = _shared(c, boxes, box)
        own = c.emit("IndexSelect", x=gone, axis=0, index=place, shape=(), dtype=D.BOOL)
        union = step("sub", t, step("add", t, area, areas), shared)
        over: Operand = step("gt", t, step("div", t, shared, union), _not_above(threshold, t))
        over = step("logical_and", D.BOOL, over, step("gt", D.I64, places, place))
        over = step("logical_and", D.BOOL, over, step("logical_not", D.BOOL, own))
        body.results = [c.tensor(compute(c, step("logical_or", D.BOOL, gone, over), (n,), D.BOOL))]
    out = c.builder.temp(D.BOOL, (n,))
    emit_scan(c, body, [none], [boxes, areas, places], [out])
    return out


@lower("torchvision::nms")
def nms(c: Context, boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Returns the indices of the kept boxes, best first. boxes: (N, 4), scores: (N)."""
    t, n = opmath(boxes.dtype), boxes.shape[0]
    order = ordered(c, scores, 0, descending=True, places=True)[1]
    assert order is not None
    best = c.emit("IndexSelect", x=slot_as(c, boxes, t), axis=0, index=order, shape=(n, 4), dtype=t)
    gone = _suppressed(c, best, threshold)
    kept = c.tensor(compute(c, step("logical_not", D.BOOL, gone), (n,), D.BOOL))
    symbol = unknown_size(c, c.fake().shape[0])
    if symbol is not None:  # torch assumes that such a size is 2 or more
        c.sizes.void.add(sympy.Ge(symbol, 2))
        c.sizes.ranges.pop(symbol, None)
    (found,) = columns(c, kept, symbol)
    return c.emit("IndexSelect", x=order, axis=0, index=found)
