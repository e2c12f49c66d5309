"""ci/variants.py lists every variant in the backends' tables, so that tests force all of them."""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "ci"))

import variants


@pytest.mark.parametrize("room, tables", [("backend/opencl", variants.OPENCL), ("backend/cpu", variants.CPU)])
def test_all_are_known(room, tables):
    known = {v for names, _ in tables.values() for v in names}
    assert variants.in_sources(ROOT, room) == known
    sources = "".join(p.read_text() for p in sorted((ROOT / room).rglob("*.c")))
    named = re.findall(r'\.family = "([^"]+)"|choose_(?:splits|row_walk)\([\w>-]+, "([^"]+)"', sources)
    assert sorted("".join(n) for n in named) == sorted(tables)


def test_documented():
    text = (ROOT / "docs/howto/tune.md").read_text()
    assert not [f for tables in (variants.OPENCL, variants.CPU) for f in tables if f"`{f}`" not in text]
