"""Draws pictures of ten kinds of shapes: 32 x 32 pixels, coloured, turned, on backgrounds with a gradient, stripes and
noise. The same seed always draws the same pictures, so that training and tests download nothing."""

from __future__ import annotations

import numpy as np

NAMES = ("disc", "ring", "square", "triangle", "star", "cross", "heart", "moon", "arrow", "frame")
HELD_OUT = 1  # seed of the held-out pictures
SIDE, FINE = 32, 3  # pixels per side; samples per side of a pixel


def polygon(x: np.ndarray, y: np.ndarray, corners: list[tuple[float, float]]) -> np.ndarray:
    """True inside the polygon, by the number of edges that a ray to the right crosses."""
    inside = np.zeros(x.shape, bool)
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if ay != by:
            inside ^= ((ay > y) != (by > y)) & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
    return inside


def regular(n: int, *radii: float) -> list[tuple[float, float]]:
    """Returns n corners around the centre, at the distances `radii` in turn."""
    angles = [2 * np.pi * i / n for i in range(n)]
    return [(radii[i % len(radii)] * np.sin(a), -radii[i % len(radii)] * np.cos(a)) for i, a in enumerate(angles)]


def inside(name: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """True where a shape covers the points (x, y), which are in -1 to 1."""
    r, box = np.hypot(x, y), np.maximum(abs(x), abs(y))
    match name:
        case "disc":
            return r < 0.85
        case "ring":
            return (r < 0.9) & (r > 0.5)
        case "square":
            return box < 0.75
        case "frame":
            return (box < 0.8) & (box > 0.45)
        case "triangle":
            return polygon(x, y, regular(3, 1.0))
        case "star":
            return polygon(x, y, regular(10, 1.0, 0.4))
        case "cross":
            return (box < 0.9) & (np.minimum(abs(x), abs(y)) < 0.28)
        case "heart":
            lobes = np.hypot(abs(x) - 0.42, y + 0.35) < 0.48
            return lobes | polygon(x, y, [(-0.87, -0.2), (0.87, -0.2), (0.0, 0.95)])
        case "moon":
            return (r < 0.9) & (np.hypot(x - 0.45, y) > 0.75)
        case _:
            head = polygon(x, y, [(0.0, -1.0), (0.75, -0.1), (-0.75, -0.1)])
            return head | ((abs(x) < 0.25) & (y > -0.2) & (y < 0.95))


def background(random: np.random.Generator, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns (n, n, 3): a gradient between two colours, with stripes in every second picture."""
    turn = random.uniform(0, 2 * np.pi)
    along = x * np.cos(turn) + y * np.sin(turn)
    first, second = random.uniform(0, 1, (2, 3))
    colours = first + (second - first) * ((along[..., None] + 1.5) / 3)
    if random.random() < 0.5:
        colours = colours + 0.12 * np.sin(along * random.uniform(6, 20))[..., None]
    return colours


def draw(kind: int, random: np.random.Generator) -> np.ndarray:
    """Draws one picture, u8 (SIDE, SIDE, 3)."""
    line = (np.arange(SIDE * FINE) + 0.5) / (SIDE * FINE) * 2 - 1
    x, y = np.meshgrid(line, line)
    picture = background(random, x, y)
    colour = random.uniform(0, 1, 3)
    while np.abs(colour - picture.mean((0, 1))).max() < 0.4:
        colour = random.uniform(0, 1, 3)
    size, turn = random.uniform(0.45, 0.8), random.uniform(-0.5, 0.5)
    (dx, dy), (c, s) = random.uniform(-0.25, 0.25, 2), (np.cos(turn) / size, np.sin(turn) / size)
    covered = inside(NAMES[kind], c * (x - dx) + s * (y - dy), c * (y - dy) - s * (x - dx))
    picture = np.where(covered[..., None], colour, picture)
    coarse = picture.reshape(SIDE, FINE, SIDE, FINE, 3).mean((1, 3)) + random.normal(0, 0.04, (SIDE, SIDE, 3))
    return (coarse.clip(0, 1) * 255).round().astype(np.uint8)


def dataset(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns pictures, u8 (n, 32, 32, 3), and the indices of their names, i64 (n)."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, len(NAMES), n)
    return np.stack([draw(kind, random) for kind in labels]), labels
