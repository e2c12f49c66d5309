"""libclave_executorch.so: made for the installed version of ExecuTorch, or built from the sources of a package."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import ROOT

RUN = """
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from clave.executorch import ClavePartitioner, native, register
x = torch.rand(3) - 0.5
edge = to_edge_transform_and_lower(torch.export.export(torch.nn.ReLU(), (x,)), partitioner=[ClavePartitioner()])
file = edge.to_executorch().buffer
assert b"ClaveBackend" in file
register()
(y,) = Runtime.get().load_program(file).load_method("forward").execute((x,))
assert torch.equal(y, x.relu())
print("from", native.find())
"""
LIBRARY = "libclave_executorch.so"


@pytest.fixture
def package(tmp_path):
    """Installs clave like its wheel, without the tool; returns (Python's path to it, its cache)."""
    site, cache = tmp_path / "site", tmp_path / "cache"
    shutil.copytree(ROOT / "python/clave", site / "clave", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("libclave.so", "libclave.so.0", "libclave_delegate.so"):
        shutil.copy(ROOT / "build" / name, site / "clave" / name)
    native = site / "clave/executorch/native"
    shutil.copytree(ROOT / "delegate/executorch", native / "delegate/executorch")
    (native / "include").mkdir()
    shutil.copy(ROOT / "delegate/clave_delegate.h", native / "delegate")
    shutil.copy(ROOT / "include/clave.h", native / "include")
    return site, cache


def run(package, **more):
    site, cache = package
    env = {k: v for k, v in os.environ.items() if not k.startswith("CLAVE_") and k not in ("CXX", "CXXFLAGS")}
    env |= {"PYTHONPATH": str(site), "CLAVE_CACHE_DIR": str(cache), "CLAVE_DEVICE": "cpu"} | more
    return subprocess.run([sys.executable, "-c", RUN], env=env, capture_output=True, text=True, check=False)


@pytest.mark.by_turn(22)
def test_built_once_from_the_sources_of_a_package(package):
    """The first import builds it into the cache, also in two processes at once. With "off" it is not kept."""
    with ThreadPoolExecutor(2) as pool:
        first, beside = pool.map(run, [package] * 2)
    again = run(package)
    for done in (first, beside, again):
        assert done.returncode == 0, done.stderr[-3000:]
    built = list(package[1].glob(f"executorch-*/{LIBRARY}"))
    assert len(built) == 1 and f"from {built[0]}" in first.stdout and f"from {built[0]}" in again.stdout
    assert f"from {built[0]}" in beside.stdout
    assert f"note: building {LIBRARY} for ExecuTorch 1.5" in first.stderr and "note:" not in again.stderr
    assert [f.name for f in built[0].parent.iterdir()] == [LIBRARY]
    other = run(package, CLAVE_CACHE_DIR="off", TMPDIR=str(package[0]))
    assert other.returncode == 0 and "clave-executorch-" in other.stdout, other.stderr[-3000:]
    assert not list(package[0].glob("clave-executorch-*"))


@pytest.mark.by_turn(22)
def test_one_of_another_version_is_not_loaded(package, tmp_path):
    """A library of another version is skipped in the package, and is an error if it is named."""
    version = importlib.metadata.version("executorch").encode()
    mark = b"built for ExecuTorch "
    data = (ROOT / "build" / LIBRARY).read_bytes()
    assert data.count(mark + version + b"\0") == 1
    (package[0] / "clave" / LIBRARY).write_bytes(data.replace(mark + version, mark + b"9" * len(version)))
    passed = run(package)
    assert passed.returncode == 0 and f"from {package[1]}" in passed.stdout, passed.stderr[-3000:]
    (package[0] / "clave" / LIBRARY).write_bytes(data)
    assert f"from {package[0] / 'clave' / LIBRARY}" in run(package).stdout
    named = tmp_path / "named.so"
    named.write_bytes(data.replace(mark + version, mark + b"9" * len(version)))
    refused = run(package, CLAVE_EXECUTORCH_LIBRARY=str(named))
    assert refused.returncode == 1
    assert (
        f"{named} was built for ExecuTorch {'9' * len(version)}, but {version.decode()} is installed" in refused.stderr
    )


@pytest.mark.by_turn(22)
def test_without_a_compiler(package):
    """Files can be made; a note and register() report what is missing."""
    done = run(package, CXX=str(package[0] / "none"))
    why = f"{LIBRARY} cannot be built: {package[0] / 'none'}: no C++ compiler is installed (Debian: g++)"
    assert f"clave: note: .pte files can be written here, but not run: {why}" in done.stderr
    assert done.returncode == 1 and done.stderr.strip().endswith(f"clave.errors.Error: {why}"), done.stderr
    assert not list(package[1].glob("*/*"))


@pytest.mark.by_turn(11)
@pytest.mark.parametrize("which", ["", "executorch-*"])
def test_a_cache_that_others_write_to_is_not_used(package, which):
    """Neither the cache nor the library's folder in it can be used, so the library is built for the process alone."""
    cache, more = package[1], {"CXX": str(package[0] / "none"), "TMPDIR": str(package[0])}
    assert f"once, in {cache}/executorch-" in run(package, **more).stderr
    for folder in cache.glob(which) if which else [cache]:
        folder.chmod(0o777)
    said = run(package, **more).stderr
    assert f"in {package[0]}/clave-executorch-" in said and f"in {cache}" not in said


@pytest.mark.by_turn(22)
def test_sources_that_do_not_compile(package):
    source = package[0] / "clave/executorch/native/delegate/executorch/backend.cc"
    source.write_text(source.read_text() + "\nint wrong = nothing;\n")
    done = run(package)
    assert done.returncode == 1 and f"{LIBRARY} cannot be built: {source}" in done.stderr, done.stderr
    assert "nothing" in done.stderr.strip().splitlines()[-1]
