"""Concurrent processes with one folder of kernels: the results are the same, and a third process uses the binaries."""

import os
import subprocess

import numpy as np
import pytest
import safetensors.numpy

pytestmark = pytest.mark.by_turn(17)


def test_processes_share_the_cache(root, build, stub, tmp_path):
    mnist = root / "examples/mnist"
    image = f"x={mnist / 'digits/7.npy'}"
    env = os.environ | stub | {"CLAVE_CACHE_DIR": str(tmp_path / "cache"), "CLAVE_DEVICE": "opencl"}

    def start(name, **more):
        out = tmp_path / f"{name}.safetensors"
        command = [build / "clave", "run", mnist / "mnist.clv", "--no-fallback", "--input", image, "--outputs", out]
        return out, subprocess.Popen(command, env=env | more, stderr=subprocess.PIPE, text=True)

    def end(out, process):
        error = process.communicate(timeout=300)[1]
        assert process.returncode == 0, error
        return safetensors.numpy.load_file(out)["output_0"]

    results = [end(*p) for p in [start(f"beside_{n}") for n in range(2)]]
    assert results[0].argmax() == 7
    files = [f for f in (tmp_path / "cache").rglob("*") if f.is_file()]
    assert files
    # Nothing is compiled from source any more, so a call that compiles is an error.
    refused = {"CLAVE_STUB_FAIL_NAME": "clCreateProgramWithSource", "CLAVE_STUB_LOST_AT": "0"}
    results.append(end(*start("after", **refused)))
    assert all(np.array_equal(r, results[0]) for r in results)
