"""Drivers of imitated devices that refuse the kernels of GPUs, by any call and any code: other kernels run instead."""

import pytest

# The calls by which a driver refuses a kernel, and codes that drivers were seen to return; -9999 is in no header.
CODES = {
    "clBuildProgram": (-9999, -5, -6, -11, -15, -17, -42, -44),
    "clCreateKernel": (-5, -6, -45, -46, -48),
    "clGetKernelWorkGroupInfo": (-48, -30),
    "clEnqueueNDRangeKernel": (-54, -4, -5, -6, -52, -55),
}
# Kernels that a device runs: profile, precision, model, kernel.
KERNELS = [
    ("nvidia_sm86", "fast", "everything", "gemm_mma"),
    ("amd_gfx942", "fast", "everything", "gemm_mma"),
    ("intel_a770", "fast", "everything", "gemm_mma"),
    ("adreno_740", "strict", "everything", "gemm_direct_image"),
    ("mali_g78", "strict", "everything", "gemm_direct"),
    ("mali_g78", "fast", "everything", "matmul_dots"),
    ("intel_a770", "fast", "everything", "gemv_dots"),
    ("intel_uhd770", "strict", "everything", "conv_groups"),
    ("amd_gfx1100", "strict", "everything", "gemm_local"),
    ("amd_gfx900", "strict", "everything", "attention_groups"),
    ("mali_g52", "strict", "llm", "gemv_row_lanes"),
]
# A profile, a probe, and how many notes its failure causes: the extension of dots has two functions.
PROBES = [("nvidia_sm86", "mma", 0), ("intel_uhd770", "dots", 2), ("adreno_640", "subgroups", 1)]


@pytest.fixture
def bench(imitate, programs):
    """Returns a function (profile, precision, model, environment) that times a model once."""

    def run(profile, precision, model, **env):
        command = ("clave", "bench", programs(model), "--runs", "1", "--warmup", "0")
        return imitate(profile, command, CLAVE_PRECISION=precision, **env)

    return run


def kernels_of(p):
    return {launch[1] for launch in p.launches}


def refuse(call, code, text="", first="LOST_AT", n=0):
    """Returns the variables by which the stub fails all calls about a program or kernel from the n-th on, or one."""
    about = {"CLAVE_STUB_FAIL_NAME": call, "CLAVE_STUB_FAIL_TEXT": text}
    return about | {"CLAVE_STUB_ERROR": str(code), f"CLAVE_STUB_{first}": str(n)}


@pytest.mark.parametrize("call", CODES)
@pytest.mark.parametrize(("profile", "precision", "model", "kernel"), KERNELS, ids=[row[-1] for row in KERNELS])
def test_kernels_that_are_refused(bench, everything, profile, precision, model, kernel, call):
    if call == "clBuildProgram":
        assert kernel in kernels_of(bench(profile, precision, model))
    for code in CODES[call] if everything else CODES[call][:1]:
        p = bench(profile, precision, model, **refuse(call, code, kernel))
        assert p.code == 0 and f"({code}" in p.err and not p.broken, (p.err, p.broken)
        assert kernels_of(p) and kernel not in kernels_of(p)
        assert "answered_by  opencl" in p.out


@pytest.mark.parametrize(("profile", "types"), [("nvidia_sm86", {"F16", "BF16"}), ("nvidia_sm75", {"F16"})])
def test_turing(bench, tmp_path, profile, types):
    """Turing's unit for matrices lacks BF16, to which fast precision rounds f32."""
    assert bench(profile, "fast", "everything", CLAVE_IMITATED_PROGRAMS=str(tmp_path)).code == 0
    options = [p.read_text().partition("\n")[0] for p in tmp_path.glob("*.cl")]
    assert {o.split("MMA_TYPE=")[1].split()[0] for o in options if "MMA_TYPE=" in o} == types


@pytest.mark.parametrize("code", (-5, -6, -40))
def test_images_that_are_refused(bench, code):
    p = bench("adreno_740", "strict", "everything", **refuse("clCreateImage", code))
    assert p.code == 0 and "clCreateImage: " in p.err and f"({code}" in p.err, p.err
    assert "gemm_direct_image" not in kernels_of(p) and "answered_by  opencl" in p.out


@pytest.mark.parametrize("call", CODES)
@pytest.mark.parametrize(("profile", "name", "expected"), PROBES)
def test_probes_that_are_refused(bench, everything, profile, name, expected, call):
    """An instruction whose probe fails is not used. A note says so, unless only the vendor suggests the instruction."""
    model, precision = ("llm", "strict") if name == "subgroups" else ("everything", "fast")
    for code in CODES[call] if everything else CODES[call][:1]:
        p = bench(profile, precision, model, **refuse(call, code, f"{name}_probe"))
        assert p.code == 0 and "answered_by  opencl" in p.out, p.err
        notes = p.err.count("so kernels do not use it")
        assert notes == expected and (not notes or f"({code}" in p.err), p.err


@pytest.mark.parametrize(("profile", "name"), [row[:2] for row in PROBES])
def test_devices_that_are_lost_in_a_probe(bench, profile, name):
    """The first wait is that of the probe. The run then ends with a one-line error."""
    model, precision = ("llm", "strict") if name == "subgroups" else ("everything", "fast")
    p = bench(profile, precision, model, **refuse("clFinish", -5, first="FAIL_AT"))
    lines = [line for line in p.err.splitlines() if "note: " not in line]
    assert p.code == 1 and len(lines) == 1 and "was lost" in lines[0], p.err


def test_devices_that_are_lost(bench):
    """The driver reports it when the queue is waited for: one line names what was queued."""
    for code in (-5, -36, -14):
        p = bench("intel_uhd770", "strict", "everything", **refuse("clFinish", code))
        assert p.code == 1 and p.err.count("\n") == 1 and "clFinish" in p.err and f"({code}" in p.err, p.err
