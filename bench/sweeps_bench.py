"""Sweeps of doubling sizes: batches, sequences, widths. The time per unit of work should not grow with the size; a
step at which it grows is a performance cliff. docs/pictures/sweeps.svg shows the curves."""

import dataclasses
import itertools
import pathlib
import time
from collections.abc import Callable
from functools import partial

import plot
from process import seconds, times_in_turns, wanted

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs/pictures/sweeps.svg"
TURNS = 9
MIN_S = 0.005  # per timing; shorter runs are repeated
BOUND = 1.25  # limit of the time per unit relative to that at half the size
LEFT, TOP, ACROSS, DOWN = 50, 40, 60, 70  # margins, gaps between panels, pixels


@dataclasses.dataclass(frozen=True)
class Sweep:
    """make(size): (module, inputs); units(size): amount of work; dynamic: the dynamic dimension of the input, if one
    program serves all sizes; None: one program per size."""

    sizes: tuple[int, ...]
    make: Callable
    units: Callable
    dynamic: int | None = None


def doubled(first, last):
    return tuple(itertools.takewhile(lambda n: n <= last, (first << i for i in itertools.count())))


def images(batch):
    import models
    import torch

    return models.make("ResNet-18")[0], (torch.randn(batch, 3, 224, 224),)


def tokens(length, size=384, heads=6):
    """Returns one layer of ViT-S."""
    import models
    import torch

    layer = models.Model(lambda: models.Encoder(size, heads, True, 1e-6), lambda: (torch.randn(1, length, size),))
    return models.seeded("layer", layer)


def products(width, rows=64):
    import models
    import torch
    from torch import nn

    layers = models.Model(
        lambda: nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)),
        lambda: (torch.randn(rows, width),),
    )
    return models.seeded("products", layers)


def channels(width, side=28):
    import models
    import torch
    from torch import nn

    conv = models.Model(
        lambda: nn.Sequential(models.unit(width, width, 3), models.unit(width, width, 3)),
        lambda: (torch.randn(1, width, side, side),),
    )
    return models.seeded("channels", conv)


SWEEPS = {
    "ResNet-18, images": Sweep(doubled(1, 32), images, lambda n: n, dynamic=0),
    "a layer of ViT-S, tokens": Sweep(doubled(16, 4096), tokens, lambda n: 12 * 384**2 * n + 2 * 384 * n**2, dynamic=1),
    "two products of 64 rows, columns": Sweep(doubled(64, 4096), products, lambda n: n**2),
    "two 3×3 convolutions of 28×28, channels": Sweep(doubled(16, 512), channels, lambda n: n**2),
}


def programs(sweep):
    """Returns [(program, inputs)] for each size."""
    import clave

    made = [sweep.make(n) for n in sweep.sizes]
    if sweep.dynamic is None:
        return [(clave.export(module, x, verify=False), x) for module, x in made]
    import torch

    size = torch.export.Dim("size", min=sweep.sizes[0], max=sweep.sizes[-1])
    module, example = made[1]
    program = clave.export(module, example, dynamic_shapes=({sweep.dynamic: size},), verify=False)
    return [(program, x) for _, x in made]


def repeated(run, least):
    """Returns the number of runs that take at least the given seconds, and a function that runs them."""
    n = 1 + int(least / seconds(run))
    return n, lambda: [run() for _ in range(n)]


def unit_times(sweep, made, device, clock, turns):
    """Returns the time per unit at each size (minimum over turns), relative to the smallest."""
    import clave

    sessions = [(clave.Session(program, device), x) for program, x in made]
    runs = [partial(session.run, *x) for session, x in sessions]
    for run in runs:
        run()  # builds kernels, packs weights
    counts, calls = zip(*(repeated(run, MIN_S) for run in runs), strict=True)
    taken = times_in_turns(calls, turns, clock)
    units = [min(t) / n / sweep.units(size) for t, n, size in zip(taken, counts, sweep.sizes, strict=True)]
    return [u / min(units) for u in units]


def steepest(sizes, units):
    """Returns (largest growth of the time per unit, its size)."""
    steps = [(b / a, size) for (a, b), size in zip(itertools.pairwise(units), sizes[1:], strict=True)]
    return max(steps, key=lambda step: step[0])


def row(name, device, sizes, units):
    growth, size = steepest(sizes, units)
    shown = ", ".join(f"{u:.2f}" for u in units)
    return f"| {name} {sizes[0]:,} to {sizes[-1]:,}, {device} | {growth:.2f} (at {size:,}) | {shown} | {BOUND} |"


def draw(found):
    """Draws two panels side by side; found: {sweep: {device: units}}."""
    wide, high = plot.WIDTH + ACROSS, plot.HEIGHT + DOWN
    lines = [text_of_all()]
    for i, (name, curves) in enumerate(found.items()):
        x, y = LEFT + i % 2 * wide, TOP + 20 + i // 2 * high
        lines += [plot.text(x, y - 8, name), *plot.doubling(x, y, SWEEPS[name].sizes, curves)]
    return plot.document(LEFT + 2 * wide, TOP + 20 + (len(found) + 1) // 2 * high, lines)


def text_of_all():
    return plot.text(LEFT, 20, "time per unit of work over the minimum, by size")


def bench_sweeps(args, sweeps=None, turns=TURNS):
    clock = time.perf_counter if args.idle else time.process_time
    found, lines = {}, []
    for name, sweep in (sweeps or {n: s for n, s in SWEEPS.items() if wanted(args, n)}).items():
        made = programs(sweep)
        devices = dict.fromkeys((args.device, "cpu"))
        found[name] = {device: unit_times(sweep, made, device, clock, turns) for device in devices}
        lines += [row(name, device, sweep.sizes, units) for device, units in found[name].items()]
        print("\n".join(lines[-len(devices) :]), flush=True)
    if not args.print and not args.rows:
        PICTURE.write_text(draw(found))
    head = "| sizes, device | largest growth of the time per unit at a step | time per unit over the minimum, by size "
    shown = f"![time per unit over the minimum, by size](../pictures/{PICTURE.name})"
    return [head + "| limit |", "|---|---|---|---|", *lines, "", shown]
