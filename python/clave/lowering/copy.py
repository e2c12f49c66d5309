"""Ops that only return a tensor or its bytes. Nothing is changed in place here, so a copy is the tensor itself."""

from __future__ import annotations

from typing import Any

import torch

from clave.lowering.registry import Context, Tensor, lower
from clave.lowering.reshape import expand
from clave.lowering.steps import cast_to


@lower(
    "aten.clone.default",
    "aten.alias.default",
    "aten.contiguous.default",
    "aten.detach.default",
    "aten.detach_.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "prims.copy_strided.default",
)
def same(c: Context, x: Tensor, *_: Any) -> Tensor:
    return x


@lower(
    "aten.dropout.default", "aten.native_dropout.default", "aten.feature_dropout.default", "aten.alpha_dropout.default"
)
def dropout(c: Context, x: Tensor, p: float, train: bool | None) -> Any:
    """Returns x, because the mode is eval: an export in training mode is refused before lowering."""
    return [x, None] if c.node.target.__name__.startswith("native") else x


@lower("aten.copy.default", "aten.copy_.default")
def copy(c: Context, x: Tensor, source: Tensor, non_blocking: bool) -> Tensor:
    return expand(c, cast_to(c, source, x.dtype), x.shape)


@lower("prims.convert_element_type.default")
def convert(c: Context, x: Tensor, _: torch.dtype) -> Tensor:
    return cast_to(c, x, c.dtype())


@lower("aten.view.dtype")
def bitcast(c: Context, x: Tensor, _: torch.dtype) -> Tensor:
    """Returns the same bytes as another dtype."""
    return x if x.dtype == c.dtype() else c.emit("Bitcast", x=c.tensor(x))
