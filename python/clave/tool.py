"""The command `clave` of the wheel. Replaces this process by the tool in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    """Runs the tool. Returns 1 only if there is no tool."""
    package = Path(__file__).resolve().parent
    built = package.parents[1] / "build/clave"  # the tool of the checkout, for an editable install
    tool = built if not (package / "clave").exists() and built.exists() else package / "clave"
    try:
        os.execv(tool, ["clave", *sys.argv[1:]])
    except OSError as e:
        print(f"clave: {tool}: {e.strerror}; this package was built without the tool", file=sys.stderr)
    return 1
