"""The conformance runner itself: what is wrong is found, and a lost worker costs exactly the sample it was on."""

import json
import os
import pathlib
import sys
import time

import pytest
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent / "python")]

import compare
import order
import run
import samples
import worker

NAN, INF = float("nan"), float("inf")


def verdicts(monkeypatch, folder, *options):
    """Runs the suite; the verdicts of its samples in order."""
    arguments = ["run.py", "--out", str(folder), "--jobs", "1", "--dtype", "f32", *options]
    monkeypatch.setattr(sys, "argv", arguments)
    code = run.main()
    path = next(folder.glob("*.jsonl"))
    records = [r for r in map(json.loads, path.read_text().splitlines()) if "verdict" in r]
    return code, [r["verdict"] for r in sorted(records, key=lambda r: r["sample"])]


def test_good_samples_are_right(monkeypatch, tmp_path):
    code, found = verdicts(monkeypatch, tmp_path, "--only", "exp")
    assert code == 0 and set(found) == {"right"} and len(found) > 1


@pytest.mark.parametrize(
    "verdict, lose, limit", [("crash", lambda: os._exit(7), "60"), ("timeout", lambda: time.sleep(60), "10")]
)
def test_lost_worker_costs_one_sample(monkeypatch, tmp_path, verdict, lose, limit):
    alone = worker.run_alone

    def lossy(name, task, *rest):
        if task.sample.index == 1:
            lose()
        return alone(name, task, *rest)

    monkeypatch.setattr(worker, "run_alone", lossy)
    monkeypatch.setattr(worker, "run_together", lambda *_: [])
    code, found = verdicts(monkeypatch, tmp_path, "--only", "exp", "--timeout", limit)
    assert code == 1
    assert found.count(verdict) == 1 and found[1] == verdict and set(found) == {verdict, "right"}


def test_wrong_numbers_are_found(monkeypatch, tmp_path):
    together = worker.judge
    monkeypatch.setattr(worker, "judge", lambda name, task, ours: together(name, task, [t + 1e-3 for t in ours]))
    code, found = verdicts(monkeypatch, tmp_path, "--only", "exp")
    assert code == 1 and "wrong" in found


def test_refused_ops_are_unsupported(monkeypatch, tmp_path):
    code, found = verdicts(monkeypatch, tmp_path, "--only", "linalg.eigvalsh")
    assert code == 0 and "unsupported" in found and "right" not in found


def difference(ours, want, exact=None, pointwise=True):
    wide = None if exact is None else [torch.tensor(exact, dtype=torch.float64)]
    r = compare.Reference([want], wide, magnitude=1.0, terms=4)
    return compare.compare("exp", pointwise, [ours], r).wrong


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_floats_are_compared_in_ulp(dtype):
    want = torch.tensor([1.5, -3.0], dtype=dtype)
    eps = torch.finfo(dtype).eps
    assert not difference(want, want)
    assert not difference(want * (1 + 2 * eps), want)
    assert difference(want * (1 + 16 * eps), want)


def test_special_values_are_exact():
    want = torch.tensor([NAN, INF, -INF, 0.0])
    assert not difference(want.clone(), want)
    for i, other in enumerate([1.0, NAN, INF, -0.0]):
        ours = want.clone()
        ours[i] = other
        assert difference(ours, want), other


def test_integers_dtypes_and_shapes_are_exact():
    want = torch.tensor([1, 2, 3])
    assert not difference(want.clone(), want)
    assert "2 at [0], expected 1" in difference(want + 1, want)
    assert "dtype" in difference(want.int(), want)
    assert "shape" in difference(want[None], want)


def test_f64_result_may_decide():
    """As near to the f64 result as torch is, on its other side."""
    want, ours = torch.tensor([1.0]), torch.tensor([1.0002])
    assert difference(ours, want)
    assert not difference(ours, want, exact=[1.0001])
    assert difference(ours, want, exact=[1.0])


@pytest.mark.parametrize(
    "stable, places, right",
    [
        (False, [3, 0, 1, 2], True),
        (False, [0, 1, 3, 3], False),
        (False, [0, 1, 2, 3], False),
        (True, [3, 0, 1, 2], False),
    ],
)
def test_places_of_equal_elements(stable, places, right):
    """Any order of them is right where torch promises none; never an element twice, or one that is not equal."""
    s = samples.make_sample(0, torch.sort, (torch.tensor([1.0, 2.0, 3.0, 1.0]),), {"stable": stable})
    want = list(s.module(*s.tensors))
    taken = order.is_free("sort", s) and order.canonical("sort", s, [want[0], torch.tensor(places)], want)
    assert bool(taken and taken[1] is want[1]) == right
