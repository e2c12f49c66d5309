"""Counts the programs that models build on imitated devices: each costs time at the first run.

programs.tsv has the largest numbers. `CLAVE_TEST_WRITE=1 pytest test/imitated_opencl/test_programs.py` renews it.
"""

import ctypes.util
import os
import pathlib

import pytest
import test_limits

TABLE = pathlib.Path(__file__).with_name("programs.tsv")
COLUMNS = ("resnet", "vit", "llm", "llm, int4", "everything")
SLACK = 2  # if there are more programs below the bound, the bound must be lowered


def count(imitate, programs, profile, model, precision):
    """Returns how many programs a run of a model builds."""
    command = ("clave", "bench", programs(model), "--runs", "1", "--warmup", "0")
    p = imitate(profile, command, CLAVE_PRECISION=precision)
    assert p.code == 0 and "answered_by  opencl" in p.out and not p.broken, (p.out, p.err, p.broken)
    assert len(set(p.builds)) == len(p.builds) and "CPU backend" not in p.err
    return len(p.builds)


@pytest.fixture(scope="session")
def bounds():
    """Returns the table as a dict; writes what the tests counted instead, if CLAVE_TEST_WRITE is set."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines()[1:]] if TABLE.exists() else []
    known = {(profile, precision): [int(n) for n in counts] for profile, precision, *counts in rows}
    yield known
    if os.environ.get("CLAVE_TEST_WRITE"):
        text = ["\t".join(("profile", "precision", *COLUMNS))]
        text += ["\t".join((*key, *map(str, counts))) for key, counts in sorted(known.items())]
        TABLE.write_text("\n".join(text) + "\n")


@pytest.mark.skipif(not ctypes.util.find_library("clblast"), reason="no libclblast1, whose programs are counted")
@pytest.mark.parametrize("precision", ("strict", "fast"))
@pytest.mark.parametrize("profile", test_limits.NAMES)
def test_programs(imitate, programs, bounds, profile, precision):
    counted = [count(imitate, programs, profile, model, precision) for model in COLUMNS]
    if os.environ.get("CLAVE_TEST_WRITE"):
        bounds[profile, precision] = counted
    for model, n, most in zip(COLUMNS, counted, bounds[profile, precision], strict=True):
        assert n <= most, f"{model} builds {n} programs, at most {most} are expected: see {TABLE.name}"
        assert n >= most - SLACK, f"{model} builds only {n} programs: lower the bound {most} in {TABLE.name}"
