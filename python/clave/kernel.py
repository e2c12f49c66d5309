"""A kernel of a custom op, as its author describes it to clave.register_op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clave import arguments

Size = int | Callable[..., Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel in OpenCL C 1.2: the source of one `kernel void` function, and of all that it needs.

    Its parameters are matched by name:

    - tensors of the op, such as `global const float *x`;
    - results, such as `global float *out`, or out0, out1, ... if there are several, or the names in the schema;
    - numbers of the op: int, long, float or double; a bool is an int;
    - the names in `values` and `local_memory`.

    A tensor is contiguous. Its element type must store the tensor's dtype; `x_type` is the element type of x (f16:
    half, bf16: ushort, bool and 8-bit floats: uchar).

    grid: number of work-items, one to three numbers, innermost first, or a function that computes them from tensors and
    results by name, such as `lambda out: out.numel()`. It is rounded up to a multiple of local (at most 256 work-items
    in total), so the kernel must ignore the work-items beyond it. values: further numbers by name. local_memory: number
    of elements of each `local float *tile` by name. device: "any", "cpu" or "gpu".

    Raises Error for an argument of a wrong type.
    """

    source: str
    grid: Size | tuple[int, ...]
    local: int | tuple[int, ...] = 64
    values: Mapping[str, Any] = field(default_factory=dict)
    local_memory: Mapping[str, Size] = field(default_factory=dict)
    device: str = "any"

    def __post_init__(self) -> None:
        arguments.text("source", self.source, "OpenCL C as a str")
        grid = self.grid if isinstance(self.grid, tuple | list) else (self.grid,)
        for size in grid:
            _check_size("grid", size)
        local = self.local if isinstance(self.local, tuple | list) else (self.local,)
        for n in local:
            arguments.integer("local", n, -(2**31), 2**31 - 1)
        for name in ("values", "local_memory"):
            if not isinstance(getattr(self, name), Mapping):
                raise arguments.refused(name, "a dict by name", getattr(self, name))
        for size in self.local_memory.values():
            _check_size("local_memory", size)
        arguments.text("device", self.device)


def _check_size(name: str, size: Any) -> None:
    if not callable(size):
        arguments.integer(name, size, -(2**63), 2**63 - 1)
