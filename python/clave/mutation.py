"""Reads calls of ops that change their arguments. In torch.export's graphs, such a call returns the new values, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from clave.errors import Unsupported
from clave.private import schema_of
from clave.trace import op_name

KIND = "auto_functionalized_v2"


@dataclass
class Changing:
    """The parts of a call. The lowering of its op returns the results, then the changed arguments, with None for an
    absent argument."""

    name: str  # name of the op
    arguments: list[Any]  # as in the graph, in the order of the op's schema
    order: list[int]  # for each result of the node, its index in the lowering's results


def split_call(node: Node) -> Changing:
    """Returns the parts of a call. Raises Unsupported if a changed argument is a view of another tensor, because all of
    that tensor would have to be copied."""
    schema = schema_of(node.args[0])  # type: ignore[arg-type]
    n_results, bases = len(schema.returns), node.kwargs["_all_bases"]
    changed = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    base_of = {name: node.kwargs[f"_{name}_base_index"] for name in changed}
    for name in changed:
        if any(k.startswith(f"_{name}_") and k not in (f"_{name}_base_index", f"_{name}_alias") for k in node.kwargs):
            raise Unsupported(f"{name}: expected a buffer of its own, got a view of another tensor")
    given = {a.name: node.kwargs.get(a.name, a.default_value) for a in schema.arguments if a.name not in base_of}
    given |= {name: None if i is None else bases[i] for name, i in base_of.items()}  # type: ignore[index]
    of_base = {i: n_results + k for k, i in enumerate(base_of.values()) if i is not None}
    order = [*range(max(n_results, 1)), *(of_base[i] for i in range(len(bases)))]  # type: ignore[arg-type]
    return Changing(op_name(node.args[0]), [given[a.name] for a in schema.arguments], order)
