"""Drivers that crash or hang when they list their devices (test/stub_opencl/harm.h): the CPU backend runs, with a note.
A child process lists the devices first, or a mark on disk protects later processes if no child can be started."""

import os
import shutil
import time

import pytest
from test_faults import command, net, one_error, right_answer, run_net

__all__ = ("net",)  # a fixture
EARLIER = "an earlier process ended when a driver listed its devices"


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
        ("segv", "clGetPlatformIDs", "a driver crashed when it listed its devices (signal 11)"),
        ("abort", "clGetDeviceIDs", "a driver crashed when it listed its devices (signal 6)"),
        ("exit", "clGetDeviceInfo", "a driver ended the process that listed its devices (exit status 3)"),
        ("hang", "clGetDeviceIDs", "a driver did not list its devices within 2 s"),
    ],
)
def test_a_driver_that_does_harm(net, build, host, tmp_path, how, call, reason):
    """The second process knows the outcome, until the driver's files change."""
    out, harm = tmp_path / "out.safetensors", host | {"CLAVE_STUB_HARM": f"{how} {call} list"}
    for said, children in ((reason, 1), (EARLIER, 1)):
        p = run_net(build, net, harm, out)
        right_answer(p, net, out)
        assert f"running on the CPU backend; OpenCL is not used: {said}" in p.stderr, p.stderr
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
    out, alone = tmp_path / "out.safetensors", host | {"CLAVE_HELPER": "off"}
    harm = alone | {"CLAVE_STUB_HARM": "segv clGetDeviceIDs list"}
    assert run_net(build, net, harm, out).returncode == -11
    p = run_net(build, net, harm, out)
    right_answer(p, net, out)
    assert EARLIER in p.stderr
    mark = next((tmp_path / "cache").glob("*.mark"))
    state, about = mark.read_text().splitlines()
    *words, begun = state.split(" ")
    mark.write_text("\n".join((" ".join((*words, str(int(time.time()) - 86400))), about)) + "\n")
    assert command(build, alone, "devices").stdout.count("opencl:0") == 1, begun  # it is tried again after a day
    assert mark.read_text().startswith("accepted\n")
    assert run_net(build, net, harm | {"CLAVE_ISOLATION": "off"}, out).returncode == -11
