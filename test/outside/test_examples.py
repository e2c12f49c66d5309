"""Every example in a fresh clone without our test data: the commands of its page run, and one line names the data that
must be fetched."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test/docs"))
from documents import blocks

PAGES = sorted(p.parent.name for p in (ROOT / "examples").glob("*/README.md"))
# The scripts that need data, and the name of the data that they miss.
MISSING = [
    ("mnist/train.py", "mnist"),
    ("stories260k/export.py", "stories260K"),
    ("tinylm/train.py", "text"),
    ("llama/export_llama.py --stories", "stories260K"),
]


@pytest.fixture(scope="module")
def tree(clone, build, tmp_path_factory):
    """Copies a clone and the outputs of make, so that nothing is compiled again."""
    folder = tmp_path_factory.mktemp("examples") / "clave"
    shutil.copytree(clone, folder, symlinks=True)
    shutil.copytree(build, folder / "build", symlinks=True, ignore=shutil.ignore_patterns("test", "cases", "san*"))
    for file in (folder / "build").rglob("*"):
        if not file.is_symlink():
            os.utime(file)
    return folder


def run(script, tree, outsider, code=0):
    env = outsider | {"PYTHONPATH": "python", "CLAVE_CACHE_DIR": "off", "CLAVE_HELPER": "off"}
    p = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=tree, env=env, capture_output=True, text=True)
    assert p.returncode == code, f"{script}\n{p.stdout[-2000:]}{p.stderr[-2000:]}"
    assert "Traceback" not in p.stderr
    return p.stdout + p.stderr


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.by_turn(12)) for n in PAGES])
def test_a_page(name, tree, outsider, root):
    data = pathlib.Path(os.environ.get("CLAVE_TEST_DATA") or root / "../shared/data").resolve()
    for mark, text in blocks(tree / "examples" / name / "README.md", "sh"):
        if mark.startswith(("hardware", "long")) or (mark.startswith("fetch") and not data.is_dir()):
            continue
        script = text.replace(".venv/bin/python", sys.executable)
        run(re.sub(r"^examples/fetch ", f"examples/fetch --from '{data}' ", script, flags=re.M), tree, outsider)


@pytest.mark.parametrize(("script", "name"), [pytest.param(*m, marks=pytest.mark.by_turn(4)) for m in MISSING])
def test_missing_data_are_named(script, name, clone, outsider, build):
    env = outsider | {"CLAVE_LIBRARY": str(build / "libclave.so")}
    said = run(f"{sys.executable} -W ignore examples/{script}", clone, env, code=1)
    assert re.search(rf"^\S+ is not here: `examples/fetch {name}` downloads it \(\d\.\d MB\)$", said, re.M), said
