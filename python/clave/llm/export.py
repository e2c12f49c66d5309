"""python -m clave.llm.export --model FOLDER --output m.clv: exports a Hugging Face folder as a program."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from clave.command import Parser, check_cache, check_form, run
from clave.errors import UsageError

_EPILOG = """
ENCODING is int8 (a scale for each row), int4:32, int4:64 or int4:128 (a scale for that many neighbours), or another
one of docs/howto/quantise.md. docs/howto/language_models.md describes the models and the contents of the file.

Exit 0 good, 1 the export failed, 2 malformed command line.
"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m clave.llm.export",
        description="Exports a Hugging Face folder as a program, with its tokenizer and chat template.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="FOLDER", help="a folder with config.json, safetensors and tokenizer files")
    add("--output", required=True, metavar="PROG", help="a .clv file")
    add("--dtype", metavar="TYPE", help="type of weights and activations: f32, f16 or bf16 (default: the folder's)")
    add("--quantize", metavar="ENCODING", help="encoding of the matrices of products")
    add("--quantize-embedding", metavar="ENCODING", help="encoding of embeddings, also of one that is the output")
    add("--max-context", type=int, metavar="N", help="tokens that the cache can hold (default: the model's, max. 4096)")
    add("--kv", metavar="TYPE", help="type of the cache: f32, f16, bf16 or int8 (default: the model's)")
    add("--prompt-piece", type=int, default=256, metavar="N", help="prompt tokens that a layer with a window runs")
    add("--long-factors", action="store_true", help="use longrope's factors for long texts at every length")
    add("--pack", metavar="DEVICE", help="store packed weights for that device, too, so that it starts faster")
    add("--report", action="store_true", help="print a summary of the program")
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
        print(f"clave: note: {o.model} has no tokenizer: the program reads and writes ids", file=sys.stderr)
    if device:
        exporter.pack(device)
    exporter.save(Path(o.output).absolute())
    if o.report:
        print(exporter.program.report)


def main(argv: list[str] | None = None) -> int:
    """Runs the command. Returns 0 on success, 1 if the export failed, 2 for a malformed command line."""
    options = _parser().parse_args(argv)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # hides warnings of libraries that transformers loads
    try:
        return run(_export, options, "llm")
    finally:
        logging.disable(before)


if __name__ == "__main__":
    sys.exit(main())
