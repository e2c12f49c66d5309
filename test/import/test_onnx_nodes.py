"""The node tests of the onnx package: each is right, or refused and listed in refused_nodes.tsv."""

import os
import pathlib

import pytest

import clave

_onnx = pytest.importorskip("_onnx", reason="no onnx package is installed")

TABLE = pathlib.Path(__file__).parent / "refused_nodes.tsv"
CASES = _onnx.node_cases()
REFUSED = _onnx.read_refused(TABLE) if TABLE.exists() else {}


def refusal(name, device="cpu", constants=False):
    """Runs a case. Returns the importer's reason if it refuses the case, else None."""
    try:
        _onnx.check_case(CASES[name], device, constants)
    except clave.Error as e:
        if e.code != clave.Code.UNSUPPORTED:
            raise
        return str(e)
    return None


@pytest.mark.parametrize("name", sorted(CASES))
def test_cpu(name):
    reason = refusal(name)
    assert (reason is None) == (name not in REFUSED), f"{TABLE.name}: {name}: {reason or 'is right now'}"


@pytest.mark.by_turn(4)
@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED.keys()))
def test_shapes_as_constants(name):
    assert refusal(name, constants=True) is None


@pytest.mark.by_turn(24)
@pytest.mark.parametrize("name", sorted(CASES.keys() - REFUSED.keys()))
def test_opencl(name):
    reason = refusal(name, "opencl")
    assert reason is None or "runs only on the CPU backend" in reason


def write_table():
    rows = sorted((name, reason) for name in CASES if (reason := refusal(name)))
    lines = [f"{name}\t{reason.partition(': ')[2][:160]}" for name, reason in rows]
    head = "# Node tests that the importer refuses, and why. CLAVE_TEST_WRITE=1 pytest writes the table."
    TABLE.write_text("\n".join((head, *lines)) + "\n")


if "CLAVE_TEST_WRITE" in os.environ:
    write_table()
