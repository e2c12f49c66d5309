"""Follows serialize/README.md in a copy of the tree. Exactly its files and lines must make an op that is right on both
backends, that is refused if it is wrong, and that the doctor checks."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from trials import ROOT

sys.path.insert(0, str(ROOT / "test/docs"))
from documents import blocks

PAGE = ROOT / "serialize/README.md"
EXPORT = """
import sys
sys.path.insert(0, "test/cases")
import toeplitz, torch, clave

class Net(torch.nn.Module):
    def forward(self, x):
        return toeplitz.toeplitz(x)

clave.export(Net(), (torch.randn(5),)).save("build/right.json")
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Copies the files that git tracks or does not ignore, and adds the files and lines of the page."""
    top = tmp_path_factory.mktemp("tree")
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, top / name)
    (top / ".venv").symlink_to(ROOT / ".venv")
    for language in ("fbs", "c", "python"):
        for mark, text in blocks(PAGE, language):
            add(top, mark, text)
    return top


def add(top, mark, text):
    if mark.startswith("new file "):
        path = top / mark.removeprefix("new file ")
        assert not path.exists(), mark
        path.write_text(text)
        return
    name, where, anchor = re.fullmatch(r'put into (\S+) (before|behind) "(.*)"', mark).groups()
    old = (top / name).read_text()
    assert old.count(anchor) == 1, mark
    new = f"{text}\n{anchor}" if where == "before" else anchor + text.rstrip("\n")
    (top / name).write_text(old.replace(anchor, new))


def run(command, tree, code=0):
    left_out = ("CLAVE_LIBRARY", "CLAVE_DEVICE", "BUILD", "CLAVE_BUILD", "MAKEFLAGS")
    env = {k: v for k, v in os.environ.items() if k not in left_out} | {"PYTHONPATH": str(tree / "python")}
    p = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    assert p.returncode == code, p.stdout[-3000:] + p.stderr[-3000:]
    return p.stdout


@pytest.fixture(scope="module")
def built(tree):
    run(["make", f"-j{os.cpu_count()}", "CFLAGS=-O0", "EXTRA=", "all", "build/test/replay"], tree)
    return tree


def test_the_page_names_each_file_once():
    marks = [m for language in ("fbs", "c", "python") for m, _ in blocks(PAGE, language)]
    assert all(marks) and len(set(marks)) == len(marks) > 8


def test_its_commands(built):
    (commands,) = (text for _, text in blocks(PAGE, "sh"))
    lines = [line for line in commands.splitlines() if not line.startswith("make")]
    assert len(lines) == 3
    build, *replays = lines
    run(build.split(), built)
    for line in replays:
        said = run(line.split(), built)
        passed, failed = re.search(r"(\d+) passed, (\d+) failed", said).groups()
        assert int(passed) >= 10 and failed == "0", said


def test_the_doctor_checks_it(built):
    report = json.loads(run(["build/clave", "doctor", "--family", "toeplitz", "--json"], built))
    assert {c["result"] for d in report["devices"] for c in d["checks"]} <= {"right", "runs"}


def test_what_it_refuses(built):
    run([sys.executable, "-c", EXPORT], built)
    run(["build/clave", "verify", "build/right.json"], built)
    wrong = json.loads((built / "build/right.json").read_text())
    (line,) = (t for t in wrong["tensors"] if len(t["shape"]) == 1)
    line["shape"][0]["literal"] = 6
    (built / "build/wrong.json").write_text(json.dumps(wrong))
    p = subprocess.run(["build/clave", "verify", "build/wrong.json"], cwd=built, capture_output=True, text=True)
    assert p.returncode == 1 and "x: expected an odd number of elements, got 6" in p.stderr, p.stderr
    assert "Toeplitz" in (built / "docs/reference/ops.md").read_text()


def test_the_style_is_the_houses(built):
    new = [m.removeprefix("new file ") for m, _ in blocks(PAGE, "c") if m.startswith("new file ")]
    run(["clang-format", "--dry-run", "-Werror", *new], built)
    run(["ci/layers", "."], built)
