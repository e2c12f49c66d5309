"""Runs one model of models.py or one work of works.py on one engine, in a separate process. Prints a line of JSON.

engine.py export NAME FOLDER            writes inputs.safetensors, torch.safetensors (torch's results), model.clv and,
                                        with --onnx, model.onnx; with --int8, exports the model quantised by
                                        pt2e, and writes plain.safetensors, the results in f32
engine.py torch NAME FOLDER RUNS        {"median_ms": ..., "peak_rss_mb": ...} of runs after the warm-up
engine.py onnxruntime NAME FOLDER RUNS  the same for model.onnx; writes onnxruntime.safetensors
engine.py litert NAME FOLDER RUNS       the same for model.tflite, by XNNPACK; writes litert.safetensors
engine.py openvino NAME FOLDER RUNS     the same; writes openvino.safetensors. Computes in f32, or with --fast in bf16
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time

from process import peak_rss_mb, times_in_turns

ROOT = pathlib.Path(__file__).resolve().parent.parent
# As in ClaveQuantizer: the residuals of a language model must not be rounded.
ACTIVATIONS = {"BERT-base, 128 tokens": "inputs"}


def timed(run, runs):
    (times,) = times_in_turns([run], runs, time.perf_counter)
    return {"median_ms": 1000 * statistics.median(times), "peak_rss_mb": peak_rss_mb()}


def make(args):
    """Returns (module in eval mode, its inputs)."""
    import imported
    import models
    import works

    known = models.MODELS | works.WORKS | imported.NETWORKS
    return models.seeded(args.name, known[args.name], args.small)


def leaves(value):
    """Returns the tensors of a nested result."""
    return [t for v in value for t in leaves(v)] if isinstance(value, tuple | list) else [value]


def save_tensors(path, kind, tensors):
    from safetensors.torch import save_file

    save_file({f"{kind}_{i}": t.contiguous() for i, t in enumerate(tensors)}, path)


def save_arrays(path, kind, arrays):
    from safetensors.numpy import save_file

    save_file({f"{kind}_{i}": a for i, a in enumerate(arrays)}, path)


def quantised(name, module, inputs):
    """Returns the model quantised by pt2e, calibrated on the inputs."""
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from clave.quantizer import ClaveQuantizer

    quantizer = ClaveQuantizer(activations=ACTIVATIONS.get(name, "all"))
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


def export(args):
    import torch

    import clave

    args.folder.mkdir(parents=True, exist_ok=True)
    module, inputs = make(args)
    with torch.no_grad():
        if args.int8:
            save_tensors(args.folder / "plain.safetensors", "output", leaves(module(*inputs)))
            module = quantised(args.name, module, inputs)
        save_tensors(args.folder / "inputs.safetensors", "input", inputs)
        save_tensors(args.folder / "torch.safetensors", "output", leaves(module(*inputs)))
    if args.onnx:
        torch.onnx.export(module, inputs, args.folder / "model.onnx", dynamo=True, verbose=False)
    clave.export(module, inputs, verify=False).save(args.folder / "model.clv")
    return {}


def run_torch(args):
    import torch

    module, inputs = make(args)
    with torch.inference_mode():
        return timed(lambda: module(*inputs), args.runs)


def given_inputs(args):
    from safetensors.numpy import load_file

    given = load_file(args.folder / "inputs.safetensors")
    return [given[f"input_{i}"] for i in range(len(given))]


def run_onnxruntime(args):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(args.folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    inputs = {x.name: value for x, value in zip(session.get_inputs(), given_inputs(args), strict=True)}
    save_arrays(args.folder / "onnxruntime.safetensors", "output", session.run(None, inputs))
    return timed(lambda: session.run(None, inputs), args.runs)


def run_litert(args):
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(args.folder / "model.tflite"), num_threads=len(os.sched_getaffinity(0)))
    interpreter.allocate_tensors()
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    given = list(zip(inputs, given_inputs(args), strict=True))

    def run():
        for tensor, x in given:
            interpreter.set_tensor(tensor["index"], x)
        interpreter.invoke()
        return [interpreter.get_tensor(o["index"]) for o in outputs]

    save_arrays(args.folder / "litert.safetensors", "output", run())
    return timed(run, args.runs)


def run_openvino(args):
    import openvino

    precision = openvino.Type.bf16 if args.fast else openvino.Type.f32
    options = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    options["INFERENCE_NUM_THREADS"] = len(os.sched_getaffinity(0))
    compiled = openvino.Core().compile_model(args.folder / "model.onnx", "CPU", options)
    taken = compiled.get_property("INFERENCE_PRECISION_HINT")
    if taken != precision:
        raise SystemExit(f"openvino computes in {taken}, not in {precision}, on this processor")
    request, inputs = compiled.create_infer_request(), dict(enumerate(given_inputs(args)))
    found = request.infer(inputs)
    save_arrays(args.folder / "openvino.safetensors", "output", [found[o] for o in compiled.outputs])
    return timed(lambda: request.infer(inputs), args.runs)


ENGINES = {"export": export, "torch": run_torch, "onnxruntime": run_onnxruntime, "openvino": run_openvino}
ENGINES |= {"litert": run_litert}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("name")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("runs", type=int, nargs="?", default=1)
    parser.add_argument("--small", action="store_true", help="use the small model of the tests")
    parser.add_argument("--int8", action="store_true", help="export: quantise to 8 bits")
    parser.add_argument("--onnx", action="store_true", help="export: also write model.onnx")
    parser.add_argument("--fast", action="store_true", help="openvino: compute in bf16")
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "python"))
    print(json.dumps(ENGINES[args.engine](args)))


if __name__ == "__main__":
    main()
