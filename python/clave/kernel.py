"""A kernel of a custom op, as its author gives it: see clave.register_op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

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
