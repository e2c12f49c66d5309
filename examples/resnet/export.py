"""Writes resnet20.clv, and with --inputs the 200 test images as a safetensors file for `clave run`."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from model import DATA, load, normalise

import clave


def images() -> torch.Tensor:
    return normalise(torch.from_numpy(np.load(DATA / "images_200_u8_nhwc.npy")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("resnet20.clv"))
    parser.add_argument("--inputs", type=Path, help="also write the images here")
    args = parser.parse_args()
    batch = torch.export.Dim("batch", min=1, max=256)
    clave.export(load(), (images()[:2],), dynamic_shapes=({0: batch},)).save(args.output)
    print(f"wrote {args.output}")
    if args.inputs:
        from safetensors.torch import save_file

        save_file({"x": images().contiguous()}, args.inputs)
        print(f"wrote {args.inputs}")


if __name__ == "__main__":
    main()
