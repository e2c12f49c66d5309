"""Shared parts of the ExecuTorch backend's tests: a model is lowered, loaded and compared with itself."""

import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from torch.utils import _pytree

from clave._decode import decode
from clave.executorch import ClavePartitioner, last_error, register

register()
_kept = {}


def lower(module, args=(), dynamic_shapes=None, **settings):
    """Returns (the lowered program, the partitioner); module may also be a dict of ExportedPrograms."""
    program = module
    if isinstance(module, torch.nn.Module):
        program = torch.export.export(module.eval(), args, dynamic_shapes=dynamic_shapes)
    partitioner = ClavePartitioner(**settings)
    return to_edge_transform_and_lower(program, partitioner=[partitioner]), partitioner


def delegates(edge, method="forward"):
    """Returns the delegates of a method, and the names of the ops that ExecuTorch's kernels run."""
    graph_module = edge.exported_program(method).graph_module
    calls = [n for n in graph_module.graph.nodes if n.op == "call_function"]
    parts = [getattr(graph_module, n.args[0].target) for n in calls if "call_delegate" in str(n.target)]
    own = [n.target.__name__ for n in calls if "getitem" not in str(n.target) and "call_delegate" not in str(n.target)]
    return parts, own


def program_in(part):
    """Returns (key, the program of a delegate's method as the schema's dataclasses, its bytes)."""
    head, key, _method, end = part.processed_bytes.decode().split("\n")
    assert (head, end) == ("clave 1", "")
    store = part.named_data_store_output
    data = bytes(store.buffers[store.pte_data[key].buffer_index])
    return key, decode(data), data


def ops_in(part):
    return [type(i.op).__name__ for c in program_in(part)[1].chains for i in c.instructions]


def load_program(edge, **more):
    """Loads the program. Its bytes are kept, because ExecuTorch does not own them, and are made only once."""
    if id(edge) not in _kept:
        _kept[id(edge)] = (edge, edge.to_executorch().buffer)
    return Runtime.get().load_program(_kept[id(edge)][1], **more)


def load(edge, method="forward"):
    return load_program(edge).load_method(method)


def flat(results):
    return [t for t in _pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]


def assert_same(found, expected, tolerance=1e-5):
    found, expected = flat(found), flat(expected)
    assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in expected]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)


def check(module, *calls, parts=1, own=(), dynamic_shapes=None, tolerance=1e-5, **settings):
    """Checks that every call returns the module's results, in this many parts, with these ops left to ExecuTorch."""
    import copy

    edge, partitioner = lower(copy.deepcopy(module), calls[0], dynamic_shapes, **settings)
    found, left = delegates(edge)
    assert (len(found), sorted(left)) == (parts, sorted(own)), partitioner.refused
    method = load(edge)
    with torch.no_grad():
        for call in calls:
            assert_same(method.execute(call), module(*call), tolerance)
    return found


def error_of(call):
    """Returns the backend's error for a call that fails."""
    try:
        call()
    except RuntimeError:
        return last_error()
    raise AssertionError("it did not fail")
