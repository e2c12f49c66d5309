"""Checks the entries of clave.export: for each method (module, args, kwargs, dynamic_shapes), or the first of these."""

from __future__ import annotations

from typing import Any

import torch
from torch.export import AdditionalInputs, ShapesCollection

from clave import arguments
from clave.errors import Error


def entries_of(module: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> dict[str, tuple[Any, Any, Any, Any]]:
    """Returns the entry of each method by name. A single module is the method "forward"."""
    if isinstance(module, dict) and not module:
        raise Error("module: expected a module or a dict of methods, got a dict of 0")
    methods = module if isinstance(module, dict) else {"forward": (module, args, kwargs, dynamic_shapes)}
    return {name: entry_of(name, entry) for name, entry in methods.items()}


def entry_of(name: str, entry: Any) -> tuple[Any, Any, Any, Any]:
    """Returns (module, args, kwargs, dynamic_shapes), None for absent ones. Raises Error if one has a wrong type."""
    if not isinstance(name, str) or not name:
        raise arguments.refused("module", "methods by their names", name)
    entry = entry if isinstance(entry, tuple) else (entry,)
    if not 1 <= len(entry) <= 4:
        raise Error(f"method {name!r}: expected (module, args, kwargs, dynamic_shapes), got a tuple of {len(entry)}")
    module, args, kwargs, shapes = (*entry, *(None,) * (4 - len(entry)))
    if args is not None and not isinstance(args, tuple | list):
        one = "; for one input, pass (x,)" if isinstance(args, torch.Tensor) else ""
        raise Error(f"args: expected a tuple of example inputs, got {arguments.described(args)}{one}")
    if kwargs is not None and not (isinstance(kwargs, dict) and all(isinstance(k, str) for k in kwargs)):
        raise arguments.refused("kwargs", "a dict of example inputs by name", kwargs)
    if shapes is not None and not isinstance(shapes, dict | tuple | list | ShapesCollection | AdditionalInputs):
        raise arguments.refused("dynamic_shapes", "a dict, tuple or list as torch.export accepts it", shapes)
    return module, None if args is None else tuple(args), kwargs, shapes
