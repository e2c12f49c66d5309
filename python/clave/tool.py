"""The command `clave` of the wheel: the tool that lies in this package, in the place of this process."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> int:
    """Does not return where there is the tool."""
    tool = Path(__file__).resolve().parent / "clave"
    try:
        os.execv(tool, ["clave", *sys.argv[1:]])
    except OSError as e:
        print(f"clave: {tool}: {e.strerror}; this package was built without the tool", file=sys.stderr)
    return 1
