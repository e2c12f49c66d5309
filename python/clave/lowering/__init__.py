"""Lowers each op of a torch graph to ops of a program. One file per family; `registry.LOWERINGS` has all lowerings."""

from __future__ import annotations

import importlib
import pkgutil

import torch

from clave.lowering.registry import LOWERINGS, Context, Filled, lower

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def _lower_copies() -> None:
    """Lowers an op that copies a view (aten.view_copy) as the view, because nothing is changed in place here."""
    for name in [n for n in LOWERINGS if n.startswith("aten.")]:
        _, op, overload = name.split(".")
        copy = getattr(getattr(torch.ops.aten, f"{op}_copy", None), overload, None)
        if copy is not None and torch.Tag.view_copy in copy.tags:
            LOWERINGS[f"aten.{op}_copy.{overload}"] = LOWERINGS[name]


_lower_copies()

__all__ = ["LOWERINGS", "Context", "Filled", "lower"]
