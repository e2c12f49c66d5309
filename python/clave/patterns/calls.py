"""What a node of the graph computes, with the many spellings of torch's ops brought to few kinds.

`call(node)` gives a `Call(kind, args)`: ("mul", (a, b)), ("reshape", (x,)), ("permute", (x, dims)), ("cast", (x,)) ...;
None for what has no kind. Operands are nodes or numbers. `Match` walks a subgraph by kinds and notes the nodes that it
went through, so that they can be required to have no other user.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from clave.trace import op_name


class NoMatch(Exception):
    """This subgraph is not what the pattern describes."""


def need(condition: Any) -> None:
    if not condition:
        raise NoMatch


@dataclass(frozen=True)
class Call:
    kind: str
    args: tuple[Any, ...]


def val(x: Any) -> torch.Tensor:
    """torch's stand-in for a node's tensor."""
    found = x.meta.get("val") if isinstance(x, Node) else None
    need(isinstance(found, torch.Tensor))
    return found  # type: ignore[return-value]


def is_tensor(x: Any) -> bool:
    return isinstance(x, Node) and isinstance(x.meta.get("val"), torch.Tensor)


def is_number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool)


def same(a: Any, b: Any) -> bool:
    """Whether two sizes, or shapes, are the same for every input."""
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    a, b = (x.node.expr if hasattr(x, "node") else x for x in (a, b))
    return bool(a == b)


def arguments(node: Node) -> tuple[Any, ...]:
    """The call's arguments in the order of the op's schema, absent ones as their defaults."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    given = node.args
    return tuple(given[i] if i < len(given) else node.kwargs.get(a.name, a.default_value) for i, a in enumerate(schema))


# ---------------------------------------------------------------- kinds

Reader = Callable[[Node, tuple[Any, ...]], Call | None]
_READERS: dict[str, Reader] = {}


def _reads(names: str) -> Callable[[Reader], Reader]:
    def register(f: Reader) -> Reader:
        _READERS.update({f"aten.{n}": f for n in names.split()})
        return f

    return register


def _plain(kind: str, names: str, n_args: int) -> None:
    _reads(names)(lambda node, args: Call(kind, args[:n_args]))


_plain("mul", "mul.Tensor mul.Scalar multiply.Tensor multiply.Scalar", 2)
_plain("div", "div.Tensor div.Scalar divide.Tensor true_divide.Tensor", 2)
_plain("pow", "pow.Tensor_Scalar", 2)
_plain("where", "where.self where.ScalarSelf where.ScalarOther where.Scalar", 3)
_plain("reshape", "view.default reshape.default _unsafe_view.default unsqueeze.default squeeze.default squeeze.dim", 1)
_plain("reshape", "squeeze.dims flatten.using_ints unflatten.int view_as.default reshape_as.default", 1)
_plain("expand", "expand.default expand_as.default broadcast_to.default", 1)
_plain("same", "clone.default alias.default detach.default contiguous.default lift_fresh_copy.default", 1)
_plain("sdpa", "scaled_dot_product_attention.default", 3)
_plain("matmul", "mm.default bmm.default matmul.default", 2)
for _name in "neg sigmoid tanh erf exp rsqrt sqrt reciprocal silu cos sin view_as_complex view_as_real polar".split():
    _plain(_name, f"{_name}.default", 2 if _name == "polar" else 1)


@_reads("add.Tensor add.Scalar")
def _add(node: Node, args: tuple[Any, ...]) -> Call | None:
    return Call("add", args[:2]) if args[2] == 1 else None


@_reads("sub.Tensor sub.Scalar")
def _sub(node: Node, args: tuple[Any, ...]) -> Call | None:
    return Call("sub", args[:2]) if args[2] == 1 else None


@_reads("rsub.Tensor rsub.Scalar")
def _rsub(node: Node, args: tuple[Any, ...]) -> Call | None:
    return Call("sub", (args[1], args[0])) if args[2] == 1 else None


@_reads("masked_fill.Scalar masked_fill.Tensor")
def _masked_fill(node: Node, args: tuple[Any, ...]) -> Call | None:
    x, mask, value = args
    return Call("where", (mask, value, x))


@_reads("square.default")
def _square(node: Node, args: tuple[Any, ...]) -> Call | None:
    return Call("pow", (args[0], 2))


@_reads("_to_copy.default to.dtype to.dtype_layout to.device type_as.default")
def _cast(node: Node, args: tuple[Any, ...]) -> Call | None:
    return Call("cast" if val(node).dtype != val(args[0]).dtype else "same", args[:1])


@_reads("permute.default")
def _permute(node: Node, args: tuple[Any, ...]) -> Call | None:
    rank = val(args[0]).dim()
    return Call("permute", (args[0], tuple(d % rank for d in args[1])))


@_reads("transpose.int t.default numpy_T.default mT.default")
def _transpose(node: Node, args: tuple[Any, ...]) -> Call | None:
    dims = list(range(val(args[0]).dim()))
    if len(dims) < 2:
        return Call("same", args[:1])
    a, b = args[1:3] if len(args) == 3 else (-2, -1)
    if op_name(node.target) == "aten.numpy_T.default":
        dims.reverse()
    else:
        dims[a], dims[b] = dims[b], dims[a]
    return Call("permute", (args[0], tuple(dims)))


def _axes(x: Any, dims: Any) -> tuple[int, ...]:
    rank = val(x).dim()
    dims = [dims] if isinstance(dims, int) else dims
    return tuple(sorted(d % rank for d in dims)) if dims and rank else tuple(range(rank))


@_reads("mean.dim sum.dim_IntList")
def _mean(node: Node, args: tuple[Any, ...]) -> Call | None:
    x, dims, keepdim, dtype = args
    kind = op_name(node.target).split(".")[1]
    return Call(kind, (x, _axes(x, dims), bool(keepdim))) if dtype in (None, val(x).dtype) else None


@_reads("var.correction")
def _var(node: Node, args: tuple[Any, ...]) -> Call | None:
    x, dims, correction, keepdim = args
    return Call("var", (x, _axes(x, dims), bool(keepdim), 1 if correction is None else correction))


@_reads("softmax.int _softmax.default")
def _softmax(node: Node, args: tuple[Any, ...]) -> Call | None:
    """Along which axis; args[0] may have another dtype than the result."""
    return Call("softmax", (args[0], args[1] % max(val(args[0]).dim(), 1)))


@_reads("slice.Tensor")
def _slice(node: Node, args: tuple[Any, ...]) -> Call | None:
    x, axis, start, stop, step = args
    return Call("slice", (x, axis % val(x).dim(), start or 0, stop, step))


@_reads("select.int")
def _select(node: Node, args: tuple[Any, ...]) -> Call | None:
    x, axis, index = args
    axis, size = axis % val(x).dim(), val(x).shape[axis]
    return Call("select", (x, axis, index % size)) if isinstance(index, int) and isinstance(size, int) else None


@_reads("cat.default")
def _cat(node: Node, args: tuple[Any, ...]) -> Call | None:
    return Call("cat", (tuple(args[0]), args[1] % val(node).dim()))


@_reads("stack.default")
def _stack(node: Node, args: tuple[Any, ...]) -> Call | None:
    return Call("stack", (tuple(args[0]), args[1] % val(node).dim()))


@_reads("baddbmm.default")
def _baddbmm(node: Node, args: tuple[Any, ...]) -> Call | None:
    """beta * bias + alpha * a @ b; only with beta 1 does it have a kind of its own."""
    bias, a, b, beta, alpha = args
    return Call("baddbmm", (bias, a, b, alpha)) if beta == 1 and is_number(alpha) else None


def call(node: Any) -> Call | None:
    if not isinstance(node, Node) or node.op != "call_function":
        return None
    if node.target is operator.getitem:
        return _item(node)
    reader = _READERS.get(op_name(node.target))
    return reader(node, arguments(node)) if reader else None


def _item(node: Node) -> Call | None:
    """A part of a split is a slice, one of unbind a selection."""
    source, index = node.args
    if not isinstance(source, Node) or not isinstance(index, int) or source.op != "call_function":
        return None
    name = op_name(source.target)
    if name == "aten.unbind.int":
        x, axis = arguments(source)
        return Call("select", (x, axis % val(x).dim(), index))
    if name not in ("aten.split.Tensor", "aten.split_with_sizes.default", "aten.chunk.default"):
        return None
    x, axis = source.args[0], arguments(source)[2]
    axis %= val(x).dim()
    sizes = [v.shape[axis] for v in source.meta["val"]]
    if not all(isinstance(s, int) for s in sizes):
        return None
    start = sum(sizes[:index])
    return Call("slice", (x, axis, start, start + sizes[index], 1))


def number(x: Any) -> float | None:
    """The number that x is: a literal, or a tensor of one element that holds one."""
    if isinstance(x, int | float):
        return x
    if not isinstance(x, Node) or not is_tensor(x):
        return None
    if not all(same(s, 1) for s in val(x).shape):
        return None
    constant = x.meta.get("constant")
    if constant is not None:
        return None if constant.is_complex() else constant.item()
    if x.op == "call_function" and op_name(x.target) in ("aten.full.default", "aten.scalar_tensor.default"):
        value = x.args[-1]
        return value if is_number(value) else None
    return None


def close(a: float | None, b: float, dtype: torch.dtype) -> bool:
    """Whether two numbers are the same to the last place or two of the dtype in which they are used."""
    return a is not None and math.isclose(a, b, rel_tol=2 * torch.finfo(dtype).eps, abs_tol=0)


# ---------------------------------------------------------------- walking


@dataclass
class Product:
    """coefficient * over[0] * over[1] ... / under[0] ..."""

    coefficient: float = 1.0
    over: list[Any] = field(default_factory=list)
    under: list[Any] = field(default_factory=list)


@dataclass
class Match:
    """One attempt at a pattern. inner: the nodes that it went through, the root among them."""

    root: Node
    inner: set[Node] = field(default_factory=set)

    def take(self, x: Any, kind: str) -> tuple[Any, ...]:
        """The operands of x, which must be a call of that kind with the root's dtype."""
        c = call(x)
        need(c and c.kind == kind and val(x).dtype == val(self.root).dtype)
        self.inner.add(x)
        return c.args  # type: ignore[union-attr]

    def is_kind(self, x: Any, *kinds: str) -> bool:
        c = call(x)
        return c is not None and c.kind in kinds

    def closed(self) -> bool:
        """Nothing outside reads an intermediate."""
        return all(u in self.inner for n in self.inner if n is not self.root for u in n.users)

    def product(self, x: Any) -> Product:
        """x as a product of what is not itself a product that only x reads."""
        found = Product()
        self._multiply(x, found, 1, True)
        return found

    def _multiply(self, x: Any, found: Product, sign: int, first: bool) -> None:
        value = number(x)
        if value is not None:
            need(value != 0)
            found.coefficient *= value**sign
            return
        c = call(x)
        inside = c is not None and c.kind in ("mul", "div") and val(x).dtype == val(self.root).dtype
        if not inside or not (first or len(x.users) == 1):
            (found.over if sign > 0 else found.under).append(x)
            return
        assert c is not None
        self.inner.add(x)
        a, b = c.args
        if a is b:
            need(c.kind == "mul" and is_tensor(a))
            (found.over if sign > 0 else found.under).extend((a, a))
            return
        self._multiply(a, found, sign, False)
        self._multiply(b, found, sign if c.kind == "mul" else -sign, False)

    def plus_number(self, x: Any) -> tuple[Any, float]:
        """(y, n) of x = y + n."""
        a, b = self.take(x, "add")
        for y, n in ((a, number(b)), (b, number(a))):
            if n is not None and number(y) is None:
                return y, n
        raise NoMatch

    def square(self, x: Any) -> Any:
        """y of x = y * y or y ** 2."""
        if self.is_kind(x, "pow"):
            y, n = self.take(x, "pow")
            need(n == 2)
            return y
        a, b = self.take(x, "mul")
        need(a is b)
        return a

    def mean(self, x: Any) -> tuple[Any, tuple[int, ...]]:
        """(y, axes) of x = y.mean(axes, keepdim=True), or the sum divided by their size."""
        if self.is_kind(x, "mean"):
            y, axes, keepdim = self.take(x, "mean")
            need(keepdim)
            return y, axes
        p = self.product(x)
        need(len(p.over) == 1 and not p.under)
        y, axes, keepdim = self.take(p.over[0], "sum")
        size = math.prod(val(y).shape[a] for a in axes)
        need(keepdim and isinstance(size, int) and size and close(p.coefficient, 1 / size, val(x).dtype))
        return y, axes

    def inverse_root(self, p: Product) -> Iterator[tuple[Any, list[Any]]]:
        """(y, other factors) of p = other factors / sqrt(y), for every factor that is such a root."""
        for i, f in enumerate(p.over):
            rest = p.over[:i] + p.over[i + 1 :]
            if p.under:
                continue
            if self.is_kind(f, "rsqrt"):
                yield self.take(f, "rsqrt")[0], rest
            elif self.is_kind(f, "pow") and call(f).args[1] == -0.5:  # type: ignore[union-attr]
                yield self.take(f, "pow")[0], rest
            elif self.is_kind(f, "reciprocal"):
                yield self._root(self.take(f, "reciprocal")[0]), rest
        if len(p.under) == 1:
            yield self._root(p.under[0]), p.over

    def _root(self, x: Any) -> Any:
        if self.is_kind(x, "pow"):
            y, n = self.take(x, "pow")
            need(n == 0.5)
            return y
        return self.take(x, "sqrt")[0]


def through(x: Any, *kinds: str) -> Any:
    """x behind calls of these kinds: ("same",) leaves copies away."""
    while (c := call(x)) is not None and c.kind in kinds:
        x = c.args[0]
    return x
