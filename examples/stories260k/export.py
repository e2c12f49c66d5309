"""Writes stories260k.clv: one method, forward(tokens, position), for a prompt of any length and for single tokens."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from model import load

import clave

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("stories260k.clv"))
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help="dtype of the layers' matrices and of the cache")
    args = parser.parse_args()
    example = (torch.ones(1, 3, dtype=torch.int64), torch.tensor(0))
    length = torch.export.Dim("length", min=1, max=512)
    clave.export(load(DTYPES[args.dtype]), example, dynamic_shapes=({1: length}, None)).save(args.output)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
