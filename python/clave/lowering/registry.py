"""Registers the functions that lower ops. A function has a Context and the call's arguments in the schema's order.

    @lower("aten.relu.default")
    def relu(c: Context, x: Tensor) -> Tensor: ...

Arguments are Slot or Filled (tensors), int, float, bool or Val (numbers), lists of these, torch.dtype, str or None.
Absent arguments have the op's defaults. The function returns a tensor, a list for an op with several results (None: not
available), or None for an op without results. `raise Unsupported(reason)` refuses a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from clave import schema
from clave.arguments import described
from clave.builder import Body, Float, Int, MethodBuilder, Slot, Val
from clave.dtypes import index_of_torch
from clave.errors import Error, Unsupported
from clave.private import OpOverload, overload_name, schema_of
from clave.sizes import Sizes


@dataclass(eq=False)
class Filled:
    """A tensor whose elements all equal one number. It is an immediate in elementwise steps, and a Full elsewhere."""

    value: Float
    dtype: schema.DType
    shape: tuple[Int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(eq=False)
class Complex:
    """A complex tensor of the graph, see complex.py."""

    pair: Slot  # (*shape, 2)


# For each dtype that is only stored: the dtype that replaces it in computations. Integers are exact, and wrap when they
# are cast back.
D = schema.DType
WIDE = {D.U16: D.I32, D.U32: D.I64, D.U64: D.I64, D.F8_E4M3: D.F32, D.F8_E5M2: D.F32}

Tensor = Slot | Filled
Scalar = int | float | bool | Val
Lowering = Callable[..., Any]

LOWERINGS: dict[str, Lowering] = {}
COMPLEX: dict[str, Lowering] = {}  # for calls with a complex operand or result


def op_name(target: Any) -> str:
    """Returns the name of an op in errors and lowerings: "aten.add.Tensor", "check::first", "cond"."""
    if not isinstance(target, OpOverload):
        return str(getattr(target, "__name__", target))
    space, name = schema_of(target).name.split("::")
    overload = overload_name(target)
    if space in ("aten", "prims", "clave"):
        return f"{space}.{name}.{overload}"
    return f"{space}::{name}" if overload == "default" else f"{space}::{name}.{overload}"


def lower(*targets: str) -> Callable[[Lowering], Lowering]:
    """Registers a function for ops, by names such as "aten.add.Tensor"."""

    return _register(LOWERINGS, targets)


def lower_complex(*targets: str) -> Callable[[Lowering], Lowering]:
    """Registers a function for calls of ops with a complex operand or result."""
    return _register(COMPLEX, targets)


def register_lowering(op: Any) -> Callable[[Lowering], Lowering]:
    """Registers a user's function for an op without a lowering. op: torch.ops.ns.op.overload, or its name "ns::op" (for
    the default overload) or "ns::op.overload". Raises Error if it is not an op, or has a lowering.
    """
    name = op_name(overload_of(op))
    if name in LOWERINGS:
        raise Error(f"{name} has a lowering already")
    return lower(name)


def overload_of(op: Any) -> OpOverload:
    """Returns the op that a user names. Raises Error if it is not an op."""
    found = op
    if isinstance(op, str) and "\0" not in op:
        space, _, rest = op.partition("::")
        name, _, overload = rest.partition(".")
        found = getattr(getattr(getattr(torch.ops, space), name, None), overload or "default", None) if name else None
    if not isinstance(found, OpOverload):
        raise Error(f"op: expected torch.ops.ns.op.overload, or its name as 'ns::op.overload', got {described(op)}")
    return found


def _register(table: dict[str, Lowering], targets: tuple[str, ...]) -> Callable[[Lowering], Lowering]:
    def register(f: Lowering) -> Lowering:
        for t in targets:
            assert t not in table, t
            table[t] = f
        return f

    return register


def apply(name: str, c: Context, arguments: list[Any]) -> Any:
    """Lowers a call and returns its results. Raises Unsupported if the op has no lowering for complex tensors."""
    given = [x for a in arguments for x in (a if isinstance(a, list) else [a])]
    if not c.is_complex() and not any(isinstance(x, Complex) for x in given):
        return LOWERINGS[name](c, *arguments)
    if name not in COMPLEX:
        raise Unsupported("complex numbers")
    return COMPLEX[name](c, *arguments)


def dtype_of(t: torch.dtype) -> schema.DType:
    """Returns the schema's dtype of a torch dtype. Raises Unsupported for other dtypes."""
    try:
        return schema.DType(index_of_torch(t))
    except TypeError as e:
        raise Unsupported(str(e)) from None


def written(builder: MethodBuilder, x: Filled) -> Slot:
    """Writes a Filled tensor to memory. Casts it if its dtype is only stored."""
    dtype = WIDE.get(x.dtype, x.dtype)
    if dtype <= D.F64:
        value: dict[str, Any] = {"value": x.value}
    elif isinstance(x.value, Val):
        value = {"int_value": x.value}
    else:
        value = {"int_value": (int(x.value) + 2**63) % 2**64 - 2**63}
    full = builder.emit("Full", **value, out=builder.temp(dtype, x.shape))
    if dtype == x.dtype:
        return full
    operand = schema.Operand(source=schema.OperandSource.input, index=0)
    step = schema.Step(kind=schema.StepKind.cast, dtype=x.dtype, operands=[operand])
    return builder.emit("Elementwise", inputs=[full], steps=[step], out=builder.temp(x.dtype, x.shape))


@dataclass(eq=False)
class Context:
    """One call in the graph: the builder to which it emits, and torch's shapes and dtypes of its results."""

    builder: MethodBuilder
    sizes: Sizes
    node: torch.fx.Node
    constant: Callable[[torch.Tensor, str], Slot]  # a new constant, or the slot of an equal one
    run: Callable[[torch.fx.GraphModule, list[Any]], list[Any]]  # lowers a graph on these arguments

    @contextmanager
    def body(self, name: str) -> Iterator[Body]:
        """Opens a body of a control op. Inside the `with` block, nodes are lowered into it."""
        source = self.builder.source
        with self.builder.body(name) as made, self.sizes.scope():
            yield made
        self.builder.source = source

    def op(self) -> str:
        """Returns the name of the called op without its namespace and overload, such as "add"."""
        return str(schema_of(self.node.target).name).partition("::")[2]

    def used(self, index: int) -> bool:
        """True if a node reads result `index` of an op with several results."""
        return any(u.args[1] == index for u in self.node.users)

    def fake(self, index: int | None = None) -> torch.Tensor:
        """Returns torch's fake tensor of the result, or of result `index`."""
        val = self.node.meta["val"]
        return val if index is None else val[index]

    def is_complex(self) -> bool:
        """True if a result is complex. Assertions have no result."""
        val = self.node.meta.get("val")
        return any(
            isinstance(v, torch.Tensor) and v.is_complex() for v in (val if isinstance(val, tuple | list) else [val])
        )

    def shape(self, index: int | None = None) -> tuple[Int, ...]:
        """Returns the shape of the result. A complex one has the dimension of pairs."""
        fake = self.fake(index)
        return self.sizes.shape((*fake.shape, 2) if fake.is_complex() else fake.shape)

    def dtype(self, index: int | None = None) -> schema.DType:
        """Returns the dtype of the result, or of the parts of a complex result."""
        t = self.fake(index).dtype
        return dtype_of(t.to_real() if t.is_complex else t)

    def emit(
        self, op: str, *, shape: tuple[Int, ...] | None = None, dtype: schema.DType | None = None, **fields: Any
    ) -> Slot:
        """Emits an op and returns its result, by default with torch's shape and dtype of the call's result."""
        out = self.builder.temp(self.dtype() if dtype is None else dtype, self.shape() if shape is None else shape)
        return self.builder.emit(op, **fields, out=out)

    def tensor(self, x: Tensor) -> Slot:
        """Returns the tensor as a slot. Writes a Filled tensor to memory."""
        return x if isinstance(x, Slot) else written(self.builder, x)
