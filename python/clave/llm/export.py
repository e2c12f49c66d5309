"""python -m clave.llm.export --model FOLDER --output m.clv: a Hugging Face folder as a program."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import NoReturn

import clave
from clave.errors import UsageError
from clave.llm.options import KV

_EPILOG = """
FORM is int8 (a scale for each row), int4:32, int4:64 or int4:128 (one for so many neighbours), or any other of
docs/export.md. What the file carries, and which models there are: docs/llm.md.

Exit 0 good, 1 the export failed, 2 malformed command line.
"""


class _Parser(argparse.ArgumentParser):
    """Errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"clave: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
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
    add("--pack", metavar="DEVICE", help="adds the weights as that device wants them, so that it starts faster")
    add("--report", action="store_true", help="say what was made")
    return parser


def _check(o: argparse.Namespace) -> None:
    if o.kv is not None and o.kv not in KV:
        raise UsageError(f"--kv {o.kv}: expected {', '.join(KV)}")
    for option, value, least in (("max-context", o.max_context, 2), ("prompt-piece", o.prompt_piece, 1)):
        if value is not None and not least <= value < 2**31:
            raise UsageError(f"--{option} {value}: expected {least} to {2**31 - 1}")
    if Path(o.output).suffix != ".clv":
        raise UsageError(f"--output {o.output}: expected a name that ends in .clv")


def _export(o: argparse.Namespace) -> None:
    from clave.llm.exporter import DTYPES, LLMExporter
    from clave.llm.spool import beside

    _check(o)
    if o.dtype is not None and o.dtype not in DTYPES:
        raise UsageError(f"--dtype {o.dtype}: expected {', '.join(DTYPES)}")
    folder = beside(o.output)
    exporter = LLMExporter(o.model, max_context=o.max_context, kv=o.kv, prompt_piece=o.prompt_piece)
    exporter.set_output_dir(folder).quantize(o.quantize, o.quantize_embedding)
    if o.dtype:
        exporter.to_dtype(o.dtype)
    exporter.capture().lower()
    if not exporter.has_tokenizer:
        print(f"clave: note: {o.model} has no tokenizer: the program takes and gives ids", file=sys.stderr)
    if o.pack:
        exporter.pack(o.pack)
    exporter.save(Path(o.output).absolute())
    if o.report:
        print(exporter.program.report)


def main(argv: list[str] | None = None) -> int:
    """Exit 0 good, 1 nothing was made, 2 malformed command line."""
    options = _parser().parse_args(argv)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # what libraries that transformers loads say of themselves
    try:
        _export(options)
    except UsageError as e:
        return _say(str(e), 2)
    except ModuleNotFoundError as e:
        return _say(f"export needs {e.name}: pip install 'clave[llm]'", 1)
    except (clave.Error, OSError) as e:
        return _say(str(e), 1)
    finally:
        logging.disable(before)
    return 0


def _say(message: str, code: int) -> int:
    print(f"clave: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
