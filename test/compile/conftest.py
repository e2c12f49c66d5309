"""Puts the checkout's own package, and modules shared by the tests of compiled programs, in sys.path."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "python"), str(HERE.parent.parent / "python")]

import pytest
import quick_export
from compiled import Builder

quick_export.speed_up_export()


@pytest.fixture(scope="session")
def builder():
    return Builder()
