"""Programs of many kinds, compiled: their outputs have a session's bits, and gcc and clang print no warning."""

import pathlib

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # declares quantized_decomposed
from compiled import ROOT, SAN, Builder, Carried, Refused, bits_of, compare, dims_of, emit, run

import clave


class Net(torch.nn.Module):
    """Has convolutions of several kinds, norms, a pool, attention and a softmax."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = torch.nn.BatchNorm2d(8)
        self.last = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.rows = torch.nn.LayerNorm(16)

    def forward(self, x):
        x = torch.nn.functional.gelu(self.norm(self.depthwise(self.first(x))))
        x = self.last(torch.nn.functional.max_pool2d(x, 2))
        q = self.rows(x.reshape(x.shape[0], 4, -1, 16))
        x = torch.nn.functional.scaled_dot_product_attention(q, q, q)
        return x.softmax(-1), x.mean(-1), x.argmax(-1), x.cumsum(2)[:, :, -1]


class Counter(torch.nn.Module):
    """Has state that begins as a constant, and state that begins as zeros."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.arange(3.0))
        self.register_buffer("m", torch.zeros(3))

    def forward(self, x):
        self.n.add_(x)
        self.m.copy_(self.n * 2)
        return self.n + self.m


class Loop(torch.nn.Module):
    """Has a branch, a loop whose length depends on data, and a scan."""

    def forward(self, x, n):
        y = torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))
        _, z = torch._higher_order_ops.while_loop(
            lambda i, a: i > 0, lambda i, a: (i - 1, torch.cond(i > 2, lambda b: b * 2, lambda b: b + 1, (a,))), (n, y)
        )
        last, each = torch._higher_order_ops.scan(lambda c, r: (c + r, c * r), z[0], z, dim=0)
        return y, z, last, each


class Pick(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(7, 4)

    def forward(self, i):
        return self.table(i) * 2


def saved(tmp_path, module, *args, **more) -> pathlib.Path:
    torch.manual_seed(0)
    clave.export(module.eval(), args, **more).save(tmp_path / "m.clv")
    return tmp_path / "m.clv"


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


class Views(torch.nn.Module):
    """Has views that begin after the start of their source or go backwards."""

    def forward(self, x):
        return x[2:, 1:].softmax(-1), x[1:].mT[2:] * 2, x[3].sum(), x.flip(0)[1:, ::2].cumsum(0)


class Dice(torch.nn.Module):
    """Draws random numbers, also in a loop's body, which differ each time."""

    def forward(self, x, n):
        _, y = torch._higher_order_ops.while_loop(
            lambda i, a: i > 0, lambda i, a: (i - 1, a + torch.rand_like(a)), (n, x)
        )
        return y, torch.randn_like(x), torch.randint_like(x, 100)


class Steps(torch.nn.Module):
    """Has elementwise steps of floats and of integers: some of the first 64 kinds and some of the others."""

    def forward(self, x, i):
        y = torch.where(x > 0, x.exp(), x.copysign(-x)).clamp(-1, 2)
        return y, torch.where(i > 2, i * 3, i ^ 5) & 6, torch.special.erfinv(x.tanh() / 2)


class Codes(torch.nn.Module):
    """Convolves 8-bit codes, as pt2e writes them. The next op makes codes, with a residual, or 16-bit floats."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 128, (6, 6, 3, 3)).to(torch.int8))
        self.register_buffer("scales", torch.rand(6) / 500 + 1e-3)
        self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))

    def forward(self, x):
        q = torch.ops.quantized_decomposed
        bounds = (0, 255, torch.uint8)
        weight = q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        floats = q.dequantize_per_tensor(x, 0.02, 7, *bounds)
        y = torch.nn.functional.conv2d(floats, weight, None, 1, 1)
        depthwise = torch.nn.functional.conv2d(floats, weight[:, :1], None, 1, 1, groups=6)
        return q.quantize_per_tensor(torch.relu(y + floats), 0.05, 0, *bounds), depthwise.half()


MODELS = {
    "net": (Net, (noise(2, 3, 32, 32),)),
    "tiles": (lambda: torch.nn.Conv2d(65, 20, 3, padding=1), (noise(2, 65, 9, 15),)),
    "convolutions and limits": (
        lambda: torch.nn.Sequential(
            torch.nn.Conv2d(8, 24, 1),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(24, 24, 3, padding=1, groups=24),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(24, 32, 3, 2, 1),
            torch.nn.ReLU(),
        ),
        (noise(2, 8, 9, 9),),
    ),
    "counter": (Counter, (noise(3),)),
    "loop": (Loop, (noise(4, 5), torch.tensor(5))),
    "loop that does not begin": (Loop, (-noise(4, 5).abs(), torch.tensor(0))),
    "views": (Views, (noise(6, 5),)),
    "steps": (Steps, (noise(7), torch.arange(7))),
    "pick": (Pick, (torch.tensor([3, 0, 6]),)),
    "dice": (Dice, (noise(5), torch.tensor(3))),
    "linear of 16 bits": (lambda: torch.nn.Linear(33, 9).bfloat16(), (noise(5, 33).bfloat16(),)),
    "codes": (Codes, (torch.arange(2 * 6 * 9 * 11).reshape(2, 6, 9, 11).to(torch.uint8),)),
    "no elements": (lambda: torch.nn.Linear(8, 3), (noise(0, 8),)),
}


KINDS = [pytest.param(k, marks=pytest.mark.by_turn(n)) for k, n in (("gcc", 2), ("clang, sanitized", 9))]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", KINDS)
def test_bits(tmp_path, name, kind):
    make, args = MODELS[name]
    torch.manual_seed(0)
    builder = Builder() if kind == "gcc" else Builder("clang", ("-O0", *SAN))
    compare(builder, saved(tmp_path, make(), *args), args, tmp_path / "c")


@pytest.mark.parametrize("quantize", ["int4:32", "Q8_0", "int8"])
def test_encoded_weights(builder, tmp_path, quantize):
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32))
    x = noise(3, 64)
    compare(builder, saved(tmp_path, model, x, quantize=quantize), (x,), tmp_path / "c")


def test_encoded_weights_that_are_decoded(builder, tmp_path):
    x = noise(1, 32, 6, 6)
    compare(builder, saved(tmp_path, torch.nn.Conv2d(32, 32, 1), x, quantize="int8"), (x,), tmp_path / "c")


def test_other_sizes_are_other_programs(builder, tmp_path):
    rows = torch.export.Dim("rows", max=9)
    program = saved(tmp_path, torch.nn.Linear(8, 3), noise(4, 8), dynamic_shapes=({0: rows},))
    for n in (1, 5):
        compare(builder, program, (noise(n, 8),), tmp_path / f"c{n}")
    with pytest.raises(Refused, match="rows"):
        emit(program, tmp_path / "nothing", "--dim", "rows=10")


def test_a_custom_op_runs_its_reference(builder, tmp_path):
    from _custom import register_wave, wave_program

    register_wave()
    wave_program().save(tmp_path / "m.clv")
    compare(builder, tmp_path / "m.clv", (noise(3, 4),), tmp_path / "c")


def test_an_index_out_of_range(builder, tmp_path):
    """The executable reports the same error as a session."""
    program = saved(tmp_path, Pick(), torch.tensor([3, 0, 6]))
    bad = torch.tensor([1, 7, 2])
    with pytest.raises(clave.Error) as e:
        clave.Session(str(program), device="cpu").run(bad)
    exe = builder.build(emit(program, tmp_path / "c"))
    want = [np.zeros((3, 4), np.float32)]
    with pytest.raises(AssertionError) as said:
        run(exe, [bits_of(bad)], want)
    assert str(said.value).removeprefix("model: ").split("\n")[0] in str(e.value)
    assert not (exe.parent / "out0.bin").exists()


def test_a_language_model(builder, tmp_path):
    program = ROOT / "examples/tinylm/tinylm.clv"
    compare(builder, program, (torch.tensor([[5, 17, 3, 99]]), torch.tensor(0)), tmp_path / "c")


def test_sizes_that_depend_on_data_are_not_written_out(tmp_path):
    program = saved(tmp_path, Nonzero(), noise(6))
    with pytest.raises(Carried, match=r"depends? on data.*node"):
        emit(program, tmp_path / "c")


class Nonzero(torch.nn.Module):
    def forward(self, x):
        return x.nonzero() * 2


def test_dims_of_another_input_are_refused(tmp_path):
    program = saved(tmp_path, torch.nn.Linear(8, 3), noise(4, 8))
    with pytest.raises(Refused, match="no open size or scalar input 'rows'"):
        emit(program, tmp_path / "c", "--dim", "rows=1")
    assert dims_of(program, [np.zeros((4, 8))]) == []
