"""A random graph as data: inputs, Python statements over them, outputs.

A statement is a line of Python, so that a graph prints as the code that reproduces it. A graph computes what its lines
compute. Sizes are numbers or symbols; each of the graph's `sizes` has values for the symbols.
"""

import dataclasses
import re
import zlib
from typing import Any

import numpy as np
import torch

F32, F16, BF16, F64 = torch.float32, torch.float16, torch.bfloat16, torch.float64
DTYPES = {
    "F32": F32,
    "F16": F16,
    "BF16": BF16,
    "F64": F64,
    "I8": torch.int8,
    "U8": torch.uint8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "BOOL": torch.bool,
}
SCALAR = "INT"  # the dtype of a Python number, such as a size or step
FLOATS = ("F32", "F16", "BF16", "F64")
NAMES = {d: n for n, d in DTYPES.items()}
WORD = re.compile(r"\b[xs]\d+\b")


@dataclasses.dataclass(frozen=True)
class Input:
    """An argument (x0, x1, ...) or a buffer (s0, ...). values: how it is filled, see fill()."""

    name: str
    dtype: str
    shape: tuple
    values: str = "normal"

    @property
    def is_state(self) -> bool:
        return self.name.startswith("s")


@dataclasses.dataclass(frozen=True)
class Statement:
    """A line of code.

    target: the name that it makes or changes in place. rounds: how far its result may be from the exact one, see
    oracle.py: "no" (moves values), "once" (a step of arithmetic), "sum" (of many terms), "adds" (sums in its own
    dtype), "centred" (sums, minus a mean). exact: names whose values no rounding error may have changed, because the
    result jumps with them.
    """

    code: str
    target: str
    rounds: str = "once"
    exact: tuple = ()

    @property
    def reads(self) -> list[str]:
        text = self.code.split(" = ", 1)[1] if self.makes else self.code
        return list(dict.fromkeys(WORD.findall(text)))

    @property
    def makes(self) -> bool:
        return self.code.startswith(f"{self.target} = ")

    def renamed(self, old: str, new: str) -> "Statement":
        change = lambda text: re.sub(rf"\b{old}\b", new, text)
        if not self.makes:
            return dataclasses.replace(
                self, code=change(self.code), target=change(self.target), exact=tuple(map(change, self.exact))
            )
        left, right = self.code.split(" = ", 1)
        return dataclasses.replace(self, code=f"{left} = {change(right)}", exact=tuple(map(change, self.exact)))


@dataclasses.dataclass(frozen=True)
class Graph:
    seed: int
    inputs: tuple
    statements: tuple
    outputs: tuple
    sizes: tuple  # dicts of symbol: value; the graph is exported with the first
    turn: int | None = None  # number of the pass that is run alone; None: each pass

    @property
    def state(self) -> list[Input]:
        return [i for i in self.inputs if i.is_state]

    @property
    def arguments(self) -> list[Input]:
        return [i for i in self.inputs if not i.is_state]

    def body(self) -> str:
        lines = [f"{s.name} = self.{s.name}" for s in self.state]
        lines += [s.code for s in self.statements]
        return "\n".join([*lines, f"return {', '.join(self.outputs)},"])


def numbers(shape: tuple, sizes: dict) -> tuple:
    return tuple(sizes.get(n, n) for n in shape)


# ---- values

SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1.0, -1.0, 1e-42, -1e-45, 3e38, 65504.0, 6e-8, 2**-14)


def fill(i: Input, shape: tuple, seed: int) -> torch.Tensor:
    """Returns the values of an input. numpy's generator is the same on every machine."""
    rng = np.random.default_rng((seed, zlib.crc32(i.name.encode())))
    n = int(np.prod(shape))
    if i.dtype == SCALAR:
        # not 0 or 1, which torch.export treats as constants
        return torch.tensor(3 if i.values == "ones" else int(rng.integers(2, 6)))
    made = _floats(i.values, n, rng) if i.dtype in FLOATS else _integers(i, n, rng)
    return torch.from_numpy(made).to(DTYPES[i.dtype]).reshape(shape)


def _floats(values: str, n: int, rng: Any) -> np.ndarray:
    if values == "ones":
        return np.ones(n)
    if values == "positive":
        return rng.uniform(0.5, 2, n)
    if values == "wide":
        return rng.choice([-1.0, 1.0], n) * 10 ** rng.uniform(-4, 4, n)
    if values == "few":
        return rng.integers(-3, 4, n).astype(np.float64)
    if values == "distinct":
        return (rng.permutation(n) - n // 2) * 0.5
    if values == "special":
        return np.where(rng.random(n) < 0.5, rng.choice(SPECIAL, n), rng.standard_normal(n))
    return rng.standard_normal(n)


def _integers(i: Input, n: int, rng: Any) -> np.ndarray:
    if i.dtype == "BOOL":
        return rng.random(n) < 0.5
    info = torch.iinfo(DTYPES[i.dtype])
    if i.values == "ones":
        return np.ones(n, np.int64)
    if i.values == "distinct":
        return rng.permutation(n) + (0 if i.dtype == "U8" or n > 127 else -(n // 2))
    if i.values == "positive":
        return rng.integers(1, 10, n)
    if i.values == "few":
        return rng.integers(0 if i.dtype == "U8" else -3, 4, n)
    if i.values in ("special", "wide"):
        edges = np.array([info.min, info.max, 0, 1, info.max - 1, info.min + 1], np.int64)
        return np.where(rng.random(n) < 0.5, rng.choice(edges, n), rng.integers(info.min, info.max, n, np.int64))
    return rng.integers(0 if i.dtype == "U8" else -9, 10, n)


# ---- running


def _cond(condition, then, other, operands):
    return then(*operands) if condition else other(*operands)


def _while_loop(condition, step, carried):
    while condition(*carried):
        carried = step(*carried)
    return carried


def _common() -> dict[str, Any]:
    return {"torch": torch, "F": torch.nn.functional, **DTYPES}


def oracle_names(widen: bool = False) -> dict[str, Any]:
    """Returns the names that statements use when the oracle runs them. widen: in f64. `old` of a source that overlaps
    the target of a copy is its value before, as in exported graphs; in eager torch the order of the copy would show."""
    floats = dict.fromkeys(FLOATS, F64) if widen else {}
    return _common() | floats | {"cond": _cond, "while_loop": _while_loop, "old": torch.clone}


def export_names() -> dict[str, Any]:
    from torch._higher_order_ops.while_loop import while_loop

    return _common() | {"cond": torch.cond, "while_loop": while_loop, "old": lambda x: x}


class Module(torch.nn.Module):
    """A graph as an exportable module."""

    def __init__(self, graph: Graph, state: dict[str, torch.Tensor]):
        super().__init__()
        for name, value in state.items():
            self.register_buffer(name, value.clone())
        names = ", ".join(["self", *(a.name for a in graph.arguments)])
        body = "\n".join(f"    {line}" for line in graph.body().splitlines())
        made: dict[str, Any] = export_names()
        exec(f"def run({names}):\n{body}", made)
        self.body = made["run"]

    def forward(self, *args):
        return self.body(self, *args)


def prune(graph: Graph) -> Graph:
    """Removes statements on which no output or state depends. In-place changes count for all names that may alias."""
    needed = set(graph.outputs) | {s.name for s in graph.state}
    kept: list[Statement] = []
    related = relations(graph)
    for s in reversed(graph.statements):
        if s.target in needed or (not s.makes and related[s.target] & needed):
            kept.append(s)
            needed |= {s.target, *s.reads}
    inputs = tuple(i for i in graph.inputs if i.name in needed)
    return dataclasses.replace(graph, statements=tuple(reversed(kept)), inputs=inputs)


def relations(graph: Graph) -> dict[str, set[str]]:
    """Returns for each name the names that may share its memory, because one is made from the other."""
    group: dict[str, set[str]] = {i.name: {i.name} for i in graph.inputs}
    for s in graph.statements:
        if s.makes:
            joined = {s.target}.union(*(group[n] for n in s.reads)) if s.rounds == "no" else {s.target}
            for n in joined:
                group[n] = joined
    return group


def describe(graph: Graph, arguments: bool = True) -> str:
    """Returns the graph as Python code that runs alone."""
    lines = ["import torch", "F = torch.nn.functional"]
    text = graph.body()
    lines += [f"{n} = {d}" for n, d in DTYPES.items() if re.search(rf"\b{n}\b", text)]
    if "old(" in text:
        lines.append("old = lambda x: x  # a source that overlaps its target: read before the write")
    if "cond(" in text:
        lines.append("cond = torch.cond")
    if "while_loop(" in text:
        lines.append("from torch._higher_order_ops.while_loop import while_loop")
    lines += ["", "class Minimal(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
    for s in graph.state:
        lines.append(f"        self.register_buffer({s.name!r}, torch.zeros({s.shape}, dtype={DTYPES[s.dtype]}))")
    names = ", ".join(["self", *(a.name for a in graph.arguments)])
    lines += ["", f"    def forward({names}):", *(f"        {line}" for line in text.splitlines()), ""]
    for i in graph.inputs if arguments else ():
        dtype = "a whole number" if i.dtype == SCALAR else f"{NAMES[DTYPES[i.dtype]].lower()}{list(i.shape)}"
        lines.append(f"# {i.name}: {dtype} of {i.values} values")
    lines += [f"# sizes: {s}" for s in graph.sizes if s]
    return "\n".join(lines)
