"""Rules of the formats that a small mistake in the importer would break, against onnxruntime, litert and numpy."""

import numpy as np
import pytest

import clave

onnx = pytest.importorskip("onnx", reason="no onnx package is installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="no onnxruntime is installed")
h, T = onnx.helper, onnx.TensorProto
N, F32 = h.make_node, np.float32
rng = np.random.default_rng(5)
floats = lambda *shape: rng.standard_normal(shape).astype(F32)
codes = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)


def model(nodes, given, constants=(), opset=21, sizes=(), functions=(), output="y"):
    """sizes: names of open sizes by input."""
    shape = lambda name, x: dict(sizes).get(name, x.shape)
    kind = lambda x: h.np_dtype_to_tensor_dtype(x.dtype)
    inputs = [h.make_tensor_value_info(name, kind(x), shape(name, x)) for name, x in given.items()]
    named = [x if isinstance(x, T) else onnx.numpy_helper.from_array(x, name) for name, x in dict(constants).items()]
    graph = h.make_graph(nodes, "g", inputs, [onnx.ValueInfoProto(name=output)], named)
    imports = [h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1), h.make_opsetid("own", 1)]
    return h.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def run(m, given):
    (out,) = clave.Session(clave.from_onnx(m), device="cpu").run(*given.values())
    return np.asarray(out)


def check(m, *runs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(m.SerializeToString(), options)
    session = clave.Session(clave.from_onnx(m), device="cpu")
    for given in runs:
        (want,), (got,) = peer.run(None, given), session.run(*given.values())
        assert (want.dtype, want.shape) == (got.dtype, got.shape)
        np.testing.assert_allclose(got, want, 1e-5, 1e-6)


image, scales = floats(1, 2, 7, 6), F32([0.5, 2, 0.25])
CASES = {  # nodes, inputs, constants, opset
    "negative_index": ([N("Gather", ["x", "i"], ["y"])], {"x": floats(4, 3), "i": np.int64([-1, 0, -4])}, {}, 21),
    "softmax_of_old_opset": ([N("Softmax", ["x"], ["y"], axis=1)], {"x": floats(2, 3, 4)}, {}, 11),
    "clip_by_inputs": ([N("Clip", ["x", "a", "b"], ["y"])], {"x": floats(3, 9)}, {"a": F32(-0.5), "b": F32(0.25)}, 11),
    "clip_by_attributes": ([N("Clip", ["x"], ["y"], min=-0.5, max=0.25)], {"x": floats(3, 9)}, {}, 10),
    "uneven_pads": ([N("Conv", ["x", "w"], ["y"], pads=[0, 1, 2, 1])], {"x": image}, {"w": floats(3, 2, 3, 3)}, 21),
    "same_lower": ([N("MaxPool", ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 2], auto_pad="SAME_LOWER")],
                   {"x": image}, {}, 21),
    "not_in_order": ([N("Exp", ["b"], ["y"]), N("Neg", ["a"], ["b"]), N("Relu", ["x"], ["a"])], {"x": floats(5)}, {},
                     21),
    "zero_point": ([N("DequantizeLinear", ["x", "s", "z"], ["y"])], {"x": codes(2, 3)},
                   {"s": F32(0.5), "z": np.uint8(7)}, 21),
    "scales_of_axis_1": ([N("DequantizeLinear", ["x", "s"], ["y"])], {"x": codes(3, 3)}, {"s": scales}, 21),
    "scales_of_a_constant": ([N("DequantizeLinear", ["w", "s"], ["d"]), N("MatMul", ["x", "d"], ["y"])],
                             {"x": floats(2, 3)}, {"w": codes(3, 3), "s": scales}, 21),
    "product_plus_row": ([N("MatMul", ["x", "w"], ["p"]), N("Add", ["b", "p"], ["y"])], {"x": floats(4, 4)},
                         {"w": floats(4, 4), "b": floats(4)}, 21),
    "product_plus_two_rows": ([N("MatMul", ["x", "w"], ["p"]), N("Add", ["p", "b"], ["q"]),
                               N("Add", ["q", "c"], ["y"])], {"x": floats(4, 4)},
                              {"w": floats(4, 4), "b": floats(4), "c": floats(4)}, 21),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rule(name):
    nodes, given, constants, opset = CASES[name]
    check(model(nodes, given, constants, opset), given)


def test_product_of_two_readers():
    """A sum that is not the only reader of a product does not become its bias: that would need two products."""
    nodes = [N("MatMul", ["x", "w"], ["p"]), N("Add", ["p", "b"], ["q"]), N("Exp", ["p"], ["r"])]
    given = {"x": floats(4, 4)}
    m = model([*nodes, N("Mul", ["q", "r"], ["y"])], given, {"w": floats(4, 4), "b": floats(4)})
    check(m, given)
    (chain,) = clave.from_onnx(m).optimized().schema.chains
    assert sum(type(i.op).__name__ == "Matmul" for i in chain.instructions) == 1


def test_two_open_sizes():
    """Either size may be the 1 that is broadcast."""
    pair = lambda n, m: {"x": floats(n, 4), "z": floats(m, 4)}
    m = model([N("Add", ["x", "z"], ["y"])], pair(1, 1), sizes={"x": ["n", 4], "z": ["m", 4]})
    check(m, pair(1, 3), pair(3, 1), pair(2, 2))


def test_shared_factors_of_a_reshape():
    """batch * 12 elements as (batch, -1) are (batch, 12), also for an empty batch."""
    nodes = [
        N("Shape", ["x"], ["s"], end=1),
        N("Concat", ["s", "rest"], ["t"], axis=0),
        N("Reshape", ["x", "t"], ["y"]),
    ]
    given = {"x": floats(2, 3, 4)}
    m = model(nodes, given, {"rest": np.int64([-1])}, sizes={"x": ["n", 3, 4]})
    assert clave.from_onnx(m).methods["forward"].outputs[0].shape == ("n", 12)
    check(m, given)
    assert run(m, {"x": floats(0, 3, 4)}).shape == (0, 12)


def test_one_name_is_one_size():
    given = {"x": floats(3, 4), "z": floats(3, 4)}
    m = model([N("Add", ["x", "z"], ["y"])], given, sizes={"x": ["n", 4], "z": ["n", 4]})
    check(m, given)
    with pytest.raises(clave.Error, match="dimension 0 of input 'z' is 1, but 'n' is already 3"):
        run(m, {"x": floats(3, 4), "z": floats(1, 4)})


def test_sizes_of_a_body_are_computed_again():
    """The branch and what follows it compute the same size."""
    size = [N("Shape", ["x"], ["s"], end=1), N("Mul", ["s", "two"], ["t"]), N("Reshape", ["x", "t"], ["q"])]
    other = [N("Reshape", ["x", "flat"], ["q"])]
    yes, no = (h.make_graph(n, "b", [], [onnx.ValueInfoProto(name="q")]) for n in (size, other))
    nodes = [N("If", ["c"], ["a"], then_branch=yes, else_branch=no)]
    nodes += [N("Shape", ["x"], ["s2"], end=1), N("Mul", ["s2", "two"], ["t2"]), N("Reshape", ["a", "t2"], ["y"])]
    given = lambda n, c: {"x": floats(n, 2), "c": np.array(c)}
    m = model(nodes, given(2, True), {"two": np.int64([2]), "flat": np.int64([-1])}, sizes={"x": ["n", 2]})
    check(m, given(2, True), given(5, False))


def arithmetic(seed, count=40):
    """Returns nodes that compute numbers from two sizes; constants and results of earlier nodes are operands."""
    draw = np.random.default_rng(seed)
    constants = {f"c{i}": np.int64([i]) for i in (-3, -1, 0, 1, 2, 3, 4, 6, 12)}
    names, nodes = ["n", "m"], []
    nodes += [N("Shape", ["x"], ["n"], start=0, end=1), N("Shape", ["x"], ["m"], start=1, end=2)]
    for i in range(count):
        left, right = (str(draw.choice(names if draw.random() < 0.6 else list(constants))) for _ in range(2))
        op = str(draw.choice(["Add", "Sub", "Mul", "Div", "Min", "Max", "Mod", "Equal", "Less", "GreaterOrEqual"]))
        if op in ("Div", "Mod"):
            right = str(draw.choice(["c1", "c2", "c3", "c4", "c6"]))
        if op == "Mul":
            right = str(draw.choice(list(constants)))
        made = f"r{i}"
        nodes.append(N(op, [left, right], [f"b{i}" if op[0] in "ELG" else made]))
        if op[0] in "ELG":
            nodes.append(N("Cast", [f"b{i}"], [made], to=T.INT64))
        names.append(made)
    return [*nodes, N("Concat", names, ["y"], axis=0)], constants


@pytest.mark.parametrize("seed", range(12))
def test_arithmetic_on_sizes(seed):
    nodes, constants = arithmetic(seed)
    m = model(nodes, {"x": floats(2, 3)}, constants, sizes={"x": ["rows", "columns"]})
    check(m, *({"x": floats(n, k)} for n in (0, 1, 2, 7) for k in (0, 1, 5)))


SIZES = {  # nodes, and their result for a size n
    "quotient": (["Mul n c3 a", "Div a c2 b"], lambda n: n * 3 // 2),
    "difference": (["Add n k a", "Sub n a b", "Neg b d"], lambda n: 5),
    "compared": (["Equal n c0 a", "Cast a b"], lambda n: int(n == 0)),
}


@pytest.mark.parametrize("name", SIZES)
def test_simplified_sizes(name):
    lines, want = SIZES[name]
    nodes = [N("Shape", ["x"], ["n"], end=1), N("Shape", ["z"], ["k"], end=1)]
    for op, *names in map(str.split, lines):
        nodes.append(N(op, names[:-1], names[-1:], **({"to": T.INT64} if op == "Cast" else {})))
    nodes.append(N("ConstantOfShape", [nodes[-1].output[0]], ["y"]))
    given = {"x": floats(4), "z": floats(5)}
    constants = {"c0": np.int64([0]), "c2": np.int64([2]), "c3": np.int64([3])}
    m = model(nodes, given, constants, sizes={"x": ["n"], "z": ["k"]})
    session = clave.Session(clave.from_onnx(m), device="cpu")
    for n in (0, 1, 3, 8):
        (got,) = session.run(floats(n), floats(5))
        assert np.asarray(got).shape == (want(n),), n


def function(nodes, attributes=()):
    return h.make_function("own", "Scaled", ["v"], ["r"], nodes, [h.make_opsetid("", 21)], list(attributes))


def test_functions():
    """A function sees its inputs and attributes only. Its names do not hide those of the caller."""
    scale = N("Constant", [], ["w"])
    scale.attribute.append(onnx.AttributeProto(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT))
    call = [N("Scaled", ["x"], ["a"], domain="own", by=3.0), N("Mul", ["a", "w"], ["y"])]
    given, constants = {"x": floats(4)}, {"w": floats(4)}
    check(model(call, given, constants, functions=[function([scale, N("Mul", ["v", "w"], ["r"])], ["by"])]), given)
    outer = model(call, given, constants, functions=[function([N("Mul", ["v", "w"], ["r"])], ["by"])])
    with pytest.raises(clave.Error, match="input 'w' is the result of no node"):
        clave.from_onnx(outer)


def test_int4():
    """The first of two elements is in the low bits."""
    given = {"x": floats(2, 6)}
    w = h.make_tensor("w", T.INT4, [6], bytes([0x21, 0xF3, 0x87]), raw=True)
    m = model([N("DequantizeLinear", ["w", "s"], ["d"]), N("Mul", ["x", "d"], ["y"])], given, {"w": w, "s": F32(0.5)})
    np.testing.assert_allclose(run(m, given), given["x"] * F32([0.5, 1, 1.5, -0.5, 3.5, -4]))


@pytest.mark.parametrize("flat", [True, False])
def test_sparse(flat):
    values = onnx.numpy_helper.from_array(F32([3, 4, 5]), "w")
    indices = np.int64([1, 5, 11]) if flat else np.int64([[0, 1], [1, 1], [2, 3]])
    given, want = {"x": floats(3, 4)}, np.zeros((3, 4), F32)
    want.flat[[1, 5, 11]] = 3, 4, 5
    m = model([N("Add", ["x", "w"], ["y"])], given)
    made = h.make_sparse_tensor(values, onnx.numpy_helper.from_array(indices), [3, 4])
    m.graph.sparse_initializer.append(made)
    np.testing.assert_array_equal(run(m, given), given["x"] + want)


@pytest.mark.parametrize("grouped", [True, False])
def test_nbits(grouped):
    """Without zero points, 8 is subtracted from codes of 4 bits."""
    packed, scale, groups = codes(3, 2, 8), floats(3, 2) ** 2, np.int32([0, 1] * 16)
    low_first = np.stack([packed & 15, packed >> 4], -1).reshape(3, 32).astype(F32) - 8
    weight = low_first * (scale[:, groups] if grouped else scale.repeat(16, 1))
    names = ["x", "b", "s", "", "g"] if grouped else ["x", "b", "s"]
    node = N("MatMulNBits", names, ["y"], domain="com.microsoft", K=32, N=3, bits=4, block_size=16)
    given, constants = {"x": floats(2, 32)}, {"b": packed, "s": scale.ravel(), **({"g": groups} if grouped else {})}
    np.testing.assert_allclose(run(model([node], given, constants), given), given["x"] @ weight.T, 1e-4, 1e-4)


@pytest.mark.parametrize("guarded", ["p", "z"])
def test_guarded_attention(guarded):
    """Probabilities that are NaN become 0; a guard that reads another tensor is not this pattern."""
    nodes = [N("MatMul", ["q", "k"], ["s"]), N("Softmax", ["s"], ["p"]), N("IsNaN", [guarded], ["n"]),
             N("Where", ["n", "zero", "p"], ["g"]), N("MatMul", ["g", "v"], ["y"])]  # fmt: skip
    given = {"q": floats(2, 3, 4), "k": floats(2, 4, 5), "v": floats(2, 5, 4), "z": floats(2, 3, 5)}
    given["z"][:, :, 1::2] = np.nan
    check(model(nodes, given, {"zero": F32(0)}), given)
