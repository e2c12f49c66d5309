"""Products with quantised weights under CLAVE_PRECISION=fast: rows rounded to 8 bits, codes multiplied as integers.
OpenCL as a GPU and the CPU backend are compared with numpy and with each other bit by bit. They are also compared with
unrounded products, within the error of rounding. OpenCL as a CPU rounds nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import pytest
import torch
import transformers.integrations.moe  # noqa: F401  (declares what Experts calls)
from _export import instructions

import clave
from clave.encodings import Stored, parse

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "test/cases"))
from encoded import Experts, group_values, random_blocks

pytestmark = pytest.mark.by_turn(22)

N, GROUP = 67, 32
FLAGS = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
EXTENSION = "cl_khr_integer_dot_product"  # Intel's runtime has it
PACKED = [EXTENSION] if any(EXTENSION in d["extensions"] for d in clave.devices()) else []
SIGNED = "emulated_v_dot4"  # emulates instructions of AMD and Arm: products of signed bytes, for tests
# OpenCL as a GPU, without and with the extension, and the CPU backend.
VARIANTS = ["gpu", *PACKED, "cpu"]
FORMS = ["int8", "int8:128:zeros", "int6:64:zeros", "int5:32", "int4", "int4:32", "int4:32:zeros", "int4:128:bf16"]
FORMS += ["int4:16", "int8:48:zeros"]
BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
BLOCKS += ["IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"]
BLOCKS += ["IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"]


class Product(torch.nn.Module):
    def __init__(self, k, dtype, bias, n=N):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(n, k, dtype=dtype), requires_grad=False)
        self.bias = torch.nn.Parameter(bias, requires_grad=False) if bias is not None else None

    def forward(self, x):
        return torch.nn.functional.linear(x, self.w, self.bias)


def stored(form, k, seed=0, n=N):
    """Returns the bytes of a weight, and its elements; n: rows of a weight in groups."""
    random = np.random.default_rng(seed)
    if form in BLOCKS:
        s = random_blocks(form, k, random)
        return s, gguf.dequantize(s.rows, gguf.GGMLQuantizationType[form])
    groups = parse(form)
    rows = groups.encode(random.uniform(-2, 2, (n, k)).astype(np.float32))
    return Stored(groups.table(), rows), group_values(groups, rows, k)


def exported(weight, k, dtype=torch.float32, bias=None):
    """Exports a product of x (m, k), with any number of rows."""
    x, sizes = torch.zeros(3, k, dtype=dtype), ({0: torch.export.Dim("m", min=1, max=4096)},)
    module = Product(k, dtype, bias, len(weight.rows))
    return clave.export(module, (x,), dynamic_shapes=sizes, quantize=lambda _name, _weight: weight, verify=False)


@pytest.fixture
def session(processes):
    """Opens sessions of a program: by default in fast precision on OpenCL as a GPU, checked strictly."""

    def open_session(program, variant="gpu", precision="fast", check="strict", kernels=None, **device):
        process = processes["cpu" if variant == "opencl as a CPU" else "gpu"]
        if variant == "cpu":
            device = {"device": "cpu"}
        env = {"CLAVE_ASM": variant if variant in (EXTENSION, SIGNED) else "0"}
        env |= {"CLAVE_PRECISION": precision, "CLAVE_SELF_CHECK": check}
        cache = "off" if kernels else os.environ.get("CLAVE_CACHE_DIR")
        return process.open(program, **device, **env, CLAVE_KERNEL_DIR=kernels, CLAVE_CACHE_DIR=cache)

    return open_session


def rounded(x):
    """Returns scales (m, groups) and integers (m, groups, 32), in f32 as base/rounded.h defines them."""
    x = np.asarray(x, np.float32)
    m, k = x.shape
    groups = np.zeros((m, -(-k // GROUP) * GROUP), np.float32)
    groups[:, :k] = x
    groups = groups.reshape(m, -1, GROUP)
    largest = np.abs(groups).max(-1)
    with np.errstate(all="ignore"):
        scales, inverse = largest / np.float32(127), np.float32(127) / largest
        tiny = scales < np.finfo(np.float32).tiny
        scales, inverse = np.where(tiny, np.float32(0), scales), np.where(tiny, np.float32(0), inverse)
        q = np.rint(groups * inverse[..., None])
    bad = ~np.isfinite(groups).all(-1)
    return np.where(bad, np.float32(np.nan), scales), np.where(bad[..., None], 0, q).astype(np.int64)


def rounded_rows(x):
    scales, q = rounded(x)
    return (scales.astype(np.float64)[..., None] * q).reshape(len(x), -1)[:, : x.shape[1]]


def parts_of(k):
    return -(-k // GROUP)


def assert_is_product_of_rounded(got, x, values, bias=0.0):
    """Checks results, allowing only f32 roundings of each group's sums, factors and total. An element may be the
    difference of a code and a zero, each as large as the range of its row."""
    rows, w = rounded_rows(x), values.astype(np.float64)
    terms = np.abs(w) + 2 * np.ptp(w, axis=1, keepdims=True)
    want, size = rows @ w.T + bias, np.abs(rows) @ terms.T + np.abs(bias)
    assert (np.abs(got - want) <= 2.0**-24 * (parts_of(x.shape[1]) + 8) * size + 1e-30).all()


def cost_of_rounding(x, values):
    """Returns the bound of base/rounded.h: for each group, its largest magnitude / 254 per weight."""
    m, k = x.shape
    padded = [np.zeros((len(a), parts_of(k) * GROUP)) for a in (x, values)]
    for p, a in zip(padded, (x, values), strict=True):
        p[:, :k] = np.abs(a)
    largest, sums = padded[0].reshape(m, -1, GROUP).max(-1), padded[1].reshape(len(values), -1, GROUP).sum(-1)
    return largest / 254 @ sums.T


def random_rows(m, k, seed=5):
    """Returns groups of different magnitudes, and one of zeros."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(m, k)) * np.repeat(random.uniform(0.01, 8, (m, parts_of(k))), GROUP, 1)[:, :k]
    x[m // 2, :GROUP] = 0
    return x.astype(np.float32)


def run(s, x):
    got = np.asarray(s.run(x)[0])
    again = np.asarray(s.run(x[::-1].copy())[0])[::-1]
    np.testing.assert_array_equal(np.asarray(s.run(x)[0]), got, "a third run")
    np.testing.assert_array_equal(again, got, "other rows, and back")
    return got


def same_bits(a, b):
    return np.array_equal(np.asarray(a).view(np.uint32), np.asarray(b).view(np.uint32))


@pytest.mark.parametrize("form", [*FORMS, *BLOCKS])
def test_every_form(form, session):
    k = 512 if form in BLOCKS else 224
    weight, values = stored(form, k)
    program, x = exported(weight, k), random_rows(7, k)
    s = session(program)
    for m in (1, 7):
        got = run(s, x[:m])
        assert_is_product_of_rounded(got, x[:m], values)
        strict = np.asarray(session(program, precision="strict").run(x[:m])[0])
        bound = cost_of_rounding(x[:m], values)
        assert (np.abs(got - strict) <= bound * (1 + 1e-4) + 1e-5).all()
        assert np.abs(got - strict).max() > 1e-4 * np.abs(strict).max(), "nothing was rounded"


@pytest.mark.parametrize("k", [1, 33, 1056])
@pytest.mark.parametrize("form", ["int8", "int4:32", "int4:64:zeros", "int4:48:zeros:f32", "int8:16"])
def test_variants_give_the_same_bits(form, k, session):
    weight, values = stored(form, k)
    program = exported(weight, k)
    sessions = [session(program, v) for v in (*VARIANTS, *[SIGNED] * (k == 33))]
    for m in (1, 2, 3, 6, 9):
        x = random_rows(m, k, seed=m)
        got = [run(s, x) for s in sessions]
        assert_is_product_of_rounded(got[0], x, values)
        assert all(same_bits(got[0], g) for g in got), [np.abs(got[0] - g).max() for g in got]


@pytest.mark.by_turn(33)
@pytest.mark.parametrize("form", ["Q8_0", "Q4_K", "Q6_K", "Q2_K"])
def test_variants_of_blocks_give_the_same_bits(form, session):
    weight, values = stored(form, 768)
    program = exported(weight, 768)
    sessions = [session(program, v) for v in VARIANTS]
    for m in (1, 4, 261):  # the last tile is partial
        x = random_rows(m, 768, seed=m)
        got = [run(s, x) for s in sessions]
        assert_is_product_of_rounded(got[0], x, values)
        assert all(same_bits(got[0], g) for g in got)


@pytest.mark.parametrize("form", ["int4:32", "int8:48:zeros", "Q4_1", "Q6_K"])
def test_groups_of_rows(form, session):
    """Each group's rows are rounded and multiplied as in a separate product; rows after the last group are zeros."""
    k = 512 if form in BLOCKS else 131
    weight, values = stored(form, k)
    weight = Stored(weight.encoding, weight.rows[:66])
    x, ends = random_rows(33, k), np.array([4, 4, 29], np.int32)
    program = clave.export(
        Experts(values[:66], False),
        (torch.from_numpy(x), torch.from_numpy(ends)),
        quantize=lambda _name, _weight: weight,
        verify=False,
    )
    got = [np.asarray(session(program, v).run(x, ends)[0]) for v in VARIANTS]
    assert all(same_bits(got[0], g) for g in got)
    for i, begin, end in ((0, 0, 4), (2, 4, 29)):
        assert_is_product_of_rounded(got[0][begin:end], x[begin:end], values[22 * i : 22 * i + 22])
    assert not got[0][29:].any()


def test_many_columns(session):
    """There are so many columns and rows that the CPU backend has several groups of panels; the last group is
    smaller."""
    columns = 1300 * min(os.cpu_count() or 1, 16) + 1
    weight, values = stored("int4:32:zeros", 288, n=columns)
    program = exported(weight, 288)
    sessions = [session(program, v) for v in VARIANTS]
    for m in (20, 131):
        x = random_rows(m, 288, seed=m)
        got = [np.asarray(s.run(x)[0]) for s in sessions]
        assert_is_product_of_rounded(got[0], x, values)
        assert all(same_bits(got[0], g) for g in got)


@pytest.mark.by_turn(11)
@pytest.mark.parametrize("variant", [*VARIANTS, SIGNED])
@pytest.mark.parametrize("form", ["int8:32:f32", "int4:32:f32"])
def test_exact_where_all_scales_are_powers_of_two(form, variant, session):
    """If all scales are powers of two, only rows are rounded, so the integers must be exact."""
    random, k, groups = np.random.default_rng(3), 160, parse(form)
    bits = groups.bits
    codes = random.integers(0, 2**bits, (N, k))
    scales = (2.0 ** random.integers(-2, 2, (N, k // 32))).astype(np.float32)
    rows = np.concatenate([groups._pack(codes.astype(np.uint8)), scales.view(np.uint8)], 1)
    x = random.integers(-127, 128, (9, k)).astype(np.float32)
    x[:, ::32] = 127  # scales of one
    x[3] *= 4
    program = exported(Stored(groups.table(), rows), k)
    got = run(session(program, variant), x)
    want = x.astype(np.int64) @ ((codes - 2 ** (bits - 1)) * np.repeat((scales * 4).astype(np.int64), 32, 1)).T
    np.testing.assert_array_equal(got.astype(np.float64) * 4, want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_16_bits(dtype, session):
    k, bias = 96, torch.linspace(-3, 3, N).to(dtype)
    weight, values = stored("int4:32", k)
    x = random_rows(5, k).astype(np.float16 if dtype == torch.float16 else ml_dtypes.bfloat16)
    got = session(exported(weight, k, dtype=dtype, bias=bias)).run(x)[0].astype(np.float32)
    rows, wide = rounded_rows(x.astype(np.float32)), bias.double().numpy()
    want = rows @ values.astype(np.float64).T + wide
    step = 2.0**-11 if dtype == torch.float16 else 2.0**-8
    assert (np.abs(got - want) <= step * np.abs(want) + 1e-5 * (np.abs(rows) @ np.abs(values).T)).all()


def test_batches_strides_and_a_bias(session):
    """Rows are not contiguous, and batches are not rows of one matrix."""

    class Batches(Product):
        def forward(self, x):
            return super().forward(x.transpose(1, 2)), super().forward(x[:, :, ::2].transpose(1, 2))

    k, bias = 64, torch.linspace(-2, 2, N)
    weight, values = stored("int8:32", k)
    x = torch.from_numpy(random_rows(3 * 10, k)).view(3, 10, k).transpose(1, 2).contiguous()
    program = clave.export(
        Batches(k, torch.float32, bias), (x,), quantize=lambda _n, _w: weight, verify=False, passes=[]
    )
    for variant in VARIANTS:
        for step, y in enumerate(session(program, variant).run(x.numpy()), 1):
            for rows, out in zip(x.transpose(1, 2), y, strict=True):
                assert_is_product_of_rounded(out, rows[::step].numpy(), values, bias.numpy())


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_that_are_not_finite_are_nan(variant, session):
    k = 96
    weight, values = stored("int4:32:zeros", k)
    s, x = session(exported(weight, k), variant), random_rows(8, k)
    x[1, 40], x[2, 0], x[3, 95], x[4] = np.nan, np.inf, -np.inf, np.nan
    x[5], x[6, :32], x[7, 32:] = 0, 1e-42, 1e36
    got = run(s, x)
    assert np.isnan(got[1:5]).all()
    assert (got[5] == 0).all()
    assert (rounded_rows(x[6:7])[0, :32] == 0).all(), "their scale would be subnormal"
    assert_is_product_of_rounded(got[[0, 6, 7]], x[[0, 6, 7]], values)


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_rows_and_one_column(variant, session):
    class One(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.linspace(-1, 1, 64).view(1, 64), requires_grad=False)

        def forward(self, x):
            return torch.nn.functional.linear(x, self.w)

    rows = torch.export.Dim("m", min=0, max=64)
    program = clave.export(One(), (torch.zeros(3, 64),), dynamic_shapes=({0: rows},), quantize="int8", verify=False)
    s = session(program, variant)
    assert s.run(np.zeros((0, 64), np.float32))[0].shape == (0, 1)
    x = random_rows(5, 64)
    np.testing.assert_allclose(s.run(x)[0], One()(torch.from_numpy(x)), atol=0.1)


# Compares fast products with strict ones, in a separate process: a device's class is fixed.
COMPARE = """
import os, sys, numpy as np, clave
x = np.load(sys.argv[2])
got = []
for precision in ("strict", "fast"):
    os.environ["CLAVE_PRECISION"] = precision
    got.append(np.asarray(clave.Session(sys.argv[1], sys.argv[3]).run(x)[0]))
print(np.abs(got[1] - got[0]).max() / np.abs(got[0]).max())
"""


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("device, device_class, rounds", [("cpu", "", 1), ("opencl", "gpu", 1), ("opencl", "cpu", 0)])
def test_where_rows_are_rounded(device, device_class, rounds, tmp_path):
    k = 256
    exported(stored("int8", k)[0], k).save(str(tmp_path / "m.clv"))
    np.save(tmp_path / "x.npy", random_rows(3, k))
    env = os.environ | {"PYTHONPATH": str(ROOT / "python"), "CLAVE_DEVICE_CLASS": device_class}
    args = [sys.executable, "-c", COMPARE, tmp_path / "m.clv", tmp_path / "x.npy", device]
    done = subprocess.run(args, env=env, capture_output=True, text=True, check=True)
    assert (float(done.stdout) > 1e-4) == rounds, done.stdout


def test_rows_that_something_else_of_the_node_reads(session):
    """A bias and operands of the epilogue are not rounded, neither by kernels nor by the self-check."""

    class Residual(Product):
        def forward(self, x):
            w = self.w.T
            return torch.addmm(x, x, w), torch.relu(x @ w + x) * x, constant @ w

    k = 64
    weight, values = stored("int8:32:f32", k)
    weight, values = Stored(weight.encoding, weight.rows[:k]), values[:k]
    x, constant = random_rows(4, k), torch.from_numpy(random_rows(5, k, seed=2))
    module = Residual(k, torch.float32, None)
    module.w = torch.nn.Parameter(torch.zeros(k, k), requires_grad=False)
    program = clave.export(
        module, (torch.from_numpy(x),), quantize=lambda _n, w: weight if w.shape == (k, k) else None, verify=False
    )
    assert all(m.op.b_transposed for m in instructions(program, "Matmul"))
    for variant in VARIANTS:
        biased, chain, third = session(program, variant).run(x)
        assert_is_product_of_rounded(biased, x, values, x)
        assert_is_product_of_rounded(third, constant.numpy(), values)
        rows = rounded_rows(x) @ values.astype(np.float64).T + x
        np.testing.assert_allclose(chain, np.maximum(rows, 0) * x, rtol=1e-5, atol=1e-4 * np.abs(rows).max())


# Planted faults in kernels.
FAULTS = {
    "offset": ("gemm/gemm_dots_pack.cl", ": LEAST * sum;", ": sum;"),
    "half of a part": (
        "gemm/gemm_dots_pack.cl",
        "store_words(q1, to + m * ROW_STEP + WORDS / 2 * WORD_STEP);",
        "store_words(q0, to + m * ROW_STEP + WORDS / 2 * WORD_STEP);",
    ),
    "rounding": ("gemm/gemm_dots_pack.cl", "rint(x1 * inverse)", "trunc(x1 * inverse)"),
    "scale": ("gemm/gemm_dots_pack.cl", "limit = as_uint(127.0f)", "limit = as_uint(126.0f)"),
    "panel of a tile": ("gemm/matmul_dots.cl", "min(panel + p, panels - 1)", "panel"),
    "scales of a round": ("gemm/gemv_dots.cl", "a + i / SPANS * TILE_WORDS", "a"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_self_check_notices(fault, tmp_path, session):
    """The self-check also rounds the rows for the CPU backend, so it detects faults smaller than the rounding
    errors."""
    file, right, wrong = FAULTS[fault]
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    text = (tmp_path / "kernels" / file).read_text()
    assert text.count(right) == 1
    (tmp_path / "kernels" / file).write_text(text.replace(right, wrong))
    weight, _ = stored("int8", 160)
    program, x, kernels = (
        exported(weight, 160),
        random_rows(9 if "tile" in fault else 5, 160),
        str(tmp_path / "kernels"),
    )
    with pytest.raises(clave.Error, match="the kernels of matmul compute wrong numbers on"):
        session(program, kernels=kernels).run(x)
    replaced = session(program, check="on", kernels=kernels, fallback=True).run(x)[0]
    right = session(program, "cpu").run(x)[0]
    np.testing.assert_allclose(replaced, right, rtol=1e-5, atol=1e-6 * np.abs(right).max())


@pytest.mark.skipif(not PACKED, reason="no device has cl_khr_integer_dot_product")
@pytest.mark.parametrize("function", ["dot_4x8packed_uu_uint", "no_such_function"])
def test_same_bits_where_the_extension_is_wrong(function, tmp_path, session):
    """The probe detects wrong products, and other kernels run."""
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    header = tmp_path / "kernels/support/add_dots.h"
    header.write_text(header.read_text().replace("dot_4x8packed_us_int", function))
    program, x = exported(stored("int8", 160)[0], 160), random_rows(5, 160)
    got = [session(program, v, kernels=str(tmp_path / "kernels")).run(x)[0] for v in (EXTENSION, "gpu", "cpu")]
    assert same_bits(got[0], got[1]) and same_bits(got[0], got[2])


def test_names_of_instructions(processes):
    program = exported(stored("int8", 32)[0], 32)
    names = "cl_khr_integer_dot_product, dot_4x8packed_ss_int, dp4a, v_dot4, .*mma_sync, .* or emulated_dpas_16"
    with pytest.raises(clave.Error, match=f"CLAVE_ASM: expected 0, {names}, got 'sse'"):
        processes["gpu"].open(program, CLAVE_ASM="sse")


# ---------------------------------------------------------------- weights of floats

PAIRS = "avx512_bf16" in FLAGS  # the CPU multiplies pairs of BF16; otherwise nothing is rounded
DEVICES = {"opencl as a CPU": False, "cpu": PAIRS}  # True if rows and weights are rounded


def narrow_product(k, weight, dtype=torch.float32, bias=None):
    """Returns a product of x (m, k) with a float weight, and its elements as f32."""
    random = np.random.default_rng(1)
    module = Product(k, weight, bias)
    module.w.copy_(torch.from_numpy(random.normal(size=(N, k)) * 2.0 ** random.integers(-4, 3, (N, 1))))
    if dtype != weight:
        module.forward = lambda x: torch.nn.functional.linear(x, module.w.to(dtype), bias)
    sizes = ({0: torch.export.Dim("m", min=1, max=4096)},)
    program = clave.export(module, (torch.zeros(3, k, dtype=dtype),), dynamic_shapes=sizes, verify=False)
    return program, module.w.float().numpy()


def to_bf16(x):
    return np.asarray(x, ml_dtypes.bfloat16).astype(np.float64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "k, weight", [(2, torch.bfloat16), (33, torch.float16), (640, torch.bfloat16), (33, torch.float32)]
)
def test_weights_of_floats(k, weight, device, session):
    program, w = narrow_product(k, weight)
    fast, strict = session(program, device), session(program, "cpu", precision="strict")
    for m in (1, 3, 33, 130):
        x = random_rows(m, k, seed=m)
        got, exact = run(fast, x), np.asarray(strict.run(x)[0])
        if not DEVICES[device]:  # the same products, added in another order
            assert (np.abs(got - exact) <= 2.0**-23 * (k + 8) * (np.abs(x) @ np.abs(w).T)).all()
            continue
        rows, columns = to_bf16(x), to_bf16(w)
        size = np.abs(rows) @ np.abs(columns).T
        assert (np.abs(got - rows @ columns.T) <= 2.0**-24 * (k + 8) * size).all()
        assert (np.abs(got - exact) <= 2.0**-7 * size).all()
        assert k == 2 or np.abs(got - exact).max() > 1e-4 * np.abs(exact).max(), "nothing was rounded"


@pytest.mark.parametrize("device", DEVICES)
def test_outer_products_are_not_rounded(device, session):
    """Products of f32 with small k, such as positions by frequencies, would not be faster."""
    program, _ = narrow_product(15, torch.float32)
    x = random_rows(40, 15)
    assert same_bits(session(program, device).run(x)[0], session(program, device, precision="strict").run(x)[0])


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("device", ["opencl", "cpu"])
@pytest.mark.parametrize("first, second", [("strict", "fast"), ("fast", "strict")])
def test_precisions_side_by_side(first, second, device, monkeypatch):
    """Sessions of one program share packed constants; each session has those of its precision."""
    program, _ = narrow_product(96, torch.float16)
    x, got, opened, sessions = random_rows(40, 96), {}, clave.Device(device), []
    for precision in (first, second, first):
        monkeypatch.setenv("CLAVE_PRECISION", precision)
        sessions.append(clave.Session(program, opened))  # packed weights live as long as a session has them
        got.setdefault(precision, []).append(run(sessions[-1], x))
    alone = narrow_product(96, torch.float16)[0]
    monkeypatch.setenv("CLAVE_PRECISION", second)
    assert same_bits(got[second][0], run(clave.Session(alone, device), x)) and same_bits(*got[first])
    np.testing.assert_allclose(got[first][0], got[second][0], rtol=0, atol=0.02 * np.abs(got[first][0]).max())


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_of_16_bits_by_weights_of_16_bits(dtype, device, session):
    k, bias = 97, torch.linspace(-3, 3, N).to(dtype)
    program, w = narrow_product(k, dtype, dtype, bias)
    x = random_rows(40, k).astype(np.float16 if dtype == torch.float16 else ml_dtypes.bfloat16)
    got = np.asarray(session(program, device).run(x)[0]).astype(np.float32)
    rounds = to_bf16 if DEVICES[device] else np.float64
    rows, columns = rounds(x.astype(np.float32)), rounds(w)
    want = rows @ columns.T + bias.double().numpy()
    step = 2.0**-11 if dtype == torch.float16 else 2.0**-8
    assert (np.abs(got - want) <= step * np.abs(want) + 1e-5 * (np.abs(rows) @ np.abs(columns).T)).all()


@pytest.mark.parametrize("device", DEVICES)
def test_what_else_reads_rows_of_pairs(device, session):
    """Strided rows are also a bias and an operand of an epilogue: they are not rounded there."""

    class Residual(torch.nn.Module):
        def __init__(self):
            super().__init__()
            w = torch.from_numpy(random.normal(size=(k, k))).to(torch.bfloat16)
            self.w = torch.nn.Parameter(w, requires_grad=False)

        def forward(self, x):
            w = self.w.float()
            return torch.addmm(x.T, x.T, w), torch.relu(x @ w + x) * x

    k, random = 34, np.random.default_rng(4)
    module, x = Residual(), random_rows(k, k)
    w = module.w.float().numpy()
    program = clave.export(module, (torch.from_numpy(x),), verify=False)
    biased, chain = session(program, device).run(x)
    rounds = to_bf16 if DEVICES[device] else np.float64
    np.testing.assert_allclose(biased, rounds(x.T) @ w + x.T, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(chain, np.maximum(rounds(x) @ w + x, 0) * x, rtol=1e-5, atol=1e-3)
