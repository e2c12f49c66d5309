"""The command `clave` of the wheel: replaces this process by the tool that the package holds."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    """Does not return where there is the tool."""
    package = Path(__file__).resolve().parent
    built = package.parents[1] / "build/clave"  # of the checkout, where an editable install has its files
    tool = built if not (package / "clave").exists() and built.exists() else package / "clave"
    try:
        os.execv(tool, ["clave", *sys.argv[1:]])
    except OSError as e:
        print(f"clave: {tool}: {e.strerror}; this package was built without the tool", file=sys.stderr)
    return 1
