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
BLOCKS = [("mma 64", "mma_local"), ("mma 128", "mma_local")]  # 16-bit operands
ROWS = ("row lanes", "row lanes 16", "row lanes 64")
COLUMNS = ("column lanes", "column lanes 4", "column lanes 16")
SUBGROUPS = any("subgroups" in d["extensions"] for d in clave.devices())
# Edges of all tiles, and rows that are whole words of 16 bytes or not.
SIZES = [(131, 75, 137), (133, 152, 136)]


class Products(nn.Module):
    """x (m, k) by weights of either order, and transposed; batches; a bias, scaled; a following step."""

    def __init__(self, k, n, dtype):
        super().__init__()
        self.rows = nn.Parameter(torch.randn(n, k).to(dtype))
        self.columns = nn.Parameter(torch.randn(k, n).to(dtype))
        self.bias = nn.Parameter(torch.randn(n).to(dtype))

    def forward(self, x):
        t = x.t().contiguous().t()
        by_rows = x @ self.rows.t()
        scaled = torch.addmm(self.bias, t, self.columns, alpha=0.5, beta=3)
        batches = torch.stack([x, x + x]) @ torch.stack([self.columns, self.columns])
        return by_rows, t @ self.rows.t(), x @ self.columns, scaled, batches, torch.relu(by_rows + self.bias)

    def in_f64(self, change):
        """Returns the same products in f64, with `change` applied to each operand."""
        copy = Products(*self.columns.shape, torch.float64)
        copy.load_state_dict({name: change(v.double()) for name, v in self.state_dict().items()})
        return lambda x: [y.detach() for y in copy(change(x.double()))]


def run(program, x, folder, variant, env, parts=None):
    """Returns the results and the notes. parts: number of splits of k."""
    program.save(folder / "m.clv")
    save_file({"input_0": x}, folder / "in.safetensors")
    env = os.environ | {"CLAVE_DEVICE_CLASS": "gpu", "CLAVE_SELF_CHECK": "off"} | env
    rows = [("matmul", variant)] if variant else []
    rows += [("matmul parts", parts)] if parts else []
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
    more = ["-DON_CPU=0", "-DHAS_BIAS=1", "-DGROUPED=0", "-DCOMPUTE=F32", "-DMMA=1", f"-DIN_PARTS={in_parts}"]
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
def test_blocks_of_rounded_floats(variant, tmp_path):
    """In fast precision, f32 operands are rounded to BF16."""
    torch.manual_seed(1)
    module, x = Products(40, 70, F32), torch.randn(66, 40)
    program = clave.export(module, (x,), verify=False)
    got, _ = run(program, x, tmp_path, variant, {"CLAVE_ASM": "mma_local", "CLAVE_PRECISION": "fast"})
    rounded = module.in_f64(lambda v: v.to(BF16).double())(x)
    strict = module.in_f64(lambda v: v)(x)
    assert (got[0].double() - rounded[0]).abs().max() < 1e-4 < (got[0].double() - strict[0]).abs().max()


def test_blocks_round_nothing_in_strict_precision(tmp_path):
    module, x = Products(40, 70, F32), torch.randn(66, 40)
    got, _ = run(clave.export(module, (x,), verify=False), x, tmp_path, "mma", {"CLAVE_ASM": "mma_local"})
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
@pytest.mark.parametrize("wrong", ["c[i] = no_such_function(", "c[i] = 1 + fma("])
def test_an_instruction_that_is_wrong(wrong, tmp_path):
    """The probe detects it, and other kernels run."""
    shutil.copytree(ROOT / "kernels_cl", tmp_path / "kernels")
    header, right = tmp_path / "kernels/mma.h", "c[i] = fma("
    text = header.read_text()
    assert text.count(right) == 1
    header.write_text(text.replace(right, wrong))
    env = {"CLAVE_ASM": "mma_local", "CLAVE_KERNEL_DIR": str(tmp_path / "kernels")}
    module, x = Products(20, 33, BF16), torch.randn(40, 20).to(BF16)
    got, said = run(clave.export(module, (x,), verify=False), x, tmp_path, "mma", env)
    assert "the instruction mma_local does not work on" in said
    check(module, x, got)


@pytest.mark.by_turn(3)
@pytest.mark.skipif(not SUBGROUPS, reason="no device has sub-groups")
@pytest.mark.parametrize("function", ["sub_group_reduce_add", "sub_group_reduce_max", "no_such_function"])
def test_sums_of_subgroups(function, tmp_path):
    """If they are wrong, local memory replaces them."""
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
