"""Makes a failing graph small: removes outputs, statements, sizes and values while it still fails alike."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

from graph import NAMES, Graph, Input, numbers, prune
from oracle import Unfit, run_plain, values_of

BUDGET = 150  # seconds


def with_statements(g: Graph, statements: Any) -> Graph:
    return dataclasses.replace(g, statements=tuple(statements))


def fewer_outputs(g: Graph) -> Iterator[Graph]:
    if len(g.outputs) > 1:
        for o in g.outputs:
            yield dataclasses.replace(g, outputs=(o,))
        for o in g.outputs:
            yield dataclasses.replace(g, outputs=tuple(p for p in g.outputs if p != o))


def earlier_output(g: Graph) -> Iterator[Graph]:
    """Replaces the output of the last statement by an operand of it."""
    for s in g.statements:
        if s.makes and s.target in g.outputs:
            for n in s.reads:
                yield dataclasses.replace(g, outputs=tuple(n if o == s.target else o for o in g.outputs))


def fewer_statements(g: Graph) -> Iterator[Graph]:
    """Removes a statement; its operand replaces its result."""
    for i, s in enumerate(g.statements):
        rest = g.statements[:i] + g.statements[i + 1 :]
        if not s.makes:
            yield with_statements(g, rest)
            continue
        for n in s.reads:
            yield dataclasses.replace(
                with_statements(g, [t.renamed(s.target, n) for t in rest]),
                outputs=tuple(dict.fromkeys(n if o == s.target else o for o in g.outputs)),
            )


def inputs_for_statements(g: Graph) -> Iterator[Graph]:
    """Replaces a statement by an input, if the shape is known."""
    try:
        envs = [run_plain(g, values_of(list(g.inputs), s, g.seed + k))[0] for k, s in enumerate(g.sizes)]
    except Unfit:
        return
    for i, s in enumerate(g.statements):
        if not s.makes:
            continue
        each = [env[s.target] for env in envs]
        if len({t.dim() for t in each}) > 1:
            continue
        shape = tuple(_symbol(g, [int(t.shape[d]) for t in each]) for d in range(each[0].dim()))
        if None not in shape:
            new = Input(s.target, NAMES[each[0].dtype], shape)
            rest = with_statements(g, g.statements[:i] + g.statements[i + 1 :])
            yield dataclasses.replace(rest, inputs=(*(a for a in g.inputs if not a.is_state), new, *g.state))


def _symbol(g: Graph, each: list[int]) -> Any:
    if len(set(each)) == 1:
        return each[0]
    return next((k for k in g.sizes[0] if each == [s[k] for s in g.sizes]), None)


def fewer_sizes(g: Graph) -> Iterator[Graph]:
    if len(g.sizes) > 1:
        for k, s in enumerate(g.sizes):
            yield dataclasses.replace(g, sizes=(s,), seed=g.seed + k)
        for k in range(len(g.sizes)):
            yield dataclasses.replace(g, sizes=g.sizes[:k] + g.sizes[k + 1 :])
    if len(g.sizes) == 1 and g.sizes[0]:  # numbers instead of symbols
        fixed = tuple(dataclasses.replace(i, shape=numbers(i.shape, g.sizes[0])) for i in g.inputs)
        yield dataclasses.replace(g, inputs=fixed, sizes=({},))


def smaller(n: int) -> list[int]:
    return sorted({m for m in (1, 2, 3, n // 2, n - 1) if 0 < m < n})


def smaller_sizes(g: Graph) -> Iterator[Graph]:
    """Shrinks all equal numbers of the inputs' shapes at once, then each alone, then the values of symbols."""
    found = {n for i in g.inputs for n in i.shape if isinstance(n, int) and n > 1}
    for n in sorted(found, reverse=True):
        for m in smaller(n):
            inputs = tuple(dataclasses.replace(i, shape=tuple(m if k == n else k for k in i.shape)) for i in g.inputs)
            yield dataclasses.replace(g, inputs=inputs)
    for j, i in enumerate(g.inputs):
        for d, n in enumerate(i.shape):
            for m in smaller(n) if isinstance(n, int) else ():
                one = dataclasses.replace(i, shape=(*i.shape[:d], m, *i.shape[d + 1 :]))
                yield dataclasses.replace(g, inputs=(*g.inputs[:j], one, *g.inputs[j + 1 :]))
    for j, s in enumerate(g.sizes):
        for k, n in s.items():
            for m in smaller(n):
                yield dataclasses.replace(g, sizes=(*g.sizes[:j], s | {k: m}, *g.sizes[j + 1 :]))


def simpler_values(g: Graph) -> Iterator[Graph]:
    for j, i in enumerate(g.inputs):
        kinds = ("ones", "few", "normal")
        for values in kinds[: kinds.index(i.values)] if i.values in kinds else kinds:
            yield dataclasses.replace(
                g, inputs=(*g.inputs[:j], dataclasses.replace(i, values=values), *g.inputs[j + 1 :])
            )
        if i.dtype != "F32" and i.dtype in ("F16", "BF16", "F64"):
            yield dataclasses.replace(
                g, inputs=(*g.inputs[:j], dataclasses.replace(i, dtype="F32"), *g.inputs[j + 1 :])
            )


PASSES = (
    fewer_outputs,
    fewer_sizes,
    earlier_output,
    inputs_for_statements,
    fewer_statements,
    smaller_sizes,
    simpler_values,
)


def shrink(graph: Graph, fails: Callable[[Graph], bool]) -> Graph:
    """Returns the smallest graph found that `fails`; the given graph must fail."""
    end = time.monotonic() + BUDGET
    seen = {repr(graph)}
    best = graph
    improved = True
    while improved:
        improved = False
        for candidates in PASSES:
            smaller_one: Any = best
            while smaller_one is not None:
                smaller_one = _first(candidates(best), fails, seen, end)
                if smaller_one is not None:
                    best, improved = smaller_one, True
    return best


def _first(candidates: Iterator[Graph], fails: Callable[[Graph], bool], seen: set, end: float) -> Graph | None:
    for c in candidates:
        c = prune(c)
        if not any(not i.is_state for i in c.inputs):
            c = dataclasses.replace(c, inputs=(Input("x999", "F32", (1,)), *c.inputs))
        if repr(c) in seen:
            continue
        seen.add(repr(c))
        if time.monotonic() > end:
            return None
        if fails(c):
            return c
    return None
