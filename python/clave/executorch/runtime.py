"""Registers the backend with ExecuTorch's Python runtime by loading libclave_executorch.so.

$CLAVE_EXECUTORCH_LIBRARY names the library. Otherwise it is one that was built for the installed ExecuTorch, in the
package or in build/ of the checkout. If there is none, it is built.
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
        importlib.import_module("executorch.extension.pybindings.portable_lib")  # loads what ours links to
        return C.CDLL(native.find())
    except (ImportError, OSError) as e:
        raise Error(f"{native.NAME} cannot be loaded: {e}", Code.UNSUPPORTED) from e


def register() -> None:
    """Registers the backend, once per process. Raises Error if there is no library and none can be built, or if
    ExecuTorch refuses it."""
    status = _library().clave_executorch_status()
    if status:
        raise Error(f"ExecuTorch refuses to register ClaveBackend: error {status:#x}", Code.UNSUPPORTED)


def last_error() -> str:
    """Returns the message of the backend's last failure in any thread, "" if there was none. ExecuTorch's own errors
    have only a number."""
    get = _library().clave_executorch_error
    get.restype, get.argtypes = C.c_size_t, [C.c_char_p, C.c_size_t]
    size = get(None, 0)
    text = C.create_string_buffer(size + 1)
    get(text, size + 1)
    return text.value.decode(errors="replace")
