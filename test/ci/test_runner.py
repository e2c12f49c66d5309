"""ci/runner.py: a run of hours continues exactly where it was stopped; parts run concurrently, in order."""

import argparse
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "ci"))
from runner import RINGS, CommandSlots, Runner


def start(tmp_path, record):
    r = Runner("build", str(tmp_path), ring="all")
    r.record, r.kept = record, {}
    return r


def run_both(r, marks):
    """Runs a part with a command that passes and one that fails, each of which leaves a mark."""
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


def test_a_part_waits_for_those_before_and_has_counts_of_its_own(tmp_path):
    marks = tmp_path / "marks"
    tell = lambda name, end: lambda r: r.run(["sh", "-c", f"{end} && echo {name} >> {marks}"], name=name)
    r = start(tmp_path, None)
    r.side_by_side(
        [
            ("cases", tell("cases", "sleep 0.3"), ["not chosen"]),
            ("op cases", tell("op cases", "echo 5 passed, 2 failed"), ["cases"]),
        ]
    )
    assert marks.read_text().splitlines() == ["cases", "op cases"]
    assert [(name, *counts) for name, _, *counts in r.parts] == [("cases", 1, 0), ("op cases", 5, 2)]
    assert (r.passed, r.failed) == (6, 2)


def test_what_a_part_raises_ends_the_run(tmp_path):
    r, mark = start(tmp_path, None), tmp_path / "mark"
    leave_mark = lambda r: r.run(["touch", str(mark)], name="next")
    try:
        r.side_by_side([("broken", lambda r: [][1], []), ("next", leave_mark, ["broken"])])
    except IndexError:
        assert not mark.exists()
        return
    raise AssertionError("the part's error was lost")


def test_a_free_seat_goes_to_the_earliest_part():
    slots, order = CommandSlots(1), []

    def sit(rank):
        with slots.reserved(rank):
            order.append(rank)

    threads = [threading.Thread(target=sit, args=[rank]) for rank in (2, 1, 3)]
    with slots.reserved(9):
        for t in threads:
            t.start()
        deadline = time.monotonic() + 60
        while len(slots.waiting) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not order
    for t in threads:
        t.join()
    assert order == [1, 2, 3]


def test_a_command_that_takes_too_long_is_stopped(tmp_path):
    r = start(tmp_path, None)
    r.everything = False
    code, output = r.attempt(["sh", "-c", "echo begun; exec sleep 600"], None, 0.5)
    assert code == 124 and output == "begun\n\nstopped after 0.5 s"


def test_processor_seconds_are_those_of_the_commands(tmp_path, capsys):
    r = start(tmp_path, None)
    r.run([sys.executable, "-c", "import time\nwhile time.process_time() < 1.6: pass"], name="busy")
    r.run(["sleep", "0.2"], name="idle")
    assert 1.6 <= r.cpu < 30
    busy, idle = capsys.readouterr().out.splitlines()  # a line each if everything is run
    assert re.search(r"^   \d+ s \([2-9]\d? of a processor\), 1 passed, 0 failed: busy$", busy), busy
    assert re.search(r"^   \d+ s \(0 of a processor\), 1 passed, 0 failed: idle$", idle), idle


def test_each_ring_runs_what_those_before_it_run(monkeypatch):
    import check

    for name in ("SAN", "DEVICE"):
        monkeypatch.delenv(name, raising=False)
    chosen = [[n for n, *_ in check.choose(argparse.Namespace(ring=ring, only=None))] for ring in RINGS]
    assert "C suite" in chosen[0] and chosen[-1] == [n for n, *_ in check.PARTS]
    for smaller, larger in itertools.pairwise(chosen):
        assert set(smaller) < set(larger)


def test_the_same_tests_are_drawn_at_every_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("CLAVE_CHECK_DAY", "2026-11-28")
    turns = [Runner("build", str(tmp_path), ring).turn for ring in RINGS]
    assert turns == ["fixed", "fixed", "2026-11-28", "2026-11-28"]


@pytest.mark.parametrize(
    ("check", "more", "last"),
    [
        ("echo 5 passed, 0 failed", "echo 7 passed, 0 failed", "12 passed, 0 failed"),
        ("echo 5 passed, 0 failed", "echo 7 passed, 2 failed; exit 1", "12 passed, 2 failed"),
        ("echo 5 passed, 1 failed; exit 1", "echo 7 passed, 0 failed", "5 passed, 1 failed"),
        ("echo 5 passed, 0 failed; exit 3", "echo 7 passed, 0 failed", "5 passed, 1 failed"),
        ("echo 5 passed, 0 failed", "echo nothing", "5 passed, 1 failed"),
        ("exit 1", "echo 7 passed, 0 failed", "0 passed, 1 failed"),
    ],
)
def test_what_ci_runs_closes_with_the_sum_of_both_rings(tmp_path, check, more, last):
    """make is fake: CI reads the last line and the exit status."""
    make = tmp_path / "make"
    make.write_text(f"#!/bin/bash\ncase $1 in check) {check} ;; check-more) {more} ;; esac\n")
    make.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    p = subprocess.run([ROOT / ".ci/run"], env=env, capture_output=True, text=True)
    assert p.stdout.splitlines()[-1] == last
    assert p.returncode == (0 if last.endswith(" 0 failed") else 1)
