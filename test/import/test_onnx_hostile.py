"""ONNX files that are made to crash or stall the import, and numbers of the host that must round as tensors do."""

import numpy as np
import pytest

import clave

onnx = pytest.importorskip("onnx", reason="no onnx package is installed")
h, T = onnx.helper, onnx.TensorProto
N = h.make_node


def info(name, shape=("n",), kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, constants=(), **more):
    named = [onnx.numpy_helper.from_array(np.asarray(x), n) for n, x in dict(constants).items()]
    graph = h.make_graph(nodes, "g", inputs, outputs, named)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("d", 1)], ir_version=8, **more)


def said(m):
    with pytest.raises(clave.Error) as e:
        clave.from_onnx(m)
    return str(e.value)


def test_scan_of_many_results():
    names = [f"y{i}" for i in range(4000)]
    body = h.make_graph([N("Identity", ["e"], [n]) for n in names], "b", [info("e")], [info(n) for n in names])
    scan = N("Scan", ["x"], [f"o{n}" for n in names], body=body, num_scan_inputs=1)
    assert "a scan of 4000 tensors" in said(model([scan], [info("x", (3, 4))], [info("oy0", None)]))


def test_empty_tensors_whose_sizes_overflow():
    m = model([N("Add", ["a", "b"], ["y"])], [info("x")], [info("y", None)])
    for name, dims in (("a", [2**40, 1, 0]), ("b", [1, 2**40, 0])):
        m.graph.initializer.append(T(name=name, dims=dims, data_type=T.FLOAT, raw_data=b""))
    assert "overflow" in said(m)


@pytest.mark.parametrize(("axis", "block", "shape"), [(0, 0, (2,)), (0, 32, (2, 3)), (0, 32, (1, 16))])
def test_too_few_scales(axis, block, shape):
    nodes = [N("DequantizeLinear", ["w", "s"], ["f"], axis=axis, block_size=block), N("MatMul", ["x", "f"], ["y"])]
    constants = {"w": np.ones((64, 16), np.int8), "s": np.ones(shape, np.float32)}
    said(model(nodes, [info("x", (1, 64))], [info("y", None)], constants))


def test_functions_that_call_each_other_twice():
    functions = []
    for i in range(30):
        op, domain = ("Relu", "") if i == 29 else (f"f{i + 1}", "d")
        nodes = [N(op, ["x"], ["a"], domain=domain), N(op, ["a"], ["y"], domain=domain)]
        imports = [h.make_opsetid("", 21), h.make_opsetid("d", 1)]
        functions.append(h.make_function("d", f"f{i}", ["x"], ["y"], nodes, imports))
    m = model([N("f0", ["x"], ["y"], domain="d")], [info("x")], [info("y")], functions=functions)
    assert "more than 1048576 nodes" in said(m)


def test_sizes_of_a_branch_that_double():
    """The sizes of the result are computed again after the branch: each once."""
    doubled = [N("Add", [f"s{i}", f"s{i}"], [f"s{i + 1}"]) for i in range(60)]
    nodes = [N("Shape", ["x"], ["s0"]), *doubled, N("Sub", ["s60", "s59"], ["d"]), N("Sub", ["s59", "d"], ["z"]),
             N("ConstantOfShape", ["z"], ["v"])]  # fmt: skip
    yes, no = h.make_graph(nodes, "t", [], [info("v")]), h.make_graph([N("Neg", ["x"], ["w"])], "e", [], [info("w")])
    m = model([N("If", ["c"], ["y"], then_branch=yes, else_branch=no)],
              [info("c", (), T.BOOL), info("x")], [info("y", ("m",))])  # fmt: skip
    session = clave.Session(clave.from_onnx(m), device="cpu")
    for taken in (True, False):
        (out,) = session.run(np.array(taken), np.ones(3, np.float32))
        assert np.array_equal(out, np.float32([] if taken else [-1, -1, -1]))


def test_results_that_an_op_does_not_have():
    assert "a result that the op does not have" in said(model([N("Relu", ["x"], ["y", "z"])], [info("x")],
                                                              [info("y"), info("z")]))  # fmt: skip


@pytest.mark.parametrize("factor", [0.35, 1 / 3, 0.1, 1.7])
def test_floats_of_sizes_are_rounded(factor):
    """Some products are below an integer in F64, and equal to it in F32."""
    nodes = [N("Shape", ["x"], ["s"]), N("Cast", ["s"], ["f"], to=T.FLOAT), N("Mul", ["f", "c"], ["p"]),
             N("Floor", ["p"], ["q"]), N("Cast", ["q"], ["y"], to=T.INT64)]  # fmt: skip
    m = model(nodes, [info("x")], [info("y", (1,), T.INT64)], {"c": np.float32([factor])})
    session = clave.Session(clave.from_onnx(m), device="cpu")
    for n in range(1, 101):
        (out,) = session.run(np.zeros(n, np.float32))
        assert out[0] == int(np.floor(np.float32(n) * np.float32(factor))), n
