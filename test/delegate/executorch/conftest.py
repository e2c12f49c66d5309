"""Uses the checkout's own package, and quicker exports, as in test/python."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "test"), str(Path(__file__).parent)]
os.environ.setdefault("CLAVE_DEVICE", "cpu")

import quick_export

quick_export.speed_up_export()
