"""Compares sorted values and their indices. For equal elements, torch promises the first index only in a stable sort.
Otherwise indices are right if they are in range, differ from each other and select the values that torch found."""

from typing import Any

import torch
import torch.utils._pytree as pytree

# Maps an op to the position of its argument dim. max and min are absent: their contract is the first of equal elements.
DIM = {"sort": 1, "argsort": 1, "topk": 2, "kthvalue": 2, "median": 1, "nanmedian": 1, "mode": 1}


def is_free(name: str, sample: Any) -> bool:
    """True if the sample returns indices, and those of equal elements may differ."""
    args, kwargs = _call(sample)
    whole = name in ("median", "nanmedian") and len(args) == 1 and "dim" not in kwargs
    return name in DIM and not whole and not kwargs.get("stable")


def _call(sample: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    leaves = list(sample.module.leaves)
    for i, t in zip(sample.module.places, sample.tensors, strict=True):
        leaves[i] = t
    return pytree.tree_unflatten(leaves, sample.module.spec)


def canonical(name: str, sample: Any, ours: list[Any], want: list[Any]) -> list[Any]:
    """Returns our results, with torch's indices instead of ours if ours are as right."""
    if len(ours) != len(want) or not isinstance(ours[-1], torch.Tensor):
        return ours
    args, kwargs = _call(sample)
    x = args[0].reshape(-1) if args[0].dim() == 0 else args[0]
    axis = kwargs.get("dim", args[DIM[name]] if len(args) > DIM[name] else -1) % x.dim()
    mine, theirs = ours[-1], want[-1]
    if mine.dtype != theirs.dtype or mine.shape != theirs.shape:
        return ours
    return [*ours[:-1], theirs] if _as_right(x, axis, mine, theirs) else ours


def _as_right(x: torch.Tensor, axis: int, mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    if mine.dim() == x.dim() - 1:
        mine, theirs = mine.unsqueeze(axis), theirs.unsqueeze(axis)
    if mine.dim() < x.dim():  # a 0-d operand
        mine, theirs = mine.reshape(1), theirs.reshape(1)
    if not mine.numel():
        return True
    if mine.min() < 0 or mine.max() >= x.shape[axis]:
        return False
    places = mine.sort(axis).values
    if (places.diff(dim=axis) == 0).any():
        return False
    a, b = x.gather(axis, mine), x.gather(axis, theirs)
    return bool(((a == b) | ((a != a) & (b != b))).all())
