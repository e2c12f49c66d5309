"""Inputs and outputs in dma-bufs, which the stub OpenCL imports by cl_khr_external_memory_dma_buf, by
cl_arm_import_memory_dma_buf, or not at all. The stub counts violations of their rules."""

import os
import subprocess

import pytest
from test_faults import binary, cache, net, run_faults, stub_log

__all__ = ("cache", "net")  # fixtures


def device(stub, log, way):
    env = stub | {"CLAVE_STUB_GPU": "1", "CLAVE_STUB_LOG": str(log)}
    return env | ({"CLAVE_STUB_DMA_BUF": way} if way else {})


@pytest.mark.parametrize("way", ("khr", "arm", None))
def test_imported_memory(build, stub, tmp_path, way):
    """Checks results, acquired and released objects, and leaks; a device without support refuses."""
    log = tmp_path / "log"
    env = os.environ | device(stub, log, way) | {"CLAVE_CACHE_DIR": "off"}
    p = subprocess.run([build / "test/api/test_dma_buf"], env=env, capture_output=True, text=True, timeout=600)
    assert p.returncode == 0, p.stdout + p.stderr
    assert ("unsupported: refused" in p.stdout) == (way is None)
    left = stub_log(log)
    assert left.pop("calls") > 0 and not any(left.values()), left


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("way", ("khr", "arm"))
def test_failing_calls(net, build, stub, tmp_path, cache, everything, way):
    """Each call of a host's run fails once; acquired objects are still released."""
    run, step, log = binary(build, "run_opencl_faults", sanitized=False), 1 if everything else 29, tmp_path / "log"
    run_faults(run, "calls", *net[:2], 0, step, env=device(stub, log, way) | cache, least=10)
    assert "violations" not in stub_log(log)
