"""Draws the measurements of test/soak.c as an SVG: a row for each gauge, a column for each device.

soak_plot.py --out FILE.svg CSV...
"""

import argparse
import csv
import pathlib

WIDTH, HEIGHT, GAP, LEFT, TOP = 360, 80, 24, 110, 40  # size of a panel, gap between panels, margins; pixels
NAMES = {
    "rss_kb": "memory, KB",
    "heap_kb": "heap, KB",
    "files": "open files",
    "threads": "threads",
    "cl_objects": "OpenCL objects",
}


def read(path):
    """Returns the columns by name."""
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{words}</text>'


def panel(x, y, seconds, values):
    """Draws one curve over time, from 0 up, with its last value."""
    high = max(values) * 1.15 or 1
    step = 1 + len(values) // (WIDTH // 2)
    points = [
        f"{x + WIDTH * t / seconds[-1]:.1f},{y + HEIGHT * (1 - v / high):.1f}"
        for t, v in zip(seconds[::step], values[::step], strict=True)
    ]
    return [
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>',
        f'<polyline points="{" ".join(points)}" fill="none" stroke="#06c"/>',
        text(x + WIDTH - 4, y + HEIGHT - 6, f"{values[-1]:,.0f}", "end"),
    ]


def draw(paths):
    width = LEFT + len(paths) * (WIDTH + GAP)
    height = TOP + len(NAMES) * (HEIGHT + GAP)
    font = 'font-family="sans-serif" font-size="12"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {font}>',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for row, name in enumerate(NAMES.values()):
        lines.append(text(LEFT - 10, TOP + row * (HEIGHT + GAP) + HEIGHT / 2, name, "end"))
    for column, path in enumerate(paths):
        data, x = read(path), LEFT + column * (WIDTH + GAP)
        seconds = data["seconds"]
        lines.append(text(x, TOP - 14, f"{path.stem}: {len(seconds):,} rounds in {seconds[-1] / 60:.1f} minutes"))
        for row, name in enumerate(NAMES):
            lines += panel(x, TOP + row * (HEIGHT + GAP), seconds, data[name])
    return "\n".join([*lines, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("csv", type=pathlib.Path, nargs="+")
    args = parser.parse_args()
    args.out.write_text(draw(args.csv))


if __name__ == "__main__":
    main()
