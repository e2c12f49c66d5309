"""ci/runner.py: a run of hours goes on where it was stopped, and only that."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "ci"))
from runner import Runner


def start(tmp_path, record):
    r = Runner("build", str(tmp_path), everything=True)
    r.record, r.kept = record, {}
    return r


def run_both(r, marks):
    """A part of one command that passes and one that fails, each of which leaves a mark."""
    r.part_name = "both"
    for name, end in (("good", "echo 3 passed, 0 failed; echo skipped: no device"), ("bad", "echo 1 passed, 1 failed")):
        r.run(["sh", "-c", f"echo {name} >> {marks}; {end}"], name=name)


def test_commands_that_passed_are_kept_and_others_run_again(tmp_path):
    marks = tmp_path / "marks"
    first = start(tmp_path, tmp_path / "kept.json")
    run_both(first, marks)
    again = start(tmp_path, first.record)
    again.kept = json.loads(first.record.read_text())
    run_both(again, marks)
    assert marks.read_text().split() == ["good", "bad", "bad"]
    for r in (first, again):
        assert (r.passed, r.failed, r.skipped["no device"]) == (4, 1, 1)


def test_nothing_is_kept_where_no_record_is(tmp_path):
    r = start(tmp_path, None)
    r.run(["true"], name="good")
    assert r.passed == 1 and not r.kept
