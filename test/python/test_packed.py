"""Weights that a model computes from its own constants (because a library quantised them) are kept as codes, whatever
ops compute them: the program has their encoding, and both backends equal eager."""

import itertools

import _export
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # declares quantized_decomposed
from _export import instructions
from torch import nn

import clave
from clave import quantize
from clave.encodings import parse
from clave.verification import TOLERANCE

pytestmark = pytest.mark.by_turn(3)
Q = torch.ops.quantized_decomposed
N, K = 48, 64


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def numbers(low, high, shape=(N, K), dtype=torch.int8):
    """Returns integers; each row has both ends."""
    made = torch.randint(low, high + 1, shape, generator=seeded(), dtype=dtype)
    made[:, 0], made[:, -1] = low, high
    return made


def scales(*shape, dtype=torch.float32):
    return (torch.rand(shape, generator=seeded(1)) / 50 + 1e-3).to(dtype)


class Quantised(nn.Module):
    """A product with the weight that `weight` makes from the buffers."""

    def __init__(self, weight, **buffers):
        super().__init__()
        self.made = weight
        for name, data in buffers.items():
            self.register_buffer(name, data)

    def weight(self):
        return self.made(**dict(self.named_buffers()))

    def forward(self, x):
        return nn.functional.linear(x, self.weight())


class Columns(Quantised):
    def forward(self, x):
        return x @ self.weight()


class Table(Quantised):
    def forward(self, x):
        return nn.functional.embedding(x.abs().long().clamp(max=N - 1), self.weight())


class Product8(Quantised):
    def __init__(self, q, scale):
        super().__init__(lambda q, scale: q.float() * scale[:, None], q=q, scale=scale)

    def forward(self, x):
        return torch.ops.aten._weight_int8pack_mm(x, self.q, self.scale)


def nibbles(q, scale):
    """Decodes GPTQ's format: eight numbers of 0 to 15 in each 32 bits, along K, and a scale for each 32 rows."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    codes = (q[:, None, :] >> shifts[None, :, None]) & 15
    return ((codes.reshape(K, N) - 8).float().reshape(2, K // 2, N) * scale[:, None]).reshape(K, N)


def packed_nibbles():
    codes = numbers(0, 15, (K, N), torch.int64).reshape(K // 8, 8, N)
    return (codes << torch.arange(0, 32, 4)[None, :, None]).sum(1).to(torch.int32)


def grouped(q, scale, zero):
    return Q.dequantize_per_channel_group(q, scale, zero, -8, 7, torch.int8, 32, torch.float32)


FORMS = {
    "int8": (Quantised(lambda q, scale: q.float() * scale, q=numbers(-128, 127), scale=scales(N, 1)), "int8:f32"),
    "int8_of_a_tensor": (
        Quantised(lambda q: Q.dequantize_per_tensor(q, 0.03, 0, -128, 127, torch.int8), q=numbers(-128, 127)),
        "int8",
    ),
    "int8_of_channels": (
        Quantised(
            lambda q, scale: Q.dequantize_per_channel(q, scale, None, 0, -127, 127, torch.int8),
            q=numbers(-127, 127),
            scale=scales(N),
        ),
        "int8",
    ),
    "u8_around_128": (
        Quantised(lambda q, scale: (q.float() - 128) * scale, q=numbers(0, 255, dtype=torch.uint8), scale=scales(N, 1)),
        "int8",
    ),
    "u8_above": (
        Quantised(lambda q, scale: (q.float() - 3) * scale, q=numbers(0, 255, dtype=torch.uint8), scale=scales(N, 1)),
        "int8:zeros",
    ),
    "int4_of_groups": (
        Quantised(grouped, q=numbers(-8, 7), scale=scales(N, 2), zero=torch.zeros(N, 2)),
        "int4:32:f32",
    ),
    "int4_with_zeros": (
        Quantised(grouped, q=numbers(-8, 7), scale=scales(N, 2), zero=(torch.arange(N * 2) % 16 - 8.0).reshape(N, 2)),
        "int4:32:zeros:f32",
    ),
    "int3_bf16": (
        Quantised(lambda q, scale: q * scale, q=numbers(-4, 3), scale=scales(N, 1, dtype=torch.bfloat16)),
        "int3:bf16",
    ),
    "one_beyond_4_bits": (Quantised(lambda q, scale: q * scale, q=numbers(-7, 8), scale=scales(N, 1)), "int4:zeros"),
    "cast_alone": (Columns(lambda q: q.T.float(), q=numbers(-128, 127)), "int8"),
    "nibbles_in_columns": (Columns(nibbles, q=packed_nibbles(), scale=scales(2, N)), "int4:32:f32"),
    "e4m3": (
        Columns(
            lambda q, scale: (q.float() * scale).T,
            q=torch.randn(N, K, generator=seeded()).to(torch.float8_e4m3fn),
            scale=scales(N, 1),
        ),
        "e4m3",
    ),
    "e5m2": (
        Quantised(
            lambda q, scale: q.to(torch.float16) * scale,
            q=torch.randn(N, K, generator=seeded()).to(torch.float8_e5m2),
            scale=scales(N, 1, dtype=torch.float16),
        ),
        "e5m2:f16",
    ),
    "int8_pack_mm": (Product8(numbers(-128, 127), scales(N)), "int8"),
    "table": (Table(lambda q, scale: q.float() * scale, q=numbers(-8, 7), scale=scales(N, 1)), "int4"),
}


class Convolution(Quantised):
    """convolve: a function of x and the weight."""

    def __init__(self, convolve, **buffers):
        super().__init__(lambda q, scale: q.float() * scale, **buffers)
        self.convolve = convolve

    def forward(self, x):
        return torch.relu(self.convolve(x, self.weight()))


def of_planes(shape, groups=1, convolve=nn.functional.conv2d, low=-128, high=127):
    q = numbers(low, high, (shape[0], torch.Size(shape[1:]).numel())).reshape(shape)
    scale = scales(shape[0], *[1] * (len(shape) - 1))
    return Convolution(lambda x, w: convolve(x, w, groups=groups), q=q, scale=scale)


CONVOLUTIONS = {
    "3x3": (of_planes((12, 8, 3, 3)), "int8"),
    "1x1": (of_planes((20, 8, 1, 1), low=-7), "int8"),
    "depthwise": (of_planes((8, 1, 5, 5), 8), "int8"),
    "groups": (of_planes((12, 4, 3, 3), 2, low=-8, high=7), "int4"),
    "one_dimension": (of_planes((12, 8, 3), convolve=nn.functional.conv1d), "int8"),
    "transposed": (of_planes((8, 6, 2, 2), convolve=nn.functional.conv_transpose2d), "int8"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, monkeypatch):
    """Convolutions that read codes compute the same bits as with the decoded weights in older programs."""
    module, form = CONVOLUTIONS[name]
    x = torch.randn(3, 8, *[9, 11][: module.q.dim() - 2], generator=seeded(3)).float()
    program = check(module, (x,), form)
    monkeypatch.setattr(quantize, "_convolves", lambda *_: False)
    older = check(module, (x,), form)
    assert (len(decodes(program)), len(decodes(older))) == (0, 1)
    assert torch.equal(clave.Session(program, "cpu")(x), clave.Session(older, "cpu")(x))
    for device in ("cpu", "opencl"):
        session = clave.Session(older, device)
        first, ran = session(x), set()
        session.observe(lambda node, _, ran=ran: ran.add(type(instructions(older)[node].op).__name__))
        assert torch.equal(session(x), first)
        assert ran and "Dequantize" not in ran


def test_versions(tmp_path):
    """A convolution with an encoded weight requires the version that introduced it."""
    module, _ = CONVOLUTIONS["3x3"]
    program = clave.export(module.eval(), (torch.randn(1, 8, 9, 9),))
    program.save(tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text()
    assert program.schema.version == 6 and text.count('"version": 6') == 1
    (tmp_path / "c.json").write_text(text.replace('"version": 6', '"version": 3'))
    with pytest.raises(clave.Error, match="an encoding of weight needs schema version 6, the program says 3"):
        clave.load(tmp_path / "c.json")


def test_norms_fold_into_scales():
    """As many patterns apply as with plain weights, except after transposed convolutions, whose channels are not
    rows."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 1), nn.BatchNorm2d(16)]
    layers += [nn.ConvTranspose2d(16, 4, 2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(256, 10), nn.BatchNorm1d(10)]
    module = nn.Sequential(*layers).eval()
    for norm in (m for m in module if hasattr(m, "running_var")):
        for p in (norm.weight, norm.bias, norm.running_mean):
            nn.init.normal_(p)
        nn.init.uniform_(norm.running_var, 0.1, 1)
    x = torch.randn(2, 8, 9, 9)
    for form in ("int8", "int4:32:zeros:f32"):
        plain = clave.export(module, (x,), quantize=form, passes=())
        folded = clave.export(module, (x,), quantize=form)
        assert [len(instructions(p, "BatchNorm")) for p in (plain, folded)] == [4, 1]
        want = clave.Session(plain, "cpu")(x)
        for device in ("cpu", "opencl"):
            assert (clave.Session(folded, device)(x) - want).abs().max() <= 1e-5 * want.abs().max()


def encoded(program):
    return [t.encoding for t in program.schema.tensors if t.encoding is not None]


def check(module, args, *forms):
    """Compares both backends; 16-bit weights are rounded once less than in eager."""
    program = clave.export(module.eval(), args, verify=True)
    assert encoded(program) == [parse(form).table() for form in forms]
    want = module(*args)
    got = clave.Session(program, "opencl")(*args)
    assert (got - want).abs().max() <= TOLERANCE[want.dtype] * want.abs().max()
    return program


def decodes(program):
    return [i for i in instructions(program) if type(i.op).__name__ == "Dequantize"]


@pytest.mark.parametrize("name", FORMS)
def test_kept_as_codes(name):
    module, form = FORMS[name]
    weight = module.weight()
    x = torch.randn(5, K if not isinstance(module, Table) else 3, generator=seeded(2)).to(weight.dtype)
    assert not decodes(check(module, (x,), form))


class Both(Quantised):
    """The weight is a result, too: it equals eager's to the last bit."""

    def forward(self, x):
        weight = self.weight()
        return nn.functional.linear(x, weight), weight


@pytest.mark.parametrize("name", [n for n in FORMS if type(FORMS[n][0]) is Quantised])
def test_decoded_to_the_same_bits(name):
    module, form = FORMS[name]
    module = Both(module.made, **dict(module.named_buffers())).eval()
    x = torch.randn(5, K, generator=seeded(2)).to(module.weight().dtype)
    program = clave.export(module, (x,))
    assert encoded(program) == [parse(form).table()]
    for device in ("cpu", "opencl"):
        assert torch.equal(clave.Session(program, device)(x)[1], module.weight())


def test_one_weight_of_two_methods_is_one():
    module = FORMS["int4_of_groups"][0].eval()
    x = torch.randn(5, K)
    program = clave.export({"one": (module, (x,)), "two": (module, (x[:2],))})
    assert len(encoded(program)) == 1


def test_quantize_leaves_what_is_packed():
    module = nn.Sequential(FORMS["int4_of_groups"][0], nn.Linear(N, 32)).eval()
    program = clave.export(module, (torch.randn(3, K),), quantize="int8")
    assert encoded(program) == [parse("int8").table(), parse("int4:32:f32").table()] or encoded(program) == [
        parse("int4:32:f32").table(),
        parse("int8").table(),
    ]


OTHERS = {
    "zeros_that_are_no_codes": (lambda q, scale, zero: q * scale + zero, {"scale": scales(N, 1), "zero": scales(N, 1)}),
    "groups_of_8": (lambda q, scale: (q.reshape(N, 8, 8) * scale).reshape(N, K), {"scale": scales(N, 8, 1)}),
    "scales_of_columns": (lambda q, scale: q * scale, {"scale": scales(K)}),
    "infinite": (lambda q, scale: q * scale, {"scale": torch.full((N, 1), float("inf"))}),
    "more_than_8_bits": (lambda q, scale: q.float() * q * scale, {"scale": scales(N, 1) / 1e4}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_no_form_holds_is_computed(name):
    weight, buffers = OTHERS[name]
    module = Quantised(weight, q=numbers(-128, 127), **buffers).eval()
    program = _export.check(module, (torch.randn(5, K),))
    assert not encoded(program)


def test_a_weight_of_floats_is_not_looked_at():
    """Weight norm computes the weight from as many bytes as it has, so it is not kept as codes."""
    module = nn.utils.parametrizations.weight_norm(nn.Linear(K, N)).eval()
    assert not encoded(_export.check(module, (torch.randn(5, K),)))


def configs_of_torchao():
    from torchao import quantization as ao
    from torchao.quantization.granularity import PerAxis, PerGroup

    only, dynamic = ao.IntxWeightOnlyConfig, ao.Int8DynamicActivationIntxWeightConfig
    groups = PerGroup(32)
    return {
        "int8_weights": (ao.Int8WeightOnlyConfig(), "int8"),
        "int4_weights": (only(weight_dtype=torch.int4, granularity=groups), "int4:32"),
        "int3_rows": (only(weight_dtype=torch.int3, granularity=PerAxis(0)), "int3"),
        "int4_weights_int8_rows": (dynamic(weight_dtype=torch.int4, weight_granularity=groups), "int4:32"),
        "float8_weights": (ao.Float8WeightOnlyConfig(), "e4m3"),
    }


def test_torchao():
    from torchao.quantization import quantize_

    for (name, (config, form)), dtype in itertools.product(
        configs_of_torchao().items(), (torch.float32, torch.bfloat16)
    ):
        torch.manual_seed(0)
        module = nn.Sequential(nn.Linear(K, 96), nn.ReLU(), nn.Linear(96, N)).to(dtype).eval()
        quantize_(module, config)
        program = clave.export(module, (torch.randn(5, K).to(dtype),), verify=True)
        want = parse(form).table()
        got = [(e.bits, e.group, e.has_zeros, e.code) for e in encoded(program)]
        assert got == [(want.bits, want.group, want.has_zeros, want.code)] * 2, name
