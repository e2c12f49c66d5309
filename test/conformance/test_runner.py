"""The conformance runner itself: it finds wrong results, and a lost worker costs exactly the sample that it ran."""

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
import expected
import factors
import order
import run
import samples
import worker

from clave import Error, private
from clave.errors import Code

NAN, INF = float("nan"), float("inf")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder of records and exported programs, shared by all tests, so that a program is exported once."""
    return tmp_path_factory.mktemp("conformance")


def verdicts(monkeypatch, folder, *options):
    """Runs the suite; returns its exit code and the verdicts of its samples in order."""
    arguments = ["run.py", "--out", str(folder), "--jobs", "1", "--dtype", "f32", *options]
    monkeypatch.setattr(sys, "argv", arguments)
    code = run.main()
    path = folder / f"cpu.{options[options.index('--only') + 1]}.jsonl"
    records = [r for r in map(json.loads, path.read_text().splitlines()) if "verdict" in r]
    return code, [r["verdict"] for r in sorted(records, key=lambda r: r["sample"])]


def test_good_samples_are_right(monkeypatch, out):
    code, found = verdicts(monkeypatch, out, "--only", "exp")
    assert code == 0 and set(found) == {"right"} and len(found) > 1


@pytest.mark.parametrize(
    "verdict, lose, limit", [("crash", lambda: os._exit(7), "60"), ("timeout", lambda: time.sleep(60), "10")]
)
def test_lost_worker_costs_one_sample(monkeypatch, out, verdict, lose, limit):
    alone = worker.run_alone

    def lossy(name, task, *rest):
        if task.sample.index == 1:
            lose()
        return alone(name, task, *rest)

    monkeypatch.setattr(worker, "run_alone", lossy)
    monkeypatch.setattr(worker, "run_together", lambda *_: [])
    code, found = verdicts(monkeypatch, out, "--only", "exp", "--timeout", limit)
    assert code == 1
    assert found.count(verdict) == 1 and found[1] == verdict and set(found) == {verdict, "right"}


def test_wrong_numbers_are_found(monkeypatch, out):
    together = worker.judge
    monkeypatch.setattr(worker, "judge", lambda name, task, ours: together(name, task, [t + 1e-3 for t in ours]))
    code, found = verdicts(monkeypatch, out, "--only", "exp")
    assert code == 1 and "wrong" in found


def test_refused_ops_are_unsupported(monkeypatch, out):
    code, found = verdicts(monkeypatch, out, "--only", "linalg.eigvals")
    assert code == 0 and "unsupported" in found and "right" not in found


@pytest.mark.parametrize(
    ("op", "message", "refused"),
    [
        ("add", "torch.export: it cannot", True),
        ("add", "a number of rows that is not known before the run", False),
        ("extra.pdist", "pdist (a number of rows that is not known before the run)", True),
        ("extra.pdist", "another reason", False),
    ],
)
def test_what_open_sizes_may_be_refused_for(op, message, refused):
    assert expected.is_refused_open({"op": op, "message": message}) == refused


def test_our_own_exceptions_are_never_refusals(monkeypatch):
    """An exception of the package's code that torch.export calls, or of a test's own module, is a failure, also if
    torch wraps it."""

    def fail(*_):
        raise ValueError("ours")

    monkeypatch.setattr(samples.Call, "forward", fail)
    assert worker.export_anew(samples.samples_of("exp", "f32", 1)).verdict == "error"
    monkeypatch.undo()
    place = compile("def shapes(*_): raise ValueError('ours')", private.__file__, "exec")
    exec(place, globals())
    monkeypatch.setattr(private, "_network_shapes", shapes)  # noqa: F821
    assert "ours" in worker.export_anew(samples.samples_of("extra.lstm", "f32", 1)).message
    assert worker.export_anew(samples.samples_of("extra.lstm", "f32", 1)).verdict == "error"
    assert worker.export_anew(samples.samples_of("allclose", "f32", 1)).verdict == "unsupported"


# ---- the baseline


@pytest.fixture
def baseline(monkeypatch, tmp_path):
    """Returns a function that writes a baseline: the samples of ops in f32, and rows of op, samples and verdict."""

    def write(counts, *rows):
        monkeypatch.setattr(expected, "COUNTS", tmp_path / "samples.tsv")
        monkeypatch.setattr(expected, "TABLE", tmp_path / "expected.tsv")
        jobs = {(op, "f32"): n for op, n in counts.items()}
        listed = {((op, "f32"), i): {device: expected.Expectation(verdict, "why")} for op, i, device, verdict in rows}
        expected.save(expected.Baseline(jobs, listed))

    return write


TWO = ("--samples", "2", "--only", "exp")  # the options of most tests


def refuse(_spec, *, fallback):
    """Acts as clave.Device of a device that can run nothing."""
    raise Error(
        "exp cannot run here" if not fallback else "with fallback", Code.INVALID if fallback else Code.UNSUPPORTED
    )


@pytest.mark.parametrize(
    "rows, passes",
    [([], True), ([("exp", 1, "opencl", "unsupported")], True), ([("exp", 1, "all", "unsupported")], False)],
)
def test_a_listed_refusal_that_is_right_now_fails(monkeypatch, out, baseline, capfd, rows, passes):
    baseline({"exp": 50}, *rows)
    code, found = verdicts(monkeypatch, out, *TWO)
    assert found == ["right", "right"] and (code == 0) == passes
    assert ("right, but listed as unsupported" in capfd.readouterr().out) != passes


@pytest.mark.parametrize("rows, passes", [([], False), ([("exp", i, "all", "unsupported") for i in (0, 1)], True)])
def test_a_new_refusal_or_fallback_fails(monkeypatch, out, baseline, rows, passes):
    baseline({"exp": 50}, *rows)
    monkeypatch.setattr(worker.clave, "Device", refuse)
    code, found = verdicts(monkeypatch, out, *TWO)
    assert set(found) == {"unsupported"} and (code == 0) == passes


def test_a_new_skip_fails(monkeypatch, out, baseline):
    baseline({"exp": 50})
    monkeypatch.setattr(worker, "_ask_torch", lambda s: {"verdict": "skipped", "message": "torch: no"})
    assert verdicts(monkeypatch, out, *TWO) == (1, ["skipped", "skipped"])


@pytest.mark.parametrize("n, said", [(1, "new samples 1"), (3, ""), (2, "")])
def test_samples_are_counted(monkeypatch, out, baseline, capfd, n, said):
    baseline({"exp": n})
    code, _ = verdicts(monkeypatch, out, *TWO)
    assert (code == 1) == bool(said) and said in capfd.readouterr().out
    assert expected.load().lost(("exp", "f32"), set(), None).startswith("no samples 0")
    assert expected.load().lost(("exp", "f64"), {0, 1}, None) == "not in samples.tsv"


def test_a_slow_sample_fails(monkeypatch, out, baseline):
    baseline({"exp": 50})
    monkeypatch.setattr(worker, "SLOW_S", -1)
    assert verdicts(monkeypatch, out, *TWO) == (1, ["slow", "slow"])


def test_building_kernels_is_not_slow(monkeypatch):
    monkeypatch.setattr(worker, "SLOW_S", 0.05)
    built = []

    def session():
        begin = time.process_time()
        while not built and time.process_time() < begin + 0.1:
            pass
        built.append(1)
        return [1]

    results, seconds = worker.run_timed(session)
    assert results == [1] and seconds < 0.05 and len(built) == 2


def records_of(folder, op, device, *found, limit=None):
    """Writes a device's records of an op in f32 with these verdicts; returns their path."""
    lines = [{"op": op, "dtype": "f32", "sample": i, "verdict": v, "message": f"no {i}"} for i, v in enumerate(found)]
    lines.append({"op": op, "dtype": "f32", "finished": True, "device": device, "limit": limit})
    path = folder / f"{device}.jsonl"
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))
    return str(path)


def rewrite(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["expected.py", *arguments])
    expected.main()
    return expected.table_rows(expected.TABLE)


def test_the_baseline_is_rewritten_from_whole_runs(monkeypatch, tmp_path, baseline):
    baseline({"exp": 9, "sin": 3}, ("sin", 2, "all", "skipped"))
    sin = ["sin", "f32", "2", "all", "skipped", "why"]
    cpu = records_of(tmp_path, "exp", "cpu", "right", "unsupported", "unsupported")
    for reasons in ([], ["--reason", "exp:no 1=one"], ["--reason", "sin=x"]):
        with pytest.raises(SystemExit, match="nothing written"):
            rewrite(monkeypatch, cpu, *reasons)
    assert rewrite(monkeypatch, cpu, "--reason", "exp:no 1=one", "--reason", "exp=words") == [
        ["exp", "f32", "1", "all", "unsupported", "one"],
        ["exp", "f32", "2", "all", "unsupported", "words"],
        sin,
    ]
    opencl = records_of(tmp_path, "exp", "opencl:1", "unsupported", "unsupported", "right")
    assert rewrite(monkeypatch, cpu, opencl, "--reason", "exp=there") == [
        ["exp", "f32", "0", "opencl", "unsupported", "there"],
        ["exp", "f32", "1", "all", "unsupported", "one"],
        ["exp", "f32", "2", "all", "unsupported", "words"],
        ["exp", "f32", "2", "opencl", "right", "there"],
        sin,
    ]
    rewrite(
        monkeypatch,
        records_of(tmp_path, "exp", "cpu", *["right"] * 4),
        records_of(tmp_path, "exp", "opencl", *["right"] * 4),
    )
    assert expected.table_rows(expected.TABLE) == [sin]
    assert expected.load().counts == {("exp", "f32"): 4, ("sin", "f32"): 3}
    rewrite(monkeypatch, records_of(tmp_path, "exp", "cpu", "right", limit=1))
    assert expected.load().counts["exp", "f32"] == 4
    with pytest.raises(SystemExit, match="nothing written"):
        rewrite(monkeypatch, records_of(tmp_path, "exp", "cpu", "wrong"), "--reason", "exp=never")


# ---- comparing


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
    assert "at [0]: expected 1, got 2" in difference(want + 1, want)
    assert "dtype" in difference(want.int(), want)
    assert "shape" in difference(want[None], want)


def test_f64_result_may_decide():
    """The result has the same distance from the f64 result as torch's result, with the opposite sign."""
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
    """Any order is right if torch promises none; an element twice, or one that is not equal, is wrong."""
    s = samples.make_sample(0, torch.sort, (torch.tensor([1.0, 2.0, 3.0, 1.0]),), {"stable": stable})
    want = list(s.module(*s.tensors))
    taken = order.is_free("sort", s) and order.canonical("sort", s, [want[0], torch.tensor(places)], want)
    assert bool(taken and taken[1] is want[1]) == right


TURN = torch.tensor([[0.6, -0.8], [0.8, 0.6]])


@pytest.mark.parametrize(
    "change, right",
    [
        (lambda u, v: (-u, -v), True),
        (lambda u, v: (u @ TURN, v @ TURN), True),  # the two values are equal
        (lambda u, v: (-u, v), False),
        (lambda u, v: (u.flip(-1), v), False),
        (lambda u, v: (u * 2, v / 2), False),
        (lambda u, v: (u, v * (1 + 1e-4)), False),
    ],
)
def test_factors_that_are_not_unique(change, right):
    """Vectors are right with other signs and in other bases of equal values, but not if their product differs."""
    u, v = torch.linalg.qr(torch.tensor([[1.0, 2], [3, 4], [5, 6]])).Q, torch.eye(2)
    want = [u, torch.tensor([2.0, 2]), v]
    ours, theirs = change(u, v)
    taken = factors.canonical("svd", [ours, want[1], theirs], want)
    assert (taken[0] is u and taken[2] is v) == right


def test_beyond_the_range_of_16_bits():
    """Where torch overflows in an intermediate result, the f64 result counts in f16; if it is out of range, infinity
    counts."""
    want = torch.tensor([NAN, NAN], dtype=torch.float16)
    exact = [100.0, -70000.0]
    assert not difference(torch.tensor([100.0, -INF], dtype=torch.float16), want, exact=exact)
    assert difference(torch.tensor([101.0, -INF], dtype=torch.float16), want, exact=exact)
    assert difference(torch.tensor([100.0, INF], dtype=torch.float16), want, exact=exact)
    assert difference(torch.tensor([100.001]), torch.tensor([NAN]), exact=[100.0])
