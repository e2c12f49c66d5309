"""docs/reference/coverage.md describes the exporter and the backends, and omits no op of torch's database."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]

import aten
import coverage
import expected
import samples
import scope


@pytest.fixture(scope="module")
def rows():
    return coverage.listed_rows(coverage.DOCUMENT.read_text())


def test_every_op_has_a_row(rows):
    assert sorted(rows) == aten.rows()


def test_ops_that_came_and_went(rows):
    text = coverage.DOCUMENT.read_text().partition("\n## Families\n")[0]
    assert coverage.with_all_ops(text) == text
    gone = text.replace("| `aten.add.Tensor` |", "| `aten.add.Never` |")
    assert coverage.listed_rows(coverage.with_all_ops(gone))["aten.add.Tensor"][1:3] == ["never run"] * 2


def test_rows_of_newer_ops():
    """Ops that were never run get rows from a partial run; other rows stay."""
    text = coverage.DOCUMENT.read_text().partition("## Families\n")[0]
    old, new = "aten.abs.default", "aten.zz_new.default"
    record = {"verdict": "right", "dtype": "f32", "ulp": 2.0}
    newer = coverage.tally({d: [record | {"ops": [old, new]}] for d in coverage.DEVICES})
    before = coverage.listed_rows(text)
    never = next(name for name, cells in before.items() if cells[1] == "never run")
    after = coverage.listed_rows(coverage.with_all_ops(text, newer | {never: newer[new]}))
    assert after.pop(never)[1:] == ["1 / 1", "1 / 1", "f32", "2"]
    assert new not in after and after == {name: cells for name, cells in before.items() if name != never}


def test_families_that_are_not_right_say_why_without_a_path():
    failed = {"name": "x", "mode": "fixed", "status": "no_export", "reason": "a | b; at /home/me/model.py:3: if n:"}
    right = failed | {"mode": "sdpa", "status": "right"}
    wrong = failed | {"mode": "eager", "status": "wrong"}
    assert coverage.families([failed, wrong, right]).endswith(
        "| x | no export: a / b | | | | | | eager: wrong, sdpa |\n"
    )
    assert "right: " not in coverage.families([failed | {"status": "skipped"}])


def test_exporter_column_is_true(rows):
    stale = {name: (cells[0], aten.exporter(name)) for name, cells in rows.items() if cells[0] != aten.exporter(name)}
    assert not stale


def test_core_ops_run_but_for_those_listed(rows):
    missing = [name for name in aten.core_ops() if rows[name][0] == "no: no lowering"]
    assert not missing


def test_out_of_scope_list_is_true():
    assert coverage.left_out() in coverage.DOCUMENT.read_text()


def test_ops_of_other_libraries_are_those_that_the_exporter_takes():
    assert coverage.others() in coverage.DOCUMENT.read_text()
    assert "`torchvision::roi_align`" in coverage.others()


def test_table_names_every_op_of_the_database():
    assert sorted(scope.table()) == sorted(samples.infos())
    assert {how for how, _ in scope.table().values()} == {"values", "random", "out"}
    assert all(bool(why) == (how == "out") for how, why in scope.table().values())


def test_the_baseline_covers_what_is_in_scope():
    baseline = expected.load()
    assert sorted(baseline.counts) == sorted((n, d) for n in scope.in_scope() for d in samples.dtypes_of(n))
    rows = [(*key, e) for key, where in baseline.rows.items() for e in where.values()]
    assert not [r for r in rows if r[1] >= baseline.counts[r[0]] or not r[2].reason or r[2].verdict in expected.FAILED]
