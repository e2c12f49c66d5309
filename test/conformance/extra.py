"""Samples of ops without an entry in torch's operator database, in the same format: a function and arguments by dtype.

Layers with weights, control flow, complex numbers as pairs of reals, variants of resampling, core ops without an entry.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import listed
import torch
from torch._higher_order_ops import scan, while_loop
from torch.nn import functional as F
from torch.testing import make_tensor

FLOATS = ("f32", "f16", "bf16", "f64")
WIDE = ("f32", "f64")
NUMBERS = (*FLOATS, "i8", "u8", "i16", "i32", "i64")
ALL = (*NUMBERS, "bool")
STORED = ("u16", "u32", "u64", "f8_e4m3", "f8_e5m2")
aten = torch.ops.aten


@dataclasses.dataclass
class Extra:
    dtypes: tuple[str, ...]
    samples: Callable[[torch.dtype], Iterator[tuple[Any, tuple[Any, ...], dict[str, Any]]]]
    random: bool = False


OPS: dict[str, Extra] = {}


def extra(name: str, dtypes: tuple[str, ...], random: bool = False) -> Callable[[Any], Any]:
    """Registers a generator of (function, args, kwargs) for a dtype."""

    def register(f: Any) -> Any:
        OPS[f"extra.{name}"] = Extra(dtypes, f, random)
        return f

    return register


def t(dtype: torch.dtype, *shape: int, low: float = -2, high: float = 2) -> torch.Tensor:
    """Returns uniform numbers; integers are in 0 .. 9, if the dtype has no sign."""
    if dtype.is_floating_point:
        return make_tensor(shape, dtype=dtype, device="cpu", low=low, high=high)
    return make_tensor(shape, dtype=dtype, device="cpu", low=0, high=2 if dtype is torch.bool else 9)


# ---- dtypes that are only stored: casts and moves of elements


CASTS = (
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int16, torch.int32),
    *(torch.int64, torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2),
)


def apply(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls f(...): the function is part of the sample."""
    return f(*args, **kwargs)


def stored(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.randint(0, 200, shape).to(dtype)


@extra("to_any_dtype", (*ALL, *STORED))
def to_any_dtype(dtype):
    """Casts numbers that all dtypes hold."""

    def call(x):
        return tuple(x.to(to) for to in CASTS)

    for x in (torch.randint(0, 100, shape) for shape in ((5, 7), (), (0, 3))):
        yield call, (x.to(dtype),), {}
    yield call, (torch.randint(0, 100, (7, 5)).to(dtype).t(),), {}


@extra("float_to_float8", FLOATS)
def float_to_float8(dtype):
    """Casts numbers of all sizes, NaN and infinities."""
    special = [float("nan"), float("inf"), -float("inf"), -0.0, 448.0, 464.0, 465.0, 1e9, 57344.0, 61440.0, 2.0**-10]
    for to in (torch.float8_e4m3fn, torch.float8_e5m2):
        for scale in (1e-4, 1.0, 300.0, 40000.0):
            yield apply, (torch.Tensor.to, (torch.randn(40, 5) * scale).to(dtype), to), {}
        yield apply, (torch.Tensor.to, torch.tensor(special, dtype=torch.float64).to(dtype), to), {}


@extra("stored_moves", STORED)
def stored_moves(dtype):
    x, y, index = stored(dtype, 4, 6), stored(dtype, 2, 6), torch.tensor([3, 0, 2])
    yield apply, (torch.clone, x.t()), {"memory_format": torch.contiguous_format}
    yield apply, (torch.cat, [x, y, x]), {}
    yield apply, (torch.stack, [x, x], 1), {}
    yield apply, (torch.index_select, x, 0, index), {}
    yield apply, (torch.Tensor.__getitem__, x, (index, index)), {}
    yield apply, (torch.Tensor.__getitem__, x, (slice(None, None, 2), slice(1, 5, 3))), {}
    yield apply, (torch.Tensor.__getitem__, x, x[:, 0] == x[:, 0]), {}
    yield apply, (torch.roll, x, 2, 1), {}
    yield apply, (torch.flip, x, (0,)), {}
    yield apply, (torch.Tensor.repeat, x, 2, 3), {}
    yield apply, (torch.Tensor.expand, x[:1], 5, 6), {}
    yield apply, (torch.Tensor.unfold, x, 1, 3, 2), {}
    yield apply, (torch.slice_scatter, x, y), {"start": 1, "end": 3}
    yield apply, (torch.select_scatter, x, y[0], 0, 2), {}
    yield apply, (torch.diagonal_scatter, x, y[0, :4]), {}
    yield apply, (torch.diag_embed, x), {}
    yield apply, (torch.where, x == x[0], x, y[0]), {}
    yield apply, (F.pad, x, (1, 2, 0, 1)), {}
    yield apply, (F.pad, x, (1, -1)), {"value": 3}
    yield apply, (F.embedding, index, x), {}
    yield apply, (torch.Tensor.view, x, torch.uint8), {}
    yield apply, (torch.Tensor.fill_, x.clone(), 3), {}
    yield apply, (torch.zeros_like, x), {}


@extra("stored_compared", STORED)
def stored_compared(dtype):
    x, y = stored(dtype, 4, 6), stored(dtype, 6)
    y[2:4] = x[1, 2:4]
    for f in (torch.eq, torch.ne, torch.mul):
        yield apply, (f, x, y), {}
    yield apply, (torch.eq, x, 5), {}
    for f in (torch.any, torch.all, torch.isnan):
        yield apply, (f, x), {}


@extra("unsigned", STORED[:3])
def unsigned(dtype):
    x, y = stored(dtype, 4, 6), stored(dtype, 6)
    for f in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, torch.div):
        yield apply, (f, x, (y.to(torch.int64) + 1).to(dtype)), {}
    for f in (torch.sum, torch.prod):
        yield apply, (f, x[:2, :2]), {}
    yield apply, (torch.sum, x, 1), {"dtype": torch.int64}
    yield apply, (torch.cumsum, x, 1), {}
    yield apply, (torch.sort, x), {"dim": 1, "stable": True}


# ---- recurrent layers: aten.lstm.input and similar ops, with the weights as operands


def _recurrent(call: Callable[..., Any], gates: int, states: int) -> Any:
    def samples(dtype):
        for layers, bidirectional, batch_first, bias in (
            (1, False, False, True),
            (2, True, True, True),
            (1, True, False, False),
        ):
            directions = 2 if bidirectional else 1
            x = t(dtype, 5, 3, 4)
            batch = 5 if batch_first else 3
            hidden = [t(dtype, layers * directions, batch, 6) for _ in range(states)]
            weights = []
            for layer in range(layers):
                for _ in range(directions):
                    weights += [t(dtype, gates * 6, 4 if layer == 0 else 6 * directions, low=-0.5, high=0.5)]
                    weights += [t(dtype, gates * 6, 6, low=-0.5, high=0.5)]
                    weights += [t(dtype, gates * 6), t(dtype, gates * 6)] if bias else []
            state = hidden[0] if states == 1 else hidden
            yield call, (x, state, weights, bias, layers, 0.0, False, bidirectional, batch_first), {}

    return samples


extra("lstm", WIDE)(_recurrent(torch.lstm, 4, 2))
extra("gru", WIDE)(_recurrent(torch.gru, 3, 1))
extra("rnn_tanh", WIDE)(_recurrent(torch.rnn_tanh, 1, 1))
extra("rnn_relu", WIDE)(_recurrent(torch.rnn_relu, 1, 1))


@extra("gru_cell", WIDE)
def gru_cell(dtype):
    yield (
        torch.gru_cell,
        (t(dtype, 3, 4), t(dtype, 3, 6), t(dtype, 18, 4), t(dtype, 18, 6), t(dtype, 18), t(dtype, 18)),
        {},
    )


@extra("lstm_cell", WIDE)
def lstm_cell(dtype):
    state = [t(dtype, 3, 6), t(dtype, 3, 6)]
    yield torch.lstm_cell, (t(dtype, 3, 4), state, t(dtype, 24, 4), t(dtype, 24, 6), t(dtype, 24), t(dtype, 24)), {}


# ---- control flow


@extra("cond", (*FLOATS, "i32", "i64"))
def cond(dtype):
    def call(flag, x):
        return torch.cond(flag, lambda x: (x + x, x.sum(0, dtype=x.dtype)), lambda x: (x * x, x.amax(0)), (x,))

    for flag in (True, False):
        yield call, (torch.tensor(flag), t(dtype, 3, 4)), {}


@extra("while_loop", (*FLOATS, "i32", "i64"))
def while_(dtype):
    def call(n, x):
        return while_loop(lambda i, x: i > 0, lambda i, x: (i - 1, x + x), (n, x))

    for n in (0, 1, 5):
        yield call, (torch.tensor(n), t(dtype, 3)), {}


@extra("scan", WIDE)
def scan_(dtype):
    def call(start, xs):
        return scan(lambda c, x: (c * 0.5 + x, c * x), start, xs)

    for n in (1, 7):
        yield call, (t(dtype, 4), t(dtype, n, 4)), {}


@extra("map", WIDE)
def map_(dtype):
    from torch._higher_order_ops.map import map as hop

    yield lambda xs, y: hop(lambda x, y: torch.sin(x) * y, xs, y), (t(dtype, 5, 3), t(dtype, 3)), {}


# ---- complex numbers as pairs of reals


@extra("complex_as_pairs", WIDE)
def complex_pairs(dtype):
    def product(x, y):
        return torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y))

    def turned(x, angle):
        return torch.view_as_real(torch.view_as_complex(x) * torch.polar(torch.ones_like(angle), angle))

    yield product, (t(dtype, 3, 4, 2), t(dtype, 4, 2)), {}
    yield turned, (t(dtype, 2, 5, 3, 2), t(dtype, 5, 3)), {}
    yield lambda r, a: torch.view_as_real(torch.polar(r, a)), (t(dtype, 3, 4, low=0), t(dtype, 3, 4)), {}


# ---- resampling variants beyond the database's


@extra("interpolate", FLOATS)
def interpolate(dtype):
    modes = {3: ["nearest", "nearest-exact", "linear"], 4: ["nearest", "nearest-exact", "bilinear", "bicubic"]}
    modes[5] = ["nearest", "nearest-exact", "trilinear"]
    for rank, names in modes.items():
        x = t(dtype, 2, 3, *(5, 7, 4)[: rank - 2])
        for mode in names:
            corners = [None] if mode.startswith("nearest") else [False, True]
            for align in corners:
                for sizes in ({"size": (8, 3, 9)[: rank - 2]}, {"scale_factor": 1.7}):
                    yield F.interpolate, (x,), {"mode": mode, "align_corners": align, **sizes}
    for mode in ("bilinear", "bicubic") if dtype in (torch.float32, torch.float64) else ():
        yield F.interpolate, (t(dtype, 1, 2, 9, 8),), {"size": (4, 5), "mode": mode, "antialias": True}
    scaled = {"scale_factor": 1.7, "recompute_scale_factor": True, "mode": "bilinear"}
    yield F.interpolate, (t(dtype, 1, 2, 5, 4),), scaled


@extra("pad", FLOATS)
def pad(dtype):
    for mode in ("reflect", "replicate", "circular"):
        for rank in (1, 2, 3):
            yield F.pad, (t(dtype, 2, 3, *(4, 5, 6)[:rank]), (1, 2, 2, 0, 1, 1)[: 2 * rank]), {"mode": mode}


@extra("fold", FLOATS)
def fold(dtype):
    yield F.fold, (t(dtype, 2, 12, 12), (4, 5), (2, 2)), {}
    yield F.fold, (t(dtype, 2, 8, 16), (7, 7), (2, 2)), {"dilation": 2, "stride": 2, "padding": 1}


# ---- normalisation and pooling ops in graphs of models


@extra("weight_norm", WIDE)
def weight_norm(dtype):
    yield torch._weight_norm, (t(dtype, 6, 4, 3), t(dtype, 6, 1, 1), 0), {}


@extra("batch_norm_eval", FLOATS)
def batch_norm(dtype):
    mean, var, weight, bias = t(dtype, 3), t(dtype, 3, low=0.5), t(dtype, 3), t(dtype, 3)

    def call(*args):  # the statistics are for training
        return aten._native_batch_norm_legit_no_training(*args)[0]

    for shape in ((4, 3), (2, 3, 5), (2, 3, 4, 5), (2, 3, 2, 4, 3)):
        yield call, (t(dtype, *shape), weight, bias, mean, var, 0.1, 1e-5), {}
    x = t(dtype, 2, 3, 4, 5)
    yield lambda *args: aten._native_batch_norm_legit.no_stats(*args)[0], (x, weight, bias, True, 0.1, 1e-5), {}


@extra("embedding_bag", WIDE)
def embedding_bag(dtype):
    table, ids = t(dtype, 9, 4), torch.tensor([1, 3, 3, 8, 0, 2])
    for mode in ("sum", "mean", "max"):
        yield F.embedding_bag, (ids, table, torch.tensor([0, 2, 2, 5])), {"mode": mode}
        yield F.embedding_bag, (ids.reshape(2, 3), table), {"mode": mode}


@extra("pdist", WIDE)
def pdist(dtype):
    for p in (1.0, 2.0, 3.0, float("inf")):
        yield F.pdist, (t(dtype, 5, 4),), {"p": p}


@extra("cdist", WIDE)
def cdist(dtype):
    for p in (0.0, 1.0, 2.0, 3.0, float("inf")):
        yield torch.cdist, (t(dtype, 2, 5, 4), t(dtype, 2, 3, 4), p, "donot_use_mm_for_euclid_dist"), {}
    yield torch.cdist, (t(dtype, 40, 4), t(dtype, 30, 4)), {}


@extra("diff", NUMBERS)
def diff(dtype):
    yield torch.diff, (t(dtype, 3, 6),), {}
    yield torch.diff, (t(dtype, 3, 6), 2, 0), {"append": t(dtype, 1, 6)}


@extra("masked_select_sum", NUMBERS)
def masked_select(dtype):
    """A size that depends on data, read by another op."""
    x = t(dtype, 3, 5)
    yield lambda x, mask: torch.masked_select(x, mask).sum(), (x, x > 1), {}
    yield lambda x: torch.nonzero(x), (x,), {}


@extra("shape_arithmetic", ALL)
def shapes(dtype):
    yield aten.repeat_interleave.self_int, (t(dtype, 2, 3), 2, 1), {}
    yield aten.split_with_sizes, (t(dtype, 6, 3), [1, 2, 3]), {}
    yield aten.select_scatter, (t(dtype, 3, 4), t(dtype, 4), 0, 1), {}
    yield aten.slice_scatter, (t(dtype, 6, 4), t(dtype, 2, 4), 0, 1, 5, 2), {}
    yield aten.as_strided, (t(dtype, 12), (3, 2), (4, 1), 1), {}
    yield aten.roll, (t(dtype, 3, 4), [1, -2], [0, 1]), {}


@extra("calls", ("f32",))
def calls(dtype):
    """Calls of ops in graphs of models, and of ops without samples in the database."""
    yield from listed.samples(random=False)


@extra("size_bounds", ALL)
def size_bounds(dtype):
    def call(bound, x, n):
        size = n.item()
        bound(size, min=2, max=9)
        torch._check(size <= 9)
        return x.new_zeros(size), torch.arange(size)

    for bound in (torch.sym_constrain_range, torch.sym_constrain_range_for_size):
        yield call, (bound, t(dtype, 3), torch.tensor(4)), {}


@extra("asserts", FLOATS)
def asserts(dtype):
    def call(x):
        aten._assert_async((x == x).all())
        aten._assert_async.msg((x == x).all(), "NaN")
        return x + 1

    yield call, (t(dtype, 3),), {}


# ---- random: the generator differs from torch's, so shape and dtype are compared


@extra("random", FLOATS, random=True)
def random(dtype):
    yield torch.rand, (3, 4), {"dtype": dtype}
    yield torch.randn, (3, 4), {"dtype": dtype}
    yield torch.normal, (0.5, 2.0, (3, 4)), {"dtype": dtype}


@extra("random_calls", ("f32",), random=True)
def random_calls(dtype):
    yield from listed.samples(random=True)


@extra("randperm", ("i32", "i64"), random=True)
def randperm(dtype):
    for n in (0, 1, 10):
        yield torch.randperm, (n,), {"dtype": dtype}
