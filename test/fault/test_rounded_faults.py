"""Allocations and OpenCL calls that fail in a product whose rows are rounded (CLAVE_PRECISION=fast)."""

import pytest
import safetensors.torch
import torch
from test_faults import binary, run_faults

pytestmark = pytest.mark.by_turn(9)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """Returns a program and data like `net`: a product that rounds its rows, with an error below the tolerance."""
    import clave

    folder = tmp_path_factory.mktemp("product")
    layer, x = torch.nn.Linear(64, 40), torch.randn(3, 64) * 1e-3
    clave.export(layer, (x,), quantize="int8").save(str(folder / "p.clv"))
    safetensors.torch.save_file({"in.A.0": x, "out.0.0": layer(x).detach()}, folder / "data.safetensors")
    return folder / "p.clv", folder / "data.safetensors"


# The product's kernels use instructions of the CPU, which are probed first, and are compared with rounded rows.
ROUNDED = {
    "CLAVE_PRECISION": "fast",
    "CLAVE_DEVICE_CLASS": "cpu",
    "CLAVE_SELF_CHECK": "strict",
    "CLAVE_CACHE_DIR": "off",
}


def test_allocations_of_rounded_rows(product, build, tmp_path, everything):
    run, step = binary(build, "run_faults"), 5 if everything else 31
    run_faults(run, "alloc", *product, "opencl", tmp_path / "out", 0, step, env=ROUNDED, least=5)


def test_opencl_calls_of_rounded_rows(product, build, stub, tmp_path, everything):
    run, step = binary(build, "run_faults", sanitized=False), 3 if everything else 11
    run_faults(run, "calls", *product, "opencl", tmp_path / "out", 0, step, env=stub | ROUNDED, least=5)
