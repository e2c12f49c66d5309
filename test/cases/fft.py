"""Discrete Fourier transforms of torch.fft, torch.stft and torch.istft. Tolerance: each of the log2(n) passes rounds a
few times; its numbers grow to about the square root of n times the input."""

import math

import torch

from describe import F32, F64, NAN, Case, T, name_of, ulps

real, pairs = torch.view_as_real, torch.view_as_complex
SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 15, 16, 17, 30, 60, 64, 97, 100, 128, 143, 400, 1009, 2048)


def error(dtype, n, scale=1.0):
    """Returns the absolute tolerance of a transform of n points of about 2."""
    return scale * ulps(dtype, 2) * math.sqrt(n) * (math.log2(n) + 2)


def forward(x, z):
    return real(torch.fft.rfft(x)), real(torch.fft.fft(x)), real(torch.fft.fft(pairs(z)))


def backward(x, z):
    """Reads x as half of a spectrum; its first and middle imaginary parts are not read."""
    n = x.shape[-1]
    return real(torch.fft.ifft(pairs(z), norm="forward")), torch.fft.irfft(
        pairs(z)[..., : n // 2 + 1], n, norm="forward"
    )


def half_spectrum(n, dtype, power):
    """Returns (1, n / 2 + 1, 2) for an even n; the first and middle imaginary parts, which are not read, are NaN.

    power: 2 makes noise; 1 makes a wave, a few points of which are n / 2 in size, not the square root of n. Their error
    is relative to their own size, so an absolute tolerance for the other points does not cover it."""
    values = [math.sin((i + 1) ** power) for i in range(n + 2)]
    values[1] = values[n + 1] = NAN
    return T((1, n // 2 + 1, 2), dtype, values=tuple(values))


def axes(z):
    x = pairs(z)
    return (*(real(torch.fft.fft(x, dim=d)) for d in range(3)), real(torch.fft.fftn(x)), real(torch.fft.fft2(x)))


def norms(x, z):
    y = pairs(z)
    results = [torch.fft.rfft(x, norm=m) for m in ("ortho", "forward")]
    results += [torch.fft.ifft(y), torch.fft.ifft(y, norm="ortho"), torch.fft.fft(y, norm="forward")]
    return (*map(real, results), torch.fft.irfft(y, norm="ortho"), torch.fft.irfft(y))


def several(x):
    y = torch.fft.rfftn(x, dim=(2, 0), norm="ortho")
    return real(y), torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape[-2:]), real(torch.fft.ifftn(y, dim=(1, 2)))


def hermitian(x, z):
    return torch.fft.hfft(pairs(z)), torch.fft.hfft(pairs(z), n=6), real(torch.fft.ihfft(x).resolve_conj())


def resized(x):
    return real(torch.fft.fft(x, n=16)), real(torch.fft.rfft(x, n=5)), torch.fft.irfft(torch.fft.rfft(x), n=12)


def strided(x, z):
    y = pairs(z)
    results = [torch.fft.fft(x.t()), torch.fft.rfft(x[::2, 1:]), torch.fft.fft(x.flip(1)), torch.fft.fft(y.t()[1:])]
    return tuple(
        map(real, [*results, torch.fft.fft(x[:, :1].expand(9, 8)), torch.fft.fft(pairs(z[:, :1].expand(9, 4, 2)))])
    )


def helpers(x):
    f = torch.fft
    return (
        f.fftshift(x),
        f.ifftshift(x, dim=1),
        f.fftfreq(9, 0.5),
        f.fftfreq(8),
        f.rfftfreq(9),
        f.rfftfreq(8, 0.1, dtype=F64),
    )


class Spectrogram(torch.nn.Module):
    """A mel front end: the power of a short-time transform, mel bands, their logarithm."""

    def __init__(self, n_fft=400, hop=160, n_mels=20):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("mel", torch.rand(n_mels, n_fft // 2 + 1, generator=torch.Generator().manual_seed(3)))

    def forward(self, x):
        z = torch.stft(x, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = self.mel @ z.abs().square()
        return torch.log10(power.clamp(min=1e-10))


def short_time(x, w):
    a = torch.stft(x, 64, 20, 50, w, return_complex=True)
    b = torch.stft(x, 50, 25, window=w, center=False, normalized=True, onesided=False, return_complex=True)
    return real(a), real(b), real(torch.stft(x[0], 50, window=w, pad_mode="constant", return_complex=True))


def inverse_short_time(x, w):
    y = torch.stft(x, 50, 20, window=w, return_complex=True)
    short = torch.stft(x[0], 64, 16, 50, w, normalized=True, return_complex=True)
    return torch.istft(y, 50, 20, window=w), torch.istft(short, 64, 16, 50, w, normalized=True, length=180)


def cases():
    for dtype in (F32, F64):
        d = name_of(dtype)
        for n in SIZES:
            data = [T((3, n), dtype), T((3, n, 2), dtype)]
            yield Case(f"size_{n}_{d}", lambda x, z: (*forward(x, z), *backward(x, z)), data, atol=error(dtype, n))
        for n in (16, 74):
            f = lambda z: torch.fft.irfft(pairs(z), norm="forward")
            far = {"atol": error(dtype, n), "rtol": error(dtype, n) / math.sqrt(n)}  # absolute and relative
            yield Case(f"half_spectrum_{n}_{d}", f, [half_spectrum(n, dtype, 2)], atol=far["atol"])
            yield Case(f"half_spectrum_wave_{n}_{d}", f, [half_spectrum(n, dtype, 1)], **far)
        whole = {"atol": error(dtype, 210)}
        yield Case(f"axes_{d}", axes, [T((5, 6, 7, 2), dtype)], **whole)
        yield Case(f"several_{d}", several, [T((5, 6, 7), dtype)], **whole)
        yield Case(f"short_time_{d}", short_time, [T((2, 200), dtype), T((50,), dtype, 0.5, 1)], atol=error(dtype, 64))
        yield Case(f"resized_{d}", resized, [T((2, 11), dtype)], atol=error(dtype, 16))
        yield Case(f"hermitian_{d}", hermitian, [T((2, 9), dtype), T((2, 9, 2), dtype)], atol=error(dtype, 16))
    yield Case("norms", norms, [T((2, 12)), T((2, 12, 2))], atol=error(F32, 22, 0.3))
    yield Case("strided", strided, [T((9, 8)), T((9, 21, 2))], atol=error(F32, 21))
    yield Case("many_rows", forward, [T((2000, 6)), T((2000, 6, 2))], atol=error(F32, 6))
    yield Case("many_chirps", forward, [T((45, 37)), T((45, 37, 2))], atol=error(F32, 37))
    yield Case("many_backward", backward, [T((50, 2, 37)), T((50, 2, 37, 2))], atol=error(F32, 37))
    yield Case("long", forward, [T((30000,)), T((30000, 2))], atol=error(F32, 30000))
    yield Case("long_prime", forward, [T((10007,)), T((10007, 2))], atol=error(F32, 10007))
    nan = T((4, 6), values=(1.0,) * 8 + (NAN,) + (2.0,) * 15)
    yield Case("nan", lambda x: real(torch.fft.rfft(x))[..., :1], [nan], atol=error(F32, 6))
    yield Case("nan_rows", lambda x: real(torch.fft.rfft(x))[..., 1:3, :], [nan], atol=error(F32, 6))
    yield Case("helpers", helpers, [T((3, 8))])
    yield Case("integers", lambda x: real(torch.fft.rfft(x)), [T((3, 8), torch.int64, -9, 9)], atol=error(F32, 80))
    yield Case(
        "inverse_short_time", inverse_short_time, [T((2, 200)), T((50,), F32, 0.5, 1)], rtol=ulps(F32, 64), atol=1e-5
    )
    yield Case("spectrogram", Spectrogram(), [T((2, 1600), F32, -1, 1)], rtol=ulps(F32, 64), atol=2e-5)
    yield from dynamic_cases()


def dynamic_cases():
    shapes = {"args": ({0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("n", min=2, max=99)},)}
    f = lambda x: (real(torch.fft.rfft(x, norm="ortho")), torch.fft.irfft(torch.fft.rfft(x), x.shape[1]))
    yield Case("dynamic", f, [T((3, 15))], [T((5, 22))], atol=error(F32, 22), dynamic_shapes=shapes)
    audio = {"x": {0: torch.export.Dim.DYNAMIC}}
    inputs = [T((1600,), F32, -1, 1)], [T((2003,), F32, -1, 1)]
    yield Case("dynamic_spectrogram", Spectrogram(), *inputs, rtol=ulps(F32, 64), atol=2e-5, dynamic_shapes=audio)
