"""The backend in ExecuTorch's Python runtime: libclave_executorch.so, which registers it when it is loaded.

Looked for in $CLAVE_EXECUTORCH_LIBRARY (nowhere else if that is set), in the package, and in build/ of the checkout.
"""

from __future__ import annotations

import ctypes as C
import functools
import importlib
import os
from pathlib import Path

from clave.errors import Code, Error

_NAME = "libclave_executorch.so"


def _path() -> Path:
    named = os.environ.get("CLAVE_EXECUTORCH_LIBRARY")
    package = Path(__file__).resolve().parents[1]
    places = [Path(named)] if named else [package / _NAME, package.parents[1] / "build" / _NAME]
    found = next((p for p in places if p.exists()), None)
    if found is None:
        hint = "" if named else ": `make executorch` builds it in a checkout"
        raise Error(f"there is no {' nor '.join(map(str, places))}{hint}", Code.UNSUPPORTED)
    return found


@functools.cache
def _library() -> C.CDLL:
    importlib.import_module(
        "executorch.extension.pybindings.portable_lib"
    )  # brings the libraries that ours is linked with
    try:
        return C.CDLL(str(_path()))
    except OSError as e:
        raise Error(f"{_NAME} was built for another ExecuTorch: {e}", Code.UNSUPPORTED) from e


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
