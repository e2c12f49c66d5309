"""CPU time and memory of ResNet-18 with quantised weights, compared with f32 weights.

    conv_codes.py [--turns N]

Each session has one thread. The sessions alternate, and a ratio is the median over turns. Peak memory is that of a
whole process.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ |= {"CLAVE_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1"}
sys.path.insert(0, str(ROOT / "python"))

import models
from process import times_in_turns

import clave

FORMS = (None, "int8", "int4:32")


def peak(program, device):
    """Returns the peak memory, in MB, of a process that runs the program."""
    command = [ROOT / "build/clave", "bench", program, "--device", device, "--runs", "3", "--json"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["peak_rss_mb"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=21)
    turns = parser.parse_args().turns
    module, args = models.make("ResNet-18")
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / f"{i}.clv" for i in range(len(FORMS))]
        for form, file in zip(FORMS, files, strict=True):
            clave.export(module, args, quantize=form, verify=False).save(file)
        for device in ("cpu", "opencl"):
            sessions = [clave.Session(clave.load(f), device=device) for f in files]
            taken = times_in_turns([partial(s.run, *args) for s in sessions], turns)
            for form, file, own in zip(FORMS, files, taken, strict=True):
                memory = peak(file, device)
                ratio = statistics.median(b / a for a, b in zip(taken[0], own, strict=True))
                print(f"{device:7} {form or 'f32':8} {1e3 * min(own):6.1f} ms, {ratio:.2f} of f32's; {memory:.0f} MB")


if __name__ == "__main__":
    main()
