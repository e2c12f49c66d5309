"""python -m clave.reference SOURCE --args ... -o R.safetensors: writes torch's results for `clave verify --reference`.

The file has the inputs (input_0, ...) and the outputs (output_0, ...) in the program's order, and the results of each
node of torch's graph as node.NAME, node.NAME.1 and so on. The instructions of a program that clave.export makes have
the same names.
"""

from __future__ import annotations

import argparse
import ctypes as C
import os
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from clave import _library as L
from clave import _tensors, arguments, sources, trace
from clave.command import Parser, run
from clave.conversion import Conversion
from clave.entries import entry_of
from clave.errors import Error
from clave.exporter import Options, capture_method, converted
from clave.places import name_of, users_line
from clave.private import export_lock, meaning_of, pytree
from clave.quiet import quiet
from clave.verification import Recorder, Reference, graph_inputs, parts

_EPILOG = f"""{sources.HELP}
The weights must be those that were exported. A .pt2 file has them; a module:name with random weights must set a seed.

  python -m clave.reference package.model:Net --args 'f32[2,3,224,224]' -o reference.safetensors
  clave verify net.clv --reference reference.safetensors

Exit 0 good, 1 nothing was written, 2 malformed command line.
"""


def reference(
    module: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    *,
    strict: bool | None = None,
    dtype: torch.dtype | None = None,
) -> dict[str, torch.Tensor]:
    """Returns a module's results for its example inputs, by the names of a reference file. Arguments: as for
    clave.export.

    Complex tensors are pairs of real numbers in a last dimension. Raises Error if torch cannot capture or run the
    module, or if the module draws random numbers.
    """
    entries = {"forward": entry_of("forward", (module, args, kwargs, dynamic_shapes))}
    if dtype is not None:
        entries = converted(entries, Conversion(dtype))
    entry = entries["forward"]
    strict = strict if strict is None else arguments.flag("strict", strict)
    try:
        return _reference(entry, strict)
    except Error:
        raise
    except Exception as e:
        raise Error(f"clave.reference: {meaning_of(e)}{users_line(e)}") from e


def _reference(entry: tuple[Any, Any, Any, Any], strict: bool | None) -> dict[str, torch.Tensor]:
    with export_lock, quiet:
        program, _ = capture_method(trace.Captures(), "forward", entry, Options(strict))
        of = Reference.of("forward", *entry[:3], program)
        trace.erase_dead(of.graph)
        _, _, want = next(of.runs())
        return _run(of, want)


def write(path: str | os.PathLike[str], tensors: dict[str, torch.Tensor]) -> None:
    """Writes tensors to a safetensors file. A failure leaves no partial file. Raises Error if it cannot be written."""
    file = arguments.path("path", path)
    if not isinstance(tensors, dict) or not all(isinstance(x, torch.Tensor) for x in tensors.values()):
        raise arguments.refused("tensors", "a dict of torch tensors by name", tensors)
    try:
        views = [_tensors.of_torch(x) for x in tensors.values()]
    except TypeError as e:
        raise Error(f"tensors: {e}") from e
    keys = [arguments.text("a name of tensors", name) for name in tensors]
    names = (C.c_char_p * len(tensors))(*keys)
    array = (L.Tensor * len(views))(*(view for view, _ in views))
    L.call("clave_tensors_save", file, names, array, len(views), None, 0)


# ---------------------------------------------------------------- results of a graph


def _run(of: Reference, want: Any) -> dict[str, torch.Tensor]:
    recorder = Recorder(torch.fx.GraphModule(of.program.graph_module, of.graph))
    with torch.no_grad():
        results = recorder.run(*graph_inputs(of.program, of.args, of.kwargs))
    found = dict(_inputs(of))
    nested = _nested_names(of.program)
    for node in of.graph.nodes:
        if node.op == "call_function" and name_of(node) not in nested:
            found |= _node(node, recorder.found)
    return found | _outputs(of.program, want, results)


def _inputs(of: Reference) -> Iterator[tuple[str, torch.Tensor]]:
    given = pytree.tree_leaves((of.args, of.kwargs))
    specs = [s for s in of.program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    values = [x for x, spec in zip(given, specs, strict=True) if not isinstance(spec.arg, ConstantArgument)]
    for i, x in enumerate(values):
        yield f"input_{i}", _tensor(x)


def _outputs(program: ExportedProgram, want: Any, results: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """Returns the module's own results, then the inputs that it changes."""
    specs = program.graph_signature.output_specs
    of_user = [s for s in specs if s.kind == OutputKind.USER_OUTPUT]
    changed = [x for x, s in zip(results, specs, strict=True) if s.kind == OutputKind.USER_INPUT_MUTATION]
    leaves = pytree.tree_leaves(want[0] if changed else want)
    values = [x for x, s in zip(leaves, of_user, strict=True) if not isinstance(s.arg, ConstantArgument)]
    return {f"output_{i}": _tensor(x) for i, x in enumerate([*values, *changed])}


def _node(node: torch.fx.Node, found: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Returns the results of a node by key, without views, which no instruction computes."""
    results = found[node.name]
    results = results if isinstance(results, tuple | list) else (results,)
    read = {_storage(found[n.name]) for n in node.all_input_nodes} - {None}
    keep = {i: x for i, x in enumerate(results) if isinstance(x, torch.Tensor) and _storage(x) not in read}
    return {f"node.{name_of(node)}" + (f".{i}" if i else ""): _tensor(x) for i, x in keep.items()}


def _storage(x: Any) -> int | None:
    return x.untyped_storage().data_ptr() if isinstance(x, torch.Tensor) and x.numel() else None


def _nested_names(program: ExportedProgram) -> set[str]:
    """Returns the names of nodes in the bodies of branches and loops, which other nodes may have, too."""
    graphs = (g for g in program.graph_module.modules() if isinstance(g, torch.fx.GraphModule))
    return {name_of(n) for g in graphs if g is not program.graph_module for n in g.graph.nodes}


def _tensor(x: Any) -> torch.Tensor:
    if not isinstance(x, torch.Tensor):
        x = torch.tensor(x, dtype=torch.float64 if isinstance(x, float) else None)
    return parts(x.detach()).cpu().contiguous()


# ---------------------------------------------------------------- the command


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m clave.reference",
        description="Writes torch's results, node by node, for clave verify --reference.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("source", metavar="SOURCE", help="a .pt2 file or module:name, see below")
    add("-o", "--output", required=True, metavar="R.safetensors", help="the file to write")
    sources.add_options(add)
    return parser


def _write_reference(options: argparse.Namespace) -> None:
    from clave.specs import Sizes

    texts = sources.by_name(options.args, "--args", ["forward"])
    dtype = sources.dtype_of(options.dtype)
    entry = sources.entry_of(options.source, texts.get("forward"), Sizes.parse(options.dynamic))
    module, args, kwargs, shapes = entry_of("forward", entry)
    write(options.output, reference(module, args, kwargs, shapes, strict=options.strict, dtype=dtype))


def main(argv: list[str] | None = None) -> int:
    """Runs the command. Returns 0 on success, 1 if nothing was written, 2 for a malformed command line."""
    return run(_write_reference, _parser().parse_args(argv), "export")


if __name__ == "__main__":
    sys.exit(main())
