"""Gets torch's graph of a module: torch.export, and the decompositions that leave whole the ops that clave has."""

from __future__ import annotations

import functools
import itertools
import logging
import operator
import os
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.export import ExportedProgram

from clave.errors import Code, Error
from clave.lowering import LOWERINGS

# Lowered where they appear, but torch's own decomposition of them is better.
_DECOMPOSED_ANYWAY = {"aten.item.default", "aten.to.dtype", "aten.to.device"}


def op_name(target: Any) -> str:
    """An op as errors and lowerings name it: "aten.add.Tensor", "check::first", "cond"."""
    if not isinstance(target, torch._ops.OpOverload):
        return str(getattr(target, "__name__", target))
    space, name = target._schema.name.split("::")
    overload = target._overloadname
    if space in ("aten", "prims", "clave"):
        return f"{space}.{name}.{overload}"
    return f"{space}::{name}" if overload == "default" else f"{space}::{name}.{overload}"


def _network_shapes(x: Any, hx: Any, *rest: Any) -> tuple[torch.Tensor, ...]:
    """Results of a recurrent network: shapes alone. rest ends in train, bidirectional, batch_first."""
    states = hx if isinstance(hx, list | tuple) else [hx]
    out = x.new_empty((x.shape[0], x.shape[1], states[0].shape[2] * (2 if rest[-2] else 1)))
    return (out, *(torch.empty_like(s) for s in states))


@contextmanager
def _any_number_of_steps() -> Iterator[None]:
    """Recurrent networks stand for any length. torch finds their shapes by running the loop, which fixes it."""
    named = (getattr(torch.ops.aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"))
    ops = [op for op in named if op in decomposition_table]
    kept = [(dict(op.py_kernels), decomposition_table[op]) for op in ops]
    try:
        for op in ops:
            op.py_kernels.update(dict.fromkeys(op.py_kernels, _network_shapes))
            op._dispatch_cache.clear()
            decomposition_table[op] = _network_shapes
        yield
    finally:
        for op, (kernels, decomposition) in zip(ops, kept, strict=True):
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()
            decomposition_table[op] = decomposition


class _Silence:
    """Keeps torch's loggers silent while any thread is inside: torch logs whole graphs where it fails, for each of its
    attempts, and the error says it in one line. Not where TORCH_LOGS asks for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._levels: dict[logging.Logger, int] = {}  # as they were before the first thread

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1 and not os.environ.get("TORCH_LOGS"):
                names = [n for n in logging.root.manager.loggerDict if n.partition(".")[0] == "torch"]
                self._levels = {logger: logger.level for logger in map(logging.getLogger, names)}
                for logger in self._levels:
                    logger.setLevel(logging.CRITICAL + 1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                for logger, level in self._levels.items():
                    logger.setLevel(level)


quiet = _Silence()


def _users_line(e: BaseException) -> str:
    """The innermost line that is neither torch's nor ours and that torch called; empty if there is none."""
    torchs, ours = (os.path.dirname(f) + os.sep for f in (torch.__file__, __file__))
    below = itertools.dropwhile(lambda f: not f.filename.startswith(torchs), traceback.extract_tb(e.__traceback__))
    inner = [f for f in below if f.line and not f.filename.startswith((torchs, ours, "<"))]
    return f"; at {inner[-1].filename}:{inner[-1].lineno}: {inner[-1].line}" if inner else ""


def _failure(module: torch.nn.Module, e: Exception) -> Error:
    line = next((line.strip() for line in str(e).splitlines() if line.strip()), "")
    said = f"{type(e).__name__}: {line}" if line else type(e).__name__
    return Error(f"torch.export cannot capture {type(module).__name__}: {said}{_users_line(e)}", Code.UNSUPPORTED)


def capture(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: Any, dynamic_shapes: Any, strict: bool | None
) -> ExportedProgram:
    """torch.export; strict None: non-strict, and where that does not work strict. Error, from torch's own exception,
    where torch cannot."""
    if not isinstance(module, torch.nn.Module):
        raise Error(
            f"clave.export takes a torch.nn.Module, an ExportedProgram or a .pt2 path, not {type(module).__name__}"
        )

    first: Exception | None = None
    for way in (False, True) if strict is None else (strict,):
        try:
            with _any_number_of_steps(), quiet:
                return torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=way)
        except Exception as e:
            first = first or e
    assert first is not None
    raise first if isinstance(first, Error) else _failure(module, first) from first


def load(path: str | os.PathLike[str]) -> ExportedProgram:
    if not os.path.exists(path):
        raise Error(f"{os.fspath(path)}: there is no such file", Code.IO)
    try:
        with quiet:
            return torch.export.load(path)
    except Exception as e:
        raise Error(f"{os.fspath(path)}: {str(e).splitlines()[0] if str(e) else type(e).__name__}") from e


def decompose(program: ExportedProgram) -> ExportedProgram:
    """The functional graph: state is a result of its own, and ops are whole that clave has or nobody decomposes."""
    refuse_training(program)
    with _any_number_of_steps():
        return program.run_decompositions(dict(_decompositions()))


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
def _decompositions() -> dict[Any, Any]:
    """torch's own table without the ops that clave takes whole."""
    table = torch.export.default_decompositions().materialize()
    return {op: f for op, f in table.items() if op_name(op) not in LOWERINGS or op_name(op) in _DECOMPOSED_ANYWAY}


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
