"""The backend in ExecuTorch's Python runtime: libclave_executorch.so, which registers it when it is loaded.

It is the one that $CLAVE_EXECUTORCH_LIBRARY names; else one that was built for this ExecuTorch, in the package or in
build/ of the checkout; else it is built.
"""

from __future__ import annotations

import ctypes as C
import functools
import importlib

from clave.errors import Code, Error
from clave.executorch import native


@functools.cache
def _library() -> C.CDLL:
    try:
        importlib.import_module("executorch.extension.pybindings.portable_lib")  # brings what ours is linked with
        return C.CDLL(native.find())
    except (ImportError, OSError) as e:
        raise Error(f"{native.NAME} cannot be loaded: {e}", Code.UNSUPPORTED) from e


def register() -> None:
    """Once a process. Error: there is no library and none can be built, or ExecuTorch does not take it."""
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
