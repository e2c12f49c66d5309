"""Expressions of elementwise steps, of which `compute` makes one node.

A lowering writes an expression of `step`s over tensors and numbers. Every operand of a step is cast to the step's
compute dtype, which is type promotion. If torch computes several steps in f32 and rounds once to f16 or bf16, the
expression does the same (`opmath`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from clave import schema
from clave.builder import Int, Slot, Val
from clave.dtypes import NUMPY, torch_dtype, torch_name
from clave.errors import Unsupported
from clave.lowering.registry import WIDE, Context, Filled, Scalar, Tensor, dtype_of
from clave.lowering.reshape import expand
from clave.private import promoted

D = schema.DType
_SOURCE = schema.OperandSource
# Steps that torch supports for dtypes that are only stored. None of them depends on the sign of a U64.
_ON_STORED = {"eq", "ne", "mul", "where", "bitwise_and", "bitwise_or", "bitwise_xor"}
_ON_FLOAT8 = {"eq", "ne", "mul", "where", "abs", "isnan", "isinf"}
_TO_BOOL = {
    "logical_not",
    "isnan",
    "isinf",
    "signbit",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
}


@dataclass(frozen=True, eq=False)
class Expr:
    """A step over operands that have its compute dtype. dtype: of the result."""

    kind: str
    dtype: schema.DType
    operands: tuple[Any, ...]


Operand = Expr | Tensor | Scalar


def is_float(dtype: schema.DType) -> bool:
    return dtype <= D.F64


def has_fractions(dtype: schema.DType) -> bool:
    """True for floats of any size."""
    return is_float(dtype) or WIDE.get(dtype) == D.F32


def opmath(dtype: schema.DType) -> schema.DType:
    """Returns the dtype in which torch computes an op on `dtype` before it rounds."""
    return D.F32 if dtype in (D.F16, D.BF16) else dtype


def cast(x: Operand, dtype: schema.DType) -> Operand:
    """Returns x in another dtype. Numbers stay numbers, because a step reads them in its own compute dtype."""
    if isinstance(x, int | float | Val):
        return x
    if x.dtype == dtype:
        return x
    if isinstance(x, Filled):
        return Filled(convert(convert(x.value, x.dtype), dtype), dtype, x.shape)
    return Expr("cast", dtype, (x,))


def convert(value: Scalar, dtype: schema.DType) -> Scalar:
    """Returns a number as an element of the dtype holds it: wrapped or rounded."""
    if isinstance(value, Val):
        return value
    t = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)
    return t.to(torch_dtype(dtype)).item()


def rounded(x: Operand, dtype: schema.DType) -> Operand:
    """Returns x, rounded to a float dtype if it is a number, for ops in which torch rounds before it computes in
    opmath."""
    return convert(x, dtype) if is_float(dtype) and isinstance(x, int | float) else x


def step(kind: str, dtype: schema.DType, *operands: Operand) -> Expr:
    """Returns kind(operands), computed in dtype. The result is BOOL for predicates, otherwise dtype."""
    if dtype in WIDE:
        return _step_on_stored(kind, dtype, operands)
    if kind == "where":
        return Expr(kind, dtype, (cast(operands[0], D.BOOL), *(cast(o, dtype) for o in operands[1:])))
    return Expr(kind, D.BOOL if kind in _TO_BOOL else dtype, tuple(cast(o, dtype) for o in operands))


def _step_on_stored(kind: str, dtype: schema.DType, operands: tuple[Operand, ...]) -> Expr:
    """Computes a step in a wider dtype than that of its operands, which is only stored; or raises Unsupported."""
    if kind not in (_ON_FLOAT8 if has_fractions(dtype) else _ON_STORED):
        raise Unsupported(f"{kind} of {torch_name(dtype)}")
    fixed = 1 if kind == "where" else 0
    e = step(kind, WIDE[dtype], *operands[:fixed], *(cast(o, dtype) for o in operands[fixed:]))
    return e if kind in _TO_BOOL else Expr("cast", dtype, (e,))


def promote(*operands: Tensor | Scalar) -> schema.DType:
    """Returns the dtype in which torch computes an op on these operands."""
    stand_ins = [_stand_in(o) for o in operands]
    first = stand_ins[0]
    if len(stand_ins) == 1:
        return dtype_of(torch.result_type(first, first))
    if not any(isinstance(s, torch.Tensor) for s in stand_ins):
        return dtype_of(torch.result_type(*stand_ins[:2]))
    return dtype_of(promoted(stand_ins))


def _stand_in(o: Tensor | Scalar) -> Any:
    if isinstance(o, Val):
        return {"int": 1, "float": 1.0, "bool": True}[o.type]
    if isinstance(o, int | float):
        return o
    return torch.empty((1,) * o.rank, dtype=torch_dtype(o.dtype), device="meta")


class _Steps:
    """Flattens an expression into the inputs and steps of an Elementwise."""

    def __init__(self) -> None:
        self.inputs: list[Slot] = []
        self.steps: list[schema.Step] = []
        self.index: dict[int, int] = {}

    def add(self, e: Expr) -> int:
        if id(e) not in self.index:
            compute = (
                e.dtype if e.dtype != D.BOOL else next((o.dtype for o in e.operands if hasattr(o, "dtype")), D.BOOL)
            )
            operands = [
                self.operand(o, D.BOOL if e.kind == "where" and i == 0 else compute) for i, o in enumerate(e.operands)
            ]
            self.steps.append(schema.Step(kind=getattr(schema.StepKind, _py(e.kind)), dtype=e.dtype, operands=operands))
            self.index[id(e)] = len(self.steps) - 1
        return self.index[id(e)]

    def operand(self, o: Operand, dtype: schema.DType) -> schema.Operand:
        if isinstance(o, Expr):
            return schema.Operand(source=_SOURCE.step, index=self.add(o))
        if isinstance(o, Slot):
            if o not in self.inputs:
                self.inputs.append(o)
            return schema.Operand(source=_SOURCE.input, index=self.inputs.index(o))
        value = o.value if isinstance(o, Filled) else o
        if isinstance(value, Val):
            return schema.Operand(source=_SOURCE.value, index=value)  # type: ignore[arg-type]
        if is_float(dtype):
            return schema.Operand(source=_SOURCE.float_, f=float(value))
        return schema.Operand(source=_SOURCE.int_, i=_wrap(value, dtype))


def _py(kind: str) -> str:
    return kind + "_" if kind in ("and", "or", "not") else kind


def _wrap(value: float, dtype: schema.DType) -> int:
    """Returns an integer immediate as the dtype holds it."""
    if isinstance(value, float) and not math.isfinite(value):
        raise Unsupported(f"{value} as {dtype.name}")
    n = int(value)
    if dtype == D.BOOL:
        return int(value != 0)
    info = np.iinfo(NUMPY[dtype])
    return (n - int(info.min)) % 2**info.bits + int(info.min)


def compute(c: Context, e: Operand, shape: Any = None, dtype: schema.DType | None = None) -> Tensor:
    """Returns the tensor of an expression, computed by one node, by default in the dtype and shape of the call's
    result."""
    shape = c.shape() if shape is None else shape
    e = cast(e, c.dtype() if dtype is None else dtype)
    if isinstance(e, Slot | Filled):
        return e
    assert isinstance(e, Expr)
    steps = _Steps()
    steps.add(e)
    if not steps.inputs:
        steps = _Steps()
        steps.add(_written_out(c, e, shape))
    inputs = _spanning(c, steps.inputs, shape)
    return c.emit("Elementwise", inputs=inputs, steps=steps.steps, shape=shape, dtype=e.dtype)


def _written_out(c: Context, e: Expr, shape: tuple[Int, ...]) -> Expr:
    """Returns an expression of numbers alone with its first Filled operand as a tensor."""
    for i, o in enumerate(e.operands):
        if isinstance(o, Filled | Expr):
            new = c.tensor(Filled(o.value, o.dtype, shape)) if isinstance(o, Filled) else _written_out(c, o, shape)
            return Expr(e.kind, e.dtype, (*e.operands[:i], new, *e.operands[i + 1 :]))
    raise Unsupported("an elementwise op of numbers alone")


def _spanning(c: Context, inputs: list[Slot], shape: tuple[Int, ...]) -> list[Slot]:
    """Returns the inputs, with the first one expanded if they do not broadcast to `shape`, because a Filled operand was
    larger."""

    def covers(x: Slot, axis: int) -> bool:
        """True if x has the dimension and does not broadcast along it."""
        i = axis - (len(shape) - x.rank)
        return i >= 0 and (x.shape[i] != 1 or shape[axis] == 1)

    if all(any(covers(x, axis) for x in inputs) for axis in range(len(shape))):
        return inputs
    return [c.tensor(expand(c, inputs[0], shape)), *inputs[1:]]


def cast_to(c: Context, x: Tensor, dtype: schema.DType) -> Tensor:
    """Returns x in another dtype, by a separate node if the dtype differs."""
    return compute(c, cast(x, dtype), x.shape, dtype)


def slot_as(c: Context, x: Tensor, dtype: schema.DType) -> Slot:
    return c.tensor(cast_to(c, x, dtype))
