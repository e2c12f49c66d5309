"""Drivers that crash or hang when they list their devices or build CLBlast's programs (test/stub_opencl/harm.h). A
child process tries this first, or a mark on disk protects later processes if no child can be started."""

import os
import pathlib
import shutil
import sys
import time

import pytest
import safetensors.torch
import torch
from test_faults import command, net, one_error, right_answer, run_net
from test_libraries import has_clblast

import clave

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "ci"))
import variants

__all__ = ("net",)  # a fixture
EARLIER = "an earlier process ended while the driver had it"


@pytest.fixture
def host(build, stub, tmp_path):
    """Returns the environment of a process that can start children, which the file `children` counts."""
    helper, folder = tmp_path / "helper", tmp_path / "lib"
    helper.write_text(f'#!/bin/sh\necho >> {tmp_path}/children\nexec {build}/clave "$@"\n')
    helper.chmod(0o700)
    folder.mkdir()
    shutil.copy(build / "stub/libOpenCL.so.1", folder)
    of_cache = {"CLAVE_CACHE_DIR": str(tmp_path / "cache"), "CLAVE_HELPER": str(helper)}
    return stub | of_cache | {"LD_LIBRARY_PATH": str(folder), "CLAVE_STUB_GPU": "1", "CLAVE_BUILD_TIMEOUT": "2"}


def count_children(tmp_path):
    path = tmp_path / "children"
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize(
    ("how", "call", "reason"),
    [
        ("segv", "clGetPlatformIDs", "the driver crashed (signal 11)"),
        ("abort", "clGetDeviceIDs", "the driver crashed (signal 6)"),
        ("exit", "clGetDeviceInfo", "the driver ended the process (exit status 3)"),
        ("hang", "clGetDeviceIDs", "the driver did not return within 2 s"),
    ],
)
def test_a_driver_that_does_harm(net, build, host, tmp_path, how, call, reason):
    """The second process knows the outcome, until the driver's files change."""
    out, harm = tmp_path / "out.safetensors", host | {"CLAVE_STUB_HARM": f"{how} {call} list"}
    for said, children in ((reason, 1), (EARLIER, 1)):
        p = run_net(build, net, harm, out)
        right_answer(p, net, out)
        assert f"on the CPU backend; OpenCL is not used, because its devices cannot be listed: {said}\n" in p.stderr, (
            p.stderr
        )
        assert count_children(tmp_path) == children
        out.unlink()
    assert EARLIER in one_error(run_net(build, net, harm, out, "--device", "opencl"), out)
    os.utime(tmp_path / "lib/libOpenCL.so.1", (0, 0))
    for _ in range(2):
        p = command(build, host, "devices")
        assert p.returncode == 0 and "opencl:0" in p.stdout and not p.stderr, p.stderr
        assert count_children(tmp_path) == 2
    assert "OpenCL is not used" not in command(build, host, "doctor", "--family", "cat").stdout


def test_without_children(net, build, host, tmp_path):
    """A process that ends once in the list may have been killed by its user; after the second, OpenCL is not used."""
    out, alone = tmp_path / "out.safetensors", host | {"CLAVE_HELPER": "off"}
    harm = alone | {"CLAVE_STUB_HARM": "segv clGetDeviceIDs list"}
    (tmp_path / "cache").mkdir()
    for _ in range(2):
        assert run_net(build, net, harm, out).returncode == -11
    p = run_net(build, net, harm, out)
    right_answer(p, net, out)
    assert EARLIER in p.stderr
    mark = next((tmp_path / "cache").glob("*.mark"))
    state, about = mark.read_text().splitlines()
    *words, begun = state.split(" ")
    mark.write_text("\n".join((" ".join((*words, str(int(time.time()) - 2 * 86400))), about)) + "\n")
    assert command(build, alone, "devices").stdout.count("opencl:0") == 1, begun  # it is tried again after two days
    assert mark.read_text().startswith("accepted\n")
    assert run_net(build, net, harm | {"CLAVE_ISOLATION": "off"}, out).returncode == -11


@pytest.fixture
def product(build, host, tmp_path):
    """Returns a function that runs a product by CLBlast, checks it, and returns the notes."""
    if not has_clblast():
        pytest.skip("CLBlast is not installed")
    torch.manual_seed(1)
    linear, x, out = torch.nn.Linear(64, 96), torch.randn(80, 64), tmp_path / "out.safetensors"
    clave.export(linear, (x,), verify=False).save(tmp_path / "m.clv")
    safetensors.torch.save_file({"input_0": x}, tmp_path / "in.safetensors")
    words = ("run", tmp_path / "m.clv", "--inputs", tmp_path / "in.safetensors", "--outputs", out, "--device", "opencl")
    settings = os.environ | host | {"CLAVE_ISOLATION": "on", "CLAVE_DEVICE_CLASS": "gpu", "CLAVE_BUILD_TIMEOUT": "60"}
    with variants.forced(build / "clave", "opencl", [("matmul", "clblast")], settings) as env:

        def run(code=0, **more):
            p = command(build, env | more, *words)
            assert p.returncode == code, p.stderr
            if not code:
                found = safetensors.torch.load_file(out)["output_0"]
                assert (found - linear(x)).abs().max() < 1e-5
            return p.stderr

        run.folder = pathlib.Path(env["CLAVE_CACHE_DIR"])
        yield run


def marks_of_clblast(product):
    marks = [f.read_text() for f in product.folder.glob("*.mark")]
    return [m.split("\n")[0].split(" ")[0] for m in marks if "\nthe products of CLBlast\n" in m]


@pytest.mark.parametrize(
    "how, reason", [("segv", "the driver crashed (signal 11)"), ("hang", "did not return within 6 s")]
)
def test_clblast_does_harm(product, tmp_path, how, reason):
    """Other kernels run instead, also in later processes, which try nothing."""
    harm = {"CLAVE_STUB_HARM": f"{how} clBuildProgram XgemmDirect"}
    seconds = {"CLAVE_BUILD_TIMEOUT": "3"} if how == "hang" else {}
    assert "CLBlast fails on " in (notes := product(**harm, **seconds)) and reason in notes, notes
    assert marks_of_clblast(product) == ["refused"]
    begun = count_children(tmp_path)
    assert reason in product(**harm) and count_children(tmp_path) == begun


@pytest.mark.by_turn(6)
def test_clblast_does_no_harm(product, tmp_path):
    assert not product() and marks_of_clblast(product) == ["accepted"]
    begun = count_children(tmp_path)
    assert not product() and count_children(tmp_path) == begun


@pytest.mark.by_turn(6)
def test_clblast_without_children(product):
    harm = {"CLAVE_STUB_HARM": "segv clBuildProgram XgemmDirect", "CLAVE_HELPER": "off"}
    product(-11, **harm)
    assert marks_of_clblast(product) == ["building"]
    assert EARLIER in product(**harm)
    assert not product() and marks_of_clblast(product) == ["accepted"]  # a child tries again
