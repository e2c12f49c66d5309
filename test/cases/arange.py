"""arange, full and similar ops. Integers are exact; a float sequence start + i * step is rounded once, as in torch."""

import torch

from describe import BF16, BOOL, F16, F32, F64, I32, I64, U8, Case, T, name_of


def cases():
    for dtype in (F32, F64, F16, BF16, I32, I64, U8):
        d = name_of(dtype)
        f = lambda x, t=dtype: (
            torch.arange(7, dtype=t) + x,
            torch.arange(3, 20, 4, dtype=t) + x,
            torch.arange(20, 3, -3, dtype=t) * x,
        )
        yield Case(f"sequence_{d}", f, [T((1,), dtype, 1, 3)], rtol=1e-6)
        full = lambda x, t=dtype: (
            torch.full((2, 3), 5, dtype=t),
            torch.zeros(4, dtype=t),
            torch.ones(2, 1, dtype=t) + x,
            torch.full_like(x, 7),
            torch.zeros_like(x),
            torch.ones_like(x),
        )
        yield Case(f"full_{d}", full, [T((3,), dtype, 1, 3)])
    yield Case("fractions", lambda x: torch.arange(0, 1, 0.1) + x, [T((1,))], rtol=1e-6, atol=1e-6)
    yield Case(
        "between",
        lambda x: (
            *(torch.linspace(4.3, -3, n) + x for n in (0, 1, 2, 7)),
            torch.linspace(x[0], 9, 8),
            torch.linspace(4.3, -3, 50, dtype=I64),
            torch.linspace(0, 7, 50, dtype=I32),
            torch.logspace(-1, 2, 5, base=2.0) + x,
        ),
        [T((1,))],
        rtol=1e-6,
        atol=1e-6,
    )
    yield Case(
        "special",
        lambda x: (torch.full((3,), float("-inf")) + x, torch.full((2,), float("nan")) * x[0], torch.full((2,), True)),
        [T((3,))],
    )
    yield Case(
        "big",
        lambda i: (torch.full((2,), 2**53 + 1) + i, torch.arange(2**53, 2**53 + 4) + i, torch.tensor(2**62 + 1) + i),
        [T((1,), I64, -5, 5)],
    )
    yield Case("bool", lambda b: (torch.full((3,), True) & b, torch.ones(3, dtype=BOOL) ^ b), [T((3,), BOOL)])
    yield Case("empty", lambda x: (torch.arange(0) + 1, torch.zeros(0, 3), x * 1), [T((2,))])
    yield Case(
        "constant", lambda x: x + torch.tensor([[1.0, 2.0], [3.0, 4.0]]) * torch.tensor(2), [T((2, 2), F32)], rtol=1e-6
    )
    yield Case("only_constants", lambda x: (torch.arange(5), torch.eye(3), x), [T((1,), I32)])
