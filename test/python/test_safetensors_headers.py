"""Headers of safetensors files that an export reads: it accepts and refuses the same as the safetensors library."""

import json
import struct

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")
safetensors = pytest.importorskip("safetensors", reason="needs safetensors (ci/requirements.txt)")

import clave
from clave.llm.folder import read_header


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def written(header, n_bytes):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(range(n_bytes))


A, B = tensor("F32", [2], 0, 8), tensor("F32", [1], 8, 12)
FILES = {
    "nothing": b"",
    "half a length": b"\0" * 5,
    "a length alone": struct.pack("<Q", 8),
    "the largest length": b"\xff" * 8 + b"{}",
    "no tensor": written({}, 0),
    "one": written({"a": A}, 8),
    "two, not in order": written({"b": B, "a": A}, 12),
    "an empty one between": written({"a": A, "e": tensor("F32", [0, 3], 8, 8), "b": B}, 12),
    "a scalar": written({"a": tensor("I64", [], 0, 8)}, 8),
    "a text": written({"a": A, "__metadata__": {"format": "pt"}}, 8),
    "a text that is none": written({"a": A, "__metadata__": {"format": 1}}, 8),
    "a dtype that we have not": written({"a": tensor("F8_E4M3", [8], 0, 8)}, 8),
    "a dtype that nobody has": written({"a": tensor("F33", [2], 0, 8)}, 8),
    "too few bytes": written({"a": A}, 4),
    "more bytes": written({"a": A}, 12),
    "overlap": written({"a": A, "b": tensor("F32", [1], 4, 8)}, 8),
    "a hole": written({"a": A, "b": tensor("F32", [1], 12, 16)}, 16),
    "another shape": written({"a": tensor("I64", [2], 0, 8)}, 8),
    "a negative size": written({"a": tensor("F32", [-2], 0, 8)}, 8),
    "a size that is none": written({"a": tensor("F32", [True], 0, 4)}, 4),
    "three offsets": written({"a": A | {"data_offsets": [0, 8, 8]}}, 8),
    "a list": written([], 0),
    "no JSON": written(b"xx", 0),
    "UTF-16": written(json.dumps({"a": A}).encode("utf-16"), 8),
    "a name of other letters": written({"größe": A}, 8),
    "an odd length": written(json.dumps({"a": A}).encode() + b" ", 8),
}


def by_library(path):
    try:
        with safetensors.safe_open(path, "np") as f:
            slices = {name: f.get_slice(name) for name in f.keys()}  # noqa: SIM118  (not a dict)
            return {name: (tuple(s.get_shape()), s.get_dtype()) for name, s in slices.items()}
    except safetensors.SafetensorError:
        return None


def by_us(path):
    try:
        return {name: (t.shape, t.dtype) for name, t in read_header(path).items()}
    except clave.Error as e:
        assert str(e).startswith(f"{path}: is not a safetensors file: ") and "\n" not in str(e)
        return None


@pytest.mark.parametrize("name", FILES)
def test_headers(tmp_path, name):
    path = tmp_path / "model.safetensors"
    path.write_bytes(FILES[name])
    assert by_us(path) == by_library(path)


def test_damaged_headers(tmp_path):
    path, random, refused = tmp_path / "model.safetensors", np.random.default_rng(5), 0
    good = FILES["an empty one between"]
    for _ in range(300):
        damaged = bytearray(good)
        for at in random.integers(8, len(good) - 12, random.integers(1, 4)):
            damaged[at] = random.choice(list(b'0123456789[]{},:"aFIU'))
        path.write_bytes(damaged)
        assert by_us(path) == by_library(path)
        refused += by_us(path) is None
    assert 100 < refused < 300


@pytest.mark.parametrize(
    "name", [name for name in FILES if name.startswith(("one", "two", "an empty", "an odd", "a sc"))]
)
def test_values(tmp_path, name):
    """Each tensor begins where the library reads it, whatever the order of the header and the length before it."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(FILES[name])
    for key, t in read_header(path).items():
        with safetensors.safe_open(path, "np") as f:
            want = f.get_tensor(key).tobytes()
        assert path.read_bytes()[t.at : t.at + len(want)] == want
