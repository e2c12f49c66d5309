"""Step 6, verification: compares torch's numbers, node by node, with the program's on this machine's device and on the
CPU backend, with the optimised program's, and with the executable's. `clave verify` compares them.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile

from compiler_driver import TOOL

from clave.command import run
from clave.errors import Error
from clave.reference import reference, write


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL.pt2", help="the model from which the program was made")
    parser.add_argument("program", metavar="PROG")
    parser.add_argument("--executable", metavar="BIN", help="the executable that compiler_driver.py made")
    parser.add_argument("--html", metavar="F.html", help="write the graph, coloured by error")

    def command(options: argparse.Namespace) -> None:
        more = ["--executable", options.executable] if options.executable else []
        more += ["--html", options.html] if options.html else []
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            write(file.name, reference(options.model))
            tool = [TOOL, "verify", options.program, "--reference", file.name, *more]
            if subprocess.run(tool).returncode:
                raise Error(f"{options.program} is not what {options.model} computes")

    return run(command, parser.parse_args(), "export")


if __name__ == "__main__":
    raise SystemExit(main())
