"""Random graphs with an open batch size against onnxruntime. A failure prints the smallest part that still fails."""

import numpy as np
import pytest

import clave

pytest.importorskip("onnxruntime", reason="no onnxruntime is installed")
import onnx
from _peer import F32, T, h, node, peer, wrong

SEEDS, SIZES = 150, (3, 5)
SHAPES = [(4, 6), (6, 5, 4), (4, 6, 6), (2, 4, 6, 6), (4, 8)]  # after the batch


def weights(r, *shape):
    return r.standard_normal(shape).astype(F32)


def axis(r, x):
    """An axis that is not the batch, from the front or from the end."""
    a = int(r.integers(1, x.ndim))
    return a - x.ndim * int(r.integers(0, 2))


def like(r, pool, x, dtype=F32):
    return str(r.choice([n for n, a in pool.items() if a.dtype == dtype and a.shape == x.shape]))


def pair(r, pool, x):
    """A value of the pool or a constant that broadcasts with x."""
    if r.integers(0, 2):
        return like(r, pool, x)
    return weights(r, *(d if r.integers(0, 2) else 1 for d in x.shape[1:])) + F32(0.1)


def spread(r, low, high, n):
    return [int(i) for i in r.integers(low, high, n)]


def sizes(*values):
    return np.array(values, np.int64)


def window(r, x):
    """Windows that fit: of others, onnxruntime computes one more than the standard says."""
    n = x.ndim - 2
    kernel = [min(k, d) for k, d in zip(spread(r, 1, 4, n), x.shape[2:], strict=True)]
    return {"kernel_shape": kernel, "strides": spread(r, 1, 3, n), "pads": spread(r, 0, 2, 2 * n)}


def shuffled(r, x):
    """The sizes after the batch in another order of factors."""
    n = int(np.prod(x.shape[1:]))
    first = int(r.choice([d for d in range(1, n + 1) if n % d == 0]))
    return [0, first, -1] if r.integers(0, 2) else [0, -1]


def conv(r, x, groups=1):
    kernel = spread(r, 1, 4, x.ndim - 2)
    more = {"pads": spread(r, 0, 2, 2 * len(kernel)), "strides": spread(r, 1, 3, len(kernel)), "group": groups}
    return ["x", weights(r, 4 * groups, x.shape[1] // groups, *kernel), weights(r, 4 * groups)], more


def norm(r, x):
    return [np.abs(weights(r, x.shape[1])) + F32(0.5) for _ in range(4)]


def gather(r, x):
    a = axis(r, x)
    return ["x", r.integers(-x.shape[a], x.shape[a], spread(r, 1, 4, 1))], {"axis": a}


def cut(r, x):
    return ["x", sizes(r.integers(-4, 2)), sizes(99), sizes(axis(r, x)), sizes(r.integers(1, 3))], {}


# For a generator r, the values p by name and the chosen value x: the inputs ("x", names of values, or constants), the
# attributes and the number of outputs (1). Rules that do not apply raise, or make nodes that onnxruntime rejects.
PLAIN = [
    "Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Softplus", "Elu", "HardSwish", "Gelu", "Sin", "Exp", "Sqrt",
    "LeakyRelu", "Softsign", "Identity", "GlobalAveragePool", "Flatten", "Atan",
]  # fmt: skip
FLOATS = {
    **{op: lambda r, p, x: (["x"], {}) for op in PLAIN},
    **{op: lambda r, p, x: (["x", pair(r, p, x)], {}) for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Greater")},
    "PRelu": lambda r, p, x: (["x", weights(r, x.shape[1], *(1,) * (x.ndim - 2))], {}),
    "Clip": lambda r, p, x: (["x", r.choice(["", F32(-0.5)]) and F32(-0.5), F32(1)], {}),
    **{op: lambda r, p, x: (["x"], {"axis": axis(r, x)}) for op in ("Softmax", "LogSoftmax", "ArgMax")},
    "LayerNormalization": lambda r, p, x: (["x", weights(r, x.shape[-1]), weights(r, x.shape[-1])], {}),
    "CumSum": lambda r, p, x: (["x", np.int64(axis(r, x))], {"exclusive": int(r.integers(0, 2)), "reverse": 1}),
    "Transpose": lambda r, p, x: (["x"], {"perm": [0, *(int(i) + 1 for i in r.permutation(x.ndim - 1))]}),
    "Reshape": lambda r, p, x: (["x", sizes(*shuffled(r, x))], {}),
    "Unsqueeze": lambda r, p, x: (["x", sizes(r.integers(1, x.ndim + 1))], {}),
    "Squeeze": lambda r, p, x: (["x", sizes(1 + x.shape[1:].index(1))], {}),
    "Concat": lambda r, p, x: (["x", like(r, p, x), "x"], {"axis": axis(r, x)}),
    "Split": lambda r, p, x: (["x"], {"axis": axis(r, x), "num_outputs": 2}, 2),
    "Slice": lambda r, p, x: cut(r, x),
    "Pad": lambda r, p, x: (["x", sizes(*spread(r, -1, 3, 2)), F32(0.5), sizes(axis(r, x))], {}),
    "Tile": lambda r, p, x: (["x", sizes(1, *r.integers(1, 3, x.ndim - 1))], {}),
    "Expand": lambda r, p, x: (["x", sizes(1, *(d if d > 1 else 3 for d in x.shape[1:]))], {}),
    "Gather": lambda r, p, x: gather(r, x),
    "Trilu": lambda r, p, x: (["x", np.int64(r.integers(-2, 3))], {"upper": int(r.integers(0, 2))}),
    **{op: lambda r, p, x: (["x", sizes(axis(r, x))], {"keepdims": int(r.integers(0, 2))})
       for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "ReduceLogSumExp")},
    "MatMul": lambda r, p, x: (["x", weights(r, x.shape[-1], 5)], {}),
    "Gemm": lambda r, p, x: (["x", weights(r, 4, x.shape[1]), weights(r, 4)], {"transB": 1, "alpha": 0.5}),
    "Einsum": lambda r, p, x: (["x", weights(r, x.shape[-1], 3)], {"equation": "...i,ij->...j"}),
    "Conv": lambda r, p, x: conv(r, x, int(r.choice([1, 2]))),
    "ConvTranspose": lambda r, p, x: (["x", weights(r, x.shape[1], 3, *spread(r, 1, 4, x.ndim - 2))], {}),
    "MaxPool": lambda r, p, x: (["x"], window(r, x)),
    "AveragePool": lambda r, p, x: (["x"], {**window(r, x), "count_include_pad": int(r.integers(0, 2))}),
    "BatchNormalization": lambda r, p, x: (["x", *norm(r, x)], {}),
    "InstanceNormalization": lambda r, p, x: (["x", *norm(r, x)[:2]], {}),
    "Resize": lambda r, p, x: (["x", "", np.array([1, 1, *r.choice([0.5, 1.5, 2], 2)], F32)],
                               {"mode": str(r.choice(["nearest", "linear"]))}),
    "DepthToSpace": lambda r, p, x: (["x"], {"blocksize": 2}),
    "SpaceToDepth": lambda r, p, x: (["x"], {"blocksize": 2}),
    "TopK": lambda r, p, x: (["x", sizes(2)], {"axis": axis(r, x)}, 2),
    "Reshape by size": lambda r, p, x: (["x"], {}),
    "QuantizeLinear": lambda r, p, x: (["x", F32(0.05), np.uint8(128)], {}),
}  # fmt: skip
RULES = {
    "float32": FLOATS,
    "bool": {
        "Not": lambda r, p, x: (["x"], {}),
        "Where": lambda r, p, x: (["x", like(r, p, x), F32(0.25)], {}),
        "Cast": lambda r, p, x: (["x"], {"to": T.FLOAT}),
    },
    "uint8": {"DequantizeLinear": lambda r, p, x: (["x", F32(0.05), np.uint8(128)], {})},
    "int64": {
        "Cast": lambda r, p, x: (["x"], {"to": T.FLOAT}),
        "Add": lambda r, p, x: (["x", sizes(2)], {}),
    },
}


def model(nodes, constants, given, all_values=False):
    """Returns a model of the nodes. Its inputs are what they read of `given`; its outputs are what no node reads."""
    read = {n for node in nodes for n in node.input if n}
    kind = h.np_dtype_to_tensor_dtype
    inputs = [h.make_tensor_value_info(n, kind(a.dtype), ["n", *a.shape[1:]]) for n, a in given.items() if n in read]
    made = [n for node in nodes for n in node.output]
    inputs = [i for i in inputs if i.name not in made]
    outputs = [onnx.ValueInfoProto(name=n) for n in made if all_values or n not in read]
    named = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items() if n in read]
    graph = h.make_graph(nodes, "random", inputs, outputs, named)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)


def evaluated(nodes, constants, given):
    """Returns what onnxruntime computes for all values of the nodes, by name, and the inputs."""
    made = model(nodes, constants, given, True)
    found = peer(made, {i.name: given[i.name] for i in made.graph.input})
    return given | {o.name: a for o, a in zip(made.graph.output, found, strict=True)}


def step(r, pool, constants, number):
    """Returns the nodes of a random op on values of the pool, and their values; None if the op does not apply."""
    source = str(r.choice(list(pool)))
    rules = RULES[pool[source].dtype.name]
    op = str(r.choice(list(rules)))
    try:
        inputs, attributes, n_outputs = (*rules[op](r, pool, pool[source]), 1)[:3]
        outputs = [f"v{number}_{i}" for i in range(n_outputs)]
        fixed = {f"c{number}_{i}": a for i, a in enumerate(inputs) if not isinstance(a, str)}
        names = [f"c{number}_{i}" if f"c{number}_{i}" in fixed else a for i, a in enumerate(inputs)]
        nodes = [h.make_node(op, [source if n == "x" else n for n in names], outputs, **attributes)]
        if op == "Reshape by size":
            n, shape, fixed = f"n{number}", f"s{number}", {f"c{number}": sizes(-1)}
            nodes = [node("Shape", source, n, end=1), node("Concat", f"{n} c{number}", shape, axis=0),
                     node("Reshape", f"{source} {shape}", outputs[0])]  # fmt: skip
        found = evaluated(nodes, fixed, pool)
    except Exception:  # the rule, onnx or onnxruntime refuses it: the op does not take such values
        return None
    values = [found[o] for o in outputs]
    if any(
        not 2 <= a.ndim <= 5 or a.shape[0] != SIZES[0] or not 0 < a.size < 3000 or not np.isfinite(a).all()
        for a in values
    ):
        return None
    if any(np.abs(a).max() > 1e3 for a in values if a.dtype == F32):
        return None
    constants |= fixed
    pool |= dict(zip(outputs, values, strict=True))
    return nodes


def generated(seed):
    """Returns the nodes, constants and shape of the input of a random graph."""
    r = np.random.default_rng(seed)
    shape = SHAPES[r.integers(len(SHAPES))]
    pool, constants, nodes = {"input": weights(r, SIZES[0], *shape)}, {}, []
    for number in range(int(r.integers(8, 40))):
        nodes += step(r, pool, constants, number) or ()
        if len(nodes) > 14:
            break
    return nodes, constants, shape


def failure(nodes, constants, runs):
    """Returns how clave differs from onnxruntime on the values of some runs, or None."""
    made = model(nodes, constants, runs[0])
    try:
        session = clave.Session(clave.from_onnx(made), device="cpu")
        for values in runs:
            got = session.run(*[values[i.name] for i in made.graph.input])
            for output, g in zip(made.graph.output, got, strict=True):
                found = wrong(values[output.name], np.asarray(g), 1e-4, 0.01)
                if found:
                    return f"{output.name}: {found}"
    except clave.Error as e:
        return str(e)
    return None


def shrunk(nodes, constants, runs):
    """Drops nodes while the rest still fails. What the dropped nodes computed becomes an input."""
    for dropped in reversed(nodes):
        fewer = [n for n in nodes if n is not dropped]
        if fewer and failure(fewer, constants, runs):
            nodes = fewer
    return nodes


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random(seed):
    nodes, constants, shape = generated(seed)
    r = np.random.default_rng(seed)
    runs = [evaluated(nodes, constants, {"input": weights(r, n, *shape)}) for n in SIZES]
    if failure(nodes, constants, runs):
        nodes = shrunk(nodes, constants, runs)
        text = onnx.printer.to_text(model(nodes, constants, runs[0]))
        pytest.fail(f"{failure(nodes, constants, runs)}\n{text}", pytrace=False)
