"""Makes many exports in one process faster: caches results that torch computes again in each, although they do not
change."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._export.utils as utils
from torch._C import DispatchKey
from torch._ops import OperatorBase
from torch._subclasses import fake_impls


def speed_up_export() -> None:
    """Caches two slow steps: a search for composite ops in every namespace, and the registration of some five thousand
    kernels for them, by a function that makes a generic type for each."""
    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)
    utils._is_preservable_cia_op = functools.cache(utils._is_preservable_cia_op)
    torch.export.exported_program._is_preservable_cia_op = utils._is_preservable_cia_op
    OperatorBase.py_impl = _quick_py_impl
    if torch.export.exported_program._override_composite_implicit_decomp is not _override:
        _Overrides.make = torch.export.exported_program._override_composite_implicit_decomp
        torch.export.exported_program._override_composite_implicit_decomp = _override


_py_impl = OperatorBase.py_impl


def _quick_py_impl(op: Any, key: Any) -> Callable[[Any], Any]:
    """Replaces OperatorBase.py_impl for new dispatch keys; calls torch's own for all other keys."""
    if not isinstance(key, DispatchKey) or key == DispatchKey.Python or key in op.py_kernels:
        return _py_impl(op, key)

    def register(kernel):
        op.py_kernels[key] = kernel
        op._dispatch_cache.clear()
        return kernel

    return register


class _Overrides:
    """Keeps the kernels and fake rules that torch registers for composite ops while it decomposes a graph."""

    make: Any = None
    kept: dict[tuple, list[tuple[Any, dict, Any]]] = {}


@contextlib.contextmanager
def _override(callables: dict[Any, Callable]) -> Iterator[None]:
    """Calls torch's own function at first; then, for the same ops, restores the tables that it made."""
    key = tuple((str(op), getattr(f, "__qualname__", type(f).__qualname__)) for op, f in callables.items())
    rules = fake_impls.op_implementations_dict
    if key not in _Overrides.kept:
        with _Overrides.make(callables):
            _Overrides.kept[key] = [(op, dict(op.py_kernels), rules.get(op)) for op in callables]
            yield
        return
    before = [(op, op.py_kernels, rules.get(op)) for op in callables]
    _put(rules, [(op, dict(kernels), rule) for op, kernels, rule in _Overrides.kept[key]])
    try:
        yield
    finally:
        _put(rules, before)


def _put(rules: dict, tables: list[tuple[Any, dict, Any]]) -> None:
    for op, kernels, rule in tables:
        op.py_kernels = kernels
        op._dispatch_cache.clear()
        if rule is None:
            rules.pop(op, None)
        else:
            rules[op] = rule
