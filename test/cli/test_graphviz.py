"""Tests drawings of clave inspect. graphviz lays them out if it is installed and its answer fits the graph. If it is
missing, late or wrong, clave lays them out itself."""

import json
import os
import re
import shutil
import sys
import textwrap
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import make_program

SVG = "{http://www.w3.org/2000/svg}"
LIES = "Graphviz wrote no usable layout, so the built-in layout is used"
# Answers for the graph of make_program: x -> mul -> softmax -> argmax and outputs.
FAKE = """#!{python}
import re, sys
asked = open("graph").read()
boxes = re.findall(r"^  (\\d+) \\[width=([\\d.]+) height=([\\d.]+)\\];$", asked, re.M)
edges = re.findall(r"^  (\\d+) -> (\\d+);$", asked, re.M)
assert sys.argv[1:] == ["-Tplain", "-oplaced", "graph"] and boxes and edges
lines = [f"graph 1 {{len(boxes)}} 5"]
lines += [f'node {{n}} {{int(n) + 0.5}} 2.5 {{w}} {{h}} "" solid box black lightgrey' for n, w, h in boxes]
lines += [f"edge {{a}} {{b}} 4 {{a}} 2 {{a}} 1.5 {{b}} 1.5 {{b}} 1 solid black" for a, b in edges]
lines += ["stop"]
{change}
open("placed", "w").write("\\n".join(lines) + "\\n")
"""


@pytest.fixture
def drawn(tool, program):
    """Returns a function that draws with a given program instead of dot, and returns the drawing and the notes."""

    def draw(dot="off", **env):
        r = tool.run("inspect", program, "--svg", env={"CLAVE_DOT": str(dot)} | env)
        assert r.returncode == 0, r.stderr
        ElementTree.fromstring(r.stdout)
        return r.stdout, r.stderr

    return draw


@pytest.fixture
def fake(tool):
    def make(change="", text=None):
        path = tool.folder / "fake dot"
        path.write_text(text or FAKE.format(python=sys.executable, change=textwrap.dedent(change)))
        path.chmod(0o755)
        return path

    return make


def boxes_of(svg):
    return [
        tuple(float(r.get(k)) for k in ("x", "y", "width", "height"))
        for r in ElementTree.fromstring(svg).iter(SVG + "rect")
        if r.get("x")
    ]


def test_without_it(drawn, tmp_path):
    own, said = drawn("off")
    assert said == "" and drawn("off") == (own, "")
    assert drawn(tmp_path / "none") == (own, "")
    assert drawn("", PATH=str(tmp_path)) == (own, "")


def test_its_places_are_taken(drawn, fake):
    own, _ = drawn("off")
    svg, said = drawn(fake())
    assert said == "" and svg != own
    boxes = boxes_of(svg)
    assert len(boxes) == len(boxes_of(own))
    for i, (x, y, width, height) in enumerate(boxes):  # in inches, with y upwards, within a margin of 24
        assert x + width / 2 == pytest.approx(24 + (i + 0.5) * 72, abs=0.1)
        assert y + height / 2 == pytest.approx(24 + 2.5 * 72, abs=0.1)
    assert 'd="M24.0 240.0 C24.0 276.0 96.0 276.0 96.0 312.0"' in svg
    assert sorted(b[2:] for b in boxes) == sorted(b[2:] for b in boxes_of(own))


def test_by_a_path_from_here(drawn, fake):
    path = fake()
    assert drawn(f"./{path.name}") == drawn(path)


@pytest.mark.parametrize(
    "change",
    [
        "lines = []",
        "lines = ['stop']",
        "lines.pop()",
        "lines[0] = 'graph 2 9 5'",
        "lines[0] = 'graph 1 -9 5'",
        "lines[0] = 'graph 1 9'",
        "lines[0] = 'graph 1 nan 5'",
        "lines.insert(1, lines[0])",
        "del lines[0]",
        "del lines[1]",
        "lines.insert(1, lines[1])",
        "lines[1] = lines[1].replace('node 0', 'node 99')",
        "lines[1] = lines[1].replace('node 0', 'node -1')",
        "lines[1] = lines[1].replace('node 0', 'node 0.5')",
        "lines[1] = 'node 0 1e9 1'",
        "lines[1] = 'node 0 inf 1'",
        "lines[1] = 'node 0 nan 1'",
        "lines[1] = 'node 0 0x'",
        "lines[1] = 'node 0'",
        "lines[1] = 'word 0 1 1'",
        "del lines[-2]",
        "lines.insert(-1, lines[-2])",
        "lines[-2] = 'edge 1 0 4 1 1 1 1 1 1 1 1'",
        "lines[-2] = lines[-2].replace(' 4 ', ' 3 ', 1)",
        "lines[-2] = lines[-2].replace(' 4 ', ' 7 ', 1)",
        "lines[-2] = lines[-2].replace(' 4 ', ' 4000000000 ', 1)",
        "lines[-2] = lines[-2].replace(' 4 ', ' -2 ', 1)",
        "lines[-2] = lines[-2].replace(' 1 solid', ' -99 solid')",
        "lines[1] = 'node 0 1 50'",
        "lines[-2] = lines[-2][:20]",
        "lines.append('node')",
        "lines[1] += '\\0'",
        "import os; os.mkfifo('placed')\nsys.exit(0)",
        "import os; os.symlink('/dev/zero', 'placed')\nsys.exit(0)",
        "sys.exit(0)",
        "open('placed', 'w').truncate(17 << 20)\nsys.exit(0)",
    ],
)
def test_lies(drawn, fake, change):
    own, _ = drawn("off")
    assert drawn(fake(change)) == (own, f"clave: note: {LIES}\n")


def test_it_fails(drawn, fake):
    own, _ = drawn("off")
    assert drawn(fake("sys.exit(3)")) == (own, "clave: note: Graphviz failed, so the built-in layout is used\n")


@pytest.mark.by_turn(8)
def test_it_hangs(drawn, fake):
    """graphviz hangs: it is ended, and the drawing is clave's own."""
    own, _ = drawn("off")
    path = fake(text="#!/bin/sh\nexec sleep 60\n")
    assert drawn(path) == (own, "clave: note: Graphviz took too long, so the built-in layout is used\n")


def test_nothing_is_left(tool, drawn, fake):
    folder = tool.folder / "temporary"
    folder.mkdir()
    for change in ("", "sys.exit(1)", "lines = []"):
        drawn(fake(change), TMPDIR=str(folder))
    assert os.listdir(folder) == [] and sorted(os.listdir(tool.folder)) == ["fake dot", "p.json", "temporary"]
    own, _ = drawn("off")
    assert drawn(fake(), TMPDIR=str(folder / "none")) == (own, "")


def chain(n):
    """Returns a program of n nodes, each of which reads the one before."""
    p = make_program()
    step = p["chains"][0]["instructions"][0]
    text = json.dumps(step)
    p["tensors"] += [p["tensors"][3] | {"name": f"t{i}"} for i in range(n)]
    more = []
    for i in range(n):
        s = json.loads(text)
        s["name"] = f"n{i}"
        s["op"]["out"] = {"idx": 3 if i == n - 1 else 4 + i}
        s["op"]["inputs"] = [{"idx": 0 if i == 0 else 3 + i}]
        more.append(s)
    p["chains"][0]["instructions"][:1] = more
    return p


def test_a_graph_that_is_too_large(tool, fake):
    """graphviz is not started."""
    (tool.folder / "large.json").write_text(json.dumps(chain(1100)))
    r = tool.run("inspect", "large.json", "--svg", env={"CLAVE_DOT": str(fake("sys.exit(1)"))})
    assert (r.returncode, r.stderr) == (0, ""), r.stderr[:300]
    assert r.stdout.count('<g class="box') > 1000


@pytest.mark.skipif(not shutil.which("dot"), reason="no graphviz")
@pytest.mark.parametrize("model", ["mnist/mnist.clv", "tinylm/tinylm.clv"])
def test_the_real_one(tool, build, model):
    """The drawing is the same each time; boxes do not overlap, and lines lead from box to box."""
    path = build.parent / "examples" / model
    made = [tool.run("inspect", path, "--svg", "--placement", env={"CLAVE_DOT": ""}) for _ in range(2)]
    assert [(r.returncode, r.stderr) for r in made] == [(0, "")] * 2 and made[0].stdout == made[1].stdout
    own = tool.good("inspect", path, "--svg", "--placement", env={"CLAVE_DOT": "off"})
    assert made[0].stdout != own
    boxes = boxes_of(made[0].stdout)
    assert len(boxes) == len(boxes_of(own)) and own.count("<path") == made[0].stdout.count("<path")
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[:i]:
            assert x + w <= x2 + 0.2 or x2 + w2 <= x + 0.2 or y + h <= y2 + 0.2 or y2 + h2 <= y + 0.2
    for first, last in re.findall(r'd="M(\S+ \S+) C.*? (\S+ \S+)" marker', made[0].stdout):
        near = [float(v) for v in (*first.split(), *last.split())]
        assert any(x - 1 < near[0] < x + w + 1 and y < near[1] < y + h + 1 for x, y, w, h in boxes)
        assert any(x - 8 < near[2] < x + w + 8 and y - 8 < near[3] < y + h for x, y, w, h in boxes)
