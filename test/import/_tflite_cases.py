"""Tables of TFLite models with one op: floats, open sizes, and quantised."""

import functools
import itertools
from typing import NamedTuple

import numpy as np
from _tflite import RELU, RELU6, RELU_N1_TO_1, SAME, VALID, Codes, Model

F16, F32, I8, U8, I16 = np.float16, np.float32, np.int8, np.uint8, np.int16
I32, I64, BOOL = np.int32, np.int64, np.bool_
ones = {"stride_h": 1, "stride_w": 1}
rng = np.random.default_rng(3)


class Input(NamedTuple):
    """A run-time input of random values. An open size, -1, is 3 and then 6."""

    shape: tuple
    dtype: type = F32
    low: float | None = None
    high: float | None = None
    codes: Codes | None = None

    def values(self, rng, size):
        shape, dtype = [size if n < 0 else n for n in self.shape], np.dtype(self.dtype)
        if dtype.kind == "b":
            return rng.random(shape) < 0.5
        whole = (-2, 2) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        low, high = whole if dtype.kind == "f" or dtype.itemsize == 1 else (-9, 9)
        low, high = (low if self.low is None else self.low), (high if self.high is None else self.high)
        if dtype.kind == "f":
            return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
        return np.asarray(rng.integers(low, high + 1, shape)).astype(dtype)


def is_image(given):
    return isinstance(given, Input) and len(given.shape) == 4 and (given.dtype == F32 or given.codes is not None)


class Constant(NamedTuple):
    data: np.ndarray
    codes: Codes | None = None


class Case(NamedTuple):
    op: str
    inputs: tuple
    options: dict
    results: tuple  # (dtype, codes) of each
    tolerance: float
    apart: float | None

    def __str__(self):
        shapes = [getattr(i.data if isinstance(i, Constant) else i, "shape", ()) for i in self.inputs]
        dtype = np.dtype(next(i for i in self.inputs if isinstance(i, Input)).dtype).name
        parts = ["x".join(map(str, s)) or "scalar" for s in shapes] + [f"{k}={v}" for k, v in self.options.items()]
        return " ".join([self.op, dtype, *parts]).translate({ord("["): None, ord("]"): None})

    def build(self, after_pool=False):
        """Returns the model's bytes, and the arguments of two runs."""
        model = Model()
        graph, numbers, rng = model.main, [], np.random.default_rng(7)
        for given in self.inputs:
            if given is None:
                numbers.append(-1)
            elif isinstance(given, Input):
                numbers.append(graph.input(given.dtype, given.shape, given.codes))
                if after_pool and is_image(given):
                    pool = {"filter_height": 1, "filter_width": 1, **ones}
                    numbers[-1:] = graph.op("MAX_POOL_2D", numbers[-1:], [(given.dtype, given.codes)], **pool)
            else:
                numbers.append(graph.constant(*(given if isinstance(given, Constant) else (given,))))
        version = 3 if self.op == "BROADCAST_TO" else 1
        graph.output(*graph.op(self.op, numbers, self.results, version=version, **self.options))
        given = [i for i in self.inputs if isinstance(i, Input)]
        return model.bytes(), [[i.values(rng, size) for i in given] for size in (3, 6)]


def case(op, *inputs, results=None, tolerance=1e-5, apart=None, codes=None, **options):
    """results: dtypes, or (dtype, codes) of each; else one of the first float input's dtype, with these codes."""
    first = next(i for i in inputs if isinstance(i, Input))
    made = [r if isinstance(r, tuple) else (r, None) for r in results or [(first.dtype, codes)]]
    return Case(op, inputs, options, tuple(made), tolerance, apart)


def x(*shape, **more):
    return Input(shape, **more)


def w(*shape):
    return rng.uniform(-1, 1, shape).astype(F32)


ints, positive = functools.partial(x, dtype=I32), functools.partial(x, low=0.1, high=3)
image = x(2, 3, 4, 5)


def elementwise():
    names = "ABS CEIL COS ELU EXP FLOOR HARD_SWISH LOGISTIC NEG RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND SIGN SIN"
    yield from (case(n, image) for n in [*names.split(), "SQUARE", "TANH", "ZEROS_LIKE"])
    yield from (case(n, positive(3, 4)) for n in ("LOG", "RSQRT", "SQRT"))
    yield from (case(n, ints(3, 4)) for n in ("ABS", "NEG", "SIGN"))
    yield from (case("RELU", x(*shape)) for shape in ((), (0, 3)))
    yield from (case("GELU", image, approximate=a, tolerance=1e-4 if a else 2e-5) for a in (False, True))
    yield case("LEAKY_RELU", image, alpha=0.3)
    yield from (case("PRELU", image, w(*shape)) for shape in ((1, 1, 5), (3, 4, 5), (1,)))
    yield case("LOGICAL_NOT", x(3, 4, dtype=BOOL))
    pairs = ((F32, I32), (F32, BOOL), (F32, F16), (F16, F32), (I64, I32), (BOOL, F32), (U8, F32), (I16, F32))
    yield from (case("CAST", x(2, 3, 4, 5, dtype=a, low=0, high=9), results=[b]) for a, b in pairs)
    yield from (case("BITCAST", x(3, 4, dtype=a), results=[b]) for a, b in ((F32, I32), (I32, F32)))
    for n in ("ADD", "SUB", "MUL", "DIV"):
        yield from (case(n, image, positive(5), fused_activation_function=a) for a in (RELU, RELU_N1_TO_1, RELU6))
        yield from (case(n, x(*a), positive(*b)) for a, b in (((1, 3, 4), (2, 1, 4)), ((), (2,))))
        yield from (case(n, image, w(*b) + F32(2)) for b in ((4, 5), (2, 1, 4, 1), (1, 3, 1, 5)))
        yield case(n, ints(2, 3), ints(2, 3, low=1, high=5), fused_activation_function=RELU)
    for n in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"):
        yield case(n, x(2, 20, low=-5, high=5), x(20, low=-2, high=-0.3))
        yield case(n, ints(2, 30), ints(30, low=-5, high=-1))
    yield case("ADD", x(4, 5), image)
    yield case("POW", positive(2, 3), x(3))
    yield case("POW", ints(2, 3), ints(3, low=0, high=4))
    yield case("ATAN2", x(2, 3), x(2, 3))
    yield case("ADD_N", image, image, image)
    for i, n in enumerate(("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")):
        yield case(n, *(x(*s, dtype=(I32, F32)[i % 2], low=0, high=3) for s in ((2, 30), (30,))), results=[BOOL])
    yield case("GREATER", image, w(5), results=[BOOL])
    yield from (case(n, x(2, 8, dtype=BOOL), x(8, dtype=BOOL)) for n in ("LOGICAL_AND", "LOGICAL_OR"))
    yield from (case(n, ints(2, 8), ints(2, 8, low=0, high=3)) for n in ("BITWISE_XOR", "RIGHT_SHIFT"))
    yield from (case("SELECT", x(*s, dtype=BOOL), image, image, results=[F32]) for s in ((2, 3, 4, 5), (2,)))
    yield from (case("SELECT_V2", x(*s, dtype=BOOL), image, x(1, 5), results=[F32]) for s in ((3, 4, 1), ()))


def windows():
    for k, s, p in (((3, 3), 2, SAME), ((2, 3), 1, SAME), ((5, 4), 2, VALID)):
        strides = {"padding": p, "stride_h": s, "stride_w": 1}
        yield case("CONV_2D", x(2, 8, 7, 3), w(5, *k, 3), w(5), fused_activation_function=RELU, **strides)
        yield case("DEPTHWISE_CONV_2D", x(2, 8, 7, 3), w(1, *k, 6), w(6), depth_multiplier=2, **strides)
        for n in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
            yield case(n, x(2, 8, 7, 3), filter_height=k[0], filter_width=k[1], **strides)
    far = {**ones, "dilation_h_factor": 2, "dilation_w_factor": 3}
    yield case("CONV_2D", x(1, 9, 9, 2), w(3, 3, 2, 2), w(3), **far)
    yield case("DEPTHWISE_CONV_2D", x(1, 9, 9, 2), w(1, 3, 2, 2), w(2), depth_multiplier=1, **far)
    yield case("CONV_2D", x(1, 5, 5, 6), w(4, 3, 3, 3), w(4), **ones)  # two groups
    yield case("CONV_2D", x(1, 7, 7, 3), x(4, 3, 3, 3), x(4), **ones)
    for p, s in ((SAME, 2), (VALID, 1)):
        yield case("CONV_3D", x(1, 5, 6, 7, 2), w(3, 3, 2, 2, 4), w(4), padding=p, stride_d=s, stride_h=s, stride_w=s)
    for k, s, p, size in ((3, 2, SAME, (6, 8)), (3, 2, SAME, (5, 7)), (4, 3, VALID, (10, 13)), (2, 3, VALID, (9, 12))):
        more = {"padding": p, "stride_h": s, "stride_w": s}
        yield case("TRANSPOSE_CONV", np.int32([1, *size, 5]), w(5, k, k, 3), x(1, 3, 4, 3), w(5), **more)
    for i, size in itertools.product(range(3), ((6, 8), (7, 5), (2, 3))):
        more = {"align_corners": i == 1, "half_pixel_centers": i == 2}
        yield from (case(f"RESIZE_{n}", image, np.int32(size), **more) for n in ("BILINEAR", "NEAREST_NEIGHBOR"))
    yield case("SPACE_TO_DEPTH", x(2, 4, 6, 3), block_size=2)
    yield case("DEPTH_TO_SPACE", x(2, 2, 3, 12), block_size=2)
    yield case("SPACE_TO_BATCH_ND", x(1, 4, 6, 3), np.int32([2, 3]), np.int32([[1, 1], [0, 3]]))
    yield case("BATCH_TO_SPACE_ND", x(6, 2, 3, 2), np.int32([2, 3]), np.int32([[1, 0], [0, 2]]))
    yield case("SPACE_TO_BATCH_ND", x(1, 4, 3), np.int32([2]), np.int32([[1, 1]]))
    yield case("LOCAL_RESPONSE_NORMALIZATION", x(1, 3, 4, 8), radius=2, bias=1.0, alpha=0.3, beta=0.5)


def products():
    for keep, shape in itertools.product((False, True), ((4, 6), (2, 2, 2, 6))):
        yield case("FULLY_CONNECTED", x(*shape), w(5, 6), w(5), keep_num_dims=keep, fused_activation_function=RELU)
    yield from (case("FULLY_CONNECTED", x(4, 6), weight, None) for weight in (w(5, 6), x(5, 6)))
    for a, b in itertools.product((False, True), repeat=2):
        left, right = (2, 4, 3) if a else (2, 3, 4), (2, 5, 4) if b else (1, 4, 5)
        yield case("BATCH_MATMUL", x(*left), x(*right), adj_x=a, adj_y=b)


def reductions():
    for n in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        for axes, keep in (([3], True), ([0, -1], True), ([1, 2], False), ([], False)):
            yield case(n, x(2, 3, 4, 3), np.int32(axes), keep_dims=keep)
        yield case(n, x(2, 3, dtype=F32 if n == "MEAN" else I32), np.int32(1), keep_dims=False)
    yield from (case(n, x(2, 3, 2, dtype=BOOL), np.int32([1]), keep_dims=False) for n in ("REDUCE_ANY", "REDUCE_ALL"))
    for n, axis, kind in itertools.product(("ARG_MAX", "ARG_MIN"), (0, -1), (2, 4)):
        yield case(n, image, np.int32([axis]), output_type=kind, results=[I32 if kind == 2 else I64])
    yield from (case("SOFTMAX", i, beta=b) for i, b in ((x(2, 3, 5), 0.5), (image, 1.0)))
    yield case("LOG_SOFTMAX", image)
    yield from (case("L2_NORMALIZATION", i) for i in (image, x(2, 5, low=0, high=0)))
    for exclusive, reverse, axis in ((False, False, 0), (True, False, -1), (False, True, 1), (True, True, 0)):
        yield case("CUMSUM", x(3, 4, 2), np.int32(axis), exclusive=exclusive, reverse=reverse)


def shapes():
    pads = [[1, 0], [0, 2], [1, 1], [0, 3]]
    yield case("PAD", image, np.int64(pads))
    yield case("PAD", ints(2, 3), np.int32(pads[:2]))
    yield case("PADV2", image, np.int32(pads), F32(2.5))
    yield from (case("MIRROR_PAD", image, np.int32(pads), mode=m) for m in (0, 1))
    yield from (case("RESHAPE", i, np.int32([2, -1])) for i in (image, x(2, 1, 1, 5), x(4, 3)))
    yield case("RESHAPE", x(2, 3, 4), new_shape=[4, -1])
    yield case("RESHAPE", x(1), np.int32([]))
    yield from (case("SQUEEZE", x(1, 3, 1, 4), squeeze_dims=d) for d in ([], [-2]))
    yield from (case("EXPAND_DIMS", x(3, 4), np.int32([a])) for a in (0, -1))
    yield from (case("TRANSPOSE", image, np.int32(p)) for p in ([0, 3, 1, 2], [3, 0, 2, 1]))
    yield case("SHAPE", image, out_type=2, results=[I32])
    yield case("RANK", image, results=[I32])
    yield case("FILL", np.int32([2, 3]), x())
    yield case("FILL", ints(2, low=1, high=4), F32(3.5), results=[F32])
    yield case("BROADCAST_TO", x(3, 1), np.int32([2, 3, 4]))
    yield case("BROADCAST_ARGS", np.int32([3, 1]), ints(2, low=3, high=3))
    yield case("TILE", image, np.int32([1, 2, 1, 3]))
    yield case("RANGE", np.int32(2), ints(low=7, high=9), np.int32(3))
    yield case("RANGE", np.int32(9), ints(low=1, high=5), np.int32(-3))
    yield case("SLICE", image, np.int32([1, 0, 2, 1]), np.int32([1, -1, 2, 3]))
    yield case("SLICE", x(3, 4), ints(2, low=0, high=1), np.int32([2, 3]))
    for axis in (2, -1):
        yield case("SPLIT", np.int32(axis), x(2, 2, 2, 4), num_splits=2, results=[F32] * 2)
        yield case(
            "SPLIT_V",
            x(4, 6),
            np.int32([1, -1, 1]),
            np.int32(axis + 1 - 2 * (axis > 0)),
            num_splits=3,
            results=[F32] * 3,
        )
        yield case("UNPACK", x(3, 3, 3), num=3, axis=axis, results=[F32] * 3)
        yield case("PACK", x(3, 2), x(3, 2), values_count=2, axis=axis)
        yield case("CONCATENATION", image, image, w(2, 3, 4, 5), axis=axis)
        yield case("REVERSE_V2", image, np.int32([axis % 4]))


def strided_slices():
    """Begins, ends and strides within and beyond the sizes, with masks in bits."""
    rng = np.random.default_rng(5)
    for k in range(16):
        shape = tuple(int(n) for n in rng.integers(2, 6, rng.integers(1, 5)))
        n = int(rng.integers(1, len(shape) + 1))
        begin, end, step = rng.integers(-6, 7, n), rng.integers(-6, 7, n), rng.choice([-2, -1, 1, 1, 1, 2], n)
        masks = [int(m) for m in rng.integers(0, 2**n, 4)]
        masks[2:] = [masks[2] if k % 3 == 0 else 0, masks[3] if k % 5 == 1 else 0]
        for d in range(n):
            if masks[2] >> d & 1:
                begin[d], step[d] = rng.integers(-shape[d], shape[d]), 1
                end[d] = begin[d] + 1
        options = dict(zip(("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask"), masks, strict=True))
        more = {"ellipsis_mask": 1 << int(rng.integers(0, n)) if k % 4 == 0 else 0, **options}
        yield case("STRIDED_SLICE", x(*shape), *(np.int32(a) for a in (begin, end, step)), **more)
    yield case("STRIDED_SLICE", x(6, 5), np.int32([1, 2]), np.int32([2, 3]), np.int32([1, 1]), offset=True)
    yield case("STRIDED_SLICE", x(6, 5), np.int32([-3, 2]), np.int32([3, 3]), np.int32([1, 1]), offset=True)
    yield case(
        "STRIDED_SLICE", x(6, 5), np.int32([1, 2]), np.int32([3, 3]), np.int32([1, 1]), begin_mask=1, offset=True
    )
    yield case("STRIDED_SLICE", x(6, 5), ints(2, low=-3, high=3), np.int32([6, 5]), np.int32([1, 2]))


def indices():
    for axis, batch, shape in ((0, 0, (2,)), (1, 0, (2, 2)), (-1, 0, ()), (2, 1, (3, 2))):
        yield case("GATHER", x(3, 4, 5), ints(*shape, low=0, high=2), axis=axis, batch_dims=batch)
    yield from (case("GATHER_ND", x(3, 4, 5), ints(2, n, low=0, high=2)) for n in (1, 3))
    for n, shape in ((1, (6, 5)), (2, (6,))):  # equal indices add up
        yield case("SCATTER_ND", ints(6, n, low=0, high=2), x(*shape), np.int32([4, 5]), results=[F32])
    values = np.int32(4), F32(2), F32(-1)
    yield from (case("ONE_HOT", ints(2, 3, low=-1, high=4), *values, axis=a, results=[F32]) for a in (-1, 0, 1))
    yield from (case("TOPK_V2", i, np.int32(3), results=[i.dtype, I32]) for i in (x(2, 6), ints(2, 6)))
    yield from (case("WHERE", x(3, 4, dtype=d, low=0, high=1), results=[I64]) for d in (BOOL, I32))
    yield case("EMBEDDING_LOOKUP", ints(3, low=0, high=4), w(5, 6), results=[F32])
    yield case("DYNAMIC_UPDATE_SLICE", x(4, 5), x(4, 2), ints(2, low=-1, high=6))


FLOATS = [c for f in (elementwise, windows, products, reductions, shapes, strided_slices, indices) for c in f()]

OPEN = [
    *(case(n, x(-1, 4), i) for n in ("ADD", "MUL") for i in (x(-1, 4), w(1, 4))),
    case("ADD", x(-1, 1, 4), x(1, -1, 4)),
    case("CONV_2D", x(-1, 7, -1, 3), w(4, 3, 3, 3), w(4), stride_h=2, stride_w=2),
    case("DEPTHWISE_CONV_2D", x(-1, -1, -1, 3), w(1, 3, 3, 3), w(3), stride_h=2, stride_w=1, depth_multiplier=1),
    case("AVERAGE_POOL_2D", x(-1, -1, 7, 3), stride_h=2, stride_w=2, filter_height=2, filter_width=3),
    case("FULLY_CONNECTED", x(-1, 6), w(5, 6), w(5)),
    case("BATCH_MATMUL", x(-1, 3, 4), x(4, 5)),
    case("MEAN", x(-1, -1, 4, 2), np.int32([1, 2]), keep_dims=False),
    case("ARG_MAX", x(-1, 5), np.int32([0]), output_type=2, results=[I32]),
    case("CUMSUM", x(-1, 2), np.int32(0), exclusive=True),
    case("RESHAPE", x(-1, 3, 4), np.int32([-1, 12])),
    case("SHAPE", x(-1, -1, 4), out_type=4, results=[I64]),
    case("CONCATENATION", x(-1, 4), x(2, 4), axis=0),
    case("SPLIT", np.int32(0), x(-1, 4), num_splits=3, results=[F32] * 3),
    case("STRIDED_SLICE", x(-1, 5), np.int32([-2, 0]), np.int32([9, 5]), np.int32([1, 2])),
    case("SLICE", x(-1, 4), np.int32([1, 0]), np.int32([-1, 2])),
    case("TILE", x(-1, 3), np.int32([2, 2])),
    case("GATHER", x(-1, 4), ints(2, low=0, high=2), axis=0),
    case("SCATTER_ND", ints(-1, 1, low=0, high=2), x(-1, 5), np.int32([4, 5]), results=[F32]),
    case("ONE_HOT", ints(-1, low=-1, high=4), np.int32(4), F32(2), F32(-1), axis=-1, results=[F32]),
    case("WHERE", x(-1, 4, dtype=BOOL), results=[I64]),
    case("MIRROR_PAD", x(-1, 3), np.int32([[1, 1], [0, 2]]), mode=1),
    case("RESIZE_BILINEAR", x(-1, -1, 4, 2), np.int32([6, 8]), half_pixel_centers=True),
    case("SPACE_TO_BATCH_ND", x(-1, 4, 4, 3), np.int32([2, 2]), np.int32([[0, 0], [0, 0]])),
    case("DYNAMIC_UPDATE_SLICE", x(-1, 5), x(-1, 2), ints(2, low=-1, high=6)),
]


def quantized(dtype):
    """8-bit codes. Scales are such that few numbers are halfway between two codes."""
    low, high, signed = np.iinfo(dtype).min, np.iinfo(dtype).max, dtype == I8
    zero = -3 if signed else 121
    first, second, other = Codes(0.0513271, zero), Codes(0.0297713, zero + 7), Codes(0.0410117, zero - 5)
    unit, sign = Codes(1 / 256, low), Codes(1 / 128, low + 128)
    q = functools.partial(x, dtype=dtype, codes=first)
    one = lambda op, *inputs, codes=other, apart=0.01, **more: case(op, *inputs, codes=codes, apart=apart, **more)
    same = lambda *args, **more: one(*args, codes=first, **more)
    constant = lambda codes, *shape: Constant(rng.integers(low + 1, high + 1, shape).astype(dtype), codes)
    for n, act in itertools.product(("ADD", "SUB", "MUL"), (0, RELU)):
        yield one(n, q(2, 3, 8, 5), q(5, codes=second), fused_activation_function=act)
    yield one("DIV", q(2, 4, 5, 5), q(2, 4, 5, 5, codes=second, low=zero + 30, high=zero + 90))
    yield from (same(n, q(200), q(200)) for n in ("MAXIMUM", "MINIMUM"))
    yield from (case(n, q(200), q(200, codes=second), results=[BOOL]) for n in ("EQUAL", "LESS"))
    yield from (one(n, q(2, 5, 5, 8), codes=c) for n, c in (("LOGISTIC", unit), ("TANH", sign)))
    yield from (one(n, q(2, 5, 5, 8)) for n in ("RELU", "RELU6", "HARD_SWISH", "GELU", "QUANTIZE"))
    # ai-edge-litert rounds twice; clave is exact
    yield one("LEAKY_RELU", q(400), alpha=0.2, apart=0.15)
    yield one("PRELU", q(1, 9, 9, 10), constant(second, 1, 1, 10), apart=0.02)
    yield one("L2_NORMALIZATION", q(2, 4, 5, 20), codes=sign, apart=0.02)
    yield one("SOFTMAX", q(2, 4, 5, 5), codes=unit, beta=1.0)
    yield one("LOG_SOFTMAX", q(2, 4, 5, 5), codes=Codes(16 / 256, high))
    yield case("QUANTIZE", x(400, low=-4, high=4), codes=other, results=[(dtype, other)], apart=0.01)
    yield case("DEQUANTIZE", q(400), results=[F32])
    for n, k, s, p in (("AVERAGE_POOL_2D", 3, 1, SAME), ("AVERAGE_POOL_2D", 2, 2, VALID), ("MAX_POOL_2D", 3, 2, SAME)):
        yield same(n, q(1, 9, 8, 4), padding=p, stride_h=s, stride_w=s, filter_height=k, filter_width=k)
    for n in (1, 9) if signed else (1,):  # scales of the weight
        scale, zeros = rng.uniform(0.002, 0.01, n).astype(F32), np.full(n, 0 if signed else 120)
        bias = Constant(rng.integers(-2000, 2000, 9).astype(I32), Codes(scale * F32(first.scale), np.zeros(n)))
        codes, deep, more = Codes(scale, zeros), Codes(scale, zeros, 3), {"codes": Codes(0.07, zero + 6)}
        yield one("CONV_2D", q(2, 9, 8, 4), constant(codes, 9, 3, 2, 4), bias, stride_h=2, stride_w=1, **more)
        yield one(
            "DEPTHWISE_CONV_2D", q(2, 9, 8, 3), constant(deep, 1, 3, 3, 9), bias, depth_multiplier=3, **ones, **more
        )
        yield from (one("FULLY_CONNECTED", q(rows, 20), constant(codes, 9, 20), bias, **more) for rows in (1, 16))
        if signed:
            weight, more = constant(codes, 9, 3, 3, 4), {"stride_h": 2, "stride_w": 2, **more}
            yield one("TRANSPOSE_CONV", np.int32([1, 10, 12, 9]), weight, q(1, 5, 6, 4), **more)
    yield from (one("MEAN", q(2, 5, 5, 8), np.int32([1, 2]), codes=c, keep_dims=True) for c in (first, other))
    yield one("SUM", q(20, 30), np.int32([1]), codes=Codes(0.4, zero), keep_dims=False)
    yield same("REDUCE_MAX", q(20, 30), np.int32([1]), keep_dims=False)
    yield same("CONCATENATION", q(2, 3, 4, 5), q(2, 3, 4, 5), axis=3)
    yield same("PAD", q(2, 3, 4, 5), np.int32([[0, 0], [1, 2], [0, 1], [0, 0]]))
    yield same("PADV2", q(2, 3), np.int32([[0, 0], [1, 2]]), constant(first))
    yield same("TRANSPOSE", q(2, 3, 4, 5), np.int32([2, 0, 3, 1]))
    yield same("GATHER", q(5, 6), np.int32([1, 3]), axis=0)
    yield from (same(n, q(1, 5, 6, 3), np.int32([9, 11])) for n in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))
    yield case("ARG_MAX", q(5, 30), np.int32([1]), output_type=2, results=[I32])
    if signed:
        yield one("BATCH_MATMUL", q(2, 20, 12), q(2, 12, 20, codes=second), codes=Codes(0.2, 4))
        yield from (one(n, q(100, low=zero + 1, high=127), codes=Codes(0.04, low)) for n in ("RSQRT", "LOG"))
        yield from (one(n, q(400), codes=Codes(0.05, low)) for n in ("EXP", "ELU", "ABS"))
        yield one("SQUARED_DIFFERENCE", q(200), q(200, codes=second), codes=Codes(0.3, low))
    else:
        yield one("CONCATENATION", q(3, 40), q(3, 40, codes=second), axis=1)


QUANTIZED = [*quantized(I8), *quantized(U8)]
