"""Files of executables by their extensions: .npy, .safetensors and raw elements; a hostile file is one error line."""

import json
import struct
import subprocess

import numpy as np
import pytest
import torch
from compiled import SAN, Builder, emit
from safetensors.numpy import load_file, save_file
from test_models import noise, saved

import clave


class Two(torch.nn.Module):
    """Two inputs, and outputs of three dtypes."""

    def forward(self, x, i):
        y = x[i] * 2
        return y, i + 1, y > 0, y.double()


X, I = noise(6, 3), torch.tensor([5, 0, 2, 2])


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Returns the executable, built with sanitizers, and the results of a session."""
    folder = tmp_path_factory.mktemp("two")
    program = saved(folder, Two(), X, I)
    exe = Builder("clang", ("-O0", *SAN)).build(emit(program, folder / "c", "--arena", "static"))
    return exe, clave.Session(str(program), device="cpu").run(X, I)


def call(two, folder, *words, refused=False):
    r = subprocess.run([two[0], *words], cwd=folder, capture_output=True, text=True, timeout=60)
    if refused:
        assert (r.returncode, r.stdout) == (1, ""), r.stderr
        assert r.stderr.startswith("model: ") and r.stderr.count("\n") == 1
        return r.stderr
    assert (r.returncode, r.stdout, r.stderr) == (0, "", "")
    return None


OUTS = ["y.npy", "i.npy", "b.npy", "d.npy"]


@pytest.fixture
def given(tmp_path):
    np.save(tmp_path / "x.npy", X.numpy())
    np.save(tmp_path / "i.npy", I.numpy())
    X.numpy().tofile(tmp_path / "x.bin")
    I.numpy().tofile(tmp_path / "i.bin")
    return tmp_path


def test_npy(two, given):
    call(two, given, "x.npy", "i.npy", *[f"o{k}.npy" for k in range(4)])
    for k, want in enumerate(two[1]):
        got = np.load(given / f"o{k}.npy")
        assert got.dtype == want.dtype and np.array_equal(got, want)


def test_fortran_order_and_raw_outputs(two, given):
    np.save(given / "f.npy", np.asfortranarray(X.numpy()))
    assert b"'fortran_order': True" in (given / "f.npy").read_bytes()
    call(two, given, "f.npy", "i.bin", *[f"o{k}.bin" for k in range(4)])
    for k, want in enumerate(two[1]):
        assert (given / f"o{k}.bin").read_bytes() == want.tobytes()


def test_safetensors(two, given):
    """An input is found by its name, by its number, or as the only tensor; outputs with the same path are one file."""
    save_file({"x": X.numpy(), "i": I.numpy()}, given / "both.safetensors")
    save_file({"input_0": X.numpy(), "input_1": I.numpy(), "more": I.numpy()}, given / "numbers.safetensors")
    save_file({"whatever": X.numpy()}, given / "one.safetensors", metadata={"x": "none"})
    for x, i in (("both", "both"), ("numbers", "numbers"), ("one", "both")):
        out = "o.safetensors"
        call(two, given, f"{x}.safetensors", f"{i}.safetensors", out, out, "b.npy", out)
        got = load_file(given / out)
        assert sorted(got) == ["output_0", "output_1", "output_3"]
        for k in (0, 1, 3):
            assert got[f"output_{k}"].dtype == two[1][k].dtype and np.array_equal(got[f"output_{k}"], two[1][k])
        assert np.array_equal(np.load(given / "b.npy"), two[1][2])
        (given / out).unlink()


@pytest.mark.parametrize(
    "x, says",
    [
        (X.numpy().astype(np.float64), "x.npy: F64 (6, 3) does not fit input 'x', which is F32 (6, 3), 72 bytes"),
        (X.numpy()[:5], "x.npy: F32 (5, 3) does not fit input 'x', which is F32 (6, 3)"),
        (X.numpy().reshape(6, 3, 1), "x.npy: F32 (6, 3, 1) does not fit input 'x', which is"),
        (X.numpy().astype(">f4"), "is not little-endian"),
        (X.numpy().astype(np.complex64), "unsupported dtype <c8"),
    ],
)
def test_other_arrays_are_refused(two, given, x, says):
    np.save(given / "x.npy", x)
    assert says in call(two, given, "x.npy", "i.npy", *OUTS, refused=True)
    assert not (given / "y.npy").exists()


def header(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + data


def entry(dtype="F32", shape=(6, 3), at=(0, 72)) -> str:
    return json.dumps({"x": {"dtype": dtype, "shape": list(shape), "data_offsets": list(at)}})


DATA = X.numpy().tobytes()
HOSTILE = {
    "empty": (b"", "not a safetensors file, or the file is cut off"),
    "a length beyond the file": (struct.pack("<Q", 1 << 60) + b"{}", "not a safetensors file, or the file is cut off"),
    "is not a JSON object": (header("[]"), "the header is not a JSON object"),
    "cut off": (header('{"x": {'), "JSON"),
    "no entry": (header("{}", DATA), "the file has no tensor 'x' or 'input_0' among its 0"),
    "an entry that is none": (header('{"x": 5}', DATA), "is not a JSON object"),
    "an entry that is a list": (header('{"x": [1]}', DATA), "is not a JSON object"),
    "no dtype": (header('{"x": {"shape": [6, 3], "data_offsets": [0, 72]}}', DATA), "has no dtype, shape or"),
    "a dtype twice": (header('{"x": {"dtype": "F32", "dtype": "F32"}}', DATA), "dtype twice"),
    "a dtype that is none": (header(entry("F33"), DATA), "unsupported dtype F33"),
    "a dtype that is long": (header(entry("F" * 99), DATA), "the header has an unknown dtype"),
    "a dtype that is a number": (header(entry(5), DATA), "the wrong JSON type"),
    "a size that is negative": (header(entry(shape=(-6, 3)), DATA), "a size in the header is out of range"),
    "a size that is huge": (header(entry(shape=(1 << 70, 3)), DATA), "a size in the header is out of range"),
    "sizes that overflow": (header(entry(shape=(1 << 62, 1 << 62)), DATA), "do not fit its shape"),
    "a size in a list": (header(entry(shape=([6], 3)), DATA), "the wrong JSON type"),
    "nine dimensions": (header(entry(shape=(1,) * 9), DATA), "a tensor has more than 8 dimensions"),
    "offsets beyond the file": (header(entry(at=(8, 80)), DATA), "are outside the file"),
    "offsets backwards": (header(entry(at=(72, 0)), DATA), "do not fit its shape"),
    "three offsets": (header(entry(at=(0, 72, 72)), DATA), "expected [begin, end]"),
    "twice": (header('{"x": %s, "x": %s}' % ((entry()[6:-1],) * 2), DATA), "the file has tensor 'x' twice"),
    "two others": (header('{"a": %s, "b": %s}' % ((entry()[6:-1],) * 2), DATA), "the file has no tensor 'x' or"),
    "another shape": (header(entry(shape=(3, 6)), DATA), "F32 (3, 6) does not fit input 'x', which is"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers(two, given, name):
    bytes_, says = HOSTILE[name]
    (given / "x.safetensors").write_bytes(bytes_)
    line = call(two, given, "x.safetensors", "i.npy", *OUTS, refused=True)
    assert says in line and "x.safetensors" in line
    assert not (given / "y.npy").exists()


@pytest.mark.parametrize("cut", [0, 5, 9, 60, 100, 199])
def test_npy_that_is_cut_off(two, given, cut):
    (given / "x.npy").write_bytes((given / "x.npy").read_bytes()[:cut])
    assert "x.npy: " in call(two, given, "x.npy", "i.npy", *OUTS, refused=True)


def test_an_output_that_cannot_be_written(two, given):
    outs = ["o.safetensors", "i.npy", "no/b.npy", "o.safetensors"]
    before = sorted(given.iterdir())
    assert "no/b.npy: no such file" in call(two, given, "x.npy", "i.bin", *outs, refused=True)
    assert sorted(given.iterdir()) == before


@pytest.mark.parametrize("name", ["o.npy", "o.bin"])
def test_two_outputs_of_one_file(two, given, name):
    before = sorted(given.iterdir())
    said = call(two, given, "x.npy", "i.npy", name, "o2.npy", name, "o4.npy", refused=True)
    assert f"{name}: the file is given for two outputs, and only a .safetensors can store both" in said
    assert sorted(given.iterdir()) == before
    call(two, given, "x.npy", "i.npy", "/dev/null", "i2.npy", "/dev/null", "/dev/null")
    assert np.array_equal(np.load(given / "i2.npy"), two[1][1])


@pytest.mark.parametrize("name", ["x.npy", "./i.npy", "link"])
def test_an_input_is_not_written_over(two, given, name):
    (given / "link").symlink_to("x.npy")
    before = {f.name: f.read_bytes() for f in given.iterdir()}
    over = "i.npy" if name == "./i.npy" else "x.npy"
    said = call(two, given, "x.npy", "i.npy", "o.npy", "o2.npy", name, "o4.npy", refused=True)
    assert f"output {name} would overwrite input {over}\n" in said
    assert {f.name: f.read_bytes() for f in given.iterdir()} == before


def test_no_room_for_the_last_output(two, given):
    before = sorted(given.iterdir())
    assert "/dev/full: " in call(two, given, "x.npy", "i.npy", *OUTS[:1], "o2.npy", "o3.bin", "/dev/full", refused=True)
    assert sorted(given.iterdir()) == before
