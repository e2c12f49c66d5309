"""Compares a second question about the same document after a rewind with the question alone: milliseconds of CPU time
to the first token, in alternation, on a device (cpu: one thread). The models have seeded random weights and an F16
cache, and are made as Hugging Face folders; the larger ones have some layers of TinyLlama's 22 and Llama 3.1 8B's 32.
The last column counts multiplications: attention over the document plus products, relative to products.

    PYTHONPATH=python .venv/bin/python bench/rewind_bench.py [--device DEVICE...]
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time

import llama_files
import numpy as np
import torch
import transformers
from process import seconds

import clave
from clave.llm import LLMExporter

DOCUMENT, QUESTIONS, TURNS = 2000, (16, 64), 7
VOCABULARY = 32000
# name: shape, as in llama_files.py, and dtypes of the weights
MODELS = {
    "110 M": (llama_files.SHAPES["110 M"], (None, "int8")),
    "1.1 B, 4 layers": ((4, *llama_files.SHAPES["1.1 B"][1:]), (None, "int8")),
    "8 B, 2 layers": ((2, 4096, 32, 8, 14336, VOCABULARY), ("int4:32",)),
}


def export(folder, shape, quantize):
    config = llama_files.config(shape, max_position_embeddings=4096)
    torch.manual_seed(7)
    transformers.LlamaForCausalLM(config).to(torch.float16).save_pretrained(folder / "hf")
    exporter = LLMExporter(folder / "hf", max_context=4096).quantize(quantize)
    return exporter.save(folder / f"{quantize}.clv")


def first_token(talk, ids):
    """Returns the milliseconds from the prompt to its first token."""
    return seconds(lambda: talk.prompt(ids).generate(max_new_tokens=1), time.process_time) * 1000


def compare(llm, length):
    """Returns the median milliseconds of a question alone and of one after the document."""
    random = np.random.default_rng(0)
    document = random.integers(3, VOCABULARY, DOCUMENT).tolist()
    alone, after = llm.conversation(), llm.conversation()
    first_token(after, document)
    times = [], []
    for _ in range(TURNS):
        question = random.integers(3, VOCABULARY, length).tolist()
        alone.rewind(0)
        after.rewind(DOCUMENT)
        times[0].append(first_token(alone, question))
        times[1].append(first_token(after, question))
    return [statistics.median(t[1:]) for t in times]


def added_work(shape):
    """Returns the multiplications of attention over the document, and of all products except the output layer's."""
    layers, size, heads, kv, hidden, _ = shape
    products = layers * (2 * size * size + 2 * size * size // heads * kv + 3 * size * hidden)
    return 2 * DOCUMENT * size * layers / products


def rows(name, shape, quantize, devices):
    """Measures a model and yields lines of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = export(pathlib.Path(folder), shape, quantize)
        for device in devices:
            llm = clave.LLM(path, device=device)
            for length in QUESTIONS:
                alone, after = compare(llm, length)
                yield (
                    f"| {name}, {quantize or 'f16'} | {device} | {length} | {alone:.1f} | {after:.1f} "
                    f"| {after / alone:.2f} | {1 + added_work(shape):.2f} |"
                )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", nargs="+", default=["cpu"])
    args = parser.parse_args()
    os.environ["CLAVE_THREADS"] = "1"
    print("| model, weights | device | question, tokens | alone, ms | after 2,000, ms | ratio | by multiplications |")
    print("|---|---|---|---|---|---|---|")
    for name, (shape, types) in MODELS.items():
        for quantize in types:
            for row in rows(name, shape, quantize, args.device):
                print(row, flush=True)


if __name__ == "__main__":
    main()
