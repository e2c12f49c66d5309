"""The versions of ops since opset 7, each against onnxruntime: attributes that became inputs, and changed meanings."""

import re

import numpy as np
import pytest

import clave

pytest.importorskip("onnxruntime", reason="no onnxruntime is installed")
import onnx
from _peer import F32, Case, T, compare, node

rng = np.random.default_rng(5)
floats = lambda *shape: rng.standard_normal(shape).astype(F32)
ints = lambda *values: np.array(values, np.int64)
LAST = 25
x, square, image, volume = floats(2, 3, 4), floats(3, 3), floats(1, 4, 6, 7), floats(1, 2, 4, 5, 3)
whole = rng.integers(-9, 9, (2, 3, 4)).astype(np.int32)
bits = rng.random((2, 3, 4)) < 0.5
codes = rng.integers(0, 256, (2, 3, 4)).astype(np.uint8)
channels = [np.abs(floats(4)) + 0.5 for _ in range(4)]
scales = lambda *values: np.array(values, F32)
sequence, gates = floats(5, 2, 3), lambda n: [floats(1, n * 4, 3), floats(1, n * 4, 4), floats(1, n * 8)]
window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}
boxes, rois = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 3, 1, 4]]], F32), scales(0.5, 0.7, 4.2, 5, 0, 0, 3, 3)
where = [rng.random((2, 3, 4)) < 0.5, x, floats(4)]
target = rng.integers(0, 4, (1, 6, 7))
REDUCE = [f"Reduce{r}" for r in ("L1", "L2", "Max", "Mean", "Min", "Prod", "SumSquare", "LogSumExp")]
# Ops of one input whose versions differ only in dtypes.
UNARY = [
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor",
    "HardSigmoid", "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "LpNormalization", "Mish",
    "Neg", "NonZero", "Reciprocal", "Relu", "Round", "Selu", "Shape", "Sigmoid", "Sign", "Sin", "Sinh", "Size",
    "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu", "Transpose",
]  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Div", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "PRelu", "MatMul"]
# op, first and last opset, inputs (None: absent), attributes, number of outputs (1)
ROWS = [
    *((op, 7, LAST, [x + 3 * (op == "Acosh")], {}) for op in UNARY),
    *((op, 7, LAST, [x, floats(4, 1) if op == "MatMul" else floats(3, 1)], {}) for op in BINARY),
    *((op, 8, LAST, [x, floats(3, 1), floats(4)], {}) for op in ("Max", "Min", "Sum", "Mean")),
    *((op, 7, 7, [x, floats(2, 3, 4)], {}) for op in ("Max", "Min", "Sum", "Mean")),
    *((op, 12, LAST, [whole, np.abs(whole[:, :1]) + 1], {}) for op in ("Max", "Min", "Mod", "Pow")),
    ("Equal", 7, LAST, [whole, whole[:, :1]], {}),
    ("Relu", 14, LAST, [whole], {}),
    ("Pow", 12, LAST, [np.abs(x), whole[0]], {}),
    *((op, 7, LAST, [x], {"axis": 1, "keepdims": 0}) for op in ("ArgMax", "ArgMin")),
    *((op, 12, LAST, [np.round(x)], {"axis": -1, "select_last_index": 1}) for op in ("ArgMax", "ArgMin")),
    ("AveragePool", 7, LAST, [image], {**window, "count_include_pad": 1}),
    ("AveragePool", 10, LAST, [image], {**window, "ceil_mode": 1}),
    ("AveragePool", 22, LAST, [image], {**window, "dilations": [2, 1]}),
    ("BatchNormalization", 7, 8, [image, *channels], {"spatial": 1}),
    ("BatchNormalization", 7, LAST, [image, *channels], {"epsilon": 0.1}),
    ("BatchNormalization", 14, LAST, [image, *channels], {"training_mode": 0, "momentum": 0.5}),
    ("Cast", 7, LAST, [x * 9], {"to": T.INT32}),
    ("Cast", 13, LAST, [x * 9], {"to": T.FLOAT16}),
    ("Cast", 19, LAST, [x * 9], {"to": T.INT8}),
    ("CastLike", 15, LAST, [x * 9, whole], {}),
    ("Clip", 7, 10, [x], {"min": -0.5, "max": 0.7}),
    ("Clip", 7, 10, [x], {"max": 0.7}),
    ("Clip", 11, LAST, [x, F32(-0.5), F32(0.7)], {}),
    ("Clip", 11, LAST, [x, None, F32(0.7)], {}),
    ("Clip", 12, LAST, [whole, np.int32(-3), np.int32(5)], {}),
    ("Compress", 9, LAST, [x, np.array([True, False, True])], {"axis": 1}),
    ("Compress", 11, LAST, [x, np.array([True, False, True])], {"axis": -1}),
    ("Concat", 7, LAST, [x, x], {"axis": 1}),
    ("Concat", 11, LAST, [x, x], {"axis": -2}),
    ("ConstantOfShape", 9, LAST, [ints(2, 3)], {"value": onnx.helper.make_tensor("v", T.INT32, [1], [7])}),
    *(("Conv", 7, LAST, [image, floats(4, 2, 3, 2), floats(4)], {"group": 2, **more})
      for more in (window, {"auto_pad": "SAME_LOWER"}, {"dilations": [2, 1]})),
    *(("ConvTranspose", 7, LAST, [image, floats(4, 2, 3, 2), floats(2)], more)
      for more in (window, {"strides": [2, 2], "output_padding": [1, 0]},
                   {"output_shape": [13, 14], "strides": [2, 2]})),
    *(("ConvTranspose", 11, LAST, [image, floats(4, 2, 3, 2)], {"strides": [2, 2], "auto_pad": pad})
      for pad in ("SAME_UPPER", "SAME_LOWER")),
    ("CumSum", 11, LAST, [x, np.int32(-1)], {"reverse": 1}),
    ("DepthToSpace", 7, LAST, [image], {"blocksize": 2}),
    ("DepthToSpace", 11, LAST, [image], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 7, LAST, [image[..., :6]], {"blocksize": 2}),
    ("DequantizeLinear", 10, LAST, [codes, F32(0.1), np.uint8(7)], {}),
    ("DequantizeLinear", 13, LAST, [codes, scales(0.1, 0.2, 0.3), np.uint8([7, 0, 9])], {"axis": 1}),
    ("DequantizeLinear", 21, LAST, [codes, np.abs(floats(2, 3, 2))], {"axis": -1, "block_size": 2}),
    ("QuantizeLinear", 10, LAST, [x, F32(0.02), np.int8(7)], {}),
    ("QuantizeLinear", 13, LAST, [x, scales(0.1, 0.2, 0.3)], {"axis": -2}),
    ("QuantizeLinear", 21, LAST, [x, np.abs(floats(2, 3, 2)) + 0.1],
     {"axis": 2, "block_size": 2, "output_dtype": T.INT16}),
    ("Det", 11, LAST, [square], {}),
    ("DFT", 17, 19, [floats(2, 6, 3, 1)], {"axis": 1, "onesided": 1}),
    ("DFT", 17, 19, [floats(2, 6, 3, 2), ints(8)[0]], {"axis": 2, "inverse": 1}),
    ("DFT", 20, LAST, [floats(2, 6, 3, 1), None, ints(1)[0]], {"onesided": 1}),
    ("DFT", 20, LAST, [floats(2, 6, 3, 2), ints(8)[0], ints(-2)[0]], {"inverse": 1}),
    ("Dropout", 7, 11, [x], {"ratio": 0.4}),
    ("Dropout", 12, LAST, [x, F32(0.4)], {}, 2),
    ("Dropout", 12, LAST, [x, None, np.bool_(False)], {"seed": 3}),
    ("Expand", 8, LAST, [x, ints(5, 1, 1, 4)], {}),
    ("EyeLike", 9, LAST, [square], {"k": 1, "dtype": T.INT32}),
    *(("Flatten", 7, LAST, [x], {"axis": axis}) for axis in (0, 2)),
    ("Flatten", 11, LAST, [x], {"axis": -1}),
    ("Gather", 7, LAST, [x, ints(2, 0)], {"axis": 1}),
    ("Gather", 11, LAST, [x, ints(-1, 0)], {"axis": -2}),
    ("GatherElements", 11, LAST, [x, ints(0, -1, 1)[None, :, None]], {"axis": 2}),
    ("GatherND", 11, LAST, [x, ints(1, -1)[None]], {}),
    ("GatherND", 12, LAST, [x, ints(1, 2)[:, None]], {"batch_dims": 1}),
    ("Gemm", 7, LAST, [x[0], floats(5, 4), floats(5)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", 11, LAST, [x[0], floats(3, 5)], {"transA": 1}),
    *((op, 7, LAST, [image], {}) for op in ("GlobalAveragePool", "GlobalMaxPool")),
    ("GlobalLpPool", 7, 21, [image], {}),
    *(("GridSample", 16, 19, [image, floats(1, 3, 5, 2)], {"mode": mode})
      for mode in ("bilinear", "nearest", "bicubic")),
    *(("GridSample", 20, LAST, [image, floats(1, 3, 5, 2)], {"mode": mode}) for mode in ("linear", "nearest", "cubic")),
    ("GridSample", 20, LAST, [volume, floats(1, 3, 2, 2, 3)], {"padding_mode": "border"}),
    ("GroupNormalization", 18, 20, [image, floats(2), floats(2)], {"num_groups": 2}),
    ("GroupNormalization", 21, LAST, [image, floats(4), floats(4)], {"num_groups": 2}),
    *((op, 7, 12, [x], {"axis": axis}) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (0, 1, 2)),
    *((op, 11, LAST, [x], {"axis": axis}) for op in ("Softmax", "LogSoftmax", "Hardmax") for axis in (-3, -2, -1)),
    *((op, 7, LAST, [x], {}) for op in ("Softmax", "LogSoftmax", "Hardmax")),
    ("InstanceNormalization", 7, LAST, [image, floats(4), floats(4)], {}),
    ("LRN", 7, LAST, [image], {"size": 3, "alpha": 0.5}),
    ("LpPool", 7, LAST, [image], window),
    ("LpPool", 18, LAST, [image], {**window, "ceil_mode": 1, "dilations": [1, 2]}),
    ("MaxPool", 7, LAST, [image], window),
    ("MaxPool", 8, LAST, [image], window, 2),
    ("MaxPool", 12, LAST, [codes[None] // 200], window, 2),
    ("MaxPool", 12, LAST, [codes[None] // 200], {**window, "ceil_mode": 1, "storage_order": 1}, 2),
    ("MaxPool", 10, LAST, [image], {**window, "ceil_mode": 1, "dilations": [1, 2]}),
    ("MaxPool", 12, LAST, [codes[None]], {"kernel_shape": [2, 2]}),
    ("MaxUnpool", 9, LAST, [image[:, :2, :1, :2], ints(0, 3, 8, 15).reshape(1, 2, 1, 2)],
     {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MeanVarianceNormalization", 9, LAST, [image], {}),
    *(("Mod", 10, LAST, [whole, np.int32(4)], {"fmod": n}) for n in (0, 1)),
    ("Mod", 10, LAST, [x, F32(0.7)], {"fmod": 1}),
    *((op, 12, LAST, [floats(1, 4, 6, 7), target, *more], {"reduction": how, "ignore_index": 2})
      for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss") for how in ("none", "mean", "sum")
      for more in ([], [channels[0]])),
    ("NonMaxSuppression", 10, LAST, [boxes, scales(0.9, 0.8, 0.7).reshape(1, 1, 3), ints(2), scales(0.5), scales(0.1)],
     {}),
    ("OneHot", 9, LAST, [ints(1, 0, 3), ints(4), scales(2, 5)], {"axis": 0}),
    ("OneHot", 11, LAST, [ints(1, -1, 9), ints(4), scales(2, 5)], {"axis": -1}),
    *(("Pad", 7, 10, [x], {"pads": [0, 1, 2, 1, 0, 1], "mode": mode, "value": 0.5})
      for mode in ("constant", "edge", "reflect")),
    *(("Pad", 11, LAST, [x, ints(0, 1, 2, 1, 0, 1)], {"mode": mode}) for mode in ("constant", "edge", "reflect")),
    ("Pad", 11, LAST, [x, ints(0, 1, -2, 1, 0, 1), F32(0.5)], {}),
    ("Pad", 18, LAST, [x, ints(1, 2), None, ints(-1)], {}),
    ("Pad", 19, LAST, [x, ints(0, 1, 2, 1, 0, 1)], {"mode": "wrap"}),
    *((op, 7, 17, [x], {"axes": [0, 2], "keepdims": n}) for op in REDUCE for n in (0, 1)),
    *((op, 11, 17, [x], {"axes": [-2]}) for op in REDUCE),
    *((op, 18, LAST, [x, ints(-2)], {"keepdims": 0}) for op in REDUCE),
    *((op, 18, LAST, [x], {"noop_with_empty_axes": n}) for op in REDUCE for n in (0, 1)),
    ("ReduceLogSum", 7, 17, [np.abs(x)], {"axes": [1]}),
    ("ReduceLogSum", 18, LAST, [np.abs(x), ints(1)], {}),
    ("ReduceSum", 7, 12, [x], {"axes": [0, 2]}),
    ("ReduceSum", 13, LAST, [x, ints(0, -1)], {"keepdims": 0}),
    *((op, 20, LAST, [bits, ints(1)], {}) for op in ("ReduceMax", "ReduceMin")),
    ("Reshape", 7, LAST, [x, ints(0, -1, 2)], {}),
    ("Reshape", 14, LAST, [x[:0], ints(3, 0, 4)], {"allowzero": 1}),
    *(("Resize", 10, 10, [image, scales(1, 1, 1.5, 0.7)], {"mode": mode}) for mode in ("nearest", "linear")),
    *(("Resize", 11, LAST, [image, scales(), scales(1, 1, 1.5, 0.7)], {"mode": mode})
      for mode in ("nearest", "linear", "cubic")),
    *(("Resize", since, last, [image, *absent, ints(1, 4, 9, 3)], {"mode": mode, "nearest_mode": "floor"})
      for since, last, absent in ((11, 12, [scales()] * 2), (13, LAST, [None] * 2))
      for mode in ("nearest", "linear", "cubic")),
    ("Resize", 11, 12, [image, scales(), scales(), ints(1, 4, 9, 3)],
     {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}),
    ("Resize", 13, LAST, [image, None, None, ints(1, 4, 9, 3)],
     {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1}),
    ("Resize", 18, LAST, [image, None, None, ints(3, 4)], {"mode": "linear", "antialias": 1, "axes": [2, 3]}),
    ("Resize", 19, LAST, [image, None, scales(1, 1, 1.5, 0.7)],
     {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}),
    *(("RoiAlign", 10, 21, [image, rois.reshape(2, 4), ints(0, 0)],
       {"mode": mode, "output_height": 2, "sampling_ratio": 2})
      for mode in ("avg", "max")),
    ("RoiAlign", 16, 21, [image, rois.reshape(2, 4), ints(0, 0)],
     {"coordinate_transformation_mode": "output_half_pixel"}),
    ("Scatter", 9, 10, [x, ints(1, 0)[:, None, None], floats(2, 1, 1)], {"axis": 2}),
    ("ScatterElements", 11, LAST, [x, ints(1, -1)[:, None, None], floats(2, 1, 1)], {"axis": -1}),
    ("ScatterND", 11, LAST, [x, ints(1, 2)[None], floats(1, 4)], {}),
    *((op, since, LAST, [x, index, floats(2, 4) if op == "ScatterND" else floats(2, 1, 2)], {"reduction": how})
      for op, index in (("ScatterND", ints(1, 2, 1, 2).reshape(2, 2)),
                        ("ScatterElements", ints(1, 1, 0, 0).reshape(2, 1, 2)))
      for how, since in (("add", 16), ("mul", 16), ("min", 18), ("max", 18))),
    ("Shape", 15, LAST, [x], {"start": -2, "end": 9}),
    ("Slice", 7, 9, [x], {"starts": [1, 0], "ends": [9, -1], "axes": [1, 2]}),
    ("Slice", 7, 9, [x], {"starts": [0, 1, 1], "ends": [1, 3, 3]}),
    ("Slice", 10, LAST, [x, ints(1, 0), ints(9, -1), ints(1, 2)], {}),
    ("Slice", 10, LAST, [x, ints(-1, 3), ints(-9, 0), ints(1, 2), ints(-1, -2)], {}),
    ("Slice", 11, LAST, [x, ints(1), ints(2**62), ints(-1), ints(2)], {}),
    ("Split", 7, 12, [x], {"axis": 2, "split": [1, 3]}, 2),
    ("Split", 7, 12, [x], {"axis": 2}, 2),
    ("Split", 13, LAST, [x, ints(1, 3)], {"axis": -1}, 2),
    ("Split", 13, 17, [x], {"axis": -1}, 4),
    ("Split", 18, LAST, [x], {"axis": 1, "num_outputs": 2}, 2),
    ("Squeeze", 7, 12, [x[:1, :, :1]], {"axes": [0, 2]}),
    ("Squeeze", 11, 12, [x[:1, :, :1]], {"axes": [-1]}),
    ("Squeeze", 13, LAST, [x[:1, :, :1], ints(-1)], {}),
    ("Unsqueeze", 7, 12, [x], {"axes": [0, 3]}),
    ("Unsqueeze", 11, 12, [x], {"axes": [-1, 0]}),
    ("Unsqueeze", 13, LAST, [x, ints(-1, 1)], {}),
    ("Tile", 7, LAST, [x, ints(1, 2, 3)], {}),
    ("TopK", 7, 9, [x], {"k": 2, "axis": 1}, 2),
    ("TopK", 10, LAST, [x, ints(2)], {"axis": 2}, 2),
    ("TopK", 11, LAST, [whole, ints(2)], {"axis": -2, "largest": 0}, 2),
    *(("Upsample", 7, 8, [image], {"scales": [1.0, 1.0, 2.0, 1.5], "mode": mode}) for mode in ("nearest", "linear")),
    *(("Upsample", 9, 9, [image, scales(1, 1, 2, 1.5)], {"mode": mode}) for mode in ("nearest", "linear")),
    ("Where", 9, LAST, where, {}),
    *((op, 7, LAST, [sequence, *gates(n)], {"hidden_size": 4}, 2) for op, n in (("LSTM", 4), ("GRU", 3), ("RNN", 1))),
    ("GRU", 7, LAST, [sequence, *gates(3)], {"hidden_size": 4, "linear_before_reset": 1}),
]  # fmt: skip


def versions(op, first, last):
    """Returns the opsets from first to last in which the op changed, and the last one."""
    since = {s.since_version for s in onnx.defs.get_all_schemas_with_history() if (s.domain, s.name) == ("", op)}
    return sorted({max(first, min(since)), last, *(v for v in since if first <= v <= last)})


CASES = {
    f"{op}_{i}_{opset}": (op, opset, *rest)
    for i, (op, first, last, *rest) in enumerate(ROWS)
    for opset in versions(op, first, last)
}


def built(op, opset, inputs, attributes, n_outputs=1, constants=True, open_sizes=False):
    """Inputs after the first are constants, or all are inputs."""
    arrays = {f"x{i}": np.asarray(a) for i, a in enumerate(inputs) if a is not None}
    fixed = {n: a for n, a in arrays.items() if constants and n != "x0"}
    names = " ".join("-" if a is None else f"x{i}" for i, a in enumerate(inputs))
    outputs = " ".join(f"y{i}" for i in range(n_outputs))
    given = {n: a for n, a in arrays.items() if n not in fixed}
    return Case([node(op, names, outputs, **attributes)], given, fixed, opset, open_sizes=("x0",) * open_sizes)


REFUSED = {  # ops whose inputs or sizes may be unknown at the import, and what the importer says then
    "ConstantOfShape": "shape has an open number of elements",
    "DFT": "axis is not constant|the last dimension, 1 or 2, is open",
    "Dropout": "training_mode",
    "Resize": "antialias with sizes that are open|nearest with a scale that is not constant",
}


def right_or_refused(name, **how):
    try:
        compare(built(*CASES[name], **how))
    except clave.UnsupportedOp as e:
        reason = REFUSED.get(CASES[name][0])
        assert reason and re.search(reason, str(e))


@pytest.mark.parametrize("name", CASES)
def test_constants(name):
    compare(built(*CASES[name]))


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("name", [n for n, (_, _, inputs, *_) in CASES.items() if len(inputs) > 1])
def test_inputs(name):
    right_or_refused(name, constants=False)


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("name", CASES)
def test_open_sizes(name):
    right_or_refused(name, open_sizes=True)
