"""Runs the samples of one op and dtype in a process of its own, which reports each sample before and after it.

A worker gets jobs (name, dtype, first sample, limit) over a pipe and sends ("begin", index, call), ("done", record) and
("end",). What it does not survive is charged by its owner, run.py, to the sample that it began last.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
import time
import traceback
import warnings
from typing import Any

import compare
import samples
import scope
import torch
from torch.testing._internal.opinfo import core

import clave
from clave import errors, trace

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@dataclasses.dataclass
class Options:
    device: str
    programs: pathlib.Path  # folder of exported programs
    limit: int | None = None


@dataclasses.dataclass
class Exported:
    """A program, or why there is none."""

    program: Any = None
    ops: tuple[str, ...] = ()
    verdict: str = ""
    message: str = ""


def serve(connection: Any, options: Options) -> None:
    """The main function of a worker process."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    speed_up_export()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    warnings.simplefilter("ignore")
    while (job := connection.recv()) is not None:
        run_op(connection, options, *job)
        connection.send(("end",))


def run_op(connection: Any, options: Options, name: str, dtype: str, first: int) -> None:
    try:
        made = samples.samples_of(name, dtype, options.limit)
    except Exception as e:  # any failure of torch's own sample functions
        connection.send(("done", {"sample": 0, "verdict": "skipped", "message": f"samples: {_line(e)}"}))
        return
    sessions: dict[str, Any] = {}
    for s in made[first:]:
        connection.send(("begin", s.index, s.describe()[:300]))
        begin = time.monotonic()
        record = run_sample(options, name, dtype, s, sessions)
        record |= {"sample": s.index, "seconds": round(time.monotonic() - begin, 3)}
        connection.send(("done", record))


def run_sample(options: Options, name: str, dtype: str, s: samples.Sample, sessions: dict[str, Any]) -> dict[str, Any]:
    """The record of one sample: its verdict, a message, the largest error in ulp, the ops of its graph."""
    try:
        want = list(s.module(*(t.clone() for t in s.tensors)))
    except Exception as e:  # torch refuses the sample: nothing to compare with
        return {"verdict": "skipped", "message": f"torch: {_line(e)}"}
    if any(isinstance(t, torch.Tensor) and t.dtype not in samples.NAMES for t in [*want, *s.tensors]):
        return {"verdict": "skipped", "message": "a dtype that clave does not have"}
    if s.key not in sessions:
        exported = export(options, name, dtype, s)
        session = exported.program and clave.Session(exported.program, device=options.device)
        sessions[s.key] = exported, session
    exported, session = sessions[s.key]
    if exported.verdict:
        return {"verdict": exported.verdict, "message": exported.message}
    try:
        ours = list(session(*s.tensors))
    except errors.Error as e:
        verdict = "unsupported" if e.code == errors.Code.UNSUPPORTED else "error"
        return {"verdict": verdict, "message": _line(e), "ops": exported.ops}
    return judge(name, s, ours, want) | {"ops": exported.ops}


def judge(name: str, s: samples.Sample, ours: list[Any], want: list[Any]) -> dict[str, Any]:
    if name in scope.RANDOM:
        ours, want = map(_without_values, (ours, want))
    d = compare.compare(name, is_pointwise(name), ours, reference(name, s, want))
    return {"verdict": "wrong" if d.wrong else "right", "message": d.wrong, "ulp": round(d.ulp, 2)}


def _without_values(results: list[Any]) -> list[Any]:
    return [torch.zeros_like(t) if isinstance(t, torch.Tensor) else t for t in results]


def reference(name: str, s: samples.Sample, want: list[Any]) -> compare.Reference:
    """torch's result and the same call in f64, where that has one."""
    terms = max(1, sum(t.numel() for t in s.tensors))
    module, tensors = s.in_f64()
    exact = None
    if any(t.dtype in samples.LOW for t in want if isinstance(t, torch.Tensor)) and name not in scope.RANDOM:
        try:
            exact = list(module(*tensors))
        except Exception:  # not every op takes f64: torch's own result is the only reference then
            exact = None
    known = exact if exact is not None else want
    sums = not is_pointwise(name) or name in compare.COMPOSED
    size = compare.magnitude(module, tensors, known) if sums else 0.0
    return compare.Reference(want, exact, size, terms)


@functools.cache
def is_pointwise(name: str) -> bool:
    """Whether each element of the result comes of one element of each operand."""
    info = samples.infos().get(name)
    if info is None:
        return False
    kinds = (core.UnaryUfuncInfo, core.BinaryUfuncInfo, core.ShapeFuncInfo)
    return isinstance(info, kinds) or name in scope.POINTWISE


def export(options: Options, name: str, dtype: str, s: samples.Sample) -> Exported:
    """The sample's program: from disk where the same sources exported it before."""
    stem = options.programs / hashlib.sha256(f"{name} {dtype} {s.key}".encode()).hexdigest()[:32]
    known, why = stem.with_suffix(".clv"), stem.with_suffix(".txt")
    if why.exists():
        verdict, ops, message = why.read_text().split("\n", 2)
        return Exported(clave.load(str(known)) if not verdict else None, tuple(ops.split()), verdict, message)
    e = export_anew(s)
    if e.program:
        e.program.save(str(known))
    part = stem.with_suffix(f".{os.getpid()}")
    part.write_text(f"{e.verdict}\n{' '.join(e.ops)}\n{e.message}")
    part.rename(why)
    return e


def export_anew(s: samples.Sample) -> Exported:
    try:
        captured = trace.capture(s.module.eval(), s.tensors, None, None, None)
    except Exception as e:  # what torch.export cannot trace
        return Exported(verdict="unsupported", message=f"torch.export: {_line(e)}")
    ops = graph_ops(captured)
    try:
        return Exported(clave.export(captured), ops)
    except errors.Error as e:
        verdict = "unsupported" if e.code == errors.Code.UNSUPPORTED else "error"
        return Exported(None, ops, verdict, _line(e))
    except Exception as e:  # a failure of the exporter
        return Exported(None, ops, "error", f"{_line(e)} at {_place(e)}")


def graph_ops(captured: Any) -> tuple[str, ...]:
    """The ops of the graph as torch.export gives it."""
    graphs = [m.graph for m in captured.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    nodes = (n for g in graphs for n in g.nodes if n.op == "call_function")
    return tuple(sorted({trace.op_name(n.target) for n in nodes}))


def _line(e: BaseException) -> str:
    text = next((line for line in str(e).splitlines() if line.strip()), "")
    return text[:300] if isinstance(e, errors.Error) else f"{type(e).__name__}: {text[:300]}"


def _place(e: BaseException) -> str:
    frame = traceback.extract_tb(e.__traceback__)[-1]
    return f"{pathlib.Path(frame.filename).name}:{frame.lineno}"


def speed_up_export() -> None:
    """torch looks its composite ops up anew in every namespace at each export: here none is registered between two."""
    utils = torch._export.utils
    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)


def fingerprint() -> str:
    """Of all that decides what a program holds."""
    h = hashlib.sha256(torch.__version__.encode())
    sources = [
        *(ROOT / "python/clave").rglob("*.py"),
        ROOT / "serialize/schema.fbs",
        ROOT / "test/conformance/samples.py",
    ]
    for p in sorted([*sources, ROOT / "test/conformance/extra.py"]):
        h.update(p.read_bytes() if p.exists() else b"")
    return h.hexdigest()[:16]
