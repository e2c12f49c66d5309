"""Prints the text of the ids that run_llama wrote."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import clave

DATA = Path(os.environ.get("CLAVE_TEST_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", type=Path, nargs="?", default=Path("build/llama/output_ids.txt"))
    parser.add_argument("--tokenizer", type=Path, default=DATA / "stories260K" / "tok512.model")
    args = parser.parse_args()
    print(clave.Tokenizer(args.tokenizer).decode([int(i) for i in args.ids.read_text().split()]))


if __name__ == "__main__":
    main()
