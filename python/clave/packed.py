"""Recognises weights that are computed from constants, as in quantised models, and keeps them as codes and scales.

A weight is recognised by its values, not by the ops of a library. torch computes the weight, which is then divided by
each operand that may be its scales. It stays quantised if the quotients are whole numbers of few bits that reproduce
the weight bit for bit. This works for weights of GPTQ, torchao, pt2e and unknown code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

from clave.encodings import Groups, Stored
from clave.evaluation import Evaluator
from clave.lowering.registry import op_name

# Index of the argument of an op that is a weight, by rows or by columns.
_CONVOLUTIONS = ("convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d")
_ROWS = {"aten.linear.default": 1, "aten.embedding.default": 0} | {f"aten.{c}.default": 1 for c in _CONVOLUTIONS}
_ROWS |= {f"aten.conv_transpose{n}d.input": 1 for n in (2, 3)}
_COLUMNS = {"aten.mm.default": 1, "aten.matmul.default": 1, "aten.addmm.default": 2}
_SCALES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_FLOATS = {torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2"}
_BITS = (2, 3, 4, 5, 6, 8)
_PARAMETRIZED = re.compile(r"\bparametrizations\.(\w+)\.original\d*$")


@dataclass(frozen=True)
class Packed:
    """A weight (n, ...) as rows of codes. is_transposed: the node's value is the weight's transpose. Such a
    weight is a matrix."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stored: Stored
    is_transposed: bool


def pack(node: Node, evaluator: Evaluator) -> Packed | None:
    """Returns the value of a node as codes if it is the weight of a product, an embedding or a convolution, is computed
    from fewer bytes than its own, and codes reproduce it bit for bit. Otherwise returns None."""
    is_transposed = _is_weight(node)
    if is_transposed is None or not evaluator.is_known(node):
        return None
    tensors, numbers = evaluator.sources(node)
    if not tensors:
        return None  # it is computed by factories alone, so there are no codes to keep
    known = list(tensors.values())
    val = node.meta["val"]
    if sum(t.nbytes for t in known) >= val.numel() * val.element_size():
        return None
    weight = evaluator.value(node).T if is_transposed else evaluator.value(node)
    evaluator.forget()
    found = recover(weight.flatten(1), known, numbers)
    if found is None:
        return None
    largest = max(tensors, key=lambda name: tensors[name].nbytes)
    return Packed(_PARAMETRIZED.sub(r"\1", largest), weight.dtype, tuple(weight.shape), found, is_transposed)


def _is_weight(node: Node) -> bool | None:
    """True if a product reads the node as (k, n), False for other weights, None if the node is not a weight."""
    val = node.meta.get("val")
    if node.op != "call_function" or not isinstance(val, torch.Tensor) or val.dim() < 2 or val.dtype not in _SCALES:
        return None
    for table, is_transposed in ((_ROWS, False), (_COLUMNS, True)):
        if is_transposed and val.dim() > 2:
            return None
        for user in node.users:
            at = table.get(op_name(user.target))
            if at is not None and at < len(user.args) and user.args[at] is node:
                return is_transposed
    return None


# ---------------------------------------------------------------- numbers


def recover(weight: torch.Tensor, tensors: list[torch.Tensor], numbers: list[float]) -> Stored | None:
    """Returns the codes of a weight (n, k) that is computed from these tensors and numbers, or None if no scale among
    them yields whole numbers or 8-bit floats."""
    for scales in _scales(weight, tensors, numbers):
        found = _floats(weight, scales, tensors) or _integers(weight, scales)
        if found is not None:
            return found
    return None


def _scales(weight: torch.Tensor, tensors: list[torch.Tensor], numbers: list[float]) -> Iterator[torch.Tensor]:
    """Yields tensors that may be the scales, each (n, groups of a row)."""
    n, k = weight.shape
    for t in [*tensors, *(torch.tensor(x, dtype=torch.float32) for x in (*numbers, 1.0))]:
        if t.dtype not in _SCALES or not t.numel() or not n or not k:
            continue
        if t.numel() == 1:
            yield t.reshape(1, 1).expand(n, 1)
        elif t.numel() % n == 0 and _is_group(k, t.numel() // n):
            yield t.reshape(n, -1)
            if t.numel() > n:
                yield t.reshape(-1, n).T


def _is_group(k: int, groups: int) -> bool:
    return groups == 1 or (k % groups == 0 and k // groups % 16 == 0)


def _groups_of(k: int, scales: torch.Tensor, **more: Any) -> Groups:
    groups = scales.shape[1]
    return Groups(group=0 if groups == 1 else k // groups, scale=_SCALES[scales.dtype], **more)


def _floats(weight: torch.Tensor, scales: torch.Tensor, tensors: list[torch.Tensor]) -> Stored | None:
    """Returns codes that are 8-bit floats if they are among the operands, otherwise None."""
    n, k = weight.shape
    for t in tensors:
        if t.dtype not in _FLOATS or t.numel() != weight.numel():
            continue
        for codes in (t.reshape(n, k), t.reshape(k, n).T):
            if torch.equal(_times(codes.float(), scales).to(weight.dtype), weight):
                encoding = _groups_of(k, scales, code=_FLOATS[t.dtype])
                return encoding.stored(codes.contiguous().view(torch.uint8), scales, None)
    return None


def _times(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Multiplies codes (n, k) by scales (n, groups) as base/decode.h does."""
    n, groups = scales.shape
    return (codes.reshape(n, groups, -1) * scales.float()[..., None]).reshape(n, -1)


def _integers(weight: torch.Tensor, scales: torch.Tensor) -> Stored | None:
    n, k = weight.shape
    groups = scales.shape[1]
    parts = weight.float().reshape(n, groups, -1)
    numbers = torch.where(parts == 0, parts, torch.round(parts / scales.float()[..., None]))
    if not torch.equal(_times(numbers, scales).to(weight.dtype), weight):
        return None
    low, high = numbers.amin(2).clamp(max=0), numbers.amax(2).clamp(min=0)
    encoding = _min_bits(k, scales, low, high)
    if encoding is None:
        return None
    zeros = -low if encoding.zeros else torch.full_like(low, 2 ** (encoding.bits - 1))
    codes = (numbers + zeros[..., None]).reshape(n, k).to(torch.uint8)
    return encoding.stored(codes, scales, zeros.to(scales.dtype) if encoding.zeros else None)


def _min_bits(k: int, scales: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> Groups | None:
    """Returns the smallest encoding that holds numbers from low to high, both (n, groups), or None. A zero point costs
    as many bits as a scale."""
    around = next((b for b in _BITS if low.min() >= -(2 ** (b - 1)) and high.max() < 2 ** (b - 1)), None)
    above = next((b for b in _BITS if (high - low).max() < 2**b), None)
    encodings = [_groups_of(k, scales, bits=b, zeros=z) for b, z in ((around, False), (above, True)) if b is not None]
    zero = scales.element_size() * 8
    return min(encodings, key=lambda f: (f.bits * (f.group or k) + f.zeros * zero, f.bits), default=None)
