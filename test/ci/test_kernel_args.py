"""Arguments of kernels by name: errors of the compiler, checks of check_args.py, kernels that embed.py refuses."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / "backend/opencl"
GOOD = """  launch_args(l, &(rope_args){.x = buffer_arg(x), .cosines = buffer_arg(x), .sines = buffer_arg(x),
                              .out = scratch_arg(0), .dims = dims_arg(&x->tensor), .strides = strides_arg(&x->tensor),
                              .items = n, .n_heads = n, .n_angles = n, .n_pairs = n});
  launch_args(l, &(full_args){.out = absent_arg(), .n = n, .value = f, .int_value = n});
  launch_args(l, &(im2col_args){.x = buffer_arg(x), .out = buffer_arg(x), .windows = {
      .items = n, .rows = n, .columns = n, .n_y = n, .n_x = n, .k_y = n, .k_x = n, .stride_y = n, .stride_x = n,
      .padding_y = n, .padding_x = n, .dilation_y = n, .dilation_x = n}});
"""


def source(body):
    head = '#include "backend/opencl/opencl.h"\n'
    return f"{head}void use(launch *l, const bound_tensor *x, int64_t n, double f);\n" + (
        f"void use(launch *l, const bound_tensor *x, int64_t n, double f) {{\n{body}}}\n"
    )


def compiles(build, tmp_path, body):
    """Compiles a body in place of GOOD, with the flags of the build."""
    (tmp_path / "use.c").write_text(source(body))
    flags = [f for f in shlex.split((build / "flags").read_text()) if f not in ("-MMD", "-MP")]
    command = [*flags, "-fsyntax-only", str(tmp_path / "use.c")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def check(tmp_path, body):
    (tmp_path / "use.c").write_text(source(body))
    kernels = sorted(str(f) for f in (ROOT / "kernels_cl").rglob("*.*"))
    command = [sys.executable, TOOLS / "check_args.py", "--kernels", *kernels, "--sources", tmp_path / "use.c"]
    return subprocess.run(command, capture_output=True, text=True)


def test_all_by_name(build, tmp_path):
    p = compiles(build, tmp_path, GOOD)
    assert p.returncode == 0, p.stderr
    p = check(tmp_path, GOOD)
    assert p.returncode == 0, p.stderr


@pytest.mark.parametrize(
    "old, new, said",
    [
        (".n_heads = n", ".n_head = n", "n_head"),  # misspelt
        (".n_heads = n", ".n_heads = n, .items = n", "overwrit|overrid"),  # twice
        (".items = n, .n_heads", ".items = buffer_arg(x), .n_heads", "incompatible"),
        (".x = buffer_arg(x), .cosines", ".x = n, .cosines", "braces"),
        (".x = buffer_arg(x), .cosines", ".x = x, .cosines", "incompatible"),
        (".dims = dims_arg(&x->tensor)", ".dims = buffer_arg(x)", "incompatible"),
        (".int_value = n", ".int_value = f", "conversion"),
        (".value = f", ".value = n", "conversion"),
        (".windows = {", ".window = {", "window"),
        (GOOD, "  launch_args(l, x);\n", "not compatible"),  # not a kernel's arguments
        ("&(full_args){", "&(rope_args){", "value"),  # another kernel's
        (GOOD, "  full_args a = {.n = n};\n  a.n = f > 0;\n", "read-only|const"),  # arguments cannot be set later
    ],
)
def test_the_compiler_refuses(build, tmp_path, old, new, said):
    assert old in GOOD
    p = compiles(build, tmp_path, GOOD.replace(old, new))
    assert p.returncode != 0 and re.search(f"error: .*({said})", p.stderr), p.stderr


@pytest.mark.parametrize(
    "old, new, said",
    [
        (".n_heads = n, ", "", "use.c:4: error: rope_args lacks .n_heads"),
        (".n_heads = n, ", "/* .n_heads = n, */", "rope_args lacks .n_heads"),
        (", .int_value = n", "", "full_args lacks .int_value"),
        ("{.out = absent_arg(), .n = n, .value = f, .int_value = n}", "{0}", "'0' has no name"),
        (".k_y = n, ", "", "windows_params lacks .k_y"),
        (".dilation_y = n, .dilation_x = n", "", "windows_params lacks .dilation_y, .dilation_x"),
        (GOOD, "  const windows_params w = {.items = f(n, (int[]){n, 2}), .rows = n};\n", "lacks .columns, .n_y"),
        (GOOD, "  full_args a;\n  launch_args(l, &a);\n", "full_args is neither initialised nor a pointer"),
        (GOOD, "  full_args a, *b = &a;\n", "full_args is neither initialised nor a pointer"),
    ],
)
def test_a_forgotten_argument_is_named(tmp_path, old, new, said):
    assert old in GOOD
    p = check(tmp_path, GOOD.replace(old, new))
    assert p.returncode == 1 and said in p.stderr, p.stderr


@pytest.mark.parametrize(
    "body",
    [
        "  const full_args *a = &(const full_args){.out = absent_arg(), .n = n, .value = f, .int_value = n};\n",
        "  const full_args a = make(x, n);\n  use_them(&a); // a full_args\n",
        '  say("full_args {.n");\n',
    ],
)
def test_what_is_not_an_initialiser_passes(tmp_path, body):
    p = check(tmp_path, body)
    assert p.returncode == 0, p.stderr


def test_the_build_stops_at_a_forgotten_argument(build, tmp_path):
    """Builds a copy of the OpenCL backend in which an op lacks an argument."""
    plan = subprocess.run(
        [
            "make",
            "--no-print-directory",
            "-n",
            "-W",
            "backend/opencl/ops/rope.c",
            f"BUILD={build.relative_to(ROOT)}",
            "all",
        ],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS")},
        capture_output=True,
        text=True,
    ).stdout
    at = plan.find("check_args.py")
    assert 0 <= at < plan.find("-c backend/opencl/ops/rope.c"), plan[:2000]
    rope = (ROOT / "backend/opencl/ops/rope.c").read_text()
    line = next(row for row in rope.splitlines() if ".n_heads = " in row)
    (tmp_path / "rope.c").write_text(rope.replace(line + "\n", ""))
    kernels = sorted(str(f) for f in (ROOT / "kernels_cl").rglob("*.*"))
    command = [sys.executable, TOOLS / "check_args.py", "--kernels", *kernels, "--sources", tmp_path / "rope.c"]
    p = subprocess.run(command, capture_output=True, text=True)
    assert p.returncode == 1 and "rope_args lacks .n_heads" in p.stderr, p.stderr


KERNEL = "__kernel void k({}) {{\n}}\n"
X = "__global float *x, const long x_offset"


@pytest.mark.parametrize(
    "kernel, said",
    [
        (KERNEL.format(X + ", const int n, FAULT_PARAMS"), ""),
        (f"#define GROUP_PARAMS \\\n  {X}, \\\n  const int n\n" + KERNEL.format("GROUP_PARAMS, const int m"), ""),
        (KERNEL.format("__global float *x, const int n"), "pointer 'x' is not followed by `const long x_offset`"),
        (KERNEL.format("__global float *x, const int x_offset"), "pointer 'x' is not followed by"),
        (KERNEL.format("FAULT_PARAMS, " + X), "FAULT_PARAMS is not last"),
        (KERNEL.format("const short n"), "parameter 'n' has type 'short'"),
        (KERNEL.format("const int n, const int n"), "two parameters 'n'"),
        (KERNEL.format("OTHER_PARAMS"), "has type ''"),
        (KERNEL.format(X) * 2, "a second one of that name"),
        (KERNEL.format(X).replace(") {", ")\n{"), "`) {` does not end the line after the parameters"),
        (KERNEL.format(", ".join(f"const int n{i}" for i in range(65))), "65 parameters, at most 64"),
        (KERNEL.format(", ".join(f"const index8 n{i}" for i in range(16))), ""),
        (KERNEL.format(", ".join(f"const index8 n{i}" for i in range(17))), "1088 bytes of arguments, at most 1024"),
        ("#define GROUP_PARAMS const int n\n" * 2 + KERNEL.format("GROUP_PARAMS"), "a second GROUP_PARAMS"),
    ],
)
def test_embedding(tmp_path, kernel, said):
    (tmp_path / "k.cl").write_text(kernel)
    out, header = tmp_path / "k.c", tmp_path / "k.h"
    command = [sys.executable, TOOLS / "embed.py", "--out", out, "--header", header, tmp_path / "k.cl"]
    p = subprocess.run(command, capture_output=True, text=True)
    assert (p.returncode == 0) == (said == ""), p.stderr
    assert said in p.stderr
    if X in kernel and not said:
        assert "const arg_buffer x;" in header.read_text() and "x_offset" not in header.read_text()
        assert '{"x", "__global float *", ARG_BUFFER, ' in out.read_text()
        assert '{"x_offset", "const long", ARG_LONG, 0}' in out.read_text()
