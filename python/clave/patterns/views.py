"""Chains of views as one: reshapes of reshapes, permutations of permutations and of dimensions that are 1."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from clave.patterns.calls import call, is_tensor, same, val
from clave.patterns.rewrite import emit, renames_output, replace, reshaped
from clave.trace import op_name

aten = torch.ops.aten


def reads_memory(node: Node) -> bool:
    """Whether it is about the elements as they lie in memory."""
    return node.op == "call_function" and op_name(node.target).startswith("aten.as_strided")


def keep_layouts(graph: Graph) -> None:
    """Notes how the operands lie in memory that is read as such: passes give them other strides."""
    for node in graph.nodes:
        if reads_memory(node):
            node.meta["layout"] = val(node.args[0])


def fold_views(graph: Graph) -> int:
    """How many views went."""
    before = len(graph.nodes)
    while _fold_once(graph):
        pass
    return before - len(graph.nodes)


def _fold_once(graph: Graph) -> int:
    n = 0
    for node in list(graph.nodes):
        if node.meta.get("erased") or not node.users:
            continue
        new = _folded(node)
        if new is not None and not renames_output(node, new):
            replace(node, new)
            n += 1
    return n


def _folded(node: Node) -> Node | None:
    c = call(node)
    if c is None or not is_tensor(c.args[0]):
        return None
    if c.kind == "reshape":
        return _reshape(node, c.args[0])
    if c.kind == "permute":
        return _permute(node, *c.args)
    return None


def _reshape(node: Node, x: Node) -> Node | None:
    inner = call(x)
    source = inner.args[0] if inner is not None and inner.kind == "reshape" else x
    if same(val(node).shape, val(source).shape):
        return source
    return None if source is x else reshaped(node, source, val(node).shape)


def _permute(node: Node, x: Node, dims: tuple[int, ...]) -> Node | None:
    if dims == tuple(range(len(dims))):
        return x
    inner = call(x)
    if inner is not None and inner.kind == "permute":
        source, first = inner.args
        return _permuted(node, source, [first[d] for d in dims])
    return _without_ones(node, x, dims)


def _permuted(node: Node, x: Node, dims: list[int]) -> Node:
    return x if dims == list(range(len(dims))) else emit(node, aten.permute.default, x, dims)


def _without_ones(node: Node, x: Node, dims: tuple[int, ...]) -> Node | None:
    """The same on the dimensions that are not 1, where the others are what moves (a product written as einsum does)."""
    shape = val(x).shape
    kept = [d for d in range(len(dims)) if not same(shape[d], 1)]
    order = [kept.index(d) for d in dims if d in kept]
    if order == sorted(order):
        return _like(node, x)
    if len(kept) == len(dims) or not _is_joined(node):
        return None
    squeezed = reshaped(node, x, [shape[d] for d in kept])
    return reshaped(node, emit(node, aten.permute.default, squeezed, order), val(node).shape)


def _like(node: Node, x: Node) -> Node:
    return x if same(val(x).shape, val(node).shape) else reshaped(node, x, val(node).shape)


def _is_joined(node: Node) -> bool:
    """All that reads it reshapes it again."""
    kinds = [call(u) for u in node.users]
    return all(c is not None and c.kind in ("reshape", "permute") for c in kinds)
