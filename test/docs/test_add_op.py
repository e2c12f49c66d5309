"""Follows CONTRIBUTING.md's checklists for an elementwise step and for a variant of a kernel in a copy of the tree.
Exactly these steps must make an op that exports, verifies and runs on both backends, and a variant that runs."""

import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from documents import blocks

pytestmark = pytest.mark.by_turn(2)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

USE = """
import torch, clave

@torch.library.custom_op("example::cube", mutates_args=(), schema="(Tensor x) -> Tensor")
def cube(x):
    return x * x * x

cube.register_fake(lambda x: torch.empty_like(x))

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(cube(x + 1)), cube(x).half()

x = torch.linspace(-2, 2, 35).reshape(5, 7)
clave.export(Net(), (x,)).save("cube.clv")
for device in ("cpu", "opencl"):
    for got, want in zip(clave.Session("cube.clv", device=device)(x), Net()(x)):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-5)
print("cube is", sum("cube" in line for line in open("docs/reference/ops.md")))
"""


@pytest.fixture
def tree(tmp_path):
    """Copies the files that git tracks or does not ignore, without build outputs."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in names:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    return tmp_path


def additions():
    """Yields (file, lines) of the checklist."""
    for language in ("tsv", "python"):
        for mark, text in blocks(ROOT / "CONTRIBUTING.md", language):
            if mark.startswith("add to "):
                yield mark.removeprefix("add to "), text


def run(command, tree):
    env = {k: v for k, v in os.environ.items() if k not in ("CLAVE_LIBRARY", "CLAVE_DEVICE", "BUILD", "MAKEFLAGS")}
    env |= {"PYTHONPATH": str(tree / "python")}
    p = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout[-3000:] + p.stderr[-3000:]
    return p.stdout


VARIANT = """
import sys, torch, clave

x = torch.arange(2.0 * 3 * 9 * 9).reshape(2, 3, 9, 9)
clave.export(torch.nn.Conv2d(3, 5, 3), (x,), verify=False).save("conv.clv")
clave.Session("conv.clv", device=clave.Device("opencl", fallback=False))(x)
"""
ADDED = """
static clave_status record_added(const void *conv) {
  (void)conv;
  return INVALID("the added variant was recorded");
}

static const kernel_variant conv_variants[] = {"""


def add_variant(tree):
    """Adds the checklist's row, with a function that reports its call, and the variant's name to the list."""
    ((_, row),) = [block for block in blocks(ROOT / "CONTRIBUTING.md", "c") if block[0] == "add to conv_variants"]
    name = re.search(r'"(.*?)"', row).group(1)
    source = tree / "backend/opencl/ops/conv/conv.c"
    text = source.read_text().replace("static const kernel_variant conv_variants[] = {", ADDED.strip())
    end = text.index("};", text.index("conv_variants[] = {"))
    source.write_text(f"{text[:end]},\n{row.rstrip().replace('conv_direct', 'record_added')}\n{text[end:]}")
    names = tree / "ci/variants.py"
    names.write_text(names.read_text().replace("|dots|planes|groups", f"|dots|planes|groups|{name}"))
    return name


def test_checklist_adds_an_op(tree):
    steps = list(additions())
    assert [name for name, _ in steps] == ["ops/elementwise.tsv", "python/clave/lowering/elementwise.py"]
    for name, text in steps:
        with (tree / name).open("a") as f:
            f.write(text if name.endswith(".tsv") else "\n\n" + text)
    run(["make", "-j2", "CFLAGS=-O0", "EXTRA="], tree)
    assert "cube is" in run([sys.executable, "-c", USE], tree)
    name = add_variant(tree)
    run(["make", "-j2", "CFLAGS=-O0", "EXTRA="], tree)
    run([sys.executable, "-c", VARIANT], tree)  # no table requests the variant
    with runpy.run_path(str(tree / "ci/variants.py"))["forced"](
        tree / "build/clave", "opencl", [("conv", name)]
    ) as env:
        env |= {"PYTHONPATH": str(tree / "python"), "CLAVE_LIBRARY": str(tree / "build/libclave.so")}
        p = subprocess.run([sys.executable, "-c", VARIANT], cwd=tree, env=env, capture_output=True, text=True)
    assert "the added variant was recorded" in p.stderr, p.stderr[-2000:]


def test_missing_implementation_is_a_build_error_that_names_it(tree):
    """An op without its kernels does not link."""
    schema = tree / "serialize/schema.fbs"
    text = schema.read_text()
    head = 'table Cube (family: "copy", since: "1", flops: "x")'
    row = f"{head} {{ x: Tid (required); out: Tid (required, out); }}\n\nunion Op {{"
    schema.write_text(re.sub(r"(union Op \{[^}]*?),?\n\}", r"\1,\n  Cube\n}", text).replace("union Op {", row))
    command = ["make", "-j2", "CFLAGS=-O0", "EXTRA=", "all"]
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS")}
    p = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    assert p.returncode != 0
    assert all(f in p.stderr for f in ("rule_cube",)) and ("cpu_cube" in p.stderr or "opencl_cube" in p.stderr), (
        p.stderr[-2000:]
    )
