"""Attention written out: softmax(q k^T * scale + mask) v, with repeated key heads; and what its mask really is.

In the 16-bit floats torch rounds scores and probabilities in between; the whole op does not, like torch's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

import clave.ops  # noqa: F401 (registers clave::attention)
from clave.patterns.calls import Match, NoMatch, arguments, call, is_tensor, need, number, same, through, val
from clave.patterns.registry import pattern
from clave.patterns.rewrite import constant, emit, reshaped
from clave.trace import op_name

aten = torch.ops.aten
INF = float("inf")
Sizes = tuple[Any, ...]


@dataclass
class Scores:
    """What stands inside the softmax. q: (lead, Lq, D), kt: (lead, D, Lk), by their nodes."""

    q: Any = None
    kt: Any = None
    scale: float = 1.0
    added: list[tuple[Any, Sizes]] = field(default_factory=list)  # with the leading sizes of the scores there
    condition: Any = None  # a BOOL tensor
    condition_lead: Sizes = ()  # the leading sizes of the scores where it is applied
    hides: bool = False  # the condition is true where a key is hidden, else where it is seen
    fill: float = -INF  # what a hidden key's score is


class _Reader:
    """Takes the argument of a softmax apart."""

    def __init__(self, m: Match, shape: Any, dtypes: tuple[torch.dtype, ...]) -> None:
        self.m = m
        self.shape = shape
        self.dtypes = dtypes
        self.found = Scores()

    def read(self, x: Any) -> None:
        """Follows x down to the product of q and k."""
        c = call(x)
        need(c is not None and val(x).dtype in self.dtypes)
        self.m.inner.add(x)
        handler = getattr(self, f"_{c.kind}", None)  # type: ignore[union-attr]
        need(handler)
        handler(x, *c.args)  # type: ignore[union-attr, misc]

    def _cast(self, node: Node, x: Any) -> None:
        self.read(x)

    def _same(self, node: Node, x: Any) -> None:
        self.read(x)

    def _reshape(self, node: Node, x: Any) -> None:
        need(same(val(node).shape[-2:], val(x).shape[-2:]))
        self.read(x)

    def _expand(self, node: Node, x: Any) -> None:
        need(same(val(node).shape, val(x).shape))
        self.read(x)

    def _mul(self, node: Node, a: Any, b: Any) -> None:
        x, n = (a, number(b)) if number(b) is not None else (b, number(a))
        need(n is not None)
        self.found.scale *= n  # type: ignore[operator]
        self.read(x)

    def _div(self, node: Node, a: Any, b: Any) -> None:
        n = number(b)
        need(n)
        self.found.scale /= n  # type: ignore[operator]
        self.read(a)

    def _add(self, node: Node, a: Any, b: Any) -> None:
        need(self.found.scale == 1 and is_tensor(a) and is_tensor(b))
        saved = (set(self.m.inner), list(self.found.added))
        for scores, bias in ((a, b), (b, a)):
            if not same(val(scores).shape, val(node).shape):
                continue
            try:
                self.found.added = [*saved[1], (bias, _leading(node))]
                return self.read(scores)
            except NoMatch:
                self.m.inner = set(saved[0])
                self.found.scale = 1.0
        raise NoMatch

    def _where(self, node: Node, condition: Any, a: Any, b: Any) -> None:
        f = self.found
        need(f.condition is None and not f.added and f.scale == 1 and is_tensor(condition))
        f.hides = number(a) is not None
        fill = number(a) if f.hides else number(b)
        need(fill is not None and val(condition).dtype == torch.bool)
        f.condition, f.fill = condition, float(fill)  # type: ignore[arg-type]
        f.condition_lead = _leading(node)
        self.read(b if f.hides else a)
        need(not f.added)

    def _baddbmm(self, node: Node, bias: Any, a: Any, b: Any, alpha: float) -> None:
        need(self.found.scale == 1)
        self.found.added.append((bias, _leading(node)))
        self.found.scale = alpha
        self._matmul(node, a, b)

    def _matmul(self, node: Node, a: Any, b: Any) -> None:
        need(val(node).dim() >= 3)
        self.found.q = self._unscaled(a)
        self.found.kt = self._unscaled(b)

    def _unscaled(self, x: Any) -> Any:
        """x without a number that it alone is multiplied by, perhaps before a change of its leading sizes."""
        path: list[Node] = []
        y = x
        while (c := call(y)) is not None and len(y.users) == 1:
            path.append(y)
            if c.kind in ("mul", "div") and is_tensor(c.args[0]) and (n := number(c.args[1])):
                self.m.inner.update(path)
                self.found.scale *= n if c.kind == "mul" else 1 / n
                return c.args[0]
            if c.kind not in ("reshape", "same") or not same(val(y).shape[-2:], val(c.args[0]).shape[-2:]):
                break
            y = c.args[0]
        return x


def _leading(x: Node) -> Sizes:
    return tuple(val(x).shape[:-2])


def _probabilities(m: Match, x: Any) -> tuple[Node, bool]:
    """The softmax that x is, and whether it is torch's safe one, where a row of -inf becomes 0."""
    dtype = val(m.root).dtype
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    safe = False
    while True:
        c = call(x)
        need(c is not None and val(x).dtype in (dtype, wide))
        m.inner.add(x)
        kind = c.kind  # type: ignore[union-attr]
        if kind == "softmax":
            need(c.args[1] == val(x).dim() - 1)  # type: ignore[union-attr]
            return x, safe
        if kind == "where" and not safe:
            x, safe = _safe(m, *c.args), True  # type: ignore[union-attr]
            continue
        need(kind in ("cast", "same", "reshape", "expand"))
        inner = c.args[0]  # type: ignore[union-attr]
        need(
            same(val(x).shape[-2:], val(inner).shape[-2:])
            and (kind != "expand" or same(val(x).shape, val(inner).shape))
        )
        x = inner


def _safe(m: Match, condition: Any, zero: Any, x: Any) -> Any:
    """x of where(not any(scores != -inf), 0, x) with x = softmax(scores), as _safe_softmax decomposes."""
    need(_all_zero(zero))
    if isinstance(zero, Node):
        m.inner.add(zero)
    softmax = call(x)
    need(softmax is not None and softmax.kind == "softmax")
    node = condition
    for name in ("logical_not.default", "any.dim", "logical_not.default", "eq.Scalar"):
        need(isinstance(node, Node) and node.op == "call_function" and op_name(node.target) == f"aten.{name}")
        m.inner.add(node)
        args = arguments(node)
        need(name != "any.dim" or (args[1] in (-1, val(args[0]).dim() - 1) and args[2]))
        need(name != "eq.Scalar" or args[1] == -INF)
        node = args[0]
    need(node is softmax.args[0])  # type: ignore[union-attr]
    return x


def _all_zero(x: Any) -> bool:
    return number(x) == 0 or (isinstance(x, Node) and fill_of(x) == 0)


@pattern("attention", "matmul")
def attention(m: Match) -> Any:
    """softmax(q k^T * scale + mask) v."""
    c = call(m.root)
    p, v = c.args  # type: ignore[union-attr]
    dtype = val(m.root).dtype
    need(dtype.is_floating_point and is_tensor(p) and is_tensor(v) and val(m.root).dim() >= 3)
    softmax, safe = _probabilities(m, p)
    dtypes = (dtype,) if dtype in (torch.float32, torch.float64) else (dtype, torch.float32)
    reader = _Reader(m, val(softmax).shape, dtypes)
    reader.read(call(softmax).args[0])  # type: ignore[union-attr]
    f = reader.found
    need(val(f.q).dtype == val(f.kt).dtype == val(v).dtype == dtype and math.isfinite(f.scale))
    lead = _lead(val(softmax), val(f.q), val(f.kt), val(v))
    plan = _mask_plan(m, f, val(softmax), dtype, safe)
    return lambda: _write(m, f, v, lead, plan, safe)


def _lead(probabilities: torch.Tensor, *operands: torch.Tensor) -> tuple[Any, ...]:
    """The leading sizes of the softmax, to which all operands come by a reshape or have already (or 1 in heads)."""
    lead = tuple(probabilities.shape[:-2])
    need(lead)
    for t in operands:
        need(_fits(t, lead))
    return lead


def _fits(t: torch.Tensor, lead: tuple[Any, ...]) -> bool:
    if t.dim() - 2 == len(lead):
        return all(same(a, b) or same(a, 1) for a, b in zip(t.shape[:-2], lead, strict=True))
    return same(math.prod(t.shape[:-2]), math.prod(lead))


def _lift(m: Match, x: Any, lead: tuple[Any, ...]) -> Any:
    """x with those leading dimensions."""
    if val(x).dim() - 2 == len(lead):
        return x
    return reshaped(m.root, x, [*lead, *val(x).shape[-2:]])


def _spread(m: Match, x: Any, lead: tuple[Any, ...]) -> Any:
    """x repeated along the leading dimensions of which it has 1."""
    if same(val(x).shape[:-2], lead):
        return x
    return emit(m.root, aten.expand.default, x, [*lead, *val(x).shape[-2:]])


def _is_one_group(k: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether k and v have the same heads, which attention may have fewer of than q."""
    return same(k.shape[:-2], v.shape[:-2])


# ---------------------------------------------------------------- masks


def _mask_plan(m: Match, f: Scores, scores: torch.Tensor, dtype: torch.dtype, safe: bool) -> Any:
    """What becomes of the mask: ("none" | "bool" | "add" | "seen", nodes)."""
    lead = tuple(scores.shape[:-2])
    if f.condition is not None:
        need(not safe and _can_view(val(f.condition), f.condition_lead, lead))
        return ("bool", f.condition)
    if not f.added:
        return ("none", None)
    for a, there in f.added:
        need(is_tensor(a) and val(a).dtype.is_floating_point and _can_view(val(a), there, lead))
    if safe and len(f.added) == 1 and (seen := _seen(f.added[0][0])) is not None:
        need(same(f.added[0][1], lead))
        return ("seen", seen)
    need(all(val(a).dtype == dtype for a, _ in f.added))
    return ("add", f.added)


def _can_view(t: torch.Tensor, there: Sizes, lead: Sizes) -> bool:
    """Whether a mask that was added to scores of the leading sizes `there` can be added under `lead`: those are equal,
    or the mask is the same for all leading indices, or has an entry for each."""
    return same(there, lead) or _is_shared(t) or same(math.prod(t.shape[:-2]), math.prod(lead))


def _is_shared(t: torch.Tensor) -> bool:
    return all(same(n, 1) for n in t.shape[:-2])


def _viewed(m: Match, x: Any, there: Sizes, lead: Sizes) -> Any:
    """The mask as one for scores of the leading sizes `lead`."""
    t = val(x)
    if same(there, lead) or (_is_shared(t) and t.dim() - 2 <= len(lead)):
        return x
    sizes = [1] * len(lead) if _is_shared(t) else lead
    return reshaped(m.root, x, [*sizes, *t.shape[-2:]])


def _seen(bias: Any) -> Any:
    """The BOOL tensor of a bias that is 0 where it is true and -inf elsewhere."""
    c = call(through(bias, "same"))
    if c is not None and c.kind == "where" and number(c.args[1]) == 0 and number(c.args[2]) == -INF:
        return c.args[0]
    data = constant_of(bias)
    if data is not None and bool(((data == 0) | (data == -INF)).all()):
        return data == 0
    return None


def constant_of(x: Any) -> torch.Tensor | None:
    """The data of a constant behind views that keep all of it."""
    x = through(x, "same")
    found = x.meta.get("constant") if isinstance(x, Node) else None
    if found is not None:
        return found
    c = call(x)
    if c is not None and c.kind == "reshape" and (data := constant_of(c.args[0])) is not None:
        return data.reshape(tuple(val(x).shape))
    if c is not None and c.kind == "expand" and (data := constant_of(c.args[0])) is not None:
        return data.expand(tuple(val(x).shape))
    return None


def _write_mask(m: Match, f: Scores, lead: tuple[Any, ...], plan: Any) -> Any:
    kind, what = plan
    if kind == "none":
        return None
    if kind == "bool":
        mask = _viewed(m, what, f.condition_lead, lead)
        return emit(m.root, aten.logical_not.default, mask) if f.hides else mask
    if kind == "seen":
        return constant(m.root.graph, m.root, what, "mask") if isinstance(what, torch.Tensor) else what
    lifted = [_viewed(m, a, there, lead) for a, there in what]
    total = lifted[0]
    for a in lifted[1:]:
        total = emit(m.root, aten.add.Tensor, total, a)
    return total


# ---------------------------------------------------------------- writing


def _write(m: Match, f: Scores, v: Any, lead: tuple[Any, ...], plan: Any, safe: bool) -> Node:
    q, v = _spread(m, _lift(m, f.q, lead), lead), _lift(m, v, lead)
    k = _transposed(m, f.kt, lead)
    if not (_is_one_group(val(k), val(v)) and same(val(k).shape[:-3], lead[:-1])):
        k, v = _spread(m, k, lead), _spread(m, v, lead)
    lower = plan[0] == "seen" and _is_lower_triangle(plan[1])
    mask = None if lower else _write_mask(m, f, lead, plan)
    masked = None if safe else f.fill
    kv = ungrouped(k), ungrouped(v)
    if kv[0] is not None and kv[1] is not None and same(val(kv[0]).shape[:-1], val(kv[1]).shape[:-1]):
        k, v = kv
    out = emit(m.root, torch.ops.clave.attention.default, q, k, v, mask, f.scale, lower, masked)
    return (
        out
        if same(val(out).shape, val(m.root).shape)
        else emit(m.root, aten.reshape.default, out, list(val(m.root).shape))
    )


def _transposed(m: Match, kt: Any, lead: tuple[Any, ...]) -> Any:
    """k of k^T: what was transposed, if kt is that, else kt turned round."""
    x = kt
    while (c := call(x)) is not None:
        if c.kind == "permute":
            dims, rank = c.args[1], len(c.args[1])
            swapped = (*range(rank - 2), rank - 1, rank - 2)
            if dims == swapped and _fits(val(c.args[0]), lead):
                return _lift(m, c.args[0], lead)
            break
        keeps = c.kind in ("same", "reshape") or (c.kind == "expand" and same(val(x).shape, val(c.args[0]).shape))
        if not keeps or not same(val(x).shape[-2:], val(c.args[0]).shape[-2:]):
            break
        x = c.args[0]
    return emit(m.root, aten.transpose.int, _lift(m, kt, lead), -2, -1)


def ungrouped(x: Any) -> Any:
    """y (B, G, L, D) of x (B, G n, L, D) that repeats each head of y n times; None if x is something else."""
    wide = through(x, "same", "reshape")
    c = call(wide)
    if c is None or c.kind != "expand" or val(x).dim() < 3 or val(wide).dim() != val(x).dim() + 1:
        return None
    one = c.args[0]
    y = through(one, "same")
    inner = call(y)
    if inner is not None and inner.kind == "reshape":
        y = inner.args[0]
    rank = val(x).dim()
    if val(y).dim() != rank:
        return None
    *batch, n_kv, length, dim = val(y).shape
    n = val(wide).shape[-3]
    good = (
        same(val(one).shape, [*batch, n_kv, 1, length, dim])
        and same(val(wide).shape, [*batch, n_kv, n, length, dim])
        and same(val(x).shape, [*batch, n_kv * n, length, dim])
    )
    return y if good else None


# ---------------------------------------------------------------- scaled_dot_product_attention


def _sdpa(node: Any) -> tuple[Any, ...] | None:
    named = isinstance(node, Node) and node.op == "call_function"
    return arguments(node) if named and op_name(node.target) == "aten.scaled_dot_product_attention.default" else None


@pattern("grouped_attention", "sdpa")
def grouped_attention(m: Match) -> Any:
    """Attention over repeated key and value heads reads the heads themselves."""
    q, k, v, mask, dropout, causal, scale, grouped = arguments(m.root)
    a, b = ungrouped(k), ungrouped(v)
    need(a is not None and b is not None and not grouped)
    need(same(val(a).shape[:-1], val(b).shape[:-1]) and same(val(q).shape[:-2], val(k).shape[:-2]))
    return lambda: emit(m.root, m.root.target, q, a, b, mask, dropout, causal, scale=scale, enable_gqa=True)


@pattern("attention_mask", "sdpa")
def attention_mask(m: Match) -> Any:
    """A constant mask that hides nothing goes, one that hides later keys becomes the causal flag."""
    q, k, v, mask, dropout, causal, scale, grouped = arguments(m.root)
    need(is_tensor(mask) and not causal)
    plain = _hides_nothing(mask)
    need(plain or _is_causal(mask, val(q).shape[-2], val(k).shape[-2]))
    more = {"scale": scale, "enable_gqa": grouped}
    return lambda: emit(m.root, m.root.target, q, k, v, None, dropout, not plain, **more)


def _hides_nothing(mask: Node) -> bool:
    nothing = val(mask).dtype == torch.bool  # true: attend; of floats 0 is added
    if (value := fill_of(mask)) is not None:
        return bool(value) == nothing
    data = constant_of(mask)
    return data is not None and bool((data == int(nothing)).all())


def fill_of(x: Any) -> Any:
    """The number that all elements of x are."""
    x = through(x, "same", "expand", "reshape")
    if not isinstance(x, Node) or x.op != "call_function":
        return None
    name = op_name(x.target).removeprefix("aten.").removesuffix(".default")
    if name in ("full", "full_like"):
        return x.args[1]
    return {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}.get(name)


def _is_causal(mask: Node, l_q: Any, l_k: Any) -> bool:
    data = constant_of(mask)
    return data is not None and tuple(data.shape[-2:]) == (l_q, l_k) and _is_lower_triangle(data)


def _is_lower_triangle(data: Any) -> bool:
    """Whether a BOOL tensor is true where the last index is no larger than the one before, and nowhere else."""
    if not isinstance(data, torch.Tensor) or data.dtype != torch.bool or data.dim() < 2 or not data.numel():
        return False
    return bool((data == torch.ones(data.shape[-2:], dtype=torch.bool).tril()).all())
