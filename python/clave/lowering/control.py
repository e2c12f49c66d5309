"""Control flow: cond, while_loop, scan, map. Bodies read outer values directly."""

from __future__ import annotations

from typing import Any

import torch

from clave import schema
from clave.builder import Body, Int, Slot, Val
from clave.errors import Unsupported
from clave.lowering.registry import Context, Filled, Tensor, dtype_of, lower
from clave.lowering.steps import slot_as
from clave.sizes import expression


def _outs(c: Context, shapes: list[tuple[Int, ...]], dtypes: list[schema.DType]) -> list[Slot]:
    return [c.builder.temp(d, s) for s, d in zip(shapes, dtypes, strict=True)]


def _results(c: Context, values: list[Any], dtypes: list[schema.DType]) -> list[Slot]:
    """Returns a body's results as tensors. Raises Unsupported if one is a number."""
    if not all(isinstance(v, Slot | Filled) for v in values):
        raise Unsupported("a body with a result that is not a tensor")
    return [slot_as(c, v, d) for v, d in zip(values, dtypes, strict=True)]


def _like(c: Context, tensors: list[Slot]) -> list[Slot]:
    return [c.builder.temp(t.dtype, t.shape) for t in tensors]


def _tensors(c: Context, xs: Any) -> list[Slot]:
    if not all(isinstance(x, Slot | Filled) for x in xs):
        raise Unsupported("a number that is carried: make it a tensor")
    return [c.tensor(x) for x in xs]


@lower("cond")
def cond(c: Context, predicate: Tensor | Val | bool, then: Any, other: Any, operands: Any = ()) -> list[Tensor]:
    """Runs one of two graphs, selected by a tensor or by a condition that the host knows."""
    if isinstance(predicate, bool | int):
        return c.run(then if predicate else other, list(operands))
    fakes = c.node.meta["val"]
    dtypes = [dtype_of(f.dtype) if isinstance(f, torch.Tensor) else schema.DType.F32 for f in fakes]
    bodies = []
    for graph, name in ((then, "then"), (other, "else")):
        with c.body(f"{c.node.name}.{name}") as body:
            body.results = _results(c, c.run(graph, list(operands)), dtypes)
        bodies.append(body)
    outs = _outs(c, [c.shape(i) for i in range(len(fakes))], dtypes)
    choice: dict[str, Any] = {"condition": _truth(c, predicate)} if isinstance(predicate, Val) else {}
    if not choice:
        choice = {"predicate": slot_as(c, predicate, schema.DType.BOOL)}
    c.builder.emit("If", **choice, then_chain=bodies[0], else_chain=bodies[1], args=[], results=outs)
    return list(outs)


def _truth(c: Context, v: Val) -> Val:
    return v if v.type == "bool" else c.sizes.scalar(schema.ScalarKind.ne, v, 0)


@lower("while_loop")
def while_loop(c: Context, condition: Any, step: Any, carried: Any, read: Any = ()) -> list[Any]:
    """Runs `step` while `condition` holds. Carried integers are tensors of one element between steps."""
    numbers = [isinstance(x, int | Val) for x in carried]
    carries = _tensors(c, [_one_element(x) if n else x for x, n in zip(carried, numbers, strict=True)])

    def run(graph: torch.fx.GraphModule, args: list[Slot]) -> list[Any]:
        fakes = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
        inside = [_item(c, x, f) if n else x for x, f, n in zip(args, fakes, numbers, strict=False)]
        return [_one_element(r) if isinstance(r, int | Val) else r for r in c.run(graph, [*inside, *read])]

    with c.body(f"{c.node.name}.condition") as test:
        test.args = _like(c, carries)
        test.results = _results(c, run(condition, test.args), [schema.DType.BOOL])
    with c.body(f"{c.node.name}.body") as body:
        body.args = _like(c, carries)
        body.results = _results(c, run(step, body.args), [t.dtype for t in carries])
    outs = _like(c, carries)
    c.builder.emit("While", condition_chain=test, body_chain=body, args=carries, results=outs)
    return [_item(c, x, f) if n else x for x, f, n in zip(outs, c.node.meta["val"], numbers, strict=True)]


def _one_element(x: int | Val) -> Filled:
    return Filled(x, schema.DType.BOOL if isinstance(x, bool) else schema.DType.I64, ())


def _item(c: Context, x: Slot, symbol: Any) -> Val:
    """Returns the number in x, and binds it to torch's symbol."""
    e = expression(symbol)
    out = c.builder.val("int", str(e))
    c.builder.emit("Item", x=x, out=out)
    c.sizes.known[e] = out
    return out


def emit_scan(c: Context, body: Body, carries: list[Slot], xs: list[Slot], outs: list[Slot]) -> list[Tensor]:
    """Emits a Scan. The body's args are the carries, then a slice of each of xs."""
    c.builder.emit("Scan", body_chain=body, carries=carries, xs=xs, args=[], results=outs)
    return list(outs)


@lower("scan")
def scan(c: Context, step: Any, init: Any, xs: Any, read: Any = ()) -> list[Tensor]:
    """Runs `step` over the slices of xs along axis 0, to which torch has moved the scanned dimension."""
    carries, scanned = _tensors(c, init), _tensors(c, xs)
    fakes = c.node.meta["val"]
    dtypes = [dtype_of(f.dtype) for f in fakes]
    with c.body(f"{c.node.name}.body") as body:
        slices = [c.builder.temp(x.dtype, x.shape[1:]) for x in scanned]
        body.args = [*_like(c, carries), *slices]
        body.results = _results(c, c.run(step, [*body.args, *read]), dtypes)
    n = len(carries)
    shapes = [t.shape for t in carries] + [c.shape(i) for i in range(n, len(fakes))]
    return emit_scan(c, body, carries, scanned, _outs(c, shapes, dtypes))


@lower("map_impl")
def map_(c: Context, step: Any, xs: Any, read: Any = ()) -> list[Tensor]:
    return scan(c, step, [], xs, read)
