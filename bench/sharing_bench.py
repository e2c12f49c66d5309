"""Two sessions at once on one device, a thread each: what a run takes beside the other session's over what it takes
alone. Shared evenly, that is twice as long for both."""

import statistics
import threading
import time
from functools import partial

from bounds import NO_BOUND
from process import seconds

SECONDS, TURNS = 1.0, 5
# Bounds of what takes longer, on OpenCL and on the CPU backend. An OpenCL driver runs one kernel after another, so that
# a small model waits for each of a large one's. On the CPU backend a session whose ops find the device's threads taken
# runs on its own alone: of two cores it has two thirds of one.
PAIRS = {("ResNet-18", "ResNet-18"): (2.5, 2.5), ("MobileNetV2", "UNet"): (NO_BOUND, 3.3)}


def run_until(run, end, times):
    """Runs until the clock says so; at least once."""
    while not times or time.perf_counter() < end:
        times.append(seconds(run))


def together(runs, duration):
    """Mean seconds of a run of each, all at once."""
    times, end = [[] for _ in runs], time.perf_counter() + duration
    threads = [threading.Thread(target=run_until, args=(r, end, t)) for r, t in zip(runs, times, strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return [statistics.mean(t) for t in times]


def ratios(runs, duration=SECONDS, turns=TURNS):
    """[time beside the others over time alone] of each, of the medians of turns."""
    for run in runs:
        run()  # kernels are built, weights packed
    found = []
    for _ in range(turns):
        alone = [together([run], duration)[0] for run in runs]
        beside = together(runs, 2 * duration)
        found.append([b / a for a, b in zip(alone, beside, strict=True)])
    return [statistics.median(of) for of in zip(*found, strict=True)]


def bench_sharing(args):
    import models

    import clave

    lines = ["| two at once, device | longest, over alone | each over alone | should be at most |", "|---|---|---|---|"]
    made = {name: models.make(name) for name in dict.fromkeys(n for pair in PAIRS for n in pair)}
    programs = {name: clave.export(*m, verify=False) for name, m in made.items()}
    for device_name in dict.fromkeys((args.device, "cpu")):
        device = clave.Device(device_name)
        for pair, bounds in PAIRS.items():
            runs = [partial(clave.Session(programs[n], device).run, *made[n][1]) for n in pair]
            of = ratios(runs)
            title = f"{pair[0]} beside {pair[1]}, {device_name}"
            lines.append(f"| {title} | {max(of):.2f} | {of[0]:.2f}, {of[1]:.2f} | {bounds[device_name == 'cpu']} |")
            print(lines[-1], flush=True)
    return lines
