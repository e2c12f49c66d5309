"""Compares factors that are not unique: signs of singular vectors and eigenvectors are free, and equal values admit any
basis of their space. Such vectors are right if they are orthonormal and their product with the values is the matrix
that torch's factors produce. The values themselves are compared one by one."""

from typing import Any

import torch

# Maps an op to the indices of (left vectors, values, right vectors) in its results; True: right vectors are rows.
VECTORS = {
    "linalg.eigh": ((1, 0, 1), False),
    "linalg.svd": ((0, 1, 2), True),
    "svd": ((0, 1, 2), False),
    "pca_lowrank": ((0, 1, 2), False),
}
ROUNDINGS = 8  # roundings of the product's terms, each about the size of the largest value


def canonical(name: str, ours: list[Any], want: list[Any]) -> list[Any]:
    """Returns our results, with torch's vectors instead of ours if ours are as right."""
    (left, values, right), rows = VECTORS[name]
    if [(t.dtype, t.shape) for t in ours] != [(t.dtype, t.shape) for t in want] or not want[left].numel():
        return ours
    columns = lambda r: (r[left].double(), r[values].double(), r[right].mT.double() if rows else r[right].double())
    if not _as_right(columns(ours), columns(want), torch.finfo(want[left].dtype).eps):
        return ours
    return [theirs if i in (left, right) else mine for i, (mine, theirs) in enumerate(zip(ours, want, strict=True))]


def _as_right(ours: Any, want: Any, eps: float) -> bool:
    u, s, v = ours
    size = max(u.shape[-2], v.shape[-2])
    bound = ROUNDINGS * size * eps
    near = lambda a, b, scale: bool(((a - b).abs() <= bound * scale).all())
    is_basis = lambda x: near(x.mT @ x, torch.eye(x.shape[-1], dtype=x.dtype), 1)
    return is_basis(u) and is_basis(v) and near(_product(u, s, v), _product(*want), _largest(want[1]))


def _largest(s: torch.Tensor) -> Any:
    """Returns the largest of each row's values, as a matrix."""
    return s.abs().amax(-1)[..., None, None] if s.shape[-1] else 0


def _product(u: torch.Tensor, s: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Returns u diag(s) v^T; full matrices have vectors without a value."""
    k = s.shape[-1]
    return (u[..., :k] * s.unsqueeze(-2)) @ v[..., :k].mT
