"""python -m clave export model.pt2 -o model.clv"""

from __future__ import annotations

import argparse
import sys

import clave


def main(argv: list[str] | None = None) -> int:
    """Exit 0 good, 1 the export failed, 2 malformed command line."""
    parser = argparse.ArgumentParser(prog="python -m clave", description="clave's Python side.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    export = commands.add_parser("export", help="a torch.export file (.pt2) as a program (.clv or .json)")
    export.add_argument("model", metavar="MODEL.pt2")
    export.add_argument(
        "-o", "--output", required=True, metavar="PROG", help=".clv, or .json with consts.safetensors beside it"
    )
    args = parser.parse_args(argv)
    try:
        clave.export(args.model).save(args.output)
    except RuntimeError as e:
        line = " ".join(str(e).split("\n")[0].split())
        print(f"clave: {line}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
