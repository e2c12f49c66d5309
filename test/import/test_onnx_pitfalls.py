"""Mistakes that users reported of other importers of ONNX: one case for each. Attributes that became inputs are in
test_onnx_versions.py."""

import itertools

import numpy as np
import pytest

import clave

pytest.importorskip("onnxruntime", reason="no onnxruntime is installed")
import onnx
from _peer import F16, F32, Case, T, compare, h, node

rng = np.random.default_rng(4)
floats = lambda *shape: rng.standard_normal(shape).astype(F32)
ints = lambda *values: np.array(values, np.int64)
NAN, INF = np.nan, np.inf


def one(op, given, constants=None, opset=21, outputs="y", inputs=None, **more):
    """Returns the case of one node, whose inputs are the arrays, in order."""
    settings = {k: more.pop(k) for k in ("want", "tolerance", "ir_version", "open_sizes") if k in more}
    constants = constants or {}
    names = inputs or " ".join((*given, *constants))
    return Case([node(op, names, outputs, **more)], given, constants, opset, **settings)


special = np.array([[-1.5, NAN, 2, -0.0], [INF, -INF, NAN, NAN], [1, 2, 3, 4]], F32)
whole = np.array([-7, -6, -1, 0, 1, 6, 7, 8], np.int32)
boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 10, 1, 11], [0, 10.1, 1, 11.1]]], F32)
grid = lambda *shape: rng.uniform(-1.3, 1.3, shape).astype(F32)
image = floats(1, 2, 7, 6)
norm = {n: np.abs(floats(4)) + 0.5 for n in ("s", "b", "m", "v")}
batch = floats(2, 4, 3)
parameters = {n: v[:, None] for n, v in norm.items()}
normalized = (batch - parameters["m"]) / np.sqrt(parameters["v"] + 1e-5) * parameters["s"] + parameters["b"]
PITFALLS = {
    "relu_nan": one("Relu", {"x": special}),
    "sign_nan": one("Sign", {"x": special}, want=[np.sign(special)]),
    "reduce_max_nan": one("ReduceMax", {"x": special}, {"a": ints(1)}, want=[special.max(1, keepdims=True)]),
    "reduce_min_nan": one("ReduceMin", {"x": special}, {"a": ints(0)}, want=[special.min(0, keepdims=True)]),
    "max_nan": one("Max", {"x": special, "z": floats(4), "w": floats(3, 1)}),
    "min_nan": one("Min", {"x": special, "z": floats(4), "w": floats(3, 1)}),
    "cast_nan_i32": one("Cast", {"x": special}, to=T.INT32),
    "cast_nan_i64": one("Cast", {"x": special}, to=T.INT64),
    "cast_nan_bool": one("Cast", {"x": special}, to=T.BOOL),
    "div_truncates": one("Div", {"x": whole, "z": np.array([2, -2, 3, 5, -3, -4, -4, 3], np.int32)}),
    "mod_floors": one("Mod", {"x": whole, "z": np.array([2, -2, 3, 5, -3, -4, -4, 3], np.int32)}),
    "mod_truncates": one("Mod", {"x": whole, "z": np.array([2, -2, 3, 5, -3, -4, -4, 3], np.int32)}, fmod=1),
    "topk_i64": one("TopK", {"x": floats(3, 9)}, {"k": ints(4)}, outputs="y i", axis=-1),
    "topk_smallest_axis_0": one("TopK", {"x": floats(5, 3)}, {"k": ints(2)}, outputs="y i", axis=0, largest=0),
    "topk_of_equals": one("TopK", {"x": np.round(floats(3, 40))}, {"k": ints(7)}, outputs="y i"),
    "squeeze_all": one("Squeeze", {"x": floats(1, 3, 1)}),
    "reduce_sum_of_no_axes": one("ReduceSum", {"x": floats(3, 4)}, {"a": ints()}, noop_with_empty_axes=1),
    "reduce_sum_of_all_axes": one("ReduceSum", {"x": floats(3, 4)}, {"a": ints()}, keepdims=0),
    "expand_raises_rank": one("Expand", {"x": floats(3, 1)}, {"s": ints(2, 3, 4)}),
    "expand_of_fewer_sizes": one("Expand", {"x": floats(2, 3, 1)}, {"s": ints(3, 4)}),
    "shape_part": one("Shape", {"x": floats(2, 3, 4, 5)}, start=1, end=-1),
    "shape_beyond": one("Shape", {"x": floats(2, 3, 4)}, start=-9, end=9),
    "shape_of_scalar": one("Shape", {"x": floats()}),
    "split_unequal": one("Split", {"x": floats(2, 7)}, opset=18, outputs="a b c", axis=1, num_outputs=3),
    "split_sizes": one("Split", {"x": floats(7, 2)}, {"s": ints(1, 4, 2)}, outputs="a b c"),
    "batch_norm_types": Case(
        [node("Cast", "x", "h", to=T.FLOAT16), node("BatchNormalization", "h s b m v")],
        {"x": batch}, norm, 15, tolerance=2e-3, want=[normalized.astype(F16)]),
    "batch_norm": one("BatchNormalization", {"x": floats(2, 4, 3)}, norm, 15, training_mode=0, epsilon=0.1),
    "layer_norm_without_bias": one("LayerNormalization", {"x": floats(2, 3, 4)}, {"s": floats(3, 4)}, axis=1),
    "layer_norm_statistics": one("LayerNormalization", {"x": floats(2, 3, 4)}, {"s": floats(4)}, outputs="y m i"),
    "prelu_lower_rank": one("PRelu", {"x": floats(2, 3, 4, 5)}, {"s": floats(3, 1, 1)}),
    "prelu_scalar": one("PRelu", {"x": floats(2, 3)}, {"s": floats()}),
    "grid_sample_5d": one("GridSample", {"x": floats(1, 2, 3, 4, 5), "g": grid(1, 2, 3, 2, 3)}, opset=20),
    "affine_grid_3d": one("AffineGrid", {"t": floats(2, 3, 4)}, {"s": ints(2, 3, 4, 5, 6)}, opset=20),
    "affine_grid_corners": one("AffineGrid", {"t": floats(1, 2, 3)}, {"s": ints(1, 3, 4, 5)}, 20, align_corners=1),
    "pad_wrap": one("Pad", {"x": floats(3, 4)}, {"p": ints(1, 2, 0, 3)}, mode="wrap"),
    "pad_negative": one("Pad", {"x": floats(4, 5)}, {"p": ints(-1, 2, 1, -2), "v": F32(7)}),
    "pad_axes": one("Pad", {"x": floats(3, 4, 5)}, {"p": ints(1, 2), "v": F32(7), "a": ints(-2)}),
    "pad_reflect": one("Pad", {"x": floats(3, 4)}, {"p": ints(2, 3, 1, 0)}, mode="reflect"),
    "cumsum": one("CumSum", {"x": floats(3, 4)}, {"a": np.int64(-1)}, exclusive=1, reverse=1),
    "nms_scalars": one(
        "NonMaxSuppression", {"b": boxes, "s": np.array([[[0.9, 0.8, 0.7, 0.6]]], F32)},
        {"n": ints(3), "i": np.array([0.5], F32), "l": np.array([0.1], F32)}),
    "nms_lower_rank": one(
        "NonMaxSuppression", {"b": boxes, "s": np.array([[[0.9, 0.8, 0.7, 0.6]]], F32)},
        {"n": np.int64(3), "i": F32(0.5), "l": F32(0.1)}, want=[np.array([[0, 0, 0], [0, 0, 2]], np.int64)]),
    "lp_pool": one("LpPool", {"x": floats(1, 2, 6, 6)}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=3),
    "scalar_qdq": Case(
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")],
        {"x": floats()}, {"s": F32(0.1), "z": np.uint8(3)}),
    **{f"{op.lower()}_of_{n}": one(op, {f"x{i}": floats(*((3, 1), (4,))[i % 2]) for i in range(n)})
       for op in ("Min", "Max", "Sum", "Mean") for n in (1, 3, 4)},
    **{f"{op.lower()}_{opset}_{axis}": one(op, {"x": floats(2, 3, 4)}, opset=opset, axis=axis)
       for op in ("Softmax", "LogSoftmax", "Hardmax") for opset in (11, 13) for axis in (0, 1, 2)},
    **{f"{op.lower()}_of_nothing": one(op, {"x": floats(2, 0, 4)}, axis=1)
       for op in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "Concat", "Flatten")},
    **{f"resize_{mode}_{how}": one(
        "Resize", {"x": image}, {"z": ints(1, 2, 9, 5)}, 19, inputs="x - - z", mode=mode,
        coordinate_transformation_mode=how)
       for mode, how in itertools.product(
           ("nearest", "linear", "cubic"),
           ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"))},
    **{f"resize_{how}": one(
        "Resize", {"x": image}, {"z": ints(9, 5)}, 18, inputs="x - - z", axes=[2, 3], mode="linear",
        keep_aspect_ratio_policy=how) for how in ("stretch", "not_larger", "not_smaller")},
    **{f"resize_antialias_{mode}": one("Resize", {"x": image}, {"z": ints(1, 2, 3, 4)}, 18, inputs="x - - z",
                                       mode=mode, antialias=1) for mode in ("linear", "cubic")},
    "resize_region": one(
        "Resize", {"x": image}, {"r": np.array([0, 0, 0.2, 0.1, 1, 1, 0.9, 1.2], F32), "z": ints(1, 2, 5, 8)}, 13,
        inputs="x r - z", mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=3.0),
    "resize_axes": one("Resize", {"x": image}, {"s": np.array([1.5, 0.8], F32)}, 18, inputs="x - s", axes=[3, 2]),
    "resize_10": one("Resize", {"x": image}, {"s": np.array([1, 1, 1.6, 2], F32)}, 10, mode="linear"),
    **{f"{op.lower()}_{pad.lower()}": one(op, {"x": image}, {} if op != "Conv" else {"w": floats(3, 2, 3, 2)},
                                          auto_pad=pad, kernel_shape=[3, 2], strides=[2, 1])
       for op in ("Conv", "MaxPool", "AveragePool", "LpPool") for pad in ("SAME_LOWER", "SAME_UPPER", "VALID")},
    **{f"{op.lower()}_ceil": one(op, {"x": image}, kernel_shape=[3, 3], strides=[2, 2], pads=[0, 1, 0, 1], ceil_mode=1)
       for op in ("MaxPool", "AveragePool")},
    **{f"average_pool_dilated_{n}": one("AveragePool", {"x": image}, opset=22, kernel_shape=[2, 3], dilations=[2, 2],
                                        pads=[1, 1, 1, 1], count_include_pad=n) for n in (0, 1)},
    "clip_of_only_max": one("Clip", {"x": floats(3, 4)}, {"h": F32(0.5)}, inputs="x - h"),
    "clip_of_nothing": one("Clip", {"x": floats(3, 4)}, inputs="x - -"),
    "dropout": one("Dropout", {"x": floats(3, 4)}, outputs="y m"),
    "dropout_ratio": one("Dropout", {"x": floats(3, 4)}, {"r": F32(0.3), "t": np.bool_(False)}),
    "dropout_unused": Case([node("Dropout", outputs="d -"), node("Identity", "d")], {"x": floats(3, 4)}),
    "max_pool_unused": one("MaxPool", {"x": image}, outputs="y -", kernel_shape=[2, 2]),
    "lstm_absent": one("LSTM", {"x": floats(3, 2, 4)}, {"w": floats(1, 20, 4), "r": floats(1, 20, 5),
                       "h": floats(1, 2, 5)}, inputs="x w r - - h -", outputs="- last c", hidden_size=5, opset=14),
    "cross_entropy_ignores_infinity": one(
        "SoftmaxCrossEntropyLoss", {"x": np.array([[-INF, 0, 1], [1, 2, 3]], F32), "t": ints(-100, 1)},
        ignore_index=-100),
    **{f"quantize_float8_{t}": Case(
        [node("QuantizeLinear", "x s z", "q"), node("Cast", "q", to=T.FLOAT)],
        {"x": np.array([6e4, -INF, INF, NAN, 3], F32)}, {"s": F32(1), "z": h.make_tensor("z", t, [], [0.0])})
       for t in (T.FLOAT8E4M3FN, T.FLOAT8E5M2)},
    "l1_of_large_u64": one(
        "ReduceL1", {"x": np.array([2**63 + 5], np.uint64)}, want=[np.array([2**63 + 5], np.uint64)]),
    "cast_like_moved_i4": Case(
        [node("Gather", "l i", "v"), node("CastLike", "x v", "q"), node("Cast", "q", to=T.FLOAT)],
        {"x": np.array([9, -9, 100, 3], F32)}, {"l": h.make_tensor("l", T.INT4, [2, 2], [1, 2, 3, 4]), "i": ints(1)},
        want=[np.array([-7, 7, 4, 3], F32)]),
    "simplified_layer_norm_types": one(
        "SimplifiedLayerNormalization", {"x": floats(2, 3, 4).astype(F16)}, {"s": floats(4)}),
    "simplified_layer_norm": one("SimplifiedLayerNormalization", {"x": floats(2, 3, 4)}, {"s": floats(4)}),
    "names_with_dots": Case([node("Relu", "DynamicDimension.0", "a.b/c:0"), node("Neg", "a.b/c:0", "1")],
                            {"DynamicDimension.0": floats(2, 3)}),
    "not_in_order": Case([node("Exp", "b", "c"), node("Neg", "a", "b"), node("Relu", "x", "a"), node("Abs", "c")],
                         {"x": floats(2, 3)}),
}  # fmt: skip


@pytest.mark.parametrize("name", PITFALLS)
def test_pitfall(name):
    compare(PITFALLS[name])


@pytest.mark.parametrize(("scales", "options"), [((2,), {"axis": 0}), ((4, 2), {"block_size": 16})])
def test_scales_that_do_not_fit(scales, options):
    constants = {"c": np.ones((64, 64), np.int8), "s": np.ones(scales, F32)}
    with pytest.raises(clave.Error):
        clave.from_onnx(one("DequantizeLinear", {}, constants, **options).model())


@pytest.mark.parametrize("axis", [2, -3])
def test_cumulation_along_no_axis(axis):
    case = one("CumSum", {"x": floats(2, 3), "a": np.array(axis)}, want=[floats(2, 3)])
    with pytest.raises(clave.Error, match="axis is out of range"):
        compare(case)


@pytest.mark.parametrize("sizes", [(-1, 4), ("unnamed", 4), ("unnamed", "unnamed"), ("DynamicDimension.0", 4), None])
def test_open_sizes(sizes):
    """Sizes of -1, sizes with neither value nor name, names with dots, and inputs without a shape."""
    case = Case([node("Relu", "x", "a"), node("Softmax", "a")], {"x": floats(3, 4)})
    model = case.model()
    shape = model.graph.input[0].type.tensor_type
    shape.ClearField("shape")
    for size in sizes or ():
        dim = shape.shape.dim.add()
        if isinstance(size, int):
            dim.dim_value = size
        elif size != "unnamed":
            dim.dim_param = size
    if sizes is None:
        with pytest.raises(clave.UnsupportedOp, match="number of dimensions is not known"):
            clave.from_onnx(model)
        return
    compare(case, model=model)
    case.given = {"x": floats(5, 4)}
    compare(case, model=model)


@pytest.mark.parametrize("what", ["output", "value_info"])
def test_shapes_that_lie(what):
    """Declared shapes of results that contradict the ops are ignored."""
    case = Case([node("Transpose", "x", "a"), node("Relu", "a")], {"x": floats(3, 4)})
    case.want = [np.maximum(case.given["x"].T, 0)]
    model = case.model()
    if what == "output":
        model.graph.output[0].CopyFrom(h.make_tensor_value_info("y", T.FLOAT, [7, "n", 9]))
    else:
        model.graph.value_info.append(h.make_tensor_value_info("a", T.FLOAT, [3, 4]))
    compare(case, model=model)


def test_initializers_among_the_inputs():
    """Before IR 4, each initializer is an input too. They stay constants."""
    case = Case([node("Add", "x w")], {"x": floats(2, 3)}, {"w": floats(3)}, 8, 3)
    model = case.model()
    model.graph.input.append(h.make_tensor_value_info("w", T.FLOAT, [3]))
    assert [i.name for i in compare(case, model=model).methods["forward"].inputs] == ["x"]


def test_bodies_that_shadow():
    """An initializer of a branch has the name of an outer value."""
    branch = lambda op, w: h.make_graph([node(op, "x w", "o")], op, [], [onnx.ValueInfoProto(name="o")],
                                        [onnx.numpy_helper.from_array(w, "w")])  # fmt: skip
    w, v, x = floats(3), floats(3), floats(2, 3)
    nodes = [node("If", "c", "a", then_branch=branch("Mul", v), else_branch=branch("Sub", v)), node("Add", "a w")]
    for condition, inner in ((True, x * v), (False, x - v)):
        compare(Case(nodes, {"x": x, "c": np.bool_(condition)}, {"w": w}, want=[inner + w]))


SPARSE = h.make_sparse_tensor(
    h.make_tensor("v", T.FLOAT, [2], [2.5, -1]), h.make_tensor("i", T.INT64, [2], [1, 3]), [4]
)
FORMS = {
    "value": onnx.numpy_helper.from_array(ints(2, 0, 1)),
    "value_float": 1.5,
    "value_floats": [1.0, 2.0],
    "value_int": 2,
    "value_ints": [1, 2, 0],
    "sparse_value": SPARSE,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_constants(form):
    nodes = [node("Constant", "", "k", **{form: FORMS[form]}), node("Cast", "k", "f", to=T.FLOAT), node("Add", "x f")]
    compare(Case(nodes, {"x": floats(2, 1)}))


def integers(kind, values):
    return T(data_type=kind, dims=[len(values)], int32_data=[int(v) for v in values])


def packed(kind, values):
    """Two values of four bits in a byte, the first in the lower half; an odd number of values ends in half a byte."""
    low, high = values[::2], (*values[1::2], 0)
    data = bytes(a & 15 | (b & 15) << 4 for a, b in zip(low, high, strict=False))
    return T(data_type=kind, dims=[len(values)], raw_data=data)


halves, signed, unsigned = F32([1.5, -2, 0.25]), [-8, 7, -1, 0, 3], [15, 0, 9, 8, 1]
STORED = {  # a constant, and its values
    "f16 in int32_data": (integers(T.FLOAT16, halves.astype(F16).view(np.uint16)), halves),
    "bf16 in int32_data": (integers(T.BFLOAT16, halves.view(np.uint32) >> 16), halves),
    "bool in int32_data": (integers(T.BOOL, [1, 0, 1]), [1, 0, 1]),
    "int8 in int32_data": (integers(T.INT8, [-128, 127, -1]), [-128, 127, -1]),
    "uint16 in int32_data": (integers(T.UINT16, [65535, 0, 9]), [65535, 0, 9]),
    "uint32 in uint64_data": (T(data_type=T.UINT32, dims=[2], uint64_data=[2**31, 5]), [2**31, 5]),
    "f64 in double_data": (T(data_type=T.DOUBLE, dims=[2], double_data=[0.1, -2]), [0.1, -2]),
    "int4": (packed(T.INT4, signed), signed),
    "uint4": (packed(T.UINT4, unsigned), unsigned),
    "int4 in int32_data": (T(data_type=T.INT4, dims=[5], int32_data=packed(T.INT4, signed).raw_data), signed),
}


@pytest.mark.parametrize("name", STORED)
def test_data_of_constants(name):
    constant, values = STORED[name]
    x = floats(2, 1)
    compare(Case([node("Cast", "k", "f", to=T.FLOAT), node("Add", "x f")], {"x": x}, {"k": constant},
                 want=[x + F32(values)]))  # fmt: skip


def test_two_producers_of_one_name():
    with pytest.raises(clave.Error, match="'a' is the result of two nodes"):
        clave.from_onnx(Case([node("Exp", "x", "a"), node("Abs", "x", "a"), node("Relu", "a")], {"x": batch}).model())
