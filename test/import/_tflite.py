"""Writes small TFLite models, and compares them with ai-edge-litert."""

import os
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import clave

XNNPACK, PLAIN_KERNELS = "BUILTIN", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
COMPLEX64, RESOURCE, INT4 = 8, 13, 17
SAME, VALID = 0, 1
RELU, RELU_N1_TO_1, RELU6, FUSED_TANH = 1, 2, 3, 4
_TYPES = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9}
# names of options that are not made from the op's name
_POOL, _REDUCER = "Pool2D", "Reducer"
_OPTIONS = {
    "AVERAGE_POOL_2D": _POOL, "MAX_POOL_2D": _POOL, "L2_POOL_2D": _POOL, "MEAN": _REDUCER, "SUM": _REDUCER,
    "REDUCE_PROD": _REDUCER, "REDUCE_MAX": _REDUCER, "REDUCE_MIN": _REDUCER, "REDUCE_ANY": _REDUCER,
    "REDUCE_ALL": _REDUCER, "BATCH_MATMUL": "BatchMatMul", "L2_NORMALIZATION": "L2Norm", "REVERSE_V2": "ReverseV2",
    "STABLEHLO_COMPOSITE": "StableHLOComposite",
}  # fmt: skip


class Codes(NamedTuple):
    """Quantisation: real = scale * (code - zero). scale, zero: numbers, or arrays along the axis."""

    scale: object
    zero: object = 0
    axis: int = 0


def _camel(words):
    first, *others = words.split("_")
    return first + "".join(w.title() for w in others)


def _fill(table, values):
    for name, value in values.items():
        assert hasattr(table, _camel(name)), f"{type(table).__name__} has no {name}"
        setattr(table, _camel(name), value)
    return table


class Graph:
    """A subgraph. Tensors are numbers; -1 is an absent input."""

    def __init__(self, model, name):
        self.model = model
        self.table = _fill(schema.SubGraphT(), {"name": name})
        for part in ("tensors", "operators", "inputs", "outputs"):
            setattr(self.table, part, [])

    def tensor(self, dtype=None, shape=(), data=None, codes=None, name=None, kind=None, **more):
        """dtype: numpy's, if kind is None; kind: a type of the schema. A size of -1 is open."""
        kind, buffer = _TYPES[str(np.dtype(dtype))] if kind is None else kind, schema.BufferT()
        if data is not None:
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        table = _fill(schema.TensorT(), {
            "type": kind, "shape": [max(1, n) if n < 0 else n for n in shape], "has_rank": True,
            "name": name or f"t{len(self.table.tensors)}", "buffer": len(self.model.table.buffers), **more,
        })  # fmt: skip
        if any(n < 0 for n in shape):
            table.shapeSignature = list(shape)
        if codes:
            table.quantization = _fill(schema.QuantizationParametersT(), {
                "scale": np.atleast_1d(np.float32(codes.scale)), "zero_point": np.atleast_1d(np.int64(codes.zero)),
                "quantized_dimension": codes.axis, "min": None, "max": None,
            })  # fmt: skip
        self.model.table.buffers.append(buffer)
        self.table.tensors.append(table)
        return len(self.table.tensors) - 1

    def constant(self, data, codes=None, **more):
        data = np.asarray(data)
        return self.tensor(data.dtype, data.shape, data, codes, **more)

    def input(self, dtype, shape=(), codes=None, **more):
        self.table.inputs.append(self.tensor(dtype, shape, None, codes, **more))
        return self.table.inputs[-1]

    def op(self, name, inputs, results=(np.float32,), /, custom=None, custom_options=None, version=1, **options):
        """results: dtypes, (dtype, codes), or numbers of tensors. options: the schema's names in lower case. Returns
        the number of each result."""
        of = lambda dtype, codes=None: self.tensor(dtype, codes=codes)
        made = [r if isinstance(r, int) else of(*r) if isinstance(r, tuple) else of(r) for r in results]
        code, kind = self.model.code(name, custom, version), _OPTIONS.get(name, _camel("_" + name)) + "Options"
        table = _fill(schema.OperatorT(), {"opcode_index": code, "inputs": list(inputs), "outputs": made})
        table.customOptions = custom_options
        unions = [u for u in ("BuiltinOptions", "BuiltinOptions2") if hasattr(getattr(schema, u), kind)]
        for union in unions:
            setattr(table, f"b{union[1:]}Type", getattr(getattr(schema, union), kind))
            setattr(table, f"b{union[1:]}", _fill(getattr(schema, f"{kind}T")(), options))
        assert unions or not options
        self.table.operators.append(table)
        return made

    def output(self, *tensors):
        self.table.outputs += tensors


class Model:
    def __init__(self):
        self.table = _fill(schema.ModelT(), {"version": 3, "buffers": [schema.BufferT()]})
        self.table.operatorCodes, self.table.subgraphs, self._codes = [], [], {}
        self.main = self.graph("main")

    def graph(self, name):
        graph = Graph(self, name)
        self.table.subgraphs.append(graph.table)
        return graph

    def code(self, name, custom, version):
        number = schema.BuiltinOperator.CUSTOM if custom else getattr(schema.BuiltinOperator, name)
        if (number, custom) not in self._codes:
            self._codes[number, custom] = len(self._codes)
            self.table.operatorCodes.append(_fill(schema.OperatorCodeT(), {
                "builtin_code": number, "deprecated_builtin_code": min(number, 127), "custom_code": custom,
                "version": version,
            }))  # fmt: skip
        return self._codes[number, custom]

    def signature(self, key, subgraph, inputs, outputs):
        """inputs, outputs: {name: tensor}."""
        maps = lambda named: [_fill(schema.TensorMapT(), {"name": n, "tensor_index": t}) for n, t in named.items()]
        made = {"signature_key": key, "subgraph_index": subgraph, "inputs": maps(inputs), "outputs": maps(outputs)}
        self.table.signatureDefs = [*(self.table.signatureDefs or []), _fill(schema.SignatureDefT(), made)]

    def bytes(self):
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.table.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def peer(model, kernels=PLAIN_KERNELS):
    """Returns a function that runs a model by ai-edge-litert."""
    interpreter = Interpreter(model_content=model, experimental_op_resolver_type=OpResolverType[kernels], num_threads=1)
    shapes = None

    def run(args):
        nonlocal shapes
        if shapes != [np.shape(x) for x in args]:
            shapes = [np.shape(x) for x in args]
            for given, shape in zip(interpreter.get_input_details(), shapes, strict=True):
                interpreter.resize_tensor_input(given["index"], shape)
            interpreter.allocate_tensors()
        for given, x in zip(interpreter.get_input_details(), args, strict=True):
            interpreter.set_tensor(given["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(o["index"]) for o in interpreter.get_output_details()]

    return run


def difference(want, got, tolerance=1e-5, apart=None):
    """Returns how an array differs from the expected one, or None. apart: the part of the codes that may differ by one;
    None: integers are equal."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    if want.dtype.kind == "f":
        wrong = ~np.isclose(got.astype(np.float64), want.astype(np.float64), tolerance, tolerance, equal_nan=True)
    else:
        steps = np.abs(want.astype(np.int64) - got.astype(np.int64))
        few = apart is not None and (steps > 0).sum() <= max(1, apart * steps.size)
        wrong = steps > (1 if few else 0)
    return f"{wrong.sum()} of {wrong.size}: {got[wrong][:5]}, expected {want[wrong][:5]}" if wrong.any() else None


def check(model, runs, device="cpu", tolerance=1e-5, apart=None):
    """runs: lists of arrays. Runs the model's bytes on each, and on the first again. Codes are near those of one set of
    ai-edge-litert's kernels, which differ among themselves."""
    session = clave.Session(clave.from_tflite(model), device=device)
    runs = [*runs, runs[0]]
    got = [[np.asarray(o) for o in session.run(*args)] for args in runs]
    wrong = []
    for kernels in (PLAIN_KERNELS,) if apart is None else (XNNPACK, PLAIN_KERNELS):
        run = peer(model, kernels)
        pairs = [p for args, g in zip(runs, got, strict=True) for p in zip(run(args), g, strict=True)]
        wrong = [d for w, g in pairs if (d := difference(w, g, tolerance, apart))]
        if not wrong:
            return
    raise AssertionError(wrong[0])
