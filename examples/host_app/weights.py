"""Writes the input of host_app: the weights of ResNet-20 with batch norms folded into the convolutions, as floats in
the order of its graph, and pictures of examples/resnet/shapes.py, as bytes.

weights.py WEIGHTS IMAGES [--count N]
"""

import argparse
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "resnet"))
from model import MEAN, STD, load
from shapes import HELD_OUT, dataset


def folded(conv, norm):
    """Returns the convolution's weight and bias, with the batch norm after it folded in."""
    scale = norm.weight / torch.sqrt(norm.running_var + norm.eps)
    return conv.weight * scale[:, None, None, None], norm.bias - norm.running_mean * scale


def weights():
    model = load()
    yield from (torch.tensor(MEAN), torch.tensor(STD))
    yield from folded(model.conv1, model.bn1)
    for block in (*model.layer1, *model.layer2, *model.layer3):
        yield from folded(block.conv1, block.bn1)
        yield from folded(block.conv2, block.bn2)
    yield from (model.linear.weight.T, model.linear.bias)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", type=pathlib.Path)
    parser.add_argument("images", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=200, help="number of pictures; default: %(default)s")
    args = parser.parse_args()
    with torch.no_grad():
        args.weights.write_bytes(b"".join(w.contiguous().numpy().tobytes() for w in weights()))
    args.images.write_bytes(dataset(args.count, HELD_OUT)[0].tobytes())


if __name__ == "__main__":
    main()
