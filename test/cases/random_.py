"""Random ops (random.py would hide Python's module), by properties of any random numbers: ranges, moments,
permutations. test/python/test_random.py tests the numbers themselves and the distributions."""

import torch

from describe import BF16, F16, F32, F64, FLOATS, I32, Case, T, name_of

N = 5000


def near(x, value, deviation):
    """Checks that the mean of x is within five standard errors of the value."""
    return ((x.double().mean() - value).abs() < 5 * deviation / N**0.5,)


def floats(dtype):
    def run(x):
        u, z = torch.rand(N, dtype=dtype), torch.randn_like(x)
        return (
            u.min() >= 0,
            u.max() < 1,
            *near(u, 0.5, 0.3),
            *near(z, 0, 1),
            *near(z.float().square(), 1, 1.5),
            z.abs().max() < 7,
        )

    return run


def integers(x):
    r, w = torch.randint(-3, 9, (N,)), torch.randint(0, 2**62, (N,))
    k = torch.randint(0, 5, (3, 0), dtype=I32)
    return (r.amin(), r.amax(), (w > 2**61).any(), (w >= 0).all(), *near(r, 2.5, 3.5), k, torch.randint_like(x, 1))


def others(p):
    order = torch.randperm(301)
    picks = torch.multinomial(p, 3)
    return (
        order.sort()[0],
        picks.sort(1)[0],
        *near(torch.bernoulli(torch.full((N,), 0.25)), 0.25, 0.5),
        torch.multinomial(p, N, True)[0].amin(),
        *near(torch.empty(N).uniform_(2, 4), 3, 0.6),
        *near(torch.empty(N).exponential_(4.0), 0.25, 0.25),
    )


def cases():
    for dtype in FLOATS:
        yield Case(f"floats_{name_of(dtype)}", floats(dtype), [T((N,), dtype)])
    yield Case("integers", integers, [T((5,))])
    one = T((2, 4), F32, values=(0.0, 1.0, 2.0, 0.5))
    yield Case("others", others, [one])
    yield Case(
        "empty",
        lambda x: (torch.rand(0, 3, dtype=F16), torch.randn(2, 0, dtype=BF16), torch.rand(0, dtype=F64), x),
        [T((1,))],
    )
