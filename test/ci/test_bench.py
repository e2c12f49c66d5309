"""Tests the guard of bench/: the rows that it reports as over their bound, and the tables of the pages."""

import re
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def bounds(root):
    sys.path.insert(0, str(root / "bench"))
    import bounds

    return bounds


@pytest.fixture(scope="module")
def process(root):
    sys.path.insert(0, str(root / "bench"))
    import process

    return process


def table(*rows):
    return ["| what | ms | more | limit, ms |", "|---|---|---|---|", *rows]


@pytest.mark.parametrize(
    ("row", "over"),
    [("| a | 1.0 | 9 | 1 |", False), ("| a | 1.01 (0.5 to 2) | 0 | 1 |", True), ("| a | nan | 0 | 1 |", True)],
)
def test_bound(bounds, row, over):
    assert bool(bounds.rows_over("overhead", table(row))) == over


def test_every_bounded_column_counts(bounds):
    lines = table("| a | 0.5 | 1.5 | 1 |", "| b | 0.5 | 0.5 | 1 |")
    assert list(bounds.rows_over("sampler", lines)) == ["a"]


PAGE = """a
<!-- models -->
| model, device | ms | more |
|---|---|---|
| UNet, opencl | 1 | 2 |
| UNet, cpu | 3 | 4 |
| UNet, cpu | 5 | 6 |

| other | ms |
|---|---|
| UNet | 7 |
<!-- end models -->
b
"""


@pytest.fixture
def page(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    return tmp_path / "page.md"


def test_rows_take_the_place_of_those_on_the_page(process, page):
    """Rows of the same name are replaced one after another. Rows that were not measured stay."""
    head = PAGE.splitlines()[2:4]
    rows = [
        *head,
        "| UNet, cpu | 30 | 40 |",
        "| UNet, cpu | 50 | 60 |",
        "",
        "| other | ms |",
        "|---|---|",
        "| UNet | 70 |",
    ]
    process.write_section(page, "models", rows, some=True)
    want = PAGE.replace("| 3 | 4 |", "| 30 | 40 |").replace("| 5 | 6 |", "| 50 | 60 |").replace("| 7 |", "| 70 |")
    assert page.read_text() == want


HEAD = ["| model, device | ms | more |", "|---|---|---|"]


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["| model, device | s | more |", "|---|---|---|", "| UNet, cpu | 1 | 2 |"], "has other columns"),
        (HEAD, "no row has such a name"),
        ([*HEAD, "", *HEAD, "", "![sizes](sweeps.svg)"], "no row has such a name"),
        ([*HEAD, "| VGG, cpu | 1 | 2 |"], "no such rows, measure it whole: | VGG, cpu | 1 | 2 |"),
    ],
)
def test_rows_that_do_not_fit(process, page, rows, words):
    with pytest.raises(SystemExit) as e:
        process.write_section(page, "models", rows, some=True)
    assert words in str(e.value) and page.read_text() == PAGE


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "models,modls"], "--only: no table is named modls"),
        (["--check", "--only", "gemm"], "--only: no table with bounds is named gemm"),
        (["--rows", "("], "argument --rows: '(' is not a regular expression"),
    ],
)
def test_options_that_are_wrong(root, process, options, words):
    """Wrong options are refused before any measurement."""
    command = [sys.executable, root / "bench/bench.py", *options]
    p = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert p.returncode == 2 and words in p.stderr.splitlines()[-1] and p.stdout == ""


def test_calls_in_turns(process):
    """The first two turns warm up, and each turn makes all calls."""
    called = []
    times = process.times_in_turns([lambda: called.append("a"), lambda: called.append("b")], 3, lambda: len(called))
    assert called == ["a", "b"] * 5 and times == [[1, 1, 1], [1, 1, 1]]


def sections_of(page):
    """Returns {anchor: text} of a page's sections."""
    from documents import slug

    parts = [part.partition("\n") for part in page.read_text().split("\n## ")]
    return {slug(title): body for title, _, body in parts}


def test_pages_name_every_table(root, process):
    """The list of commands has every table, beside the section that contains it."""
    sys.path.insert(0, str(root / "test/docs"))
    import bench

    ours = root / "docs/developers/measurements.md"
    sections = {"": sections_of(ours), "../performance.md": sections_of(root / "docs/performance.md")}
    listed = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| \[.*?\]\((.*?)#(.*?)\)", ours.read_text(), re.M)
    found = {name: (page, section) for names, page, section in listed for name in re.findall(r"`(\w+)`", names)}
    assert set(found) == set(bench.BENCHES)
    missing = [n for n, (page, section) in found.items() if f"<!-- {n} -->" not in sections[page].get(section, "")]
    assert not missing


def test_pages_are_within_their_bounds(bounds, root):
    """The guard knows every table with bounds, and the committed rows are within them. Unmeasured tables have an empty
    section."""
    page = "".join((root / f"docs/{name}.md").read_text() for name in ("performance", "developers/measurements"))
    sections = re.findall(r"<!-- (\w+) -->\n(.*?)\n<!-- end \1 -->", page, re.S)
    tables = {name: body.splitlines() for name, body in sections}
    bounded = {name: lines for name, lines in tables.items() if bounds.has_bounds(lines)}
    assert set(bounded) <= set(bounds.BOUNDED) <= set(tables)
    assert [bounds.rows_over(name, lines) for name, lines in bounded.items()] == [{}] * len(bounded)
