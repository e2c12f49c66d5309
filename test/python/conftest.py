"""Uses the checkout's own package and library, wherever pytest starts; makes torch.export quicker than for users."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test")]
if os.environ.get("CLAVE_BUILD"):
    os.environ.setdefault("CLAVE_LIBRARY", str(Path(os.environ["CLAVE_BUILD"]).resolve() / "libclave.so"))

import quick_export

quick_export.speed_up_export()
