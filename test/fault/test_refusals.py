"""Drivers that refuse kernels, by any call and any code: other kernels run instead."""

import pytest
from test_faults import net, right_answer, run_net

__all__ = ("net",)  # a fixture

# The calls by which a driver refuses a kernel, and codes that drivers were seen to return; -9999 is in no header.
REFUSALS = {
    "clBuildProgram": (-6, -5, -11, -15, -17, -42, -44, -9999),
    "clCreateKernel": (-5, -6, -45, -46, -48),
    "clGetKernelWorkGroupInfo": (-30, -48),
    "clEnqueueNDRangeKernel": (-54, -4, -5, -6, -52, -55),
    "clCreateProgramWithSource": (-6, -5),
    "clSetKernelArg": (-5, -38, -51),
}
CLASSES = ("gpu", "cpu", "cpu", "gpu", "cpu", "gpu")


@pytest.mark.parametrize(("call", "device_class"), list(zip(REFUSALS, CLASSES, strict=True)))
def test_kernels_that_are_refused(net, build, stub, tmp_path, everything, call, device_class):
    """If one kernel, or every later one, is refused, others run instead, on the device or the CPU backend."""
    out = tmp_path / "out.safetensors"
    env = stub | {"CLAVE_CACHE_DIR": "off", "CLAVE_SELF_CHECK": None, "CLAVE_STUB_FAIL_NAME": call}
    env["CLAVE_DEVICE_CLASS"] = device_class
    for code in REFUSALS[call] if everything else REFUSALS[call][:1]:
        one = (
            "0" if call in ("clEnqueueNDRangeKernel", "clSetKernelArg") else "9"
        )  # later launches of a kernel that was launched are not refusals
        for refused in ("FAIL_AT", one), ("LOST_AT", "0"):
            which = {"CLAVE_STUB_ERROR": str(code), f"CLAVE_STUB_{refused[0]}": refused[1]}
            p = run_net(build, net, env | which, out, "--device", "opencl")
            right_answer(p, net, out)
            assert refused[0] == "FAIL_AT" or f"({code})" in p.stderr, p.stderr
            out.unlink()
