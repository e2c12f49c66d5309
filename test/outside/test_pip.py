"""The Python package from a fresh clone: pip install of its folder and of a git address, in a new environment."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile

import pytest

MODEL, DIGIT, TEXT = "examples/mnist/mnist.clv", "examples/mnist/digits/7.npy", "examples/tinylm/tinylm.clv"
# Objects of this checkout, which a clone with the same flags can use.
OBJECTS = ("flags", "gen", "obj")
HERE = ("--no-build-isolation",)  # uses the installed setuptools, which saves the time to install one

USE = """
import pathlib, sys, numpy, clave
assert {site!r} in clave.__file__, clave.__file__
(answer,) = clave.Session(sys.argv[1], device="cpu").run(numpy.load(sys.argv[2]))
assert answer.argmax() == 7
print("a 7")
"""

EXPORT = """
import torch, clave
assert "site-packages" in clave.__file__
x = torch.ones(2, 3)
print(clave.Session(clave.export(torch.nn.Sigmoid(), (x,), verify=True), "cpu")(x).sum() > 4)
"""


def run(*command, env, cwd="/", code=0):
    """Returns the output of a command."""
    p = subprocess.run(list(map(str, command)), env=env, cwd=cwd, capture_output=True, text=True)
    assert p.returncode == code, f"{command}\n{p.stdout[-3000:]}{p.stderr[-3000:]}"
    return p.stdout + p.stderr


@pytest.fixture
def python(tmp_path):
    """Python of a new environment. It sees the packages of the environment that runs the tests, which has pip, numpy
    and torch."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", env=dict(os.environ))
    site = next((tmp_path / "venv/lib").glob("python*/site-packages"))
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return tmp_path / "venv/bin/python"


@pytest.fixture
def built(clone, build, tmp_path):
    """Copies the clone with this checkout's objects, so that libraries are only linked."""
    folder = tmp_path / "clave"
    shutil.copytree(clone, folder, symlinks=True)
    for name in OBJECTS:
        source = build / name
        copy = shutil.copytree if source.is_dir() else shutil.copy2
        (folder / "build").mkdir(exist_ok=True)
        copy(source, folder / "build" / name)
    for file in (folder / "build").rglob("*"):
        os.utime(file)
    return folder


def expect_it_works(python, root, env):
    """A program runs, the tool is on the path and prints its version."""
    program = USE.format(site="site-packages")
    assert "a 7" in run(python, "-c", program, root / MODEL, root / DIGIT, env=env)
    assert run(python.parent / "clave", "--version", env=env).startswith("clave ")


def test_a_folder(built, python, outsider, root, tmp_path):
    """pip install ./python, then the README's use of it: export, and executables with the runtime inside."""
    said = run(python, "-m", "pip", "install", "./python", env=outsider, cwd=built)
    assert "deprecat" not in said.lower()
    expect_it_works(python, root, outsider)
    assert "True" in run(python, "-c", EXPORT, env=outsider)
    tool = python.parent / "clave"
    for name, *more in (("story",), ("digits", "--target", "opencl"), ("sizes", "--method", "all")):
        model = root / (TEXT if name == "story" else MODEL)
        run(tool, "compile", model, "-o", tmp_path / name, *more, env=outsider)
    told = run(tmp_path / "story", "--prompt", "ROMEO:", "--max-new-tokens", "8", env=outsider)
    assert "pcre" not in run("ldd", tmp_path / "story", env=outsider) and len(told) > 8
    run(python, "-m", "pip", "install", "--no-index", "clave[export]", env=outsider)  # with the name that messages use


def test_a_git_address(clone, python, outsider, root, build):
    """Uses the library of this checkout, because building one takes more than a minute."""
    address = f"git+file://{clone}#subdirectory=python"
    run(python, "-m", "pip", "install", "-q", address, env=outsider | {"CLAVE_WHEEL": "pure"})
    env = outsider | {"CLAVE_LIBRARY": str(build / "libclave.so")}
    assert "a 7" in run(python, "-c", USE.format(site="site-packages"), root / MODEL, root / DIGIT, env=env)


@pytest.mark.by_turn(12)
def test_a_git_address_with_the_library(clone, python, outsider, root):
    run(python, "-m", "pip", "install", "-q", f"git+file://{clone}#subdirectory=python", env=outsider)
    expect_it_works(python, root, outsider)


@pytest.mark.by_turn(4)
def test_an_editable_install(built, python, outsider, root):
    run(python, "-m", "pip", "install", "-q", *HERE, "-e", "./python", env=outsider, cwd=built)
    program = USE.format(site=str(built / "python/clave"))
    assert "a 7" in run(python, "-c", program, root / MODEL, root / DIGIT, env=outsider)
    assert run(python.parent / "clave", "--version", env=outsider).startswith("clave ")


@pytest.mark.by_turn(4)
def test_a_source_archive_has_the_sources(clone, python, outsider, root, build, tmp_path):
    """The archive builds a wheel in a folder without other files of the repository."""
    folder = tmp_path / "clave"
    shutil.copytree(clone, folder, symlinks=True)
    make = f"import setuptools.build_meta as b; b.build_sdist({str(tmp_path)!r})"  # as `python -m build --sdist` does
    run(python, "-c", make, env=outsider, cwd=folder / "python")
    (archive,) = tmp_path.glob("clave-*.tar.gz")
    assert archive.stat().st_size < 4 << 20
    with tarfile.open(archive) as t:
        names = {n.partition("/")[2] for n in t.getnames()}
    assert {"sources/Makefile", "sources/base/memory.c", "sources/kernels_cl/softmax.cl", "LICENSE"} <= names
    run(python, "-m", "pip", "install", "-q", *HERE, archive, env=outsider | {"CLAVE_WHEEL": "pure"})
    env = outsider | {"CLAVE_LIBRARY": str(build / "libclave.so")}
    assert "a 7" in run(python, "-c", USE.format(site="site-packages"), root / MODEL, root / DIGIT, env=env)
    headers = dry_run(archive, tmp_path, outsider)
    assert "No rule to make target" not in headers


def dry_run(archive, folder, env):
    """Returns the output of make -n in the sources of an archive."""
    with tarfile.open(archive) as t:
        t.extractall(folder / "extracted", filter="data")
    (sources,) = (folder / "extracted").glob("*/sources")
    return run("make", "-n", "wheel-files", env=env, cwd=sources)


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ((), "needs the Debian packages make gcc libc6-dev"),
        (("make",), "needs the Debian packages gcc libc6-dev opencl-c-headers"),
    ],
)
def test_without_a_compiler(clone, python, outsider, tmp_path, tools, said):
    """One line names the packages to install."""
    folder, tool_folder = tmp_path / "clave", tmp_path / "tools"
    shutil.copytree(clone, folder, symlinks=True)
    tool_folder.mkdir()
    for name in tools:
        (tool_folder / name).symlink_to(shutil.which(name))
    env = outsider | {"PATH": f"{python.parent}:{tool_folder}"}
    out = run(python, "-m", "pip", "install", *HERE, "./python", env=env, cwd=folder, code=1)
    assert said in out and "CLAVE_WHEEL=pure" in out
    assert "Traceback" not in out


def test_a_copy_of_the_folder_alone(clone, python, outsider, tmp_path):
    """One line says that there are no sources above the folder."""
    shutil.copytree(clone / "python", tmp_path / "alone")
    out = run(python, "-m", "pip", "install", *HERE, "./alone", env=outsider, cwd=tmp_path, code=1)
    assert "install from a clone of the whole repository" in out and "Traceback" not in out
