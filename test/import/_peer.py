"""Small ONNX models in a few words, and their comparison with onnxruntime."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnxruntime
from _onnx import difference

import clave

h, T = onnx.helper, onnx.TensorProto
F16, F32 = np.float16, np.float32
onnxruntime.set_default_logger_severity(4)


def node(op, inputs="x", outputs="y", domain="", **attributes):
    """inputs, outputs: names between spaces, "-" for an absent one."""
    names = [["" if n == "-" else n for n in text.split()] for text in (inputs, outputs)]
    return h.make_node(op, *names, domain=domain, **attributes)


@dataclass
class Case:
    """A model and its inputs. The outputs are those of the last node.

    given: arrays by the names of inputs. constants: arrays or TensorProtos by the names of initializers. want: what the
    model computes, if onnxruntime is not the judge. tolerance: of the largest magnitude. codes: the share of integers
    that may be off by one. open_sizes: names of inputs whose sizes are all open. defined: returns, of the outputs, the
    parts that are defined.
    """

    nodes: list
    given: dict
    constants: dict = field(default_factory=dict)
    opset: int = 21
    ir_version: int = 10
    want: list | None = None
    tolerance: float = 1e-5
    codes: float = 0.0
    open_sizes: tuple = ()
    defined: Callable = list

    def model(self):
        sizes = lambda n, x: [f"{n}_{i}" for i in range(x.ndim)] if n in self.open_sizes else x.shape
        kind = lambda x: h.np_dtype_to_tensor_dtype(x.dtype)
        inputs = [h.make_tensor_value_info(n, kind(x), sizes(n, x)) for n, x in self.given.items()]
        outputs = [onnx.ValueInfoProto(name=n) for n in self.nodes[-1].output if n]
        graph = h.make_graph(self.nodes, "g", inputs, outputs)
        for name, x in self.constants.items():
            graph.initializer.append(x if isinstance(x, T) else onnx.numpy_helper.from_array(np.asarray(x)))
            graph.initializer[-1].name = name
        imports = [h.make_opsetid("", self.opset), h.make_opsetid("com.microsoft", 1)]
        return h.make_model(graph, opset_imports=imports, ir_version=self.ir_version)


def peer(model, given):
    """Returns what onnxruntime computes, without its rewrites."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, given)


def wrong(want, got, tolerance=1e-5, codes=0.0):
    """Returns how a result differs from the expected one, or None. See Case."""
    if codes and want.dtype.kind in "iu" and (want.dtype, want.shape) == (got.dtype, got.shape):
        off = np.abs(want.astype(np.int64) - got.astype(np.int64))
        if off.max(initial=0) <= 1 and (off > 0).mean() <= codes:
            return None
    largest = np.abs(want[np.isfinite(want)]).max(initial=1e-3) if want.dtype.kind == "f" else 0
    return difference(want, got, tolerance, tolerance * float(largest))


def compare(case, device="cpu", model=None):
    """Runs a case twice in one session, and asserts that the results are the expected ones. Returns the program."""
    model = model or case.model()
    want = case.defined(case.want or peer(model, case.given))
    program = clave.from_onnx(model)
    session = clave.Session(program, device=device)
    for _ in range(2):
        got = session.run(*[case.given[i.name] for i in program.methods["forward"].inputs])
        got = case.defined([np.asarray(g) for g in got])
        for i, (w, g) in enumerate(zip(want, got, strict=True)):
            found = wrong(np.asarray(w), g, case.tolerance, case.codes)
            assert found is None, f"output {i}: {found}"
    return program
