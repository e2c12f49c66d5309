"""Step 2, conversion: translates a torch model to a program, clave's IR, without running any pass.

SOURCE is a .pt2 file, or FILE.py:NAME, a torch module (or a function that makes one) with --args 'f32[1,1,28,28]'.
PROG is a .clv, or a .json with consts.safetensors beside it.
"""

from __future__ import annotations

import argparse
from typing import Any

import clave
from clave.command import run
from clave.sources import entry_of
from clave.specs import Sizes


def convert(source: Any, args: tuple[Any, ...] = ()) -> clave.Program:
    """source: a torch.nn.Module with example inputs, an exported program, or the path of a .pt2 file."""
    return clave.export(source, args, passes=())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("program", metavar="PROG")
    parser.add_argument("--args", help="example inputs of a module")

    def command(options: argparse.Namespace) -> None:
        entry = entry_of(options.source, options.args, Sizes())
        program = convert(*entry[:2]) if isinstance(entry, tuple) else convert(entry)
        program.save(options.program)
        print(f"{program.report}\nwrote {options.program}")

    return run(command, parser.parse_args(), "export")


if __name__ == "__main__":
    raise SystemExit(main())
