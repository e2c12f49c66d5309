"""How each op of a torch graph becomes ops of a program: one file per family; `registry.LOWERINGS` has them all."""

from __future__ import annotations

import importlib
import pkgutil

from clave.lowering.registry import LOWERINGS, Context, Filled, lower

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["LOWERINGS", "Context", "Filled", "lower"]
