"""Writes clave/_generated, the schema's dataclasses and serialiser, which git ignores.

A wheel contains these files, because setup.py calls `generate` when it builds one. In a checkout the first import of
clave.schema writes them if they are missing or older than the schema. Uses the standard library only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

_SOURCES = (
    "serialize/schema.fbs",
    "ops/elementwise.tsv",
    "serialize/generate.py",
    "serialize/gen_python.py",
    "serialize/gen_schema.py",
)


def generate(checkout: Path, folder: Path) -> None:
    """Writes the modules generated from the checkout's schema into `folder` if they are missing or older than it.

    Raises ImportError if they are missing and the checkout has no schema, or if the generator fails.
    """
    sources = [checkout / s for s in _SOURCES]
    written = folder / "serialize.py"
    if not all(s.exists() for s in sources):
        if written.exists():
            return
        raise ImportError(f"{folder} is missing, and {checkout} is not a checkout of clave to generate it from")
    if written.exists() and written.stat().st_mtime >= max(s.stat().st_mtime for s in sources):
        return
    with tempfile.TemporaryDirectory() as c_files:
        command = [sys.executable, str(checkout / "serialize/generate.py"), "--skip-flatc"]
        command += ["--out", c_files, "--python", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ImportError(f"serialize/generate.py: {done.stderr.strip()}")
