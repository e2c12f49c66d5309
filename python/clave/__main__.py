"""python -m clave export model.pt2 -o model.clv; python -m clave export package:make --args 'f32[1,8]' -o model.clv;
python -m clave from-gguf model.gguf -o model.clv
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import clave
from clave import sources
from clave.command import Parser, check_cache, check_form, run

_EPILOG = f"""{sources.HELP}For several methods, write NAME=SOURCE for each, and NAME=... in --args, --input-names and
--output-names.

  python -m clave export package.model:Net --args 'f32[batch,3,224,224]' --dynamic batch=1..16 --verify -o net.clv

Exit 0 good, 1 the export failed, 2 malformed command line.
"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m clave", description="Exports models to clave programs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    export = commands.add_parser(
        "export",
        help="export a torch module or a .pt2 file as a program (.clv or .json)",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = export.add_argument
    add("sources", nargs="+", metavar="[NAME=]SOURCE", help="the module or file to export, see below")
    add("-o", "--output", required=True, metavar="PROG", help=".clv, or .json with consts.safetensors beside it")
    sources.add_options(add)
    add(
        "--quantize",
        metavar="ENCODING",
        help="encoding of products', embeddings' and convolutions' weights: int8, int4:32, Q8_0, ...",
    )
    add(
        "--input-names",
        action="append",
        default=[],
        metavar="[NAME=]A,B",
        help="names of the program's inputs, in order",
    )
    add("--output-names", action="append", default=[], metavar="[NAME=]A,B", help="names of its outputs")
    add("--verify", action="store_true", help="compare the program with the module on the CPU backend")
    add("--report", action="store_true", help="print a summary of the program")
    export.set_defaults(run=_export)
    _add_from_gguf(commands)
    return parser


def _add_from_gguf(commands: Any) -> None:
    parser = commands.add_parser(
        "from-gguf",
        help="convert a language model in a GGUF file of llama.cpp to a program",
        description="Converts a language model with its tokenizer and chat template. See docs/howto/gguf.md.",
    )
    add = parser.add_argument
    add("source", metavar="MODEL.gguf")
    add("-o", "--output", required=True, metavar="PROG", help=".clv, or .json with consts.safetensors beside it")
    add(
        "--max-context",
        type=int,
        metavar="N",
        help="capacity of the cache in tokens (default: the model's, at most 4096)",
    )
    add("--kv", default="f16", metavar="TYPE", help="type of the cache: f32, f16 (the default), bf16 or int8")
    add("--prompt-piece", type=int, default=256, metavar="N", help="prompt tokens that a layer with a window runs")
    add("--tokenizer", metavar="FILE", help="tokenizer.json, SentencePiece .model or folder to use instead")
    add("--report", action="store_true", help="print a summary of the program")
    parser.set_defaults(run=_from_gguf)


def _names(texts: list[str], option: str, methods: list[str]) -> dict[str, list[str]] | None:
    return {m: names.split(",") for m, names in sources.by_name(texts, option, methods).items()} or None


def _export(options: argparse.Namespace) -> None:
    from clave.specs import Sizes

    found = sources.by_name(options.sources, "SOURCE", None)
    methods = list(found)
    texts = sources.by_name(options.args, "--args", methods)
    sizes = Sizes.parse(options.dynamic)
    check_form("--quantize", options.quantize)
    more = {
        "dtype": sources.dtype_of(options.dtype),
        "quantize": options.quantize,
        "input_names": _names(options.input_names, "--input-names", methods),
        "output_names": _names(options.output_names, "--output-names", methods),
    }
    entries = {name: sources.entry_of(source, texts.get(name), sizes) for name, source in found.items()}
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
    """Runs the command. Returns 0 on success, 1 if nothing was written, 2 for a malformed command line."""
    options = _parser().parse_args(argv)
    return run(options.run, options, "export")


if __name__ == "__main__":
    sys.exit(main())
