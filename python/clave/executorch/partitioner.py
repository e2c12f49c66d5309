"""`ClavePartitioner` selects the parts of a model that ExecuTorch delegates to clave."""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data, tag_mutated_buffer
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.operator_support import OperatorSupportBase

from clave import trace
from clave.errors import Error
from clave.executorch import claims
from clave.executorch.backend import ClaveBackend
from clave.executorch.edge import in_torch, parts_of
from clave.executorch.settings import Settings
from clave.lowering import LOWERINGS
from clave.lowering.registry import op_name
from clave.places import nodes_of
from clave.private import OpOverload, OpOverloadPacket, schema_of
from clave.quiet import quiet
from clave.rebuild import rebuilt

_log = logging.getLogger(__name__)
_TAG = "delegation_tag"
_LEFT_BY_OPTION = "the partitioner's `leave` names its op"


class ClavePartitioner(Partitioner):
    """Delegates all nodes that clave can run: as one part if that is the whole model, otherwise as few parts as the
    order of the nodes allows.

        edge = to_edge_transform_and_lower(torch.export.export(model, (x,)), partitioner=[ClavePartitioner()])
        Path("model.pte").write_bytes(edge.to_executorch().buffer)

    The partitioner lowers nodes with clave.export's own functions before it claims them. The other nodes run with
    ExecuTorch's kernels; `refused` maps the names of those of the last graph to the reasons.

    device: as CLAVE_DEVICE; None: CLAVE_DEVICE of the machine that runs the .pte, or its best device. n_threads,
    memory_budget (bytes), cache_dir, fast: see clave_delegate.h. A host can override these when it loads the .pte, by
    ExecuTorch's backend options of the same names.

    quantize: encoding of the weights, such as "int8" or "int4:32"; see clave.export. share_mutable_buffers: a buffer
    that one method changes is the same state in all methods that have a buffer of its name, such as a KV cache in
    prefill and decode; otherwise each method has its own. external_data: the weights are written to a .ptd file of this
    name beside the .pte.

    leave: ops (torch.ops.aten.sin, or overloads) that ExecuTorch's kernels or the next partitioner run. If ExecuTorch
    decomposes such an op, its parts are left, too.

    Raises clave.Error for an invalid value.
    """

    def __init__(
        self,
        *,
        device: str | None = None,
        n_threads: int | None = None,
        memory_budget: int | None = None,
        cache_dir: str | None = None,
        fast: bool = False,
        quantize: str | None = None,
        share_mutable_buffers: bool = False,
        external_data: str | None = None,
        leave: Iterable[Any] = (),
    ) -> None:
        super().__init__()
        settings = Settings(
            device, n_threads, memory_budget, cache_dir, fast, quantize, share_mutable_buffers, external_data
        )
        self.delegation_spec = DelegationSpec(ClaveBackend.__name__, settings.specs())
        self.refused: dict[str, str] = {}
        self._leave = frozenset(_overloads(leave))
        self._left_names = frozenset(map(str, self._leave))
        self._kept: tuple[Any, list[OpOverload]] = (
            lambda: None,
            [],
        )  # the last program of ops_to_not_decompose, and its ops

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Replaces quantised ops by torch ops that compute the same."""
        table = trace.written_in_torch(exported_program)
        return exported_program.run_decompositions(table) if table else exported_program

    def ops_to_not_decompose(self, ep: ExportedProgram) -> tuple[list[OpOverload], Callable[[Node], bool] | None]:
        """Returns the ops that clave can run, without decomposition, at all their places in the program."""
        if self._kept[0]() is not ep:
            self._kept = (weakref.ref(ep), _kept_whole(ep, self._leave))
        return self._kept[1], None

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        with quiet:
            graph, copies = in_torch(exported_program)
            left = claims.refused(graph)
        reasons = {node: left[copy] for node, copy in copies.items() if copy in left}
        reasons |= {node: _LEFT_BY_OPTION for node, copy in copies.items() if self._is_to_be_left(node, copy)}
        tags = _tag(exported_program, reasons)
        self.refused = {node.name: why for node, why in reasons.items()}
        for name, why in self.refused.items():
            _log.info("%s is left to ExecuTorch: %s", name, why)
        # ExecuTorch removes the constants of the parts from the program that it gets, so it gets a copy of the user's
        # program.
        own = rebuilt(exported_program, exported_program.graph_module, exported_program.constants)
        return PartitionResult(own, dict.fromkeys(tags, self.delegation_spec))

    def _is_to_be_left(self, node: Node, in_torch: Node) -> bool:
        """True if `leave` has the node's op, or the op of the model's node from which it was decomposed."""
        if node.op != "call_function":
            return False
        return in_torch.target in self._leave or not self._left_names.isdisjoint(_origins(node))


def _origins(node: Node) -> Iterator[str]:
    """Yields the ops of the nodes from which torch.export made the node, such as "aten.linear.default"."""
    sources = list(node.meta.get("from_node", ()))
    while sources:
        source = sources.pop()
        yield source.target
        sources.extend(source.from_node)


def _overloads(ops: Iterable[Any]) -> Iterator[OpOverload]:
    for op in ops:
        if isinstance(op, OpOverload):
            yield op
        elif isinstance(op, OpOverloadPacket):
            yield from (getattr(op, name) for name in op.overloads())
        else:
            raise Error(f"leave: expected torch.ops.ns.op or an overload of it, got {op!r}")


def _kept_whole(program: ExportedProgram, leave: frozenset[OpOverload]) -> list[OpOverload]:
    with quiet:
        graph, copies = in_torch(program)
        refused = claims.refused(graph)
    left = leave | {node.target for node, copy in copies.items() if copy in refused}
    called = {n.target for n in nodes_of(program.graph_module) if isinstance(n.target, OpOverload)}
    return sorted((op for op in called - left if _is_kept(op)), key=str)


def _is_kept(op: OpOverload) -> bool:
    """True if clave lowers the op whole. Views are decomposed, because ExecuTorch handles them itself."""
    name = op_name(op)
    is_view = any(r.alias_info is not None for r in schema_of(op).returns)
    return name in LOWERINGS and name not in trace.DECOMPOSED_ANYWAY and not is_view


def _is_size(node: Node) -> bool:
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


class _Claimed(OperatorSupportBase):
    def __init__(self, refused: dict[Node, str]) -> None:
        self._refused = refused

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        return node.op == "call_function" and node not in self._refused


def _tag(program: ExportedProgram, reasons: dict[Node, str]) -> list[str]:
    """Tags the claimed nodes. Adds to `reasons` the nodes because of which a part is not a valid program by itself."""
    while True:
        tags = _tag_once(program, reasons)
        found = _not_alone(program, tags)
        if not found:
            return tags
        reasons.update(found)
        for node in program.graph.nodes:
            node.meta.pop(_TAG, None)


def _tag_once(program: ExportedProgram, reasons: dict[Node, str]) -> list[str]:
    tags: list[str] = []
    for part in generate_partitions_from_list_of_nodes(program.graph_module, op_support=_Claimed(reasons)):
        if all(_is_size(n) for n in part.nodes):
            continue
        tags.append(f"clave_{len(tags)}")
        for node in part.nodes:
            node.meta[_TAG] = tags[-1]
    tag_constant_data(program)
    tag_mutated_buffer(program)
    _leave_shared_buffers(program)
    return tags


def _leave_shared_buffers(program: ExportedProgram) -> None:
    """Removes a changed buffer from its part if nodes outside of the part read its old or new value, because ExecuTorch
    would pass these nodes a copy that stays unchanged."""
    signature, nodes = program.graph_signature, {n.name: n for n in program.graph.nodes}
    results = list(program.graph.output_node().args[0])
    holders = {name: nodes[node] for node, name in signature.inputs_to_buffers.items()}
    for output, name in signature.buffers_to_mutate.items():
        holder, changed = holders[name], nodes[output]
        tags = {u.meta.get(_TAG) for u in [*holder.users, *changed.users, changed] if u.op != "output"}
        if len(tags) != 1 or None in tags or results.count(changed) > 1:
            holder.meta.pop(_TAG, None)


def _not_alone(program: ExportedProgram, tags: list[str]) -> dict[Node, str]:
    """Returns, each with the reason, the nodes because of which a part is not a valid program by itself: the nodes that
    the error names, or all nodes of the part if it names none."""
    found: dict[Node, str] = {}
    with quiet:
        tried = {tag: claims.why_not(in_torch(part)[0]) for tag, part in parts_of(program, tags).items()}
    for tag, why in tried.items():
        if why is not None:
            own = [n for n in program.graph.nodes if n.meta.get(_TAG) == tag and n.op == "call_function"]
            words = set(re.findall(r"\w+", why))  # the verifier names nodes and tensors
            named = [n for n in own if n.name in words]
            reading = [n for n in own if words & {i.name for i in n.all_input_nodes}]
            found.update(dict.fromkeys(named or reading or own, why))
    return found
