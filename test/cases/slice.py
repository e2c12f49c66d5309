"""slice, select, split, chunk, narrow, flip, unbind, diagonal, unfold, as_strided, and writes through them. Exact."""

import torch

from describe import BOOL, F16, F32, I32, I64, Case, T, name_of


def slices(x):  # (6, 9, 4)
    return (
        x[1:4],
        x[:, -3:],
        x[..., 1:3],
        x[::2, 1::3],
        x[:, 2:100],
        x[4:2],
        x[-100:2],
        x.narrow(1, 3, 4),
        x.narrow_copy(1, -5, 3),
        x[1:5:2, :, -2:],
    )


def selects(x):
    return x[0], x[-1], x[:, 3], x.select(2, -2), x[2, 3], x[1, -1, 2], x[None, 1], x[..., 0]


def splits(x):
    return (
        *x.split(4, 1),
        *x.split([1, 3, 2]),
        *x.chunk(3, 0),
        *x.chunk(4, 1),
        *x.unbind(2),
        *torch.tensor_split(x, 2, 1),
    )


def splits_by_data(x, at):
    return tuple(part * 2 for part in torch.tensor_split(x, at, 1))


def flips(x):
    return x.flip(0), x.flip(1, 2), x.flip(-1)[1:], x[1:].flip(0), x.flip(0, 1, 2)


def strided(x):  # (6, 9, 4)
    return (
        x.diagonal(),
        x.diagonal(2, 1, 0),
        x.diagonal(-3, -2, 2),
        x.diagonal(9, 0, 1),
        x.unfold(1, 4, 2),
        x.unfold(0, 6, 1),
        x.unfold(-1, 1, 7),
        x.as_strided((3, 4), (5, 2)),
        x.as_strided((2, 3, 2), (1, 9, 0), 30),
        x.permute(2, 0, 1).as_strided((7,), (3,), 2),
        x[0].diag(1),
        x[0, :3].diag_embed(),
        x[:, :2].diag_embed(-2, 0, 2),
        x[0, 0].diag(1),
    )


def written(x):  # (6, 9, 4)
    return (
        x.slice_scatter(x[:, :3] + 1, 1, 2, 8, 2),
        x.slice_scatter(x[:2] + 1, 0, -2),
        x.select_scatter(x[0] + 1, 0, -1),
        x.diagonal_scatter(x[0, :6].t() + 1, 2, 0, 1),
        x.diagonal_scatter(x[:, :4, 0] + 1, -1, 1, 2),
        x.as_strided_scatter(x[0, :4, :3] + 1, (4, 3), (20, 3), 5),
        x.permute(2, 1, 0).as_strided_scatter(x[0, :4] + 1, (4, 4), (10, 2)),
    )


def cases():
    yield Case("rolls", lambda x: (x.roll(2, 1), x.roll((1, -2), (0, 1)), x.roll(3)), [T((4, 7))])
    for dtype in (F32, F16, I32, I64, BOOL):
        for f in (slices, selects, splits, flips, strided, *((written,) if dtype is not BOOL else ())):
            yield Case(f"{f.__name__}_{name_of(dtype)}", f, [T((6, 9, 4), dtype, -50, 50)])
    for f in (slices, selects, splits, flips, strided):
        yield Case(f"{f.__name__}_read", lambda x, f=f: tuple(y * 2 for y in f(x)), [T((6, 9, 4))])
        yield Case(f"{f.__name__}_of_view", lambda x, f=f: tuple(y * 2 for y in f(x.permute(2, 0, 1))), [T((9, 4, 6))])
    yield Case("of_slice", lambda x: (x[1:][1:][::2] + 0, x[:, 2:][0, 1] + 0, x[2][1:3].flip(0) + 0), [T((8, 7))])
    yield Case("empty", lambda x: (x[2:2] + 1, x[:, 5:] + 1, x[3:].sum()), [T((3, 5))])
    yield Case("splits_by_data_f32", splits_by_data, [T((6, 9, 4)), T((3,), I64, -12, 12)])
    yield Case("splits_at_zero", splits_by_data, [T((6, 9, 4)), T((3,), I64, values=(0, 4, 0))])
