"""A kernel of a custom op, as its author gives it: see clave.register_op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from clave import arguments

Size = int | Callable[..., Any]


@dataclass(frozen=True)
class Kernel:
    """A kernel in OpenCL C 1.2: one `kernel void` function, with whatever it needs before and behind it.

    Its parameters go by their names: the op's tensors (`global const float *x`), its results (`global float *out`;
    out0, out1, ... of several; or as the schema names them), its numbers (int, long, float, double; bools are int), and
    those of `values` and `local_memory`. A tensor is contiguous, and of the dtype that its type stores: `x_type` is
    that of x, whatever it is (f16: half, bf16: ushort, bool and 8-bit floats: uchar).

    grid: work-items, one number or up to three, innermost first, from sizes: a function of tensors and results by their
    names, `lambda out: out.numel()`. It is rounded up to a multiple of local (at most 256 in all), so a kernel leaves
    out what is beyond. values: further numbers, by name. local_memory: elements of `local float *tile`, by name.
    device: "any", "cpu" or "gpu".
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
