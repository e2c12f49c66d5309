"""Convolutions with quantised weights under OpenCL: their floats are decoded once, not in each run."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import clave

ROOT = Path(__file__).resolve().parents[2]
TOOL = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")) / "clave"


@pytest.mark.parametrize("form", ["int8", "int4:16"])
def test_floats_are_a_form(form, tmp_path):
    model = nn.Sequential(nn.Conv2d(16, 24, 1, bias=False), nn.Conv2d(24, 8, 3, bias=False)).eval()
    x = torch.rand(2, 16, 9, 9)
    program = clave.export(model, (x,), quantize=form)
    want, session = clave.Session(program, "cpu")(x), clave.Session(program, "opencl")
    for _ in range(2):
        torch.testing.assert_close(session(x), want, rtol=1e-5, atol=1e-5)
    program.save(tmp_path / "m.clv")
    bench = [TOOL, "bench", tmp_path / "m.clv", "--device", "opencl", "--runs", "1", "--json", "--no-fallback"]
    plan = json.loads(subprocess.run(bench, check=True, capture_output=True, text=True).stdout)["plan"]
    made = plan["constant_bytes"] - plan["constant_bytes_in_place"]
    assert made == 4 * sum(p.numel() for p in model.parameters()), plan
