"""Steps 2 to 4 in one: compiles SOURCE to an executable that needs no other files.

SOURCE is a program (.clv, .json), or a source of converter.py, which is converted and optimised first. `clave compile`
does the work and defines the options.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import clave
from clave.command import run
from clave.errors import Error
from clave.sources import entry_of
from clave.specs import Sizes

TOOL = Path(__file__).resolve().parents[2] / "build" / "clave"


def compile_program(program: str, executable: str, options: list[str]) -> None:
    """Raises Error on failure, after `clave compile` has printed the reason."""
    if subprocess.run([TOOL, "compile", program, "-o", executable, *options]).returncode:
        raise Error(f"{executable} was not made")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("executable", metavar="BIN")
    parser.add_argument("--args", help="example inputs of a module")
    parser.add_argument("--debug", action="store_true", help="compile with debugging information and few optimisations")
    parser.add_argument("--keep-build", action="store_true", help="keep sources and objects in BIN.build")
    parser.add_argument("--kernel-dir", metavar="DIR", help="use these kernels instead of clave's own")

    def command(options: argparse.Namespace) -> None:
        passed = ["--debug"] * options.debug + ["--keep-build"] * options.keep_build
        passed += ["--kernel-dir", options.kernel_dir] if options.kernel_dir else []
        if options.source.endswith((".clv", ".json")):
            compile_program(options.source, options.executable, passed)
            return
        entry = entry_of(options.source, options.args, Sizes())
        with tempfile.TemporaryDirectory() as folder:
            program = f"{folder}/{Path(options.executable).name}.clv"
            clave.export({"forward": entry}).save(program)
            compile_program(program, options.executable, passed)

    return run(command, parser.parse_args(), "export")


if __name__ == "__main__":
    raise SystemExit(main())
