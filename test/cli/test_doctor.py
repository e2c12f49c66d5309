"""Tests clave doctor: good and limited drivers, drivers that end the process, wrong kernels, a wrong cache path."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "serialize"))
import gen_schema

HOSTILE = {
    "crashes": "__attribute__((constructor)) static void f(void) { *(volatile int *)0 = 0; }",
    "aborts": "int clGetPlatformIDs(unsigned n, void *p, unsigned *c) { (void)n; (void)p; (void)c; abort(); }",
    "exits": "int clGetPlatformIDs(unsigned n, void *p, unsigned *c) { (void)n; (void)p; (void)c; _exit(3); }",
    "lies": "int clGetPlatformIDs(unsigned n, void *p, unsigned *c) { (void)n; (void)p; *c = 4000000000u; return 0; }",
}


def doctor(tool, *args, code=0, timeout=60, **env):
    r = tool.run("doctor", "--json", *args, env={"CLAVE_CACHE_DIR": "off"} | env, timeout=timeout)
    assert r.returncode == code, (r.returncode, r.stdout[-2000:], r.stderr)
    return json.loads(r.stdout)


def has_opencl(tool):
    return any(d["kind"] == "opencl" for d in json.loads(tool.good("devices", "--json")))


def test_families_are_those_of_the_schema(tool):
    """The doctor checks each family that has kernels."""
    schema = gen_schema.read_schema(ROOT / "serialize/schema.fbs", ROOT / "ops/elementwise.tsv")
    runs = [t for t in schema.ops if not {"view", "host", "control"} & set(t.attrs)]
    wanted = {t.attrs.get("family") or gen_schema.snake(t.name) for t in runs}
    (cpu,) = doctor(tool, "--device", "cpu")["devices"]
    assert {c["family"] for c in cpu["checks"]} == wanted
    assert {c["result"] for c in cpu["checks"]} == {"runs"}
    assert cpu["bandwidth"]["gb_s"] > 0 and cpu["compute"]["gflop_s"] > 0


def test_report(tool, tmp_path):
    told = {"CLAVE_CACHE_DIR": str(tmp_path / "cache"), "CLAVE_THREADS": "2"}
    report = doctor(tool, "--device", "cpu", **told)
    assert report["environment"]["CLAVE_CACHE_DIR"] == told["CLAVE_CACHE_DIR"]
    assert report["system"]["clave"] == tool.good("--version").split()[1]
    assert report["problems"] == [] and report["cache"]["writable"]
    text = tool.good("doctor", "--device", "cpu", env=told)
    assert "nothing is broken" in text and "CLAVE_THREADS" in text
    assert re.search(r"\n  about \d+\.\d GB/s, \d+\.\d GFLOP/s\n", text)
    text = tool.good("doctor", "--device", "cpu", "--family", "cat", env=told)  # no measurement
    assert text.endswith("\n  runs: cat\nnothing is broken\n")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Returns a folder of kernels in which the triangle kernel is wrong."""
    folder = tmp_path_factory.mktemp("kernels")
    shutil.copytree(ROOT / "kernels_cl", folder, dirs_exist_ok=True)
    for f in ("decode.h", "float8.h"):
        (folder / f).write_text((ROOT / "base" / f).read_text())
    text = (folder / "triangle.cl").read_text()
    assert "<=" in text or ">=" in text
    (folder / "triangle.cl").write_text(re.sub(r"([<>])=", r"\1", text))
    return folder


@pytest.mark.by_turn(108)
def test_a_good_device(tool):
    """All families are right, except one without kernels: it is unsupported, which is not broken."""
    if not has_opencl(tool):
        pytest.skip("no OpenCL device")
    report = doctor(tool, "--device", "opencl:0", timeout=600)
    (device,) = report["devices"]
    assert {c["family"] for c in device["checks"] if c["result"] != "right"} == {"linalg"}
    assert report["problems"] == [] and device["compute"]["gflop_s"] > 0


def test_wrong_kernels_are_found(tool, kernels):
    """A kernel has wrong comparisons, in a folder whose path is relative to the doctor's working folder."""
    if not has_opencl(tool):
        pytest.skip("no OpenCL device")
    report = doctor(
        tool,
        "--device",
        "opencl:0",
        "--family",
        "triangle",
        code=1,
        CLAVE_KERNEL_DIR=os.path.relpath(kernels, tool.folder),
    )
    (device,) = report["devices"]
    assert [c["result"] for c in device["checks"]] == ["wrong"]
    (problem,) = report["problems"]
    assert re.match(r"opencl:0: triangle: \d+ of \d+ elements are wrong \(Triangle x=", problem)


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_loaders(tool, tmp_path, kind):
    """The loader ends the calling process or returns wrong results, which the doctor reports."""
    head = "#include <stdlib.h>\n#include <unistd.h>\n"
    names = re.findall(r"X\((cl\w+)\)", (ROOT / "backend/opencl/device/device.h").read_text())
    rest = "".join(f"int {n}(void) {{ return -5; }}\n" for n in names if n + "(" not in HOSTILE[kind])
    library = tmp_path / "libOpenCL.so.1"
    command = ["cc", "-shared", "-fPIC", "-w", "-xc", "-", "-o", library]
    subprocess.run(command, input=head + HOSTILE[kind] + "\n" + rest, text=True, check=True)
    expected = 0 if kind == "lies" else 1
    report = doctor(tool, "--family", "cat", code=expected, LD_LIBRARY_PATH=str(tmp_path))
    said = {
        "crashes": "listing devices: the driver ended the process (signal 11)",
        "aborts": "listing devices: the driver ended the process (signal 6)",
        "exits": "listing devices: the check ended with status 3",
    }
    assert report["problems"] == ([said[kind]] if kind in said else [])
    assert kind != "lies" or [d["device"] for d in report["devices"]] == ["cpu"]


@pytest.mark.parametrize("n, function", [(3, ""), (20, ""), (1, "clFinish")])
def test_a_lost_device(tool, build, n, function):
    """Every call from call n on, or from a function's call n on, fails: the device has an error, and the tool does not
    crash."""
    if not has_opencl(tool):
        pytest.skip("no OpenCL device")
    env = {"LD_LIBRARY_PATH": str(build / "stub"), "CLAVE_STUB_LOST_AT": str(n)}
    env["CLAVE_STUB_FAIL_NAME"] = function
    env["CLAVE_STUB_REAL"] = str(next(pathlib.Path("/usr/lib").glob("*/libOpenCL.so.1")))
    r = tool.run("doctor", "--json", "--family", "cat", env=env | {"CLAVE_CACHE_DIR": "off"})
    report = json.loads(r.stdout)
    assert r.returncode == (1 if report["problems"] else 0)
    assert report["problems"] if function else report["loader"]["note"]
    assert not any("signal" in p for p in report["problems"])


def test_a_device_without_doubles(tool, build):
    if not has_opencl(tool):
        pytest.skip("no OpenCL device")
    env = {"LD_LIBRARY_PATH": str(build / "stub"), "CLAVE_STUB_NO_FP64": "1"}
    env["CLAVE_STUB_REAL"] = str(next(pathlib.Path("/usr/lib").glob("*/libOpenCL.so.1")))
    report = doctor(tool, "--device", "opencl:0", "--family", "elementwise", **env)
    results = {c["result"] for c in report["devices"][0]["checks"] if "f64" in c["operands"]}
    assert results == {"unsupported"} and report["problems"] == []


def test_no_loader_is_not_broken(tool, tmp_path):
    for name in ("libOpenCL.so.1", "libOpenCL.so"):
        (tmp_path / name).write_text("none")
    report = doctor(tool, "--family", "cat", LD_LIBRARY_PATH=str(tmp_path))
    assert "ocl-icd-libopencl1" in report["loader"]["note"] and report["problems"] == []
    assert [d["device"] for d in report["devices"]] == ["cpu"]


def test_a_cache_that_cannot_be_used(tool, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (problem,) = doctor(tool, "--device", "cpu", "--family", "cat", code=1, CLAVE_CACHE_DIR=str(shared))["problems"]
    assert str(shared) in problem and "chmod go-w" in problem
    file = tmp_path / "file"
    file.write_text("")
    report = doctor(tool, "--device", "cpu", "--family", "cat", code=1, CLAVE_CACHE_DIR=str(file / "cache"))
    assert str(file) in report["problems"][0]


def test_notes_of_a_device(tool):
    if not has_opencl(tool):
        pytest.skip("no OpenCL device")
    words = "--device", "opencl:0", "--family", "cat"
    report = doctor(tool, *words, CLAVE_CACHE_DIR="/proc/nowhere")
    assert any("kernel binaries are not cached" in note for note in report["devices"][0]["notes"])
    assert report["problems"] == []
    text = tool.run("doctor", *words, env={"CLAVE_CACHE_DIR": "/proc/nowhere"}).stdout
    assert "\n  note: " in text and "version OpenCL" in text


def test_a_driver_that_was_removed(tool, tmp_path):
    (tmp_path / "gone.icd").write_text("/nowhere/libgone.so\n")
    report = doctor(tool, "--family", "cat", code=1, OCL_ICD_VENDORS=str(tmp_path))
    assert [d["library"] for d in report["drivers"]] == ["/nowhere/libgone.so"]
    assert "/nowhere/libgone.so, which cannot be read" in report["problems"][0]


def test_its_folder(tool, tmp_path):
    """The folder is in TMPDIR, however long its path is, and is removed, also at Ctrl-C."""
    long = tmp_path / ("long" * 20)
    words = ["doctor", "--device", "cpu", "--family", "cat"]
    assert str(long) in tool.bad(1, *words, env={"TMPDIR": str(long)})
    long.mkdir()
    tool.good(*words, env={"TMPDIR": str(long)})
    p = subprocess.Popen(
        [tool.exe, *words[:3]],
        cwd=tool.folder,
        env=os.environ | {"TMPDIR": str(long)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list(long.glob("clave-doctor-*/findings")):
        assert p.poll() is None
        time.sleep(0.001)
    p.send_signal(signal.SIGINT)
    assert p.wait(timeout=60) == 130
    assert list(long.iterdir()) == []


def test_refusals(tool):
    assert "unknown device" in tool.bad(2, "doctor", "--device", "opencl:99")
    assert "unknown kernel family" in tool.bad(2, "doctor", "--family", "nonsense")
    assert "cannot create a temporary folder" in tool.bad(1, "doctor", "--device", "cpu", env={"TMPDIR": "/nowhere"})
    assert "nowhere" in tool.bad(1, "probe", "/nowhere/findings")
    assert os.listdir(tool.folder) == []
