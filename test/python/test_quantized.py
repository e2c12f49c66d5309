"""Ops of quantised models: quantized_decomposed's, which torch itself runs eagerly, on both backends; int8 weights."""

import _export
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # declares them

import clave

pytestmark = pytest.mark.by_turn(15)

Q = torch.ops.quantized_decomposed
I8, U8 = (-128, 127, torch.int8), (0, 255, torch.uint8)


def per_tensor(x):
    return Q.dequantize_per_tensor(Q.quantize_per_tensor(x, 0.05, 3, *I8), 0.05, 3, *I8)


def per_tensor_of_tensors(x):
    scale, zero = Q.choose_qparams.tensor(x, 0, 255, 1e-5, torch.uint8)
    q = Q.quantize_per_tensor.tensor(x, scale, zero, *U8)
    return scale, zero, q, Q.dequantize_per_tensor.tensor(q, scale, zero, *U8)


def bounds_of_tensors(x, scale, zero, low, high):
    q = Q.quantize_per_tensor.tensor2(x, scale, zero, low, high, torch.uint8)
    return q, Q.dequantize_per_tensor.tensor2(q, scale, zero, low, high, torch.uint8)


def symmetric(x):
    return Q.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)


def per_channel(x, scales, zeros):
    q = Q.quantize_per_channel(x, scales, zeros, 1, *I8)
    return q, Q.dequantize_per_channel(q, scales, zeros, 1, *I8), Q.dequantize_per_channel(q, scales, None, 1, *I8)


def per_token(x):
    scales, zeros = Q.choose_qparams_per_token_asymmetric(x, torch.int8)
    q = Q.quantize_per_token(x, scales, zeros, *I8)
    return scales, zeros, q, Q.dequantize_per_token(q, scales, zeros, *I8, torch.float32)


def per_group(w, scales, zeros):
    q = Q.quantize_per_channel_group(w, scales, zeros, -8, 7, torch.int8, 4)
    return q, Q.dequantize_per_channel_group(q, scales, zeros, -8, 7, torch.int8, 4, torch.float32)


def int8_weight(x, w, scales):
    return torch.ops.aten._weight_int8pack_mm(x, w, scales)


def int8_product(a, b):
    return torch._int_mm(a, b)


def rand(*shape, scale=3.0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape))) * scale


BYTES = torch.arange(-64, 64).reshape(8, 16).to(torch.int8)
CALLS = {
    "per_tensor": (per_tensor, [rand(3, 4, 8)]),
    "per_tensor_empty": (per_tensor, [rand(0, 8)]),
    "per_tensor_of_tensors": (per_tensor_of_tensors, [rand(3, 4, 8)]),
    "all_positive": (per_tensor_of_tensors, [rand(3, 4, 8).abs() + 1]),
    "bounds_of_tensors": (
        bounds_of_tensors,
        [rand(3, 4, 8), torch.tensor(0.07), torch.tensor(120), torch.tensor(10), torch.tensor(250)],
    ),
    "symmetric": (symmetric, [rand(5, 7)]),
    "per_channel": (per_channel, [rand(3, 4, 8), torch.rand(4) + 0.1, torch.tensor([-5, 0, 3, 7])]),
    "per_token": (per_token, [rand(3, 4, 8)]),
    "per_group": (per_group, [rand(6, 8), torch.rand(6, 2) + 0.1, torch.zeros(6, 2)]),
    "int8_weight": (int8_weight, [rand(5, 16), BYTES, torch.rand(8)]),
    "int8_product": (int8_product, [BYTES.repeat(3, 1), BYTES.T.contiguous()]),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_eager(name):
    f, args = CALLS[name]
    program = _export.check(f, tuple(args))
    _export.same(clave.Session(program, "opencl")(*args), f(*args))


def test_affine_ops_of_torchao():
    import torchao.quantization.quant_primitives  # noqa: F401 (declares them)

    ao = torch.ops.torchao

    def blocks(x, scales, zeros):
        q = ao.quantize_affine(x, (1, 4), scales, zeros, torch.int8, -8, 7)
        chosen = ao.choose_qparams_affine(x, "ASYMMETRIC", (1, 8), torch.int8)
        return q, ao.dequantize_affine(q, (1, 4), scales, zeros, torch.int8, -8, 7), *chosen

    args = rand(6, 8), torch.rand(6, 2) + 0.1, torch.randint(-3, 3, (6, 2), dtype=torch.int32)
    program = _export.check(blocks, args)
    _export.same(clave.Session(program, "opencl")(*args), blocks(*args))


def test_products_of_8_bit_floats():
    f8 = torch.float8_e4m3fn
    weight = rand(32, 16).to(f8)

    def layer(x, bias):
        scale = x.abs().max() / 448
        small = (x / scale).to(f8)
        return torch._scaled_mm(small, weight.t(), scale, torch.tensor(0.3), bias=bias, out_dtype=torch.bfloat16)

    args = rand(7, 16), rand(32).to(torch.bfloat16)
    program = _export.check(layer, args)
    _export.same(clave.Session(program, "opencl")(*args), layer(*args))


def test_scales_of_blocks_are_refused_by_name():
    f8 = torch.float8_e4m3fn
    product = lambda a, b, s, t: torch._scaled_mm(a.to(f8), b.to(f8).t(), s, t, out_dtype=torch.bfloat16)
    scales = torch.rand(128, 2), torch.rand(2, 1)
    with pytest.raises(clave.Error, match="scal"):
        clave.export(_export.Fn(product), (rand(128, 256), rand(128, 256), *scales))
