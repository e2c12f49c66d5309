"""clave runs exported PyTorch models on any OpenCL device, or on the CPU.

program = clave.export(module, args); program.save("model.clv")
session = clave.Session("model.clv", device="opencl"); outputs = session.run(x)

Running needs numpy and ml_dtypes; exporting needs torch and flatbuffers too (pip install clave[export]).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from clave.errors import Code, Error, UnsupportedOp
from clave.program import Program
from clave.session import Device, Session, devices
from clave.tokenizer import Tokenizer

__version__ = "0.1.0"
__all__ = ["Code", "Device", "Error", "Program", "Session", "Tokenizer", "UnsupportedOp", "devices", "export", "load"]


def load(path: str | os.PathLike[str]) -> Program:
    """A program file: .clv, or .json with consts.safetensors beside it."""
    return Program.load(path)


def export(
    module: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    dynamic_shapes: Any = None,
    quantize: Any = None,
    *,
    strict: bool | None = None,
    verify: bool = False,
    passes: Iterable[str] | None = None,
) -> Program:
    """A program of a torch module in eval mode: see clave.exporter.export, which this imports (and torch) now."""
    try:
        from clave import exporter
    except ModuleNotFoundError as e:
        raise Error(f"clave.export needs {e.name}: pip install 'clave[export]'", Code.UNSUPPORTED) from e
    return exporter.export(module, args, kwargs, dynamic_shapes, quantize, strict=strict, verify=verify, passes=passes)
