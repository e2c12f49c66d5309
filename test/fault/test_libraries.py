"""The files that hold OpenCL: names of the platform in order, CLAVE_OPENCL_LIBRARY, and CLBlast beside them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

import clave

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "ci"))
import variants


def call(build, env, *words):
    told = os.environ | {"CLAVE_CACHE_DIR": "off", "CLAVE_DEVICE": ""} | env
    words = [str(w) for w in (build / "clave", *words)]
    return subprocess.run(words, env=told, capture_output=True, text=True, timeout=120)


def devices(build, env):
    p = call(build, env, "devices", "--json")
    assert p.returncode == 0, p.stderr
    return [d["name"] for d in json.loads(p.stdout)], p.stderr


@pytest.fixture
def renamed(stub, build, tmp_path):
    """Returns the stub OpenCL's environment, without the folder, and a copy with another name and soname."""
    library = tmp_path / "libVendorCL.so"
    data = (build / "stub/libOpenCL.so.1").read_bytes()
    assert data.count(b"\0libOpenCL.so.1\0") >= 1
    library.write_bytes(data.replace(b"\0libOpenCL.so.1\0", b"\0libVendorCL.so\0"))
    env = {k: v for k, v in stub.items() if k != "LD_LIBRARY_PATH"} | {"CLAVE_STUB_NAME": "Renamed "}
    return env | {"CLAVE_OPENCL_LIBRARY": str(library)}


def test_a_named_file(build, renamed):
    names, notes = devices(build, renamed)
    assert names[0].startswith("Renamed ") and notes == ""
    p = call(build, renamed, "doctor", "--json", "--device", "opencl:0", "--family", "cat")
    report = json.loads(p.stdout)
    assert report["loader"]["library"] == report["loader"]["path"] == renamed["CLAVE_OPENCL_LIBRARY"]
    assert report["environment"]["CLAVE_OPENCL_LIBRARY"] == renamed["CLAVE_OPENCL_LIBRARY"]


def test_the_next_name(build, stub, tmp_path):
    """libOpenCL.so.1 is not a library, so libOpenCL.so is opened."""
    (tmp_path / "libOpenCL.so.1").write_text("not a library")
    shutil.copy(build / "stub/libOpenCL.so.1", tmp_path / "libOpenCL.so")
    names, _ = devices(build, stub | {"LD_LIBRARY_PATH": str(tmp_path), "CLAVE_STUB_NAME": "Second "})
    assert names[0].startswith("Second ")


def test_no_library(build, tmp_path):
    """The note quotes the loader's error for the first file, and lists the other files that were tried."""
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        (tmp_path / name).write_text("not a library")
    names, notes = devices(build, {"LD_LIBRARY_PATH": str(tmp_path)})
    assert len(names) == 1
    assert f"no OpenCL library ({tmp_path}/libOpenCL.so.1: " in notes and "; also tried libOpenCL.so): install" in notes


@pytest.mark.parametrize(
    "value, said",
    [
        ("/nowhere/libCL.so", "/nowhere/libCL.so: cannot open shared object file"),
        ("libm.so.6", "libm.so.6 has no function clGetPlatformIDs"),
        ("off", "OpenCL is off: CLAVE_OPENCL_LIBRARY is set to off"),
    ],
)
def test_a_named_file_that_is_none(build, value, said):
    """No other library is opened instead."""
    names, notes = devices(build, {"CLAVE_OPENCL_LIBRARY": value})
    assert len(names) == 1 and said in notes and "CLAVE_OPENCL_LIBRARY" in notes
    p = call(build, {"CLAVE_OPENCL_LIBRARY": value}, "doctor", "--device", "opencl:0")
    assert p.returncode == 2


def test_clblast_of_another_library(build, stub, renamed, tmp_path):
    """CLBlast is linked with libOpenCL.so.1, so it is not used beside another library, and a note says so."""
    clave.export(torch.nn.Linear(128, 256), (torch.randn(128, 128),), verify=False).save(tmp_path / "m.clv")
    words = ("bench", tmp_path / "m.clv", "--runs", 1, "--warmup", 0, "--device", "opencl")
    used = "CLBlast is not used: it is linked with another OpenCL library than "
    gpu, rows = os.environ | {"CLAVE_DEVICE_CLASS": "gpu"}, [("matmul", "clblast")]
    with variants.forced(build / "clave", "opencl", rows, gpu) as env:
        p = call(build, env, *words)
    assert p.returncode == 0 and used not in p.stderr, p.stderr
    with variants.forced(build / "clave", "opencl", rows, gpu | renamed) as env:
        p = call(build, env, *words)
    if used not in p.stderr and not has_clblast():
        pytest.skip("CLBlast is not installed")
    assert p.returncode == 0 and used + renamed["CLAVE_OPENCL_LIBRARY"] in p.stderr, p.stderr


def has_clblast():
    import ctypes

    try:
        return ctypes.CDLL("libclblast.so.1") is not None
    except OSError:
        return False
