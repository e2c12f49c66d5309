"""Sizes known only at run time: symbolic shapes in every kind of op. The second run has other sizes than the first."""

import torch
import torch.nn.functional as fn
from torch.export import Dim

from describe import F32, I64, Case, T

N, L = Dim("n", min=2, max=100), Dim("l", min=2, max=64)
TOL = {"rtol": 1e-5, "atol": 1e-5}


def dynamic(name, f, make, sizes, axes, **more):
    """make(n, l) returns the inputs for a pair of sizes; axes: the dynamic dimensions of each."""
    a, b = sizes
    shapes = (tuple(dict(d) for d in axes),) if not isinstance(f, torch.nn.Module) else tuple(axes)
    return Case(name, f, make(*a), other=make(*b), dynamic_shapes=shapes, **{**TOL, **more})


SIZES = ((5, 7), (11, 3))
NL = [{0: N, 1: L}]


def one(*tail):
    return lambda n, m: [T((n, *tail))]


def both(n, m):
    return [T((n, m, 4))]


def shape_cases():
    yield dynamic("batch", lambda x: torch.relu(x) * 2, one(6), SIZES, [{0: N}])
    yield dynamic("linear", torch.nn.Linear(6, 3), one(6), SIZES, [{0: N}])
    yield dynamic(
        "conv",
        torch.nn.Conv2d(3, 4, 3, stride=2),
        lambda n, m: [T((n, 3, m + 3, 9))],
        SIZES,
        [{0: N, 2: Dim("h", min=3, max=50)}],
    )
    yield dynamic("reduce", lambda x: (x.sum(0), x.mean(1), x.amax(), x.argmax(1), x.softmax(1)), both, SIZES, NL)
    yield dynamic(
        "reshape",
        lambda x: (x.reshape(-1, 4), x.flatten(1), x.transpose(0, 1).reshape(x.shape[1], -1)),
        both,
        SIZES,
        NL,
    )
    yield dynamic(
        "views", lambda x: (x[:, 1:], x[:-1], x[:, -1], x.unsqueeze(1).expand(-1, 3, -1, -1)), both, SIZES, NL
    )
    yield dynamic(
        "half",
        lambda x: (x[: x.shape[0] // 2] * 1, x[:, : x.shape[1] - 1]),
        both,
        ((6, 7), (12, 4)),
        [{0: 2 * Dim("half", min=2, max=50), 1: Dim("b", min=3, max=64)}],
    )
    yield dynamic(
        "arange",
        lambda x: (
            torch.arange(x.shape[0]),
            torch.arange(x.shape[1]) + x[0, :, 0],
            torch.zeros(x.shape[0], 3) + x.shape[1],
        ),
        both,
        SIZES,
        NL,
    )
    yield dynamic(
        "cat", lambda x: (torch.cat([x, x[:1]], 0), torch.cat([x, torch.ones(x.shape[0], 1, 4)], 1)), both, SIZES, NL
    )
    yield dynamic("pad", lambda x: fn.pad(x, (1, 0, 2, 1)), both, SIZES, NL)
    yield dynamic("scaled", lambda x: (x * x.shape[0] / x.shape[1], x + (x.shape[0] % 3) * 2), both, SIZES, NL)


def network_cases():
    yield dynamic("matmul", lambda x: x @ x.transpose(-2, -1), both, SIZES, NL)
    yield dynamic("causal", lambda x: torch.tril(torch.ones(x.shape[1], x.shape[1])) @ x, both, SIZES, NL)
    yield dynamic("embedding", torch.nn.Embedding(20, 4), lambda n, m: [T((n, m), I64, 0, 19)], SIZES, NL)
    yield dynamic("norm", torch.nn.LayerNorm(4), both, SIZES, NL)
    yield dynamic(
        "pool",
        lambda x: (fn.max_pool2d(x, 2), fn.adaptive_avg_pool2d(x, 1)),
        lambda n, m: [T((n, 2, m + 2, 6))],
        SIZES,
        [{0: N, 2: Dim("h", min=3, max=50)}],
    )
    yield dynamic("cumsum", lambda x: (x.cumsum(0), x.cumsum(1)), both, SIZES, NL)
    yield dynamic("two_inputs", lambda x, y: x + y, lambda n, m: [T((n, 1)), T((1, m))], SIZES, [{0: N}, {1: L}])
    attend = lambda q, k: fn.scaled_dot_product_attention(q, k, k)
    yield dynamic("attention", attend, lambda n, m: [T((1, 2, n, 8)), T((1, 2, m, 8))], SIZES, [{2: N}, {2: L}])
    causal = lambda q: fn.scaled_dot_product_attention(q, q, q, is_causal=True)
    yield dynamic("attention_causal", causal, lambda n, m: [T((1, 2, n, 8), F32)], SIZES, [{2: N}])
    big = ((2, 2), (100, 64))
    yield dynamic("bounds", lambda x: x * 2, both, big, NL)


def cases():
    yield from shape_cases()
    yield from network_cases()
