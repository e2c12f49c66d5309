"""Writes the initial inputs of fuzz_onnx and fuzz_tflite: small models that reach most of the importers.
make_models.py CORPUS writes CORPUS/onnx and CORPUS/tflite."""

import pathlib
import sys

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

N = h.make_node
rng = np.random.default_rng(0)


def info(name, kind, shape):
    return h.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs=("y",), constants=None, opset=17, **more):
    """inputs: {name: (dtype, shape)}; constants: {name: array}."""
    initializers = [nh.from_array(np.asarray(x), n) for n, x in (constants or {}).items()]
    given = [info(n, *i) for n, i in inputs.items()]
    graph = h.make_graph(nodes, "g", given, [info(o, T.FLOAT, None) for o in outputs], initializers)
    imports = [h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1), h.make_opsetid("own", 1)]
    return h.make_model(graph, opset_imports=imports, ir_version=8, **more)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def body(nodes, inputs, outputs):
    return h.make_graph(nodes, "body", [info(*i) for i in inputs], [info(o, T.FLOAT, None) for o in outputs])


def plain():
    """Products, convolutions and shapes."""
    x = {"x": (T.FLOAT, ["n", 4])}
    image = {"x": (T.FLOAT, ["b", 2, "h", "w"])}
    i64 = lambda *v: np.array(v, np.int64)
    yield (
        "linear",
        model(
            [N("Gemm", ["x", "w", "b"], ["a"], transB=1), N("Relu", ["a"], ["y"])],
            x,
            constants={"w": floats(3, 4), "b": floats(3)},
        ),
    )
    conv = N("Conv", ["x", "w"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2])
    pool = N("MaxPool", ["a"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1)
    yield "conv", model([conv, pool, N("GlobalAveragePool", ["c"], ["y"])], image, constants={"w": floats(3, 2, 3, 3)})
    shape = [
        N("Shape", ["x"], ["s"]),
        N("Gather", ["s", "i"], ["d"]),
        N("Unsqueeze", ["d", "z"], ["u"]),
        N("Concat", ["u", "m"], ["t"], axis=0),
    ]
    yield (
        "shape",
        model([*shape, N("Reshape", ["x", "t"], ["y"])], x, constants={"i": np.int64(0), "z": i64(0), "m": i64(2, -1)}),
    )
    lstm = N("LSTM", ["x", "w", "r"], ["a", "y"], hidden_size=2, direction="bidirectional")
    yield "lstm", model([lstm], {"x": (T.FLOAT, ["t", "b", 3])}, constants={"w": floats(2, 8, 3), "r": floats(2, 8, 2)})
    yield (
        "resize",
        model([N("Resize", ["x", "", "s"], ["y"], mode="linear")], image, constants={"s": np.float32([1, 1, 2, 2])}),
    )


def other():
    """Norms, index ops and codes."""
    x = {"x": (T.FLOAT, ["n", 4])}
    i64 = lambda *v: np.array(v, np.int64)
    norm = [
        N("LayerNormalization", ["x", "w"], ["a"]),
        N("Softmax", ["a"], ["c"]),
        N("TopK", ["c", "k"], ["y", "i"]),
        N("Gelu", ["c"], ["g"], domain="com.microsoft"),
    ]
    yield "norm", model(norm, x, ("y", "g"), constants={"w": floats(4), "k": i64(2)})
    quantized = [
        N("QuantizeLinear", ["x", "s", "z"], ["a"]),
        N("DequantizeLinear", ["a", "s", "z"], ["c"]),
        N("MatMul", ["c", "w"], ["y"]),
    ]
    yield "qdq", model(quantized, x, constants={"s": np.float32(0.1), "z": np.uint8(128), "w": floats(4, 3)})
    index = [
        N("GatherElements", ["x", "i"], ["a"], axis=1),
        N("ScatterND", ["a", "j", "u"], ["c"]),
        N("Pad", ["c", "p"], ["d"], mode="reflect"),
        N("Einsum", ["d", "d"], ["y"], equation="ij,kj->ik"),
    ]
    yield (
        "index",
        model(
            index,
            x,
            constants={"i": np.int64([[0, -1]]), "j": np.int64([[0]]), "u": floats(1, 2), "p": i64(0, 1, 0, 1)},
        ),
    )
    packed = N("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", K=16, N=2, bits=4, block_size=16)
    yield (
        "nbits",
        model(
            [packed],
            {"x": (T.FLOAT, ["n", 16])},
            constants={"w": rng.integers(0, 255, (2, 1, 8)).astype(np.uint8), "s": floats(2)},
        ),
    )


def control():
    """Branches and loops."""
    x = {"x": (T.FLOAT, ["n", 4])}
    i64 = lambda *v: np.array(v, np.int64)
    yes, no = body([N("Relu", ["x"], ["p"])], [], ["p"]), body([N("Neg", ["x"], ["q"])], [], ["q"])
    test = [N("ReduceSum", ["x"], ["r"], keepdims=0), N("Greater", ["r", "zero"], ["c"])]
    yield (
        "if",
        model([*test, N("If", ["c"], ["y"], then_branch=yes, else_branch=no)], x, constants={"zero": np.float32(0)}),
    )
    step = [N("Add", ["v", "v"], ["v2"]), N("Identity", ["c"], ["c2"]), N("Slice", ["v", "k0", "k1"], ["o"])]
    loop = body(step, [("k", T.INT64, []), ("c", T.BOOL, []), ("v", T.FLOAT, ["n", 4])], ["c2", "v2", "o"])
    yield (
        "loop",
        model(
            [N("Loop", ["m", "t", "x"], ["a", "y"], body=loop)],
            x,
            constants={"m": np.int64(3), "t": np.bool_(True), "k0": i64(0), "k1": i64(1)},
        ),
    )
    step = [N("Add", ["v", "one"], ["v2"]), N("ReduceMax", ["v2"], ["r"], keepdims=0), N("Less", ["r", "end"], ["c2"])]
    loop = body(step, [("k", T.INT64, []), ("c", T.BOOL, []), ("v", T.FLOAT, ["n", 4])], ["c2", "v2", "r"])
    yield (
        "while",
        model(
            [N("Loop", ["", "t", "x"], ["a", "y"], body=loop)],
            x,
            constants={"t": np.bool_(True), "one": np.float32(1), "end": np.float32(9)},
        ),
    )
    scan = body(
        [N("Add", ["v", "e"], ["v2"]), N("Identity", ["v2"], ["o"])],
        [("v", T.FLOAT, [4]), ("e", T.FLOAT, [4])],
        ["v2", "o"],
    )
    yield (
        "scan",
        model([N("Scan", ["s", "x"], ["a", "y"], body=scan, num_scan_inputs=1)], x, constants={"s": floats(4)}),
    )


def stored():
    """Functions, and tensors that are stored in other ways."""
    x = {"x": (T.FLOAT, ["n", 4])}
    f = h.make_function("own", "F", ["p"], ["q"], [N("LeakyRelu", ["p"], ["q"], alpha=0.5)], [h.make_opsetid("", 17)])
    yield "function", model([N("F", ["x"], ["y"], domain="own")], x, functions=[f])
    four = h.make_tensor("w", T.INT4, [2, 4], [1, -2, 3, -4, 5, -6, 7, -8])
    m = model(
        [N("DequantizeLinear", ["w", "s"], ["d"]), N("Transpose", ["d"], ["e"]), N("MatMul", ["x", "e"], ["y"])],
        x,
        constants={"s": np.float32(0.5)},
        opset=21,
    )
    m.graph.initializer.append(four)
    yield "int4", m
    sparse = h.make_sparse_tensor(
        h.make_tensor("w", T.FLOAT, [2], [1, 2]), h.make_tensor("i", T.INT64, [2], [1, 3]), [4]
    )
    m = model([N("Mul", ["x", "w"], ["y"])], x)
    m.graph.sparse_initializer.append(sparse)
    yield "sparse", m


def decoders():
    """Language models with past and present values."""
    rows = (T.FLOAT, ["b", 2, "past", 4])
    inputs = {"input_ids": (T.INT64, ["b", "l"]), "attention_mask": (T.INT64, ["b", "t"])}
    i64 = lambda *v: np.array(v, np.int64)
    constants = {"table": floats(8, 16), "head": floats(16, 8), "one": i64(1), "i": np.int64(1)}
    qkv = [N("Gather", ["table", "input_ids"], ["x"])]
    count = [
        N("ReduceSum", ["attention_mask", "one"], ["r"], keepdims=0),
        N("Cast", ["r"], ["n"], to=T.INT32),
        N("Shape", ["attention_mask"], ["s"]),
        N("Gather", ["s", "i"], ["u"]),
        N("Cast", ["u"], ["t"], to=T.INT32),
    ]
    names = ["x", "", "", "past_key_values.0.key", "past_key_values.0.value", "n", "t", "cos", "sin"]
    results = ["a", "present.0.key", "present.0.value"]
    options = {"domain": "com.microsoft", "num_heads": 2, "kv_num_heads": 1, "do_rotary": 1}
    attend = N("GroupQueryAttention", names, results, **options)
    past = {f"past_key_values.0.{k}": (T.FLOAT, ["b", 1, "past", "size"]) for k in ("key", "value")}
    tables = {"cos": floats(64, 2), "sin": floats(64, 2)}
    yield (
        "group_query",
        model(
            [*qkv, *count, attend, N("MatMul", ["a", "small"], ["logits"])],
            inputs | past,
            ("logits", "present.0.key", "present.0.value"),
            constants | tables | {"small": floats(8, 8)},
        ),
    )
    shape = {"heads": i64(0, -1, 2, 4), "flat": i64(0, -1, 8)}
    joined = [
        N("Split", ["x"], ["h", "g"], axis=2, num_outputs=2),
        N("Reshape", ["h", "heads"], ["k4"]),
        N("Transpose", ["k4"], ["k"], perm=[0, 2, 1, 3]),
        N("Concat", ["past_key_values.0.key", "k"], ["present.0.key"], axis=2),
        N("Transpose", ["present.0.key"], ["kt"], perm=[0, 1, 3, 2]),
        N("MatMul", ["k", "kt"], ["w"]),
        N("Softmax", ["w"], ["p"]),
        N("MatMul", ["p", "present.0.key"], ["o"]),
        N("Transpose", ["o"], ["o4"], perm=[0, 2, 1, 3]),
        N("Reshape", ["o4", "flat"], ["o3"]),
        N("Add", ["o3", "past_conv.0"], ["e"]),
        N("Slice", ["e", "last", "end", "one"], ["present_conv.0"]),
        N("MatMul", ["e", "small"], ["logits"]),
    ]
    yield (
        "past",
        model(
            [*qkv, *joined],
            {"input_ids": inputs["input_ids"], "past_key_values.0.key": rows, "past_conv.0": (T.FLOAT, ["b", 1, 8])},
            ("logits", "present.0.key", "present_conv.0"),
            constants | shape | {"small": floats(8, 8), "last": i64(-1), "end": i64(2**62)},
            opset=18,
        ),
    )


def tflite():
    """Models of one op, which reach each kind of option and list, and those of the importer's tests."""
    root = pathlib.Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(root / "python"), str(root / "test/import")]
    import _tflite_models as models
    from _tflite import Codes
    from _tflite_cases import I8, Constant, Input, case, ints, ones, w, x

    codes = Codes(0.05, 3)
    weight = Constant(np.int8(rng.integers(-127, 128, (2, 3, 3, 2))), Codes(np.float32([0.01, 0.02]), np.zeros(2)))
    begin, end, step = np.int32([0, 1, -1]), np.int32([1, 3, -9]), np.int32([1, 2, -1])
    masks = {"begin_mask": 2, "end_mask": 1, "shrink_axis_mask": 1, "new_axis_mask": 2}
    rows = {
        "conv": case("CONV_2D", x(-1, 7, -1, 2), w(3, 3, 2, 2), w(3), fused_activation_function=3, **ones),
        "quantized": case("CONV_2D", Input((1, 4, 4, 2), I8, codes=codes), weight, None, codes=codes, **ones),
        "strided_slice": case("STRIDED_SLICE", x(2, 5, 4), begin, end, step, **masks),
        "gather": case("GATHER", x(3, -1, 5), ints(3, 2), axis=2, batch_dims=1),
        "reshape": case("RESHAPE", x(-1, 6), np.int32([-1, 3])),
        "resize": case("RESIZE_BILINEAR", x(1, 3, 4, 2), np.int32([6, 8]), half_pixel_centers=True),
    }
    yield from ((name, row.build()[0]) for name, row in rows.items())
    yield from ((name, getattr(models, name)()) for name in ("branches", "loop", "variable", "signatures"))
    yield from ((how, models.stored(how)) for how in ("sparse", "outside"))
    image = np.zeros((1, 4, 4, 1))
    yield "custom", models.custom("MaxPoolingWithArgmax2D", np.int32([1, 2, 2, 2, 2, 0]).tobytes(), 2, [image])


def write(folder, ending, models):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in models:
        (folder / f"{name}.{ending}").write_bytes(data)


if __name__ == "__main__":
    corpus = pathlib.Path(sys.argv[1])
    write(
        corpus / "onnx",
        "onnx",
        ((n, m.SerializeToString()) for n, m in (*plain(), *other(), *control(), *stored(), *decoders())),
    )
    write(corpus / "tflite", "tflite", tflite())
