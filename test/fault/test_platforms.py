"""Known properties of other platforms' devices (backend/opencl/device/quirks.c), under the stub OpenCL with their
names: rules that choose kernels accordingly, and launches that such a device would refuse."""

import json
import os
import subprocess
import sys

import pytest
import safetensors.torch
import torch

import clave

KERNELS = [  # the last field is the kind of local memory: dedicated or global
    ("QUALCOMM Snapdragon(TM)", "QUALCOMM Adreno(TM) 740", "image", 1),
    ("ARM Platform", "Mali-G78 r0p1", "direct", 2),
    ("ARM Platform", "Mali-G78 r0p1", "local", 1),
    ("another", "another", "direct", 2),
    ("NVIDIA CUDA", "NVIDIA H100", "local", 1),
]
GRID = 65535


def call(build, stub, platform, name, *words, **more):
    env = {"CLAVE_STUB_GPU": "1", "CLAVE_STUB_PLATFORM": platform, "CLAVE_STUB_NAME": name, "CLAVE_CACHE_DIR": "off"}
    command = [str(w) for w in (build / "clave", *words, "--device", "opencl")]
    return subprocess.run(command, env=os.environ | stub | env | more, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("platform, name, kernel, local", KERNELS)
def test_kernels_of_products(build, stub, tmp_path, platform, name, kernel, local):
    linear = torch.nn.Linear(40, 50)
    clave.export(linear, (torch.randn(64, 40),), verify=False).save(tmp_path / "m.clv")
    words = "tune", tmp_path / "m.clv", "--dry-run", "--json"
    p = call(build, stub, platform, name, *words, CLAVE_STUB_LOCAL_TYPE=str(local))
    assert p.returncode == 0, p.stderr
    assert [(c["family"], c["variant"]) for c in json.loads(p.stdout)["choices"]][:1] == [("matmul", kernel)]


class Attention(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize(
    "name, dim, kernel",
    [
        ("Intel(R) Arc(TM) A770 Graphics", 128, "groups 32"),
        ("Intel(R) UHD Graphics 770", 128, "groups 16"),
        ("Intel(R) Iris(R) Xe Graphics", 64, "groups 32"),
        ("Intel(R) Iris(R) Xe Graphics", 256, "groups 16"),
    ],
)
def test_rows_of_attention(build, stub, tmp_path, name, dim, kernel):
    """Intel's GPUs before Arc have half the registers, so that fewer rows have sums in them."""
    clave.export(Attention(), (torch.randn(1, 8, 256, dim),), verify=False).save(tmp_path / "m.clv")
    words = "tune", tmp_path / "m.clv", "--dry-run", "--json"
    p = call(build, stub, "Intel(R) OpenCL Graphics", name, *words)
    assert p.returncode == 0, p.stderr
    assert [(c["family"], c["variant"]) for c in json.loads(p.stdout)["choices"]][:1] == [("attention", kernel)]


class Product(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


@pytest.fixture(scope="module")
def products(tmp_path_factory):
    """Makes a program with batches of products, and inputs with GRID products and with one more."""
    torch.manual_seed(1)
    folder, batch = tmp_path_factory.mktemp("products"), torch.export.Dim("batch", min=2)
    a, b = torch.randn(GRID + 1, 3, 2), torch.randn(GRID + 1, 2, 5)
    shapes = {"dynamic_shapes": ({0: batch}, {0: batch})}
    clave.export(Product(), (a, b), verify=False, **shapes).save(folder / "m.clv")
    for n in (GRID, GRID + 1):
        inputs = {"input_0": a[:n].contiguous(), "input_1": b[:n].contiguous()}
        safetensors.torch.save_file(inputs, folder / f"{n}.safetensors")
    return folder, a @ b


@pytest.mark.by_turn(3)
@pytest.mark.parametrize(
    "platform, n, moves", [("NVIDIA CUDA", GRID, False), ("NVIDIA CUDA", GRID + 1, True), ("another", GRID + 1, False)]
)
def test_grids(build, stub, products, tmp_path, platform, n, moves):
    """The CPU backend computes products that need more groups of work-items than a dimension of a launch may have; this
    is known before any launch."""
    (folder, want), out = products, tmp_path / "out.safetensors"
    files = folder / "m.clv", "--inputs", folder / f"{n}.safetensors", "--outputs", out
    limit = {"CLAVE_SELF_CHECK": "off"} | ({"CLAVE_STUB_MAX_GRID": str(GRID)} if platform != "another" else {})
    p = call(build, stub, platform, "a device", "run", *files, **limit)
    assert p.returncode == 0, p.stderr
    assert ("it runs on the CPU backend" in p.stderr) == moves, p.stderr
    found = safetensors.torch.load_file(out)["output_0"]
    assert (found - want[:n]).abs().max() < 1e-5
    if moves:
        out.unlink()
        p = call(build, stub, platform, "a device", "run", *files, "--no-fallback", **limit)
        assert p.returncode == 1 and not out.exists()
        assert f"the device allows at most {GRID} groups in a dimension, got {n}" in p.stderr
        assert p.stderr.count("\n") == 1, p.stderr


class Lines(torch.nn.Module):
    """A copy and an elementwise list with more lines than a launch may have groups."""

    def forward(self, x, y):
        return x[:, :17].contiguous(), x * y


@pytest.mark.by_turn(3)
def test_lines_beyond_grids(build, stub, tmp_path):
    """The device computes them point by point."""
    torch.manual_seed(2)
    x, y = torch.randn(GRID + 1, 18), torch.randn(GRID + 1, 1)
    clave.export(Lines(), (x, y), verify=False).save(tmp_path / "m.clv")
    safetensors.torch.save_file({"input_0": x, "input_1": y}, tmp_path / "in.safetensors")
    files = tmp_path / "m.clv", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    limit = {"CLAVE_SELF_CHECK": "off", "CLAVE_STUB_MAX_GRID": str(GRID)}
    p = call(build, stub, "NVIDIA CUDA", "a device", "run", *files, "--no-fallback", **limit)
    assert p.returncode == 0, p.stderr
    found = safetensors.torch.load_file(tmp_path / "out.safetensors")
    assert torch.equal(found["output_0"], x[:, :17]) and torch.equal(found["output_1"], x * y)


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("width, memory", [(16, 32 << 10), (16, 64 << 10), (4, 32 << 10)])
def test_local_memory_to_the_last_byte(build, stub, tmp_path, width, memory):
    """A block of a matrix, or of sums, may use all local memory of a device."""
    torch.manual_seed(3)
    linear, x = torch.nn.Linear(300, 300), torch.randn(300, 300)
    clave.export(linear, (x,), verify=False).save(tmp_path / "m.clv")
    safetensors.torch.save_file({"input_0": x}, tmp_path / "in.safetensors")
    files = tmp_path / "m.clv", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    env = stub | {"CLAVE_STUB_LOCAL_MEM": str(memory), "CLAVE_STUB_VECTOR": str(width), "CLAVE_CACHE_DIR": "off"}
    command = [str(w) for w in (build / "clave", "run", *files, "--device", "opencl", "--no-fallback")]
    p = subprocess.run(command, env=os.environ | env, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stderr
    found = safetensors.torch.load_file(tmp_path / "out.safetensors")["output_0"]
    assert (found - linear(x)).abs().max() < 1e-4


@pytest.mark.by_turn(3)
@pytest.mark.parametrize("platform, code", [("rusticl", 0), ("another", 1)])
def test_maps_that_wait(build, stub, tmp_path, platform, code):
    """Large inputs and results are used in place; maps pass them from host to device and back."""
    clave.export(torch.nn.ReLU(), (x := torch.randn(300, 300),), verify=False).save(tmp_path / "m.clv")
    safetensors.torch.save_file({"input_0": x}, tmp_path / "in.safetensors")
    files = tmp_path / "m.clv", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    limit = {"CLAVE_SELF_CHECK": "off", "CLAVE_STUB_BLOCKING_MAPS": "1"}
    p = call(build, stub, platform, "a device", "run", *files, "--no-fallback", **limit)
    assert p.returncode == code, p.stderr
    if code:
        assert "clEnqueueMapBuffer: CL_INVALID_VALUE" in p.stderr
    else:
        assert torch.equal(safetensors.torch.load_file(tmp_path / "out.safetensors")["output_0"], x.relu())


def described(build, stub, **told):
    """Returns what `clave devices` says of the first device, and its notes."""
    env = os.environ | stub | {f"CLAVE_STUB_{k}": v for k, v in told.items()}
    command = [str(build / "clave"), "devices", "--json"]
    p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)[0], p.stderr


@pytest.mark.parametrize(
    "profile, extensions, reason",
    [
        ("EMBEDDED_PROFILE", "", "the embedded profile without 64-bit integers (cles_khr_int64)"),
        ("EMBEDDED_PROFILE", "not_cles_khr_int64 ", "the embedded profile without 64-bit integers"),
        ("", "", "the embedded profile without 64-bit integers"),
        ("EMBEDDED_PROFILE", "cles_khr_int64 ", None),
        ("FULL_PROFILE", "", None),
    ],
)
def test_profiles(build, stub, profile, extensions, reason):
    """A device with the embedded profile is used if it has what kernels need."""
    first, notes = described(build, stub, PROFILE=profile, EXTENSIONS=extensions)
    assert (first["kind"] == "opencl") == (reason is None)
    assert reason is None or reason in notes


def test_an_embedded_device_runs(build, stub, tmp_path):
    """Local memory is 1 KB, the minimum of the embedded profile. Ops that need more run on the CPU backend."""
    model = torch.nn.Sequential(torch.nn.Linear(40, 50), torch.nn.Softmax(-1))
    x = torch.randn(64, 40)
    clave.export(model, (x,), verify=False).save(tmp_path / "m.clv")
    safetensors.torch.save_file({"input_0": x}, tmp_path / "in.safetensors")
    files = tmp_path / "m.clv", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    limits = {"PROFILE": "EMBEDDED_PROFILE", "EXTENSIONS": "cles_khr_int64 ", "LOCAL_MEM": "1024"}
    p = call(build, stub, "Vivante", "GC7000", "run", *files, **{f"CLAVE_STUB_{k}": v for k, v in limits.items()})
    assert p.returncode == 0, p.stderr
    found = safetensors.torch.load_file(tmp_path / "out.safetensors")["output_0"]
    assert (found - model(x)).abs().max() < 1e-5


@pytest.mark.parametrize(
    "platform, name, version, want",
    [
        ("QUALCOMM ", "QUALCOMM Adreno(TM)", "OpenCL 3.0 Adreno(TM) 740", "QUALCOMM Adreno(TM) 740"),
        ("QUALCOMM ", "QUALCOMM ", "OpenCL 2.0  Adreno(TM)\033[640", "QUALCOMM Adreno(TM) [640"),
        ("QUALCOMM ", "QUALCOMM Adreno(TM) 830", "OpenCL 3.0 Adreno(TM) 740", "QUALCOMM Adreno(TM) 830"),
        ("QUALCOMM ", "QUALCOMM Adreno(TM)", "OpenCL 3.0", "QUALCOMM Adreno(TM)"),
        ("another ", "a GPU", "OpenCL 3.0 model 740", "a GPU"),
    ],
)
def test_names_without_a_model(build, stub, platform, name, version, want):
    """The OpenCL version string completes the name of an Adreno."""
    first, _ = described(build, stub, PLATFORM=platform, WHOLE_NAME=name, VERSION=version)
    assert first["name"] == want and first["version"] == version.replace("\033", " ")


WAITS = """
import sys, time, ctypes, clave, numpy
session, x = clave.Session(sys.argv[1], device="opencl"), numpy.ones((500, 500), "float32")
session.run(x)
waited = ctypes.CDLL("libOpenCL.so.1").stub_waited
waited.restype = ctypes.c_int64
before, begin = waited(), time.perf_counter()
for _ in range(3):
    session.run(x)
print((waited() - before) / 1e6 / (time.perf_counter() - begin))
"""


class Powers(torch.nn.Module):
    def forward(self, x):
        for _ in range(12):
            x = x @ x * 0.002
        return x


def test_waits_leave_the_core_idle(build, stub, tmp_path):
    """NVIDIA's driver keeps a core busy in clFinish, so that clave sleeps until the work is done, and then calls it."""
    shares = {}
    clave.export(Powers(), (torch.ones(500, 500),), verify=False).save(tmp_path / "m.clv")
    for platform in ("NVIDIA CUDA", "another"):
        env = os.environ | stub | {"CLAVE_STUB_PLATFORM": platform, "CLAVE_CACHE_DIR": "off"}
        command = [sys.executable, "-c", WAITS, str(tmp_path / "m.clv")]
        p = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert p.returncode == 0, p.stderr
        shares[platform] = float(p.stdout)
    assert shares["NVIDIA CUDA"] < 0.2 and shares["another"] > 0.5, shares
