"""If, Loop and Scan against onnxruntime: conditions and counts known at the import or at run time, and open sizes."""

import numpy as np
import pytest

import clave

onnx = pytest.importorskip("onnx", reason="no onnx package is installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="no onnxruntime is installed")
h, T = onnx.helper, onnx.TensorProto
N = h.make_node


def info(name, kind=T.FLOAT, shape=("n", 4)):
    return h.make_tensor_value_info(name, kind, shape)


def graph(nodes, inputs, outputs, constants=()):
    named = [onnx.numpy_helper.from_array(np.asarray(x), n) for n, x in dict(constants).items()]
    return h.make_graph(nodes, "g", inputs, [info(o, T.FLOAT, None) for o in outputs], named)


def check(nodes, inputs, outputs, runs, constants=(), device="cpu", types=None):
    """runs: lists of arrays. Runs the model on each, and on the first again."""
    g = graph(nodes, inputs, outputs, constants)
    for o in g.output:
        o.type.tensor_type.elem_type = (types or {}).get(o.name, T.FLOAT)
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8)
    peer = onnxruntime.InferenceSession(m.SerializeToString())
    session = clave.Session(clave.from_onnx(m), device=device)
    names = [i.name for i in inputs]
    for given in (*runs, runs[0]):
        want = peer.run(None, dict(zip(names, given, strict=True)))
        for w, g in zip(want, session.run(*given), strict=True):
            assert (w.dtype, w.shape) == (np.asarray(g).dtype, np.asarray(g).shape)
            np.testing.assert_allclose(g, w, 1e-5, 1e-6)


rng = np.random.default_rng(2)
floats = lambda *shape: rng.standard_normal(shape).astype(np.float32)
DEVICES = pytest.mark.parametrize("device", ["cpu", "opencl"])


@DEVICES
@pytest.mark.parametrize("by", ["input", "sum", "size", "constant"])
def test_if(by, device):
    """The branches read outer values, share names with them, and one returns an outer value unchanged."""
    test = {
        "input": [],
        "sum": [N("ReduceSum", ["x"], ["r"], keepdims=0), N("Greater", ["r", "zero"], ["c"])],
        "size": [N("Size", ["x"], ["z"]), N("Greater", ["z", "ten"], ["c"])],
        "constant": [N("Constant", [], ["c"], value=h.make_tensor("v", T.BOOL, [1], [True]))],
    }[by]
    yes = graph([N("Mul", ["x", "two"], ["p"]), N("Identity", ["x"], ["q"])], [], ["p", "q"], {"two": np.float32(3)})
    no = graph([N("Relu", ["x"], ["p"]), N("Neg", ["p"], ["q"])], [], ["p", "q"])
    constants = {"zero": np.float32(0), "ten": np.int64(10), "two": np.float32(2)}
    nodes = [*test, N("If", ["c"], ["a", "b"], then_branch=yes, else_branch=no), N("Add", ["a", "two"], ["y"])]
    condition = [info("c", T.BOOL, [])] if by == "input" else []
    cases = [floats(n, 4) + s for n, s in ((2, 3), (3, -3), (5, 1))]
    runs = [[x, *([np.array(i % 2 == 0)] if condition else [])] for i, x in enumerate(cases)]
    check(nodes, [info("x"), *condition], ["y", "b"], runs, constants, device)


@pytest.mark.parametrize("by", ["sum", "size"])
def test_if_with_other_sizes(by):
    """The results of the branches differ in size."""
    test = [N("ReduceSum", ["x"], ["r"], keepdims=0), N("Greater", ["r", "zero"], ["c"])]
    if by == "size":
        test = [N("Size", ["x"], ["z"]), N("Greater", ["z", "ten"], ["c"])]
    yes = graph([N("Concat", ["x", "x", "x"], ["p"], axis=0)], [], ["p"])
    no = graph([N("Slice", ["x", "one", "end", "one"], ["q"])], [], ["q"])
    constants = {"zero": np.float32(0), "ten": np.int64(10), "one": np.array([1]), "end": np.array([3])}
    nodes = [*test, N("If", ["c"], ["a"], then_branch=yes, else_branch=no), N("Exp", ["a"], ["y"])]
    check(nodes, [info("x")], ["y"], [[floats(n, 4) + s] for n, s in ((2, 3), (3, -3), (5, 1))], constants)


def test_nested_if():
    inner = graph([N("If", ["d"], ["p"], then_branch=graph([N("Neg", ["x"], ["q"])], [], ["q"]),
                     else_branch=graph([N("Exp", ["x"], ["q"])], [], ["q"]))], [], ["p"])  # fmt: skip
    other = graph([N("Identity", ["x"], ["p"])], [], ["p"])
    nodes = [N("If", ["c"], ["y"], then_branch=inner, else_branch=other)]
    inputs = [info("x"), info("c", T.BOOL, []), info("d", T.BOOL, [])]
    check(
        nodes, inputs, ["y"], [[floats(2, 4), np.array(c), np.array(d)] for c in (True, False) for d in (True, False)]
    )


@DEVICES
@pytest.mark.parametrize(
    ("count", "ends"),
    [(c, e) for c in ("constant", "input", "size", "none") for e in (False, True) if c != "none" or e],
)
def test_loop(count, ends, device):
    """Two carried values and two stacks; the body may end the loop early."""
    body = graph(
        [N("Cast", ["k"], ["f"], to=T.FLOAT), N("Add", ["v", "f"], ["v2"]), N("Mul", ["w", "v"], ["w2"]),
         N("ReduceSum", ["v2"], ["s"], keepdims=0), N("Add", ["v2", "x"], ["o"]),
         *([N("Less", ["s", "end"], ["c2"])] if ends else [N("Identity", ["c"], ["c2"])])],
        [info("k", T.INT64, []), info("c", T.BOOL, []), info("v"), info("w")],
        ["c2", "v2", "w2", "s", "o"])  # fmt: skip
    body.output[0].type.tensor_type.elem_type = T.BOOL
    first = {"constant": "three", "input": "m", "size": "z", "none": ""}[count]
    nodes = [N("Shape", ["x"], ["sh"]), N("Gather", ["sh", "nought"], ["z"])] if count == "size" else []
    nodes += [N("Loop", [first, "t" if ends else "", "x", "x"], ["a", "b", "y", "o"], body=body)]
    constants = {"three": np.int64(3), "nought": np.int64(0), "t": np.bool_(True), "end": np.float32(30)}
    steps = lambda m: [np.array(m)] if count == "input" else []
    inputs = [info("x"), *([info("m", T.INT64, [])] if count == "input" else [])]
    runs = [[floats(n, 4), *steps(m)] for n, m in ((2, 4), (3, 1), (5, 7))]
    check(nodes, inputs, ["a", "b", "y", "o"], runs, constants, device)


@pytest.mark.parametrize("starts", [True, False])
def test_loop_that_never_runs(starts):
    body = graph([N("Neg", ["v"], ["v2"]), N("Identity", ["c"], ["c2"])],
                 [info("k", T.INT64, []), info("c", T.BOOL, []), info("v")], ["c2", "v2"])  # fmt: skip
    body.output[0].type.tensor_type.elem_type = T.BOOL
    inputs = [info("x"), info("m", T.INT64, []), info("t", T.BOOL, [])]
    check([N("Loop", ["m", "t", "x"], ["y"], body=body)], inputs, ["y"],
          [[floats(2, 4), np.array(m), np.array(starts)] for m in (0, 3)])  # fmt: skip


@DEVICES
@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (-1, 0)])
def test_scan(directions, axes, device):
    body = graph([N("Add", ["v", "e"], ["v2"]), N("Mul", ["v2", "two"], ["o"])],
                 [info("v", T.FLOAT, None), info("e", T.FLOAT, None)], ["v2", "o"], {"two": np.float32(2)})  # fmt: skip
    scan = N("Scan", ["s", "x"], ["a", "y"], body=body, num_scan_inputs=1, scan_input_directions=[directions[0]],
             scan_output_directions=[directions[1]], scan_input_axes=[axes[0]], scan_output_axes=[axes[1]])  # fmt: skip
    check(
        [scan],
        [info("s", T.FLOAT, [4]), info("x", T.FLOAT, [4, 4])],
        ["a", "y"],
        [[floats(4), floats(4, 4)]] * 2,
        (),
        device,
    )


def test_codes_of_four_bits_stay_so():
    """A result of If that has INT4 codes still wraps what is cast like it."""
    four = h.make_tensor("w", T.INT4, [2], [1, -2])
    branch = lambda: h.make_graph([N("Identity", ["w"], ["p"])], "g", [], [info("p", T.INT4, [2])])
    nodes = [
        N("If", ["c"], ["a"], then_branch=branch(), else_branch=branch()),
        N("CastLike", ["x", "a"], ["b"]),
        N("Cast", ["b"], ["y"], to=T.FLOAT),
    ]
    inputs = [info("c", T.BOOL, []), info("x", T.INT32, [2])]
    g = h.make_graph(nodes, "g", inputs, [info("y", T.FLOAT, [2])], [four])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
    got = clave.Session(clave.from_onnx(m), device="cpu").run(np.array(True), np.int32([9, -3]))
    assert np.array_equal(got[0], np.float32([-7, -3]))
