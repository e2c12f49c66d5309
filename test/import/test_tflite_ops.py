"""TFLite's ops against ai-edge-litert: models of one op, and custom ops against numpy."""

import pytest

_tflite = pytest.importorskip("_tflite", reason="no ai-edge-litert is installed")
import _tflite_cases as cases

DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("opencl", marks=pytest.mark.by_turn(8))])


@DEVICES
@pytest.mark.parametrize("case", [*cases.FLOATS, *cases.OPEN, *cases.QUANTIZED], ids=str)
def test_op(case, device):
    model, runs = case.build()
    _tflite.check(model, runs, device, case.tolerance, case.apart)


IMAGES = [c for c in [*cases.FLOATS, *cases.OPEN, *cases.QUANTIZED] if any(map(cases.is_image, c.inputs))]


@pytest.mark.parametrize("case", IMAGES, ids=str)
def test_op_after_pool(case):
    """The input is the result of a pool, which has its channels first in clave."""
    model, runs = case.build(after_pool=True)
    _tflite.check(model, runs, "cpu", case.tolerance, case.apart)
