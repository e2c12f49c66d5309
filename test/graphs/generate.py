"""Makes a graph from a seed: inputs, then statements one after another, each tried in torch with every size."""

import dataclasses
import random
from typing import Any

import forms
import torch
from graph import FLOATS, NAMES, SCALAR, Graph, Input, Statement, numbers, oracle_names
from oracle import values_of
from sizes import draw

import ops

MOST = 20_000  # elements of a value
TRIES = 200
FLOAT_VALUES = ("normal",) * 5 + ("positive", "wide", "few", "distinct", "special")
INT_VALUES = ("normal", "normal", "few", "distinct", "positive", "special")


class Builder:
    """A graph under construction, with the values of every name at each of its sizes."""

    def __init__(self, seed: int):
        self.seed = seed
        self.rng = random.Random(seed)
        self.dynamic = self.rng.random() < 0.6
        self.of_memory = self.rng.random() < 0.25
        self.of_forms = random.Random(f"forms {seed}").random() < 0.25
        self.sizes = self._sizes()
        self.inputs: list[Input] = []
        self.statements: list[Statement] = []
        self.count = 0
        self.inexact: set[str] = set()
        self.envs: list[dict[str, Any]] = [oracle_names() for _ in self.sizes]
        self.main = self.rng.choice(("F32",) * 5 + ("F16", "BF16", "F64", "I32", "I64"))

    # ---- sizes and inputs

    def _sizes(self) -> list[dict[str, int]]:
        """Returns sets of sizes for the symbols a and b: a varies widely, b stays small in half of them."""
        if not self.dynamic:
            return [{}, {}]  # two sets of values
        made: list[dict[str, int]] = []
        first = {"a": 0, "b": 0}
        while first["a"] == first["b"]:
            first = {"a": draw(self.rng, 70, 3), "b": draw(self.rng, 40, 3)}
        made.append(first)
        for k in range(5):
            wide = 17 if self.of_forms else self.rng.choice((40, 300, 3000))
            one = {"a": draw(self.rng, wide, 2), "b": draw(self.rng, 17 if self.of_forms else max(4, 6000 // wide), 2)}
            made.append(dict(zip("ab", reversed(one.values()), strict=True)) if k % 2 else one)
        return made

    def dim(self, most: int = 300) -> Any:
        if self.dynamic and self.rng.random() < 0.6:
            return self.rng.choice("ab")
        if self.rng.random() < 0.06:
            return self.rng.choice((0, 1, 1))
        return draw(self.rng, most if not self.dynamic else 17, 2)

    def shape(self) -> tuple:
        rank = self.rng.choice((1, 2, 2, 2, 3, 3, 4))
        return tuple(self.dim((300, 140, 20, 9)[rank - 1]) for _ in range(rank))

    def add_input(self, dtype: str, shape: tuple, values: str = "", state: bool = False) -> str | None:
        n = len([i for i in self.inputs if i.is_state == state])
        kinds = FLOAT_VALUES if dtype in FLOATS else INT_VALUES
        new = Input(f"s{n}" if state else f"x{self.count}", dtype, shape, values or self.rng.choice(kinds))
        for s in self.sizes:
            if torch.Size(numbers(shape, s)).numel() > MOST:
                return None
        for env, values in zip(self.envs, self.values([new]), strict=True):
            env.update(values)
        self.count += not state
        self.inputs.append(new)
        return new.name

    def values(self, inputs: list[Input]) -> list[dict[str, Any]]:
        """Returns the values for each of the sizes, as execute.py makes them."""
        return [values_of(inputs, s, self.seed + k) for k, s in enumerate(self.sizes)]

    # ---- choosing operands

    def names(self) -> list[str]:
        return [*(i.name for i in self.inputs if i.dtype != SCALAR), *(s.target for s in self.statements if s.makes)]

    def value(self, name: str, k: int = 0) -> torch.Tensor:
        return self.envs[k][name]

    def pick(self, test: Any = lambda t: True) -> str | None:
        """Returns a name whose first value passes; later names are likelier, so that graphs grow deep."""
        found = [n for n in self.names() if test(self.value(n))]
        if not found:
            return None
        i = max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))
        return found[i]

    def pick_own(self, test: Any) -> str | None:
        """Returns a name of memory that may be changed: not an argument's."""
        owned = {n for n in self.names() if not self.is_input_memory(n)}
        found = [n for n in self.names() if n in owned and test(self.value(n))]
        return self.rng.choice(found) if found else None

    def shape_of(self, name: str) -> tuple:
        """Returns the shape in symbols, as far as they distinguish the sizes."""
        return tuple(
            self._symbol([int(env[name].shape[i]) for env in self.envs]) for i in range(self.value(name).dim())
        )

    def _symbol(self, each: list[int]) -> Any:
        if len(set(each)) == 1:
            return each[0]
        return next((s for s in ("a", "b") if each == [sizes.get(s) for sizes in self.sizes]), None)

    def like(self, name: str, dtype: str = "") -> str | None:
        """Returns another value of the same shape, or a new input with that shape."""
        want = [env[name].shape for env in self.envs]
        dtype = dtype or NAMES[self.value(name).dtype]
        found = [
            n
            for n in self.names()
            if n != name and NAMES[self.value(n).dtype] == dtype and [e[n].shape for e in self.envs] == want
        ]
        if found and self.rng.random() < 0.7:
            return self.rng.choice(found)
        shape = self.shape_of(name)
        return None if None in shape else self.add_input(dtype, shape)

    def scalar(self) -> str | None:
        found = [i.name for i in self.inputs if i.dtype == SCALAR]
        return self.rng.choice(found) if found and self.rng.random() < 0.7 else self.add_input(SCALAR, (), "few")

    def is_input_memory(self, name: str) -> bool:
        mine = self.value(name).untyped_storage().data_ptr()
        return any(
            self.value(i.name).untyped_storage().data_ptr() == mine
            for i in self.inputs
            if not i.is_state and i.dtype != SCALAR
        )

    # ---- growing

    def new_name(self) -> str:
        return f"x{self.count}"

    def try_statement(self, s: Statement) -> bool:
        """Runs a statement at all sizes, and keeps it if torch accepts it and its values are useful."""
        if self.inexact.intersection(s.exact):
            return False
        mark = [dict(env) for env in self.envs]
        try:
            for env in self.envs:
                exec(s.code, env)
                if not isinstance(env[s.target], torch.Tensor) or not useful(env[s.target]):
                    raise ValueError
            if not alike([env[s.target] for env in self.envs]):
                raise ValueError
        except Exception:
            self.envs = mark
            if not s.makes:
                self.replay()
            return False
        self.statements.append(s)
        self.count += s.makes
        self.note_rounding(s)
        return True

    def note_rounding(self, s: Statement) -> None:
        """Marks names that a rounding error may have changed, also through memory shared with an in-place change."""
        if not self.value(s.target).is_floating_point():
            return
        if s.rounds == "no" and not self.inexact.intersection(s.reads):
            return
        mine = self.value(s.target).untyped_storage().data_ptr()
        self.inexact |= {n for n in self.names() if self.value(n).untyped_storage().data_ptr() == mine}

    def replay(self) -> None:
        self.envs = [oracle_names() | values for values in self.values(self.inputs)]
        for s in self.statements:
            for env in self.envs:
                exec(s.code, env)

    def grow(self, n: int) -> None:
        for _ in range(TRIES):
            if len(self.statements) >= n:
                return
            make = self.rng.choices(*ops.table(self.of_memory), k=1)[0]
            made = make(self)
            if made is not None:
                self.try_statement(made)


def alike(each: list[torch.Tensor]) -> bool:
    """True if rank and dtype are the same at all sizes. Squeeze of a size that is sometimes 1 changes the rank."""
    return len({(x.dim(), x.dtype) for x in each}) == 1


def useful(x: torch.Tensor) -> bool:
    """True unless the value is too large, or all NaN or infinite."""
    if x.numel() > 4 * MOST or x.dim() > 6 or NAMES.get(x.dtype) is None:
        return False
    return not x.is_floating_point() or not x.numel() or bool(x.isfinite().double().mean() > 0.3)


def make_graph(seed: int) -> Graph:
    b = Builder(seed)
    for _ in range(b.rng.choice((1, 2, 2, 3))):
        other = b.rng.choice((*FLOATS, "I8", "U8", "I16", "I32", "I64", "BOOL"))
        b.add_input(b.main if b.rng.random() < 0.75 else other, b.shape())
    if b.rng.random() < 0.25:
        b.add_input(b.main, tuple(draw(b.rng, 40) for _ in range(b.rng.choice((1, 2, 2)))), state=True)
    if not b.inputs:
        b.add_input("F32", (5, 6))
    if b.of_forms:
        for _ in range(b.rng.choice((1, 1, 2))):
            forms.add(b)
    b.grow(b.rng.choice((0, 0, 2, 4)) + len(b.statements) if b.of_forms else b.rng.choice((2, 4, 6, 8, 10, 12, 16)))
    used = {n for s in b.statements for n in s.reads}
    ends = [s.target for s in b.statements if s.makes and s.target not in used]
    middle = [s.target for s in b.statements if s.makes and s.target in used and b.rng.random() < 0.2]
    outputs = tuple(dict.fromkeys([*ends[-4:], *middle[:2]])) or tuple(i.name for i in b.inputs[:1])
    inputs = [i for i in b.inputs if not i.is_state] or [Input("x999", "F32", (2,))]
    inputs += [i for i in b.inputs if i.is_state]
    graph = Graph(seed, tuple(inputs), tuple(b.statements), outputs, tuple(b.sizes), seed)
    used = {n for s in b.statements for n in s.reads} | set(outputs)
    return dataclasses.replace(graph, inputs=tuple(i for i in inputs if i.name in used or i.is_state or i == inputs[0]))
