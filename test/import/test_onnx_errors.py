"""Models that are refused: one line with everything that is wrong."""

import subprocess

import numpy as np
import pytest

import clave

onnx = pytest.importorskip("onnx", reason="no onnx package is installed")
h, T = onnx.helper, onnx.TensorProto


def model(nodes, initializers=(), inputs=(("x", ["n", 4]),), outputs=(("y", None),), opset=17, **more):
    info = lambda name, shape: h.make_tensor_value_info(name, T.FLOAT, shape)
    graph = h.make_graph(nodes, "g", [info(*i) for i in inputs], [info(*o) for o in outputs], list(initializers))
    imports = [h.make_opsetid("", opset), h.make_opsetid("com.acme", 3)]
    return h.make_model(graph, opset_imports=imports, ir_version=8, **more)


def refused(m):
    with pytest.raises(clave.Error) as e:
        clave.from_onnx(m)
    assert "\n" not in str(e.value)
    return e.value


def test_all_unsupported_ops_in_one_message():
    nodes = [
        h.make_node("Foo", ["x"], ["a"], domain="com.acme", name="first"),
        h.make_node("Foo", ["x"], ["b"], domain="com.acme", name="second"),
        h.make_node("Relu", ["a"], ["c"]),
        h.make_node("StringNormalizer", ["c"], ["d"]),
        h.make_node("Cast", ["x"], ["s"], to=T.STRING),
        h.make_node("Relu", ["d"], ["y"]),
    ]
    e = refused(model(nodes))
    assert isinstance(e, clave.UnsupportedOp)
    assert e.ops == ["com.acme.Foo", "StringNormalizer", "Cast"]
    assert "opset 3; 2 nodes: first, second" in e.reasons["com.acme.Foo"]
    assert "STRING" in e.reasons["Cast"]


def test_reasons_with_parentheses():
    w = onnx.numpy_helper.from_array(np.zeros((1,) * 6, np.float32), "w")
    e = refused(model([h.make_node("Conv", ["x", "w"], ["y"], name="c")], [w], [("x", [1] * 6)]))
    assert e.reasons == {"Conv": "4 spatial dimensions (1 to 3); 1 node: c"}


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([h.make_node("Relu", ["z"], ["y"], name="r")], "input 'z' is the result of no node; node 'r' (Relu)"),
        ([h.make_node("Relu", ["x"], ["z"])], "output 'y' is the result of no node"),
        ([h.make_node("Relu", ["x"], ["y"]), h.make_node("Abs", ["x"], ["y"])], "'y' is the result of two nodes"),
        ([h.make_node("Add", ["x", "y"], ["y"])], "the graph has a circle through 'y'"),
        ([h.make_node("Relu", ["x"], ["y"], gain=2)], "attribute 'gain'"),
        ([h.make_node("Concat", ["x", "x"], ["y"], axis=2)], "axis 2 is out of range for rank 2"),
        ([h.make_node("Concat", ["x", "x"], ["y"], axis=1.5)], "attribute 'axis' has type 1, expected 2"),
        ([h.make_node("MatMul", ["x", ""], ["y"])], "input 1 is missing"),
    ],
)
def test_invalid_graphs(nodes, said):
    assert said in str(refused(model(nodes)))


def test_old_and_new_opsets(build, tmp_path):
    relu = [h.make_node("Relu", ["x"], ["y"])]
    assert "opset 6: expected at least 7" in str(refused(model(relu, opset=6)))
    new = model(relu, opset=99)
    new.ir_version = 77
    program, note = clave.from_onnx(new), "the file has IR version 77 and opset 99; the newest known are 14 and 28"
    assert program.metadata == {"notes": [note]} and clave.from_onnx(model(relu)).metadata == {}
    out = clave.Session(program, device="cpu").run(np.float32([[-1, 2, -3, 4]]))
    assert np.array_equal(out[0], np.float32([[0, 2, 0, 4]]))
    (tmp_path / "new.onnx").write_bytes(new.SerializeToString())
    p = subprocess.run([build / "clave", "inspect", tmp_path / "new.onnx"], capture_output=True, text=True, check=True)
    assert p.stderr == f"clave: note: {note}\n"


def external(tmp_path, location, offset="0", length="16"):
    w = T(name="w", data_type=T.FLOAT, dims=[4], data_location=T.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        w.external_data.add(key=key, value=value)
    m = model([h.make_node("Mul", ["x", "w"], ["y"])])
    m.graph.initializer.append(w)
    path = tmp_path / "inside/m.onnx"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(m.SerializeToString())
    return path


def test_external_data(tmp_path):
    path = external(tmp_path, "w.bin", "8")
    (path.parent / "w.bin").write_bytes(np.float32([9, 9, 1, 2, 3, 4]).tobytes())
    out = clave.Session(clave.from_onnx(path), device="cpu").run(np.ones((1, 4), np.float32))
    assert np.array_equal(out[0], np.float32([[1, 2, 3, 4]]))


@pytest.mark.parametrize(
    ("location", "offset", "length", "said"),
    [
        ("../secret", "0", "16", "expected a path within the model's folder"),
        ("sub/../../secret", "0", "16", "expected a path within the model's folder"),
        ("/etc/passwd", "0", "16", "expected a path within the model's folder"),
        ("C:\\secret", "0", "16", "expected a path within the model's folder"),
        ("", "0", "16", "expected a path within the model's folder"),
        ("link", "0", "16", "which links do not leave"),
        ("absent", "0", "16", "no such file"),
        ("w.bin", "4", "16", "the file has 16 bytes"),
        ("w.bin", "-4", "16", "offset -4"),
        ("w.bin", "18446744073709551615", "16", "offset 18446744073709551615"),
        ("w.bin", "0", "8", "expected 16 bytes of elements, got 8"),
    ],
)
def test_external_data_that_is_refused(tmp_path, location, offset, length, said):
    (tmp_path / "secret").write_bytes(bytes(16))
    path = external(tmp_path, location, offset, length)
    (path.parent / "w.bin").write_bytes(bytes(16))
    (path.parent / "link").symlink_to("../secret")
    assert said in str(refused(path))


def test_external_data_need_a_file(tmp_path):
    path = external(tmp_path, "w.bin")
    assert "need a model file" in str(refused(path.read_bytes()))


def test_damaged_files(tmp_path):
    path = tmp_path / "m.onnx"
    whole = model([h.make_node("Relu", ["x"], ["y"])])
    data, last = whole.SerializeToString(), whole.opset_import[-1].ByteSize() + 2
    for size in range(len(data) - last):  # without the last opset, which no node uses, the model is whole
        path.write_bytes(data[:size])
        refused(path)
