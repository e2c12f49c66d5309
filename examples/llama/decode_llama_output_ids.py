"""Prints the text of the ids that run_llama wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

import clave

TINYLM = Path(__file__).resolve().parents[1] / "tinylm/tinylm.clv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", type=Path, nargs="?", default=Path("build/llama/output_ids.txt"))
    parser.add_argument(
        "--tokenizer", type=Path, help="a tokenizer's file or folder; default: the tokenizer of examples/tinylm"
    )
    args = parser.parse_args()
    tokenizer = clave.Tokenizer(args.tokenizer) if args.tokenizer else clave.load(TINYLM).tokenizer
    print(tokenizer.decode([int(i) for i in args.ids.read_text().split()]))


if __name__ == "__main__":
    main()
