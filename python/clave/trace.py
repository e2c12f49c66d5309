"""Captures torch's graph of a module with torch.export, and decomposes all ops that clave does not have."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from clave import quantized
from clave.arguments import described, refused
from clave.arguments import path as file_name
from clave.eager_dtypes import with_eager_dtypes
from clave.errors import Code, Error
from clave.flex import flex_attention
from clave.lowering import LOWERINGS
from clave.lowering.registry import COMPLEX, op_name
from clave.places import name_nodes, nodes_of, origin_of, users_line
from clave.private import (
    OpOverload,
    OpOverloadPacket,
    conditions_of,
    export_patches,
    is_fake,
    meaning_of,
    overload_name,
    pytree,
    schema_of,
)
from clave.quiet import quiet
from clave.rebuild import copied_graph, rebuilt

# Ops that have lowerings, but whose decompositions in torch are better.
DECOMPOSED_ANYWAY = {"aten.item.default", "aten.to.dtype", "aten.to.device"}


def _failure(module: torch.nn.Module, e: Exception) -> Error:
    message = f"torch.export cannot capture {type(module).__name__}: {meaning_of(e)}{users_line(e)}"
    return Error(message, Code.UNSUPPORTED)


def capture(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any, dynamic_shapes: Any, strict: bool | None
) -> ExportedProgram:
    """Captures a module with torch.export. strict: None tries non-strict first, then strict. Raises Error, from torch's
    first exception, if torch cannot capture it."""
    args, kwargs = _separate_inputs(checked(module), args, kwargs)
    first: Exception | None = None
    for way in (False, True) if strict is None else (strict,):
        try:
            with export_patches(), quiet:
                return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=way)
        except Exception as e:
            first = first or e
    assert first is not None
    raise first if isinstance(first, Error) else _failure(module, first) from first


class Captures:
    """Captures the methods of one export. Methods share a capture if they call the same module with inputs of the same
    kinds and with the same dynamic sizes."""

    def __init__(self) -> None:
        self._made: list[tuple[tuple[Any, ...], ExportedProgram]] = []

    def of(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any, dynamic_shapes: Any, strict: bool | None
    ) -> ExportedProgram:
        leaves, spec = pytree.tree_flatten((args, kwargs or {}))
        call = (module, spec, [_kind(x) for x in leaves], dynamic_shapes, strict)
        for other, program in self._made:
            if other[0] is module and other[1:] == call[1:]:
                return program
        self._made.append((call, capture(module, args, kwargs, dynamic_shapes, strict)))
        return self._made[-1][1]


def _kind(x: Any) -> Any:
    """Returns the properties of an example input that torch.export reads: all of a tensor's except its elements."""
    if isinstance(x, torch.Tensor):
        return type(x), x.dtype, tuple(x.shape), x.stride() if x.layout is torch.strided else None, x.device
    return type(x), repr(x) if isinstance(x, int | float | str | None) else id(x)


def _separate_inputs(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], Any]:
    """Returns the example inputs with copies of tensors that appear twice or belong to the module. torch would treat
    equal tensors as one input, and the program would read only one of them."""
    seen = {id(t) for t in (*module.parameters(), *module.buffers())}

    def separate(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        x = x.detach().clone().requires_grad_(x.requires_grad) if id(x) in seen else x
        seen.add(id(x))
        return x

    return pytree.tree_map(separate, (args, kwargs))  # type: ignore[no-any-return]


def checked(module: Any) -> torch.nn.Module:
    """Returns the module. Raises Error if torch.export does not accept it."""
    if not isinstance(module, torch.nn.Module):
        raise Error(
            "module: expected a torch.nn.Module, an ExportedProgram, a .pt2 path or a dict of such, got "
            + described(module)
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise Error(
            f"{module.original_name} is a ScriptModule, which torch.export does not accept: pass the torch.nn.Module "
            "of which it was made",
            Code.UNSUPPORTED,
        )
    for name, part in module.named_modules():
        if type(part).__module__.startswith(("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")):
            raise Error(
                f"{name or 'the module'!r} is a quantised {type(part).__name__} of {type(part).__module__}, which "
                "torch.export does not accept: pass the module before quantisation",
                Code.UNSUPPORTED,
            )
    return module


def load(path: str | os.PathLike[str]) -> ExportedProgram:
    if not os.path.exists(os.fsdecode(file_name("module", path))):
        raise Error(f"{os.fspath(path)}: there is no such file", Code.IO)
    try:
        with quiet:
            return torch.export.load(path)
    except Exception as e:
        raise Error(f"{os.fspath(path)}: {str(e).splitlines()[0] if str(e) else type(e).__name__}") from e


CONDITIONS = "clave.conditions"  # a key of a decomposed graph's meta: conditions on the sizes of its inputs


def decompose(program: ExportedProgram, own: Mapping[Any, Any] | None = None) -> ExportedProgram:
    """Returns the functional graph. New values of state are results, and ops that clave has, or that have no
    decomposition, are not decomposed. own: the user's decompositions by op. Raises Error if torch fails or the graph
    is not supported."""
    refuse_training(program)
    refuse_changed_windows(program)
    program = _without_unread_fakes(program)
    try:
        with export_patches(flex_attention), quiet:
            table = decompositions() | written_in_torch(program) | decompositions_of(own or {})
            made = _without_trivial_expands(with_eager_dtypes(program)).run_decompositions(table)
    except Exception as e:
        raise Error(f"torch cannot decompose the graph: {meaning_of(e)}{users_line(e)}") from e
    made.graph_module.meta[CONDITIONS] = conditions_of(made)
    name_nodes(made.graph_module)
    return made


_KEPT = ("aten._assert", "aten.sym_constrain")


def erase_dead(graph: torch.fx.Graph) -> None:
    """Removes nodes that nothing reads, so that they need not be lowered. torch's assertions about sizes are kept; its
    assertions about dtypes are removed, because they held when it traced the graph."""
    for node in reversed(list(graph.nodes)):
        is_about_dtype = op_name(node.target) == "aten._assert_tensor_metadata.default"
        if is_about_dtype or (not node.users and _is_removable(node)):
            graph.erase_node(node)


def _is_removable(n: torch.fx.Node) -> bool:
    if n.op == "get_attr":
        return isinstance(n.meta.get("val"), torch.Tensor)
    if n.op != "call_function" or n.target is operator.getitem:
        return n.op == "call_function"
    if not isinstance(n.target, OpOverload) or schema_of(n.target).is_mutable:
        return False
    return bool(schema_of(n.target).returns) and not op_name(n.target).startswith(_KEPT)


@functools.cache
def _torchs_table() -> dict[Any, Any]:
    return dict(torch.export.default_decompositions().materialize())


def decompositions() -> dict[Any, Any]:
    """Returns torch's table without the ops that clave lowers whole. Ops that clave lowers whole for complex operands
    are decomposed only for real ones."""
    named = _names_in_torchs_table()
    return {
        op: _unless_complex(f) if named[op] in COMPLEX else f
        for op, f in _torchs_table().items()
        if named[op] not in LOWERINGS or named[op] in DECOMPOSED_ANYWAY
    }


def _unless_complex(decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a decomposition that leaves a call whole if an operand is complex."""

    @functools.wraps(decomposition)
    def of_real(*args: Any, **kwargs: Any) -> Any:
        operands = pytree.tree_leaves((args, kwargs))
        if any(isinstance(x, torch.Tensor) and x.is_complex() for x in operands):
            return NotImplemented
        return decomposition(*args, **kwargs)

    return of_real


@functools.cache
def _names_in_torchs_table() -> dict[Any, str]:
    return {op: op_name(op) for op in _torchs_table()}


def written_in_torch(program: ExportedProgram) -> dict[Any, Any]:
    """Returns the decompositions of the program's ops that come from libraries and are written in torch ops."""
    called = {n.target for n in nodes_of(program.graph_module) if isinstance(n.target, OpOverload)}
    return quantized.decompositions(op for op in called if op_name(op) not in LOWERINGS)


def checked_table(own: Any) -> Mapping[Any, Any]:
    if not isinstance(own, Mapping):
        raise refused("decompositions", "a dict of functions by op", own)
    return own


def decompositions_of(own: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the user's table by overload. Raises Error if a key is not an op or a value is not callable."""
    found = {}
    for op, f in own.items():
        if not isinstance(op, OpOverload | OpOverloadPacket) or not callable(f):
            raise Error(f"decompositions: expected torch.ops.ns.op or an overload of it: a function, got {op!r}: {f!r}")
        each = [getattr(op, o) for o in op.overloads()] if isinstance(op, OpOverloadPacket) else [op]
        found |= dict.fromkeys(each, f)
    return found


def refuse_training(program: ExportedProgram) -> None:
    """Raises Error if an op is in training mode and therefore computes a different result than in inference."""
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            if node.op == "call_function" and _depends_on_training(node):
                raise Error(
                    f"{op_name(node.target)} ({node.name}) is in training mode: call module.eval() before clave.export",
                    Code.UNSUPPORTED,
                )


def _depends_on_training(node: torch.fx.Node) -> bool:
    if not isinstance(node.target, OpOverload) or schema_of(node.target).name.split("::")[0] != "aten":
        return False
    names = [a.name for a in schema_of(node.target).arguments]
    values = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    rate = next((values[k] for k in ("p", "dropout", "dropout_p") if isinstance(values.get(k), int | float)), None)
    if values.get("dropout_p"):
        return True
    if rate == 0 or not (values.get("train") or values.get("training")):
        return False
    return (
        not ("running_mean" in names and values.get("running_mean") is None)
        and overload_name(node.target) != "no_stats"
    )


def refuse_changed_windows(program: ExportedProgram) -> None:
    """Raises Error if a tensor is read after its windows (unfold) were changed in place. In torch's functional graph,
    elements between windows are then 0, and overlapping windows are added.

    Raises Error, too, if a tensor is changed through a view that repeats it (expand, or one of several views of an op),
    because torch then adds differences, which are NaN if an element is not finite.
    """
    for node in nodes_of(program.graph_module):
        of_windows = op_name(node.target) == "aten.unfold.default" and not _is_harmless(node)
        if (of_windows or _repeats(node) or _is_broadcast(node)) and _is_changed(node):
            place = str(origin_of(node, ""))
            view = node.args[0] if node.target is operator.getitem else node
            raise Error(
                f"{view.name} ({op_name(view.target)}) is changed in place, and the tensor that it is a view of is "
                f"read: change a copy, or that tensor itself{place and f'; in {place}'}",
                Code.UNSUPPORTED,
            )


def _repeats(node: torch.fx.Node) -> bool:
    """True for an expand that repeats a dimension of size 1."""
    if not _is_expand(node):
        return False
    base = node.args[0]
    assert isinstance(base, torch.fx.Node)
    wide, own = node.meta["val"].shape, base.meta["val"].shape
    own = (1,) * (len(wide) - len(own)) + tuple(own)
    return any(_is_one(b) and not _is_one(a) for a, b in zip(wide, own, strict=True))


def _is_broadcast(node: torch.fx.Node) -> bool:
    """True for one of several tensors that an op broadcasts to their common shape."""
    made = node.args[0] if node.target is operator.getitem else None
    return isinstance(made, torch.fx.Node) and op_name(made.target) in _BROADCASTS


def _without_trivial_expands(program: ExportedProgram) -> ExportedProgram:
    """Returns the program with a view in place of each changed expand that repeats nothing. torch would change the
    tensor through an expand by adding differences, which are rounded."""
    if not any(_is_expand(n) and _is_changed(n) for n in nodes_of(program.graph_module)):
        return program
    module = copied_graph(program)
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in [n for n in part.graph.nodes if _is_expand(n) and _is_changed(n)]:
                _become_view(part.graph, node)
            part.recompile()
    return rebuilt(program, module, program.constants)


def _without_unread_fakes(program: ExportedProgram) -> ExportedProgram:
    """Returns the program without unread calls on constants that have no elements. torch records such calls for
    transforms of torch.func, and cannot trace them again. Raises Error if the results depend on such a constant, which
    represents the value of an input."""
    fakes = {name for name, x in program.constants.items() if isinstance(x, torch.Tensor) and is_fake(x)}
    if not fakes:
        return program
    module = copied_graph(program)
    inputs = (n for n in module.graph.nodes if n.op == "placeholder")
    specs = program.graph_signature.input_specs
    above = {node for node, spec in zip(inputs, specs, strict=True) if spec.target in fakes}
    reached = [n for n in module.graph.nodes if n.op == "call_function" and _add_if_dependent(above, n)]
    for node in reversed(reached):
        if not node.users:
            module.graph.erase_node(node)
    left = next((n for n in reached if not above.isdisjoint(n.all_input_nodes) and n.users), None)
    if left is not None:
        raise Error(
            "torch.export cannot trace a transform of torch.func here: its graph treats an input as a constant. clave "
            "runs inference; expected a forward without grad, vjp, jvp or jacobians, or with them written out"
            + "".join(f"; at {place}" for place in [str(origin_of(left, ""))] if place),
            Code.UNSUPPORTED,
        )
    module.recompile()
    nothing = {name: torch.zeros((), dtype=program.constants[name].dtype) for name in fakes}
    return rebuilt(program, module, {**program.constants, **nothing})


def _add_if_dependent(above: set[torch.fx.Node], node: torch.fx.Node) -> bool:
    """Adds the node to the set if it depends on a node of the set. Returns True if it does."""
    found = not above.isdisjoint(node.all_input_nodes)
    if found:
        above.add(node)
    return found


def _become_view(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    base = node.args[0]
    assert isinstance(base, torch.fx.Node)
    with graph.inserting_before(node):
        for _ in range(node.meta["val"].dim() - base.meta["val"].dim()):
            base = graph.call_function(torch.ops.aten.unsqueeze.default, (base, 0))
            base.meta = dict(node.meta)
    node.target, node.args, node.kwargs = torch.ops.aten.alias.default, (base,), {}


_BROADCASTS = ("aten.meshgrid.default", "aten.meshgrid.indexing", "aten.broadcast_tensors.default")
_EXPANDS = ("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default")


def _is_expand(node: torch.fx.Node) -> bool:
    return op_name(node.target) in _EXPANDS


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _is_changed(view: torch.fx.Node) -> bool:
    """True if an op writes to the view, or to a view of it."""
    for user in view.users:
        if not isinstance(user.target, OpOverload):
            continue
        for argument, value in zip(schema_of(user.target).arguments, user.args, strict=False):
            if (
                value is view
                and argument.alias_info is not None
                and (argument.alias_info.is_write or _is_changed(user))
            ):
                return True
    return False


def _is_harmless(windows: torch.fx.Node) -> bool:
    """True if the windows cover each element once, or if their tensor is a call's own result that neither an op nor a
    view reads afterwards."""
    base, axis, size, step = windows.args
    assert isinstance(base, torch.fx.Node)
    length = base.meta["val"].shape[axis] if base.meta["val"].dim() else 1
    if isinstance(length, int) and step == size and length % max(size, 1) == 0:
        return True
    others = [user for user in base.users if user is not windows]
    return _returns_new_memory(base) and all(user < windows and _returns_new_memory(user) for user in others)


def _returns_new_memory(node: torch.fx.Node) -> bool:
    """True for a call whose results share no memory with its arguments."""
    target = node.target
    return isinstance(target, OpOverload) and all(a.alias_info is None for a in schema_of(target).arguments)
