"""The commands of docs/howto/executorch.md, which need this environment."""

import os
import subprocess
import sys

import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "test/docs"))
from documents import blocks

PAGE = ROOT / "docs/howto/executorch.md"


def marked(language):
    return [text for mark, text in blocks(PAGE, language) if mark == "executorch"]


@pytest.mark.by_turn(17)
@pytest.mark.parametrize("text", marked("python"))
def test_python(text, tmp_path):
    env = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_shell():
    """The commands are those that ci/check.py runs to set up this environment."""
    assert marked("sh") == ["ci/venv executorch\nmake executorch\n"]
