"""What can be worked out at export: ops on constants alone; and casts and copies that change nothing."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Graph, Node

from clave.patterns.calls import arguments, call, is_tensor, same, val
from clave.patterns.rewrite import constant, emit, renames_output, replace
from clave.patterns.views import reads_memory
from clave.trace import op_name

SMALL = 1 << 20  # bytes: what a folded result may take where it is more than the constants that it is made of

TINY = 1 << 16  # bytes: up to it a part of a constant is a constant of its own, which kernels read without a copy

_VIEWS = ("reshape", "expand", "permute", "same")
_FILLS = {
    f"aten.{n}.default"
    for n in "full full_like new_full zeros zeros_like new_zeros ones ones_like new_ones scalar_tensor".split()
}
_STRIDED_VIEWS = ("aten.view.default", "aten._unsafe_view.default")  # reshapes for strides that allow it
_WIDER = {  # what holds every value of the key
    torch.float16: (torch.float32, torch.float64),
    torch.bfloat16: (torch.float32, torch.float64),
    torch.float32: (torch.float64,),
    torch.uint8: (torch.int16, torch.int32, torch.int64),
    torch.int8: (torch.int16, torch.int32, torch.int64),
    torch.int16: (torch.int32, torch.int64),
    torch.int32: (torch.int64,),
    torch.bool: (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float32, torch.float64),
}


def remove_copies(graph: Graph) -> int:
    """Clones, aliases and casts to the same dtype: nothing in a functional graph can tell them apart."""
    n = 0
    for node in list(graph.nodes):
        c = call(node)
        if c is None or c.kind not in ("same", "expand") or not is_tensor(c.args[0]):
            continue
        if same(val(node).shape, val(c.args[0]).shape) and not renames_output(node, c.args[0]):
            replace(node, c.args[0])
            n += 1
    return n


def fold_casts(graph: Graph) -> int:
    """x cast to what holds all its values and back."""
    n = 0
    for node in list(graph.nodes):
        outer = call(node)
        inner = call(outer.args[0]) if outer is not None and outer.kind == "cast" else None
        if inner is None or inner.kind != "cast":
            continue
        x, wide = inner.args[0], val(outer.args[0]).dtype  # type: ignore[union-attr]
        if val(x).dtype == val(node).dtype and wide in _WIDER.get(val(x).dtype, ()) and not renames_output(node, x):
            replace(node, x)
            n += 1
    return n


# ---------------------------------------------------------------- constants


class _Constants:
    """Which nodes depend on constants only, and what they are."""

    def __init__(self, program: ExportedProgram, changed: set[str]) -> None:
        self.module = program.graph_module
        self.graph = program.graph_module.graph
        self.known: dict[Node, torch.Tensor] = {}
        self.sources: dict[Node, frozenset[Node]] = {}
        placeholders = [n for n in self.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
            data = self._data(program, spec, changed)
            if data is not None:
                self._add_source(node, data.detach())
        for node in self.graph.nodes:
            if node.op == "get_attr":
                found = getattr(self.module, str(node.target), None)
                if isinstance(found, torch.Tensor):
                    self._add_source(node, found.detach())
            elif node.op == "call_function" and self._is_constant(node):
                self.sources[node] = frozenset().union(*(self.sources.get(i, ()) for i in node.all_input_nodes))

    def _add_source(self, node: Node, data: torch.Tensor) -> None:
        self.known[node] = node.meta["constant"] = data
        self.sources[node] = frozenset((node,))

    @staticmethod
    def _data(program: ExportedProgram, spec: Any, changed: set[str]) -> torch.Tensor | None:
        if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            return None
        if spec.target in changed:
            return None
        data = program.state_dict.get(spec.target)
        data = program.constants.get(spec.target) if data is None else data
        plain = isinstance(data, torch.Tensor) and data.layout == torch.strided and not data.is_quantized
        return data if plain else None

    def _is_constant(self, node: Node) -> bool:
        if node.target is operator.getitem:
            return node.args[0] in self.sources
        if not isinstance(node.target, torch._ops.OpOverload) or not _is_pure(node):
            return False
        vals = node.meta.get("val")
        for v in vals if isinstance(vals, tuple | list) else (vals,):
            if not isinstance(v, torch.Tensor) or not all(isinstance(s, int) for s in v.shape):
                return False
        if reads_memory(node):  # in an order that passes may have changed
            return False
        if op_name(node.target) in _FILLS:  # of its tensor it needs the shape only
            own = node.args if "scalar_tensor" in op_name(node.target) else node.args[1:]
            return not any(isinstance(a, Node) for a in [*own, *node.kwargs.values()])
        return all(i in self.sources for i in node.all_input_nodes)

    def value(self, node: Node) -> Any:
        """Computes it. Deep graphs are walked without recursion."""
        stack = [node]
        while stack:
            n = stack[-1]
            waiting = [] if self._is_fill(n) else [i for i in n.all_input_nodes if i not in self.known]
            if n in self.known or not waiting:
                if n not in self.known:
                    self.known[n] = self._run(n)
                stack.pop()
            else:
                stack += waiting
        return self.known[node]

    @staticmethod
    def _is_fill(node: Node) -> bool:
        return node.target is not operator.getitem and op_name(node.target) in _FILLS

    def _run(self, node: Node) -> Any:
        if self._is_fill(node):
            return _filled(node)
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self.known[n])
        with torch.no_grad():
            if op_name(node.target) in _STRIDED_VIEWS:  # in a copy that went, so the strides may be others
                return args[0].reshape(args[1])
            return node.target(*args, **kwargs)  # type: ignore[operator]


def _filled(node: Node) -> torch.Tensor:
    v = val(node)
    name = op_name(node.target)
    value = 1 if "ones" in name else 0
    if "full" in name or "scalar" in name:
        value = arguments(node)[0 if "scalar" in name else 2 if "new_full" in name else 1]
    return torch.full(tuple(v.shape), value, dtype=v.dtype)


def _is_pure(node: Node) -> bool:
    target = node.target
    random = torch.Tag.nondeterministic_seeded in target.tags  # type: ignore[union-attr]
    mutable = target._schema.is_mutable  # type: ignore[union-attr]
    return not random and not mutable and bool(target._schema.returns) and target.namespace == "aten"  # type: ignore[union-attr]


def fold_constants(program: ExportedProgram, changed: set[str]) -> int:
    """Replaces the last calls on constants alone by what they give, unless that is a large tensor made of small ones.

    Views of a constant stay views, and tensors filled with one number stay immediates.
    """
    constants = _Constants(program, changed)
    n = 0
    for node in reversed(list(constants.graph.nodes)):
        if node.op != "call_function" or node.meta.get("erased") or node not in constants.sources:
            continue
        if not node.users or all(u in constants.sources for u in node.users):
            continue
        if not _is_worth_it(node, constants):
            del constants.sources[node]  # its own operands may be
            continue
        data = constants.value(node)
        replace(node, _uniform(node, data) or constant(node.graph, node, data.clone(), str(node.name)))
        n += 1
    return n


def _n_bytes(node: Node) -> int:
    return val(node).numel() * val(node).element_size()


def _is_worth_it(node: Node, constants: _Constants) -> bool:
    if not is_tensor(node) or constants._is_fill(node) or val(node).is_complex():
        return False
    c = call(node)
    if c is not None and (c.kind in _VIEWS or (c.kind == "slice" and _n_bytes(node) > TINY)):
        return False
    given = sum(constants.known[s].numel() * constants.known[s].element_size() for s in constants.sources[node])
    return _n_bytes(node) <= max(SMALL, given)


def _uniform(node: Node, data: torch.Tensor) -> Node | None:
    """A fill, if all elements are the same."""
    if not data.numel():
        return None
    first = data.reshape(-1)[0]
    value = first.item()
    if not bool((data == first).all()):  # NaN is no number to fill with
        return None
    if isinstance(value, float) and bool((data.signbit() != first.signbit()).any()):
        return None
    return emit(node, torch.ops.aten.full.default, list(data.shape), value, dtype=data.dtype)
