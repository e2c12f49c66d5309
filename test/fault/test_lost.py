"""Tests a device that is lost, and one whose largest buffer is small."""

import os
import subprocess
import sys
import time

import pytest
import torch
from test_faults import net, one_error, right_answer, run_net

import clave
from clave.llm import KVCache

__all__ = ("net",)  # a fixture


@pytest.mark.parametrize("call", ["clFinish", "clFlush", "clWaitForEvents"])
def test_a_lost_device_is_not_called_again(net, build, stub, tmp_path, call):
    """A driver may hang in every call after it lost its device, and crash in its exit handlers. The error names the
    kernels that were queued."""
    out = tmp_path / "out.safetensors"
    env = stub | {"CLAVE_CACHE_DIR": "off", "CLAVE_DEVICE_CLASS": "gpu,slow", "CLAVE_STUB_HANGS": call}
    env |= {"CLAVE_STUB_FAIL_NAME": call, "CLAVE_STUB_FAIL_AT": "1"}
    begin = time.monotonic()
    error = one_error(run_net(build, net, env, out, "--device", "opencl"), out)
    assert f"{call}: CL_OUT_OF_RESOURCES (-5)" in error and "the device was lost" in error, error
    assert "kernel" in error and time.monotonic() - begin < 60, error


@pytest.mark.parametrize(
    ("enqueue", "code", "hangs", "lost"),
    [
        ("clEnqueueNDRangeKernel", -36, "clEnqueueNDRangeKernel", True),  # NVIDIA's code for a queue after a crash
        ("clEnqueueNDRangeKernel", -9999, "clEnqueueNDRangeKernel", True),
        ("clEnqueueNDRangeKernel", -5, "clFinish", True),
        ("clEnqueueNDRangeKernel", -6, "clFinish", True),
        ("clEnqueueNDRangeKernel", -5, "", False),
        ("clEnqueueWriteBuffer", -2, "clEnqueueWriteBuffer", True),
    ],
)
def test_an_enqueue_that_fails(build, stub, tmp_path, enqueue, code, hangs, lost):
    """A kernel that has run before is not refused. The code, or else a wait, tells whether the device was lost."""
    clave.export(torch.nn.Softmax(-1), (torch.randn(64, 40),), verify=False).save(tmp_path / "m.clv")
    env = os.environ | stub | {"CLAVE_CACHE_DIR": "off", "CLAVE_STUB_ERROR": str(code), "CLAVE_STUB_HANGS": hangs}
    env |= {"CLAVE_STUB_FAIL_NAME": f"{enqueue} {hangs}", "CLAVE_STUB_LOST_AT": "8"}
    command = [str(build / "clave"), "bench", str(tmp_path / "m.clv"), "--runs", "20", "--device", "opencl"]
    p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30)
    assert p.returncode == 1 and p.stderr.count("\n") == 1, (p.returncode, p.stderr)
    assert f"{enqueue}: " in p.stderr and f"({code})" in p.stderr, p.stderr
    assert ("the device was lost" in p.stderr) == lost, p.stderr
    assert "kernel softmax" in p.stderr or enqueue != "clEnqueueNDRangeKernel", p.stderr


def test_tensors_that_exceed_the_largest_buffer(net, build, stub, tmp_path):
    """Ops on buffers that are too large run on the CPU backend."""
    out, env = tmp_path / "out.safetensors", stub | {"CLAVE_STUB_MAX_ALLOC": "1024", "CLAVE_CACHE_DIR": "off"}
    right_answer(run_net(build, net, env, out, "--device", "opencl"), net, out)
    out.unlink()
    error = one_error(run_net(build, net, env, out, "--device", "opencl", "--no-fallback"), out)
    assert "a tensor of 2048 bytes exceeds the device's largest buffer, 1024 bytes" in error, error


class Cached(torch.nn.Module):
    """Attention with a cache of up to 4,096 rows, 262,144 bytes."""

    def __init__(self):
        super().__init__()
        self.rows = KVCache(2, 4096, 8)

    def forward(self, x):
        return self.rows(x, x, x, torch.tensor(0))


STATE = """
import sys, clave, numpy
x = numpy.random.default_rng(1).standard_normal((1, 2, 8, 8)).astype("float32")
want = clave.Session(sys.argv[1], device="cpu").run(x)[0]
small, large = (clave.Session(sys.argv[1], device="opencl") for _ in range(2))
small.resize("context", 64)
for session in (large, small, large):
    assert abs(session.run(x)[0] - want).max() < 1e-5
"""


def test_state_that_exceeds_the_largest_buffer(stub, tmp_path):
    """It is kept by the CPU backend in the sessions whose size is too large."""
    clave.export(Cached(), (torch.randn(1, 2, 8, 8),), verify=False).save(tmp_path / "m.clv")
    env = os.environ | stub | {"CLAVE_STUB_MAX_ALLOC": "65536", "CLAVE_CACHE_DIR": "off"}
    command = [sys.executable, "-c", STATE, str(tmp_path / "m.clv")]
    p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr
