"""Views that keep the elements: reshape, permute, expand, and ops that are made of them."""

from __future__ import annotations

from clave.builder import Int, Slot
from clave.lowering.registry import Context, Filled, Tensor, lower


def reshape(c: Context, x: Tensor, shape: tuple[Int, ...]) -> Tensor:
    if shape == x.shape:
        return x
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, shape)
    return c.builder.view("Reshape", x, shape, shape=list(shape))


def permute(c: Context, x: Tensor, dims: list[int]) -> Tensor:
    dims = [d % x.rank for d in dims]
    if dims == list(range(x.rank)):
        return x
    shape = tuple(x.shape[d] for d in dims)
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, shape)
    return c.builder.view("Permute", x, shape, dims=dims)


def expand(c: Context, x: Tensor, shape: tuple[Int, ...]) -> Tensor:
    if shape == x.shape:
        return x
    if isinstance(x, Filled):
        return Filled(x.value, x.dtype, shape)
    return c.builder.view("Expand", x, shape, shape=list(shape))


def swap(c: Context, x: Slot, a: int, b: int) -> Slot:
    """Returns x with two dimensions exchanged."""
    dims = list(range(x.rank))
    dims[a], dims[b] = dims[b], dims[a]
    return c.tensor(permute(c, x, dims))


def insert(c: Context, x: Tensor, axis: int) -> Tensor:
    """Returns x with a dimension of size 1 inserted before `axis`."""
    return reshape(c, x, (*x.shape[:axis], 1, *x.shape[axis:]))


RESHAPES = (
    "aten.view.default",
    "aten.reshape.default",
    "aten._unsafe_view.default",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.view_as.default",
    "aten.reshape_as.default",
)


@lower(*RESHAPES)
def reshaped(c: Context, x: Tensor, *_: object) -> Tensor:
    """Lowers all of RESHAPES by the shape of the result, which torch has computed."""
    return reshape(c, x, c.shape())


@lower("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")
def expanded(c: Context, x: Tensor, *_: object) -> Tensor:
    return expand(c, x, c.shape())


@lower("aten.permute.default")
def permuted(c: Context, x: Tensor, dims: list[int]) -> Tensor:
    return permute(c, x, dims)


@lower("aten.transpose.int")
def transpose(c: Context, x: Tensor, a: int, b: int) -> Tensor:
    if x.rank == 0:
        return x
    dims = list(range(x.rank))
    dims[a], dims[b] = dims[b], dims[a]
    return permute(c, x, dims)


@lower("aten.t.default", "aten.numpy_T.default", "aten.mT.default")
def t(c: Context, x: Tensor) -> Tensor:
    return permute(c, x, [*range(x.rank - 2), *range(x.rank)[-2:][::-1]])


@lower("aten.repeat.default", "aten.tile.default")
def repeat(c: Context, x: Tensor, repeats: list[Int]) -> Tensor:
    """Splits repeated dimensions into (times, size), expands and joins them. Only expands new leading dimensions."""
    sizes = (1,) * (len(repeats) - x.rank) + x.shape
    repeats = [1] * (len(sizes) - len(repeats)) + list(repeats)
    split: list[Int] = []
    grown: list[Int] = []
    for times, size in zip(repeats, sizes, strict=True):
        if times != 1 and size != 1:
            split.append(1)
            grown.append(times)
        split.append(size)
        grown.append(times if size == 1 else size)
    wide = expand(c, reshape(c, x, tuple(split)), tuple(grown))
    return reshape(c, wide, c.shape())


@lower("aten.pixel_shuffle.default")
def pixel_shuffle(c: Context, x: Tensor, factor: int) -> Tensor:
    """Moves elements from (*, C r r, H, W) to (*, C, H r, W r)."""
    n, (_, h, w) = x.rank - 3, x.shape[-3:]
    lead, out = x.shape[:-3], c.shape()[-3]
    split = reshape(c, x, (*lead, out, factor, factor, h, w))
    moved = permute(c, split, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return reshape(c, moved, c.shape())
