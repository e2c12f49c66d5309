"""Accuracy and CPU time of models with f32 weights in fast precision, compared with strict precision.

    fast_errors.py [--device cpu] [--turns N] [--rows REGEX]

The trained ResNet-20 on 200 images, the loss of the trained tinylm on held-out text, and results of models with random
weights. Each session has one thread. The sessions alternate, and a ratio of times is the median over turns.
"""

import argparse
import os
import pathlib
import re
import statistics
import sys
from functools import partial

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ |= {"CLAVE_THREADS": "1", "POCL_MAX_PTHREAD_COUNT": "1"}
sys.path += [str(ROOT / "python"), str(ROOT / "examples/resnet"), str(ROOT / "examples/tinylm")]

import models
import numpy as np
import torch
from process import times_in_turns

import clave

PRECISIONS = ("strict", "fast")
RANDOM = ("ViT-S/16", "BERT-base, 128 tokens", "Whisper-tiny encoder", "ResNet-18", "ResNet-50", "MobileNetV2")
WINDOWS = 16  # windows have 512 tokens


def sessions(program, device):
    for precision in PRECISIONS:
        os.environ["CLAVE_PRECISION"] = precision
        yield clave.Session(program, device)


def resnet20():
    """Returns (program, inputs, accuracy), for photographs if the test data exist, else for drawn shapes."""
    from model import load, normalise
    from shapes import HELD_OUT, dataset

    folder = pathlib.Path(os.environ.get("CLAVE_TEST_DATA") or ROOT / "../shared/data") / "cifar10"
    if folder.is_dir():
        images, labels = (np.load(folder / file) for file in ("images_200_u8_nhwc.npy", "labels_200.npy"))
        net = load(folder / "resnet20-12fca82f.th")
    else:
        (images, labels), net = dataset(200, HELD_OUT), load()
    images = normalise(torch.from_numpy(images))
    right = lambda logits: f"{(logits.argmax(1) == labels).sum()} of {len(labels)} right"
    return clave.export(net, (images,)), (images.numpy(),), right


def tinylm():
    from quantise import Logits, load, windows

    model, tokenizer = load()
    batch = windows(tokenizer, model.config.bos_token_id, WINDOWS)
    ids, wanted = batch[:, :-1], batch[:, 1:].flatten()
    loss = lambda logits: f"{torch.nn.functional.cross_entropy(torch.from_numpy(logits).flatten(0, 1), wanted):.4f}"
    return clave.export(Logits(model), (ids,), verify=False), (ids.numpy(),), loss


def random_weights(name):
    module, args = models.make(name)
    return clave.export(module, args, verify=False), tuple(a.numpy() for a in args), lambda _: "–"


TRAINED = {"ResNet-20, 200 images": resnet20, f"tinylm, nats a token, {WINDOWS} × 512": tinylm}
ROWS = TRAINED | {name: partial(random_weights, name) for name in RANDOM}


def line(name, device, turns):
    program, inputs, worth = ROWS[name]()
    calls = [partial(s.run, *inputs) for s in sessions(program, device)]
    strict, fast = (np.asarray(call()[0], np.float32) for call in calls)
    times = times_in_turns(calls, turns)
    ratio = statistics.median(f / s for s, f in zip(*times, strict=True))
    off = float(np.abs(fast - strict).max())
    share = off / float(np.abs(strict).max())
    return f"| {name}, {device} | {worth(strict)} | {worth(fast)} | {off:.2g} | {share:.1e} | {ratio:.2f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--rows", default="", help="only models whose names match this regular expression")
    args = parser.parse_args()
    print("| model, device | strict | fast | largest difference | over the largest value | time, fast/strict |")
    print("|---|---|---|---|---|---|")
    for name in ROWS:
        if re.search(args.rows, name):
            print(line(name, args.device, args.turns), flush=True)


if __name__ == "__main__":
    main()
