"""Two concurrent sessions on one device, with a thread each: the time of a run relative to its time alone. With even
sharing, both take twice as long."""

import statistics
import threading
import time
from functools import partial

from bounds import NO_BOUND
from process import seconds

SECONDS, TURNS = 1.0, 5
# Limits of the slower session, on OpenCL and on the CPU backend. An OpenCL driver runs kernels one after another, so a
# small model waits for each kernel of a large one. On the CPU backend, a session whose ops find the device's threads
# busy runs on its own thread only: it gets two thirds of one of two cores.
PAIRS = {("ResNet-18", "ResNet-18"): (2.5, 2.5), ("MobileNetV2", "UNet"): (NO_BOUND, 3.3)}


def run_until(run, end, times):
    """Calls `run` until the time `end`, at least once."""
    while not times or time.perf_counter() < end:
        times.append(seconds(run))


def together(runs, duration):
    """Returns the mean seconds per run of each, all running concurrently."""
    times, end = [[] for _ in runs], time.perf_counter() + duration
    threads = [threading.Thread(target=run_until, args=(r, end, t)) for r, t in zip(runs, times, strict=True)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return [statistics.mean(t) for t in times]


def ratios(runs, duration=SECONDS, turns=TURNS):
    """Returns [time beside the others over time alone] for each, from medians of turns."""
    for run in runs:
        run()  # builds kernels, packs weights
    found = []
    for _ in range(turns):
        alone = [together([run], duration)[0] for run in runs]
        beside = together(runs, 2 * duration)
        found.append([b / a for a, b in zip(alone, beside, strict=True)])
    return [statistics.median(of) for of in zip(*found, strict=True)]


def bench_sharing(args):
    import models

    import clave

    lines = [
        "| two sessions, device | longer time over that alone | each time over that alone | limit |",
        "|---|---|---|---|",
    ]
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
