"""Compares imported ONNX models with what they should compute."""

import warnings

import numpy as np

import clave

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import onnx
    from onnx import numpy_helper

# numpy's types of less than a byte; clave has bytes
_STORED = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}


def node_cases():
    """Returns the node tests of the onnx package, by name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c.name: c for c in collect_testcases("")}


def array(x):
    """Returns a tensor of a test case as an array, or None for a sequence or an optional."""
    if isinstance(x, onnx.TensorProto):
        x = numpy_helper.to_array(x)
    if x is None or isinstance(x, list | tuple | dict | onnx.SequenceProto):
        return None
    x = np.asarray(x)
    return x.astype(_STORED[str(x.dtype)]) if str(x.dtype) in _STORED else x


def difference(want, got, rtol, atol):
    """Returns how an array differs from the expected one, or None. Integers are equal."""
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{got.dtype} {got.shape}, expected {want.dtype} {want.shape}"
    if want.dtype.kind in "biu":
        return None if np.array_equal(want, got) else f"{got.ravel()[:5]}, expected {want.ravel()[:5]}"
    wide, found = want.astype(np.float64), got.astype(np.float64)
    if want.dtype.itemsize <= 2:  # one rounding of the type, which numpy may do elsewhere
        rtol, atol = max(rtol, 2**-7), max(atol, 2**-9)
    if np.allclose(found, wide, rtol, max(atol, 1e-6), equal_nan=True):
        return None
    return f"{found.ravel()[:5]}, expected {wide.ravel()[:5]}"


def with_constants(model, given):
    """Returns the model with integer inputs of at most 64 elements as constants, and the inputs that are left. The
    first input is left."""
    fixed, left = onnx.ModelProto(), dict(given)
    fixed.CopyFrom(model)
    for name, x in list(given.items())[1:]:
        index = [i.name for i in fixed.graph.input].index(name)
        kind = fixed.graph.input[index].type.tensor_type.elem_type
        if x.dtype.kind in "iu" and x.size <= 64 and onnx.helper.tensor_dtype_to_np_dtype(kind) == x.dtype:
            fixed.graph.initializer.append(numpy_helper.from_array(left.pop(name), name))
            del fixed.graph.input[index]
    return fixed, left


def run(model, given, device="cpu"):
    """Runs a model on arrays by name. Returns its outputs, in order."""
    program = clave.from_onnx(model)
    session = clave.Session(program, device=device)
    return [np.asarray(o) for o in session.run(*[given[i.name] for i in program.methods["forward"].inputs])]


# ops whose numbers depend on the generator
RANDOM = (
    "Bernoulli",
    "Dropout",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
)


def is_random(case):
    ops = {n.op_type for n in case.model.graph.node}
    return bool(ops & set(RANDOM)) or any(op in case.name for op in ("bernoulli", "training_dropout"))


def check_case(case, device="cpu", constants=False):
    """Runs a node test. Raises clave.UnsupportedOp if it is refused, and AssertionError for a wrong result."""
    for inputs, outputs in case.data_sets:
        names = [i.name for i in case.model.graph.input]
        arrays = [array(x) for x in inputs]
        model, given = case.model, dict(zip(names, arrays, strict=False))
        if constants and all(x is not None for x in arrays):
            model, given = with_constants(model, given)
        got = run(model, given, device)
        for want, found in zip(map(array, outputs), got, strict=False):
            if is_random(case):
                want, found = want * 0, found * 0
            wrong = difference(want, found, case.rtol, case.atol)
            assert wrong is None, f"{case.name}: {wrong}"


def read_refused(path):
    """Returns {name of a case: reason} from a table of refused cases."""
    rows = [line.split("\t") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(rows)
