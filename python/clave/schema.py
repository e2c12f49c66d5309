"""The schema's dataclasses (`schema.Program`, `schema.Conv`, ...), generated from serialize/schema.fbs."""

from __future__ import annotations

from pathlib import Path

from clave._generate import generate

generate(Path(__file__).parents[2], Path(__file__).parent / "_generated")

from clave._generated.schema import *  # noqa: E402, F403
from clave._generated.schema import MOVES, OPS, SINCE, TABLES  # noqa: E402

__all__ = ["MOVES", "OPS", "SINCE", "TABLES"]
