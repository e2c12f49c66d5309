"""Evaluates calls that depend on constants alone.

torch computes such a call during lowering if clave has no op for it, or if packed.py needs its value to recognise a
quantised weight. Other calls are lowered, and the library's passes compute them if that makes the program smaller.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from clave.private import OpOverload, is_fake, schema_of
from clave.shared import States, data_of

_CONSTANT = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


class Evaluator:
    """Computes the tensors of a graph that are the same in every run."""

    def __init__(self, program: ExportedProgram, states: States) -> None:
        self._known: dict[Node, bool] = {}
        self._values: dict[Node, Any] = {}
        self._names: dict[Node, str] = {}  # names of the graph's constant inputs
        graph = program.graph_module.graph
        placeholders = [n for n in graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
            data = data_of(program, str(spec.target)) if spec.kind in _CONSTANT else None
            self._known[node] = data is not None and not is_fake(data) and data not in states
            if self._known[node]:
                self._values[node] = data.detach()
                self._names[node] = str(spec.target)

    def value(self, node: Node) -> Any:
        """Returns the result of a call, or None if it is not known at export."""
        return self._compute(node) if self.is_known(node) else None

    def sources(self, node: Node) -> tuple[dict[str, torch.Tensor], list[float]]:
        """Returns the constants on which a known call depends, by name, and the float arguments of the calls that lead
        from them to it."""
        tensors: dict[str, torch.Tensor] = {}
        numbers: list[float] = []
        stack, seen = [node], {node}
        while stack:
            n = stack.pop()
            if not n.all_input_nodes and n.op in ("placeholder", "get_attr"):
                tensors[self._names.get(n, str(n.target))] = self._compute(n)
            numbers += [x for x in (*n.args, *n.kwargs.values()) if isinstance(x, float)]
            stack += [i for i in n.all_input_nodes if i not in seen]
            seen.update(n.all_input_nodes)
        return tensors, numbers

    def forget(self) -> None:
        """Frees the computed results."""
        self._values = {n: v for n, v in self._values.items() if n in self._names}

    def is_known(self, node: Node) -> bool:
        """True if the node's result is known at export. Walks without recursion, because graphs may be deep."""
        stack = [node]
        while stack:
            n = stack[-1]
            waiting = [i for i in n.all_input_nodes if i not in self._known] if _is_pure(n) else []
            if n in self._known or not waiting:
                if n not in self._known:
                    self._known[n] = _is_pure(n) and all(self._known[i] for i in n.all_input_nodes)
                stack.pop()
            stack += waiting
        return self._known[node]

    def _compute(self, node: Node) -> Any:
        stack = [node]
        while stack:
            n = stack[-1]
            waiting = [i for i in n.all_input_nodes if i not in self._values]
            if n in self._values or not waiting:
                if n not in self._values:
                    self._values[n] = self._run(n)
                stack.pop()
            stack += waiting
        return self._values[node]

    def _run(self, n: Node) -> Any:
        if n.op == "get_attr":
            return getattr(n.graph.owning_module, str(n.target)).detach()
        args, kwargs = torch.fx.node.map_arg((n.args, n.kwargs), lambda i: self._values[i])
        with torch.no_grad():
            return n.target(*args, **kwargs)  # type: ignore[operator]


def _is_pure(n: Node) -> bool:
    """True if the node's results depend on its operands alone and have fixed shapes."""
    vals = n.meta.get("val")
    for v in vals if isinstance(vals, tuple | list) else (vals,):
        if not isinstance(v, torch.Tensor) or not all(isinstance(s, int) for s in v.shape):
            return False
    if n.op == "get_attr" or n.target is operator.getitem:
        return True
    if n.op != "call_function" or not isinstance(n.target, OpOverload):
        return False
    drawn = torch.Tag.nondeterministic_seeded in n.target.tags
    return not drawn and not schema_of(n.target).is_mutable and n.target.namespace == "aten"
