"""Writes mnist.clv, the program that `make demo` runs; with --int8, the network is rounded to 8 bits; with
--inputs, also writes the 2,000 held-out images for `clave run`."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from model import HERE, TRAINING, dataset, load, pictures

import clave


def round_to_int8(net: torch.nn.Module, args: tuple[torch.Tensor, ...], dynamic_shapes: object) -> torch.nn.Module:
    """Returns the network with 8-bit weights and activations, calibrated on the pictures in digits/. Needs torchao."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from clave.quantizer import ClaveQuantizer

    exported = torch.export.export(net, args, dynamic_shapes=dynamic_shapes)
    prepared = prepare_pt2e(exported.module(), ClaveQuantizer())
    prepared(pictures())
    return convert_pt2e(prepared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=HERE / "mnist.clv")
    parser.add_argument("--inputs", type=Path, help="also write the held-out images here")
    parser.add_argument("--int8", action="store_true", help="round weights and activations to 8 bits")
    args = parser.parse_args()
    given, shapes = (torch.zeros(2, 1, 28, 28),), ({0: torch.export.Dim("batch", min=1, max=4096)},)
    net = round_to_int8(load(), given, shapes) if args.int8 else load()
    clave.export(net, given, dynamic_shapes=shapes).save(args.output)
    print(f"wrote {args.output.name}")
    if args.inputs:
        from safetensors.torch import save_file

        save_file({"x": dataset()[0][TRAINING:].contiguous()}, args.inputs)
        print(f"wrote {args.inputs.name}")


if __name__ == "__main__":
    main()
