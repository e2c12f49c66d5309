"""Finds the nodes of a graph that clave can run, by the exporter's own lowering, without reading weights."""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from clave import trace
from clave.builder import ProgramBuilder, Slot
from clave.dtypes import torch_name
from clave.errors import Error, Unsupported
from clave.executorch.edge import Graph
from clave.exporter import Method
from clave.lowering.registry import Complex, dtype_of
from clave.places import Missing
from clave.private import HigherOrderOperator
from clave.program import Program
from clave.shared import Shared, data_of, is_state_update


def refused(graph: Graph) -> dict[Node, str]:
    """Returns the nodes that clave cannot run, each with the reason."""
    trace.erase_dead(graph.graph_module.graph)
    trial = _Trial(ProgramBuilder(), graph)
    trial.attempt()
    return trial.refused


def why_not(graph: Graph) -> str | None:
    """Returns why the graph as a whole cannot be a clave program, or None if it can."""
    trace.erase_dead(graph.graph_module.graph)
    builder = ProgramBuilder()
    trial = _Trial(builder, graph)
    try:
        trial.lower()
        if trial.refused:
            return next(iter(trial.refused.values()))
        Program(builder.finish(), _memory(builder))
    except (Error, Unsupported) as e:
        return str(e)
    return None


def _memory(builder: ProgramBuilder) -> list[torch.Tensor]:
    """Returns placeholders of the constants, whose data the verifier does not read. All of them share one memory."""
    shapes = [(getattr(torch, torch_name(s.dtype)), tuple(map(int, s.shape))) for s, _ in builder.constants]
    size = max((math.prod(shape) * dtype.itemsize for dtype, shape in shapes), default=0)
    memory = torch.zeros(size, dtype=torch.uint8)
    return [memory[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape) for dtype, shape in shapes]


class _Changed:
    """The tensors that a graph changes, compared by identity because they may have no data."""

    def __init__(self, graph: Graph) -> None:
        names = (str(o.target) for o in graph.graph_signature.output_specs if is_state_update(o))
        self._kept = [data_of(graph, name) for name in names]

    def __contains__(self, data: torch.Tensor) -> bool:
        return any(data is t for t in self._kept)


class _Weightless(Shared):
    """Constants and state of one graph, whose weights are not read. Equal constants are not merged."""

    def __init__(self, builder: ProgramBuilder, graph: Graph) -> None:
        super().__init__(builder, _Changed(graph))  # type: ignore[arg-type]

    def _state(self, name: str, data: torch.Tensor) -> Slot:
        if name not in self._state_slots:
            self._state_slots[name] = Slot(dtype_of(data.dtype), tuple(data.shape), "state", name)
            self.builder.state.append((self._state_slots[name], None))
        return self._state_slots[name]

    def constant(self, data: torch.Tensor, name: str) -> Slot | Complex:
        dtype, shape = dtype_of(data.dtype.to_real() if data.is_complex() else data.dtype), tuple(data.shape)
        slot = Slot(dtype, (*shape, 2) if data.is_complex() else shape, "constant", name)
        self.builder.constants.append((slot, None))
        return Complex(slot) if data.is_complex() else slot


class _Trial(Method):
    """Lowers all nodes of a graph that it can, and records the reason for each node that it cannot."""

    def __init__(self, builder: ProgramBuilder, graph: Graph) -> None:
        super().__init__(builder.add_method("forward"), graph, _Weightless(builder, graph), {}, Missing())  # type: ignore[arg-type]
        self.refused: dict[Node, str] = {}

    def attempt(self) -> None:
        """Tries to lower each node, independent of the others."""
        placeholders = [n for n in self.program.graph_module.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, self.program.graph_signature.input_specs, strict=True):
            try:
                self._bind_input(node, spec, [])
            except (Error, Unsupported) as e:
                self.values[node] = self._stand_in(node.meta.get("val"))
                self.refused.update(dict.fromkeys(node.users, str(e)))
        self._equate_sizes()
        self._run(self.program.graph_module)

    def _pack(self, node: Node) -> bool:
        return False  # a quantised weight is treated as its decoded values here

    def _call(self, node: Node) -> None:
        if isinstance(node.target, HigherOrderOperator):
            return self._refuse(node, "", "control flow is left to ExecuTorch")
        try:
            super()._call(node)
        except (Error, Unsupported) as e:
            self._refuse(node, "", str(e))

    def _refuse(self, node: Node, name: str, reason: str) -> None:
        val = node.meta.get("val")
        known = self.evaluator.is_known(node)
        if not known:
            self.refused[node] = reason or "clave has no such op"
        many = [self._known(v, node.name) if known else self._stand_in(v) for v in (val if _is_many(val) else (val,))]
        self.values[node] = many if _is_many(val) else many[0]

    def _known(self, value: torch.Tensor, name: str) -> Slot | Complex:
        """Returns a constant for a value that torch will compute from constants."""
        return self.shared.constant(value, name)


def _is_many(val: object) -> bool:
    return isinstance(val, tuple | list)
