"""Element types that are only moved and cast: export, files, sessions, and refusals by name."""

import _export
import ml_dtypes
import numpy as np
import pytest
import torch

import clave
from clave import schema

NUMPY = {
    torch.uint16: np.uint16,
    torch.uint32: np.uint32,
    torch.uint64: np.uint64,
    torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn,
    torch.float8_e5m2: ml_dtypes.float8_e5m2,
}
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]
each_dtype = pytest.mark.parametrize("dtype", NUMPY, ids=lambda t: str(t).removeprefix("torch."))


def numbers(dtype, *shape):
    n = torch.Size(shape).numel()
    return (torch.arange(n) * 3 % 97).reshape(shape).to(dtype)


def bits(x):
    return x.contiguous().reshape(-1).view(torch.uint8)


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    assert torch.equal(bits(got), bits(want))


class Table(torch.nn.Module):
    """Rows of a constant, a state that keeps the last input, and a cast."""

    def __init__(self, dtype):
        super().__init__()
        self.register_buffer("rows", numbers(dtype, 7, 4))
        self.register_buffer("last", numbers(dtype, 3, 4))

    def forward(self, x, i):
        before = self.last.clone()
        self.last.copy_(x)
        return self.rows[i], before, x.to(torch.float32), torch.cat([x, x])


@each_dtype
def test_constants_state_inputs_and_outputs(dtype, tmp_path):
    module, index = Table(dtype).eval(), torch.tensor([6, 0, 2])
    x = numbers(dtype, 3, 4).flip(0)
    program = clave.export(Table(dtype).eval(), (x, index))
    program.save(tmp_path / "table.clv")
    program.save(tmp_path / "table.json")
    for path in ("table.clv", "table.json"):
        session = clave.Session(clave.load(tmp_path / path))
        assert clave.load(tmp_path / path).schema.version == 4
        for given in (x, x.t().contiguous().t(), numbers(dtype, 6, 4)[::2]):
            for got, want in zip(session(given, index), module(given, index), strict=True):
                same(got, want)
        module.last.copy_(numbers(dtype, 3, 4))
        arrays = clave.Session(program).run(x.view(torch.uint8).numpy().view(NUMPY[dtype]).reshape(3, 4), index.numpy())
        assert [a.dtype for a in arrays] == [np.dtype(NUMPY[dtype])] * 2 + [np.float32, np.dtype(NUMPY[dtype])]
        assert arrays[3].tobytes() == bits(torch.cat([x, x])).numpy().tobytes()


@each_dtype
def test_wrong_inputs_are_named(dtype):
    session = clave.Session(clave.export(_export.Fn(lambda x: x.to(torch.float32)), (numbers(dtype, 3),)))
    name = schema.DType(clave.dtypes.index_of_torch(dtype)).name
    with pytest.raises(clave.Error, match=f"expected {name}|expected dtype .*, got|got {name}|expected .*{name}"):
        session(torch.zeros(3))
    with pytest.raises(clave.Error, match=r"expected dtype float32, .*, got float8_e8m0fnu"):
        session(torch.zeros(3).to(torch.float8_e8m0fnu))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_what_torch_has_of_unsigned_integers(dtype):
    def everything(x, y):
        return x == y, x != 3, x & y, x | 8, x ^ y, x * y, x.sum(), x.to(torch.int64), torch.where(x == y, x, y)

    x, y = numbers(dtype, 5, 3), numbers(dtype, 3)
    program = clave.export(_export.Fn(everything), (x, y), verify=True)
    for device in ("cpu", "opencl"):
        for got, want in zip(clave.Session(program, device)(x, y), everything(x, y), strict=True):
            same(got, want)


@pytest.mark.parametrize("dtype", NUMPY, ids=str)
@pytest.mark.parametrize(
    ("f", "op"),
    [
        (lambda x: torch.softmax(x, 0), "softmax"),
        (lambda x: x + x, "add"),
        (lambda x: x < 3, "lt"),
        (lambda x: -x, "neg"),
        (lambda x: x.cummax(0)[0], "cummax"),
        (lambda x: torch.maximum(x, x), "maximum"),
    ],
    ids=["softmax", "add", "lt", "neg", "cummax", "maximum"],
)
def test_other_ops_are_refused_by_name(dtype, f, op):
    """torch has no kernels for them either, but may capture them."""
    with pytest.raises(clave.Error) as caught:
        clave.export(_export.Fn(f), (numbers(dtype, 3),))
    said = str(caught.value)
    assert "\n" not in said and op in said and ("cannot capture" in said or str(dtype).removeprefix("torch.") in said)


def test_unsupported_ops_say_the_dtype():
    with pytest.raises(clave.UnsupportedOp) as caught:
        clave.export(_export.Fn(lambda x: (x + x, torch.softmax(x, 0))), (numbers(torch.float8_e5m2, 3),))
    assert len(caught.value.ops) == 2
    assert all("float8_e5m2" in reason for reason in caught.value.reasons.values())


@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_float8_round_trips_as_a_layer_would(dtype):
    """Weights are stored in 8 bits, which dtype= does not change."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("weight", torch.randn(8, 6, generator=torch.Generator().manual_seed(1)).to(dtype))
            self.bias = torch.nn.Parameter(torch.arange(8.0))

        def forward(self, x):
            return torch.nn.functional.linear(x, self.weight.to(x.dtype), self.bias)

    x = torch.randn(3, 6)
    program = clave.export(Layer().eval(), (x,), verify=True)
    torch.testing.assert_close(clave.Session(program)(x), Layer()(x), rtol=1e-5, atol=1e-5)
    half = clave.export(Layer().eval(), (x,), dtype=torch.float16, verify=True, passes=())
    kept = {c.name: half.schema.tensors[i].encoding for i, c in enumerate(half.schema.constants)}
    assert (
        kept["weight"].code
        == {torch.float8_e4m3fn: schema.CodeKind.e4m3, torch.float8_e5m2: schema.CodeKind.e5m2}[dtype]
    )


def test_large_float8_constants_stay_small():
    """A weight that is only cast is not stored as floats, but with a scale for each row."""
    weight = torch.randn(256, 512).to(torch.float8_e4m3fn)
    program = clave.export(_export.Fn(lambda x: x @ weight.to(torch.float32)), (torch.randn(2, 256),))
    assert program.report.constant_bytes == weight.numel() + 4 * 512
    program = clave.export(_export.Fn(lambda x: x * weight.to(torch.float32)), (torch.randn(2, 1, 512),))
    assert program.report.constant_bytes == weight.numel()


def test_verify_finds_wrong_float8():
    """8-bit results may differ by a step of the largest, not more; NaN is NaN."""
    from clave import verification

    x = torch.tensor([1.0, 200.0, float("nan")]).to(torch.float8_e4m3fn)
    y = torch.tensor([1.125, 208.0, float("nan")]).to(torch.float8_e4m3fn)
    assert verification._difference([x], [x]) is None
    assert verification._difference([y], [x]) is None
    z = torch.tensor([1.0, 416.0, float("nan")]).to(torch.float8_e4m3fn)
    assert "off by" in verification._difference([z], [x])
    assert "finite" in verification._difference([z.clone().fill_(1.0)], [x])


def test_kernels_of_custom_ops_take_them():
    """In a kernel, a tensor has the storage type of its dtype."""

    def halve(x: torch.Tensor) -> torch.Tensor:
        return (x.to(torch.int32) // 2).to(torch.uint16)

    op = torch.library.custom_op("check::halve", halve, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(lambda x: torch.empty_like(x))
    source = """
__kernel void halve(global const ushort *x, global ushort *out, long n) {
  if (get_global_id(0) < n) out[get_global_id(0)] = x[get_global_id(0)] / 2;
}
"""
    kernel = clave.Kernel(source, grid=lambda out: out.numel(), values={"n": lambda out: out.numel()})
    clave.register_op(op, kernel)
    x = torch.tensor([[65535, 7], [4, 40000]], dtype=torch.uint16)
    program = clave.export(_export.Fn(op), (x,), verify=True)
    for device in ("cpu", "opencl"):
        same(clave.Session(program, device, allow_custom_kernels=True)(x), halve(x))


def test_host_scalars_given_as_them():
    module = _export.Fn(lambda x, n: x * n)
    sizes = {"dynamic_shapes": {"args": (None, torch.export.Dim.DYNAMIC)}}
    session = clave.Session(clave.export(module, (torch.ones(3), 5), **sizes))
    assert session.run(torch.ones(3), np.uint16(7))[0].tolist() == [7.0] * 3
    assert session.run(torch.ones(3), np.uint64(2**40))[0].tolist() == [2.0**40] * 3
    with pytest.raises(clave.Error, match="9223372036854775808 does not fit in a signed 64-bit integer"):
        session.run(torch.ones(3), np.uint64(2**63))
    with pytest.raises(clave.Error):
        session.run(torch.ones(3), np.array(2, dtype=ml_dtypes.float8_e5m2))


def test_elements_read_as_numbers():
    """item() returns a number on the host."""

    class Repeated(torch.nn.Module):
        def forward(self, x, n):
            count = n.item()
            torch._check(count >= 1)
            torch._check(count < 9)
            return x.expand(count, 3).clone()

    for dtype in UNSIGNED:
        session = clave.Session(clave.export(Repeated(), (torch.ones(3), torch.tensor(4).to(dtype))))
        assert session(torch.ones(3), torch.tensor(6).to(dtype)).shape == (6, 3)


def test_command_line_inputs():
    from clave import specs

    inputs = specs.Inputs.parse("u16[2,3],f8_e4m3[n],x:f8_e5m2[]", specs.Sizes.parse(["n"]))
    assert [t.dtype for t in (*inputs.args, *inputs.kwargs.values())] == [torch.uint16, *FLOAT8]
