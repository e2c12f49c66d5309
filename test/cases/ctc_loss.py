"""CTC losses: paths of several lengths, repeated labels, no labels, no steps, no possible path. torch adds the same
exponentials in the same order; each of up to 12 steps rounds a few times."""

import torch
import torch.nn.functional as fn

from describe import F32, F64, I32, I64, Case, T, name_of, ulps

LENGTHS = T((4,), I64, values=(12, 7, 3, 0)), T((4,), I64, values=(4, 0, 3, 2))
OTHERS = T((4,), I64, values=(1, 9, 5, 12)), T((4,), I64, values=(1, 4, 4, 0))
FEW = {0: torch.export.Dim("batch", max=8)}


def losses(scores, labels, steps, ends):
    x = scores.log_softmax(-1)
    each = fn.ctc_loss(x, labels, steps, ends, reduction="none")
    return each, *(fn.ctc_loss(x, labels, steps, ends, reduction=r, zero_infinity=True) for r in ("mean", "sum"))


def cases():
    for dtype in (F32, F64):
        d, tol = name_of(dtype), {"rtol": ulps(dtype, 64), "atol": ulps(dtype, 64)}
        scores, labels = T((12, 4, 5), dtype), T((4, 4), I64, 1, 3)
        yield Case(f"padded_{d}", losses, [scores, labels, *LENGTHS], [scores, labels, *OTHERS], **tol)
        joined = T((9,), I32, 1, 3)
        yield Case(f"joined_{d}", losses, [scores, joined, *LENGTHS], [scores, joined, *OTHERS], **tol)
        known = lambda x, y: fn.ctc_loss(x.log_softmax(-1), y, (12, 7, 3, 0), (4, 0, 3, 2), 4, "none")
        yield Case(f"known_{d}", known, [scores, joined], **tol)
    tol = {"rtol": ulps(F32, 64), "atol": ulps(F32, 64)}
    one = lambda x, y, n, m: fn.ctc_loss(x.log_softmax(-1), y, n, m)
    yield Case("one", one, [T((9, 6)), T((3,), I64, 1, 5), T((), I64, 5, 9), T((), I64, values=(3,))], **tol)
    empty = lambda x, y: fn.ctc_loss(x.log_softmax(-1), y, (9, 0), (0, 0), reduction="none")
    yield Case("no_labels", empty, [T((9, 2, 6)), T((2, 0), I64)], **tol)
    shapes = {
        "args": (
            {0: torch.export.Dim("time", max=32), 1: FEW[0]},
            {**FEW, 1: torch.export.Dim("labels", max=9)},
            FEW,
            FEW,
        )
    }
    long = [T((17, 2, 5)), T((2, 6), I64, 1, 4), T((2,), I64, 13, 17), T((2,), I64, 0, 6)]
    yield Case("dynamic", losses, [T((12, 4, 5)), T((4, 4), I64, 1, 4), *LENGTHS], long, dynamic_shapes=shapes, **tol)
    late = [T((12, 4, 5)), T((4, 4), I64, 1, 4), T((4,), I64, values=(12, 13, 3, 0)), LENGTHS[1]]
    yield Case(
        "too_long", losses, late, [T((12, 4, 5)), T((4, 4), I64, 1, 4), *LENGTHS], error="index 13 out of range", **tol
    )
    more = [T((12, 4, 5)), T((4, 4), I64, 1, 4), LENGTHS[0], T((4,), I64, values=(4, 5, 3, 2))]
    yield Case(
        "too_many_labels",
        losses,
        more,
        [T((12, 4, 5)), T((4, 4), I64, 1, 4), *LENGTHS],
        error="index 5 out of range",
        **tol,
    )
