"""Dynamic sizes whose example is 0 or 1: torch treats these as fixed, and the error suggests other examples."""

import pytest
import torch
from torch.export import Dim

import clave


def export(shape, dims, strict=None):
    return clave.export(torch.nn.Linear(8, 3).eval(), (torch.randn(shape),), dynamic_shapes=(dims,), strict=strict)


@pytest.mark.parametrize("strict", [None, True])
@pytest.mark.parametrize(
    ("shape", "dims", "name", "got"),
    [
        ((1, 8), {0: Dim("batch")}, "batch", 1),
        ((0, 8), {0: Dim("batch")}, "batch", 0),
        ((1, 8), {0: Dim("batch", min=1, max=5)}, "batch", 1),
        ((1, 1, 8), {0: Dim("a"), 1: Dim("b")}, "a, b", 1),
        ((1, 8), {0: Dim.DYNAMIC}, r"inputs\['x'\]\.shape\[0\]|input", 1),
        ((2, 8), {0: 2 * Dim("batch")}, "batch", 1),
    ],
)
def test_the_error_says_which_size_to_give(shape, dims, name, got, strict):
    with pytest.raises(clave.Error, match=rf"expected an example of size 2 or more for .*(?:{name}).*, got {got}"):
        export(shape, dims, strict)


def test_a_size_that_the_model_fixes_is_not_taken_for_it():
    with pytest.raises(clave.Error, match=r"specialized it to be a constant \(8\); torch suggests b = 8$"):
        export((2, 8), {0: Dim("a"), 1: Dim("b")}, strict=True)


def test_two_is_enough():
    program = export((2, 8), {0: Dim("batch")})
    assert clave.Session(program, device="cpu")(torch.randn(1, 8)).shape == (1, 3)
