"""Summarises a program: ops by kind, sizes in memory, passes that applied, and the largest error of verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from clave import schema
from clave.builder import VIEWS
from clave.dtypes import NUMPY


@dataclass(frozen=True)
class MethodReport:
    """One method. ops: number of ops of each kind, including those of bodies. memory: the most bytes that temporaries
    and outputs need at once, at the upper bounds of sizes; None if a size has no upper bound. error: the largest
    difference that verification found, divided by the largest magnitude of its tensor; None if the method was not
    verified.
    """

    name: str
    ops: dict[str, int]
    memory: int | None
    error: float | None = None
    unbounded: str | None = None  # the first size without an upper bound, or its op


@dataclass(frozen=True)
class Report:
    """The summary. Its str() is a table. parameters: elements of all constants. passes: see Program.passes."""

    methods: list[MethodReport]
    parameters: int
    constant_bytes: int
    state_bytes: int
    passes: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, program: schema.Program, constant_bytes: int, passes: dict[str, int], errors: dict[str, float]
    ) -> Report:
        n_constants, n_arguments = len(program.constants), program.n_inputs + program.n_outputs
        constants = program.tensors[:n_constants]
        first_state = n_constants + n_arguments
        state = program.tensors[first_state : first_state + program.n_state]
        methods = [
            MethodReport(m.name, _ops(program, m.chain), _peak(program, m), errors.get(m.name), _unbounded(program, m))
            for m in program.methods
        ]
        count = sum(_elements(program, t) or 0 for t in constants)
        return cls(methods, count, constant_bytes, sum(_bytes(program, t) or 0 for t in state), passes)

    def __str__(self) -> str:
        rows = [
            ("parameters", f"{self.parameters:,}"),
            ("constants", _size(self.constant_bytes)),
            ("state", _size(self.state_bytes)),
            ("rewritten", _counts(self.passes)),
        ]
        for m in self.methods:
            rows += [
                ("method", m.name),
                ("ops", f"{sum(m.ops.values())}: {_counts(m.ops)}"),
                (
                    "memory",
                    f"unbounded: {m.unbounded} has no upper bound"
                    if m.memory is None
                    else f"temporaries and outputs at most {_size(m.memory)}",
                ),
            ]
            rows += [] if m.error is None else [("error", f"at most {m.error:.2g} of the largest magnitude")]
        return "\n".join(f"{name:<12}{value}" for name, value in rows)


def _counts(counts: dict[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda kn: (-kn[1], kn[0]))
    return ", ".join(f"{name} {n}" for name, n in ordered) or "nothing"


def _size(n: int) -> str:
    """Returns a size as the command line tool writes it."""
    value, unit = float(n), "bytes"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < (1000 if unit == "bytes" else 999.95):
            break
        value, unit = value / 1000, larger
    return f"{n} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


# ---------------------------------------------------------------- placement


def _chain(program: schema.Program, index: int) -> Iterator[schema.Instruction]:
    """Yields the instructions of a chain, each followed by those of its bodies."""
    for instruction in program.chains[index].instructions:
        yield instruction
        for f in schema.TABLES[type(instruction.op)]:
            if f.kind == "U32" and f.name.endswith("chain"):
                yield from _chain(program, getattr(instruction.op, f.name))


def _ops(program: schema.Program, chain: int) -> dict[str, int]:
    return dict(Counter(type(i.op).__name__ for i in _chain(program, chain)))


# ---------------------------------------------------------------- memory


def _elements(program: schema.Program, t: schema.Tensor) -> int | None:
    """Returns the number of elements at the upper bounds of sizes, or None if a size has no upper bound."""
    n = 1
    for d in t.shape:
        size = d.literal if d.vid is None else program.values[d.vid.idx].max
        if size is None:
            return None
        n *= size
    return n


def _bytes(program: schema.Program, t: schema.Tensor) -> int | None:
    n = _elements(program, t)
    return None if n is None else n * NUMPY[t.dtype].itemsize


def _unbounded(program: schema.Program, method: schema.Method) -> str | None:
    for instruction in _chain(program, method.chain):
        for t in _touched(instruction)[1]:
            for d in program.tensors[t].shape:
                if d.vid is not None and program.values[d.vid.idx].max is None:
                    return program.values[d.vid.idx].name or instruction.name or type(instruction.op).__name__
    return None


def _touched(instruction: schema.Instruction) -> tuple[list[int], list[int]]:
    """Returns the tensors that an instruction reads, and those that it writes."""
    reads: list[int] = []
    writes: list[int] = []
    for f in schema.TABLES[type(instruction.op)]:
        value = getattr(instruction.op, f.name)
        if f.kind in ("TID", "TIDS") and value is not None:
            (writes if f.out else reads).extend(t.idx for t in (value if f.kind == "TIDS" else [value]))
    return reads, writes


class _Lifetimes:
    """The storages of a method's tensors. owner: for each tensor, the tensor that owns its storage. last: for each
    owner, the last step that reads or writes its storage."""

    def __init__(self, program: schema.Program, method: schema.Method) -> None:
        self.steps = [(type(i.op).__name__, *_touched(i)) for i in _chain(program, method.chain)]
        self.owner, self.last = list(range(len(program.tensors))), [0] * len(program.tensors)
        for i, (op, reads, writes) in enumerate(self.steps):
            if op in VIEWS and reads and writes:
                self.owner[writes[0]] = self.owner[reads[0]]
            for t in (*reads, *writes):
                self.last[self.owner[t]] = i
        for a in method.outputs:
            if a.tensor is not None:
                self.last[self.owner[a.tensor.idx]] = len(self.steps)


def _peak(program: schema.Program, method: schema.Method) -> int | None:
    """Returns the most bytes that are alive at once, as `clave inspect` counts them: each tensor from the op that
    writes it to the last op that uses it."""
    first_output = len(program.constants) + program.n_inputs
    first_state, first_temp = first_output + program.n_outputs, first_output + program.n_outputs + program.n_state
    lives = _Lifetimes(program, method)
    freed = [0] * (len(lives.steps) + 1)
    alive = peak = 0
    for i, (_, _, writes) in enumerate(lives.steps):
        for t in writes:
            if lives.owner[t] != t or not (first_output <= t < first_state or t >= first_temp):
                continue
            size = _bytes(program, program.tensors[t])
            if size is None:
                return None
            alive, freed[lives.last[t]] = alive + size, freed[lives.last[t]] + size
        peak = max(peak, alive)
        alive -= freed[i]
    return peak
