"""Names symbolic sizes in the user's words: by their torch.export.Dim, or by an input and axis that has the size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind

from clave.arguments import refused
from clave.builder import MethodBuilder, Slot
from clave.errors import Error
from clave.private import SYMBOL


def words(x: Any, names: dict[Any, str]) -> str:
    """Returns an expression, or a text that contains some, with the user's names of symbols."""
    by_text = {str(symbol): name for symbol, name in names.items()}
    return SYMBOL.sub(lambda m: by_text.get(m[0], m[0]), str(x))


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def dim_names(
    program: ExportedProgram, dynamic_shapes: Any = None, inputs: Sequence[str] | None = None
) -> dict[Any, str]:
    """Returns a name for each symbol of the inputs: the name of its Dim, or a text such as "x.shape[0]". inputs: the
    user's names of the inputs."""
    named = _names_of_dims(program, dynamic_shapes)
    found = _inputs(program)
    for (own, fake), given in zip(found, [*(inputs or ()), *(n for n, _ in found[len(inputs or ()) :])], strict=False):
        for where, size in _sizes_of(given or own, fake):
            e = _expression(size)
            if isinstance(e, sympy.Symbol):
                named.setdefault(e, where)
    return named


def _inputs(program: ExportedProgram) -> list[tuple[str, Any]]:
    fakes = {n.name: n.meta.get("val") for n in program.graph_module.graph.nodes if n.op == "placeholder"}
    specs = (s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT)
    return [(s.arg.name, fakes.get(s.arg.name)) for s in specs if not isinstance(s.arg, ConstantArgument)]


def _sizes_of(name: str, fake: Any) -> list[tuple[str, Any]]:
    if isinstance(fake, torch.Tensor):
        return [(f"{name}.shape[{axis}]", size) for axis, size in enumerate(fake.shape)]
    return [(name, fake)]


def _names_of_dims(program: ExportedProgram, dynamic_shapes: Any) -> dict[Any, str]:
    """Returns the names of torch.export.Dim objects by symbol, or {} if two symbols have one name."""
    names: dict[Any, str] = {}
    if isinstance(dynamic_shapes, dict):  # by forward's names, in any order
        order = getattr(program.module_call_graph[0].signature, "forward_arg_names", None) or []
        dynamic_shapes = {n: dynamic_shapes[n] for n in [*order, *dynamic_shapes] if n in dynamic_shapes}
    tensors = [fake for _, fake in _inputs(program) if isinstance(fake, torch.Tensor)]
    for fake, dims in zip(tensors, _dims_per_tensor(dynamic_shapes), strict=False):
        for axis, dim in dims.items() if isinstance(dims, dict) else enumerate(dims or ()):
            e = _expression(fake.shape[axis]) if axis < fake.dim() else None
            dim = getattr(dim, "root", dim) if not isinstance(e, sympy.Symbol) else dim
            name, symbols = getattr(dim, "__name__", None), getattr(e, "free_symbols", ())
            if name and len(symbols) == 1:
                names[next(iter(symbols))] = name
    return names if len(set(names.values())) == len(names) else {}


def _dims_per_tensor(shapes: Any) -> list[Any]:
    """Returns one {axis: Dim} (or sequence) per tensor, if the structure is simple enough to tell."""
    found: list[Any] = []

    def is_dims(x: Any) -> bool:
        values = list(x.values()) if isinstance(x, dict) else x
        keys = all(isinstance(k, int) for k in x) if isinstance(x, dict) else True
        return keys and bool(values) and not any(isinstance(v, dict | list | tuple) for v in values)

    def walk(x: Any) -> None:
        if x is None or (isinstance(x, dict | list | tuple) and is_dims(x)):
            found.append(x or {})
        elif isinstance(x, dict | list | tuple):
            for child in x.values() if isinstance(x, dict) else x:
                walk(child)

    walk(shapes)
    return found


# ---------------------------------------------------------------- inputs and outputs

Names = Sequence[str] | Mapping[str, Sequence[str]] | None


def by_method(what: str, names: Names, methods: Sequence[str]) -> dict[str, list[str] | None]:
    """Returns the user's names of each method's inputs or outputs, None for a method without names. Raises Error if
    they are malformed. names: a list for a single method, or a dict of lists."""
    if names is None:
        return dict.fromkeys(methods)
    if isinstance(names, str | bytes) or not isinstance(names, Mapping | Sequence):
        raise refused(what, "a list of names, or a dict of lists by method", names)
    if not isinstance(names, Mapping):
        if len(methods) > 1:
            raise Error(f"{what} is a list and there are {len(methods)} methods: pass a dict of lists by method")
        names = {methods[0]: names}
    for name in names:
        if name not in methods:
            raise Error(f"{what} has names for {name!r}, the methods are {', '.join(methods)}")
    return {m: _checked(what, m, names[m]) if m in names else None for m in methods}


def _checked(what: str, method: str, names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) and n for n in names):
        raise Error(f"{what} of method {method!r}: expected a list of names, got {names!r}")
    twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if twice is not None:
        raise Error(f"{what} of method {method!r} has {twice!r} twice")
    return list(names)


def rename(method: MethodBuilder, inputs: list[str] | None, outputs: list[str] | None) -> None:
    """Renames a method's inputs and outputs. Raises Error if the number of names differs."""
    method.inputs = _renamed("input", method, method.inputs, inputs)
    for name, x in method.inputs:
        if isinstance(x, Slot):
            x.name = name
    method.outputs = _renamed("output", method, method.outputs, outputs)


def _renamed(what: str, method: MethodBuilder, have: list[tuple[str, Any]], names: list[str] | None) -> Any:
    if names is None:
        return have
    if len(names) != len(have):
        has = f"{len(have)} {what}{'' if len(have) == 1 else 's'}: {', '.join(n for n, _ in have)}"
        raise Error(f"{what}_names has {len(names)}, method {method.name!r} has {has}")
    return [(name, x) for name, (_, x) in zip(names, have, strict=True)]
