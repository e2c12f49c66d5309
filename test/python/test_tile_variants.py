"""Variants of 8-bit integer products (docs/howto/tune.md: `dots tile`) for GPUs: the bits are those of the default."""

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
ROWS = (1, 7, 40)
ENVIRONMENT = {"CLAVE_DEVICE_CLASS": "gpu", "CLAVE_PRECISION": "fast"}


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
    """Returns results for few and for many rows, by a variant (None: the default)."""

    def run(variant):
        env = os.environ | ENVIRONMENT | {"CLAVE_SELF_CHECK": "strict"} | variants.needs(variant)
        made = []
        with variants.forced(build / "clave", "opencl", [("dots tile", variant)], env) as env:
            for m in ROWS:
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
                done = subprocess.run([build / "clave", *words], cwd=folder, env=env, capture_output=True, text=True)
                assert done.returncode == 0 and "note: " not in done.stderr, done.stderr
                made.append(safetensors.numpy.load_file(folder / "o.safetensors")["output_0"].tobytes())
        return made

    return run


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("variant", NAMES[1:])
def test_the_same_bits(product, variant):
    assert product(variant) == product("rule")


@pytest.mark.parametrize("m, variant", [(40, "2x2"), (1, "lanes 8"), (40, "mma 64")])
def test_it_is_taken(build, folder, m, variant):
    """Each variant builds another kernel."""
    env = os.environ | ENVIRONMENT | variants.needs(variant)
    x = np.ones((m, K), np.float32)
    safetensors.numpy.save_file({"input_0": x}, folder / "in.safetensors")
    built = []
    for v in ("rule", variant):
        with variants.forced(build / "clave", "opencl", [("dots tile", v)], env) as forced:
            words = ["run", "m.clv", "--device", "opencl", "--inputs", "in.safetensors"]
            subprocess.run([build / "clave", *words], cwd=folder, env=forced, check=True, capture_output=True)
            cache = Path(forced["CLAVE_CACHE_DIR"])
            built.append({p.name for p in cache.rglob("*") if p.is_file() and "tuning" not in p.name})
    assert built[0] and built[0] != built[1]
