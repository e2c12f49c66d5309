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


def test_parts_that_passed_are_kept_and_others_run_again(tmp_path):
    ran = []

    def good(r):
        ran.append("good")
        r.passed += 3
        r.skip("no device")

    def bad(r):
        ran.append("bad")
        r.passed += 1
        r.failed += 1

    first = start(tmp_path, tmp_path / "kept.json")
    first.part("good", good)
    first.part("bad", bad)
    again = start(tmp_path, first.record)
    again.kept = json.loads(first.record.read_text())
    again.part("good", good)
    again.part("bad", bad)
    assert ran == ["good", "bad", "bad"]
    assert (again.passed, again.failed, again.skipped["no device"]) == (4, 1, 1)


def test_nothing_is_kept_where_no_record_is(tmp_path):
    r = start(tmp_path, None)
    r.part("good", lambda r: None)
    assert not r.kept
