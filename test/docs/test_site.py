"""The error guide explains every message, and the site's links work. `make check-all` builds the site itself."""

import importlib.util
import pathlib
import re
import sys

import pytest

import clave

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def load(name):
    sys.path.insert(0, str(ROOT / "docs"))  # site.py imports api.py
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def errors():
    return load("errors")


def test_every_message_is_explained(errors):
    found, table = errors.messages(), errors.rows()
    assert list(errors.problems(found, table)) == []
    assert len(found) > 900 and all(r.cause and r.cure and r.title for r in table)
    guide = errors.guide(found, table)
    assert all(errors.shown(message) in guide for _, message in found)


def test_what_nothing_explains_is_told(errors):
    table = errors.rows()
    told = list(errors.problems([("room/x.c", "a new message")], table))
    assert "room/x.c: a new message: no row of docs/errors.tsv explains it" in told
    assert any("jinja/: no message comes from there" in line for line in told)
    assert any("no OpenCL library" in line for line in told)


def test_the_longest_path_counts(errors):
    table = errors.rows()
    assert errors.row_of("api/builder.c", table).title == "Programs built in C"
    assert errors.row_of("api/session.c", table).title == "The C API and clave.Session"


def test_messages_of_python_are_found(errors):
    found = {message for place, message in errors.messages() if place.startswith("python/")}
    assert "clave.%s needs %s: %s" in found
    assert "calibration: expected ids, because there is no tokenizer, got a text" in found  # folder.error(...)
    assert "%s accepts no cache (past_key_values)" in found  # unsupported(...)


def test_messages_of_c_are_found(errors):
    found = set(errors.messages())
    assert ("cli/compile.c", "--shared and --bare exclude each other") in found  # fail_usage(...)
    assert (
        "cli/doctor.c",
        "%s names the library %s, which cannot be read: reinstall the driver or remove this file",
    ) in found  # add_problem(...)
    assert ("delegate/handles.c", "handle %llu: expected %s, got %s") in found


def test_dead_links_are_found(tmp_path):
    site = load("site")
    good = ('<h1 id="top"></h1>', '<a href="#top"></a>', '<a href="a.html"></a>', '<a href="http://x/">')
    dead = ["gone.html", "a.html#gone", "none.svg", "../x"]
    pages = tmp_path / "site"
    pages.mkdir()
    (tmp_path / "x").write_text("a file that is there, but not of the site")
    (pages / "a.html").write_text("".join(good))
    (pages / "b.html").write_text("".join(f'<img src="{link}">' for link in dead))
    assert list(site.dead_links(pages)) == [("b.html", link) for link in dead]


def test_every_document_is_a_page():
    site = load("site")
    pages = {p for _, section in site.NAVIGATION for p in section}
    assert len(pages) > 40 and "docs/reference/ops.md" in pages
    assert pages >= {p.relative_to(ROOT).as_posix() for p in ROOT.glob("*.md")}
    assert pages >= {p.relative_to(ROOT).as_posix() for p in ROOT.glob("docs/**/*.md") if "notebook" not in p.parts}


def test_the_index_names_every_page():
    """The index has one line for each page. No page outside the notebook links into it."""
    lines = (ROOT / "docs/index.md").read_text().splitlines()
    for page in sorted((ROOT / "docs").glob("**/*.md")):
        name = page.relative_to(ROOT / "docs").as_posix()
        if name != "index.md":
            assert sum(f"]({name})" in line for line in lines) == 1, name
        if "notebook" not in page.parts and name != "index.md":
            assert "notebook/" not in page.read_text(), name


def test_the_c_reference_has_every_function():
    api = load("api")
    pages = {h: api.c_page(h) for h in api.HEADERS}
    for header, page in pages.items():
        names = set(re.findall(r"CLAVE_API[^;]*?\b(clave_\w+)\(", header.read_text()))
        assert {n for n in names if f'<a id="{n}"></a>' not in page} == set(), header.name
    assert "CLAVE_API" not in pages[ROOT / "include/clave.h"]


def test_the_c_reference_has_every_heading():
    """Each title between dashes is a heading. If its comment continues, the rest is text below."""
    api = load("api")
    for header in api.HEADERS:
        titles = re.findall(r"^/\* -{20,} (.+?)(?: \*/)?$", header.read_text(), re.M)
        page = api.c_page(header)
        assert re.findall(r"^## (.+)$", page, re.M) == titles and "-----" not in page, header.name
    page = api.c_page(ROOT / "include/clave.h")
    assert "## sessions\n\n\n`method` names an entry point of the program" in page
    lines = ["/* -------------------- a title", " * and more. */", "", "int clave_f(void);"]
    assert [(i.text, i.code) for i in api.items(lines)] == [
        (["## a title"], []),
        (["and more."], []),
        ([], ["int clave_f(void);"]),
    ]


def test_comments_are_words_and_code():
    api = load("api")
    lines = [
        "/* Makes `a*b` of *out_x:",
        " *",
        " *   f(a, *b);",
        " * and <that>. */",
        "int clave_f(int *a); /* >= 0 */",
    ]
    item = api.items(lines)[0]
    assert list(api.prose(item.text)) == [r"Makes `a*b` of \*out\_x:", "", "    f(a, *b);", r"and \<that\>."]
    assert item.code == lines[-1:] and api.declared(item.code) == ["clave_f"]


def test_the_python_reference_has_every_name():
    page = load("api").python_page()
    for name in clave.__all__:
        assert re.search(rf"^::: clave\.(\w+\.)*{name}$", page, re.M), name
