"""Products with a quantised weight on a CPU device whose registers hold 4 floats: it has no panels of codes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CLAVE_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "ci"))

import classes

NARROW = next(c for c in classes.LESSER if c.name == "registers of 4 floats")


@pytest.mark.parametrize("cases", ["encoded/rows_12", "encoded/deep_70"])
def test_rows_as_they_are_stored(cases):
    """Few rows, and many by more of k than are decoded at once."""
    replay = [BUILD / "test/replay", ROOT / "build/cases/index.tsv", "--device", "opencl", "--only", cases]
    env = os.environ | classes.environment(NARROW, BUILD) | {"CLAVE_SELF_CHECK": "off"}
    done = subprocess.run(replay, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed" in done.stdout
