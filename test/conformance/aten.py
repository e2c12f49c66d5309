"""Lists the ATen ops that clave is to run and how the exporter handles each, for docs/reference/coverage.md."""

import functools
import pathlib

import torch

from clave import quantized, trace
from clave.lowering import LOWERINGS
from clave.lowering.registry import COMPLEX

LISTED = pathlib.Path(__file__).with_name("aten.txt")

# Core and listed ops that are not run, with the reasons.
LEFT_OUT = {
    "aten.atan2.out": "writes into an operand; atan2.default is the op of a functional graph",
    "aten.resize_.default": "changes the shape of its operand in place",
}


def is_core(op: torch._ops.OpOverload) -> bool:
    return torch.Tag.core in op.tags


@functools.cache
def core_ops() -> frozenset[str]:
    """Returns every overload tagged core."""
    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        space, _, rest = name.partition("::")
        op = overload(f"{space}.{rest}" if "." in rest else f"{space}.{rest}.default") if space == "aten" else None
        if op is not None and is_core(op):
            found.add(trace.op_name(op))
    return frozenset(found)


def overload(name: str) -> torch._ops.OpOverload | None:
    """Returns the overload of a name such as "aten.add.Tensor"."""
    parts = name.split(".")
    packet = getattr(getattr(torch.ops, parts[0], None), parts[1], None) if len(parts) == 3 else None
    return getattr(packet, parts[2], None) if packet is not None else None


def listed_ops() -> list[str]:
    """Returns the ops of aten.txt."""
    return [line.split("\t")[0] for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]


def rows() -> list[str]:
    """Returns the ops of the table: core ones, listed ones and all that have a lowering."""
    lowered = (name for name in LOWERINGS if name.startswith("aten."))
    return sorted({*core_ops(), *listed_ops(), *lowered} - {"aten.item.default"})


_decompositions = functools.cache(trace.decompositions)


def exporter(name: str) -> str:
    """Returns how the exporter handles an op: lowered, decomposed, sizes, or the reason why not."""
    if name in LOWERINGS:
        return "lowered"
    if name in COMPLEX:
        return "lowered, as pairs of real numbers"
    if name in LEFT_OUT:
        return f"no: {LEFT_OUT[name]}"
    if "backward" in name:
        return "no: backward"
    op = overload(name)
    if name.split(".")[1].startswith("sym_"):
        return "sizes"
    if op is None:
        return "no: torch has no such op"
    if op._schema.is_mutable:
        return "decomposed"  # torch.export decomposes it, because its graphs are functional
    composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    written = composite or op in _decompositions() or op in quantized.decompositions([op])
    return "decomposed" if written else "no: no lowering"
