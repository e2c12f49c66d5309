"""tuning_bench.py [--budget SECONDS] [--turns N] [--device D] [--program PROG [--dim NAME=N]...]: measures the
benefit of tuning.

For each program one cache folder is tuned and another is not. N runs of each alternate, and medians are compared turn
by turn, so that other load affects both. Prints a row of a table for each: the number of choices, the number that a
variant other than the default won, the best of their ratios (empty if there is no such choice), the seconds of tuning,
and the median of the turns' ratios. Without --program it measures MNIST, ResNet-20 (if examples/resnet has made
build/resnet20.clv), tinylm and products of square matrices.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from process import spread

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLAVE = ROOT / "build/clave"


def export_product(folder, n):
    sys.path.insert(0, str(ROOT / "python"))
    import torch

    import clave

    path = folder / f"sgemm_{n}.clv"
    product = torch.nn.Linear(n, n, bias=False).eval()
    clave.export(product, (torch.zeros(n, n),)).save(str(path))
    return path


def programs(folder):
    """Returns (name, path, dims) of the programs."""
    yield "MNIST, one image", ROOT / "examples/mnist/mnist.clv", ["batch=1"]
    yield "MNIST, 64 images", ROOT / "examples/mnist/mnist.clv", ["batch=64"]
    resnet = ROOT / "build/resnet20.clv"
    if resnet.exists():
        yield "ResNet-20, one image", resnet, []
    else:
        print("ResNet-20: not measured, there is no build/resnet20.clv", file=sys.stderr)
    yield "tinylm, one token", ROOT / "examples/tinylm/tinylm.clv", []
    for n in (64, 256, 1024):
        yield f"product of {n}×{n} matrices", export_product(folder, n), []


def clave(cache, *arguments):
    env = os.environ | {"CLAVE_CACHE_DIR": str(cache)}
    return json.loads(subprocess.run([CLAVE, *arguments, "--json"], env=env, check=True, capture_output=True).stdout)


def sized_inputs(path, dims, device, cache):
    """Writes --inputs with these sizes for clave bench, which would use the smallest sizes."""
    info = clave(cache, "inspect", path)["methods"][0]["inputs"]
    given = {d.split("=")[0]: int(d.split("=")[1]) for d in dims}
    import numpy
    import safetensors.numpy

    tensors = {}
    for i in info:
        shape = [given.get(d, 1) if isinstance(d, str) else d for d in i["shape"]]
        tensors[i["name"]] = numpy.random.default_rng(0).standard_normal(shape).astype("f4")
    out = cache / "inputs.safetensors"
    safetensors.numpy.save_file(tensors, out)
    return ["--inputs", out]


def measure(name, path, dims, options):
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as tuned:
        folders = [pathlib.Path(plain), pathlib.Path(tuned)]
        for f in folders:
            f.chmod(0o700)
        sizes = [w for d in dims for w in ("--dim", d)]
        begin = time.monotonic()
        r = clave(tuned, "tune", path, "--device", options.device, *sizes, "--budget", str(options.budget))
        took = time.monotonic() - begin
        inputs = sized_inputs(path, dims, options.device, folders[0]) if dims else []
        times = [[], []]
        for turn in range(options.turns + 1):
            for i in (0, 1) if turn % 2 else (1, 0):
                bench = clave(folders[i], "bench", path, "--device", options.device, "--runs", "15", *inputs)
                times[i].append(bench["median_ms"])
        ratios = [b / a for a, b in zip(times[0][1:], times[1][1:], strict=True)]  # the first turn builds kernels
        won = [c["ratio"] for c in r["choices"] if c["how"] == "measured" and c["variant"] != c["by_rule"]]
        best = f" {min(won):.2f}" if won else ""
        print(
            f"| {name}, {options.device} | {r['done']} of {r['total']} | {len(won)} |{best} | {took:.0f} | "
            f"{spread(ratios)} |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=120)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--device", default="opencl")
    parser.add_argument("--program")
    parser.add_argument("--dim", action="append", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        given = [(pathlib.Path(options.program).stem, options.program, options.dim)] if options.program else None
        for row in given or programs(pathlib.Path(folder)):
            measure(*row, options)


if __name__ == "__main__":
    main()
