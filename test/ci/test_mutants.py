"""Tests the verdicts of test/mutants/run.py on a fault that is noticed, survives, or does not build."""

import importlib.util
import pathlib
import subprocess

import pytest

RUN = pathlib.Path(__file__).resolve().parent.parent / "mutants/run.py"
FILES = {
    "Makefile": "all: build/tool\ntests: build/test/check\n"
    "build/tool: tool.c sum.h\n\t@mkdir -p build && cc -o $@ tool.c\n"
    "build/test/check: check.c sum.h\n\t@mkdir -p build/test && cc -o $@ check.c\n",
    "sum.h": "static inline int sum(int a, int b) { return a + b; }\n",
    "tool.c": '#include "sum.h"\nint helper(void) { return 1; }\nint main(void) { return sum(helper(), -1); }\n',
    "check.c": '#include <stdio.h>\n#include "sum.h"\n'
    'int main(void) { return sum(2, 3) == 5 ? 0 : (puts("[  FAILED  ] sums"), 1); }\n',
    "tool.py": "print(1)\n",
}
HEAD = "What it breaks.\nnotice: c check\n"


@pytest.fixture
def run():
    spec = importlib.util.spec_from_file_location("run_mutants", RUN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def judge(run, tmp_path, monkeypatch):
    """Returns a function that replaces a line and returns run.py's verdict; the test builds one of two programs."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", *FILES], cwd=tmp_path, check=True)
    subprocess.run(["make", "-s", "all", "tests"], cwd=tmp_path, check=True)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "WORK", tmp_path / "build/mutants")
    (tmp_path / "build/mutants").mkdir()

    def say(file, old, new, head=HEAD):
        faults = tmp_path / "area.faults"
        faults.write_text(f"fault: one\n{head}--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-{old}\n+{new}\n")
        (mutant,) = run.read(faults)
        result = run.Bench(1, ["build"]).judge(mutant, certain=True)
        return result.verdict, result.by

    return say


SUM = FILES["sum.h"].strip()
MAIN = FILES["tool.c"].splitlines()[2]


def test_a_fault_that_a_test_notices(judge):
    assert judge("sum.h", SUM, SUM.replace("+", "-")) == ("noticed", "c: sums")


@pytest.mark.parametrize(
    "file, old, new, complaint",
    [
        ("tool.c", MAIN, "int main(void) { return no_such_name; }", "tool.c:3:25: error: "),
        ("tool.c", MAIN, "int other(void); int main(void) { return other(); }", "undefined reference to `other'"),
        ("tool.py", "print(1)", "print(", "tool.py:1: '(' was never closed"),
    ],
    ids=["compiler", "linker", "python"],
)
def test_a_fault_that_does_not_build_is_broken(judge, file, old, new, complaint):
    for head in (HEAD, "What it breaks.\nlives: no test looks at it\n"):
        verdict, by = judge(file, old, new, head)
        assert verdict == "broken" and by.startswith("does not build: ") and complaint in by
        assert "\n" not in by


def test_a_fault_that_builds_lives(judge):
    assert judge("tool.c", MAIN, MAIN.replace("-1", "-2")) == ("lived", "")


@pytest.mark.parametrize("text", ["", HEAD, HEAD + "--- a/sum.h\n", HEAD + "--- a/none.h\n+++ b/none.h\n@@\n-a\n+b\n"])
def test_a_file_that_is_no_fault_is_named(run, tmp_path, capsys, text):
    (tmp_path / "area.faults").write_text("fault: fault\n" + text)
    assert run.check(run.read(tmp_path / "area.faults")) == 1
    said = capsys.readouterr().out
    assert said.startswith("FAIL fault: ") and said.endswith("\n0 passed, 1 failed\n")
    assert ("it has no diff" in said) == ("none.h" not in text)


def test_files_have_any_number_of_faults(run, tmp_path, monkeypatch):
    one = "fault: {}\n" + HEAD + "--- a/sum.h\n+++ b/sum.h\n@@\n a\n\n-b\n+{}\n"
    monkeypatch.setattr(run, "HERE", tmp_path)
    assert run.read_all() == []
    (tmp_path / "x.faults").write_text("\n".join(one.format(name, name) for name in ("q", "r", "p")))
    (tmp_path / "y.faults").write_text(one.format("a", "a") + "\n\n")
    (tmp_path / "z.faults").write_text("")
    assert [m.name for m in run.read_all()] == ["a", "p", "q", "r"]
    assert [m.hunks for m in run.read_all()] == [[("sum.h", "a\n\nb\n", f"a\n\n{name}\n")] for name in "apqr"]
    (tmp_path / "z.faults").write_text(one.format("q", "b"))
    with pytest.raises(SystemExit, match="got q twice"):
        run.read_all()


def test_results_and_their_summary(run, tmp_path, monkeypatch):
    """--write keeps results of faults that exist; the page counts them and names all others."""
    one = "fault: {}\n" + HEAD + "--- a/sum.h\n+++ b/sum.h\n@@\n-b\n+{}\n"
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.tsv")
    monkeypatch.setattr(run, "PAGE", tmp_path / "page.md")
    (tmp_path / "x.faults").write_text("\n".join(one.format(name, name) for name in ("p", "q", "r")))
    (tmp_path / "results.tsv").write_text("gone\tc: test\t2026-01-01\nr\tno test: \t2026-01-02\n")
    (p, *_) = run.read_all()
    run.write([run.Result(p, "noticed", "c: a\nb", 1.0)])
    lines = (tmp_path / "results.tsv").read_text().splitlines()
    assert lines[1].startswith("p\tc: a\t20") and lines[2:] == ["r\tno test: \t2026-01-02"]
    page = (tmp_path / "page.md").read_text()
    assert "| `x` | 3 | 2 | 1 | 1 |\n| all | 3 | 2 | 1 | 1 |" in page
    assert "- `r`: What it breaks. Its tests passed on 2026-01-02." in page and "x\n  q\n" in page
    run.list_all(tmp_path / "list.md")
    rows = (tmp_path / "list.md").read_text().splitlines()[4:]
    assert rows[1:] == ["| q | What it breaks. | never run |  |", "| r | What it breaks. | no test:  | 2026-01-02 |"]
