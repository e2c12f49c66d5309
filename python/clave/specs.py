"""Parses example inputs and dynamic sizes of the command line: "f32[batch,3,224,224],mask:bool[batch,7],2.5"."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import Dim

from clave.dtypes import NAMES, torch_dtype
from clave.errors import UsageError

_ITEM = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*):)?(?:(?P<dtype>[a-z]\w*)(?:\[(?P<shape>[^\]]*)\])?|(?P<number>[-+.\w]+))$"
)
_SIZE = re.compile(r"(?:(?P<factor>\d+)\*)?(?P<name>[A-Za-z_]\w*)$")
_BOUNDS = re.compile(r"(?P<name>[A-Za-z_]\w*)(?:=(?:(?P<low>\d+)\.\.)?(?P<high>\d+))?$")
TYPES = {name.lower(): torch_dtype(i) for i, name in enumerate(NAMES)}
_WORDS = {"true": True, "false": False, "none": None}
_EXAMPLES = (5, 7, 3, 11, 4, 6, 2)  # sizes in the example; torch fixes 0 and 1, and equates equal sizes


@dataclass
class Sizes:
    """The sizes of `--dynamic NAME`, `NAME=HIGH` or `NAME=LOW..HIGH`, each with a size for the example."""

    dims: dict[str, Any] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: list[str]) -> Sizes:
        sizes = cls()
        for text in texts:
            found = _BOUNDS.match(text)
            if not found or found["name"] in sizes.dims:
                raise UsageError(f"--dynamic {text}: expected a new size as NAME, NAME=HIGH or NAME=LOW..HIGH")
            low, high = int(found["low"] or 1), int(found["high"]) if found["high"] else None
            if high is not None and low >= high:
                raise UsageError(f"--dynamic {text}: expected LOW below HIGH, got {low}..{high}")
            sizes.dims[found["name"]] = Dim(found["name"], min=low, max=high)
            sizes.examples[found["name"]] = sizes._example(low, high)
        return sizes

    def _example(self, low: int, high: int | None) -> int:
        fits = [n for n in (*_EXAMPLES, low, low + 1) if n >= low and (high is None or n <= high)]
        return next((n for n in fits if n not in self.examples.values()), fits[0])

    def size(self, text: str) -> tuple[int, Any]:
        """Returns the size in the example, and its Dim or None. Raises UsageError for an undeclared name."""
        if text.isdigit():
            return int(text), None
        found = _SIZE.match(text)
        if not found:
            raise UsageError(f"size: expected a number or the name of a --dynamic size, got {text!r}")
        if found["name"] not in self.dims:
            raise UsageError(f"size {found['name']!r} is not declared, for example by --dynamic {found['name']}=1..64")
        factor = int(found["factor"] or 1)
        dim = self.dims[found["name"]]
        return factor * self.examples[found["name"]], dim if factor == 1 else factor * dim


@dataclass
class Inputs:
    """The inputs of `--args`: numbers, and tensors of random floats (normal) or random integers 0 and 1."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shapes: tuple[Any, ...]  # dynamic_shapes as for torch.export: by position, and by name
    named_shapes: dict[str, Any]

    @classmethod
    def parse(cls, text: str, sizes: Sizes) -> Inputs:
        made = cls((), {}, (), {})
        generator = torch.Generator().manual_seed(0)
        for item in _items(text):
            name, value, shape = _input(item, sizes, generator)
            if name:
                made.kwargs[name], made.named_shapes[name] = value, shape
            elif made.kwargs:
                raise UsageError(f"{item!r} has no name and follows inputs that have one")
            else:
                made.args, made.shapes = (*made.args, value), (*made.shapes, shape)
        return made

    def dynamic_shapes(self, forward: Any) -> Any:
        """Returns dynamic_shapes by the names of forward's parameters, or None if every size is fixed."""
        left, by_name = list(self.shapes), dict(self.named_shapes)
        for p in inspect.signature(forward).parameters.values():
            if p.kind == p.VAR_POSITIONAL:
                by_name[p.name], left = tuple(left), []
            elif left:
                by_name[p.name] = left.pop(0)
        return by_name if any(self.shapes) or any(self.named_shapes.values()) else None


def _items(text: str) -> list[str]:
    """Splits a text at the commas outside of brackets."""
    return [item.strip() for item in re.split(r",(?![^\[]*\])", text)] if text.strip() else []


def _input(item: str, sizes: Sizes, generator: torch.Generator) -> tuple[str, Any, Any]:
    found = _ITEM.match(item)
    if not found:
        raise UsageError(f"expected an input as f32[1,3], a number, or one with its name as x:f32[1,3], got {item!r}")
    name = found["name"] or ""
    text = found["dtype"] or found["number"]
    if found["dtype"] in TYPES:
        value, dims = _tensor(TYPES[text], found["shape"] or "", sizes, generator)
        return name, value, dims or None
    if found["shape"] is not None or (text not in _WORDS and not re.match(r"[-+]?\.?\d", text)):
        raise UsageError(f"{item!r}: expected one of {', '.join(TYPES)}, got {text!r}")
    return name, _number(text), None


def _number(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text) if re.match(r"[-+]?\d+$", text) else float(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a number") from None


def _tensor(dtype: torch.dtype, text: str, sizes: Sizes, generator: torch.Generator) -> tuple[Any, dict[int, Any]]:
    found = [sizes.size(part.strip()) for part in text.split(",")] if text.strip() else []
    shape = [n for n, _ in found]
    if dtype.is_floating_point:
        value = torch.randn(shape, generator=generator).to(dtype)
    else:
        value = torch.randint(0, 2, shape, generator=generator).to(dtype)
    return value, {axis: dim for axis, (_, dim) in enumerate(found) if dim is not None}
