"""SVG plots for bench/: text, curves over doubling sizes, and the document."""

import math

FONT = 'font-family="sans-serif" font-size="12"'
COLOURS = ("#06c", "#c50", "#283")
WIDTH, HEIGHT = 300, 160  # size of a panel in pixels


def text(x, y, words, anchor="start", colour="#000"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def document(width, height, lines):
    size = f'width="{width:.0f}" height="{height:.0f}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {FONT}>'
    return "\n".join([start, '<rect width="100%" height="100%" fill="#fff"/>', *lines, "</svg>"]) + "\n"


def doubling(x, y, sizes, curves):
    """Draws a panel at (x, y) with {name: values over the sizes}; both axes are powers of two, and x begins at 1."""
    high = max(1, math.ceil(math.log2(max(v for values in curves.values() for v in values))))
    across = lambda i: x + WIDTH * i / (len(sizes) - 1)
    up = lambda v: y + HEIGHT * (1 - math.log2(v) / high)
    lines = [f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbb"/>']
    for power in range(high + 1):
        at = up(2**power)
        lines.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        lines.append(text(x - 6, at + 4, str(2**power), "end"))
    lines += [text(across(i), y + HEIGHT + 16, f"{size:,}", "middle") for i, size in enumerate(sizes)]
    for i, (name, values) in enumerate(curves.items()):
        points = " ".join(f"{across(k):.1f},{up(v):.1f}" for k, v in enumerate(values))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[i]}" stroke-width="2"/>')
        lines.append(text(x + WIDTH - 6, y + 16 + 15 * i, name, "end", COLOURS[i]))
    return lines
