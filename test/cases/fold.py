"""Sliding blocks: unfold is exact, fold adds in torch's order."""

import torch
import torch.nn.functional as fn

from describe import BOOL, FLOATS, Case, T, name_of

IN_ORDER = "floats are added in torch's order, each sum rounded to the dtype"


def unfolds(x):
    return (
        fn.unfold(x, 3),
        fn.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 2), stride=(2, 3)),
        fn.unfold(x[0], 2, padding=1),
        fn.unfold(x.mT, (4, 1), stride=2),
    )


def cases():
    for dtype in (*FLOATS, BOOL):
        yield Case(f"unfold_{name_of(dtype)}", unfolds, [T((2, 3, 6, 7), dtype, -50, 50)])
    for dtype in FLOATS:
        f = lambda x: (fn.fold(x, (5, 7), (2, 3)), fn.fold(x[1], (5, 7), (2, 3)))
        yield Case(f"fold_{name_of(dtype)}", f, [T((2, 18, 20), dtype)], own=IN_ORDER)
    f = lambda x: fn.fold(x, (9, 9), (2, 3), dilation=(1, 2), padding=(0, 1), stride=(2, 2))
    yield Case("fold_strided", f, [T((2, 18, 16))], own=IN_ORDER)
    yield Case("fold_gaps", lambda x: fn.fold(x, (7, 8), (1, 2), stride=(3, 3)), [T((1, 4, 9))])
    yield Case("patches", lambda x: fn.fold(fn.unfold(x, 2, stride=2), (6, 8), 2, stride=2), [T((2, 3, 6, 8))])
    yield Case("empty", lambda x: fn.unfold(x, 3), [T((0, 3, 6, 7))])
    shapes = {"args": ({0: torch.export.Dim("batch", max=8)},)}
    f = lambda x: fn.unfold(x, 3, padding=1, stride=2)
    yield Case("dynamic", f, [T((2, 3, 6, 7))], [T((3, 3, 6, 7))], dynamic_shapes=shapes)
