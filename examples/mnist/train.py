"""Trains the network on 8,000 images, tests it on the other 2,000, and writes weights.pt. Takes less than a minute."""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F
from model import TRAINING, WEIGHTS, Net, dataset


def disturbed(x: torch.Tensor) -> torch.Tensor:
    """Rotates, stretches, slants and moves images a little, so that they vary like the digits of more writers."""
    n = len(x)
    turn, slant = ((torch.rand(n) * 2 - 1) * 0.2 for _ in range(2))
    wide, high = (1 + (torch.rand(n) * 2 - 1) * 0.15 for _ in range(2))
    move = (torch.rand(n, 2) * 2 - 1) * 0.15
    rows = (wide * turn.cos(), -turn.sin() + slant, move[:, 0], turn.sin(), high * turn.cos(), move[:, 1])
    grid = F.affine_grid(torch.stack(rows, 1).view(n, 2, 3), list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def train(net: Net, x: torch.Tensor, y: torch.Tensor, epochs: int, batch: int = 64) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=1e-4)
    steps = epochs * (len(x) // batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for epoch in range(epochs):
        total = 0.0
        for some in torch.randperm(len(x)).split(batch)[: len(x) // batch]:
            loss = F.cross_entropy(net(disturbed(x[some])), y[some])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch + 1} of {epochs}: loss {total / (len(x) // batch):.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # a second thread does not speed up batches this small, and the result depends on it
    images, labels = dataset()
    net = Net()
    train(net.train(), images[:TRAINING], labels[:TRAINING], args.epochs)
    with torch.no_grad():
        right = net.eval()(images[TRAINING:]).argmax(1) == labels[TRAINING:]
    print(f"held-out images: {right.float().mean():.2%} right ({int((~right).sum())} of {len(right)} wrong)")
    torch.save(net.state_dict(), WEIGHTS)
    print(f"wrote {WEIGHTS.name}")


if __name__ == "__main__":
    main()
