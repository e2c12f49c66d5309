"""Corrects result dtypes of ops whose operands differ in dtype. torch's fake tensors and decompositions promote where
the kernels of eager mode do not (huber_loss of BF16 and F32 is BF16), so the op itself is run on small tensors.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram

from clave.private import OpOverload, pytree, schema_of
from clave.rebuild import copied_graph, rebuilt

_MAX_ELEMENTS = 1 << 16  # elements of the largest tensor on which an op is run


def with_eager_dtypes(program: ExportedProgram) -> ExportedProgram:
    """Returns the program with a cast to eager mode's dtype after each such op. A cast of a result that has that dtype
    already vanishes when the program is decomposed."""
    if not any(_has_mixed_dtypes(n) for n in _nodes(program.graph_module)):
        return program
    module = copied_graph(program)
    moved: set[torch.fx.Node] = set()  # nodes whose dtype differs from what torch inferred
    changed = [_cast_result(n, moved) for n in _nodes(module)]
    if not any(changed):
        return program
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            part.recompile()
    return rebuilt(program, module, program.constants)


def _nodes(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    parts = [m for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    return [n for m in parts for n in m.graph.nodes if n.op == "call_function"]


def _cast_result(node: torch.fx.Node, moved: set[torch.fx.Node]) -> bool:
    """Inserts the cast. Returns False if none is needed or the op cannot be run."""
    follows = any(a in moved for a in node.all_input_nodes) and isinstance(node.meta.get("val"), torch.Tensor)
    found = _eager_dtype(node) if _has_mixed_dtypes(node) or follows else None
    if found is None:
        return False
    if found != node.meta["val"].dtype:
        moved.add(node)
    if not _has_mixed_dtypes(node):
        node.meta["val"] = node.meta["val"].to(found)
        return False
    with node.graph.inserting_before(node):
        own = node.graph.call_function(node.target, node.args, node.kwargs)  # type: ignore[arg-type]
    own.meta = dict(node.meta)
    node.meta.pop("unbacked_bindings", None)  # sizes that depend on data come from the op itself
    node.target, node.args, node.kwargs = torch.ops.aten.to.dtype, (own, found), {}  # keeps the name of the result
    node.meta["val"] = node.meta["val"].to(found)
    return True


def _has_mixed_dtypes(node: torch.fx.Node) -> bool:
    """True for a call of a torch op that returns one new tensor and has real operands of several dtypes, at least one
    of them floating-point."""
    if not isinstance(node.target, OpOverload) or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    schema = schema_of(node.target)
    if (
        not schema.name.startswith("aten::")
        or schema.is_mutable
        or torch.Tag.nondeterministic_seeded in node.target.tags
    ):
        return False
    if any(r.alias_info is not None for r in schema.returns):
        return False
    operands = [a.meta.get("val") for a in node.all_input_nodes]
    dtypes = {v.dtype for v in operands if isinstance(v, torch.Tensor)}
    return len(dtypes) > 1 and any(t.is_floating_point for t in dtypes) and not any(t.is_complex for t in dtypes)


def _eager_dtype(node: torch.fx.Node) -> torch.dtype | None:
    if not isinstance(node.target, OpOverload) or schema_of(node.target).is_mutable:
        return None
    for small in (True, False):
        sizes: dict[int, int] | None = {0: 0, 1: 1} if small else None
        try:
            args, kwargs = pytree.tree_map(lambda a, s=sizes: _stand_in(a, s), (node.args, node.kwargs))
            with torch.no_grad():
                result = node.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:
            continue
        return result.dtype if isinstance(result, torch.Tensor) else None
    return None


def _stand_in(a: Any, sizes: dict[int, int] | None) -> Any:
    """Returns a tensor of the operand's rank and dtype. If `sizes` is given, each distinct size becomes a small one."""
    if not isinstance(a, torch.fx.Node):
        return a
    val = a.meta["val"]
    if not isinstance(val, torch.Tensor):
        raise TypeError("an operand that is not a tensor")
    hints = [int(s) if isinstance(s, int) else int(s.node.hint) for s in val.shape]
    shape = hints if sizes is None else [sizes.setdefault(n, 1 + len(sizes)) for n in hints]
    if torch.Size(shape).numel() > _MAX_ELEMENTS:
        raise ValueError("too large an operand")
    return torch.full(shape, 0.5 if val.dtype.is_floating_point else 0, dtype=val.dtype)
