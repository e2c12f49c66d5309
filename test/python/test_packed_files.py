"""Weights packed ahead (clave convert --pack, Device.pack) have the bits of weights packed at the first run. They are
read from the file if it was packed for the same device, version and constants. Otherwise, or if it is damaged, they
are packed again."""

import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess

import numpy as np
import pytest
import safetensors.numpy
import torch
from torch import nn

import clave

pytestmark = pytest.mark.by_turn(4)
DEVICES = ["cpu", "opencl"]


class Net(nn.Module):
    """Products with weights of two dtypes, plain and quantised, and convolutions."""

    def __init__(self):
        super().__init__()
        self.conv, self.strided = nn.Conv2d(3, 10, 3, padding=1), nn.Conv2d(10, 12, 3, stride=2, groups=2)
        self.planes, self.transposed = nn.Conv2d(12, 12, 3, padding=1), nn.ConvTranspose2d(12, 5, 3)
        self.wide, self.tiled = nn.Conv2d(5, 64, 1), nn.Conv2d(64, 20, 3, padding=1)
        self.linear, self.coded, self.narrow = nn.Linear(20, 300), nn.Linear(300, 64), nn.Linear(64, 33)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_((torch.arange(p.numel()) * 37 % 101 - 50).reshape(p.shape) / 256)
        self.narrow.to(torch.float16)

    def forward(self, x):
        x = self.transposed(self.planes(self.strided(torch.relu(self.conv(x)))))
        x = self.wide(x)
        x = self.tiled(x) + self.tiled(nn.functional.pad(x, (9, 9, 9, 9)))[:, :, 9:15, 9:15]  # tiles of 2 and of 4
        return self.narrow(self.coded(self.linear(x.flatten(2).mean(2))).half()).float()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    batch = torch.export.Dim("batch", max=64)
    program = clave.export(
        Net().eval(),
        (torch.zeros(2, 3, 10, 10),),
        dynamic_shapes=({0: batch},),
        quantize=lambda name, tensor: {"coded.weight": "int4:32", "planes.weight": "int8:32"}.get(name),
        verify=False,
    )
    program.save(folder / "plain.clv")
    return folder


@pytest.fixture(scope="module")
def tool(build, folder):
    """Returns a function that runs `clave` there and returns its output and its notes."""

    def run(*args, code=0, **env):
        env = {k: v for k, v in os.environ.items() if k != "CLAVE_DEVICE_CLASS"} | env
        r = subprocess.run([build / "clave", *args], cwd=folder, env=env, capture_output=True, text=True, check=False)
        assert r.returncode == code, r.stderr
        return r.stdout, r.stderr

    return run


def answers(tool, folder, program, device, **env):
    """Returns outputs for few and many rows, the second process as a second run, and the memory of the file."""
    made = []
    for rows in (1, 40):
        x = np.random.default_rng(rows).standard_normal((rows, 3, 10, 10)).astype(np.float32)
        safetensors.numpy.save_file({"input_0": x}, folder / "in.safetensors")
        where = ("--device", device, "--inputs", "in.safetensors", "--outputs", "out.safetensors")
        _, notes = tool("run", program, *where, **env)
        made.append(safetensors.numpy.load_file(folder / "out.safetensors")["output_0"].tobytes())
    return made, notes


def packed(tool, device, **env):
    """Returns a file packed for the device, and its description."""
    name = f"{device}_{'_'.join(env.values()) or 'plain'}.clv"
    tool("convert", "plain.clv", name, "--pack", device, **env)
    return name, json.loads(tool("inspect", name, "--json")[0])["packed"]


@pytest.mark.parametrize("precision", ["strict", "fast"])
@pytest.mark.parametrize("device", DEVICES)
def test_same_bits(tool, folder, device, precision):
    env = {"CLAVE_PRECISION": precision, "CLAVE_SELF_CHECK": "strict", "CLAVE_DEVICE_CLASS": "cpu"}
    name, of = packed(tool, device, **env)
    assert len(of) == 1 and re.match(rf"{device} \d+ ", of[0]["device"]) and of[0]["constants"] >= 3
    assert answers(tool, folder, name, device, **env) == answers(tool, folder, "plain.clv", device, **env)
    tool("verify", name)


@pytest.mark.parametrize("device", DEVICES)
def test_forms_are_read_from_the_file(tool, folder, device):
    """Changed bytes, with corrected hashes, change the result: the weights are not packed again."""
    env = {"CLAVE_DEVICE_CLASS": "cpu"}
    name, _ = packed(tool, device, **env)
    plain = answers(tool, folder, name, device, **env)
    bytes_ = bytearray((folder / name).read_bytes())
    for _, at, size in forms_of(bytes_):
        bytes_[at : at + size] = bytes(size)
    (folder / "zeros.clv").write_bytes(bytes_)
    assert answers(tool, folder, "zeros.clv", device, **env, CLAVE_SELF_CHECK="off")[0] != plain[0]
    _, error = tool("verify", "zeros.clv", code=1)
    assert "is damaged (hash)" in error
    right, notes = answers(tool, folder, "zeros.clv", device, **env, CLAVE_SELF_CHECK="on")
    assert right == plain[0] and "is damaged (hash) and is packed again" in notes
    tool("convert", "zeros.clv", "mended.clv", "--pack", device, **env)
    tool("verify", "mended.clv")
    assert answers(tool, folder, "mended.clv", device, **env, CLAVE_SELF_CHECK="off") == plain


def sections(file):
    """Returns {tag: (offset, size)}."""
    (n,) = struct.unpack_from("<I", file, 24)
    at = {}
    for i in range(n):
        tag, _, offset, size, _ = struct.unpack_from("<4sIQQQ", file, 64 + 32 * i)
        at[tag.decode()] = offset, size
    return at


def forms_of(file):
    """Returns (layout, offset, bytes) of each packed weight, as docs/reference/formats.md defines them."""
    at = sections(file)
    index, forms = at["FIDX"][0], at["FORM"][0]
    (count,) = struct.unpack_from("<I", file, index + 8)
    for i in range(count):
        entry = index + 16 + 232 * i
        layout = bytes(file[entry : entry + 32]).rstrip(b"\0").decode()
        offset, size = struct.unpack_from("<QQ", file, entry + 208)
        yield layout, forms + offset, size


@pytest.mark.parametrize("level", ["avx2", "portable"])
def test_other_levels_pack_their_own(tool, folder, level):
    """Kernels that use fewer instructions ignore weights packed for this processor, and vice versa."""
    name, of = packed(tool, "cpu")
    other, of_other = packed(tool, "cpu", CLAVE_DEVICE_CLASS=level)
    has_more = {"avx2": "avx512f", "portable": "avx2"}[level] in pathlib.Path("/proc/cpuinfo").read_text()
    assert (of[0]["device"] != of_other[0]["device"]) == has_more
    for program, packed_for in ((name, {}), (other, {"CLAVE_DEVICE_CLASS": level})):
        for env in ({}, {"CLAVE_DEVICE_CLASS": level}):
            right, notes = answers(tool, folder, program, "cpu", **env)
            assert right == answers(tool, folder, "plain.clv", "cpu", **env)[0]
            is_anew = has_more and env != packed_for
            assert notes.count("are packed again for") == is_anew, notes
    tool("convert", other, "both.clv", "--pack", "cpu")
    both = json.loads(tool("inspect", "both.clv", "--json")[0])["packed"]
    assert [p["device"] for p in both] == list(dict.fromkeys(p["device"] for p in of_other + of))


def test_convert(tool, folder):
    name, _ = packed(tool, "cpu")
    tool("convert", name, "kept.clv")
    assert (folder / "kept.clv").read_bytes() == (folder / name).read_bytes()
    assert "packed" in tool("inspect", "kept.clv")[0]
    tool("convert", "kept.clv", "none.clv", "--pack", "none")
    assert (folder / "none.clv").read_bytes() == (folder / "plain.clv").read_bytes()
    _, notes = tool("convert", "kept.clv", "kept.json")
    assert "packed weights are not written, because a .json cannot store them" in notes
    _, error = tool("convert", "kept.clv", "kept.json", "--pack", "cpu", code=2)
    assert "kept.json cannot store packed weights; write a .clv" in error
    _, error = tool("convert", "kept.clv", "other.clv", "--pack", "abacus", code=1)
    assert "unknown device 'abacus'" in error and not (folder / "other.clv").exists()
    _, error = tool("convert", "plain.clv", "other.clv", "--pack", "cpu", code=1, CLAVE_MEMORY_BUDGET="1K")
    assert "packing for" in error and "which has 0.0 MB; " in error and not (folder / "other.clv").exists()


def test_optimize_keeps_those_of_constants_that_stay(tool, folder):
    name, before = packed(tool, "cpu")
    tool("optimize", name, "-o", "optimized.clv")
    tool("verify", "optimized.clv")
    (of,) = json.loads(tool("inspect", "optimized.clv", "--json")[0])["packed"]
    assert 0 < of["constants"] <= before[0]["constants"]
    tool("optimize", "plain.clv", "-o", "optimized_plain.clv")
    assert answers(tool, folder, "optimized.clv", "cpu") == answers(tool, folder, "optimized_plain.clv", "cpu")


def test_from_python(folder):
    program, device = clave.Program.load(folder / "plain.clv"), clave.Device("cpu")
    device.pack(program)
    program.save(folder / "python.clv")
    x = torch.randn(3, 3, 10, 10)
    sessions = [clave.Session(clave.Program.load(folder / f"{name}.clv"), device) for name in ("plain", "python")]
    sessions.append(clave.Session(program, device))
    runs = [session.run(x)[0] for session in sessions]
    assert all(np.array_equal(runs[0], run) for run in runs[1:])
    with pytest.raises(clave.Error, match="a program must be packed before sessions use it"):
        device.pack(program)


# SHA-256 of all packed weights of Net (XXH3 would do as well). If one changes, a kernel's layout has changed: raise the
# version in backend_info.weight_layout of its backend, and files packed before are packed again.
LAYOUTS = {
    "cpu 5 x86-64 avx512": "1d5489624a6386de46a5684a0c7894f6d98afe824b4b86a4cb7d31d8610a730b",
    "cpu 5 x86-64 avx2": "2cc286be9515d4bb447d41b4c8d4904da4dd534fe39f09c54773b0ea4c954cfc",
    "cpu 5 portable": "41c0dd17191363e422007550121d67dc6a876ea70304c2a0d572aaaae52a5821",
    "opencl 5 width 16": "104d48fea48ee38b54fcb9ad48e9d6076386a73d96ab9dfe6e3f8ca23b7d9dc9",
}
# Hashes in fast precision if the processor multiplies pairs of BF16.
FLAGS = pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else ""
PAIRS, TILES = "avx512_bf16" in FLAGS, "amx_bf16" in FLAGS
OF_PAIRS = {
    "cpu 5 x86-64 avx512": "228bfc881a39468920d86d86538a40522b3ea728facf9ad483bd2a88b770654c",
}
# Hashes with AMX tiles: weights of few channels have other layouts, with the same versions.
OF_TILES = {
    "cpu 5 x86-64 avx512": "f39ae679af9ccd3fa14e6a0c5a1157498a146bbf3ae6b66c01cc8c0836c3b8a6",
}


@pytest.mark.parametrize("precision", ["strict", "fast"])
@pytest.mark.parametrize(
    "device, level", [("cpu", ""), ("cpu", "avx512"), ("cpu", "avx2"), ("cpu", "portable"), ("opencl", "cpu")]
)
def test_layouts_have_versions(tool, folder, device, level, precision):
    name, of = packed(tool, device, CLAVE_DEVICE_CLASS=level, CLAVE_PRECISION=precision)
    file = (folder / name).read_bytes()
    made = hashlib.sha256(b"".join(file[at : at + size] for _, at, size in forms_of(file))).hexdigest()
    layout = of[0]["device"]
    known = LAYOUTS | (OF_PAIRS if PAIRS and precision == "fast" else {})
    known |= OF_TILES if TILES and precision == "fast" and level != "avx512" else {}
    if layout not in known:
        pytest.skip(f"no layout is known of {layout}")
    assert made == known[layout], (of, made)
