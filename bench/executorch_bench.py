"""Compares ResNet-20 as a .pte file, run by ExecuTorch with the clave backend, with `clave bench` of the program."""

import os
import pathlib
import subprocess

from process import measured

ROOT = pathlib.Path(__file__).resolve().parent.parent

HEAD = "| one image, ms | clave bench | through ExecuTorch | ratio | limit |"
MAKE = """
import sys
import torch
from executorch.exir import to_edge_transform_and_lower
sys.path.insert(0, "examples/resnet")
import clave, model
from clave.executorch import ClavePartitioner
net, x = model.load(), (torch.rand(1, 3, 32, 32),)
edge = to_edge_transform_and_lower(torch.export.export(net, x), partitioner=[ClavePartitioner()])
open(sys.argv[1] + ".pte", "wb").write(edge.to_executorch().buffer)
clave.export(net, x).save(sys.argv[1] + ".clv")
"""


def bench_executorch(args):
    """Times the fastest of 200 runs of both programs, alternating, and takes the pair with the median ratio of five."""
    python = ROOT / ".venv-executorch/bin/python"
    if not (python.exists() and (args.build / "run_pte").exists()):
        return ["`ci/venv executorch` and `make executorch` were not run"]
    made = args.work / "resnet20_executorch"
    made.parent.mkdir(parents=True, exist_ok=True)
    env = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    subprocess.run([python, "-c", MAKE, made], cwd=ROOT, env=env, check=True, stderr=subprocess.DEVNULL)
    rows = []
    for device in (args.device, "cpu"):
        pairs = [(ours(args, f"{made}.clv", device), theirs(args, f"{made}.pte", device)) for _ in range(5)]
        plain, through = sorted(pairs, key=lambda pair: pair[1] / pair[0])[len(pairs) // 2]
        rows.append(f"| ResNet-20, {device} | {plain:.3f} | {through:.3f} | {through / plain:.3f} | 1.03 |")
    return [HEAD, "|---|---|---|---|---|", *rows]


def ours(args, program, device):
    command = [args.build / "clave", "bench", program, "--device", device, "--runs", "200", "--json"]
    return measured(command)["min_ms"]


def theirs(args, program, device):
    command = [args.build / "run_pte", program, "--device", device, "--runs", "200"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stderr.split()[-2])
