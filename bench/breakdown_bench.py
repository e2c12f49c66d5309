"""Time breakdown of models, by clave bench --breakdown: kinds of nodes ranked by their time in excess of the device's
peak limits. Reports shares of a run, which other load affects less than times."""

import collections
import pathlib
import re
import subprocess

from engine import quantised
from process import measured

ROOT = pathlib.Path(__file__).resolve().parent.parent
# From models.py, in f32 and quantised by pt2e.
MODELS = ("ResNet-18", "MobileNetV2", "EfficientNet-B0", "ViT-S/16", "BERT-base, 128 tokens", "Whisper-tiny encoder")
INT8 = ("MobileNetV2", "BERT-base, 128 tokens")
PICTURED, PICTURE = "MobileNetV2", ROOT / "docs/pictures/roofline.svg"
LLM = ("110 M", "F16")  # from llama_files.py
CONTEXT = 128  # context before the new token; also the length of the prefill
TURNS, RUNS = 5, 5
LEAST = 0.03  # share of a run; kinds with a smaller gain are omitted
HEAD = [
    "| model, device | nodes | share of the run, % | speed over the device's peak, % | excess time, % of the run |",
    "|---|---|---|---|---|",
]
SHAPE = re.compile(r"([\w:]+) \[([\d, ]*)\]")


def shapes(row):
    """Returns the dims of a node's operands and those of its results."""
    read, _, written = row["shapes"].partition("-> ")
    return tuple([[int(n) for n in dims.split(", ") if n] for _, dims in SHAPE.findall(s)] for s in (read, written))


def kind(row):
    """Names the kind of a node: a convolution by its window, a product by its rows."""
    if row["kind"] != "node":
        return row["kind"]
    read, written = shapes(row)
    if row["op"] in ("conv", "conv_integer"):
        channels, weight = read[0][1], read[1]
        depthwise = "depthwise " if weight[1] == 1 and channels > 1 else ""
        return f"{row['op']}, {depthwise}{'×'.join(map(str, weight[2:]))}"
    if row["op"] == "elementwise" and re.search(r"-> [UI]8 ", row["shapes"]):
        return "elementwise, to 8 bits"
    if row["op"] in ("matmul", "matmul_integer"):
        n = written[0][-1]
        rows = 1
        for size in written[0][:-1]:
            rows *= size
        return f"{row['op']}, {rows} row{'s' if rows > 1 else ''}, {'more' if n > 4096 else 'at most 4096'} columns"
    return row["op"]


def ranked(breakdown):
    """Returns [(kind, share of the run, share of the limit, share in excess)], the largest excess first."""
    parts = collections.defaultdict(lambda: [0.0, 0.0])
    for row in breakdown["nodes"]:
        part = parts[kind(row)]
        part[0] += row["ms"]
        part[1] += max(row["compute_ms"] or 0, row["memory_ms"] or 0)
    parts["between kernels"] = [breakdown["between_ms"], 0.0]
    total = breakdown["run_ms"]
    rows = [(k, ms / total, limit / ms if ms else 0, max(0, ms - limit) / total) for k, (ms, limit) in parts.items()]
    return sorted(rows, key=lambda r: -r[3])


def programs(args):
    """Returns {name: (program, further arguments)}."""
    import llama_files
    import models
    import numpy as np
    import torch

    import clave

    args.work.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, is_int8 in (*((n, False) for n in MODELS), *((n, True) for n in INT8)):
        title = f"{name}, 8 bits" if is_int8 else name
        path = args.work / (re.sub(r"\W+", "_", f"breakdown {title}") + ".clv")
        if not path.exists():
            module, inputs = models.make(name)
            with torch.no_grad():
                module = quantised(name, module, inputs) if is_int8 else module
                clave.export(module, inputs).save(str(path))
        found[title] = (path, [])
    _, llm = llama_files.files(args.work, *LLM)
    for what, n, position in ((f"prefill of {CONTEXT}", CONTEXT, 0), (f"a token after {CONTEXT}", 1, CONTEXT)):
        tokens = args.work / f"tokens_{n}.npy"
        np.save(tokens, np.arange(3, 3 + n)[None])
        found[f"{LLM[0]} {LLM[1]}, {what}"] = (llm, ["--input", f"tokens={tokens}", "--input", f"position={position}"])
    return found


def best(args, path, more, device):
    """Runs several processes and returns the breakdown of the fastest."""
    command = [args.build / "clave", "bench", path, *more, "--device", device, "--breakdown", "--json"]
    turns = [measured([*command, "--runs", RUNS, "--warmup", 2])["breakdown"] for _ in range(TURNS)]
    return min(turns, key=lambda b: b["run_ms"])


def draw(args, path):
    """Writes docs/pictures/roofline.svg with the program's name in its title."""
    command = [args.build / "clave", "bench", path.name, "--device", args.device, "--breakdown", "--svg", PICTURE]
    subprocess.run(command, cwd=path.parent, check=True, capture_output=True)


def bench_breakdown(args):
    rows, found = [], programs(args)
    for name, (path, more) in found.items():
        for device in (args.device, "cpu"):
            rows += [(f"{name}, {device}", *r) for r in ranked(best(args, path, more, device)) if r[3] >= LEAST]
            print(f"{name}, {device}", flush=True)
    if not args.print:
        draw(args, found[PICTURED][0])
    lines = list(HEAD)
    for name, what, share, limit, beyond in sorted(rows, key=lambda r: -r[4]):
        limit = "–" if what == "between kernels" else f"{100 * limit:.0f}"
        lines.append(f"| {name} | {what} | {100 * share:.1f} | {limit} | {100 * beyond:.1f} |")
    return lines
