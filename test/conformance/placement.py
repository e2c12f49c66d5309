"""Which ops of a session's program run on the CPU backend though another device was asked for, and why."""

import ctypes as C
from typing import Any

from clave import _library as L

MAX_OPERANDS = 64  # CLAVE_MAX_OPERANDS of clave.h


class NodeInfo(C.Structure):
    """clave_node_info."""

    _fields_ = [
        *((name, C.c_char_p) for name in ("op", "name", "detail")),
        *((name, C.c_uint32) for name in ("n_reads", "n_writes")),
        *((name, C.c_uint32 * MAX_OPERANDS) for name in ("reads", "writes")),
    ]


def fallbacks(session: Any, method: str = "forward") -> dict[str, str]:
    """Name of the source graph's node -> reason."""
    lib = L.library()
    lib.clave_program_node.restype = lib.clave_session_placement.restype = C.c_void_p
    program, m = session.program.handle.pointer, method.encode()
    info, where, reason = NodeInfo(), C.c_char_p(), C.c_char_p()
    methods = L.MethodInfo()
    L.call("clave_program_method", program, 0, C.byref(methods))
    found = {}
    for i in range(methods.n_nodes):
        L.call("clave_session_placement", session._handle.pointer, m, C.c_uint32(i), C.byref(where), C.byref(reason))
        if where.value == b"cpu" and reason.value:
            L.call("clave_program_node", program, m, C.c_uint32(i), C.byref(info))
            found[(info.name or b"").decode()] = reason.value.decode(errors="replace")
    return found
