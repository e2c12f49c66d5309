"""Passes before lowering: what is written out in parts becomes the whole op, and near misses do not.

Each pattern is counted in Program.passes; every program, matched or not, must give torch's numbers.
"""

import math

import pytest
import torch
from torch import nn

import clave

D = 16
F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64


class Fn(nn.Module):
    def __init__(self, f, **parameters):
        super().__init__()
        self.f = f
        for name, value in parameters.items():
            self.register_buffer(name, value)

    def forward(self, *args):
        return self.f(*args, **dict(self.named_buffers()))


def export(f, args, decomposed=False, dynamic_shapes=None, **parameters):
    """The program; decomposed: of a .pt2's graph that torch has taken apart already."""
    module = f if isinstance(f, nn.Module) else Fn(f, **parameters)
    module.eval()
    if decomposed:
        return module, clave.export(
            torch.export.export(module, args, dynamic_shapes=dynamic_shapes).run_decompositions()
        )
    return module, clave.export(module, args, dynamic_shapes=dynamic_shapes)


def run(module, program, args, rtol=2e-5, atol=2e-6):
    got = clave.Session(program, "cpu")(*args)
    with torch.no_grad():
        torch.testing.assert_close(got, module(*args), rtol=rtol, atol=atol, equal_nan=True)


def found(f, args, decomposed=False, tolerance=(2e-5, 2e-6), **parameters):
    """Patterns that applied, without the folding passes, after checking the numbers."""
    torch.manual_seed(0)
    module, program = export(f, args, decomposed, **parameters)
    run(module, program, args, *tolerance)
    return {k: v for k, v in program.passes.items() if k not in ("copy", "cast", "constant", "dead_code")}


def x(*shape, dtype=F32):
    return torch.randn(*(shape or (2, 5, D)), dtype=F64).to(dtype)


W = torch.linspace(0.5, 2, D)
B = torch.linspace(-1, 1, D)

# ---------------------------------------------------------------- activations

GELU = {
    "erf": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "erf_half_first": lambda x: 0.5 * x * (torch.erf(x * 0.7071067811865476) + 1.0),
    "erf_grouped": lambda x: x * (0.5 * (1.0 + torch.erf(x / 1.4142135623730951))),
    "tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0)))),
    "tanh_fast": lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x))),
    "tanh_cube": lambda x: x * 0.5 * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
}
NOT_GELU = {
    "short_root": lambda x: x * 0.5 * (1 + torch.erf(x * 0.7071)),
    "other_half": lambda x: x * 0.4 * (1 + torch.erf(x / math.sqrt(2))),
    "other_one": lambda x: x * 0.5 * (2 + torch.erf(x / math.sqrt(2))),
    "two_tensors": lambda x: x.abs() * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "minus": lambda x: x * 0.5 * (1 - torch.erf(x / math.sqrt(2))),
    "other_cube": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.0447 * torch.pow(x, 3.0)))),
    "square": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 2.0)))),
    "cube_inside": lambda x: 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x * x))),
    "quick": lambda x: x * torch.sigmoid(1.702 * x),
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", GELU)
def test_gelu(form, decomposed):
    assert found(GELU[form], (x(),), decomposed) == {"gelu": 1}


@pytest.mark.parametrize("form", NOT_GELU)
def test_not_gelu(form):
    assert found(NOT_GELU[form], (x(),)) == {}


def test_gelu_whose_parts_are_used_elsewhere_stays():
    def f(x):
        e = torch.erf(x / math.sqrt(2))
        return x * 0.5 * (1 + e), e

    assert found(f, (x(),)) == {}


def test_activations_in_16_bits_stay_as_they_round_in_between():
    assert found(GELU["erf"], (x(dtype=BF16),), tolerance=(1e-2, 1e-2)) == {}
    assert found(lambda x: x * torch.sigmoid(x), (x(dtype=F16),), tolerance=(2e-3, 2e-3)) == {}


def test_silu():
    assert found(lambda x: x * torch.sigmoid(x), (x(),)) == {"silu": 1}
    assert found(lambda x: torch.sigmoid(x) * x, (x(),), True) == {"silu": 1}
    assert found(lambda x: x / (1 + torch.exp(-x)), (x(),)) == {"silu": 1}
    assert found(lambda x, y: x * torch.sigmoid(x) * y, (x(), x())) == {"silu": 1}
    assert found(lambda x, y: x * torch.sigmoid(y), (x(), x())) == {}
    assert found(lambda x: x * torch.sigmoid(-x), (x(),)) == {}
    assert found(lambda x: x / (1 + torch.exp(x)), (x(),)) == {}
    assert found(lambda x: x / (2 + torch.exp(-x)), (x(),)) == {}


# ---------------------------------------------------------------- norms


def rms(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w


RMS = {
    "plain": rms,
    "weight_first": lambda x, w: w * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)),
    "divided": lambda x, w: x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w,
    "power": lambda x, w: w * (x * torch.pow(x.square().mean(-1, keepdim=True) + 1e-5, -0.5)),
    "sum": lambda x, w: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) / D + 1e-6) * w,
    "no_weight": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) + 0 * w,
    "one_plus": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1.0 + w),
    "two_axes": lambda x, w: x * torch.rsqrt(x.pow(2).mean((-2, -1), keepdim=True) + 1e-6),
}
NOT_RMS = {
    "middle_axis": lambda x, w: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * w,
    "cube": lambda x, w: x * torch.rsqrt(x.pow(3).abs().mean(-1, keepdim=True) + 1e-6) * w,
    "no_eps": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) * w,
    "other_x": lambda x, w: (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "eps_outside": lambda x, w: x / (torch.sqrt(x.pow(2).mean(-1, keepdim=True)) + 1e-6) * w,
    "not_mean": lambda x, w: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-6) * w,
    "root": lambda x, w: x * torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
    "rows_weight": lambda x, w: x / (x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", RMS)
def test_rms_norm(form, decomposed):
    assert found(RMS[form], (x(),), decomposed, w=W) == {"rms_norm": 1}


@pytest.mark.parametrize("form", NOT_RMS)
def test_not_rms_norm(form):
    assert found(NOT_RMS[form], (x(),), w=W) == {}


def test_rms_norm_with_what_is_no_weight_keeps_the_product():
    """A factor of another shape multiplies after the norm."""
    assert found(lambda x, y: rms(x, y), (x(), x(5, D))) == {"rms_norm": 1}
    assert found(lambda x, y: rms(x, y), (x(2, 3, D), x(2, 3, 1))) == {"rms_norm": 1}


def hf_rms(x, w):
    h = x.to(F32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return w * h.to(x.dtype)


def test_rms_norm_of_16_bit_modules_rounds_where_they_round():
    """Hugging Face's: normalised in f32, rounded, then times the weight. The same bits but for the order of a sum."""
    for dtype in (BF16, F16):
        a, w = x(64, D, dtype=dtype), W.to(dtype)
        module, program = export(hf_rms, (a,), w=w)
        assert program.passes["rms_norm"] == 1 and program.passes["norm_in_16_bits"] == 1
        assert (clave.Session(program, "cpu")(a) != module(a)).sum() <= 2
    assert found(hf_rms, (x(),), w=W) == {"rms_norm": 1}
    gemma = lambda x, w: (hf_rms(x.float(), 1.0) * (1.0 + w.float())).type_as(x)
    module, program = export(gemma, (a,), w=w)
    assert program.passes["rms_norm"] == 1 and "norm_in_16_bits" not in program.passes
    assert (clave.Session(program, "cpu")(a) != module(a)).sum() <= 2


def test_rms_norm_all_in_16_bits_stays():
    assert found(rms, (x(dtype=BF16),), tolerance=(2e-2, 2e-2), w=W.to(BF16)) == {}


def mean(x):
    return x.mean(-1, keepdim=True)


def var(x, axis=-1, correction=0):
    return x.var(axis, keepdim=True, correction=correction)


def centred(x, w, b):
    d = x - mean(x)
    return w * (d / (mean(d.pow(2)) + 1e-5).sqrt()) + b


LAYER = {
    "var": lambda x, w, b: (x - mean(x)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5) * w + b,
    "rsqrt": lambda x, w, b: b + w * ((x - mean(x)) * torch.rsqrt(var(x) + 1e-5)),
    "square": centred,
    "twice": lambda x, w, b: (x - mean(x)) / (mean((x - mean(x)).pow(2)) + 1e-5).sqrt() * w + b,
    "no_bias": lambda x, w, b: (x - mean(x)) * torch.rsqrt(var(x) + 1e-5) * w,
    "bare": lambda x, w, b: (x - mean(x)) * torch.rsqrt(var(x) + 1e-5),
}
NOT_LAYER = {
    "unbiased": lambda x, w, b: (x - mean(x)) / torch.sqrt(var(x, correction=1) + 1e-5) * w + b,
    "eps_outside": lambda x, w, b: (x - mean(x)) / (x.std(-1, keepdim=True) + 1e-5) * w + b,
    "other_mean": lambda x, w, b: (x - x.mean(1, True)) * torch.rsqrt(var(x) + 1e-5) * w + b,
    "first_axis": lambda x, w, b: (x - x.mean(1, True)) * torch.rsqrt(var(x, 1) + 1e-5) * w + b,
    "no_mean": lambda x, w, b: x * torch.rsqrt(var(x) + 1e-5) * w + b,
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", LAYER)
def test_layer_norm(form, decomposed):
    assert found(LAYER[form], (x(),), decomposed, w=W, b=B) == {"layer_norm": 1}


@pytest.mark.parametrize("form", NOT_LAYER)
def test_not_layer_norm(form):
    assert found(NOT_LAYER[form], (x(),), w=W, b=B) == {}


def test_a_residual_is_no_bias():
    assert found(lambda x, w, b: x + LAYER["var"](x, w, b), (x(),), w=W, b=B) == {"layer_norm": 1}
