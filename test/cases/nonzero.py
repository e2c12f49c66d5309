"""Sizes that depend on data: the second run finds a different number of elements, the third the first number again."""

import torch

from describe import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, Case, T, name_of

NONE_AND_ALL = {"other": [T((4, 5), BOOL, values=(True,))]}


def cases():
    for dtype in (F32, F16, BF16, F64, I8, U8, I16, I32, I64, BOOL):
        yield Case(f"nonzero_{name_of(dtype)}", lambda x: x.nonzero(), [T((5, 7), dtype, 0, 1)])
    special = T((3, 4), F32, values=(float("nan"), 0.0, -0.0, 1e-45, float("inf")))
    yield Case("nonzero_special", lambda x: (x.nonzero(), x.half().nonzero()), [special])
    shapes = lambda x: (x.nonzero(), x[0].nonzero(), x[0, 0, 0].nonzero(), x.argwhere(), x.nonzero(as_tuple=True)[1])
    yield Case("nonzero_shapes", shapes, [T((3, 4, 5), I32, 0, 1)])
    yield Case("nonzero_none", lambda m: m.nonzero(), [T((4, 5), BOOL, values=(False,))], **NONE_AND_ALL)
    yield Case("nonzero_large", lambda x: x.nonzero(), [T((300, 251), I8, 0, 1)])
    yield Case("nonzero_strided", lambda x: x.t()[1:].nonzero(), [T((9, 8), I32, 0, 1)])
    fixed = lambda x: (torch.nonzero_static(x, size=3), torch.nonzero_static(x, size=99, fill_value=-7))
    yield Case("nonzero_static", fixed, [T((4, 5), I32, 0, 1)])
    for dtype in (F32, F16, I64, BOOL):
        select = lambda x, m: (x.masked_select(m), x[m] if x.dtype is BOOL else x[m] * 2, x.masked_select(m[0]))
        yield Case(f"select_{name_of(dtype)}", select, [T((6, 7), dtype, -9, 9), T((6, 7), BOOL)])
    masks = lambda x, m, i: (x[m], x[:, m[0, :5]].sum(1), x[m[:, 0]], x[m[:, 0], 2], x[i % 2 == 0])
    yield Case("mask_index", masks, [T((6, 5, 4)), T((6, 5), BOOL), T((6,), I64)], rtol=1e-6, atol=1e-6)
    used = lambda x, m: (x[m].softmax(0).sum(0), x[m] @ x[0].t(), torch.cat([x[m], x[0]]).amax(0))
    yield Case("mask_used", used, [T((6, 5, 4)), T((6, 5), BOOL)], rtol=1e-5, atol=1e-5)
    none = {"other": [T((6, 3)), T((6,), BOOL, values=(True, False))]}
    yield Case("mask_none", lambda x, m: x[m] + 1, [T((6, 3)), T((6,), BOOL, values=(False,))], **none)
    yield Case("repeats", lambda x, r: x.repeat_interleave(r, dim=1), [T((2, 5)), T((5,), I64, 0, 3)])
    known = lambda x, r: x.repeat_interleave(r, dim=0, output_size=6)
    yield Case("repeats_known", known, [T((4, 2)), T((4,), I64, values=(3, 0, 1, 2))])
    open_ = {"args": ({0: torch.export.Dim("rows", min=0, max=9)},) * 2}
    none = {"other": [T((0, 2)), T((0,), I64)], "dynamic_shapes": open_}
    yield Case("repeats_none", lambda x, r: x.repeat_interleave(r, dim=0), [T((4, 2)), T((4,), I64, 0, 3)], **none)
    yield Case("chained", lambda x: x[x > 0][x[x > 0] < 1].cumsum(0), [T((40,))], rtol=1e-5, atol=1e-6)
    yield from model_cases()


def detections(boxes, scores):
    keep = scores > 0.5
    b, s = boxes[keep], scores[keep]
    area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    return b, s, area[:, None] + area, torch.zeros(b.shape[0], 2), torch.arange(b.shape[0]), b.reshape(-1)


def experts(x, gate, weight):
    chosen = gate.argmax(-1)
    out = torch.zeros_like(x)
    for k in range(3):
        rows = (chosen == k).nonzero().squeeze(1)
        out = out.index_add(0, rows, x[rows] @ weight[k])
    return out


def spliced(x, table, ids):
    """Writes image features at the positions of image tokens."""
    places = ids == 0
    e = table[ids]
    return e.masked_scatter(places[..., None].expand_as(e), x), e[places.nonzero(as_tuple=True)]


def segments(x, lengths):
    row = torch.repeat_interleave(torch.arange(lengths.shape[0]), lengths)
    return row, torch.zeros(lengths.shape[0], x.shape[1]).index_add(0, row, x[: row.shape[0]])


def model_cases():
    n = torch.export.Dim("n", min=2, max=100)
    boxes = [T((11, 4)), T((11,), F32, 0, 1)]
    other = [T((23, 4)), T((23,), F32, 0, 1)]
    yield Case("detections", detections, boxes, other=other, dynamic_shapes={"args": ({0: n}, {0: n})}, rtol=1e-5)
    yield Case("experts", experts, [T((9, 4)), T((9, 3)), T((3, 4, 4))], rtol=1e-5, atol=1e-5)
    yield Case("spliced", spliced, [T((12, 3)), T((5, 3)), T((3, 4), I64, 0, 2)])
    yield Case("segments", segments, [T((20, 3)), T((5,), I64, 0, 4)], rtol=1e-5, atol=1e-5)
