"""The guard of bench/: what it takes for a row over its bound, and the tables of docs/performance.md."""

import re
import sys

import pytest


@pytest.fixture(scope="module")
def bounds(root):
    sys.path.insert(0, str(root / "bench"))
    import bounds

    return bounds


def table(*rows):
    return ["| what | ms | more | should be at most, ms |", "|---|---|---|---|", *rows]


@pytest.mark.parametrize(
    ("row", "over"),
    [("| a | 1.0 | 9 | 1 |", False), ("| a | 1.01 (0.5 to 2) | 0 | 1 |", True), ("| a | nan | 0 | 1 |", True)],
)
def test_bound(bounds, row, over):
    assert bool(bounds.rows_over("overhead", table(row))) == over


def test_every_bounded_column_counts(bounds):
    lines = table("| a | 0.5 | 1.5 | 1 |", "| b | 0.5 | 0.5 | 1 |")
    assert list(bounds.rows_over("sampler", lines)) == ["a"]


def test_page_is_within_its_bounds(bounds, root):
    """Every table with bounds is one that the guard knows, and what is committed is within them. What has not been
    measured has a place without a table."""
    page = (root / "docs/performance.md").read_text()
    sections = re.findall(r"<!-- (\w+) -->\n(.*?)\n<!-- end \1 -->", page, re.S)
    tables = {name: body.splitlines() for name, body in sections}
    bounded = {name: lines for name, lines in tables.items() if bounds.has_bounds(lines)}
    assert set(bounded) <= set(bounds.BOUNDED) <= set(tables)
    assert [bounds.rows_over(name, lines) for name, lines in bounded.items()] == [{}] * len(bounded)
