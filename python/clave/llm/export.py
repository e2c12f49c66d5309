"""python -m clave.llm.export --model FOLDER --output m.clv: a Hugging Face folder as a program."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from clave.command import Parser, check_cache, check_form, run
from clave.errors import UsageError

_EPILOG = """
FORM is int8 (a scale for each row), int4:32, int4:64 or int4:128 (one for so many neighbours), or any other of
docs/howto/quantise.md. What the file carries, and which models there are: docs/howto/language_models.md.

Exit 0 good, 1 the export failed, 2 malformed command line.
"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m clave.llm.export",
        description="A Hugging Face folder as a program, with its tokenizer and chat template.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="FOLDER", help="config.json, safetensors, and what else belongs to it")
    add("--output", required=True, metavar="PROG", help="a .clv file")
    add("--dtype", metavar="TYPE", help="of weights and activations: f32, f16 or bf16 (default: the folder's)")
    add("--quantize", metavar="FORM", help="of the matrices of products")
    add("--quantize-embedding", metavar="FORM", help="of embeddings, and of a table that is the output, too")
    add("--max-context", type=int, metavar="N", help="tokens that the cache holds (default: the model's, at most 4096)")
    add("--kv", metavar="TYPE", help="of the cache: f32, f16, bf16 or int8 (default: the model's type)")
    add("--prompt-piece", type=int, default=256, metavar="N", help="tokens that a layer with a window takes at once")
    add("--long-factors", action="store_true", help="longrope has its factors for long texts at every length")
    add("--pack", metavar="DEVICE", help="adds the weights as that device wants them, so that it starts faster")
    add("--report", action="store_true", help="say what was made")
    return parser


def _export(o: argparse.Namespace) -> None:
    from clave.llm.exporter import DTYPES, LLMExporter
    from clave.llm.spool import beside
    from clave.session import Device

    check_cache(o)
    if Path(o.output).suffix != ".clv":
        raise UsageError(f"--output {o.output}: expected a name that ends in .clv")
    if o.dtype is not None and o.dtype not in DTYPES:
        raise UsageError(f"--dtype {o.dtype}: expected {', '.join(DTYPES)}")
    check_form("--quantize", o.quantize)
    check_form("--quantize-embedding", o.quantize_embedding)
    device = Device(o.pack) if o.pack else None
    folder = beside(o.output)
    options = {"prompt_piece": o.prompt_piece, "long_factors": o.long_factors}
    exporter = LLMExporter(o.model, max_context=o.max_context, kv=o.kv, **options)
    exporter.set_output_dir(folder).quantize(o.quantize, o.quantize_embedding)
    if o.dtype:
        exporter.to_dtype(o.dtype)
    exporter.capture()
    for note in exporter.notes:
        print(f"clave: note: {note}", file=sys.stderr)
    exporter.lower()
    if not exporter.has_tokenizer:
        print(f"clave: note: {o.model} has no tokenizer: the program takes and gives ids", file=sys.stderr)
    if device:
        exporter.pack(device)
    exporter.save(Path(o.output).absolute())
    if o.report:
        print(exporter.program.report)


def main(argv: list[str] | None = None) -> int:
    """Exit 0 good, 1 nothing was made, 2 malformed command line."""
    options = _parser().parse_args(argv)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # what libraries that transformers loads say of themselves
    try:
        return run(_export, options, "llm")
    finally:
        logging.disable(before)


if __name__ == "__main__":
    sys.exit(main())
