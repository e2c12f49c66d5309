"""Trains the network on pictures that shapes.py draws and writes weights.pt. Takes twenty minutes on one core."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from model import WEIGHTS, ResNet20, normalise
from shapes import HELD_OUT, dataset


def pictures(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    images, labels = dataset(n, seed)
    return normalise(torch.from_numpy(images)), torch.from_numpy(labels)


def train(net: ResNet20, steps: int, batch: int = 64) -> None:
    """Trains the network; each step draws new pictures."""
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for step in range(steps):
        x, y = pictures(batch, 1000 + step)
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % 25 == 0:
            print(f"step {step + 1} of {steps}: loss {loss:.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("-o", "--output", type=Path, default=WEIGHTS)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the result depends on it
    net = ResNet20()
    train(net.train(), args.steps)
    x, y = pictures(1000, HELD_OUT)
    half = {k: v.half() if v.is_floating_point() else v for k, v in net.state_dict().items()}
    net.load_state_dict(half)
    with torch.no_grad():
        right = (net.eval()(x).argmax(1) == y).float().mean()
    print(f"new pictures: {right:.1%} of {len(x)} right")
    torch.save(half, args.output)
    print(f"wrote {args.output.name}")


if __name__ == "__main__":
    main()
