"""A small network for handwritten digits, and the MNIST images to train and test it with."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from example_data import find

HERE = Path(__file__).resolve().parent
WEIGHTS = HERE / "weights.pt"
TRAINING = 8000  # images to train on; the rest of the 10,000 is held out


class Net(nn.Module):
    """x: (N, 1, 28, 28) in 0..1, white on black; returns logits (N, 10). 33,000 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.conv3 = nn.Conv2d(32, 32, 3, padding=1)
        self.hidden = nn.Linear(32 * 3 * 3, 64)
        self.dropout = nn.Dropout(0.3)
        self.output = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in (self.conv1, self.conv2, self.conv3):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        return self.output(self.dropout(F.relu(self.hidden(x.flatten(1)))))


def load() -> Net:
    """Returns the trained network, in eval mode."""
    net = Net()
    net.load_state_dict(torch.load(WEIGHTS, weights_only=True))
    return net.eval()


def pictures() -> torch.Tensor:
    """Returns the ten images of digits/: (10, 1, 28, 28) in 0..1."""
    read = lambda file: np.frombuffer(file.read_bytes()[-28 * 28 :], np.uint8)
    pixels = np.stack([read(HERE / f"digits/{digit}.pgm") for digit in range(10)])
    return torch.from_numpy(pixels.reshape(-1, 1, 28, 28).astype(np.float32) / 255)


def dataset() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images (10000, 1, 28, 28) in 0..1 and labels (10000), which `examples/fetch mnist` downloads."""
    read = lambda file: gzip.decompress(find("mnist", file).read_bytes())
    pixels = np.frombuffer(read("t10k-images-idx3-ubyte.gz"), np.uint8, offset=16)
    labels = np.frombuffer(read("t10k-labels-idx1-ubyte.gz"), np.uint8, offset=8)
    images = torch.from_numpy(pixels.reshape(-1, 1, 28, 28).astype(np.float32) / 255)
    return images, torch.from_numpy(labels.astype(np.int64))
