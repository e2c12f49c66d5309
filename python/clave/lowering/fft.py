"""Discrete Fourier transforms, with an Fft op for each dimension, and their frequencies."""

from __future__ import annotations

from typing import Any

from clave import schema
from clave.builder import Int, Slot
from clave.errors import Unsupported
from clave.lowering.arange import counting
from clave.lowering.registry import Complex, Context, Tensor, lower, lower_complex
from clave.lowering.slice import slice_
from clave.lowering.steps import Operand, cast, compute, opmath, step

_K = schema.FftKind


def _along(
    c: Context, x: Slot, axis: int, norm: int, *, kind: _K = _K.complex, inverse: bool, shape: tuple[Int, ...]
) -> Slot:
    return c.emit(
        "Fft", x=x, axis=axis, kind=kind, inverse=inverse, norm=schema.FftNorm(norm), shape=shape, dtype=c.dtype()
    )


def _check(c: Context) -> None:
    if c.dtype() not in (schema.DType.F32, schema.DType.F64):
        raise Unsupported("transforms of half precision")


def _all(c: Context, x: Slot, axes: list[int], norm: int, inverse: bool) -> Slot:
    """Transforms several dimensions of a complex tensor."""
    for axis in axes:
        x = _along(c, x, axis, norm, inverse=inverse, shape=x.shape)
    return x


@lower_complex("aten._fft_c2c.default")
def fft_c2c(c: Context, x: Complex, axes: list[int], norm: int, forward: bool) -> Complex:
    _check(c)
    return Complex(_all(c, x.pair, [a % (x.pair.rank - 1) for a in axes], norm, not forward))


@lower_complex("aten._fft_r2c.default")
def fft_r2c(c: Context, x: Tensor, axes: list[int], norm: int, onesided: bool) -> Complex:
    """Transforms a real tensor, by its last axis first. onesided: not read, because the shape shows it."""
    _check(c)
    *rest, last = (a % x.rank for a in axes)
    out = _along(c, c.tensor(x), last, norm, kind=_K.from_real, inverse=False, shape=c.shape())
    return Complex(_all(c, out, rest, norm, False))


@lower_complex("aten._fft_c2r.default")
def fft_c2r(c: Context, x: Complex, axes: list[int], norm: int, size: Int) -> Tensor:
    """Transforms a complex tensor to a real one. size: of the last of the axes in the result."""
    _check(c)
    *rest, last = (a % (x.pair.rank - 1) for a in axes)
    half = c.sizes.add(c.sizes.divide(size, 2), 1)
    pair = c.tensor(slice_(c, x.pair, last, 0, half, half))
    return _along(c, _all(c, pair, rest, norm, True), last, norm, kind=_K.to_real, inverse=True, shape=c.shape())


# ---------------------------------------------------------------- frequencies


def _frequencies(c: Context, place: Operand, n: int, d: float) -> Tensor:
    t = opmath(c.dtype())
    return compute(c, step("mul", t, cast(place, t), 1.0 / (n * d)))


@lower("aten.fft_rfftfreq.default")
def rfftfreq(c: Context, n: int, d: float, *_: Any) -> Tensor:
    return _frequencies(c, counting(c, 0, c.shape()[0]), n, d)


@lower("aten.fft_fftfreq.default")
def fftfreq(c: Context, n: int, d: float, *_: Any) -> Tensor:
    """Returns the frequencies, the negative ones in the second half."""
    i, t = counting(c, 0, n), schema.DType.I64
    positive = step("lt", t, i, (n + 1) // 2)
    return _frequencies(c, step("where", t, positive, i, step("sub", t, i, n)), n, d)
