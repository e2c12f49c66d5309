"""What runs of the runners share."""

import pytest


@pytest.fixture(scope="module")
def stub(build, real_opencl):
    folder = build / "stub"
    if not (folder / "libOpenCL.so.1").exists():
        pytest.skip("the stub OpenCL is not built")
    alone = {"CLAVE_HELPER": "off"}  # child processes would count and log calls of their own
    return {"LD_LIBRARY_PATH": str(folder), "CLAVE_STUB_REAL": real_opencl, "CLAVE_DEVICE": ""} | alone
