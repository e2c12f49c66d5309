"""Program files against flatc (JSON, FlatBuffers) and the safetensors library (constants)."""

import ctypes
import json
import shutil
import subprocess

import numpy as np
import pytest
import safetensors.numpy

PROGRAM = {
    "version": 1,
    "producer": "test é",
    "tensors": [
        {"shape": [{"literal": 3}, {"literal": 4}], "name": "w"},
        {"dtype": "BOOL", "shape": [{"literal": 3}], "name": "flags"},
        {"shape": [{"vid": {"idx": 0}}, {"literal": 3}], "name": "x"},
        {"shape": [{"vid": {"idx": 0}}, {"literal": 4}], "name": "y"},
        {"shape": [{"vid": {"idx": 0}}, {"literal": 4}], "name": "t"},
    ],
    "n_inputs": 1,
    "n_outputs": 1,
    "values": [{"name": "n", "min": 1}],
    "constants": [{"name": "w"}, {"name": "flags"}],
    "chains": [
        {
            "instructions": [
                {
                    "op_type": "Matmul",
                    "op": {"a": {"idx": 2}, "b": {"idx": 0}, "alpha": 0.1, "out": {"idx": 4}},
                    "name": "mm",
                },
                {
                    "op_type": "Elementwise",
                    "op": {
                        "inputs": [{"idx": 4}],
                        "steps": [
                            {"kind": "relu", "operands": [{}]},
                            {
                                "kind": "minimum",
                                "operands": [{"source": "step"}, {"source": "float_", "f": 6}],
                            },
                        ],
                        "out": {"idx": 3},
                    },
                },
            ]
        }
    ],
    "methods": [
        {
            "name": "forward",
            "inputs": [{"name": "x", "tensor": {"idx": 2}}],
            "outputs": [{"name": "y", "tensor": {"idx": 3}}],
        }
    ],
}
WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)
FLAGS = np.array([True, False, True])


class Tensor(ctypes.Structure):
    """clave_tensor of include/clave.h."""

    _fields_ = [
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int),
        ("dims", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
        ("data", ctypes.c_void_p),
    ]


def make_tensor(array, dtype):
    t = Tensor(dtype, array.ndim, data=array.ctypes.data)
    for i, (size, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
        t.dims[i], t.strides[i] = size, stride // array.itemsize
    return t


@pytest.fixture(scope="session")
def library(build):
    lib = ctypes.CDLL(str(build / "libclave.so"))
    for name in ("create", "save", "load"):
        getattr(lib, f"clave_program_{name}").restype = ctypes.c_void_p
    lib.clave_status_message.restype = ctypes.c_char_p
    lib.clave_status_message.argtypes = [ctypes.c_void_p]
    lib.clave_program_destroy.argtypes = [ctypes.c_void_p]
    lib.clave_program_save.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return lib


@pytest.fixture(scope="session")
def flatc():
    found = shutil.which("flatc")
    if not found:
        pytest.skip("flatc is not installed")
    return found


def good(library, status):
    assert not status, library.clave_status_message(status).decode()


def run_flatc(flatc, root, build, *args):
    subprocess.run([flatc, "-I", str(build / "gen"), *map(str, args)], check=True, cwd=root, capture_output=True)


def make_binary(flatc, root, build, folder, source):
    run_flatc(flatc, root, build, "-o", folder, "--binary", "serialize/schema.fbs", source)
    return (folder / (source.stem + ".bin")).read_bytes()


def save(library, flatbuffer, path):
    """Saves the program of FlatBuffers bytes and the two constants."""
    constants = (Tensor * 2)(make_tensor(WEIGHTS, 0), make_tensor(FLAGS, 9))
    program = ctypes.c_void_p()
    good(
        library,
        library.clave_program_create(
            flatbuffer, ctypes.c_size_t(len(flatbuffer)), constants, ctypes.c_size_t(2), ctypes.byref(program)
        ),
    )
    try:
        good(library, library.clave_program_save(program, str(path).encode()))
    finally:
        library.clave_program_destroy(program)


@pytest.fixture
def saved(library, flatc, root, build, tmp_path):
    """Writes prog.json to an empty folder, from flatc's FlatBuffer of PROGRAM."""
    source = tmp_path / "source.json"
    source.write_text(json.dumps(PROGRAM, ensure_ascii=False))
    folder = tmp_path / "program"
    folder.mkdir()
    save(library, make_binary(flatc, root, build, tmp_path, source), folder / "prog.json")
    return folder / "prog.json"


def test_flatc_binary_is_the_same_program(saved):
    read = json.loads(saved.read_text())
    read.pop("consts_hash")
    assert read == PROGRAM


def test_flatc_reads_what_we_write(saved, library, flatc, root, build, tmp_path):
    again = make_binary(flatc, root, build, tmp_path, saved)
    other = tmp_path / "other"
    other.mkdir()
    save(library, again, other / "prog.json")
    assert (other / "prog.json").read_text() == saved.read_text()


def test_constants_are_safetensors(saved):
    read = safetensors.numpy.load_file(saved.parent / "consts.safetensors")
    assert set(read) == {"w", "flags"}
    np.testing.assert_array_equal(read["w"], WEIGHTS)
    np.testing.assert_array_equal(read["flags"], FLAGS)


def convert(build, a, b):
    return subprocess.run([build / "clave", "convert", a, b], capture_output=True, text=True)


def test_convert_there_and_back(saved, build, tmp_path):
    clv, back = tmp_path / "m.clv", tmp_path / "back.json"
    assert convert(build, saved, clv).returncode == 0
    assert convert(build, clv, back).returncode == 0
    assert back.read_text() == saved.read_text()
    assert (tmp_path / "consts.safetensors").read_bytes() == (saved.parent / "consts.safetensors").read_bytes()


def test_convert_keeps_other_constants(saved, build, tmp_path):
    clv, consts = tmp_path / "m.clv", tmp_path / "consts.safetensors"
    assert convert(build, saved, clv).returncode == 0
    safetensors.numpy.save_file({"mine": WEIGHTS}, consts)
    before = consts.read_bytes()
    result = convert(build, clv, tmp_path / "prog.json")
    assert result.returncode == 1
    assert "consts.safetensors" in result.stderr
    assert result.stderr.count("\n") == 1
    assert consts.read_bytes() == before
    assert not (tmp_path / "prog.json").exists()


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"])
def test_reads_other_peoples_safetensors(build, tmp_path, dtype):
    path = tmp_path / "t.safetensors"
    array = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
    safetensors.numpy.save_file({"b": array[:1], "a": array}, path, metadata={"k": "v"})
    result = subprocess.run([build / "clave", "inspect", path, "--json"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)


def test_foreign_dtypes_are_named(build, tmp_path):
    path = tmp_path / "t.safetensors"
    safetensors.numpy.save_file({"big": np.arange(3, dtype=np.complex64)}, path)
    result = subprocess.run([build / "clave", "inspect", path], capture_output=True, text=True)
    assert result.returncode == 1
    assert "C64" in result.stderr
    assert "big" in result.stderr
