"""Reads the sources of the package's commands: a .pt2 file, or module:name, with example inputs as text."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clave.errors import Error, UsageError

if TYPE_CHECKING:
    from clave.specs import Sizes

HELP = """
SOURCE is the path of a .pt2 file, or module:name (file.py:name): a torch.nn.Module, or a function without arguments
that returns one. A function that returns (module, args, kwargs, dynamic_shapes) needs no --args.
"""


def add_options(add: Callable[..., Any]) -> None:
    """Adds the options for capturing a torch module. add: a parser's add_argument."""
    add(
        "--args",
        action="append",
        default=[],
        metavar="[NAME=]ARGS",
        help="example inputs: 'f32[1,3],i64[],x:f32[2],2.5'",
    )
    add("--dynamic", action="append", default=[], metavar="SIZE[=[LOW..]HIGH]", help="a dynamic size that --args uses")
    add("--dtype", metavar="TYPE", help="convert floats to this type first: f16, bf16, f32 or f64")
    add("--strict", action="store_true", default=None, help="capture as torch.export(strict=True)")


def by_name(texts: list[str], option: str, names: list[str] | None) -> dict[str, str]:
    """Returns {method: text} of texts [NAME=]text. names: the methods; None: these texts name them. Raises UsageError
    for an unknown method and for a second text of one."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, rest = text.partition("=")
        if not equals or (names is not None and name not in names) or not name.isidentifier():
            if len(texts) > 1 or (names is not None and len(names) > 1):
                raise UsageError(f"{option} {text}: expected NAME=... of a method")
            name, rest = (names or ["forward"])[0], text
        if name in found:
            raise UsageError(f"{option}: method {name!r} has two")
        found[name] = rest
    return found


def _import(where: str) -> ModuleType:
    if not where.endswith(".py"):
        return importlib.import_module(where)
    spec = importlib.util.spec_from_file_location(Path(where).stem, where)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _made(source: str) -> Any:
    """Returns the entry of module:name: (module,), or (module, args, ...) with inputs. Raises Error if it fails."""
    import torch

    where, _, name = source.rpartition(":")
    try:
        found: Any = _import(where)
        for part in name.split("."):
            found = getattr(found, part)
        if callable(found) and not isinstance(found, torch.nn.Module):
            found = found()
    except Exception as e:
        raise Error(f"{source}: {type(e).__name__}: {e}") from e
    entry = found if isinstance(found, tuple) else (found,)
    if entry and isinstance(entry[0], torch.nn.Module):
        entry[0].eval()
    return entry


def entry_of(source: str, text: str | None, sizes: Sizes) -> Any:
    """Returns a method as clave.export accepts it: a path, or a tuple of a module and its inputs."""
    from clave.specs import Inputs

    where, colon, _ = source.rpartition(":")
    if not colon or not where or source.endswith(".pt2"):
        if text is not None:
            raise UsageError(f"--args {text}: a .pt2 file has its inputs already")
        return source
    inputs = None if text is None else Inputs.parse(text, sizes)
    entry = _made(source)
    if inputs is None:
        return entry
    if len(entry) > 1:
        raise UsageError(f"--args {text}: {source} makes its inputs itself")
    module = entry[0]
    shapes = inputs.dynamic_shapes(module.forward) if hasattr(module, "forward") else None
    return module, inputs.args, inputs.kwargs, shapes


def dtype_of(text: str | None) -> Any:
    from clave.specs import TYPES

    if text is not None and text not in TYPES:
        raise UsageError(f"--dtype {text}: expected one of {', '.join(TYPES)}")
    return None if text is None else TYPES[text]
