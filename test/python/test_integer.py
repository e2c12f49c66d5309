"""Models that were quantised to 8 bits run as convolutions and products of integers: the passes' results, and answers
equal to eager's."""

import _export
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # declares quantized_decomposed
from _export import instructions
from torch import nn

import clave

pytestmark = pytest.mark.by_turn(15)
Q = torch.ops.quantized_decomposed
U8, I8 = (0, 255, torch.uint8), (-128, 127, torch.int8)


def dequantised(codes, scale=0.02, zero=7, kind=U8):
    return Q.dequantize_per_tensor(codes, scale, zero, *kind)


def quantised(x, scale=0.02, zero=7, kind=U8):
    return Q.quantize_per_tensor(x, scale, zero, *kind)


def codes(*shape, kind=U8):
    g = torch.Generator().manual_seed(len(shape))
    return torch.randint(kind[0], kind[1] + 1, shape, generator=g).to(kind[2])


class Layer(nn.Module):
    """Computes f(before(x), weight, bias) with a weight of codes and a scale for each row."""

    def __init__(self, f, *shape, before=dequantised, bias=True):
        super().__init__()
        g = torch.Generator().manual_seed(3)
        self.f, self.before = f, before
        self.register_buffer("codes", torch.randint(-128, 128, shape, generator=g).to(torch.int8))
        self.register_buffer("scales", torch.rand(shape[0], generator=g) / 500 + 1e-3)
        self.register_buffer("zeros", torch.zeros(shape[0], dtype=torch.int64))
        self.bias = nn.Parameter(torch.rand(shape[0], generator=g)) if bias else None

    def forward(self, x):
        weight = Q.dequantize_per_channel(self.codes, self.scales, self.zeros, 0, *I8)
        return self.f(self.before(x), weight, self.bias)


def conv(**more):
    return Layer(nn.functional.conv2d, 5, 3, 3, 3, **more)


def linear(k=20, **more):
    return Layer(nn.functional.linear, 9, k, **more)


def mostly_zero(rows, k):
    x = torch.full((rows, k), 7, dtype=torch.uint8)
    x[:, ::9001] = codes(rows, -(-k // 9001))
    return x


PLANES = codes(2, 3, 6, 7)
CONV, MATMUL = "ConvInteger", "MatmulInteger"
LAYERS = {  # with an input; the operands of sums, if these are integers
    "conv": (conv(), PLANES, CONV),
    "signed": (
        conv(before=lambda x: dequantised(x, 0.1, -128, I8), bias=False),
        codes(2, 3, 6, 7, kind=I8),
        CONV,
    ),
    "product": (linear(), codes(11, 20), MATMUL),
    "product_of_batches": (linear(bias=False), codes(3, 8, 20), MATMUL),
    "product_of_batches_of_batches": (linear(), codes(2, 1, 9, 20), MATMUL),
    "few_rows": (linear(), codes(7, 20), None),
    "zero_beyond_the_codes": (conv(before=lambda x: (x.float() - 256) * 0.02), PLANES, None),
    "zero_between_codes": (conv(before=lambda x: (x.float() - 0.5) * 0.02), PLANES, None),
    "negative_scale": (conv(before=lambda x: (x.float() - 3) * -0.02), PLANES, None),
    "more_than_32_bits_hold": (linear(65008), mostly_zero(8, 65008), None),
    "codes_of_16_bits": (conv(before=lambda x: (x.to(torch.int16).float() - 3) * 0.02), PLANES, None),
}


@pytest.mark.parametrize("name", LAYERS)
def test_sums_are_of_integers(name):
    layer, x, op = LAYERS[name]
    program = _export.check(layer, (x,))
    assert [len(instructions(program, kind)) for kind in (CONV, MATMUL)] == [op == CONV, op == MATMUL]
    _export.same(clave.Session(program, "opencl")(x), layer.eval()(x))


class Block(nn.Module):
    """Two convolutions with a residual and pooling between them, as pt2e writes them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = conv(), Layer(nn.functional.conv2d, 3, 5, 1, 1)

    def forward(self, x):
        y = quantised(torch.relu(self.first(x)), 0.05, 0)
        pooled = quantised(nn.functional.max_pool2d(dequantised(y, 0.05, 0), 2), 0.05, 0)
        return self.second(pooled), pooled, dequantised(pooled, 0.05, 0).mean((2, 3))


def test_pooling_stays_among_codes():
    block = Block().eval()
    program = _export.check(block, (PLANES,))
    (pool,) = instructions(program, "Pool")
    assert program.schema.tensors[pool.op.x.idx].dtype.name == "U8"
    kinds = [s.kind.name.lower() for i in instructions(program, "Elementwise") for s in i.op.steps]
    assert kinds.count("round") == 1, kinds  # the pooled codes are not quantised again
    _export.same(clave.Session(program, "opencl")(PLANES), block(PLANES))


@pytest.mark.parametrize("zero", [0, 7])
def test_codes_that_are_decoded_at_once(zero):
    """The next op reads floats."""
    layer = conv()

    def f(x):
        return dequantised(quantised(torch.relu(layer(x)), 0.05, zero), 0.05, zero).mean((2, 3))

    program = _export.check(f, (PLANES,))
    assert len(instructions(program, CONV)) == 1
    _export.same(clave.Session(program, "opencl")(PLANES), f(PLANES))


def requantised(scale, zero, bounds, to):
    def f(x):
        return Q.quantize_per_tensor(dequantised(x, 0.05, 9), scale, zero, *bounds, to)

    return f


@pytest.mark.parametrize(
    ("scale", "zero", "bounds", "to", "same"),
    [
        (0.05, 9, (0, 255), torch.uint8, True),
        (0.051, 9, (0, 255), torch.uint8, False),
        (0.05, 8, (0, 255), torch.uint8, False),
        (0.05, 9, (1, 255), torch.uint8, False),
        (0.05, 9, (0, 127), torch.uint8, False),
        (0.05, 9, (-128, 127), torch.int8, False),
    ],
)
def test_codes_that_are_quantised_again(scale, zero, bounds, to, same):
    x = torch.arange(256).to(torch.uint8)
    program = _export.check(lambda x: requantised(scale, zero, bounds, to)(x ^ 1), (x,))
    assert (len(instructions(program, "Elementwise")) == 1) == same


@pytest.mark.parametrize("low", [-0.3, 0.0, 0.41, float("inf")])
@pytest.mark.parametrize("high", [0.87, 3.0, 4.96, 9.0])
def test_limits_before_codes(low, high):
    """Codes represent [-0.14, 4.96]: limits within this range change them, others do not."""
    layer = conv()

    def f(x):
        return quantised(torch.clamp(layer(x), low, high))

    program = _export.check(f, (PLANES,))
    assert instructions(program, "ConvInteger")
    _export.same(clave.Session(program, "opencl")(PLANES), f(PLANES))
    assert (f(PLANES) == quantised(layer(PLANES))).all() == (low < -0.14 and high >= 4.96)


@pytest.mark.parametrize(("value", "moves"), [(0.0, True), (-0.3, False), (0.5, False)])
def test_padding_stays_among_codes(value, moves):
    def f(x):
        return quantised(nn.functional.pad(dequantised(x), (2, 1), value=value))

    program = _export.check(f, (PLANES,))
    (pad,) = instructions(program, "Pad")
    assert (program.schema.tensors[pad.op.x.idx].dtype.name == "U8") == moves
    _export.same(clave.Session(program, "opencl")(PLANES), f(PLANES))
