"""Programs of models in other formats, by the importers of the C library."""

from __future__ import annotations

import os
from typing import Any

from clave import arguments
from clave.program import Program, load_bytes


def from_model(model: Any, kind: str) -> Program:
    """Imports a model: a path, bytes, or a message of protobuf. kind: the format's name, for messages."""
    if hasattr(model, "SerializeToString"):
        model = model.SerializeToString()
    if isinstance(model, bytes | bytearray | memoryview):
        return load_bytes(bytes(model), f"the {kind} model")
    if isinstance(model, str | os.PathLike):
        arguments.path("model", model)
        return Program.load(model)
    raise arguments.refused("model", f"a path or an {kind} model", model)
