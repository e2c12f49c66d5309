"""CPU time and errors of the CPU backend's variants of a 3x3 convolution (docs/howto/tune.md), one thread.

    conv_variants.py [--turns N]

Sessions with direct sums and with Winograd's method alternate; a ratio is the median over turns. Errors are relative
to sums in double: their root mean square over that of the outputs, in units of 2^-24. Then compares whole models with
default choices and with direct sums.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ["CLAVE_THREADS"] = "1"
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "ci")]

import models
import numpy as np
import torch
import variants
from process import times_in_turns

import clave

NAMES = variants.CPU["conv"][0]
# images, channels, outputs, rows and columns
SIZES = [(1, 64, 64, 56), (1, 128, 128, 28), (1, 256, 256, 14), (1, 512, 512, 7), (8, 256, 256, 14), (1, 64, 64, 256)]

MODELS = ("ResNet-18", "ResNet-50", "UNet")


def session(program, variant):
    """Opens a session with a forced variant, or with the default choice if variant is None."""
    with variants.forced(ROOT / "build/clave", "cpu", [("conv", variant)] if variant else []) as env:
        before = dict(os.environ)
        os.environ["CLAVE_CACHE_DIR"] = env["CLAVE_CACHE_DIR"]
        try:
            s = clave.Session(clave.load(program), device=clave.Device("cpu"))
        finally:
            os.environ.clear()
            os.environ.update(before)
        return s


def ratio(taken, base):
    return statistics.median(b / a for a, b in zip(base, taken, strict=True))


def error(got, exact):
    off = np.asarray(got, np.float64) - exact
    return np.sqrt(np.mean(off**2) / np.mean(exact**2)) * 2**24


def measure_sizes(folder, turns):
    for images, channels, outputs, side in SIZES:
        torch.manual_seed(0)
        module, x = torch.nn.Conv2d(channels, outputs, 3, padding=1).eval(), torch.randn(images, channels, side, side)
        module.requires_grad_(False)
        file = folder / "conv.clv"
        clave.export(module, (x,), verify=False).save(file)
        sessions = [session(file, name) for name in NAMES]
        taken = times_in_turns([partial(s.run, x) for s in sessions], turns)
        exact = module.double()(x.double()).numpy()
        print(f"{images}x{channels}x{side}x{side} to {outputs}: {1e3 * min(taken[0]):.2f} ms", end="")
        for name, s, own in zip(NAMES, sessions, taken, strict=True):
            print(f"; {name} {ratio(own, taken[0]):.2f}, error {error(s.run(x)[0], exact):.1f}", end="")
        print(flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=21)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        measure_sizes(pathlib.Path(folder), turns)
        for name in MODELS:
            module, args = models.make(name)
            file = pathlib.Path(folder) / "model.clv"
            clave.export(module, args, verify=False).save(file)
            sessions = session(file, "direct"), session(file, None)
            direct, rule = times_in_turns([partial(s.run, *args) for s in sessions], turns)
            print(
                f"{name}: {1e3 * min(direct):.1f} ms directly, {1e3 * min(rule):.1f} by rule, {ratio(rule, direct):.2f}"
            )


if __name__ == "__main__":
    main()
