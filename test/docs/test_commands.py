"""Every command in a document works: the ```sh and ```python blocks run unchanged.

Python runs in a separate folder, or in the checkout if it names a file of examples/. A block after `<!-- hardware -->`
needs a device that this machine may lack and is not run. test/delegate/executorch runs blocks after `<!-- executorch
-->`, and test/examples the READMEs of the examples.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from documents import blocks, slug

pytestmark = pytest.mark.by_turn(9)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md")])


def all_blocks(language):
    for path in DOCUMENTS:
        for i, (mark, text) in enumerate(blocks(path, language)):
            if mark not in ("hardware", "executorch") and not mark.startswith("add to"):
                yield pytest.param(text, id=f"{path.relative_to(ROOT)}-{i}")


def runnable(line):
    """Returns False for commands that run this test itself or take as long."""
    return not line.startswith(("make quick", "make check", "make bench", "make fuzz"))


@pytest.mark.parametrize("text", all_blocks("sh"))
def test_shell(text, tmp_path):
    script = "\n".join(line for line in text.splitlines() if runnable(line))
    env = {k: v for k, v in os.environ.items() if k not in ("CLAVE_DEVICE", "CLAVE_LIBRARY")}
    p = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, env=env, capture_output=True, text=True)
    assert p.returncode == 0, f"{script}\n{p.stdout[-2000:]}{p.stderr[-2000:]}"


@pytest.mark.parametrize("text", all_blocks("python"))
def test_python(text, tmp_path):
    env = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    folder = ROOT if "examples/" in text else tmp_path
    p = subprocess.run([sys.executable, "-c", text], cwd=folder, env=env, capture_output=True, text=True)
    assert p.returncode == 0, p.stderr[-3000:]


def test_make_targets_exist():
    """Each `make target` that a document mentions is explained by make help."""
    explained = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    for path in DOCUMENTS:
        for _, text in blocks(path, "sh"):
            for line in text.splitlines():
                if line.startswith("make "):
                    assert f"make {line.split()[1]}" in explained, f"{path.name}: {line}"


def test_links_lead_somewhere():
    for path in DOCUMENTS:
        for target, section in re.findall(r"\]\(([^)#:]*)(?:#([\w-]+))?\)", path.read_text()):
            page = path.parent / target if target else path
            assert page.exists(), f"{path.name}: {target}"
            if section and page.suffix == ".md":
                headings = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
                assert section in map(slug, headings), f"{path.name}: {target}#{section}"
