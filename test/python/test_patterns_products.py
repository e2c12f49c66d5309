"""Passes over products: batch norms folded into them, products of one tensor joined."""

import _export
import pytest
import torch
from _export import instructions
from test_patterns import BF16, F16, F64, D, Fn, export, found, run, x
from torch import nn
from torch.nn import functional as F

import clave

pytestmark = pytest.mark.by_turn(17)
DIMS = ({0: torch.export.Dim("batch", min=1, max=8)},)


def trained(*layers):
    """Returns layers with statistics as after training."""
    torch.manual_seed(0)
    module = nn.Sequential(*layers)
    for m in module.modules():
        if isinstance(m, nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_()
            m.running_var.uniform_(0.2, 3)
            if m.affine:
                nn.init.normal_(m.weight)
                nn.init.normal_(m.bias)
    return module.eval()


FOLDED = {
    "conv": lambda: (trained(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()), (2, 3, 9, 7)),
    "bias": lambda: (trained(nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8)), (2, 3, 9, 7)),
    "groups": lambda: (trained(nn.Conv2d(6, 12, 3, groups=3), nn.BatchNorm2d(12)), (2, 6, 5, 5)),
    "depthwise": lambda: (trained(nn.Conv2d(6, 6, 3, groups=6, bias=False), nn.BatchNorm2d(6)), (1, 6, 5, 5)),
    "no_affine": lambda: (trained(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6, affine=False)), (2, 4, 11)),
    "volume": lambda: (trained(nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4)), (1, 2, 4, 5, 3)),
    "transposed": lambda: (trained(nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), nn.BatchNorm2d(6)), (2, 4, 5, 3)),
    "transposed_groups": lambda: (trained(nn.ConvTranspose1d(4, 6, 3, groups=2), nn.BatchNorm1d(6)), (2, 4, 5)),
    "linear": lambda: (trained(nn.Linear(16, 10), nn.BatchNorm1d(10)), (5, 16)),
    "linear_no_bias": lambda: (trained(nn.Linear(16, 10, bias=False), nn.BatchNorm1d(10)), (5, 16)),
    "one_channel": lambda: (trained(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)), (2, 1, 3, 3)),
}


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("form", FOLDED)
def test_batch_norm(form, decomposed):
    module, shape = FOLDED[form]()
    assert found(module, (x(*shape),), decomposed, (1e-4, 1e-5)) == {"batch_norm": 1}


def test_batch_norm_of_any_batch_and_in_f64():
    module, shape = FOLDED["conv"]()
    _, program = export(module, (x(*shape),), dynamic_shapes=(DIMS[0],))
    assert program.passes["batch_norm"] == 1
    for n in (1, 2, 5):
        run(module, program, (x(n, *shape[1:]),), 1e-4, 1e-5)
    double = module.double()
    assert found(double, (x(*shape, dtype=F64),), tolerance=(1e-12, 1e-12)) == {"batch_norm": 1}


@pytest.mark.parametrize("dtype", [F16, BF16], ids=["f16", "bf16"])
def test_batch_norms_in_16_bits_stay(dtype):
    module, shape = FOLDED["conv"]()
    assert found(module.to(dtype), (x(*shape, dtype=dtype),), tolerance=(3e-2, 3e-2)) == {}


class Shared(nn.Module):
    """A convolution that is read twice, or whose weight is."""

    def __init__(self, twice):
        super().__init__()
        self.body = trained(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))
        self.twice = twice

    def forward(self, a):
        y = self.body[0](a)
        return self.body[1](y) + (y if self.twice == "result" else self.body[0](a * 2))


@pytest.mark.parametrize("twice", ["result", "weight"])
def test_batch_norms_that_stay(twice):
    assert found(Shared(twice), (x(2, 3, 6, 6),), tolerance=(1e-4, 1e-5)) == {}
    module = trained(nn.Linear(16, 10), nn.BatchNorm1d(5))
    assert found(module, (x(2, 5, 16),), tolerance=(1e-4, 1e-5)) == {}  # channels are not the columns


def test_methods_share_a_folded_weight():
    module = trained(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))
    program = clave.export({"one": (module, (x(1, 3, 6, 6),)), "more": (module, (x(4, 3, 9, 6),))})
    assert program.passes["batch_norm"] == 2 and len(program.schema.constants) == 2
    session = clave.Session(program, "cpu")
    for method, n in (("one", 1), ("more", 4)):
        a = x(n, 3, 6 if n == 1 else 9, 6)
        torch.testing.assert_close(torch.from_numpy(session.run(a, method=method)[0]), module(a), rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------- products of one tensor


class Layer(nn.Module):
    """q, k and v of different sizes, gate and up; `bias`: the projections that have one."""

    def __init__(self, bias="", norm=False, n=(4, 2), dtype=torch.float32):
        super().__init__()
        torch.manual_seed(0)
        heads, groups = n
        self.q, self.k, self.v = (
            nn.Linear(D, h * 4, bias=name in bias) for name, h in zip("qkv", (heads, groups, groups), strict=True)
        )
        self.gate, self.up, self.down = nn.Linear(D, 24, bias=False), nn.Linear(D, 24, bias=False), nn.Linear(24, D)
        self.norm = nn.RMSNorm(4) if norm else nn.Identity()
        self.to(dtype)

    def forward(self, x):
        q, k, v = (f(x).view(*x.shape[:2], -1, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(self.norm(q), k, v, enable_gqa=True)
        x = x + y.transpose(1, 2).reshape(x.shape)
        return x + self.down(F.silu(self.gate(x)) * self.up(x))


def shapes_of_constants(program):
    slots = program.schema.tensors
    return [[n.literal for n in slots[i].shape] for i, _ in enumerate(program.schema.constants)]


def matmuls(program):
    return len(instructions(program, "Matmul"))


@pytest.mark.parametrize("dtype", [torch.float32, F16, BF16, F64], ids=["f32", "f16", "bf16", "f64"])
@pytest.mark.parametrize("bias", ["", "qkv", "qv"])
def test_products_of_one_tensor(bias, dtype):
    module = Layer(bias, dtype=dtype).eval()
    batch, length = torch.export.Dim("batch", max=8), torch.export.Dim("length", max=64)
    _, program = export(module, (x(2, 5, D, dtype=dtype),), dynamic_shapes=({0: batch, 1: length},))
    assert program.passes["join_matmul"] == 2 and program.refused == {} and matmuls(program) == 3
    assert len(program.schema.constants) == 4 + bool(bias), "a weight is stored twice"
    tolerance = {F16: 4e-3, BF16: 4e-2, F64: 1e-12}.get(dtype, 2e-5)
    for shape in ((2, 5, D), (1, 1, D), (3, 9, D)):
        run(module, program, (x(*shape, dtype=dtype),), tolerance, tolerance)


def test_no_product_is_joined_that_would_be_copied():
    module = Layer(norm=True).eval()
    _, program = export(module, (x(2, 5, D),))
    assert program.passes["join_matmul"] == 2 and matmuls(program) == 4  # k and v, gate and up
    run(module, program, (x(2, 5, D),))
    _, one = export(module, (x(1, 1, D),))  # a single row is contiguous
    assert matmuls(one) == 3
    run(module, one, (x(1, 1, D),))


A, B, C = (torch.linspace(-1, 1, D * n).reshape(n, D) for n in (6, 6, 5))
LEFT = {
    "two_inputs": lambda x, y: F.linear(x, A).exp() + F.linear(y, B),
    "an_output": lambda x, y: (F.linear(x, A), F.linear(x, B)),
    "a_weight_twice": lambda x, y: F.linear(x, A).exp() + F.linear(x, A * 1.0).sin() + A.sum() * F.linear(y, A),
    "tied": lambda x, y: F.linear(x, A).exp() + F.linear(x, B).sin() + F.linear(y, A),
    "tied_table": lambda x, y: F.linear(x, A).exp() + F.linear(x, B).sin() + A[y[0, 0, :5].long().clamp(0, 5), :6],
    "normalised": lambda x, y: F.layer_norm(F.linear(x, A), (6,)) * F.layer_norm(F.linear(x, B), (6,)),
    "flattened": lambda x, y: F.linear(x, A).flatten().sin() + F.linear(x, B).flatten().exp(),
    "scaled": lambda x, y: torch.addmm(x[0, :, :6], x[0], A.t(), alpha=2) + torch.addmm(x[0, :, :6], x[0], B.t()),
    "bias_of_rows": lambda x, y: torch.addmm(x[0, :, :6], x[0], A.t()) + torch.addmm(x[0, :, :6], x[0], B.t()),
    "another_dtype": lambda x, y: F.linear(x, A).exp() + F.linear(x.double(), B.double()).float(),
}


@pytest.mark.parametrize("form", LEFT)
def test_products_that_are_left(form):
    assert found(LEFT[form], (x(), x()), tolerance=(1e-4, 1e-5)) == {}


def test_weights_that_are_not_transposed():
    w = {"a": torch.randn(D, 3), "b": torch.randn(D, 7), "c": torch.randn(D, 5)}

    def f(x, a, b, c):
        return (x @ a).exp().sum(-1) + (x @ b).exp().sum(-1) + (x @ c).exp().sum(-1)

    module, program = export(f, (x(),), **w)
    assert program.passes["join_matmul"] == 1 and shapes_of_constants(program) == [[D, 15]]
    run(module, program, (x(),), 1e-4, 1e-4)


def test_methods_share_a_joined_weight():
    module = Layer("q").eval()
    methods = {"prefill": (module, (x(2, 7, D),)), "decode": (module, (x(1, 1, D),))}
    program = clave.export(methods)
    assert program.passes["join_matmul"] == 4 and len(program.schema.constants) == 5
    session = clave.Session(program, "cpu")
    for method, shape in (("prefill", (2, 7, D)), ("decode", (1, 1, D))):
        a = x(*shape)
        got = torch.from_numpy(session.run(a, method=method)[0])
        with torch.no_grad():
            torch.testing.assert_close(got, module(a), rtol=2e-5, atol=2e-6)


class Half(nn.Module):
    """Some of a layer's products."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer.gate(x).exp() + self.layer.down.bias.sum()


def test_methods_that_multiply_other_weights_share_them_as_they_are():
    module = Layer().eval()
    program = clave.export({"all": (module, (x(2, 7, D),)), "half": (Half(module).eval(), (x(2, 3, D),))})
    assert program.passes["join_matmul"] == 1  # q, k, v; not gate and up


@pytest.mark.parametrize("encoding", ["int8", "int4:16:zeros", "Q4_0", "MXFP4"])
def test_encoded_weights_are_joined(encoding):
    torch.manual_seed(0)
    module = nn.ModuleList([nn.Linear(256, n, bias=n > 8) for n in (8, 16, 24)])
    f = Fan(module).eval()
    a = x(3, 256)
    plain = clave.export(f, (a,), quantize=encoding, passes=())
    program = plain.optimized()
    assert program.passes["join_matmul"] == 1 and matmuls(program) == 1 and len(program.schema.constants) == 2
    for device in ("cpu", "opencl"):
        want, got = (clave.Session(p, device)(a) for p in (plain, program))
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


class Fan(nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts = parts

    def forward(self, x):
        return sum(f(x).exp().sum(-1) for f in self.parts)


def test_weights_of_other_encodings_are_left():
    f = Fan(nn.ModuleList([nn.Linear(64, 8, bias=False), nn.Linear(64, 8, bias=False)])).eval()
    texts = iter(["int8", "int4:16"])
    program = clave.export(f, (x(3, 64),), quantize=lambda _n, _w: next(texts), verify=False)
    assert "join_matmul" not in program.passes


class Rows32(nn.Module):
    """Rows in f32 times a 16-bit weight, and another reader of it."""

    def __init__(self, dtype, reads=False):
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(15, D).to(dtype), requires_grad=False)
        self.reads = reads

    def forward(self, x):
        wide = self.weight.float()
        y = nn.functional.linear(x, wide)
        return y + wide.sum(1) if self.reads else y


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("reads", [False, True])
def test_weights_of_16_bits_are_read_as_they_are(dtype, reads):
    module, x = Rows32(dtype, reads), torch.randn(3, D)
    program = _export.check(module, (x,))
    assert program.passes["narrow_b"] == 1
    kinds = {t.dtype for t in program.schema.tensors[: len(program.schema.constants)]}
    assert clave.schema.DType[{torch.float16: "F16", torch.bfloat16: "BF16"}[dtype]] in kinds
    assert torch.allclose(clave.Session(program, "opencl")(x), module(x), atol=1e-4)


# ---------------------------------------------------------------- rows that nothing reads


class Head(nn.Module):
    """A layer after attention, of which one row is read. cut: how."""

    def __init__(self, cut, norm=nn.LayerNorm):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.head, self.norm = nn.Linear(D, 24), nn.Linear(24, D), nn.Linear(D, 9), norm(D)
        self.row, self.cut = nn.Parameter(torch.randn(1, 1, 9)), cut

    def forward(self, x):
        y = self.head(self.norm(x + self.down(F.relu(self.up(x))))) * self.row
        return self.cut(y)


CUTS = {
    "last": lambda y: y[:, -1:],
    "first": lambda y: y[:, :1],
    "several": lambda y: y[:, 1:4],
    "every_second": lambda y: y[:, ::2],
    "batch": lambda y: y[:1],
    "scaled": lambda y: (y * 2 + y.new_ones(5, 1))[:, -1:],
}


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("cut", CUTS)
def test_rows_that_nothing_reads(cut, norm):
    module = Head(CUTS[cut], norm)
    passes = found(module, (x(3, 5, D),), tolerance=(1e-4, 1e-5))
    assert passes["early_slice"] >= 5, passes


KEPT = {
    "columns": lambda y: y[..., :4],
    "two_readers": lambda y: (y[:, :1], y.sum(1)),
    "whole": lambda y: y[:, :],
    "softmax": lambda y: y.softmax(1)[:, :1],
}


@pytest.mark.parametrize("cut", KEPT)
def test_rows_that_are_all_computed(cut):
    module = nn.Sequential(nn.Linear(D, 9), Fn(KEPT[cut]))
    assert "early_slice" not in found(module, (x(3, 5, D),), tolerance=(1e-4, 1e-5))


def test_rows_of_any_length():
    length = torch.export.Dim("length", min=1, max=64)
    module, program = export(Head(CUTS["last"]), (x(2, 5, D),), dynamic_shapes=({1: length},))
    assert program.passes["early_slice"] >= 5
    for n in (1, 2, 33):
        run(module, program, (x(2, n, D),), 1e-4, 1e-5)


# ---------------------------------------------------------------- padding


class Padded(nn.Module):
    """A convolution of a padded input. pads: as in torch's pad, for the last dimensions first."""

    def __init__(self, pads, value=0.0, channels_last=False, padding=0, reader=None):
        super().__init__()
        self.pads, self.value, self.channels_last, self.reader = pads, value, channels_last, reader
        self.conv = nn.Conv2d(4, 6, 3, stride=2, padding=padding)

    def forward(self, x):
        y = F.pad(x, self.pads, value=self.value)
        z = self.conv(y.permute(0, 3, 1, 2) if self.channels_last else y)
        return (z, self.reader(y)) if self.reader else z


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (Padded((1, 1, 2, 2)), (2, 4, 9, 7)),
        (Padded((2, 2, 0, 0), padding=1), (1, 4, 8, 8)),
        (Padded((0, 0, 1, 1, 1, 1), channels_last=True), (1, 9, 7, 4)),
        (Padded((1, 1, 1, 1), reader=torch.tanh), (1, 4, 6, 6)),
        (Padded((0, 1, 0, 2)), (2, 4, 6, 7)),
        (Padded((3, 0, 1, 0), padding=1), (2, 4, 6, 7)),
    ],
    ids=["sides", "both", "channels_last", "two_readers", "after", "before"],
)
def test_padding(module, shape):
    assert found(module, (x(*shape),)) == {"padding": 1}


@pytest.mark.parametrize(
    "module",
    [
        Padded((1, 1, 1, 1), value=0.5),
        Padded((-1, -1, 1, 1)),
        Padded((1, 1, 1, 1, 0, 0, 1, 1)),
        Padded((0, 0, 1, 1, 1, 1, 0, 0)),
    ],
    ids=["another_number", "crop", "batch", "channels"],
)
def test_not_padding(module):
    channels = 2 if module.pads[4:6] == (1, 1) else 4
    assert found(module, (x(2, channels, 6, 6),)) == {}
