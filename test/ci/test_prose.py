"""ci/prose on texts that break its rules, and on texts that look as if they did."""

import pathlib
import subprocess

import pytest

PROSE = pathlib.Path(__file__).parents[2] / "ci/prose"


def run(tmp_path, name, text, *files):
    """Returns the lines that ci/prose prints about a tree with one file."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    p = subprocess.run([PROSE, ".", *files], cwd=tmp_path, capture_output=True, text=True)
    assert p.returncode == (p.stdout != "") and not p.stderr
    return p.stdout.splitlines()


def several(n):
    """Returns a text of n words without an end."""
    return " ".join(["word"] * n)


SUBJECT = ": write a sentence with a subject"
HELP = 'flag a[] = {{"--it", FLAG_TEXT, %s, "M", "%s", 0, 0}};\n'


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("base/a.c", "/* One thing\n * behind another. */\n", "2: 'behind': better: after"),
        ("base/a.h", "int a; // Gives it.\n", "1: 'Gives': better: return, produce, pass"),
        ("kernels_cl/a.cl", "/* The rows\n   lie in x. */\n", "2: 'lie': better: is, is stored"),
        ("base/a.c", "/* A size that is none. */\n", "1: 'that is none': better: is not"),
        ("base/a.c", 'f("%zu rows "\n  "but for one");\n', "1: 'but for': better: except"),
        ("base/a.c", "/* b is packed on\n * the way. */\n", "1: 'on the way': better: during, before"),
        ("a.py", '"""The same for rows."""\n', "1: 'The same for': better: works like NAME, does the same for"),
        ("base/a.h", "/* It runs on a thread of clave's. */\n", "1: 'of clave's': better: of clave, of the caller"),
        ("a.py", '"""What it is."""\n', "1: the comment begins with \'What\'" + SUBJECT),
        ("ci/a", "#!/usr/bin/env python3\n# it asks\n# for more\n", "2: 'asks for': better: request, prefetch, need"),
        ("a.py", "f(\n    # Of the rows.\n)\n", "2: the comment begins with \'Of\'" + SUBJECT),
        ("base/a.c", "\n/* Of the rows. */\n", "2: the comment begins with \'Of\'" + SUBJECT),
        ("base/a.c", "/* ---- what is in it */\n", "1: the comment begins with \'what\'" + SUBJECT),
        ("base/a.c", "/*\n * Whether it is. */\n", "1: the comment begins with \'Whether\'" + SUBJECT),
        ("base/a.c", "int a; // those of it\n", "1: the comment begins with \'those\'" + SUBJECT),
        ("a.py", "#: That of x.\nx = 1\n", "1: the comment begins with \'That\'" + SUBJECT),
        ("a.py", 'def f():\n    """what it is."""\n', "2: the comment begins with \'what\'" + SUBJECT),
        ("delegate/a.cc", "/* It gives one. */\n", "1: 'gives': better: return, produce, pass"),
        ("docs/a.md", f"(It is so.) {several(41)}.\n", "1: a sentence of 41 words, at most 40"),
        ("a.py", 'raise Error(\n    f"{x} gives none")\n', "2: 'gives': better: return, produce, pass"),
        ("a.py", 'p.add_argument("--x", help="it lies here")\n', "1: 'lies': better: is, is stored"),
        ("README.md", "One.\n\n- It lay\n  there.\n", "3: 'lay': better: is, is stored"),
        ("docs/a.md", f"Short. {several(20)}\n{several(21)}.\n", "1: a sentence of 41 words, at most 40"),
        ("docs/a.md", f"{several(30)}.\n" * 4 + "One.\n", "1: a paragraph of 121 words, at most 120"),
        ("docs/a.md", f"|a|b|\n|-|-|\n|{several(26)}|b|\n", "3: a cell of 26 words, at most 25"),
        ("include/a.h", f"/* {several(41)} */\n", "1: a sentence of 41 words, at most 40"),
        ("base/a.c", f'f("{several(41)}");\n', "1: a sentence of 41 words, at most 40"),
        ("cli/a.c", HELP % ("FIELD(it)", several(26)), "1: a cell of 26 words, at most 25"),
        ("docs/errors.tsv", f"# Rows.\na/\tA\tOne.\t{several(41)}.\n", "2: a sentence of 41 words, at most 40"),
    ],
)  # fmt: skip
def test_refused(tmp_path, name, text, said):
    assert run(tmp_path, name, text) == [f"{name}:{said}"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("base/a.c", "/* NULL if there\n * is none; `behind` is a name. Lay out the rows. */\n"),
        ("base/a.c", "int behind = gives('\"'); /* A row. */\n"),
        ("base/a.c", f"/* {several(41)} */\n"),
        ("test/a.c", 'f("what it gives");\n'),
        ("cli/a.c", f'f("if (x) {{\\n{several(41)}");\n'),
        ("cli/a.c", HELP % ("offsetof(arguments, it)", several(25))),
        ("base/a.h", f"/* {several(30)}:\n *   a_name   {several(20)}\n *   another   {several(20)}\n */\n"),
        ("a.py", 'x = "what it gives"  # not that\n# It is None where there is none of them.\n'),
        ("docs/a.md", f"{several(40)}. [{several(20)}](behind.md)\n`{several(30)}`\n\n```c\n/* behind */\n```\n"),
        ("docs/a.md", f"<!-- behind -->\n- {several(40)}\n- {several(40)}\n\n{several(40)}\n"),
        ("docs/notebook/a.md", "What it gives is behind it.\n"),
        ("test/delegate/release_1/a.h", "/* What it gives. */\n"),
        ("docs/a.md", f"Some words, e.g. {several(30)} and\n{several(6)}.\n"),
        ("docs/a.md", f"|a \\| {several(20)}|b|\n|-|-|\n"),
        ("base/a.c", "// A comment in two lines, the second\n// of which has no subject.\n"),
    ],
)  # fmt: skip
def test_accepted(tmp_path, name, text):
    assert run(tmp_path, name, text) == []


def test_files_by_name(tmp_path):
    run(tmp_path, "a.md", "It gives one.\n")
    assert run(tmp_path, "b.md", "It is behind.\n", "b.md") == ["b.md:1: 'behind': better: after"]
