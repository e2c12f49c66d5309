"""Changing the graph: new calls with torch's stand-ins for their results, and dead code."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, Node

from clave.trace import op_name

_KEPT = ("aten._assert", "aten.sym_constrain")


def emit(before: Node, target: Any, *args: Any, **kwargs: Any) -> Node:
    """A new call before a node; its stand-in is what torch makes of those of the arguments."""
    graph = before.graph
    with graph.inserting_before(before):
        node = graph.call_function(target, args, kwargs)
    fakes = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
    with fake_mode(graph), torch.no_grad():
        node.meta["val"] = target(*fakes[0], **fakes[1])
    return node


def reshaped(before: Node, x: Node, shape: Any) -> Node:
    """x under a new shape, which may hold symbolic sizes."""
    graph, shape = before.graph, list(shape)
    with graph.inserting_before(before):
        node = graph.call_function(torch.ops.aten.reshape.default, (x, shape))
    with fake_mode(graph), torch.no_grad():
        node.meta["val"] = x.meta["val"].new_empty(shape)
    return node


def fake_mode(graph: Graph) -> Any:
    """The mode that the graph's stand-ins live in."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch._subclasses.FakeTensor):
            return value.fake_mode
    return torch._subclasses.FakeTensorMode()


def replace(old: Node, new: Node) -> None:
    """Everything reads `new` instead; what `old` alone needed goes."""
    old.replace_all_uses_with(new)
    if isinstance(old.meta.get("val"), torch.Tensor) and isinstance(new.meta.get("val"), torch.Tensor):
        a, b = old.meta["val"], new.meta["val"]
        assert a.dtype == b.dtype and a.dim() == b.dim(), (old, new)
    erase(old)


def constant(graph: Graph, before: Node, data: torch.Tensor, hint: str) -> Node:
    """A constant of the graph module, read before a node."""
    module = graph.owning_module
    taken, name = 0, f"_folded_{hint}"
    while hasattr(module, name):
        taken += 1
        name = f"_folded_{hint}_{taken}"
    module.register_buffer(name, data.detach())
    with graph.inserting_before(before):
        node = graph.get_attr(name)
    mode = fake_mode(graph)
    node.meta["val"] = mode.from_tensor(data.detach(), static_shapes=True)
    node.meta["constant"] = data.detach()
    return node


def renames_output(node: Node, source: Node) -> bool:
    """Whether an output would become an input's own name if `source` took the node's place."""
    return source.op == "placeholder" and any(u.op == "output" for u in node.users)


def erase(node: Node) -> None:
    """Removes a node that nothing reads, and then those that only it read."""
    stack = [node]
    while stack:
        n = stack.pop()
        if n.users or not _removable(n):
            continue
        operands = list(n.all_input_nodes)
        n.graph.erase_node(n)
        n.meta["erased"] = True
        stack += [o for o in operands if not o.meta.get("erased")]


def _removable(n: Node) -> bool:
    if n.meta.get("erased"):
        return False
    if n.op == "get_attr":
        return isinstance(n.meta.get("val"), torch.Tensor)
    if n.op != "call_function":
        return False
    if n.target is operator.getitem:
        return True
    if not isinstance(n.target, torch._ops.OpOverload) or n.target._schema.is_mutable:
        return False
    return bool(n.target._schema.returns) and not op_name(n.target).startswith(_KEPT)


def erase_dead(graph: Graph) -> int:
    """Removes what nothing reads; how many nodes."""
    before = len(graph.nodes)
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function" and op_name(node.target) == "aten._assert_tensor_metadata.default":
            graph.erase_node(node)  # torch knew the dtype when it traced the graph
            continue
        if not node.meta.get("erased") and not node.users:
            erase(node)
    return before - len(graph.nodes)
