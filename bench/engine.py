"""One engine that runs one model of models.py, in a process of its own. Prints a line of JSON.

engine.py export NAME FOLDER            writes inputs.safetensors, torch.safetensors (torch's results), model.clv and
                                        model.onnx
engine.py torch NAME FOLDER RUNS        {"median_ms": ..., "peak_rss_mb": ...} of runs after the warm-up
engine.py onnxruntime NAME FOLDER RUNS  the same of model.onnx; writes onnxruntime.safetensors
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARM_UP = 2  # runs


def peak_rss_mb():
    """As `clave bench` gives it: in units of 10^6 bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6


def timed(run, runs):
    times = []
    for _ in range(WARM_UP + runs):
        begin = time.perf_counter()
        run()
        times.append((time.perf_counter() - begin) * 1000)
    return {"median_ms": statistics.median(times[WARM_UP:]), "peak_rss_mb": peak_rss_mb()}


def numbered(kind, tensors):
    return {f"{kind}_{i}": t for i, t in enumerate(tensors)}


def export(args):
    import torch
    from models import make
    from safetensors.torch import save_file

    import clave

    module, inputs = make(args.name, args.small)
    with torch.inference_mode():
        outputs = module(*inputs)
    args.folder.mkdir(parents=True, exist_ok=True)
    save_file(numbered("input", inputs), args.folder / "inputs.safetensors")
    save_file(
        numbered("output", outputs if isinstance(outputs, tuple) else (outputs,)), args.folder / "torch.safetensors"
    )
    clave.export(module, inputs).save(args.folder / "model.clv")
    torch.onnx.export(module, inputs, args.folder / "model.onnx", dynamo=True, verbose=False)
    return {}


def run_torch(args):
    import torch
    from models import make

    module, inputs = make(args.name, args.small)
    with torch.inference_mode():
        return timed(lambda: module(*inputs), args.runs)


def run_onnxruntime(args):
    import onnxruntime
    from safetensors.numpy import load_file, save_file

    session = onnxruntime.InferenceSession(args.folder / "model.onnx", providers=["CPUExecutionProvider"])
    given = load_file(args.folder / "inputs.safetensors")
    inputs = {x.name: given[f"input_{i}"] for i, x in enumerate(session.get_inputs())}
    save_file(numbered("output", session.run(None, inputs)), args.folder / "onnxruntime.safetensors")
    return timed(lambda: session.run(None, inputs), args.runs)


ENGINES = {"export": export, "torch": run_torch, "onnxruntime": run_onnxruntime}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("name")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("runs", type=int, nargs="?", default=1)
    parser.add_argument("--small", action="store_true", help="the small model of the tests")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "python"))
    print(json.dumps(ENGINES[args.engine](args)))


if __name__ == "__main__":
    main()
