"""Products with a quantised weight on a CPU device whose registers have 4 floats: it has no panels of codes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "ci"))

import classes

NARROW = next(c for c in classes.LIMITED if c.name == "registers of 4 floats")


@pytest.mark.parametrize("case", ["encoded/rows_12", "encoded/deep_70"])
def test_rows_as_they_are_stored(tmp_path, case):
    """Few rows, and many rows with more k than is decoded at once; built into an index of other cases, which stay."""
    runner, index = BUILD / "test/replay", tmp_path / "index.tsv"
    rows = ["\t".join([name, "old.clv", "old.safetensors", "0", "0", "0", ""]) for name in ("conv/other", case)]
    index.write_text("\n".join([*rows, ""]))
    build = [sys.executable, ROOT / "test/cases/build.py", "--out", tmp_path, "--only", case, "--replay", runner]
    subprocess.run(build, check=True, capture_output=True)
    kept, _ = index.read_text().splitlines()
    assert kept == rows[0]
    replay = [runner, index, "--device", "opencl", "--only", case]
    env = os.environ | classes.environment(NARROW, BUILD) | {"CLAVE_SELF_CHECK": "off"}
    done = subprocess.run(replay, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed" in done.stdout
