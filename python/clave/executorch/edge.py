"""Converts graphs in ExecuTorch's edge dialect to torch ops, which clave.exporter lowers."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from executorch.exir.backend.backend_api import _create_partitions_in_graph_module, _maybe_duplicate_constant_nodes
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, PartitionResult
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.program._fake_program import get_fake_program
from torch.export import ExportedProgram

from clave.private import OpOverload, ValueRanges, of_edge_op, schema_of

_ORDERED = {  # ops that choose the order of dimensions in memory, which programs do not have
    "dim_order_ops::_to_dim_order_copy": torch.ops.aten._to_copy.default,
    "dim_order_ops::_clone_dim_order": torch.ops.aten.clone.default,
    "dim_order_ops::_empty_dim_order": torch.ops.aten.empty.memory_format,
}


@dataclass(frozen=True)
class Graph:
    """The parts of an ExportedProgram that clave.exporter reads. torch's verifier does not check it."""

    graph_module: torch.fx.GraphModule
    graph_signature: Any
    state_dict: dict[str, torch.Tensor]
    constants: dict[str, Any]
    range_constraints: dict[Any, Any]
    module_call_graph: list[Any]

    @property
    def call_spec(self) -> Any:
        """The structures of arguments and results: in_spec, out_spec."""
        return self.module_call_graph[0].signature


def in_torch(program: ExportedProgram) -> tuple[Graph, dict[torch.fx.Node, torch.fx.Node]]:
    """Returns a program's graph in torch ops, and a map from the program's nodes to the nodes of this graph. The
    program is not changed."""
    nodes: dict[torch.fx.Node, torch.fx.Node] = {}
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(program.graph, nodes))
    graph.output_node().meta = copy.copy(program.graph.output_node().meta)
    for node in graph.nodes:
        if node.op == "call_function":
            _convert(node)
    ranges = {symbol: _from_zero(r) for symbol, r in program.range_constraints.items()}
    parts = (program.state_dict, program.constants, ranges, program.module_call_graph)
    module = torch.fx.GraphModule(program.graph_module, graph)
    return Graph(module, program.graph_signature, *parts), nodes


def _from_zero(r: Any) -> Any:
    """Replaces the lower bound 2 by 0. ExecuTorch's captures have 2 for any size, because torch traces with it."""
    return ValueRanges(0, r.upper) if r.lower == 2 else r


def _convert(node: torch.fx.Node) -> None:
    op = of_edge_op(node.target) if isinstance(node.target, EdgeOpOverload) else node.target
    plain = _ORDERED.get(schema_of(op).name) if isinstance(op, OpOverload) else None
    if plain is not None:
        node.kwargs = {k: v for k, v in node.kwargs.items() if k != "dim_order"}
    node.target = plain or op


def parts_of(program: ExportedProgram, tags: list[str]) -> dict[str, ExportedProgram]:
    """Returns the programs that ExecuTorch will make of the nodes with these tags. Their weights may have no data."""
    copied = get_fake_program(program)
    for tag in tags:
        _maybe_duplicate_constant_nodes(copied, tag)
    wanted = PartitionResult(copied, {tag: DelegationSpec("", [CompileSpec(tag, b"")]) for tag in tags})
    calls = _create_partitions_in_graph_module(copied.graph_module, wanted, copied, False)
    return {n.meta["compile_spec"][0].key: n.meta["submodule_program"] for each in calls.values() for n in each}
