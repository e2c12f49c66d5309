"""Convolutions and their transposes with quantised weights: each encoding, and each kind of convolution.

Expected results and tolerance are as in encoded.py. A row of a weight consists of the dimensions after the first.
"""

import numpy as np
import torch
import torch.nn.functional as fn
from conv import FORMS
from encoded import BLOCKS, GROUPS, block_values, of_groups, random_blocks

from describe import BF16, F16, F32, Case, T, name_of, products, ulps

# x, weight, arguments. Rows have 256 or 512 elements, as all blocks divide these. Outputs are fewer or more than a panel.
SHAPES = (
    ((1, 64, 7, 9), (35, 64, 2, 2), {"padding": 1}), ((2, 64, 9, 6), (16, 32, 4, 2), {"groups": 2, "stride": 2}), ((1, 256, 5, 7), (20, 256, 1, 1), {}), ((1, 96, 40), (21, 32, 16), {"groups": 3, "dilation": 2}), ((1, 32, 4, 5, 6), (17, 32, 2, 2, 2), {}),
)  # fmt: skip


class Convolutions(torch.nn.Module):
    """Convolutions, each with its own weight; every other one has a bias."""

    def __init__(self, functions, values, dtype=F32):
        super().__init__()
        self.functions = functions
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.from_numpy(np.ascontiguousarray(v, np.float32)).to(dtype), requires_grad=False)
            for v in values
        )

    def forward(self, *inputs):
        count = len(self.functions)
        biases = {2 * i: b for i, b in enumerate(inputs[count:])}
        return tuple(f(inputs[i], self.weights[i], biases.get(i), **k) for i, (f, k) in enumerate(self.functions))


def quantised(text, shape, random, exact):
    """Returns the decoded values of a weight, and its bytes."""
    n, k = shape[0], int(np.prod(shape[1:]))
    if text in BLOCKS:
        stored = random_blocks(text, k, random, n)
        return block_values(text, stored.rows).reshape(shape), stored
    values, stored = of_groups(text, k, random, exact, n)
    return values.reshape(shape), stored


def case(name, table, dtype=F32, exact=False):
    """table: a function, the shapes of x and the weight, arguments and an encoding for each convolution."""
    random = np.random.default_rng(len(table))
    made = [quantised(text, w, random, exact) for _, _, w, _, text in table]
    terms = max(int(np.prod(w[1:])) for _, _, w, _, _ in table)
    outputs = [w[1] * k.get("groups", 1) if "transpose" in f.__name__ else w[0] for f, _, w, k, _ in table]
    stored = {f"weights.{i}": s for i, (_, s) in enumerate(made)}
    return Case(
        name,
        Convolutions([(f, k) for f, _, _, k, _ in table], [v for v, _ in made], dtype),
        [*(T(x, dtype) for _, x, *_ in table), *(T((n,), dtype) for n in outputs[::2])],
        quantize=lambda name, _weight: stored.get(name),
        rtol=ulps(dtype, 8),
        atol=2 * products(dtype, terms + 1, 3),
    )


def function_of(shape):
    return {3: fn.conv1d, 4: fn.conv2d, 5: fn.conv3d}[len(shape)]


def cases():
    # Every encoding with each of two shapes.
    texts = [*GROUPS, *BLOCKS]
    for turn in (0, 2):
        rows = zip(texts, [*range(turn, len(SHAPES)), *range(turn)] * len(texts), strict=False)
        yield case(
            f"encodings_{turn}",
            [(function_of(SHAPES[i][1]), *SHAPES[i], text) for text, i in rows],
        )
    kinds = ("int8", "int4:32", "int4:32:zeros", "int5:32", "e4m3:32", "int8:48")
    for f, table in FORMS.items():
        yield case(
            f.__name__,
            [(f, x, w, k, kinds[i % len(kinds)]) for i, (x, w, k) in enumerate(table.values())],
        )
    for dtype in (F16, BF16):
        yield case(
            f"dtypes_{name_of(dtype)}",
            [
                (fn.conv2d, (2, 13, 9, 11), (19, 13, 3, 3), {"padding": 1}, "int8"),
                (fn.conv2d, (1, 40, 5, 6), (9, 40, 1, 1), {}, "int4:32"),
                (fn.conv2d, (1, 6, 9, 8), (6, 1, 3, 3), {"groups": 6}, "int4:32"),
                (fn.conv_transpose2d, (1, 8, 4, 9), (8, 3, 2, 2), {"stride": 2}, "int8"),
            ],
            dtype,
            exact=True,
        )
