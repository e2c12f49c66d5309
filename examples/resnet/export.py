"""Writes resnet20.clv, and with --inputs 200 pictures as a safetensors file for `clave run`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from model import WEIGHTS, load, normalise
from shapes import HELD_OUT, dataset

import clave


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("resnet20.clv"))
    parser.add_argument("--inputs", type=Path, help="also write the pictures here")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="checkpoint; default: weights.pt, of shapes")
    args = parser.parse_args()
    images = normalise(torch.from_numpy(dataset(200, HELD_OUT)[0]))
    batch = torch.export.Dim("batch", min=1, max=256)
    clave.export(load(args.weights), (images[:2],), dynamic_shapes=({0: batch},)).save(args.output)
    print(f"wrote {args.output}")
    if args.inputs:
        from safetensors.torch import save_file

        save_file({"x": images.contiguous()}, args.inputs)
        print(f"wrote {args.inputs}")


if __name__ == "__main__":
    main()
