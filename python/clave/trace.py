"""Gets torch's graph of a module: torch.export, and the decompositions that leave whole the ops that clave has."""

from __future__ import annotations

import functools
import operator
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_impls import op_implementations_dict
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from clave import quantized
from clave.errors import Code, Error
from clave.lowering import LOWERINGS
from clave.lowering.registry import op_name
from clave.places import nodes_of, origin_of, users_line
from clave.quiet import quiet

# Lowered where they appear, but torch's own decomposition of them is better.
_DECOMPOSED_ANYWAY = {"aten.item.default", "aten.to.dtype", "aten.to.device"}
_CTC = (torch.ops.aten._ctc_loss.default, torch.ops.aten._ctc_loss.Tensor)


def _network_shapes(x: Any, hx: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """Results of a recurrent network: shapes alone. rest ends in train, bidirectional, batch_first."""
    states = hx if isinstance(hx, list | tuple) else [hx]
    out = x.new_empty((x.shape[0], x.shape[1], states[0].shape[2] * (2 if rest[-2] else 1)))
    return (out, *(torch.empty_like(s) for s in states))


def _ctc_shapes(_: Any, __: Any, log_probs: Any, targets: Any, *rest: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Losses and what serves their gradient, with room for as many labels as there could be."""
    steps, n = log_probs.shape[:2]
    return log_probs.new_empty((n,)), log_probs.new_empty((n, steps, 2 * targets.shape[-1] + 1))


@contextmanager
def _any_number_of_steps() -> Iterator[None]:
    """Recurrent networks and CTC losses stand for any length. torch finds the shapes of the former by running the
    loop, which fixes it, and has none for the latter."""
    named = (getattr(torch.ops.aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))
    ops = [op for op in named if op in decomposition_table]
    kept = [(dict(op.py_kernels), decomposition_table[op]) for op in ops]
    try:
        for op in ops:
            op.py_kernels.update(dict.fromkeys(op.py_kernels, _network_shapes))
            op._dispatch_cache.clear()
            decomposition_table[op] = _network_shapes
        op_implementations_dict.update(dict.fromkeys(_CTC, _ctc_shapes))
        yield
    finally:
        for op, (kernels, decomposition) in zip(ops, kept, strict=True):
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
            decomposition_table[op] = decomposition
        for op in _CTC:
            op_implementations_dict.pop(op, None)


# What torch says where a model cannot be captured, and what it means for the model.
_MEANINGS = (
    (
        "Could not guard on data-dependent expression",
        "the model branches on a value that only running it gives ({}): torch.where or torch.cond keep both branches",
    ),
    (
        "Could not extract specialized integer from data-dependent expression",
        "the model takes a Python number from a tensor, which only running it gives ({}): keep it a tensor",
    ),
)


def _meaning(e: Exception) -> str:
    """torch's message in one line."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    first = lines[0] if lines else ""
    for said, meaning in _MEANINGS:
        if said in first:
            return meaning.format(first.partition(said)[2].partition("(unhinted")[0].strip())
    if first.startswith("Constraints violated"):
        first = _violations(lines)
    elif first.endswith(":") and len(lines) > 1:
        first = f"{first} {lines[1]}"
    return f"{type(e).__name__}: {first}" if first else type(e).__name__


def _violations(lines: list[str]) -> str:
    """What the model does with sizes that it was to take, and what torch suggests instead."""
    said = [line[2:].partition(". ")[0].removesuffix(".") for line in lines if line.startswith("- ")]
    fixes = [line for line in lines if re.match(r"\w+ = ", line)]
    return "; ".join([lines[0].partition("!")[0], *said, *([f"torch suggests {', '.join(fixes)}"] if fixes else [])])


def _failure(module: torch.nn.Module, e: Exception) -> Error:
    message = f"torch.export cannot capture {type(module).__name__}: {_meaning(e)}{users_line(e)}"
    return Error(message, Code.UNSUPPORTED)


def capture(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any, dynamic_shapes: Any, strict: bool | None
) -> ExportedProgram:
    """torch.export; strict None: non-strict, and where that does not work strict. Error, from torch's own exception,
    where torch cannot."""
    args, kwargs = _apart(checked(module), args, kwargs)
    first: Exception | None = None
    for way in (False, True) if strict is None else (strict,):
        try:
            with _any_number_of_steps(), quiet:
                return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=way)
        except Exception as e:
            first = first or e
    assert first is not None
    raise first if isinstance(first, Error) else _failure(module, first) from first


def _apart(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any) -> tuple[tuple[Any, ...], Any]:
    """The example inputs, each a tensor of its own: torch takes one that stands twice, or is the module's, for one
    input, and the program would read one of them alone."""
    seen = {id(t) for t in (*module.parameters(), *module.buffers())}

    def apart(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        x = x.detach().clone().requires_grad_(x.requires_grad) if id(x) in seen else x
        seen.add(id(x))
        return x

    return pytree.tree_map(apart, (args, kwargs))  # type: ignore[no-any-return]


def checked(module: Any) -> torch.nn.Module:
    """The module. Error if it is nothing that torch.export takes."""
    if not isinstance(module, torch.nn.Module):
        raise Error(
            f"clave.export takes a torch.nn.Module, an ExportedProgram or a .pt2 path, not {type(module).__name__}"
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise Error(
            f"{module.original_name} is a ScriptModule, which torch.export does not take: give the torch.nn.Module "
            "that it was made of",
            Code.UNSUPPORTED,
        )
    for name, part in module.named_modules():
        if type(part).__module__.startswith(("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")):
            raise Error(
                f"{name or 'the module'!r} is a quantised {type(part).__name__} of {type(part).__module__}, which "
                "torch.export does not take: give the module before it was quantised",
                Code.UNSUPPORTED,
            )
    return module


def load(path: str | os.PathLike[str]) -> ExportedProgram:
    if not os.path.exists(path):
        raise Error(f"{os.fspath(path)}: there is no such file", Code.IO)
    try:
        with quiet:
            return torch.export.load(path)
    except Exception as e:
        raise Error(f"{os.fspath(path)}: {str(e).splitlines()[0] if str(e) else type(e).__name__}") from e


def decompose(program: ExportedProgram, own: Mapping[Any, Any] | None = None) -> ExportedProgram:
    """The functional graph: state is a result of its own, and ops are whole that clave has or nobody decomposes.
    own: decompositions of the user's, by op."""
    refuse_training(program)
    refuse_changed_windows(program)
    try:
        with _any_number_of_steps(), quiet:
            table = decompositions() | _written_in_torch(program) | decompositions_of(own or {})
            return program.run_decompositions(table)
    except Exception as e:
        raise Error(f"torch cannot decompose the graph: {_meaning(e)}{users_line(e)}") from e


_KEPT = ("aten._assert", "aten.sym_constrain")


def erase_dead(graph: torch.fx.Graph) -> None:
    """Removes what nothing reads, so that it need not be lowered. torch's assertions about sizes stay; those about
    dtypes held when it traced the graph."""
    for node in reversed(list(graph.nodes)):
        is_about_dtype = op_name(node.target) == "aten._assert_tensor_metadata.default"
        if is_about_dtype or (not node.users and _is_removable(node)):
            graph.erase_node(node)


def _is_removable(n: torch.fx.Node) -> bool:
    if n.op == "get_attr":
        return isinstance(n.meta.get("val"), torch.Tensor)
    if n.op != "call_function" or n.target is operator.getitem:
        return n.op == "call_function"
    if not isinstance(n.target, torch._ops.OpOverload) or n.target._schema.is_mutable:
        return False
    return bool(n.target._schema.returns) and not op_name(n.target).startswith(_KEPT)


@functools.cache
def _torchs_table() -> dict[Any, Any]:
    return dict(torch.export.default_decompositions().materialize())


def decompositions() -> dict[Any, Any]:
    """torch's own table without the ops that clave takes whole."""
    table = _torchs_table()
    return {op: f for op, f in table.items() if op_name(op) not in LOWERINGS or op_name(op) in _DECOMPOSED_ANYWAY}


def _written_in_torch(program: ExportedProgram) -> dict[Any, Any]:
    """For the ops that the program calls of libraries that write them in torch's."""
    called = {n.target for n in nodes_of(program.graph_module) if isinstance(n.target, torch._ops.OpOverload)}
    return quantized.decompositions(op for op in called if op_name(op) not in LOWERINGS)


def decompositions_of(own: Mapping[Any, Any]) -> dict[Any, Any]:
    """The user's table by overload. Error: a key is no op, or what it stands for cannot be called."""
    found = {}
    for op, f in own.items():
        if not isinstance(op, torch._ops.OpOverload | torch._ops.OpOverloadPacket) or not callable(f):
            raise Error(f"decompositions has {op!r}: {f!r}, expected torch.ops.ns.op or an overload of it: a function")
        each = [getattr(op, o) for o in op.overloads()] if isinstance(op, torch._ops.OpOverloadPacket) else [op]
        found |= dict.fromkeys(each, f)
    return found


def refuse_training(program: ExportedProgram) -> None:
    """Error if an op does something else in training than in inference."""
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            if node.op == "call_function" and _depends_on_training(node):
                raise Error(
                    f"{op_name(node.target)} ({node.name}) is in training mode: call module.eval() before clave.export",
                    Code.UNSUPPORTED,
                )


def _depends_on_training(node: torch.fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload) or node.target._schema.name.split("::")[0] != "aten":
        return False
    names = [a.name for a in node.target._schema.arguments]
    values = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    rate = next((values[k] for k in ("p", "dropout", "dropout_p") if isinstance(values.get(k), int | float)), None)
    if values.get("dropout_p"):
        return True
    if rate == 0 or not (values.get("train") or values.get("training")):
        return False
    return (
        not ("running_mean" in names and values.get("running_mean") is None) and node.target._overloadname != "no_stats"
    )


def refuse_changed_windows(program: ExportedProgram) -> None:
    """Error if a tensor is read after its windows (unfold) were changed in place: in torch's functional form of that
    what lies between windows is 0, and windows that overlap are added."""
    for node in nodes_of(program.graph_module):
        if op_name(node.target) == "aten.unfold.default" and _is_changed(node) and not _is_harmless(node):
            place = str(origin_of(node, ""))
            raise Error(
                f"{node.name} ({op_name(node.target)}) is changed in place, and what it is a view of is read: "
                f"change a copy, or that tensor itself{place and f'; in {place}'}",
                Code.UNSUPPORTED,
            )


def _is_changed(view: torch.fx.Node) -> bool:
    """Does an op write to it, or to a view of it?"""
    for user in view.users:
        if not isinstance(user.target, torch._ops.OpOverload):
            continue
        for argument, value in zip(user.target._schema.arguments, user.args, strict=False):
            if (
                value is view
                and argument.alias_info is not None
                and (argument.alias_info.is_write or _is_changed(user))
            ):
                return True
    return False


def _is_harmless(windows: torch.fx.Node) -> bool:
    """Do the windows cover all once, or is what they are of a result that nothing reads behind them, nor a view?"""
    base, axis, size, step = windows.args
    assert isinstance(base, torch.fx.Node)
    length = base.meta["val"].shape[axis] if base.meta["val"].dim() else 1
    if isinstance(length, int) and step == size and length % max(size, 1) == 0:
        return True
    others = [user for user in base.users if user is not windows]
    return _makes_its_own(base) and all(user < windows and _makes_its_own(user) for user in others)


def _makes_its_own(node: torch.fx.Node) -> bool:
    """A call whose results share no memory with its arguments."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and all(a.alias_info is None for a in target._schema.arguments)
