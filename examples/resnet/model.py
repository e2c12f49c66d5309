"""ResNet-20 for CIFAR-10 (He et al., "Deep Residual Learning", section 4.2), with shortcuts of option A: if a stage
halves the image and doubles the channels, the shortcut takes every second pixel and pads the channels with zeros.

weights.pt was trained by train.py, on pictures that shapes.py draws. `load` also reads the checkpoint of the public
repository akamaster/pytorch_resnet_cifar10, which was trained on photographs (`examples/fetch cifar10`).
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

WEIGHTS = Path(__file__).with_name("weights.pt")
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


class Shortcut(nn.Module):
    """Returns every second pixel, with zeros for the additional channels."""

    def __init__(self, new_channels: int) -> None:
        super().__init__()
        self.before = new_channels // 2
        self.after = new_channels - self.before

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.before, self.after))


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity() if stride == 1 else Shortcut(outputs - inputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResNet20(nn.Module):
    """x: (N, 3, 32, 32), normalised by MEAN and STD; returns logits (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16), Block(16, 16), Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32), Block(32, 32), Block(32, 32))
        self.layer3 = nn.Sequential(Block(32, 64), Block(64, 64), Block(64, 64))
        self.linear = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(x.mean((2, 3)))


def load(weights: Path = WEIGHTS) -> ResNet20:
    """Returns the trained network, in eval mode. weights: a file of names and tensors, or a checkpoint that contains
    them, with names after "module."."""
    found = torch.load(weights, map_location="cpu", weights_only=True)
    model = ResNet20()
    model.load_state_dict({k.removeprefix("module."): v for k, v in found.get("state_dict", found).items()})
    return model.eval()


def normalise(images: torch.Tensor) -> torch.Tensor:
    """Converts u8 (N, 32, 32, 3) to normalised float32 (N, 3, 32, 32)."""
    x = images.permute(0, 3, 1, 2).float() / 255
    return (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
