"""Complex functions at the ends of the range: parts are zeros, huge and tiny numbers, infinities and NaN, in all pairs.

A result is right if it equals torch's, that of torch's loops over strided memory or, for complex64, torch's in
complex128 after rounding. A lowering that is registered for complex numbers needs a row here, or a reason in MOVES.
"""

import pytest
import torch
from _export import Fn

import clave
from clave.lowering.registry import COMPLEX

DEVICES = ["cpu", "opencl"]
DTYPES = (torch.complex64, torch.complex128)

# Lowerings that move numbers, read a part or fill: they cannot overflow.
MOVES = """
    _conj _conj_physical _to_copy _unsafe_view alias cat chunk clone complex conj_physical constant_pad_nd copy eq
    expand fill flatten flip full full_like imag index index_select isinf isnan lift_fresh_copy mT masked_fill
    narrow ne new_full new_ones new_zeros numpy_T ones ones_like pad permute real repeat reshape reshape_as roll
    scalar_tensor select select_scatter slice slice_scatter split split_with_sizes squeeze stack t transpose unbind
    unflatten unfold unsqueeze view view_as view_as_complex view_as_real where zeros zeros_like
"""
# Sums of many terms: other tests check their rounding, and no term is scaled.
SUMS = "cumsum _fft_c2c _fft_c2r _fft_r2c bmm dot matmul mm mv unfold_backward"

# Where results are compared. FINITE: where operands are finite, because torch's other results are specific to it, for
# the reason beside the row. ORDINARY: where results are finite, too.
ANY, FINITE, ORDINARY = "any", "finite", "ordinary"
UNARY = {
    "abs": [(torch.abs, ANY)],
    "angle": [(torch.angle, ANY)],
    "sqrt": [(torch.sqrt, ANY)],
    "log": [(torch.log, ANY)],
    "log2": [(torch.log2, ANY)],
    "log10": [(torch.log10, ANY)],
    "exp": [(torch.exp, ANY)],
    "sin": [(torch.sin, ANY)],
    "cos": [(torch.cos, ANY)],
    "sinh": [(torch.sinh, ANY)],
    "cosh": [(torch.cosh, ANY)],
    "tan": [(torch.tan, ANY)],
    "tanh": [(torch.tanh, ANY)],
    "rsqrt": [(torch.rsqrt, ANY)],
    "reciprocal": [(torch.reciprocal, ANY)],
    "sgn": [(torch.sgn, ANY)],
    "neg": [(torch.neg, ANY)],
    "polar": [(lambda x: torch.polar(x.real, x.imag), ANY)],
    "rsub": [(lambda x: 2 - x, FINITE)],  # torch multiplies by alpha = 1 + 0i
    "sum": [(lambda x: x.reshape(-1, 1).sum(1), ANY), (lambda x: x[:2].sum(), ANY)],
    "mean": [(lambda x: x.reshape(-1, 1).mean(1), FINITE)],  # torch divides by 1 + 0i
    "mul": [(lambda x: x * 2.0, ANY), (lambda x: x * 1j, ANY), (lambda x: x * x.real, ANY)],
    "div": [
        (lambda x: 1 / x, ANY),
        (lambda x: (2 - 1j) / x, ANY),
        (lambda x: x / 3, ANY),
        (lambda x: x / (2 - 1j), ANY),
        (lambda x: x / (1 - 3j), ANY),
        (lambda x: x / x.real, ANY),
        (lambda x: x.real / x, ANY),
        (lambda x: torch.addcdiv(x, x, x), FINITE),
    ],
    "pow": [
        *((lambda x, y=y: x**y, ANY) for y in (-2, -1, -0.5, 0, 0.5, 2, 3)),
        # C's cpow returns infinities for some NaN of the product y log(x).
        *((lambda x, y=y: x**y, FINITE) for y in (2.5, 1 + 2j, -1.25)),
        (lambda x: torch.pow(2.0, x), FINITE),
    ],
    "add": [(lambda x: x + 2, ANY), (lambda x: x + x.real, FINITE)],
    "sub": [(lambda x: x - 2, FINITE)],
}
BINARY = {
    "add": (lambda x, y: x + y, FINITE),  # torch multiplies y by alpha = 1 + 0i
    "sub": (lambda x, y: x - y, FINITE),
    "mul": (lambda x, y: x * y, ORDINARY),  # FMA decides if the difference of two infinite products is NaN
    "div": (lambda x, y: x / y, ANY),
}


def test_every_complex_lowering_has_a_row():
    names = {name.split(".")[1] for name in COMPLEX}
    assert names - set(f"{MOVES} {SUMS}".split()) == {*UNARY, *BINARY}, (
        "give a new complex lowering a row, or name it in MOVES"
    )


def operands(dtype):
    """Returns every pair of parts, n * n of them in one dimension."""
    real = dtype.to_real()
    info = torch.finfo(real)
    big, tiny = (1e30, 1e-30) if real is torch.float32 else (1e250, 1e-250)
    subnormal = info.smallest_normal / 8192
    inf, nan = float("inf"), float("nan")
    numbers = [0.0, -0.0, 1.0, -1.5, 0.75, 200.0, -30.0, big, -big, tiny, subnormal, info.max, inf, -inf, nan]
    p = torch.tensor(numbers, dtype=real)
    return torch.complex(*(t.flatten() for t in torch.meshgrid(p, p, indexing="ij")))


def as_real(t):
    return torch.view_as_real(t.resolve_conj().contiguous()) if t.is_complex() else t


def strided(t):
    room = torch.empty(2 * t.numel(), dtype=t.dtype)[::2]
    return room.copy_(t)


def references(f, args):
    wanted = [as_real(f(*args)), as_real(f(*map(strided, args)))]
    if args[0].dtype is torch.complex64:
        wanted.append(as_real(f(*(a.to(torch.complex128) for a in args))).to(torch.float32))
    return wanted


def wrong_places(got, wanted, args, where):
    """Returns a mask (n) of results that equal no reference. A part may be off by the rounding of the larger part."""
    rtol = 1e-5 if got.dtype is torch.float32 else 1e-12
    least = torch.finfo(got.dtype).smallest_normal / 2**10
    right = torch.zeros(got.shape, dtype=torch.bool)
    for w in wanted:
        size = w.abs().nan_to_num(0, 0).amax(-1, keepdim=True) if w.dim() > 1 else torch.zeros(())
        near = (got - w).abs() <= size * torch.finfo(got.dtype).eps * 4
        right |= near | torch.isclose(got, w, rtol=rtol, atol=least, equal_nan=True)
    wrong = ~right.reshape(got.shape[0], -1).all(1) if got.dim() else ~right.all().reshape(1)
    if where != ANY and got.dim():
        for a in args:
            wrong &= torch.view_as_real(a).isfinite().all(-1)
    if where == ORDINARY:
        for w in wanted:
            wrong &= w.isfinite().all(-1)
    return wrong


def compare(fs, args, device):
    program = clave.export(Fn(lambda *args: tuple(as_real(f(*args)) for f, _ in fs)).eval(), args, verify=False)
    results = clave.Session(program, clave.Device(device, fallback=False))(*args)
    for i, ((f, where), got) in enumerate(zip(fs, results, strict=True)):
        wanted = references(f, args)
        assert got.dtype == wanted[0].dtype and got.shape == wanted[0].shape
        wrong = wrong_places(got, wanted, args, where)
        if wrong.any():
            k = int(wrong.nonzero()[0])
            shown = [w[k].tolist() if w.dim() else w.tolist() for w in (got, *wanted)]
            pytest.fail(
                f"row {i}: {int(wrong.sum())} wrong; {[a[k].item() for a in args]}: got {shown[0]}, {shown[1:]}"
            )


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name, dtype, device):
    compare(UNARY[name], (operands(dtype),), device)


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name, dtype, device):
    x = operands(dtype)
    x, y = (t.flatten().contiguous() for t in torch.meshgrid(x, x, indexing="ij"))
    compare([BINARY[name]], (x, y), device)


@pytest.mark.parametrize("device", DEVICES)
def test_powers_with_a_real_exponent_of_zero(device):
    """0 to the power of 0 is 1, as for a number as exponent; torch returns NaN if the exponent is a tensor."""
    x = torch.complex(torch.tensor([0.0, 0.0, 2.0]), torch.tensor([0.0, 1.0, 0.0]))
    program = clave.export(Fn(lambda x, y: x**y).eval(), (x, x.real.clone()), verify=False)
    got = clave.Session(program, device)(x, torch.tensor([0.0, 2.0, 3.0]))
    torch.testing.assert_close(got, torch.tensor([1, -1, 8], dtype=torch.complex64))


@pytest.mark.parametrize("device", DEVICES)
def test_logarithms_near_one(device):
    x = torch.complex(torch.tensor([1.0, 1.0, 0.0, 0.999]), torch.tensor([1e-4, -1e-9, 1.0001, 1e-3]))
    got = clave.Session(clave.export(Fn(torch.log).eval(), (x,), verify=False), device)(x)
    torch.testing.assert_close(got.real, torch.log(x.to(torch.complex128)).real.float(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_signs_of_numbers_whose_reciprocal_overflows(dtype, device):
    least = torch.finfo(dtype.to_real()).smallest_normal
    turns = torch.tensor([1, -1, 1j, 0.6 - 0.8j], dtype=torch.complex128)
    x = (torch.tensor([[least / 16], [least / 2048]], dtype=torch.float64) * turns).to(dtype)
    got = clave.Session(clave.export(Fn(torch.sgn).eval(), (x,), verify=False), device)(x)
    rtol = 1e-2 if dtype is torch.complex64 else 1e-5  # the parts of the last number have few bits
    torch.testing.assert_close(got, turns.to(dtype).expand(2, 4), rtol=rtol, atol=0)
