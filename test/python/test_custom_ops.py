"""Custom ops: kernels in a program must equal their reference, and a kernel that does not is replaced."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from _custom import (
    WAVE,
    WAVE_SOURCE,
    custom_op,
    elementwise,
    expected_wave,
    register_wave,
    session,
    wave_program,
    where,
)
from _export import Fn
from safetensors.numpy import save_file

import clave

pytestmark = pytest.mark.by_turn(17)

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")) / "clave"


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Makes a finding of the self-check an error, unless a test checks its consequences."""
    monkeypatch.setenv("CLAVE_SELF_CHECK", "strict")


@pytest.fixture
def moved(monkeypatch):
    monkeypatch.setenv("CLAVE_SELF_CHECK", "on")


def same_on_both(module, *argss, program=None, **more):
    """Compares kernels and references with eager; returns the session, which must not have moved any."""
    program = program or clave.export(module, argss[0], verify=True, **more)
    on_device = session(program)
    for args in argss:
        want = module(*args)
        for s in (clave.Session(program, "cpu"), on_device, on_device):
            torch.testing.assert_close(s(*args), want, rtol=1e-4, atol=1e-5)
    assert {w for w, _ in where(on_device)} == {"opencl"}
    return on_device


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("name", ["m.clv", "m.json"])
def test_a_program_carries_it(tmp_path, name):
    register_wave()
    wave_program(verify=True).save(tmp_path / name)
    program = clave.load(tmp_path / name)
    for rows in (3, 1, 64, 0):
        x = torch.randn(rows, 4)
        for s in (clave.Session(program, "cpu"), session(program)):
            torch.testing.assert_close(s(x), expected_wave(x))


def test_it_is_refused_unless_allowed():
    register_wave()
    program = wave_program()
    allowed = session(program)
    assert where(allowed) == [("opencl", None)]
    with pytest.raises(
        clave.Error, match=r"check::wave cannot run here: .*allow_custom_kernels.*\(custom, wave\)"
    ) as e:
        clave.Session(program, "opencl")
    assert e.value.code == clave.Code.UNSUPPORTED
    device = clave.Device("opencl")
    _held = clave.Session(program, device, allow_custom_kernels=True)
    with pytest.raises(clave.Error, match="allow_custom_kernels"):
        clave.Session(program, device)
    places = {p.op: p for p in clave.Device("opencl").supported(program)}
    assert places["custom"].where == "none" and not places["custom"].supported
    places = {p.op: p for p in clave.Device("opencl").supported(program, allow_custom_kernels=True)}
    assert places["custom"].where == "opencl" and places["custom"].supported
    places = {p.op: p for p in clave.Device("cpu").supported(program)}
    assert places["custom"].where == "reference" and "OpenCL" in places["custom"].reason


def split(
    x: torch.Tensor, scale: float, shift: int, negate: bool, bias: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    y = (-x if negate else x) * scale + bias
    return y, y.sum(1) + shift


SPLIT = custom_op(
    "check::split",
    split,
    lambda x, scale, shift, negate, bias: (x.new_empty(x.shape), x.new_empty(x.shape[0])),
    "(Tensor x, float scale, int shift, bool negate, Tensor bias) -> (Tensor, Tensor)",
)
SPLIT_SOURCE = """
#define SIGN(negate) ((negate) ? -1.0f : 1.0f)
kernel void split(const int negate, float scale, global const float *bias, global const float *x, global float *out1,
                  global float *out0, long shift, int rows, int columns, local float *partial) {
  local float total;
  const int row = get_group_id(1), lane = get_local_id(0), lanes = get_local_size(0);
  float sum = 0.0f;
  for (int i = lane; i < columns; i += lanes) {
    const float y = SIGN(negate) * x[row * columns + i] * scale + bias[i];
    out0[row * columns + i] = y;
    sum += y;
  }
  partial[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane == 0) {
    total = 0.0f;
    for (int i = 0; i < lanes; i++) total += partial[i];
    out1[row] = total + (float)shift;
  }
}
"""


@pytest.mark.parametrize("negate", [False, True])
def test_several_results_numbers_and_local_memory(negate):
    clave.register_op(
        SPLIT,
        clave.Kernel(
            SPLIT_SOURCE,
            grid=lambda x: (16, x.shape[0]),
            local=16,
            values={"rows": lambda x: x.shape[0], "columns": lambda x: x.shape[1]},
            local_memory={"partial": 16},
        ),
    )

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("bias", torch.randn(37))

        def forward(self, x):
            y, total = SPLIT(x[1:], 0.5, 7, negate, self.bias)
            z, other = SPLIT(y.flip(0).contiguous()[:, :37], 1.5, -7, not negate, self.bias)
            return y, total, z * other[:, None]

    rows = torch.export.Dim("rows", min=3, max=50)
    model = Model().eval()
    same_on_both(model, (torch.randn(9, 37),), (torch.randn(5, 37),), dynamic_shapes=({0: rows},))


def twice(x: torch.Tensor) -> torch.Tensor:
    return x + x if x.dtype != torch.bool else x.clone()


TWICE = custom_op("check::twice", twice)
TWICE_SOURCE = """
kernel void twice(global const x_type *x, global out_type *out, long n) {
  const long i = get_global_id(0);
  if (i >= n) return;
#if HALF
  vstore_half(vload_half(i, x) * 2, i, out);
#elif BRAIN
  out[i] = x[i] + (x[i] << 1 ? 0x80 : 0);
#elif TRUTH
  out[i] = x[i];
#else
  out[i] = x[i] + x[i];
#endif
}
"""


@pytest.mark.parametrize(
    ("dtype", "macro"),
    [
        (torch.float32, ""),
        (torch.float16, "HALF"),
        (torch.bfloat16, "BRAIN"),
        (torch.float64, ""),
        (torch.int8, ""),
        (torch.uint8, ""),
        (torch.int16, ""),
        (torch.int32, ""),
        (torch.int64, ""),
        (torch.bool, "TRUTH"),
    ],
)
def test_dtypes(dtype, macro):
    source = (f"#define {macro} 1\n" if macro else "") + TWICE_SOURCE
    clave.register_op(TWICE, elementwise(source))
    x = torch.randint(0, 2, (5, 7)).bool() if dtype == torch.bool else torch.randint(1, 50, (5, 7)).to(dtype)
    same_on_both(Fn(lambda x: TWICE(x)), (x,))


def test_the_first_kernel_for_a_device_and_dtype_is_taken():
    kernels = [
        elementwise(TWICE_SOURCE.replace("x_type", "int").replace("out_type", "int")),
        elementwise("#error not for this device\n" + TWICE_SOURCE, device="gpu"),
        elementwise(TWICE_SOURCE, device="cpu"),
    ]
    clave.register_op(TWICE, *kernels)
    program = clave.export(Fn(lambda x: TWICE(x)), (torch.ones(3),))
    (op,) = [i.op for c in program.schema.chains for i in c.instructions if type(i.op).__name__ == "Custom"]
    assert [k.device.name for k in op.kernels] == ["gpu", "cpu"]
    if clave.Device("opencl").supported(program, allow_custom_kernels=True)[0].where == "opencl":
        assert session(program)(torch.ones(3)).tolist() == [2, 2, 2]


def test_a_device_without_a_kernel_runs_the_reference():
    kinds = {d["type"] for d in clave.devices() if d["kind"] == "opencl"}
    clave.register_op(TWICE, elementwise(TWICE_SOURCE, device="gpu" if "CPU" in kinds else "cpu"))
    program = clave.export(Fn(lambda x: TWICE(x) * 2), (torch.ones(3),))
    s = clave.Session(program, "opencl")  # the custom op itself would not run
    assert s(torch.ones(3)).tolist() == [4, 4, 4]
    assert where(s) == [("reference", "the custom op has no kernel for devices of this type")]


def test_operands_lie_anywhere():
    """Views become contiguous, and a kernel's pointer is the tensor's first element."""
    register_wave()

    def f(x, y):
        return WAVE(x.mT[2:, 1:], 1.5), WAVE(y[3], -1.0), WAVE(y[1:], 2.0).sum(), WAVE(y[0, 0], 4.0)

    same_on_both(Fn(f), (torch.randn(5, 9), torch.randn(4, 3, 2)))


def test_inside_control_flow():
    register_wave()

    def f(x, p):
        one = torch.cond(p, lambda x: (WAVE(x, 2.0),), lambda x: (x + 1,), (x,))[0]
        _, many = torch._higher_order_ops.scan(lambda c, v: (WAVE(c, 1.5), WAVE(v, 0.5) + c), x[0] + 0, x)
        return one, many

    same_on_both(Fn(f), (torch.randn(4, 3), torch.tensor(True)), (torch.randn(4, 3), torch.tensor(False)))


@pytest.mark.parametrize("passes", [(), None])
def test_passes_keep_it(passes):
    """References are rewritten like other nodes; a call on constants stays a call."""
    register_wave()
    module = Fn(lambda x: WAVE(torch.ones(4), 2.0) + WAVE(x * 1 + 0, 3.0).permute(1, 0).permute(1, 0))
    same_on_both(module, (torch.randn(2, 4),), passes=passes)


def test_a_reference_of_views_constants_and_sizes():
    """The self-check runs it node by node on the CPU backend."""
    table = torch.randn(6)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.mT.reshape(-1)[: 2 * x.shape[0]] * table.new_ones(1)
        y = y.clone()
        y[1:3] = x.shape[0]
        return torch.nn.functional.layer_norm(y.view(2, -1).mT, (2,)).cumsum(0)

    op = custom_op("check::viewing", f, lambda x: x.new_empty(x.shape[0], 2))
    clave.register_op(
        op,
        clave.Kernel(
            """
            kernel void viewing(global const float *x, global float *out, int rows, int columns) {
              if (get_global_id(0)) return;
              float s0 = 0, s1 = 0;
              for (int i = 0; i < rows; i++) {
                float v[2];
                for (int k = 0; k < 2; k++) {
                  const int at = k * rows + i;
                  v[k] = at == 1 || at == 2 ? rows : x[at % rows * columns + at / rows];
                }
                const float mean = (v[0] + v[1]) / 2, d = v[0] - mean, r = rsqrt(d * d + 1e-5f);
                s0 += (v[0] - mean) * r;
                s1 += (v[1] - mean) * r;
                out[2 * i] = s0;
                out[2 * i + 1] = s1;
              }
            }
            """,
            grid=1,
            local=1,
            values={"rows": lambda x: x.shape[0], "columns": lambda x: x.shape[1]},
        ),
    )
    rows = torch.export.Dim("rows", min=2, max=50)
    same_on_both(
        Fn(f),
        (torch.randn(5, 3),),
        program=clave.export(Fn(op), (torch.randn(4, 3),), dynamic_shapes={"args": ({0: rows},)}, verify=True),
    )


def test_what_a_program_does_not_know_of_its_kernels_is_not_mixed_up():
    """Two programs have a kernel of the same name on one device."""
    device, x = clave.Device("opencl"), torch.randn(3, 4)
    for factor in (2, 5):
        op = custom_op(f"check::scaled{factor}", lambda x, factor=factor: x * factor)
        source = "kernel void f(global const float *x, global float *out, long n) {"
        clave.register_op(
            op, elementwise(source + f"long i = get_global_id(0); if (i < n) out[i] = x[i] * {factor}; }}")
        )
        s = clave.Session(clave.export(Fn(op), (x,)), device, allow_custom_kernels=True)
        torch.testing.assert_close(s(x), x * factor)
        assert where(s) == [("opencl", None)]


# ---------------------------------------------------------------- kernels that are wrong


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Uses a cache in which no kernel has passed the self-check."""
    monkeypatch.setenv("CLAVE_CACHE_DIR", str(tmp_path / "cache"))


def run_tool(*args, **env):
    p = subprocess.run([TOOL, *args], capture_output=True, text=True, env=os.environ | env)
    return p.returncode, p.stdout, p.stderr


def saved(tmp_path, source):
    register_wave(source)
    path = tmp_path / "m.clv"
    wave_program().save(path)
    np.save(tmp_path / "x.npy", np.ones((3, 4), np.float32))
    return str(path), "--input", f"args_0={tmp_path / 'x.npy'}"


def test_a_kernel_that_does_not_build(tmp_path, moved):
    source = WAVE_SOURCE.replace("squash(x[i])", "squeeze(x[i])")
    m = saved(tmp_path, source)
    code, _, err = run_tool("run", *m, "--device", "opencl", "--allow-custom-kernels")
    assert code == 0 and re.search(r"check::wave cannot run on .*squeeze.*; its reference runs instead", err)
    s = session(clave.load(m[0]))
    x = torch.randn(3, 4)
    torch.testing.assert_close(s(x), expected_wave(x))
    (place,) = where(s)
    assert place[0] == "reference" and "squeeze" in place[1]
    code, _, err = run_tool("run", *m, "--device", "opencl", "--allow-custom-kernels", CLAVE_SELF_CHECK="strict")
    assert code == 1 and "squeeze" in err


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("* a;", "* a + 1;"), ("if (i < n)", "if (i < n - 1)")],
    ids=["wrong numbers", "an element that is not written"],
)
def test_a_kernel_that_gives_wrong_numbers(tmp_path, moved, own_cache, right, wrong):
    m = saved(tmp_path, WAVE_SOURCE.replace(right, wrong))
    code, _, err = run_tool("run", *m, "--device", "opencl", "--allow-custom-kernels")
    assert code == 0 and re.search(
        r"check::wave computes wrong numbers on .* differ.*; its reference runs instead", err
    )
    for fallback in (False, True):
        s = clave.Session(clave.load(m[0]), clave.Device("opencl", fallback=fallback), allow_custom_kernels=True)
        x = torch.randn(3, 4)
        for _ in range(2):
            torch.testing.assert_close(s(x), expected_wave(x))
        assert where(s) == [("reference", "the kernels of this op computed wrong numbers on this device")]
    code, _, err = run_tool("run", *m, "--device", "opencl", "--allow-custom-kernels", CLAVE_SELF_CHECK="strict")
    assert code == 1 and "the kernels of check::wave compute wrong numbers" in err


@pytest.mark.parametrize(("wrong", "where_"), [("out[i] = out[n] =", "after"), ("out[i] = out[-1] =", "before")])
def test_a_kernel_that_lies_about_its_shape(tmp_path, own_cache, wrong, where_):
    m = saved(tmp_path, WAVE_SOURCE.replace("out[i] =", wrong))
    code, _, err = run_tool("run", *m, "--device", "opencl", "--allow-custom-kernels")
    assert code == 1
    assert f"the kernel of check::wave writes {where_} its result (F32 (3, 4))" in err
    assert len(err.strip().splitlines()) == 1


def test_command_line(tmp_path):
    m = saved(tmp_path, WAVE_SOURCE)
    code, _, err = run_tool("run", *m, "--device", "opencl")
    assert code == 1 and "allow_custom_kernels" in err
    assert run_tool("run", *m, "--device", "opencl", "--allow-custom-kernels")[0] == 0
    assert run_tool("run", *m, "--device", "cpu")[0] == 0
    tensors = tmp_path / "x.safetensors"
    x = torch.ones(3, 4)
    save_file({"input_0": x.numpy(), "output_0": expected_wave(x).numpy()}, tensors)
    verify = "verify", m[0], "--reference", str(tensors), "--device", "opencl"
    code, out, err = run_tool(*verify, "--allow-custom-kernels")
    assert code == 0, out + err
    assert run_tool(*verify)[0] == 1
    register_wave(WAVE_SOURCE.replace("* a", "* a * 1.001f"))
    wave_program().save(tmp_path / "wrong.clv")
    check = "verify", str(tmp_path / "wrong.clv"), "--run", "--device", "opencl", "--allow-custom-kernels"
    code, _, err = run_tool(*check, CLAVE_SELF_CHECK="off")
    assert code == 1 and "node 2 (custom wave) is the first that differs" in err and "the error arises there" in err
    out = run_tool("inspect", m[0], "--placement", "--device", "cpu")[1]
    assert "reference" in out and "custom kernels are for OpenCL devices" in out
