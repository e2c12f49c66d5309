"""Finds the places in a model from which the nodes of torch's graph come, for errors: module path and line."""

from __future__ import annotations

import itertools
import operator
import os
import re
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator

import torch
from torch.fx import Node

from clave.errors import Code, Error, Origin, UnsupportedOp
from clave.private import module_path

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in [^\n]*(?:\n    (?!\s*File ")([^\n]*))?')
_NODE = re.compile(r"\bnode (?:\d+ \()?([\w.]+), \w+\)")  # a node in the verifier's messages
_METHOD = re.compile(r"\bmethod '([^']*)'")


def _folder(file: str) -> str:
    return os.path.dirname(os.path.abspath(file)) + os.sep


_TORCHS, _OURS, _PYTHONS = _folder(torch.__file__), _folder(__file__), _folder(os.__file__)


def _is_users(file: str) -> bool:
    standard = file.startswith(_PYTHONS) and "site-packages" not in file and "dist-packages" not in file
    return not standard and not file.startswith((_TORCHS, _OURS, "<"))


def _line_of(trace: str) -> str:
    """Returns the innermost line of the model in a node's stack trace, "file.py:12: text", or "" if the trace has no
    such line."""
    frames = [m.groups() for m in _FRAME.finditer(trace)]
    users = [f for f in frames if _is_users(f[0])]
    if not users:
        return ""
    file, line, text = users[-1]
    return f"{file}:{line}: {text.strip()}" if text else f"{file}:{line}"


def users_line(e: BaseException) -> str:
    """Returns the innermost line that torch called and that is neither torch's nor clave's, or "" without such a
    line."""
    below = itertools.dropwhile(lambda f: not f.filename.startswith(_TORCHS), traceback.extract_tb(e.__traceback__))
    inner = [f for f in below if f.line and _is_users(f.filename)]
    return f"; at {inner[-1].filename}:{inner[-1].lineno}: {inner[-1].line}" if inner else ""


def _has_line(node: Node) -> bool:
    return bool(node.meta.get("nn_module_stack") or node.meta.get("stack_trace"))


def _nearest(node: Node) -> Node:
    """Returns the node, or the nearest one before it that torch traced, because nodes of a rewrite have no line."""
    seen, queue = {node}, [node]
    for n in queue:
        if _has_line(n):
            return n
        queue += [i for i in n.all_input_nodes if i not in seen]
        seen.update(n.all_input_nodes)
    return next((u for u in node.users if _has_line(u)), node)


def origin_of(node: Node, method: str) -> Origin:
    node = _nearest(node)
    return Origin(method, module_path(node), _line_of(node.meta.get("stack_trace") or ""))


def failed(e: Exception, op: str, origin: Origin) -> Error:
    """Returns the error of a lowering, with the place of the lowered call added. An error from inside a body already
    has a place."""
    if isinstance(e, Error) and e.__cause__ is not None:
        return e
    message, code = (str(e), e.code) if isinstance(e, Error) else (f"{type(e).__name__}: {e}", Code.INVALID)
    return Error("; ".join(filter(None, (f"lowering {op}: {' '.join(message.split())}", str(origin)))), code)


_NAME = "clave.name"  # a key of a node's meta


def name_nodes(module: torch.fx.GraphModule) -> None:
    """Names each call of a graph and of its bodies by the module that makes it: by the path if the module makes one
    call, otherwise by the path and the op. Calls outside of modules keep torch's names. name_of reads the names."""
    calls = [n for n in nodes_of(module) if n.op == "call_function" and n.target is not operator.getitem]
    counts = Counter(_path(n) for n in calls)
    taken: set[str] = set()
    for node in sorted(calls, key=lambda n: not _is_many(n)):  # .1 after a name is the second result of its call
        path, op = _path(node), re.sub(r"_\d+$", "", node.name).strip("_") or "call"
        is_alone = counts[path] == 1 and all(u.args[1] == 0 for u in node.users if u.target is operator.getitem)
        plain = path if path and is_alone else ".".join(filter(None, (path, op)))
        name = plain if path else node.name.lstrip("_") or plain
        for i in itertools.count(1):
            if name not in taken:
                break
            name = f"{plain}_{i}"
        taken.update([name, *(f"{name}.{i}" for i in range(len(node.meta["val"]) if _is_many(node) else 0))])
        node.meta[_NAME] = name


def name_of(node: Node) -> str:
    """Returns the name of the instructions that a node is lowered to."""
    return str(node.meta.get(_NAME, node.name))


def _path(node: Node) -> str:
    return re.sub(r"[^\w.]", "_", module_path(node))


def _is_many(node: Node) -> bool:
    return isinstance(node.meta.get("val"), tuple | list)


class Missing:
    """The calls that could not be lowered, in all methods."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}
        self._places: dict[str, list[Origin]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, op: str, reason: str, origin: Origin) -> None:
        self._reasons[op] = self._reasons.get(op) or reason
        self._places.setdefault(op, []).append(origin)

    def error(self) -> UnsupportedOp:
        return UnsupportedOp(list(self._places), {op: why for op, why in self._reasons.items() if why}, self._places)


class Origins:
    """The nodes of all methods by the names that a program keeps."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[str, list[Node]]] = {}  # by method and name: bodies have names of their own

    def add(self, method: str, nodes: Iterable[Node]) -> None:
        of_method = self._nodes.setdefault(method, {})
        for node in nodes:
            of_method.setdefault(name_of(node), []).append(node)

    def find(self, method: str, name: str) -> str:
        """Returns "; from layers.3 at file.py:12: text" if one node has the name, otherwise ""."""
        found = self._nodes.get(method, {}).get(name, [])
        place = str(origin_of(found[0], "")) if len(found) == 1 else ""
        return f"; from {place}" if place else ""

    def located(self, e: Error) -> Error:
        """Returns the verifier's error with the place of the node that it names."""
        message = str(e)
        methods = _METHOD.findall(message) or list(self._nodes)
        names = _NODE.findall(message)
        place = self.find(methods[-1], names[0]) if names and methods else ""
        return Error(message + place, e.code)


def nodes_of(module: torch.fx.GraphModule) -> Iterator[Node]:
    """Yields the nodes of a graph and of its bodies."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            yield from part.graph.nodes
