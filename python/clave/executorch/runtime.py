"""The backend in ExecuTorch's Python runtime: libclave_executorch.so, which registers it when it is loaded.

Looked for in $CLAVE_EXECUTORCH_LIBRARY (nowhere else if that is set), in the package, in build/ of the checkout, then
where the system's loader looks.
"""

from __future__ import annotations

import ctypes as C
import functools
import importlib
import os
from pathlib import Path

from clave.errors import Code, Error

_NAME = "libclave_executorch.so"


def _path() -> str:
    named = os.environ.get("CLAVE_EXECUTORCH_LIBRARY")
    package = Path(__file__).resolve().parents[1]
    near = [package / _NAME, package.parents[1] / "build" / _NAME]
    return named or next((str(p) for p in near if p.exists()), _NAME)


@functools.cache
def _library() -> C.CDLL:
    try:
        importlib.import_module("executorch.extension.pybindings.portable_lib")  # brings what ours is linked with
        return C.CDLL(_path())
    except (ImportError, OSError) as e:
        wanted = "`make executorch` builds it in a checkout; CLAVE_EXECUTORCH_LIBRARY names one elsewhere"
        raise Error(f"{_NAME} cannot be loaded ({e}): {wanted}", Code.UNSUPPORTED) from e


def register() -> None:
    """Once a process. Error: there is no library, or ExecuTorch does not take it."""
    status = _library().clave_executorch_status()
    if status:
        raise Error(f"ExecuTorch does not register ClaveBackend: its error {status:#x}", Code.UNSUPPORTED)


def last_error() -> str:
    """What the backend said when it last failed, in any thread: ExecuTorch's own errors have but a number. "" if
    nothing has."""
    get = _library().clave_executorch_error
    get.restype, get.argtypes = C.c_size_t, [C.c_char_p, C.c_size_t]
    size = get(None, 0)
    text = C.create_string_buffer(size + 1)
    get(text, size + 1)
    return text.value.decode(errors="replace")
