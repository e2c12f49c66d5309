"""Host scalars: an element read from a tensor, and assertions. Arithmetic of sizes has no lowering, see sizes.py."""

from __future__ import annotations

from typing import Any

import torch

from clave import schema
from clave.builder import Val
from clave.lowering.registry import WIDE, Context, Tensor, lower
from clave.lowering.steps import slot_as
from clave.sizes import expression

D = schema.DType


@lower("aten._local_scalar_dense.default", "aten.item.default")
def item(c: Context, x: Tensor) -> Val:
    """Reads the only element of a tensor, and binds it to torch.export's symbol."""
    val = c.node.meta["val"]
    if isinstance(val, torch.SymBool):
        return _condition(c, x, expression(val))
    if isinstance(val, torch.SymInt):
        e = expression(val)
        out = c.sizes.bind(e) if e.is_Symbol else c.builder.val("int", str(e))
        c.builder.emit("Item", x=slot_as(c, x, D.I64), out=out)
        return out
    out = c.builder.val("float", str(expression(val)))
    c.builder.emit("Item", x=slot_as(c, x, WIDE.get(x.dtype, x.dtype)), out=out)
    c.sizes.known[expression(val)] = out
    return out


def _condition(c: Context, x: Tensor, e: Any) -> Val:
    """Reads a BOOL element. torch writes its truth as an equation for a symbol that is 0 or 1."""
    out = c.builder.val("bool", str(e))
    c.builder.emit("Item", x=slot_as(c, x, D.BOOL), out=out)
    for symbol in e.free_symbols:
        c.sizes.known[symbol] = out
    return out


@lower("aten._assert_scalar.default")
def assert_scalar(c: Context) -> None:
    condition, message = c.node.args
    if not _is_about_layout(condition):
        c.sizes.check(condition.meta["val"] if isinstance(condition, torch.fx.Node) else condition, str(message))


def _is_about_layout(x: Any) -> bool:
    """True if a condition depends on strides or offsets of torch's own tensors."""
    if not isinstance(x, torch.fx.Node):
        return False
    if "sym_stride" in str(x.target) or "sym_storage_offset" in str(x.target):
        return True
    return any(_is_about_layout(a) for a in x.all_input_nodes if not isinstance(a.meta.get("val"), torch.Tensor))


@lower("aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default")
def constrain_range(c: Context, size: Any, min: int | None = None, max: int | None = None) -> None:
    for kind, limit in ((schema.ScalarKind.ge, min), (schema.ScalarKind.le, max)):
        if limit is not None and isinstance(size, Val):
            sign = ">=" if kind == schema.ScalarKind.ge else "<="
            c.builder.emit("Check", kind=kind, a=size, b=limit, message=f"{size.name} {sign} {limit}")


@lower("aten._assert_tensor_metadata.default", "aten._assert_async.msg", "aten._assert_async.default")
def nothing(c: Context, *_: Any) -> None:
    """Emits nothing, because torch.export has checked the assertion."""
