"""Time and peak memory of exporting a Hugging Face folder with TinyLlama's sizes, each in a separate process."""

import json
import os
import pathlib
import sys
import tempfile
import time

from llama_files import SHAPES
from llama_files import config as config_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The defaults of the command.
FORMS = {
    "f32": ("--dtype", "f32"),
    "f16": ("--dtype", "f16"),
    "bf16": ("--dtype", "bf16"),
    "int8": ("--quantize", "int8", "--quantize-embedding", "int8"),
    "int4:32": ("--quantize", "int4:32", "--quantize-embedding", "int4:32"),
    "int4:128": ("--quantize", "int4:128", "--quantize-embedding", "int4:128"),
}
SHAPE = SHAPES["1.1 B"]
LARGEST = SHAPE[1] * SHAPE[-1]  # elements of the largest tensor, the embedding table


def write_folder(folder):
    """Writes config.json, and BF16 weights layer by layer, cut from one row of random numbers."""
    import torch
    from safetensors.torch import save_file
    from transformers import LlamaForCausalLM

    config = config_of(SHAPE, dtype="bfloat16")
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    with torch.device("meta"):
        shapes = {n: p.shape for n, p in LlamaForCausalLM(config).named_parameters()}
    numbers = (torch.randn(LARGEST + 4096, generator=torch.Generator().manual_seed(1)) * 0.02).bfloat16()
    files = {}
    for i, (name, shape) in enumerate(shapes.items()):
        part = ".".join(name.split(".")[:3]) if ".layers." in name else "rest"
        files.setdefault(part, {})[name] = numbers[i : i + shape.numel()].reshape(shape)
    index = {}
    for part, tensors in files.items():
        save_file({n: t.clone() for n, t in tensors.items()}, folder / f"{part}.safetensors")
        index |= dict.fromkeys(tensors, f"{part}.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))


def export(folder, output, options):
    """Returns the wall seconds, the CPU seconds and the peak memory in bytes of one export."""
    command = [sys.executable, "-m", "clave.llm.export", "--model", folder, "--output", output, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    start = time.monotonic()
    pid = os.spawnvpe(os.P_NOWAIT, sys.executable, list(map(str, command)), environment)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024


def row(name, folder, output):
    seconds, processor, peak = export(folder, output, FORMS[name])
    beyond = peak - LARGEST * (4 if name == "f32" else 2)
    sizes = " | ".join(f"{bytes / 1e6:.0f}" for bytes in (output.stat().st_size, peak, beyond))
    output.unlink()
    return f"| {name} | {seconds:.0f} | {processor:.0f} | {sizes} |"


def bench_export(args):
    head = "| 1.1 B Llama, BF16 to | s | processor s | file, MB | peak memory, MB | beyond the largest tensor |"
    args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        folder = pathlib.Path(work) / "folder"
        folder.mkdir()
        write_folder(folder)
        rows = [row(name, folder, pathlib.Path(work) / "m.clv") for name in FORMS]
    return [head, "|---|---|---|---|---|---|", *rows]
