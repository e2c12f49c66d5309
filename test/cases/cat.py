"""cat, stack and ops made of them. Exact."""

import torch

from describe import BOOL, F32, FLOATS, I32, I64, INTS, Case, T, name_of


def cases():
    for dtype in (*FLOATS, *INTS, BOOL):
        join = lambda x, y, z: (
            torch.cat([x, y], 1),
            torch.cat([x, z], 0),
            torch.cat([x, x, x], -1),
            torch.stack([x, x]),
            torch.stack([x, x], -1),
            torch.hstack([x, y]),
            torch.vstack([x, z]),
        )
        yield Case(
            f"join_{name_of(dtype)}",
            join,
            [T((3, 5), dtype, 0, 100), T((3, 2), dtype, 0, 100), T((4, 5), dtype, 0, 100)],
        )
    yield Case(
        "strided",
        lambda x, y: (torch.cat([x.t(), y], 1), torch.cat([x[::2].t(), y.flip(1)], 1)),
        [T((4, 3)), T((3, 5))],
    )
    yield Case("expanded", lambda x, y: torch.cat([x.expand(3, 4), y], 0), [T((1, 4)), T((2, 4))])
    yield Case("many", lambda x: torch.cat([x[:, i : i + 1] * i for i in range(20)], 1), [T((3, 20))])
    yield Case("empty", lambda x, y: (torch.cat([x, y], 0), torch.cat([y, x, y], 0)), [T((0, 4)), T((3, 4))])
    yield Case("legacy_empty", lambda x: torch.cat([torch.zeros(0), x], 0), [T((3,))])
    yield Case("promoted", lambda x, i: torch.cat([x, i], 0), [T((2, 3)), T((4, 3), I32, -9, 9)])
    yield Case("middle", lambda x, y: torch.cat([x, y, x], 1), [T((2, 3, 7)), T((2, 1, 7))])
    yield Case(
        "vectors",
        lambda x, y: (torch.cat([x, y]), torch.stack([x, x, x], 1)),
        [T((7,), I64, -9, 9), T((1,), I64, -9, 9)],
    )
    yield Case("scalars", lambda x, y: torch.stack([x, y, x]), [T(()), T((), F32)])
    yield Case("large", lambda x, y: torch.cat([x, y], 1), [T((100, 257)), T((100, 511))])
