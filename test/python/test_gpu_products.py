"""Matrix products by each kernel for GPUs (docs/howto/tune.md: `matmul`), forced on OpenCL as a GPU, against f64; and
the probes of the instructions that some kernels use."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import clave

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))
from ci import classes, variants

TOOL = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")) / "clave"
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
TILES = [("local 64", "0"), ("local 128", "0"), ("direct", "0"), ("image", "0")]
UNITS = ("ldmatrix", "mma_sync", "mma_turing", "wmma_gfx11", "wmma_gfx12", "mfma", "dpas_8", "dpas_16")
BLOCKS = [(f"mma {tile}", "emulated_ldmatrix") for tile in (64, 128)]  # 16-bit operands
ROWS = ("row lanes", "row lanes 16", "row lanes 64")
COLUMNS = ("column lanes", "column lanes 4", "column lanes 16")
SUBGROUPS = any("subgroups" in d["extensions"] for d in clave.devices())
# m, k, n: partial tiles of all kernels, and rows that are whole texels of 16 bytes, or not.
SIZES = [(131, 75, 137), (133, 152, 136)]


class Products(nn.Module):
    """x (m, k) by weights of either order, and transposed; batches; a bias, scaled; a following step."""

    def __init__(self, k, n, dtype):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(n, k).to(dtype))
        self.columns = nn.Parameter(torch.randn(k, n).to(dtype))
        self.bias = nn.Parameter(torch.randn(n).to(dtype))

    def forward(self, x):
        t = torch.relu(x.t()).t()  # the optimiser would remove a mere copy
        by_rows = x @ self.rows.t()
        scaled = torch.addmm(self.bias, t, self.columns, alpha=0.5, beta=3)
        batches = torch.stack([x, x + x]) @ torch.stack([self.columns, self.columns])
        return by_rows, t @ self.rows.t(), x @ self.columns, scaled, batches, torch.relu(by_rows + self.bias)

    def in_f64(self, change):
        """Returns the same products in f64, with `change` applied to each operand."""
        copy = Products(*self.columns.shape, torch.float64)
        copy.load_state_dict({name: change(v.double()) for name, v in self.state_dict().items()})
        return lambda x: [y.detach() for y in copy(change(x.double()))]


def run(program, x, folder, variant, env, parts=None, family="matmul"):
    """Returns the results and the notes. x: the input, or all of them. parts: number of splits of k, or of keys."""
    program.save(folder / "m.clv")
    inputs = [x] if isinstance(x, torch.Tensor) else x
    save_file({f"input_{i}": x for i, x in enumerate(inputs)}, folder / "in.safetensors")
    env = os.environ | {"CLAVE_DEVICE_CLASS": "gpu", "CLAVE_SELF_CHECK": "off"} | env
    rows = [(family, variant)] if variant else []
    rows += [({"matmul": "matmul parts"}.get(family, f"{family} splits"), parts)] if parts else []
    with variants.forced(TOOL, "opencl", rows, env) as env:
        words = ["--inputs", "in.safetensors", "--outputs", "out.safetensors", "--device", "opencl", "--no-fallback"]
        done = subprocess.run([TOOL, "run", "m.clv", *words], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = load_file(folder / "out.safetensors")
    return [made[f"output_{i}"] for i in range(len(made))], done.stderr


def check(module, x, got, change=lambda v: v):
    """Compares with sums in f64, within the error of f32 sums in any order and the rounding of results."""
    dtype = x.dtype
    want, size = module.in_f64(change)(x), module.in_f64(lambda v: change(v).abs())(x)
    for g, w, s in zip(got, want, size, strict=True):
        assert g.dtype == dtype
        allowed = 2.0**-23 * (x.shape[1] + 8) * s + 2 * torch.finfo(dtype).eps * s
        assert ((g.double() - w).abs() <= allowed).all()


@pytest.mark.by_turn(60)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "variant, asm, dtype",
    [(*row, d) for row in TILES for d in (F32, F16, BF16)] + [(*row, d) for row in BLOCKS for d in (F16, BF16)],
    ids=lambda v: str(v).removeprefix("torch."),
)
def test_tiles(variant, asm, dtype, size, tmp_path):
    torch.manual_seed(0)
    m, k, n = size
    module, x = Products(k, n, dtype), torch.randn(m, k).to(dtype)
    program = clave.export(module, (x,), verify=False)
    got, _ = run(program, x, tmp_path, variant, {"CLAVE_ASM": asm})
    check(module, x, got)


@pytest.mark.by_turn(20)
@pytest.mark.parametrize("tile", [64, 128])
@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("unit", UNITS)
def test_units_for_matrices(unit, dtype, tile, tmp_path):
    """Shapes and fragments of each vendor's instruction, in OpenCL C. Turing's has no BF16: other kernels run."""
    torch.manual_seed(0)
    module, x = Products(75, 137, dtype), torch.randn(131, 75).to(dtype)
    program = clave.export(module, (x,), verify=False)
    got, said = run(program, x, tmp_path, f"mma {tile}", {"CLAVE_ASM": f"emulated_{unit}"})
    assert "does not work" not in said
    check(module, x, got)


@pytest.mark.parametrize("parts", ["1", "2"])
@pytest.mark.parametrize("variant, asm, dtype", [(*TILES[0], F32), (*BLOCKS[0], F16)])
def test_what_follows(variant, asm, dtype, parts, tmp_path):
    """Steps are part of the kernel that computes the last of the sums."""
    torch.manual_seed(4)
    module, x = nn.Sequential(nn.Linear(260, 70, dtype=dtype), nn.ReLU()), torch.randn(50, 260).to(dtype)
    program = clave.export(module.eval(), (x,), verify=False)
    (got,), _ = run(program, x, tmp_path, variant, {"CLAVE_ASM": asm}, parts)
    want = module.double()(x.double()).detach()
    assert torch.allclose(got.double(), want, rtol=4 * torch.finfo(dtype).eps, atol=1e-5 if dtype == F32 else 2e-3)


@pytest.mark.by_turn(8)
@pytest.mark.parametrize("parts", ["2", "4"])
@pytest.mark.parametrize("variant, asm, dtype", [(*TILES[0], F32), (*TILES[1], BF16), (*BLOCKS[0], F16)])
def test_parts(variant, asm, dtype, parts, tmp_path):
    """If there are few tiles, each of several groups adds some of the products."""
    torch.manual_seed(3)
    module, x = Products(531, 136, dtype), torch.randn(67, 531).to(dtype)
    program = clave.export(module, (x,), verify=False)
    got, _ = run(program, x, tmp_path, variant, {"CLAVE_ASM": asm}, parts)
    check(module, x, got)


@pytest.mark.parametrize("in_parts", ["0", "1"])
@pytest.mark.parametrize("blocks", ["F16", "BF16"])
def test_blocks_compile_for_nvidia(blocks, in_parts, tmp_path):
    """clang compiles them to PTX with the instruction, because no NVIDIA GPU is present."""
    types = [f"-D{name}_TYPE={blocks}" for name in ("A", "B", "OUT", "BIAS", "MMA")]
    more = ["-DON_CPU=0", "-DHAS_BIAS=1", "-DGROUPED=0", "-DCOMPUTE=F32", "-DMMA=1", f"-DIN_SPLITS={in_parts}"]
    target = ["-target", "nvptx64", "-Xclang", "-target-cpu", "-Xclang", "sm_80"]
    target += ["-Xclang", "-target-feature", "-Xclang", "+ptx70"]
    folders = [f"-I{ROOT / 'kernels_cl' / name}" for name in ("gemm", "support")]
    builtins = ["-Xclang", "-finclude-default-header", "-Xclang", "-cl-ext=+cl_khr_fp16", "-w"]
    command = ["clang", *target, "-x", "cl", "-cl-std=CL1.2", *builtins, *folders, *types, *more]
    done = subprocess.run(
        [*command, "-O1", "-S", "-o", "-", ROOT / "kernels_cl/gemm/gemm_mma.cl"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert f"mma.sync.aligned.m16n8k16.row.col.f32.{blocks.lower()}" in done.stdout


@pytest.mark.by_turn(8)
@pytest.mark.parametrize("variant", ["mma 64", "mma 128"])
@pytest.mark.parametrize("unit", ["ldmatrix", "dpas_8"])
def test_blocks_of_rounded_floats(unit, variant, tmp_path):
    """In fast precision, f32 operands are rounded to BF16."""
    torch.manual_seed(1)
    module, x = Products(40, 70, F32), torch.randn(66, 40)
    program = clave.export(module, (x,), verify=False)
    got, _ = run(program, x, tmp_path, variant, {"CLAVE_ASM": f"emulated_{unit}", "CLAVE_PRECISION": "fast"})
    rounded = module.in_f64(lambda v: v.to(BF16).double())(x)
    strict = module.in_f64(lambda v: v)(x)
    assert (got[0].double() - rounded[0]).abs().max() < 1e-4 < (got[0].double() - strict[0]).abs().max()


HALVES = {"CLAVE_ASM": "emulated_cl_khr_fp16", "CLAVE_PRECISION": "fast"}
# The largest error of sums of 16 products in halves, and of their rounded operands, as a share of the products' sizes.
LOST = (16 + 2 + 1) / 2048


def check_halves(x, weight, got):
    """Compares x @ weight.t() with sums in f64, within the error of halves scaled by row and by column. At least one
    element has an error that f32 sums do not have, so halves were used."""
    x, weight = x.double(), weight.double()
    size = x.abs() @ weight.abs().t()
    small = x.abs().amax(1, keepdim=True) * weight.abs().amax(1) * x.shape[1] * 2.0**-28 + 2.0**-126
    error = (got.double() - x @ weight.t()).abs()
    assert (error <= LOST * size + small).all()
    assert (error > 2.0**-18 * size).any()


@pytest.mark.by_turn(6)
@pytest.mark.parametrize("variant", ["direct", "direct 4", "image"])
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_halves(variant, dtype, tmp_path):
    """In fast precision, sums of up to 16 products are halves where these are faster."""
    torch.manual_seed(5)
    m, k, n = SIZES[0]
    module, x = Products(k, n, dtype), torch.randn(m, k).to(dtype)
    got, said = run(clave.export(module, (x,), verify=False), x, tmp_path, variant, HALVES)
    assert not said
    want, size = (module.in_f64(change)(change(x)) for change in (lambda v: v, lambda v: v.abs()))
    for i, (g, w, s) in enumerate(zip(got, want, size, strict=True)):
        error = (g.double() - w).abs() - 2 * torch.finfo(dtype).eps * s
        constant = i != 4  # a stack of weights is not
        assert (error <= LOST * s).all()
        assert dtype != F32 or (error > 2.0**-18 * s).any() == constant


def test_halves_of_any_magnitude(tmp_path):
    """Operands that halves cannot hold, of which some rows and columns have only such elements, are as exact."""
    torch.manual_seed(6)
    module, x = nn.Linear(4096, 70, bias=False), torch.randn(40, 4096)
    for i, (large, small) in enumerate([(1e-30, 1e-4), (1e-6, 1e-30), (7e4, 7e4), (1e20, 1e-6), (1e25, 1e7)]):
        x[i] *= large
        x[i + 5, ::3] *= large
        module.weight.data[i] *= small
        module.weight.data[i + 5, ::5] *= small
    x[10], module.weight.data[10] = 0, 0
    x[11], module.weight.data[11] = x[11].abs(), module.weight.data[11].abs()
    x[12] = 1e-41  # subnormal
    program = clave.export(module, (x,), verify=False)
    (got,), _ = run(program, x, tmp_path, "direct", HALVES | {"CLAVE_SELF_CHECK": "strict"})
    normal = torch.arange(40) != 12
    check_halves(x[normal], module.weight.detach(), got[normal])
    assert (got[12].abs() <= 1e-35 * module.weight.detach().abs().sum(1)).all()
    assert (got[10] == 0).all() and (got[:, 10] == 0).all()


def test_halves_that_are_not_finite(tmp_path):
    torch.manual_seed(7)
    module, x = nn.Linear(100, 70, bias=False), torch.randn(40, 100)
    x[1, 5], x[2, 7], x[3, 9] = torch.inf, -torch.inf, torch.nan
    x[4, 1], x[4, 2] = torch.inf, 1e38
    module.weight.data[3, 8] = torch.inf
    (got,), _ = run(clave.export(module, (x,), verify=False), x, tmp_path, "direct", HALVES)
    want = x @ module.weight.detach().t()
    assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got[want.isinf()], want[want.isinf()])
    finite = torch.ones(70, dtype=torch.bool)
    finite[3] = False
    check_halves(x[5:], module.weight.detach()[finite], got[5:, finite])


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("env", [{"CLAVE_PRECISION": "strict"}, {"CLAVE_ASM": "0"}, {"wrong": "1 + FMA("}])
def test_halves_are_not_used(env, tmp_path):
    """Strict precision, a user's choice and a probe with wrong results exclude them."""
    module, x = Products(40, 70, F32), torch.randn(66, 40)
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    header = tmp_path / "kernels/support/halves.h"
    text, right = header.read_text(), "round_to_halves(FMA("
    assert text.count(right) == 1
    header.write_text(text.replace(right, "round_to_halves(" + env.pop("wrong", "FMA(")))
    env = HALVES | {"CLAVE_KERNEL_DIR": str(tmp_path / "kernels")} | env
    got, said = run(clave.export(module, (x,), verify=False), x, tmp_path, "direct", env)
    assert ("the instruction emulated_cl_khr_fp16 does not work" in said) == ("1 + FMA(" in header.read_text())
    check(module, x, got)


def test_blocks_round_nothing_in_strict_precision(tmp_path):
    module, x = Products(40, 70, F32), torch.randn(66, 40)
    got, _ = run(clave.export(module, (x,), verify=False), x, tmp_path, "mma", {"CLAVE_ASM": "emulated_ldmatrix"})
    check(module, x, got)


@pytest.mark.by_turn(60)
@pytest.mark.parametrize("m", [1, 3, 7])
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("by_rows, by_columns", list(zip(ROWS, COLUMNS, strict=True)))
def test_few_rows(by_rows, by_columns, dtype, m, tmp_path):
    torch.manual_seed(2)
    for k, n in [(520, 72), (77, 67)]:
        module, x = Products(k, n, dtype), torch.randn(m, k).to(dtype)
        program = clave.export(module, (x,), verify=False)
        for variant in (by_rows, by_columns):
            check(module, x, run(program, x, tmp_path, variant, {})[0])


@pytest.mark.by_turn(8)
@pytest.mark.parametrize("variant", ["direct", "image"])
def test_words_that_no_buffer_holds(variant, tmp_path):
    """A constant's words may exceed a buffer: then another kernel multiplies."""
    stub = classes.DeviceClass("", classes.STUB | {"CLAVE_STUB_MAX_ALLOC": "500000"})
    k, n = 40000, 5  # 400 kB of F16; 640 kB of words of 8
    weight, x = nn.Linear(k, n, bias=False, dtype=F16), torch.randn(4, k).to(F16)
    program = clave.export(weight, (x,), verify=False)
    (got,), _ = run(program, x, tmp_path, variant, classes.environment(stub, TOOL.parent))
    want = weight.double()(x.double()).detach()
    assert torch.allclose(got.double(), want, rtol=2e-3, atol=2e-3)


@pytest.mark.by_turn(8)
@pytest.mark.parametrize("wrong", ["c[i] = no_such_function(", "c[i] = 1 + FMA("])
def test_an_instruction_that_is_wrong(wrong, tmp_path):
    """The probe detects wrong products, and other kernels run."""
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    header, right = tmp_path / "kernels/support/mma.h", "c[i] = FMA("
    text = header.read_text()
    assert text.count(right) == 1
    header.write_text(text.replace(right, wrong))
    env = {"CLAVE_ASM": "emulated_mma_sync", "CLAVE_KERNEL_DIR": str(tmp_path / "kernels")}
    module, x = Products(20, 33, BF16), torch.randn(40, 20).to(BF16)
    got, said = run(clave.export(module, (x,), verify=False), x, tmp_path, "mma", env)
    assert "the instruction emulated_mma_sync does not work on" in said
    check(module, x, got)


@pytest.mark.by_turn(4)
@pytest.mark.parametrize(
    ("right", "wrong"), [("", ""), ("w ^ 0x80808080u", "w"), ("add_small_dot(0,", "no_such_function(0,")]
)
def test_products_of_signed_bytes(right, wrong, tmp_path):
    """They have the bits of products byte by byte, also where the probe detects that they are wrong."""
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    header = tmp_path / "kernels/support/add_dots.h"
    text = header.read_text()
    assert not right or text.count(right) == 1
    header.write_text(text.replace(right, wrong))
    env = {"CLAVE_PRECISION": "fast", "CLAVE_KERNEL_DIR": str(tmp_path / "kernels")}
    module, x = nn.Linear(64, 33), 100 * torch.randn(5, 64)
    program = clave.export(module, (x,), quantize="int8", verify=False)
    (got,), said = run(program, x, tmp_path, None, env | {"CLAVE_ASM": "emulated_v_dot4"})
    (by_bytes,), _ = run(program, x, tmp_path, None, env | {"CLAVE_ASM": "0"})
    assert ("the instruction emulated_v_dot4 does not work on" in said) == bool(right)
    assert torch.equal(got, by_bytes)


@pytest.mark.by_turn(8)
@pytest.mark.parametrize(
    ("helper", "reason"),
    [(TOOL, "crashed (signal 11)"), ("off", "ended while the driver had it")],
    ids=["child", "mark"],
)
def test_an_instruction_that_crashes_the_driver(helper, reason, tmp_path):
    """A child process tries the instruction, or a mark of a crashed process remains. Other kernels then run."""
    env = os.environ | classes.environment(classes.DeviceClass("", classes.STUB), TOOL.parent.resolve())
    env |= {"CLAVE_ISOLATION": "on", "CLAVE_HELPER": str(helper), "CLAVE_CACHE_DIR": str(tmp_path / "cache")}
    env |= {"CLAVE_STUB_HARM": "segv clEnqueueNDRangeKernel mma_probe", "CLAVE_ASM": "emulated_mma_sync"}
    module, x = nn.Linear(20, 33, bias=False, dtype=BF16), torch.randn(40, 20).to(BF16)
    clave.export(module, (x,), verify=False).save(tmp_path / "m.clv")
    save_file({"input_0": x}, tmp_path / "in.safetensors")
    words = ["--inputs", "in.safetensors", "--outputs", "out.safetensors", "--device", "opencl"]
    command, env = [TOOL, "run", "m.clv", *words], env | {"CLAVE_DEVICE_CLASS": "gpu"}
    for expected in (0, 0) if helper == TOOL else (-11, 0):
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert done.returncode == expected, done.stderr
        assert expected or ("instruction emulated_mma_sync does not work" in done.stderr and reason in done.stderr)
    got = load_file(tmp_path / "out.safetensors")["output_0"].double()
    assert torch.allclose(got, module.double()(x.double()).detach(), rtol=2e-2, atol=2e-2)
    (mark,) = (tmp_path / "cache").glob("*.mark")
    assert "kernel mma_probe of mma_probe.cl" in mark.read_text()


@pytest.mark.by_turn(3)
@pytest.mark.skipif(not SUBGROUPS, reason="no device has sub-groups")
@pytest.mark.parametrize("function", ["sub_group_reduce_add", "sub_group_reduce_max", "no_such_function"])
def test_sums_of_subgroups(function, tmp_path):
    """If sub-groups are wrong, kernels use local memory instead."""
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    for name in ("gemm/gemv_lanes.cl", "support/subgroups_probe.cl"):
        file = tmp_path / "kernels" / name
        file.write_text(file.read_text().replace("sub_group_reduce_add", function))
    torch.manual_seed(3)
    module, x = Products(600, 40, F32), torch.randn(2, 600)
    env = {"CLAVE_ASM": "subgroups", "CLAVE_KERNEL_DIR": str(tmp_path / "kernels")}
    got, said = run(clave.export(module, (x,), verify=False), x, tmp_path, "row lanes 64", env)
    assert ("the instruction subgroups does not work" in said) == (function != "sub_group_reduce_add")
    check(module, x, got)
