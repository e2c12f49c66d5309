"""Converts copies of a module and its example inputs to another floating-point type, for `dtype=`."""

from __future__ import annotations

import copy
from typing import Any

import torch

from clave.arguments import described
from clave.errors import Code, Error
from clave.private import pytree

_TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class Conversion:
    """Converts the modules of all methods. Modules that share a part share its copy."""

    def __init__(self, dtype: torch.dtype) -> None:
        if not isinstance(dtype, torch.dtype) or dtype not in _TYPES:
            got = dtype if isinstance(dtype, torch.dtype) else described(dtype)
            raise Error(f"dtype: expected {', '.join(map(str, _TYPES))}, got {got}")
        self.dtype = dtype
        self._copies: dict[int, Any] = {}  # deepcopy's memo
        self._modules: list[torch.nn.Module] = []  # kept alive, so that no id in the memo is reused

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """Returns a copy with converted floating-point parameters and buffers. It shares the others with the original.
        Raises Error if the module cannot be copied."""
        for data in (*module.parameters(), *module.buffers()):
            if id(data) not in self._copies:
                self._copies[id(data)] = self._tensor(data)
        self._modules.append(module)
        try:
            return copy.deepcopy(module, self._copies)
        except Exception as e:
            raise Error(
                f"{type(module).__name__} cannot be copied, which dtype= needs: {type(e).__name__}: {e}",
                Code.UNSUPPORTED,
            ) from e

    def inputs(self, given: Any) -> Any:
        """Returns nested arguments with their floating-point tensors converted."""

        def convert(x: Any) -> Any:
            return x.to(self.dtype) if isinstance(x, torch.Tensor) and x.dtype in _TYPES else x

        return pytree.tree_map(convert, given)

    def _tensor(self, data: torch.Tensor) -> torch.Tensor:
        if data.dtype not in _TYPES:  # 8-bit floats are kept, because they are scaled
            return data
        converted = data.detach().to(self.dtype)
        return torch.nn.Parameter(converted, data.requires_grad) if isinstance(data, torch.nn.Parameter) else converted
