"""Tests the script for a new kind of GPU (ci/gpu_first_run): all steps on the CPU backend, and steps that fail."""

import json
import os
import subprocess

import pytest


def first_run(root, build, out, *words):
    if not (build / "test/replay").exists() or not (build / "bench/decoder").exists():
        pytest.skip("build/test/replay or build/bench/decoder is not built")
    command = [root / "ci/gpu_first_run", "--out", out, "--share", "400", *words]
    p = subprocess.run(command, env=os.environ | {"CLAVE_BUILD": str(build)}, capture_output=True, text=True)
    result = json.loads((out / "result.json").read_text())
    assert result["table"] == [" ".join(line.split()) for line in p.stdout.splitlines()[:-1]], p.stderr
    return p.returncode, result


def test_every_step(root, build, tmp_path):
    code, result = first_run(root, build, tmp_path / "out", "--device", "cpu", root / "examples/mnist/mnist.clv")
    table = "\n".join(result["table"])
    assert code == 0 and "failed (" not in table and "no time left" not in table, table
    assert "doctor nothing is broken" in table and "product_128x128_F16 fast first" in table and "GFLOP/s" in table
    assert len(result["times"]) == 14 and all(t["median_ms"] > 0 for t in result["times"])
    assert result["doctor"]["devices"][0]["device"] == "cpu" and "tinylm strict" in table


def test_steps_that_fail(root, build, tmp_path):
    code, result = first_run(root, build, tmp_path / "out", "--device", "opencl:77")
    assert code == 1 and all("failed (" in row for row in result["table"] if not row.startswith("op cases"))
    assert "mnist strict failed (1): clave: " in "\n".join(result["table"]) and result["times"] == []
    code, result = first_run(root, build, tmp_path / "out", "--device", "cpu", "--seconds", "1")
    assert all("no time left" in row for row in result["table"])
