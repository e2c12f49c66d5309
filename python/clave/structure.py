"""The nested structure of a module's arguments and results, as dicts for JSON, which a method's metadata holds.

A leaf is {"type": "leaf", "index": i}, input or output i of the method, with "complex": true if its last dimension, of
size 2, holds the real and the imaginary part. {"type": "constant", "value": v} is a number, string, bool or None that
torch.export fixed. tuple, list, dict, OrderedDict and namedtuple have their own types. Any other container that torch's
pytree knows is stored as torch's own description of it.
"""

from __future__ import annotations

import collections
import difflib
from collections.abc import Callable, Iterator
from typing import Any

from clave.arguments import described
from clave.errors import Error

Spec = dict[str, Any]


def leaf(index: int, is_complex: bool = False) -> Spec:
    return {"type": "leaf", "index": index} | ({"complex": True} if is_complex else {})


def complex_leaves(spec: Spec) -> set[int]:
    """Returns the indices of the leaves that are complex."""
    if spec["type"] == "leaf":
        return {spec["index"]} if spec.get("complex") else set()
    return set().union(*map(complex_leaves, spec.get("items", ())))


def from_treespec(spec: Any, leaves: Iterator[Spec]) -> Spec:
    """Converts torch's TreeSpec. leaves: its leaves in order. Raises Error for a container that cannot be stored."""
    if spec.is_leaf():
        return next(leaves)
    children = spec.children() if callable(spec.children) else spec.children_specs
    items = [from_treespec(child, leaves) for child in children]
    if spec.type in (tuple, list):
        return {"type": spec.type.__name__, "items": items}
    if spec.type in (dict, collections.OrderedDict) and all(isinstance(k, str) for k in spec.context):
        return {"type": spec.type.__name__, "keys": list(spec.context), "items": items}
    return _described_by_torch(spec, items)


def _described_by_torch(spec: Any, items: list[Spec]) -> Spec:
    from clave.private import pytree

    if spec.type is collections.namedtuple:
        return {"type": "namedtuple", "name": spec.context.__name__, "keys": list(spec.context._fields), "items": items}
    if spec.type.__module__ == "torch.return_types":
        return {
            "type": "return_type",
            "name": spec.type.__name__,
            "keys": list(spec.type.__match_args__),
            "items": items,
        }
    try:
        text = pytree.treespec_dumps(spec)
    except Exception as e:
        raise Error(f"a {spec.type.__name__} among the arguments or results cannot be stored: {e}") from e
    return {"type": "torch", "name": spec.type.__name__, "spec": text, "items": items}


def build(spec: Spec, leaf: Callable[[int], Any]) -> Any:
    """Builds the structure, with leaf(i) for leaf i. Raises Error if torch does not know a container of it."""
    kind = spec["type"]
    if kind == "leaf":
        return leaf(spec["index"])
    if kind == "constant":
        return spec["value"]
    items = [build(s, leaf) for s in spec["items"]]
    if kind in ("tuple", "list"):
        return tuple(items) if kind == "tuple" else items
    if kind in ("dict", "OrderedDict"):
        pairs = zip(spec["keys"], items, strict=True)
        return dict(pairs) if kind == "dict" else collections.OrderedDict(pairs)
    if kind == "namedtuple":
        return collections.namedtuple(spec["name"], spec["keys"])(*items)
    return _build_with_torch(spec, items)


def _build_with_torch(spec: Spec, items: list[Any]) -> Any:
    import torch

    from clave.private import pytree

    if spec["type"] == "return_type":  # such as the result of torch.max(x, 0)
        return getattr(torch.return_types, spec["name"])(items)
    try:
        whole = pytree.treespec_loads(spec["spec"])
    except Exception as e:
        raise Error(
            f"the result is a {spec['name']}, which torch's pytree does not know here: import the library that "
            f"defines it first ({e})"
        ) from e
    return pytree.tree_unflatten([leaf for item in items for leaf in pytree.tree_leaves(item)], whole)


def flatten(spec: Spec, value: Any, where: str, out: dict[int, Any]) -> None:
    """Writes the leaves of `value` to out, by index. Raises Error, which names `where`, if its structure differs."""
    kind = spec["type"]
    if kind == "leaf":
        out[spec["index"]] = value
        return
    if kind == "constant":
        if not _is_same(value, spec["value"]):
            raise Error(f"{where}: expected {spec['value']!r}, which the export fixed, got {described(value)}")
        return
    items = _children(spec, value, where)
    for name, child, item in zip(_names(spec), spec["items"], items, strict=True):
        flatten(child, item, f"{where}{name}", out)


def _is_same(value: Any, constant: Any) -> bool:
    return value is constant or (type(value) is type(constant) and bool(value == constant))


def _names(spec: Spec) -> list[str]:
    return [f"[{k!r}]" for k in spec.get("keys", range(len(spec["items"])))]


def _children(spec: Spec, value: Any, where: str) -> list[Any]:
    kind, n = spec["type"], len(spec["items"])
    if kind in ("dict", "OrderedDict"):
        if not isinstance(value, collections.abc.Mapping) or set(value) != set(spec["keys"]):
            got = (
                f"the keys {', '.join(map(str, value))}"
                if isinstance(value, collections.abc.Mapping)
                else described(value)
            )
            raise Error(f"{where}: expected a dict with the keys {', '.join(spec['keys'])}, got {got}")
        return [value[k] for k in spec["keys"]]
    if kind == "torch":
        from clave.private import pytree

        items = list(pytree.tree_flatten(value, is_leaf=lambda x: x is not value)[0])
    else:
        items = list(value) if isinstance(value, tuple | list) else []
    if len(items) != n:
        raise Error(f"{where}: expected a {spec.get('name', kind)} of {n}, got {described(value)}")
    return items


def constants_only(spec: Spec) -> bool:
    """True if this part has no input, so that a caller may leave it out."""
    return spec["type"] == "constant" or (spec["type"] != "leaf" and all(map(constants_only, spec["items"])))


def bind(inputs: Spec, parameters: list[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
    """Returns the leaves of arguments by input index. inputs: the spec of (args, kwargs). parameters: names of
    forward's parameters in order. Raises Error for missing, unknown and repeated inputs."""
    positional, by_name = inputs["items"]
    named: dict[str, Spec] = dict(zip(by_name["keys"], by_name["items"], strict=True))
    given = dict(kwargs)
    for name, value in zip(parameters[len(positional["items"]) :], args[len(positional["items"]) :], strict=False):
        given[name] = value
    out: dict[int, Any] = {}
    for name in given:
        if name not in named and name not in parameters:
            raise unknown_input(name, [*parameters, *(n for n in named if n not in parameters)])
    for i, spec in enumerate(positional["items"]):
        name = parameters[i] if i < len(parameters) else f"argument {i}"
        if i < len(args):
            flatten(spec, args[i], name, out)
        elif name in given:
            flatten(spec, given.pop(name), name, out)
        elif not constants_only(spec):
            raise Error(f"missing input {name!r}")
    for name, spec in named.items():
        if name in given:
            flatten(spec, given.pop(name), name, out)
        elif not constants_only(spec):
            raise Error(f"missing input {name!r}")
    excess = len(args) - max(len(positional["items"]), len(parameters))
    if given:
        raise Error(f"input {next(iter(given))!r}: expected once, got by position and by name")
    if excess > 0:
        raise Error(f"expected {len(args) - excess} inputs, got {len(args)}")
    return out


def unknown_input(name: str, known: list[str]) -> Error:
    """Returns the error for a keyword that is not an input, with the nearest one that is."""
    near = difflib.get_close_matches(name, known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return Error(f"expected the inputs {', '.join(map(repr, known)) or '(none)'}, got {name!r}{hint}")
