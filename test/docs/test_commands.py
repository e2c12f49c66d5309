"""Every command in a document works: the ```sh blocks run as they stand, the ```python blocks too.

Python runs in a folder of its own, in the checkout where it names a file of examples/.
A block after `<!-- hardware -->` needs a device that this machine may lack and is not run; those after
`<!-- executorch -->` are run in test/delegate/executorch. The examples do their own READMEs in test/examples.
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
    """What is running this test is not run again, nor what takes as long."""
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
