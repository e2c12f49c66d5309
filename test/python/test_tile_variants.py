"""Variants of products of 8-bit integers (docs/tuning.md: `dots tile`): the same bits as the rule's, on OpenCL as a CPU
and as a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

import clave

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "ci"))
import variants

K, N = 1056, 67
NAMES, _ = variants.OPENCL["dots tile"]
ROWS = {"cpu": (1, 3, 40), "gpu": (1, 7, 40)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiles")
    torch.manual_seed(0)
    rows = torch.export.Dim("rows", min=1, max=64)
    module = torch.nn.Linear(K, N).eval()
    program = clave.export(
        module, (torch.zeros(3, K),), dynamic_shapes=({0: rows},), quantize=lambda *_: "int4:32", verify=False
    )
    program.save(folder / "m.clv")
    return folder


@pytest.fixture(scope="module")
def product(build, folder):
    """Results of few and of many rows, by a variant (None: the rule)."""

    def run(of, variant):
        env = os.environ | {"CLAVE_DEVICE_CLASS": of, "CLAVE_PRECISION": "fast", "CLAVE_SELF_CHECK": "strict"}
        made = []
        with variants.forced(build / "clave", "opencl", [("dots tile", variant)], env) as env:
            for m in ROWS[of]:
                x = np.random.default_rng(m).standard_normal((m, K)).astype(np.float32)
                safetensors.numpy.save_file({"input_0": x}, folder / "in.safetensors")
                words = [
                    "run",
                    "m.clv",
                    "--device",
                    "opencl",
                    "--inputs",
                    "in.safetensors",
                    "--outputs",
                    "o.safetensors",
                ]
                subprocess.run([build / "clave", *words], cwd=folder, env=env, check=True, capture_output=True)
                made.append(safetensors.numpy.load_file(folder / "o.safetensors")["output_0"].tobytes())
        return made

    by_rule = {}

    def both(of, variant):
        if of not in by_rule:
            by_rule[of] = run(of, "rule")
        return run(of, variant), by_rule[of]

    return both


@pytest.mark.by_turn(17)
@pytest.mark.parametrize("of", ["cpu", "gpu"])
@pytest.mark.parametrize("variant", NAMES[1:])
def test_the_same_bits(product, of, variant):
    got, by_rule = product(of, variant)
    assert got == by_rule


@pytest.mark.parametrize("of, variant", [("cpu", "2x2"), ("gpu", "lanes 8")])
def test_it_is_taken(build, folder, of, variant):
    """Another kernel is built for it."""
    env = os.environ | {"CLAVE_DEVICE_CLASS": of, "CLAVE_PRECISION": "fast"}
    x = np.ones((3 if of == "cpu" else 1, K), np.float32)
    safetensors.numpy.save_file({"input_0": x}, folder / "in.safetensors")
    built = []
    for v in ("rule", variant):
        with variants.forced(build / "clave", "opencl", [("dots tile", v)], env) as forced:
            words = ["run", "m.clv", "--device", "opencl", "--inputs", "in.safetensors"]
            subprocess.run([build / "clave", *words], cwd=folder, env=forced, check=True, capture_output=True)
            cache = Path(forced["CLAVE_CACHE_DIR"])
            built.append({p.name for p in cache.rglob("*") if p.is_file() and "tuning" not in p.name})
    assert built[0] and built[0] != built[1]
