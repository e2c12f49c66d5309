"""TFLite's subgraphs, variables and signatures against ai-edge-litert, and custom and stored tensors."""

import struct

import numpy as np
import pytest

import clave

_tflite = pytest.importorskip("_tflite", reason="no ai-edge-litert is installed")
import _tflite_models as models
from _tflite import SAME, VALID, Codes, Model
from _tflite_models import F32, I32, rng, w
from flatbuffers import flexbuffers

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("opencl", marks=pytest.mark.by_turn(8))])


@DEVICES
@pytest.mark.parametrize("shape", [(), (1,)])
def test_if(shape, device):
    _tflite.check(models.branches(shape), [[np.full(shape, c), w(2, 3)] for c in (True, False)], device)


IMAGE = ((1, 4, 4, 2),)


@DEVICES
@pytest.mark.parametrize(
    ("body", "shapes"), [(models.add_count, IMAGE), (models.convolve, IMAGE), (models.collect, ((1,), (5,)))]
)
def test_while(body, shapes, device):
    runs = [[np.array(n, I32), *(w(*s) for s in shapes)] for n in (5, 0, 1)]
    _tflite.check(models.loop(body, shapes), runs, device)


@DEVICES
@pytest.mark.parametrize("assigned", ["sum", "input", "constant"])
def test_variable(assigned, device):
    _tflite.check(models.variable(assigned), [[w(2)] for _ in range(4)], device)


def test_signatures():
    """Each is a method, with the names of its own inputs and outputs."""
    data, x = models.signatures(), w(2, 3)
    program = clave.from_tflite(data)
    for key in ("encode", "decode"):
        method = program.methods[key]
        assert [n.name for n in (*method.inputs, *method.outputs)] == [f"{key}_in", f"{key}_out"]
        want = _tflite.Interpreter(model_content=data).get_signature_runner(key)(**{f"{key}_in": x})
        assert np.array_equal(clave.Session(program, device="cpu").run(x, method=key)[0], want[f"{key}_out"])


def test_sizes_of_a_reshape():
    """The batch is taken from a shape, as Keras's Flatten does."""
    graph = (model := Model()).main
    x = graph.input(F32, (-1, 3, 4))
    parts = [graph.constant(I32([i])) for i in (0, 1, 1)]
    shape = graph.op("SHAPE", [x], [I32], out_type=2)
    batch = graph.op("STRIDED_SLICE", [*shape, *parts], [I32], shrink_axis_mask=1)
    sizes = graph.op("PACK", [*batch, graph.constant(I32(12))], [I32], values_count=2, axis=0)
    graph.output(*graph.op("RESHAPE", [x, *sizes]))
    _tflite.check(model.bytes(), [[w(n, 3, 4)] for n in (2, 5)])


def test_odd_interfaces():
    """Two inputs have one name; an input and a constant are outputs."""
    graph = (model := Model()).main
    a, b = (graph.input(F32, (2,), name="a") for _ in range(2))
    graph.output(a, graph.constant(w(2)), *graph.op("ADD", [a, b]), a)
    _tflite.check(model.bytes(), [[w(2), w(2)] for _ in range(2)])
    assert len({i.name for i in clave.from_tflite(model.bytes()).methods["forward"].inputs}) == 2


def test_composite():
    """A composite is replaced by its decomposition."""
    model = Model()
    main, part, nothing = model.main, model.graph("part"), list(flexbuffers.Dumps({}))
    more = {"name": "odml.x", "decomposition_subgraph_index": 1, "composite_attributes": nothing}
    main.output(*main.op("STABLEHLO_COMPOSITE", [main.input(F32, (2, 3))], **more))
    part.output(*part.op("NEG", [part.input(F32, (2, 3))]))
    _tflite.check(model.bytes(), [[w(2, 3)]])


def test_4_bit_weights():
    graph, codes = (model := Model()).main, rng.integers(-8, 8, (4, 6))
    packed = (codes[:, ::2] & 15 | (codes[:, 1::2] & 15) << 4).astype(np.uint8)
    scales = Codes(F32([0.1, 0.2, 0.3, 0.4]), np.zeros(4))
    inputs = [
        graph.input(np.int8, (2, 6), Codes(0.05, 3)),
        graph.tensor(None, (4, 6), packed, scales, kind=_tflite.INT4),
    ]
    graph.output(*graph.op("FULLY_CONNECTED", [*inputs, -1], [(np.int8, Codes(0.5, 1))]))
    _tflite.check(model.bytes(), [[rng.integers(-128, 128, (2, 6)).astype(np.int8)] for _ in range(2)], apart=0.01)


@pytest.mark.parametrize("how", ["half floats", "sparse", "outside"])
def test_stored_weights(how):
    _tflite.check(models.stored(how), [[w(2, 4)] for _ in range(2)])


@pytest.mark.parametrize("part", ["COMPLEX_ABS", "REAL", "IMAG"])
@pytest.mark.parametrize(("size", "lengths"), [((4, 8), (4, 8)), ((3, 10), (4, 8)), ((2, 5), (2, 8))])
def test_spectrum(size, lengths, part):
    _tflite.check(models.spectrum(size, lengths, part), [[w(2, *size)] for _ in range(2)], tolerance=1e-4)


def check_custom(op, options, want, given, constants=()):
    """Compares a custom op of MediaPipe, which ai-edge-litert lacks."""
    program = clave.from_tflite(models.custom(op, options, len(want), given, constants))
    got = clave.Session(program, device="cpu").run(*given)
    assert not [d for pair in zip(want, got, strict=True) if (d := _tflite.difference(*pair))]


SIZES = [((0, 0), (3, 2), (2, 2)), ((1, 1), (3, 3), (1, 2)), ((0, 1), (2, 3), (2, 1))]


@pytest.mark.parametrize(("pads", "kernel", "stride"), SIZES)
def test_max_pool_with_positions(pads, kernel, stride):
    x = w(2, 6, 5, 3)
    around = np.pad(x, [(0, 0), (pads[0],) * 2, (pads[1],) * 2, (0, 0)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(around, kernel, (1, 2))[:, :: stride[0], :: stride[1]]
    windows = windows.reshape(*windows.shape[:4], -1)
    options = struct.pack("<6i", 1 if any(pads) else 2, *stride[::-1], *kernel[::-1], 0)
    want = [windows.max(-1), (windows.argmax(-1) + 0.1).astype(F32)]
    check_custom("MaxPoolingWithArgmax2D", options, want, [x])


def test_max_unpooling():
    x, index = w(1, 3, 4, 2), rng.integers(0, 6, (1, 3, 4, 2))
    cells = np.where(index[..., None] == np.arange(6), x[..., None], F32(0)).reshape(1, 3, 4, 2, 2, 3)
    want = cells.transpose(0, 1, 4, 2, 5, 3).reshape(1, 6, 12, 2)
    options = struct.pack("<6i", 1, 3, 2, 3, 2, 0)
    check_custom("MaxUnpooling2D", options, [want], [x, (index + 0.1).astype(F32)])


@pytest.mark.parametrize(("padding", "size"), [(SAME, (5, 8)), (VALID, (7, 9))])
def test_transposed_convolution_with_bias(padding, size):
    x, weight, bias, graph = w(1, 3, 4, 3), w(5, 3, 3, 3), w(5), (model := Model()).main
    inputs = [*map(graph.constant, (I32([1, *size, 5]), weight)), graph.input(F32, x.shape), graph.constant(bias)]
    graph.output(*graph.op("TRANSPOSE_CONV", inputs, padding=padding, stride_h=2, stride_w=2))
    want, options = _tflite.peer(model.bytes())([x]), struct.pack("<3i", 1 if padding == SAME else 2, 2, 2)
    check_custom("Convolution2DTransposeBias", options, want, [x], [weight, bias])
