"""How each op of a torch graph becomes ops of a program: one file per family; `registry.LOWERINGS` has them all."""

from __future__ import annotations

import importlib
import pkgutil

import torch

from clave.lowering.registry import LOWERINGS, Context, Filled, lower

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def _lower_copies() -> None:
    """An op that copies what another views (aten.view_copy) is lowered as that: nothing is changed in place here."""
    for name in [n for n in LOWERINGS if n.startswith("aten.")]:
        _, op, overload = name.split(".")
        copy = getattr(getattr(torch.ops.aten, f"{op}_copy", None), overload, None)
        if copy is not None and torch.Tag.view_copy in copy.tags:
            LOWERINGS[f"aten.{op}_copy.{overload}"] = LOWERINGS[name]


_lower_copies()

__all__ = ["LOWERINGS", "Context", "Filled", "lower"]
