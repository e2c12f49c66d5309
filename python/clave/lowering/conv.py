"""Convolution and its transpose over one to three spatial dimensions."""

from __future__ import annotations

from clave.builder import Int
from clave.errors import Unsupported
from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import insert, reshape
from clave.lowering.steps import slot_as


def numbers(values: list[Int], n: int) -> list[int]:
    """Returns n literal numbers. A single number is repeated. Raises Unsupported if one is known only at run time."""
    if not all(isinstance(v, int) for v in values):
        raise Unsupported("an attribute known only at run time")
    return list(values) * n if len(values) == 1 else list(values)  # type: ignore[arg-type]


@lower("aten.convolution.default")
def convolution(
    c: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[Int],
    padding: list[Int],
    dilation: list[Int],
    transposed: bool,
    output_padding: list[Int],
    groups: int,
) -> Tensor:
    n = weight.rank - 2
    if n > 3:
        raise Unsupported(f"{n} spatial dimensions")
    batch = x if x.rank == n + 2 else insert(c, x, 0)
    operands = {"x": batch, "weight": weight} | ({} if bias is None else {"bias": bias})
    slots = {k: slot_as(c, v, c.dtype()) for k, v in operands.items()}
    window = {"stride": numbers(stride, n), "padding": numbers(padding, n), "dilation": numbers(dilation, n)}
    shape = c.shape() if batch is x else (1, *c.shape())
    if transposed:
        window["output_padding"] = numbers(output_padding, n)
    op = "ConvTranspose" if transposed else "Conv"
    return reshape(c, c.emit(op, **slots, **window, groups=groups, shape=shape), c.shape())


@lower("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    c: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[Int],
    padding: list[Int],
    dilation: list[Int],
    groups: int,
) -> Tensor:
    return convolution(c, x, weight, bias, stride, padding, dilation, False, [0], groups)


@lower("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    c: Context,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[Int],
    padding: list[Int],
    output_padding: list[Int],
    groups: int,
    dilation: list[Int],
) -> Tensor:
    return convolution(c, x, weight, bias, stride, padding, dilation, True, output_padding, groups)
