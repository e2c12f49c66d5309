"""Makes many exports in one process faster: what torch does anew at each, though nothing changes between two here."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._export.utils as utils
from torch._C import DispatchKey
from torch._ops import OperatorBase


def speed_up_export() -> None:
    """Most of the time goes into a search for composite ops in every namespace, and into registering some five thousand
    kernels by a function that makes a generic type for each."""
    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)
    utils._is_preservable_cia_op = functools.cache(utils._is_preservable_cia_op)
    torch.export.exported_program._is_preservable_cia_op = utils._is_preservable_cia_op
    OperatorBase.py_impl = _quick_py_impl


_py_impl = OperatorBase.py_impl


def _quick_py_impl(op: Any, key: Any) -> Callable[[Any], Any]:
    """OperatorBase.py_impl for new dispatch keys; torch's own for all else."""
    if not isinstance(key, DispatchKey) or key == DispatchKey.Python or key in op.py_kernels:
        return _py_impl(op, key)

    def register(kernel):
        op.py_kernels[key] = kernel
        op._dispatch_cache.clear()
        return kernel

    return register
