"""Element types that are only stored: files, numbers on the command line, statistics, inspect, verify."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
import torch
from conftest import tensor
from safetensors import safe_open
from safetensors.numpy import save_file

DTYPES = {
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F8_E4M3": ml_dtypes.float8_e4m3fn,
    "F8_E5M2": ml_dtypes.float8_e5m2,
}
each_dtype = pytest.mark.parametrize("name", DTYPES)


def make_program(dtype, *shape, version=4):
    """Returns a program with same = a copy of x, wide = x as F64."""
    copy = {"x": {"idx": 0}, "out": {"idx": 1}}
    step = {"kind": "cast", "dtype": "F64", "operands": [{"source": "input", "index": 0}]}
    cast = {"inputs": [{"idx": 0}], "out": {"idx": 2}, "steps": [step]}
    instructions = [
        {"op_type": "Copy", "op": copy, "name": "copy"},
        {"op_type": "Elementwise", "op": cast, "name": "cast"},
    ]
    outputs = [{"name": "same", "tensor": {"idx": 1}}, {"name": "wide", "tensor": {"idx": 2}}]
    return {
        "version": version,
        "producer": "test",
        "n_inputs": 1,
        "n_outputs": 2,
        "n_state": 0,
        "tensors": [tensor("x", dtype, *shape), tensor("same", dtype, *shape), tensor("wide", "F64", *shape)],
        "values": [],
        "chains": [{"name": "forward", "instructions": instructions}],
        "methods": [
            {
                "name": "forward",
                "chain": 0,
                "inputs": [{"name": "x", "tensor": {"idx": 0}}],
                "outputs": outputs,
            }
        ],
    }


def write_program(tool, *args, **kw):
    (tool.folder / "p.json").write_text(json.dumps(make_program(*args, **kw)))
    return "p.json"


def values(name):
    """Returns three numbers, the largest first."""
    dtype = DTYPES[name]
    largest = {"F8_E4M3": 448.0, "F8_E5M2": 57344.0}.get(name) or np.iinfo(dtype).max
    return np.array([largest, 0, 5], dtype=dtype)


@each_dtype
def test_files_and_statistics(tool, name):
    program, x = write_program(tool, name, 3), values(name)
    np.save(tool.folder / "x.npy", x)
    save_file({"x": x}, tool.folder / "x.safetensors")
    for given in (("--input", "x=x.npy"), ("--inputs", "x.safetensors")):
        tool.good("run", program, *given, "--outputs", "out.safetensors")
        with safe_open(tool.folder / "out.safetensors", "pt") as f:  # torch has all of these dtypes
            same, wide = f.get_tensor("output_0"), f.get_tensor("output_1")
            assert f.get_slice("output_0").get_dtype() == name
        assert (wide.numpy() == x.astype(np.float64)).all()
        assert same.view(torch.uint8).numpy().tobytes() == x.tobytes()
        report = json.loads(tool.good("run", program, *given, "--json"))
        same, wide = report
        assert same["dtype"] == name and same["first"] == x.tolist()
        assert [same[k] for k in ("min", "max", "mean")] == [wide[k] for k in ("min", "max", "mean")]
        assert same["max"] == float(x[0])
        text = tool.good("run", program, *given)
        assert f"{name} [3]" in text and str(x[0].item() if name[0] == "U" else int(x[0])) in text


@each_dtype
def test_commands(tool, name):
    program = write_program(tool, name, 3)
    assert f"{name} [3]" in tool.good("inspect", program)
    tool.good("verify", program)
    tool.good("convert", program, "p.clv")
    assert json.loads(tool.good("bench", "p.clv", "--runs", "2", "--json"))["median_ms"] > 0
    x = values(name)
    reference = {"input_0": x, "output_0": x, "output_1": x.astype(np.float64)}
    save_file(reference, tool.folder / "r.safetensors")
    tool.good("verify", "p.clv", "--reference", "r.safetensors")
    save_file(reference | {"output_0": x[::-1].copy()}, tool.folder / "r.safetensors")
    assert "same" in tool.bad(1, "verify", "p.clv", "--reference", "r.safetensors")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("U16", {"65535": 65535, "0": 0}, ["65536", "-1", "1.5"]),
        ("U32", {"4294967295": 2**32 - 1}, ["4294967296", "-1"]),
        ("U64", {"18446744073709551615": 2**64 - 1}, ["18446744073709551616", "-1", " -1"]),
        ("F8_E4M3", {"1.0625": 1.0, "1e9": 448, "-0.3": -0.3125}, ["one"]),
        ("F8_E5M2", {"1.125": 1.0, "61439": 57344}, [""]),
    ],
)
def test_numbers_on_the_command_line(tool, name, good, bad):
    program = write_program(tool, name)
    for text, number in good.items():
        report = json.loads(tool.good("run", program, "--input", f"x={text}", "--json"))
        assert report[0]["first"] == [number]
    for text in bad:
        assert text in tool.bad(1, "run", program, "--input", f"x={text}")


def test_the_types_of_ml_dtypes_are_told_apart(tool):
    program = write_program(tool, "F8_E5M2", 3)
    np.save(tool.folder / "x.npy", values("F8_E4M3"))
    assert "F8_E4M3" in tool.bad(1, "run", program, "--input", "x=x.npy")
    program = write_program(tool, "BF16", 3)
    np.save(tool.folder / "x.npy", np.array([1, 2.5, -3], dtype=ml_dtypes.bfloat16))
    assert json.loads(tool.good("run", program, "--input", "x=x.npy", "--json"))[0]["first"] == [1, 2.5, -3]


def test_what_a_reader_must_know(tool):
    """A file requires the version that introduced the dtype; an older version is refused."""
    assert "dtype U16 needs schema version 4, the program says 3" in tool.bad(
        1, "verify", write_program(tool, "U16", 3, version=3)
    )
    tool.good("convert", write_program(tool, "F8_E4M3", 3), "p.clv")
    assert json.loads(tool.good("inspect", "p.clv", "--json"))["version"] == 4
    raw = (tool.folder / "p.clv").read_bytes()
    assert struct.unpack_from("<I", raw, 8) == (1,)  # the container's version is unchanged


def test_ops_that_do_not_take_them(tool):
    program = make_program("U16", 3)
    program["chains"][0]["instructions"][1] = {
        "op_type": "Softmax",
        "op": {"x": {"idx": 0}, "axis": 0, "out": {"idx": 2}},
        "name": "weights",
    }
    (tool.folder / "p.json").write_text(json.dumps(program))
    said = tool.bad(1, "verify", "p.json")
    assert "x is U16, which is only moved and cast" in said and "softmax" in said and "weights" in said
