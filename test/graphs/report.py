"""Writes a failing graph for test/replay.c, which shows the fault without Python."""

import pathlib
from typing import Any

import safetensors.torch
import torch
from execute import Failure, Trial, export
from graph import Graph, describe
from optimized import ALL, rewritten
from oracle import Answer, Oracle

FREE = 1e-3  # relative tolerance of right elements; the absolute tolerance is the bound of the wrong one


def write(graph: Graph, failure: Failure, folder: pathlib.Path) -> str:
    """Writes case.clv, data.safetensors, index.tsv and case.py; returns the command that fails."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "case.py").write_text(describe(graph) + "\n")
    if failure.kind == "export":
        return "(clave.export refuses it: there is no program)"
    device = failure.runs[0] if failure.runs else "cpu"
    with torch.no_grad():
        plain, exported = export(graph)
        programs = rewritten(graph, plain)
        label = next((name for name in programs if f"{name}: " in failure.text), ALL)
        program = plain if "no pass: " in failure.text else programs[label]
        program.save(str(folder / "case.clv"))
        trial = Trial(graph, program, exported, device)
        first = failure.runs[1] if len(failure.runs) > 1 else 0
        order = (first, (first + 1) % len(trial.arguments), first)
        right = {"bits": program, "optimized": plain}.get(failure.kind)
        rtol, atol = _write_data(graph, trial, right, order, folder / "data.safetensors")
    (folder / "index.tsv").write_text(f"case\tcase.clv\tdata.safetensors\t{rtol!r}\t{atol!r}\t\t\n")
    name, _, kind = device.partition("/")
    env = "CLAVE_SELF_CHECK=off " + (f"CLAVE_DEVICE_CLASS={kind} " if kind else "")
    return f"{env}build/test/replay {folder}/index.tsv --device {name} --poison"


def _write_data(graph: Graph, trial: Trial, right: Any, order: tuple, path: pathlib.Path) -> tuple[float, float]:
    """Writes inputs A and B and the outputs of runs on A, B, A: torch's, or those of the right program, unfused."""
    tensors: dict[str, torch.Tensor] = {}
    oracle, answers = Oracle(graph), []
    unfused = trial.session(unfused=True, program=right) if right else None
    for run, k in enumerate(order):
        arguments = trial.arguments[k]
        for i, a in enumerate(graph.arguments):
            tensors[f"in.{'AB'[run % 2]}.{i}"] = torch.as_tensor(arguments[a.name]).contiguous()
        answers += (found := oracle.run(arguments))
        wanted = (trial.run(unfused, k) if unfused else None) or [a.want for a in found]
        for i, t in enumerate(wanted):
            tensors[f"out.{run}.{i}"] = t.contiguous().clone()
    safetensors.torch.save_file({n: t.clone() for n, t in tensors.items()}, str(path))
    return (0.0, 0.0) if unfused else (FREE, max(map(_tightest, answers), default=0.0))


def _tightest(a: Answer) -> float:
    """Returns an absolute tolerance: the bound of elements of medium size."""
    return float(a.bound.median()) if a.bound is not None and a.bound.numel() else 0.0
