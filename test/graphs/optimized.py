"""Compares rewritten programs with the program before all passes, on the CPU backend: within the oracle's bounds, and
bit by bit unless an applied pass may change last places by its row in interp/passes/passes.c."""

import ctypes as C
from collections.abc import Callable
from typing import Any

import torch
from execute import Failure, Trial, answers_of, export, same_bits
from graph import Graph
from oracle import SUMS, is_sharp

from clave import _library as L

INEXACT = {
    "gelu",
    "silu",
    "rope",
    "layer_norm",
    "rms_norm",
    "norm_in_16_bits",
    "attention",
    "narrow_b",
    "padding",
    "batch_norm",
    "join_matmul",
}


def inexact_in(graph: Graph) -> set[str]:
    """Returns the passes that may change last places of a graph. In a graph with sums, a pass that changes the layout
    of operands may, too, because the layout selects kernels and so the order of additions."""
    return INEXACT | ({"view"} if any(s.rounds in SUMS for s in graph.statements) else set())


ALL = "all passes"
_names: list[str] = []


def pass_names(program: Any) -> list[str]:
    """Returns the library's passes, in their order."""
    if not _names:
        report = L.PASS_FN(lambda _, info: _names.append(info.contents.name.decode()))
        options = L.OptimizeOptions(C.sizeof(L.OptimizeOptions), None, 0, report, None)
        owner = program.handle
        L.Handle("clave_program_optimize", "clave_program_destroy", owner.pointer, C.byref(options), keep=(owner,))
    return _names


def rewritten(graph: Graph, plain: Any) -> dict[str, Any]:
    """Returns the program after all passes, and after one pass, by the graph's turn, or after each without a turn."""
    names = pass_names(plain)
    if graph.turn is not None:
        names = [names[graph.turn % len(names)]]
    return {ALL: plain.optimized()} | {f"{name} alone": plain.optimized([name]) for name in names}


def attempt(
    graph: Graph, devices: list[str], beside: Callable[[Graph, Any], None] | None = None
) -> tuple[bool, list[str]]:
    """Runs a graph on all devices. Returns True if the oracle is sharp, and the passes that applied. Raises Failure or
    Unfit. beside: called with the program before any pass, once that is right."""
    with torch.no_grad():
        fresh, carried = answers_of(graph, Trial(graph, None, None, ""))
        plain, exported = export(graph)
        programs = rewritten(graph, plain)
        for device in devices:
            with failures_of(device):
                Trial(graph, programs[ALL], exported, device).check(fresh, carried)
        with failures_of("cpu"):
            check(Trial(graph, plain, exported, "cpu"), programs, fresh + carried)
        if beside:
            beside(graph, plain)
    sharp = all(is_sharp(a) for answers in fresh for a in answers)
    alone = [label for label, p in programs.items() if p.passes and label != ALL]
    return sharp, [*programs[ALL].passes, *alone]


class failures_of:
    """A context manager that attributes failures inside it to a device."""

    def __init__(self, device: str):
        self.device = device

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: Any, e: Any, __: Any) -> None:
        if isinstance(e, Failure):
            raise Failure(e.kind, f"{self.device}: {e.text}", (self.device, *e.runs)) from None


def check(trial: Trial, programs: dict[str, Any], answers: list[Any]) -> None:
    """trial: of the program before all passes. answers: results for each set of inputs, then for all in sequence."""
    want = trial.outputs(trial.program)
    compare_with_oracle(trial, "no pass", want, answers)
    for label, p in programs.items():
        if p.refused:
            raise Failure("refused", f"{label}: {p.refused}")
        got = trial.outputs(p)
        compare_with_oracle(trial, label, got, answers)
        compare_results(trial, label, want, got, not inexact_in(trial.graph) & p.passes.keys())


def compare_with_oracle(trial: Trial, label: str, got: list[Any], answers: list[Any]) -> None:
    """Sizes may be refused; after a refusal in a sequence, the state is no longer the oracle's."""
    n = len(trial.arguments)
    for i, (results, want) in enumerate(zip(got, answers, strict=True)):
        if results is not None:
            trial.compare(want, results, i % n, f"{label}: ")
        elif i >= n:
            return


def compare_results(trial: Trial, label: str, want: list[Any], got: list[Any], exact: bool) -> None:
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        k = i % len(trial.arguments)
        if (a is None) != (b is None):
            raise Failure("optimized", f"inputs {k}: {label}: sizes are refused with passes, or without", (k,))
        for j, (x, y) in enumerate(zip(a or (), b or (), strict=True)):
            if exact and not same_bits(x, y):
                raise Failure("optimized", f"inputs {k}, output {j}: {label}: other bits than without passes", (k, j))
