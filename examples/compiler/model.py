"""Step 1, the model: trains a network on digits that examples/mnist/draw.py draws, turned and moved, in a few seconds,
and exports it as mnist_cnn.pt2."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "mnist"))
from draw import SIDE, STROKES, draw
from train import disturbed

TRAINING = 6000  # drawings to train on; the others are held out


class Net(nn.Module):
    """x: (N, 1, 28, 28) in 0..1, white on black; returns logits (N, 10). 12,000 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 8, 5, stride=2, padding=2), nn.BatchNorm2d(8)
        self.conv2, self.norm2 = nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.output = nn.Linear(16 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.max_pool2d(F.relu(self.norm2(self.conv2(x))), 2)
        return self.output(x.flatten(1))


def drawings(times: int) -> torch.Tensor:
    """Draws (10 * times, 1, 28, 28) in 0..1: each of the ten digits `times` times, no two alike."""
    pixels = b"".join(draw(STROKES[digit]) for digit in range(10))
    digits = torch.frombuffer(bytearray(pixels), dtype=torch.uint8).view(10, 1, SIDE, SIDE) / 255
    return disturbed(digits.repeat(times, 1, 1, 1))


def train(net: Net, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int = 100) -> None:
    optimizer = torch.optim.AdamW(net.parameters())
    steps = epochs * (len(x) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-2, total_steps=steps)
    for _ in range(epochs):
        for some in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            F.cross_entropy(net(x[some]), y[some]).backward()
            optimizer.step()
            schedule.step()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", default="mnist_cnn.pt2")
    parser.add_argument("--epochs", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # a second thread does not speed up batches this small
    images, labels = drawings(800), torch.arange(10).repeat(800)
    net = Net()
    train(net.train(), images[:TRAINING], labels[:TRAINING], args.epochs)
    with torch.no_grad():
        right = net.eval()(images[TRAINING:]).argmax(1) == labels[TRAINING:]
    print(f"held-out drawings: {right.float().mean():.1%} right")
    torch.export.save(torch.export.export(net, (images[:1],)), args.output)
    print(f"wrote {args.output}")


if __name__ == "__main__":
    main()
