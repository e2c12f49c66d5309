"""TFLite models of several subgraphs, and with tensors that are stored in other ways. Functions return their bytes."""

import _tflite
import numpy as np
from _tflite import Model, schema

F32, I32 = np.float32, np.int32
rng = np.random.default_rng(4)


def w(*shape):
    return rng.uniform(-0.5, 0.5, shape).astype(F32)


def branches(shape=()):
    """One branch computes; the other returns an input, and a constant. shape: of the condition."""
    model = Model()
    main, then, other = model.main, model.graph("then"), model.graph("else")
    inputs = main.input(bool, shape), main.input(F32, (2, 3))
    main.output(*main.op("IF", inputs, [F32, F32], then_subgraph_index=1, else_subgraph_index=2))
    x = then.input(F32, (2, 3))
    then.output(*then.op("ADD", [x, then.constant(w(3))]), *then.op("NEG", [x]))
    other.output(other.input(F32, (2, 3)), other.constant(w(2, 3)))
    return model.bytes()


def add_count(graph, i, x):
    return graph.op("ADD", [x, *graph.op("CAST", [i])])


def convolve(graph, i, x):
    return graph.op("CONV_2D", [x, graph.constant(w(2, 3, 3, 2)), graph.constant(w(2))], stride_h=1, stride_w=1)


def collect(graph, i, x, rows):
    """Stores x in rows. The sum is computed before the place is read, and not used after that."""
    (total,) = graph.op("ADD", [x, graph.constant(F32([1]))])
    place = graph.op("RESHAPE", [i, graph.constant(I32([1]))], [I32])
    return [total, *graph.op("DYNAMIC_UPDATE_SLICE", [rows, x, *place])]


def loop(body=add_count, shapes=((1, 4, 4, 2),)):
    """Replaces the values of these shapes by body(graph, i, *values) while i < n. Returns i and the values."""
    model = Model()
    main, condition, step = model.main, model.graph("condition"), model.graph("body")
    carried = ((I32, ()), (I32, ()), *((F32, s) for s in shapes))
    inputs = [main.constant(I32(0)), *(main.input(*c) for c in carried[1:])]
    more = {"cond_subgraph_index": 1, "body_subgraph_index": 2}
    i, _, *values = main.op("WHILE", inputs, [c[0] for c in carried], **more)
    main.output(i, *values)
    condition.output(*condition.op("LESS", [condition.input(*c) for c in carried][:2], [bool]))
    i, n, *values = (step.input(*c) for c in carried)
    step.output(*step.op("ADD", [i, step.constant(I32(1))], [I32]), n, *body(step, i, *values))
    return model.bytes()


def variable(assigned="sum"):
    """CALL_ONCE initialises the variable. It is read before and after an assignment."""
    model = Model()
    main, first = model.main, model.graph("first")
    x = main.input(F32, (2,))
    main.op("CALL_ONCE", [], [], init_subgraph_index=1)
    handles = [
        g.op("VAR_HANDLE", [], [g.tensor(kind=_tflite.RESOURCE)], container="", shared_name="v")[0]
        for g in (main, first)
    ]
    read = lambda: main.op("READ_VARIABLE", [handles[0]], [main.tensor(F32, (2,))])[0]
    (total,) = main.op("ADD", [read(), x])
    main.op("ASSIGN_VARIABLE", [handles[0], {"sum": total, "input": x, "constant": main.constant(w(2))}[assigned]], [])
    main.output(total, read())
    first.op("ASSIGN_VARIABLE", [handles[1], first.constant(F32([10, 20]))], [])
    return model.bytes()


def signatures():
    model = Model()
    for i, (key, op) in enumerate((("encode", "ADD"), ("decode", "MUL"))):
        graph = model.graph(key) if i else model.main
        x = graph.input(F32, (2, 3))
        graph.output(*graph.op(op, [x, graph.constant(F32([3, 4, 5]))]))
        model.signature(key, i, {f"{key}_in": x}, {f"{key}_out": graph.table.outputs[0]})
    return model.bytes()


def _sparse_rows(elements):
    """Returns the sparsity of a matrix in compressed rows."""
    rows, columns = np.nonzero(elements)
    segments, indices, dense, sparse = (
        getattr(schema, n)() for n in ("Int32VectorT",) * 2 + ("DimensionMetadataT",) * 2
    )
    segments.values, indices.values = [0, *np.cumsum(np.bincount(rows, minlength=len(elements)))], list(columns)
    dense.denseSize, sparse.format = len(elements), schema.DimensionType.SPARSE_CSR
    sparse.arraySegmentsType = sparse.arrayIndicesType = schema.SparseIndexVector.Int32Vector
    sparse.arraySegments, sparse.arrayIndices = segments, indices
    out = schema.SparsityParametersT()
    out.traversalOrder, out.dimMetadata = [0, 1], [dense, sparse]
    return out


def stored(how):
    """A product by a weight of half floats, in compressed rows, or after the FlatBuffer."""
    model, elements = Model(), w(3, 4) * F32([[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
    graph, raw = model.main, elements.tobytes()
    x = graph.input(F32, (2, 4))
    if how == "half floats":
        weight = graph.op("DEQUANTIZE", [graph.constant(elements.astype(np.float16))])
    elif how == "sparse":
        weight = graph.tensor(F32, (3, 4), elements[elements != 0], sparsity=_sparse_rows(elements))
        weight = graph.op("DENSIFY", [weight], [graph.tensor(F32, (3, 4))])
    else:
        weight = [graph.tensor(F32, (3, 4))]
        model.table.buffers[-1].offset, model.table.buffers[-1].size = 1024, len(raw)
    graph.output(*graph.op("FULLY_CONNECTED", [x, *weight, -1]))
    return model.bytes().ljust(1024, b"\0") + raw if how == "outside" else model.bytes()


def spectrum(size, lengths, part):
    graph = (model := Model()).main
    inputs = [graph.input(F32, (2, *size)), graph.constant(I32(lengths))]
    graph.output(*graph.op(part, graph.op("RFFT2D", inputs, [graph.tensor(kind=_tflite.COMPLEX64)])))
    return model.bytes()


def custom(op, options, n_results, given, constants=()):
    """options: bytes; given: arrays of the inputs' shapes."""
    graph = (model := Model()).main
    inputs = [*(graph.input(F32, a.shape) for a in given), *map(graph.constant, constants)]
    graph.output(*graph.op("CUSTOM", inputs, [F32] * n_results, custom=op, custom_options=list(options)))
    return model.bytes()
