"""The reader of .npy files, through `clave run --input`."""

import io
import struct

import ml_dtypes
import numpy as np
import pytest

X = np.arange(8, dtype="<f4").reshape(2, 4)


def header(text, version=1):
    raw = text.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(raw)) + raw


def form(descr="'<f4'", order="False", shape="(2, 4)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def saved(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def read(tool, program, raw):
    (tool.folder / "x.npy").write_bytes(raw)
    return tool.run("run", program, "--input", "x=x.npy", "--input", "scale=1", "--json")


@pytest.mark.parametrize(
    "raw",
    [
        saved(X, (1, 0)),
        saved(X, (2, 0)),
        saved(X, (3, 0)),
        saved(np.asfortranarray(X)),
        header(form()) + X.tobytes(),
        header(form(order="True")) + X.tobytes("F"),
        header('{"shape": (2,4), "fortran_order": False, "descr": "<f4"}') + X.tobytes(),
        header(form(), 2) + X.tobytes(),
    ],
    ids=range(8),
)
def test_good_files(tool, program, raw):
    r = read(tool, program, raw)
    assert r.returncode == 0, r.stderr
    assert '"first": [3, 3]' in r.stdout


@pytest.mark.parametrize(
    "raw, says",
    [
        (b"", "ends early"),
        (b"\x93NUMPY\x01", "ends early"),
        (b"PK\x03\x04 not an array", "does not begin with"),
        (b"\x93NUMPY\x04\x00\x02\x00{}", "newer than 3"),
        (header(form(), 3)[:30], "ends early"),
        (b"\x93NUMPY\x02\x00" + b"\xff" * 8, "longer than"),
        (
            header(form()) + X.tobytes()[:-1],
            "the file has 31 bytes of data, and its shape and dtype need 32",
        ),
        (header(form()) + X.tobytes() + b"x", "has 33 bytes"),
        (header(form("'>f4'")) + X.tobytes(), "not little-endian"),
        (header(form("'=f4'")) + X.tobytes(), "not little-endian"),
        (header(form("'<c8'")) + X.tobytes() * 2, "unsupported dtype <c8"),
        (header(form("'<U3'")), "unsupported dtype <U3"),
        (header(form("'|O'")), "unsupported dtype |O"),
        (header(form("[('a', '<f4')]")), "structured dtypes are not supported"),
        (header(form("'" + "f" * 40 + "'")), "structured dtypes are not supported"),
        (header(form("''")), "unsupported dtype"),
        (header(form(order="1")), "fortran_order is not a bool"),
        (header(form(shape="8")), "not a tuple"),
        (header(form(shape="(8)")), "not a tuple"),
        (header(form(shape="(2, -4)")), "not a tuple of integers"),
        (header(form(shape="(2 4)")), "not a tuple of integers"),
        (header(form(shape="(1,1,1,1,1,1,1,2,4)")), "more than 8 dimensions"),
        (header(form(shape="(99999999999999999999,)")), "not a tuple of integers"),
        (header(form(shape="(4294967296, 4294967296)")), "too large"),
        (header(form(shape="(9223372036854775807,)")), "too large"),
        (header("{}"), "incomplete"),
        (header("[1]"), "not a dictionary"),
        (header(form() + "x"), "text after the header"),
        (header("{'descr': '<f4', 'descr': '<f4'}"), "appears twice"),
        (header("{'descr': '<f4', 'more': 1}"), "unknown key"),
        (header("{'descr': '<f4'"), "bad header"),
        (header("{" + "'" * 50), "bad header"),
        (header(form("'|b1'")) + b"\1\0\2\0\0\0\0\0", "element 2: expected a bool, got 2"),
    ],
    ids=range(33),
)
def test_bad_files(tool, program, raw, says):
    r = read(tool, program, raw)
    assert r.returncode == 1 and says in r.stderr and not r.stdout, r.stderr
    assert r.stderr.startswith("clave: x.npy: ") and r.stderr.count("\n") == 1


def test_not_a_file(tool, program):
    (tool.folder / "folder.npy").mkdir()
    assert "folder.npy" in tool.bad(1, "run", program, "--input", "x=folder.npy", "--input", "scale=1")


def test_every_dtype_is_read(tool, program):
    """The program accepts only F32, and the error names the given dtype."""
    for code, name in [
        ("f2", "F16"),
        ("f8", "F64"),
        ("i1", "I8"),
        ("u1", "U8"),
        ("i2", "I16"),
        ("i4", "I32"),
        ("i8", "I64"),
        ("b1", "BOOL"),
        ("u2", "U16"),
        ("u4", "U32"),
        ("u8", "U64"),
        (ml_dtypes.bfloat16, "BF16"),
        (ml_dtypes.float8_e4m3fn, "F8_E4M3"),
        (ml_dtypes.float8_e5m2, "F8_E5M2"),
    ]:
        r = read(tool, program, saved(X.astype(code)))
        assert r.returncode == 1 and name in r.stderr and "F32" in r.stderr, r.stderr


def test_truncated_anywhere(tool, program):
    raw = saved(X)
    for n in range(0, len(raw), 7):
        assert read(tool, program, raw[:n]).returncode == 1
