"""Writes mnist.clv, the program that `make demo` runs; with --inputs the 2,000 held-out images for `clave run`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from model import HERE, TRAINING, dataset, load

import clave


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "mnist.clv")
    parser.add_argument("--inputs", type=Path, help="also write the held-out images here")
    args = parser.parse_args()
    batch = torch.export.Dim("batch", min=1, max=4096)
    clave.export(load(), (torch.zeros(2, 1, 28, 28),), dynamic_shapes=({0: batch},)).save(args.output)
    print(f"wrote {args.output.name}")
    if args.inputs:
        from safetensors.torch import save_file

        save_file({"x": dataset()[0][TRAINING:].contiguous()}, args.inputs)
        print(f"wrote {args.inputs.name}")


if __name__ == "__main__":
    main()
