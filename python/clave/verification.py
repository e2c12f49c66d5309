"""Compares a program on the CPU backend with its module in eager mode, and finds the first node that differs."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from clave import _tensors
from clave.errors import Code, Error
from clave.places import Origins, name_of, nodes_of
from clave.private import pytree, schema_of
from clave.program import Program
from clave.session import Session
from clave.shared import data_of, is_state_update
from clave.trace import CONDITIONS


class _Session(Session):
    """A session that ends before the export returns, so it reads the module's weights in place."""

    def _take_weights(self) -> None:
        self.program.check_unchanged()


# Allowed difference, divided by the largest magnitude of the tensor; other dtypes must be exact. It tolerates a deep
# network that adds in another order than torch. For 8-bit floats it is one step of the largest value.
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 1e-2, torch.bfloat16: 5e-2}
TOLERANCE |= {torch.float8_e4m3fn: 0.13, torch.float8_e5m2: 0.26}
# If a result exceeds the tolerance, the module runs SHAKES times with all intermediate values changed by up to
# SHAKE_ULPS units in the last place. The result may differ by SENSITIVITY_FACTOR times the change that this causes.
SHAKE_ULPS, SHAKES, SENSITIVITY_FACTOR = 8, 4, 3


@dataclass
class Reference:
    """A method in torch. graph: the captured graph, before any pass changed it."""

    module: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    program: ExportedProgram
    graph: torch.fx.Graph

    @classmethod
    def of(cls, name: str, module: Any, args: Any, kwargs: Any, program: ExportedProgram) -> Reference:
        """Makes the reference of a method. module: the module or graph that `program` was captured from. For a graph,
        args and kwargs are its own example inputs. Raises Error if it has none, or if the module draws random
        numbers."""
        if not isinstance(module, torch.nn.Module):
            if program.example_inputs is None:
                raise Error(f"method {name!r} cannot be verified: its graph has no example inputs", Code.UNSUPPORTED)
            args, kwargs = program.example_inputs
            module = program.module()
        graph = copy.deepcopy(program.graph_module.graph)
        drawn = next((n for n in nodes_of(program.graph_module) if _is_random(n)), None)
        if drawn is not None:
            raise Error(f"method {name!r} cannot be verified: {drawn.name} draws random numbers", Code.UNSUPPORTED)
        return cls(module, tuple(args or ()), dict(kwargs or {}), program, graph)

    def changes_inputs(self) -> bool:
        return any(s.kind == OutputKind.USER_INPUT_MUTATION for s in self.program.graph_signature.output_specs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Returns the module's results, with (args, kwargs) afterwards if it changes inputs. Does not change its state
        or the given inputs."""
        if self.changes_inputs():
            args, kwargs = copy.deepcopy((args, kwargs))
        changes = any(is_state_update(s) for s in self.program.graph_signature.output_specs)
        module = copy.deepcopy(self.module) if changes else self.module
        with torch.no_grad():
            results = module(*args, **kwargs)
        return (results, (args, kwargs)) if self.changes_inputs() else results

    def sensitivity(self, args: tuple[Any, ...], kwargs: dict[str, Any], want: Any) -> list[float]:
        """Returns how much each result changes if every intermediate value changes in its last places. A value next to
        a rounding boundary, for example of quantised activations, may be rounded either way."""
        leaves = pytree.tree_leaves(want)
        found = [0.0] * len(leaves)
        if self.changes_inputs() or any(is_state_update(s) for s in self.program.graph_signature.output_specs):
            return found
        module = torch.fx.GraphModule(self.program.graph_module, self.graph)
        for seed in range(SHAKES):
            with torch.no_grad():
                shaken = _Shaker(module, seed).run(*graph_inputs(self.program, args, kwargs))
            for i, (x, y) in enumerate(zip(pytree.tree_leaves(shaken), leaves, strict=False)):
                if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.shape == y.shape:
                    found[i] = max(found[i], _worst(parts(x).double(), parts(y.detach()).double())[0])
        return found

    def runs(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any], Any]]:
        """Yields (args, kwargs, results of the module) for the example and, if sizes are symbolic, for other sizes that
        the module accepts."""
        yield self.args, self.kwargs, self._run(self.args, self.kwargs)
        for args, kwargs in _of_other_sizes(self.program, self.args, self.kwargs):
            try:
                want = self._run(args, kwargs)
            except Exception:  # the module may not accept the inputs; a valid index can depend on sizes
                continue
            yield args, kwargs, want
            return


def _is_random(node: torch.fx.Node) -> bool:
    """True for a node that draws random numbers. Attention, recurrent networks and dropout draw them only for dropout,
    which is off in inference."""
    if node.op != "call_function" or torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    return not {a.name for a in schema_of(node.target).arguments} & {"dropout_p", "train", "training"}


def verify(program: Program, references: dict[str, Reference], origins: Origins) -> dict[str, float]:
    """Compares methods with their modules. Returns, by method, the largest difference of a result, divided by the
    result's largest magnitude. Raises Error, with the first node that differs, if a method's results differ."""
    session = _Session(program, "cpu", precision="strict")
    largest = dict.fromkeys(references, 0.0)
    for name, reference in references.items():
        for args, kwargs, want in reference.runs():
            session.reset()
            given = copy.deepcopy((args, kwargs)) if reference.changes_inputs() else (args, kwargs)
            got = session(*given[0], method=name, **given[1])
            got = (got, given) if reference.changes_inputs() else got
            what = _difference(got, want)
            if what and _difference(got, want, reference.sensitivity(args, kwargs, want)):
                where = _first_node(program, name, reference, args, kwargs, origins)
                raise Error(f"method {name!r} does not return the module's results: {what}; {where}")
            largest[name] = max(largest[name], _largest(got, want))
    return largest


# ---------------------------------------------------------------- comparison


def _difference(got: Any, want: Any, sensitivity: list[float] | None = None) -> str | None:
    """Returns a description of the first difference, or None if results agree. sensitivity: changes of the module's own
    results."""
    a, b = pytree.tree_leaves(got), pytree.tree_leaves(want)
    if len(a) != len(b):
        return f"{len(a)} results, not {len(b)}"
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        more = SENSITIVITY_FACTOR * sensitivity[i] if sensitivity else 0.0
        what = _tensor_difference(x, y, more) if isinstance(y, torch.Tensor) else _other_number(x, y)
        if what:
            return f"result {i} is {what}"
    return None


def _other_number(got: Any, want: Any) -> str | None:
    return None if got == want or (got != got and want != want) else f"{got}, not {want}"  # NaN is not itself


def _tensor_difference(got: Any, want: torch.Tensor, more: float = 0.0) -> str | None:
    """Describes the difference of two tensors, None if it is allowed. more: allowed in addition to the tolerance."""
    want = want.detach()
    if isinstance(got, torch.Tensor) and got.dtype == want.dtype and want.is_complex():
        got, want = parts(got), parts(want)
    if not isinstance(got, torch.Tensor) or (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{_kind(got)}, not {_kind(want)}"
    if want.dtype not in TOLERANCE:
        wrong = int(((got.double() - want.double()).abs() > more).sum() if more else (got != want).sum())
        return f"different in {wrong} of {want.numel()} elements" if wrong else None
    x, y = got.double(), want.double()
    if not bool(((x == y) | (x.isnan() & y.isnan()) | y.isfinite()).all()):
        return "finite where the module's is not, or vice versa"
    worst, largest = _worst(x, y)
    allowed = more + TOLERANCE[want.dtype] * (
        largest or 1e-3
    )  # zeros may be replaced by rounding errors of small numbers
    return f"off by {worst:.3g} of {largest:.3g}" if not worst <= allowed else None


def _worst(x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Returns the largest difference where y is finite, and y's largest magnitude there."""
    finite = y.isfinite()
    worst, largest = (t.max().item() if t.numel() else 0.0 for t in ((x - y)[finite].abs(), y[finite].abs()))
    return worst, largest


def _largest(got: Any, want: Any) -> float:
    """Returns the largest ratio of difference and largest magnitude, over all floating-point results."""
    pairs = zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True)
    floats = ((x, y.detach()) for x, y in pairs if isinstance(y, torch.Tensor) and y.is_floating_point())
    found = (_worst(x.double(), y.double()) for x, y in floats)
    return max((worst / largest for worst, largest in found if largest), default=0.0)


def parts(x: torch.Tensor) -> torch.Tensor:
    """Returns the parts (..., 2) of a complex tensor, or a real tensor itself."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def _kind(x: Any) -> str:
    return f"{x.dtype} {tuple(x.shape)}" if isinstance(x, torch.Tensor) else type(x).__name__


class Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps the results of all nodes."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.garbage_collect_values = False
        self.found: dict[str, Any] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        self.found[n.name] = super().run_node(n)
        return self.found[n.name]


class _Shaker(torch.fx.Interpreter):
    """Runs a graph, and changes the floats that each node returns by a few units in the last place, at random."""

    def __init__(self, module: torch.fx.GraphModule, seed: int) -> None:
        super().__init__(module)
        self.generator = torch.Generator().manual_seed(seed)

    def run_node(self, n: torch.fx.Node) -> Any:
        return pytree.tree_map(self._shake, super().run_node(n)) if n.op == "call_function" else super().run_node(n)

    def _shake(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype not in TOLERANCE or x.dtype.itemsize == 1 or not x.numel():
            return x
        noise = torch.rand(x.shape, generator=self.generator, dtype=torch.float32) * 2 - 1
        return torch.where(x.isfinite(), x * (1 + SHAKE_ULPS * torch.finfo(x.dtype).eps * noise).to(x.dtype), x)


class _Found(Exception):
    """The first node that differs."""


def _first_node(
    program: Program, name: str, reference: Reference, args: tuple[Any, ...], kwargs: dict[str, Any], origins: Origins
) -> str:
    """Describes the first node whose result differs from that of the node of torch's graph with its name."""
    recorder = Recorder(torch.fx.GraphModule(reference.program.graph_module, reference.graph))
    with torch.no_grad():
        recorder.run(*graph_inputs(reference.program, args, kwargs))
    found = {name_of(n): recorder.found[n.name] for n in reference.graph.nodes if n.name in recorder.found}
    session = _Session(program, "cpu", fused=False, precision="strict")
    places = session.placement(name)
    last = {place.name: node for node, place in enumerate(places)}  # nodes that a pass adds have the name of its result

    def compare(node: int, value: np.ndarray) -> None:
        if last[places[node].name] != node:
            return
        want = found.get(places[node].name)
        got = _tensors.to_torch(value)
        if isinstance(want, torch.Tensor):
            want = parts(want)
        if isinstance(want, torch.Tensor) and got.shape == want.shape and got.dtype == want.dtype:
            what = _tensor_difference(got, want)
            if what:
                place, origin = places[node], origins.find(name, places[node].name)
                raise _Found(f"the first node that differs is {place.name} ({place.op}), {what}{origin}")

    session.observe(compare)
    try:
        session.run(*args, method=name, **kwargs)
    except _Found as e:
        return str(e)
    return f"each of its nodes agrees with torch's, so one of the passes is wrong: {program.passes}"


def graph_inputs(program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yields the values of the graph's placeholders."""
    given = iter(pytree.tree_leaves((args, kwargs)))
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            yield next(given)
        elif spec.kind == InputKind.TOKEN:
            yield torch.empty(0)  # orders effects
        else:
            yield data_of(program, str(spec.target))


# ---------------------------------------------------------------- other sizes


def _of_other_sizes(
    program: ExportedProgram, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yields inputs whose symbolic sizes differ from those of the example, as far as bounds allow."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    nodes = [n for n in program.graph_module.graph.nodes if n.op == "placeholder"][-len(leaves) :] if leaves else []
    values = [n.meta.get("val") for n in nodes]
    hints = _symbols([size for value, given in zip(values, leaves, strict=True) for size in _sizes(value, given)])
    for change in (lambda n: n + 1, lambda n: 2 * n, lambda n: n - 1, lambda n: n // 2):
        sizes = {symbol: _within(program, symbol, change(n), n) for symbol, n in hints.items()}
        if sizes and any(sizes[s] != n for s, n in hints.items()) and _are_expected(program, sizes):
            generator = torch.Generator().manual_seed(1)
            yield pytree.tree_unflatten(
                [_resized(v, x, sizes, generator) for v, x in zip(values, leaves, strict=True)], spec
            )


def _sizes(value: Any, given: Any) -> list[tuple[torch.SymInt, int]]:
    """Returns the symbolic sizes of a fake tensor, each with its size in the example."""
    if isinstance(value, torch.SymInt):
        return [(value, int(given))]
    if isinstance(value, torch.Tensor):
        return [(s, n) for s, n in zip(value.shape, given.shape, strict=True) if isinstance(s, torch.SymInt)]
    return []


def _symbols(sizes: list[tuple[torch.SymInt, int]]) -> dict[Any, int]:
    """Returns the value of each symbol in the example. Solves formulas, such as 2 * n, of a single symbol."""
    found: dict[Any, int] = {}
    for size, n in sizes:
        symbols = list(size.node.expr.free_symbols)
        if len(symbols) == 1 and symbols[0] not in found:
            with contextlib.suppress(NotImplementedError):
                solutions = [int(x) for x in sympy.solve(size.node.expr - n, symbols[0]) if x.is_integer and x >= 0]
                found |= {symbols[0]: solutions[0]} if len(solutions) == 1 else {}
    return found


def _are_expected(program: ExportedProgram, sizes: dict[Any, int]) -> bool:
    conditions = program.graph_module.meta.get(CONDITIONS, ())
    return all(c.subs(sizes) != False for c in conditions)  # noqa: E712 (sympy's)


def _within(program: ExportedProgram, symbol: Any, n: int, now: int) -> int:
    bounds = program.range_constraints.get(symbol)
    return n if bounds is not None and bounds.lower <= n <= bounds.upper else now


def _size(n: Any, sizes: dict[Any, int]) -> int:
    return int(n.node.expr.subs(sizes)) if isinstance(n, torch.SymInt) else n


def _resized(value: Any, given: Any, sizes: dict[Any, int], generator: torch.Generator) -> Any:
    """Returns the input with other sizes, filled with elements of the example."""
    if isinstance(value, torch.SymInt):
        return _size(value, sizes)
    if not _sizes(value, given):
        return given
    shape = [_size(n, sizes) for n in value.shape]
    if not given.numel():
        return given.new_zeros(shape)
    picked = torch.randint(given.numel(), shape, generator=generator)
    return given.detach().reshape(-1)[picked]
