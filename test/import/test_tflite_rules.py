"""Rules of TFLite that a small mistake in the importer would break, against ai-edge-litert."""

import numpy as np
import pytest

import clave

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert is installed")
schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
flatbuffers = pytest.importorskip("flatbuffers")

F32 = np.float32
rng = np.random.default_rng(6)
floats = lambda *shape: rng.standard_normal(shape).astype(F32)
TYPES = {"float32": "FLOAT32", "int32": "INT32", "int8": "INT8"}
SAME, VALID, RELU6 = 0, 1, 3


class Model:
    """A model of TFLite that grows: tensors and operators of its last subgraph."""

    def __init__(self):
        self.made = schema.ModelT(version=3, buffers=[schema.BufferT()], operatorCodes=[], subgraphs=[])
        self.graph()

    def graph(self):
        self.now = schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name="g")
        self.made.subgraphs.append(self.now)

    def tensor(self, name, shape=(), data=None, kind=None, scale=None, zero=0):
        """kind: a name of TensorType (default: that of the data, or FLOAT32). Returns the index."""
        data = None if data is None else np.asarray(data)
        t = schema.TensorT(name=name, shape=list(shape if data is None else data.shape), hasRank=True)
        t.type = getattr(schema.TensorType, kind or (TYPES[str(data.dtype)] if data is not None else "FLOAT32"))
        if scale:
            t.quantization = schema.QuantizationParametersT(scale=[scale], zeroPoint=[zero])
        t.buffer = 0
        if data is not None:
            t.buffer = len(self.made.buffers)
            self.made.buffers.append(schema.BufferT(data=np.frombuffer(data.tobytes(), np.uint8)))
        self.now.tensors.append(t)
        return len(self.now.tensors) - 1

    def op(self, name, inputs, outputs, **options):
        """options: kind is the name of the table of options, the others are its fields."""
        code = getattr(schema.BuiltinOperator, name)
        self.made.operatorCodes.append(
            schema.OperatorCodeT(builtinCode=code, deprecatedBuiltinCode=min(code, 127), version=1)
        )
        made = schema.OperatorT(opcodeIndex=len(self.made.operatorCodes) - 1, inputs=inputs, outputs=outputs)
        if kind := options.pop("kind", None):
            made.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
            made.builtinOptions = getattr(schema, f"{kind}T")(**options)
        self.now.operators.append(made)

    def signature(self, key, index, inputs, outputs):
        pairs = lambda names: [schema.TensorMapT(name=n, tensorIndex=i) for n, i in names.items()]
        made = schema.SignatureDefT(inputs=pairs(inputs), outputs=pairs(outputs), signatureKey=key, subgraphIndex=index)
        self.made.signatureDefs = [*(self.made.signatureDefs or []), made]

    def bytes(self):
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.made.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def check(model, *runs):
    """Compares runs of the only subgraph, in order: variables keep their values."""
    peer = litert.Interpreter(model_content=model, num_threads=1)
    peer.allocate_tensors()
    session = clave.Session(clave.from_tflite(model), device="cpu")
    for given in runs:
        for detail, x in zip(peer.get_input_details(), given, strict=True):
            peer.set_tensor(detail["index"], x)
        peer.invoke()
        for detail, got in zip(peer.get_output_details(), session.run(*given), strict=True):
            want = peer.get_tensor(detail["index"])
            assert (want.dtype, want.shape) == (got.dtype, got.shape)
            np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def convolved(name, kind, weight, out, size=(1, 6, 7, 2), channels=None, **options):
    m = Model()
    x, w = m.tensor("x", size), m.tensor("w", data=weight)
    b, y = m.tensor("b", data=floats(channels or weight.shape[0])), m.tensor("y", out)
    m.op(name, [x, w, b], [y], kind=kind, dilationWFactor=1, dilationHFactor=1, **options)
    m.now.inputs, m.now.outputs = [x], [y]
    return m.bytes(), [floats(*size)]


def test_same_padding_adds_the_odd_row_after():
    out = (1, 3, 4, 3)
    check(*convolved("CONV_2D", "Conv2DOptions", floats(3, 3, 2, 2), out, padding=SAME, strideH=2, strideW=2))


def test_depthwise():
    out = (1, 4, 6, 4)
    options = {"strideH": 1, "strideW": 1, "depthMultiplier": 2, "padding": VALID}
    weight = floats(1, 3, 2, 4)
    check(*convolved("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", weight, out, channels=4, **options))


def test_fused_activation():
    m = Model()
    x, c, y = m.tensor("x", (2, 3)), m.tensor("c", data=floats(3) * 4), m.tensor("y", (2, 3))
    m.op("ADD", [x, c], [y], kind="AddOptions", fusedActivationFunction=RELU6)
    m.now.inputs, m.now.outputs = [x], [y]
    check(m.bytes(), [floats(2, 3) * 5])


def test_zero_points():
    m = Model()
    x = m.tensor("x", (2, 9), kind="INT8", scale=0.25, zero=-5)
    y = m.tensor("y", (2, 9))
    m.op("DEQUANTIZE", [x], [y], kind="DequantizeOptions")
    m.now.inputs, m.now.outputs = [x], [y]
    check(m.bytes(), [rng.integers(-128, 128, (2, 9)).astype(np.int8)])


def test_variables():
    """Another subgraph sets the variable once; each run adds to it, and reset returns to that value."""
    m = Model()
    handle = lambda: m.tensor("v", kind="RESOURCE")
    variable = lambda: m.op("VAR_HANDLE", [], [0], kind="VarHandleOptions", container="", sharedName="total")
    old, x, y = (handle(), m.tensor("old", (3,)), m.tensor("x", (3,)), m.tensor("y", (3,)))[1:]
    m.op("CALL_ONCE", [], [], kind="CallOnceOptions", initSubgraphIndex=1)
    variable()
    m.op("READ_VARIABLE", [0], [old], kind="ReadVariableOptions")
    m.op("ADD", [old, x], [y], kind="AddOptions")
    m.op("ASSIGN_VARIABLE", [0, y], [], kind="AssignVariableOptions")
    m.now.inputs, m.now.outputs = [x], [y]
    m.graph()
    handle()
    first = m.tensor("first", data=F32([5, 6, 7]))
    variable()
    m.op("ASSIGN_VARIABLE", [0, first], [], kind="AssignVariableOptions")
    x = floats(3)
    check(m.bytes(), [x], [x], [floats(3)])
    session = clave.Session(clave.from_tflite(m.bytes()), device="cpu")
    session.run(x)
    session.reset()
    np.testing.assert_allclose(session.run(x)[0], x + F32([5, 6, 7]))


def test_signatures():
    """Signatures are methods, with their own names of inputs and outputs."""
    m = Model()
    for i, op in enumerate(("EXP", "NEG")):
        if i:
            m.graph()
        x, y = m.tensor("tensor_0:0", (3,)), m.tensor("tensor_1:0", (3,))
        m.op(op, [x], [y], kind=f"{op.title()}Options")
        m.now.inputs, m.now.outputs = [x], [y]
        m.signature(op.lower(), i, {"x": x}, {"y": y})
    methods = clave.from_tflite(m.bytes()).methods
    assert list(methods) == ["exp", "neg"]
    assert all([a.name for a in (*i.inputs, *i.outputs)] == ["x", "y"] for i in methods.values())
    session, x = clave.Session(clave.from_tflite(m.bytes()), device="cpu"), floats(3)
    peer = litert.Interpreter(model_content=m.bytes())
    for name in methods:
        want = peer.get_signature_runner(name)(x=x)["y"]
        np.testing.assert_allclose(session.run(x, method=name)[0], want, 1e-6)


# ---------------------------------------------------------------- 16-bit codes, blocks


def coded(name, shape, activation=0, weight=None, bias=None):
    """One operator on 16-bit codes of scale 1/1000, and a second input of scale 1/3000 or a weight."""
    m = Model()
    x = m.tensor("x", shape, kind="INT16", scale=1e-3)
    y = m.tensor("y", (shape[0], 5) if weight is not None else shape, kind="INT16", scale=2e-3)
    if weight is None:
        two = name not in ("LOGISTIC", "RSQRT", "ABS")
        inputs = [x, m.tensor("z", shape, kind="INT16", scale=1 / 3000)] if two else [x]
        if name == "LOGISTIC":
            m.now.tensors[y].quantization.scale = [1 / 32768]
    else:
        inputs = [x, m.tensor("w", data=weight, scale=0.01), m.tensor("b", data=bias, kind="INT64", scale=1e-5)]
        m.now.tensors[inputs[1]].quantization.zeroPoint = [0]
    options = {
        "ADD": "AddOptions",
        "SUB": "SubOptions",
        "MUL": "MulOptions",
        "FULLY_CONNECTED": "FullyConnectedOptions",
    }
    more = {"kind": options[name], "fusedActivationFunction": activation} if name in options else {}
    m.op(name, inputs, [y], **more)
    m.now.inputs, m.now.outputs = [i for i in inputs if m.now.tensors[i].buffer == 0], [y]
    return m.bytes()


CODED = {"add": ("ADD", 0), "sub": ("SUB", 0), "mul": ("MUL", 0), "relu": ("ADD", 1), "relu6": ("MUL", 3),
         "logistic": ("LOGISTIC", 0), "abs": ("ABS", 0)}  # fmt: skip


def nearly(model, given, apart):
    """Compares codes, which may be this far apart."""
    peer = litert.Interpreter(model_content=model, num_threads=1)
    peer.allocate_tensors()
    for detail, x in zip(peer.get_input_details(), given, strict=True):
        peer.set_tensor(detail["index"], x)
    peer.invoke()
    want = peer.get_tensor(peer.get_output_details()[0]["index"])
    (got,) = clave.Session(clave.from_tflite(model), device="cpu").run(*given)
    assert (want.dtype, want.shape) == (got.dtype, got.shape) and len(np.unique(want)) > 1
    assert np.abs(want.astype(int) - np.asarray(got).astype(int)).max() <= apart


@pytest.mark.parametrize("name", CODED)
def test_codes_of_16_bits(name):
    op, activation = CODED[name]
    model = coded(op, (4, 9), activation)
    codes = lambda: rng.integers(-32768, 32768, (4, 9)).astype(np.int16)
    nearly(model, [codes() for _ in range(1 if op in ("LOGISTIC", "ABS") else 2)], 4 if op == "LOGISTIC" else 1)


def test_product_of_16_bits():
    weight, bias = rng.integers(-127, 128, (5, 9)).astype(np.int8), rng.integers(-9000, 9000, 5)
    nearly(coded("FULLY_CONNECTED", (4, 9), 0, weight, bias), [rng.integers(-9000, 9000, (4, 9)).astype(np.int16)], 2)


@pytest.mark.parametrize("zeros", [False, True])
def test_weights_in_blocks(zeros):
    """The peer rounds the activations to 8 bits, so numpy computes what the weights mean."""
    m = Model()
    codes, scales = rng.integers(-8, 8, (6, 64)), (rng.random((6, 2)) + 0.5).astype(np.float16)
    points = rng.integers(-3, 4, (6, 2)).astype(np.int8)
    x, y = m.tensor("x", (3, 64)), m.tensor("y", (3, 6))
    w = m.tensor("w", data=codes.astype(np.int8))
    s = m.tensor("s", data=scales, kind="FLOAT16")
    z = m.tensor("z", data=points) if zeros else -1
    details = schema.BlockwiseQuantizationT(scales=s, zeroPoints=z, blockSize=32)
    m.now.tensors[w].quantization = schema.QuantizationParametersT(detailsType=2, details=details)
    m.op("FULLY_CONNECTED", [x, w, -1], [y], kind="FullyConnectedOptions")
    m.now.inputs, m.now.outputs = [x], [y]
    block = lambda a: np.repeat(a.astype(np.float64), 32, 1)
    given = floats(3, 64)
    want = given @ ((codes - (block(points) if zeros else 0)) * block(scales)).T
    (got,) = clave.Session(clave.from_tflite(m.bytes()), device="cpu").run(given)
    np.testing.assert_allclose(got, want, 1e-4, 1e-5 * np.abs(want).max())
