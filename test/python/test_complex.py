"""Complex tensors: as inputs and outputs of programs, and in models with Fourier transforms: spectrograms and their
inverse, layers that mix by a transform. test/cases/complex.py and test/cases/fft.py test single ops."""

import json

import numpy as np
import pytest
import torch
from _export import Fn, check, same
from torch import nn

import clave

pytestmark = pytest.mark.by_turn(17)

DEVICES = ["cpu", "opencl"]


def random(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------- inputs and outputs


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_inputs_and_outputs(dtype):
    def f(x, y):
        return {"product": x * y, "inner": ((x * y.conj()).sum(), x.abs())}

    x, y = random(3, 4, dtype=dtype), random(3, 4, dtype=dtype, seed=1)
    program = check(Fn(f), (x, y), (y, x))
    described = program.methods["forward"]
    assert [a.shape for a in described.inputs] == [(3, 4, 2), (3, 4, 2)]
    assert (described.complex_inputs, described.complex_outputs) == ({0, 1}, {0, 1})


@pytest.mark.parametrize("device", DEVICES)
def test_numpy_arrays_of_any_strides(device):
    session = clave.Session(clave.export(Fn(lambda x: x * 2j).eval(), (random(3, 4, dtype=torch.complex64),)), device)
    whole = random(8, 6, dtype=torch.complex64).numpy()
    for x in (
        whole[:3, :4].copy(),
        whole[::3, 1:5],
        whole[1:5, ::2].T,
        whole[2::-1, 3::-1],
        whole[:3, :4].astype(">c8"),
    ):
        (out,) = session.run(x)
        assert out.dtype == np.complex64
        np.testing.assert_allclose(out, x * 2j, rtol=1e-6)
    (out,) = session.run([[1, 2j, 3, 4]] * 3)
    np.testing.assert_array_equal(out, np.array([[2j, -4, 6j, 8j]] * 3))


def test_a_conjugate_is_read_as_such():
    x = random(5, dtype=torch.complex64)
    session = clave.Session(clave.export(Fn(lambda x: x + 0).eval(), (x,)), "cpu")
    same(session(x.conj()), x.conj().resolve_conj())
    same(session(x.flip(0)[::1]), x.flip(0))


def test_other_dtypes_are_refused():
    session = clave.Session(clave.export(Fn(lambda x: x + 0).eval(), (random(5, dtype=torch.complex64),)), "cpu")
    wrong = random(5), random(5, 2).numpy(), np.zeros(5, np.clongdouble), random(5, dtype=torch.complex128)
    for x in wrong:
        with pytest.raises(clave.Error, match=r"input 'args_0': expected dtype complex64, got"):
            session(x)
    with pytest.raises(clave.Error, match=r"\(4, 2\)"):
        session(random(4, dtype=torch.complex64))


def test_half_precision_is_refused():
    x = torch.zeros(3, dtype=torch.complex32)
    with pytest.raises(
        clave.Error, match="input 'args_0' is complex32: clave accepts and returns complex64 and complex128"
    ):
        clave.export(Fn(lambda x: torch.view_as_real(x)).eval(), (x,))


def test_a_saved_program_keeps_its_complex_arguments(tmp_path):
    x = torch.tensor(1 + 2j)
    clave.export(Fn(lambda x, s: [x * s, s]).eval(), (x, torch.tensor(2.0)), verify=True).save(tmp_path / "p.clv")
    program = clave.load(str(tmp_path / "p.clv"))
    assert json.loads(json.dumps(program.methods["forward"].metadata["inputs"]))["items"][0]["items"][0]["complex"]
    same(clave.Session(program, "cpu")(x, torch.tensor(3.0)), [3 * x, torch.tensor(3.0)])


def test_verify_compares_complex_results():
    x = random(3, 8, dtype=torch.complex64)
    clave.export(Fn(lambda x: torch.fft.ifft(torch.fft.fft(x))).eval(), (x,), verify=True)


def test_sizes_of_complex_inputs_can_be_symbolic():
    n = torch.export.Dim("n", min=2, max=50)
    argss = ((random(3, 8, dtype=torch.complex64),), (random(3, 13, dtype=torch.complex64),))
    check(Fn(lambda x: torch.fft.fft(x) * x), *argss, dynamic_shapes=(({1: n},),), verify=True)


# ---------------------------------------------------------------- changed in place


class Turn(nn.Module):
    def forward(self, z):
        z.mul_(2j)
        return z + 1


class TurnOne(nn.Module):
    def forward(self, named, x):
        named["a"].mul_(2j)
        x.add_(1)
        return named["a"] * x, named["b"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_complex_input_is_changed_in_place(dtype, device):
    z = random(3, 4, dtype=dtype)
    given = z.clone()
    program = clave.export(Turn().eval(), (given,), verify=True)
    same(given, z)
    assert program.methods["forward"].complex_outputs == {0, 1}
    session = clave.Session(program, device)
    same(session(given), z * 2j + 1)
    same(given, z * 2j)
    strided = torch.zeros(4, 6, dtype=dtype).T[::2]
    same(session(strided.copy_(z)), z * 2j + 1)
    same(strided, z * 2j)
    conjugate = z.clone().conj()
    same(session(conjugate), z.conj().resolve_conj() * 2j + 1)
    same(conjugate.resolve_conj(), z.conj().resolve_conj() * 2j)
    array = z.numpy().copy()
    same(session(array), z * 2j + 1)
    np.testing.assert_array_equal(array, (z * 2j).numpy())
    result, changed = session.run(z.numpy())
    np.testing.assert_array_equal(result, (z * 2j + 1).numpy())
    np.testing.assert_array_equal(changed, (z * 2j).numpy())


@pytest.mark.parametrize("device", DEVICES)
def test_a_complex_input_in_a_dict_is_changed_in_place(tmp_path, device):
    a, b, x = random(3, dtype=torch.complex64), random(3, seed=1), random(3, seed=2)
    clave.export(TurnOne().eval(), ({"a": a, "b": b}, x), verify=False).save(tmp_path / "p.clv")
    session = clave.Session(clave.load(str(tmp_path / "p.clv")), device)
    named, y = {"a": a.clone(), "b": b.clone()}, x.clone()
    same(session(named, y), (a * 2j * (x + 1), b))
    same((named, y), ({"a": a * 2j, "b": b}, x + 1))
    named, y = {"a": a.numpy().copy(), "b": b.numpy()}, x.numpy().copy()
    same(session(named, y), (a * 2j * (x + 1), b))
    same((torch.from_numpy(named["a"]), torch.from_numpy(y)), (a * 2j, x + 1))


def test_a_complex_input_that_cannot_be_changed_is_refused():
    z = random(4, dtype=torch.complex64)
    session = clave.Session(clave.export(Turn().eval(), (z,), verify=False), "cpu")
    locked = z.numpy().copy()
    locked.flags.writeable = False
    for wrong in (locked, z[:1].expand(4), [1j, 2, 3, 4]):
        with pytest.raises(clave.Error, match="input 'z' is changed in place"):
            session(wrong)


def test_complex_state_is_refused():
    class Phase(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("phase", torch.ones(3, dtype=torch.complex64))

        def forward(self, x):
            self.phase.mul_(x)
            return self.phase.real

    with pytest.raises(clave.Error, match=r"'phase' is complex64: complex state is not supported, .*view_as_real"):
        clave.export(Phase().eval(), (random(3, dtype=torch.complex64),))


# ---------------------------------------------------------------- transforms


class MelFrontEnd(nn.Module):
    """Computes log-mel features as speech models do."""

    def __init__(self, n_fft=400, hop=160, n_mels=40, rate=16000):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft), persistent=False)
        self.register_buffer("mel", triangles(n_mels, n_fft, rate), persistent=False)

    def forward(self, audio):
        spectrum = torch.stft(audio, self.n_fft, self.hop, window=self.window, return_complex=True)
        mel = self.mel @ spectrum[..., :-1].abs() ** 2
        log = mel.clamp(min=1e-10).log10()
        return (torch.maximum(log, log.amax() - 8.0) + 4.0) / 4.0


def triangles(n_mels, n_fft, rate):
    """Returns (n_mels, n_fft / 2 + 1): overlapping triangles, evenly spaced in mel."""
    mel = torch.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), n_mels + 2)
    points = 700 * (10 ** (mel / 2595) - 1)
    bins = torch.linspace(0, rate / 2, n_fft // 2 + 1)
    up = (bins - points[:-2, None]) / (points[1:-1] - points[:-2])[:, None]
    down = (points[2:, None] - bins) / (points[2:] - points[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


@pytest.mark.parametrize("device", DEVICES)
def test_mel_front_end_of_any_length(device):
    module = MelFrontEnd().eval()
    program = clave.export(module, (random(2, 3200),), dynamic_shapes=({1: torch.export.Dim.DYNAMIC},))
    session = clave.Session(program, device, fallback=False)
    for samples in (3200, 16000, 4801):
        audio = random(2, samples, seed=samples) * torch.linspace(0, 1, samples)
        torch.testing.assert_close(session(audio), module(audio), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("n_fft", "hop", "samples"), [(400, 100, 4000), (512, 128, 3000), (330, 80, 2000)])
def test_short_time_transforms_invert(device, n_fft, hop, samples):
    window = torch.hann_window(n_fft)

    def f(x):
        spectrum = torch.stft(x, n_fft, hop, window=window, return_complex=True)
        return torch.istft(spectrum, n_fft, hop, window=window, length=x.shape[-1])

    x = random(2, samples)
    program = clave.export(Fn(f).eval(), (x,))
    assert program.methods["forward"].n_nodes < 60  # no addition for each element of a window
    out = clave.Session(program, device, fallback=False)(x)
    torch.testing.assert_close(out, f(x), atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(out, x, atol=1e-4, rtol=1e-3)


class Mixer(nn.Module):
    """A layer of FNet: the real part of a transform over both dimensions mixes the tokens."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return self.linear(self.norm(x + torch.fft.fftn(x, dim=(1, 2)).real))


def test_mixing_by_a_transform():
    shapes = ({0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", min=2, max=64)},)
    argss = ((random(2, 16, 24),), (random(3, 21, 24),), (random(1, 37, 24),))
    check(Mixer(24), *argss, dynamic_shapes=shapes)


@pytest.mark.parametrize("device", DEVICES)
def test_a_filter_in_the_frequency_domain(device):
    """A global convolution (Hyena, GFNet): the filter is a complex parameter."""
    weight = nn.Parameter(random(6, 17, dtype=torch.complex64))

    class Filter(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x, n=32) * self.weight, n=32)[..., : x.shape[-1]]

    x = random(4, 6, 20)
    with torch.no_grad():
        same(clave.Session(clave.export(Filter().eval(), (x,)), device)(x), Filter()(x))


@pytest.mark.parametrize("device", DEVICES)
def test_an_empty_batch(device):
    shapes = (({0: torch.export.Dim("batch", max=8)},),)
    program = clave.export(Fn(lambda x: torch.fft.rfft(x)).eval(), (random(3, 12),), dynamic_shapes=shapes)
    out = clave.Session(program, device)(torch.empty(0, 12))
    assert out.shape == (0, 7) and out.dtype == torch.complex64


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [16, 37])
def test_rows_do_not_touch_each_other(device, n):
    """A row of NaN does not change the others, which one work-item transforms with it."""
    x = random(40, n)
    session = clave.Session(clave.export(Fn(lambda x: torch.fft.fft(x)).eval(), (x,)), device)
    clean = session(x)
    x[17] = float("nan")
    dirty = session(x)
    assert dirty[17].isnan().all()
    same(dirty[torch.arange(40) != 17], clean[torch.arange(40) != 17])


def test_more_rows_than_scratch_memory_holds_at_once(processes):
    """GPU kernels transform groups of rows; the self-check is off, because it would move the op."""
    x = random(80, 1 << 16)
    session = processes["gpu"].open(clave.export(Fn(lambda x: torch.fft.rfft(x)).eval(), (x,)), CLAVE_SELF_CHECK="off")
    got = torch.from_numpy(session.run(x)[0])
    torch.testing.assert_close(got, torch.fft.rfft(x), atol=2e-3, rtol=1e-4)


# ---------------------------------------------------------------- changed in part, refused by name


def changes(x, y, mask):
    """Fills and changes parts of complex tensors, and sums the earlier values."""
    whole, real, part = torch.zeros_like(x), torch.zeros_like(x), x.clone()
    whole.copy_(y[0])
    real.copy_(y.real)
    part[:, 1:4:2] = y[:, :2]
    part[1] = y[2]
    filled = x.clone().fill_(2 - 1j)
    summed = x.cumsum(0), y.cumsum(-1), x[0, 0].cumsum(0)
    masked = x.masked_fill(mask, 1.5), x.masked_fill(mask[0], y[0, 0])
    ends = torch.where(mask, x * float("inf"), y)
    return whole, real, part, filled, *summed, *masked, ends.isnan(), ends.isinf()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_tensors_are_changed_in_part(dtype, device):
    x, y = (torch.randn(3, 4, dtype=dtype, generator=torch.Generator().manual_seed(i)) for i in (1, 2))
    mask = torch.tensor([True, False, True, False]).expand(3, 4).clone()
    program = clave.export(Fn(changes), (x, y, mask))
    for got, want in zip(clave.Session(program, device)(x, y, mask), changes(x, y, mask), strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


def test_what_is_not_there_of_complex_numbers_is_refused_by_name():
    for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh", "exp2", "expm1", "log1p", "sigmoid", "prod"):
        with pytest.raises(clave.Error, match=rf"unsupported op: aten\.{name}\.default \(complex numbers"):
            clave.export(Fn(getattr(torch, name)), (torch.ones(2, dtype=torch.complex64),))
