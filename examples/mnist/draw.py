#!/usr/bin/env python3
"""Draws digits as with a pen, like MNIST's: 28 x 28, white on black, with the digit in the middle 20 x 20.

draw.py [FOLDER]     writes 0.pgm ... 9.pgm (default: digits/ beside this file), and 7.npy, a 7 as the network's input
"""

import itertools
import math
import pathlib
import struct
import sys

SIDE, PEN = 28, 1.25  # pixels; the pen's radius


def arc(cx, cy, rx, ry, start, stop, n=32):
    """Returns points of an ellipse's arc; angles in degrees, clockwise from the right."""
    angles = [math.radians(start + (stop - start) * i / n) for i in range(n + 1)]
    return [(cx + rx * math.cos(a), cy + ry * math.sin(a)) for a in angles]


# Strokes of each digit: lists of (x, y), in pixels from the upper left.
STROKES = {
    0: [arc(14, 14, 5.6, 8.2, -100, 260)],
    1: [[(15.2, 5.5), (14.2, 12.0), (13.2, 22.5)]],
    2: [[*arc(13.4, 10.0, 4.8, 4.4, -165, 50), (9.0, 21.6), (13.0, 20.9), (20.0, 21.6)]],
    3: [[*arc(13.2, 9.8, 4.6, 4.0, -150, 85), *arc(13.2, 17.9, 5.4, 4.4, -85, 150)]],
    4: [[(9.6, 6.2), (8.2, 14.8), (18.8, 14.2)], [(18.4, 6.6), (16.6, 22.6)]],
    5: [[(19.4, 6.2), (11.4, 6.6), (10.2, 13.0), *arc(12.8, 17.0, 5.4, 4.8, -105, 140)]],
    6: [[(17.6, 5.6), (12.4, 10.2), (9.6, 16.2), *arc(13.6, 17.9, 4.4, 4.2, -200, 160)]],
    7: [[(8.2, 7.6), (13.0, 7.0), (19.8, 6.6), (16.0, 14.4), (13.4, 22.6)]],
    8: [[*arc(14.2, 9.6, 4.0, 3.8, 90, 450), *arc(13.8, 18.0, 4.8, 4.4, -90, 270)]],
    9: [[*arc(13.4, 10.4, 4.4, 4.4, 0, -360), (17.8, 10.4), (17.2, 16.2), (15.6, 22.6)]],
}


def distance(px, py, a, b):
    """Returns the distance from a point to the line segment from a to b."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = dx * dx + dy * dy
    t = max(0.0, min(1.0, ((px - a[0]) * dx + (py - a[1]) * dy) / length)) if length else 0.0
    return math.hypot(px - a[0] - t * dx, py - a[1] - t * dy)


def draw(strokes):
    """Returns the picture's 784 bytes: white within the pen's radius, fading over one more pixel."""
    lines = [(a, b) for stroke in strokes for a, b in itertools.pairwise(stroke)]
    pixels = bytearray()
    for y in range(SIDE):
        for x in range(SIDE):
            nearest = min(distance(x + 0.5, y + 0.5, a, b) for a, b in lines)
            pixels.append(round(255 * max(0.0, min(1.0, PEN + 0.7 - nearest))))
    return bytes(pixels)


def npy(pixels):
    """Returns the picture as a .npy file: float32 (1, 1, 28, 28) in 0..1."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, {SIDE}, {SIDE}), }}".ljust(117) + "\n"
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", 118)
        + header.encode()
        + struct.pack("<784f", *(p / 255 for p in pixels))
    )


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent / "digits")
    folder.mkdir(parents=True, exist_ok=True)
    for digit, strokes in STROKES.items():
        (folder / f"{digit}.pgm").write_bytes(b"P5\n%d %d\n255\n" % (SIDE, SIDE) + draw(strokes))
    (folder / "7.npy").write_bytes(npy(draw(STROKES[7])))


if __name__ == "__main__":
    main()
