"""python -m clave export model.pt2 -o model.clv; python -m clave export package:make --args 'f32[1,8]' -o model.clv;
python -m clave from-gguf model.gguf -o model.clv
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import clave
from clave.command import Parser, check_cache, check_form, run
from clave.errors import UsageError

if TYPE_CHECKING:
    from clave.specs import Sizes

_EPILOG = """
SOURCE is the path of a .pt2 file, or module:name (file.py:name): a torch.nn.Module, or what makes one when it is
called without arguments, or makes (module, args, kwargs, dynamic_shapes), which needs no --args. Several methods:
NAME=SOURCE for each, and NAME=... in --args, --input-names and --output-names.

  python -m clave export package.model:Net --args 'f32[batch,3,224,224]' --dynamic batch=1..16 --verify -o net.clv

Exit 0 good, 1 the export failed, 2 malformed command line.
"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m clave", description="clave's Python side.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    export = commands.add_parser(
        "export",
        help="a torch module or a .pt2 file as a program (.clv or .json)",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = export.add_argument
    add("sources", nargs="+", metavar="[NAME=]SOURCE", help="what to export, see below")
    add("-o", "--output", required=True, metavar="PROG", help=".clv, or .json with consts.safetensors beside it")
    add(
        "--args",
        action="append",
        default=[],
        metavar="[NAME=]ARGS",
        help="example inputs: 'f32[1,3],i64[],x:f32[2],2.5'",
    )
    add("--dynamic", action="append", default=[], metavar="SIZE[=[LOW..]HIGH]", help="a size that --args name")
    add("--dtype", metavar="TYPE", help="floats are converted to it first: f16, bf16, f32 or f64")
    add(
        "--quantize",
        metavar="FORM",
        help="weights of products, embeddings and convolutions: int8, int4:32, int4:32:zeros, Q8_0, ...",
    )
    add("--input-names", action="append", default=[], metavar="[NAME=]A,B", help="of the program's inputs, in order")
    add("--output-names", action="append", default=[], metavar="[NAME=]A,B", help="of its outputs")
    add("--strict", action="store_true", default=None, help="capture as torch.export(strict=True)")
    add("--verify", action="store_true", help="compare the program with the module on the CPU backend")
    add("--report", action="store_true", help="say what was made")
    export.set_defaults(run=_export)
    _add_from_gguf(commands)
    return parser


def _add_from_gguf(commands: Any) -> None:
    parser = commands.add_parser(
        "from-gguf",
        help="a language model of a GGUF file (llama.cpp's) as a program",
        description="Weights in blocks stay as they are; tokenizer and chat template are carried. See docs/gguf.md.",
    )
    add = parser.add_argument
    add("source", metavar="MODEL.gguf")
    add("-o", "--output", required=True, metavar="PROG", help=".clv, or .json with consts.safetensors beside it")
    add(
        "--max-context",
        type=int,
        metavar="N",
        help="tokens that the cache holds (default: what the model was made for, at most 4096)",
    )
    add("--kv", default="f16", metavar="TYPE", help="of the cache: f32, f16 (the default), bf16 or int8")
    add("--prompt-piece", type=int, default=256, metavar="N", help="tokens that a layer with a window takes at once")
    add("--tokenizer", metavar="FILE", help="tokenizer.json, SentencePiece .model or folder in place of the file's own")
    add("--report", action="store_true", help="say what was made")
    parser.set_defaults(run=_from_gguf)


def _by_name(texts: list[str], option: str, names: list[str] | None) -> dict[str, str]:
    """{method: text} of [NAME=]text. names: of the methods; None: what is here names them."""
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
    """What module:name stands for: a module, or a tuple of a module and its inputs."""
    import torch

    where, _, name = source.rpartition(":")
    try:
        found: Any = _import(where)
        for part in name.split("."):
            found = getattr(found, part)
        if callable(found) and not isinstance(found, torch.nn.Module):
            found = found()
    except Exception as e:
        raise clave.Error(f"{source}: {type(e).__name__}: {e}") from e
    entry = found if isinstance(found, tuple) else (found,)
    if entry and isinstance(entry[0], torch.nn.Module):
        entry[0].eval()
    return entry


def _entry(source: str, text: str | None, sizes: Sizes) -> Any:
    """A method as clave.export takes it."""
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


def _names(texts: list[str], option: str, methods: list[str]) -> dict[str, list[str]] | None:
    return {m: names.split(",") for m, names in _by_name(texts, option, methods).items()} or None


def _dtype(text: str | None) -> Any:
    from clave.specs import TYPES

    if text is not None and text not in TYPES:
        raise UsageError(f"--dtype {text}: expected one of {', '.join(TYPES)}")
    return None if text is None else TYPES[text]


def _export(options: argparse.Namespace) -> None:
    from clave.specs import Sizes

    sources = _by_name(options.sources, "SOURCE", None)
    methods = list(sources)
    texts = _by_name(options.args, "--args", methods)
    sizes = Sizes.parse(options.dynamic)
    check_form("--quantize", options.quantize)
    more = {
        "dtype": _dtype(options.dtype),
        "quantize": options.quantize,
        "input_names": _names(options.input_names, "--input-names", methods),
        "output_names": _names(options.output_names, "--output-names", methods),
    }
    entries = {name: _entry(source, texts.get(name), sizes) for name, source in sources.items()}
    program = clave.export(entries, strict=options.strict, verify=options.verify, **more)
    program.save(options.output)
    if options.report:
        print(program.report)


def _from_gguf(options: argparse.Namespace) -> None:
    check_cache(options)
    program = clave.from_gguf(
        options.source,
        max_context=options.max_context,
        kv=options.kv,
        prompt_piece=options.prompt_piece,
        tokenizer=options.tokenizer,
    )
    program.save(options.output)
    if options.report:
        print(program.report)


def main(argv: list[str] | None = None) -> int:
    """Exit 0 good, 1 nothing was made, 2 malformed command line."""
    options = _parser().parse_args(argv)
    return run(options.run, options, "export")


if __name__ == "__main__":
    sys.exit(main())
