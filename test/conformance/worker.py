"""Runs the samples of one op and dtype in a separate process, which reports each sample before and after it.

A worker receives jobs (name, dtype, samples done, one by one?) over a pipe and sends ("begin", index or None for a
batch, call), ("done", record) and ("end",). If it dies, its owner, run.py, attributes the failure to the sample that it
began last. A batch is then tried again sample by sample.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import json
import math
import os
import pathlib
import time
import traceback
import warnings
from typing import Any

import compare
import expected
import factors
import order
import quick_export
import samples
import scope
import torch
from torch.testing._internal.opinfo import core

import clave
from clave import errors, exporter, trace
from clave.program import Program
from clave.shared import States

BATCH = 16  # calls in one program, which needs a tenth of the time to export
SLOW_S = 1.0  # CPU seconds of a run from which it is slow; most samples need a thousandth
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
RUNS = 3  # runs of a slow sample, because the first builds kernels and the machine may be busy
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "python/clave"


@dataclasses.dataclass
class Options:
    device: str
    programs: pathlib.Path  # folder of exported programs
    baseline: expected.Baseline
    limit: int | None = None
    open_sizes: bool = False  # programs have inputs of any sizes that torch.export can keep dynamic


@dataclasses.dataclass
class Exported:
    """A program, or the reason why there is none."""

    program: Any = None
    nodes: dict[str, str] = dataclasses.field(default_factory=dict)  # graph node -> its op
    verdict: str = ""
    message: str = ""

    @property
    def ops(self) -> list[str]:
        """Returns the ops of torch.export's graph and those into which they decompose."""
        return sorted(set(self.nodes.values()))


def serve(connection: Any, options: Options) -> None:
    """The main function of a worker process."""
    os.environ["CLAVE_SELF_CHECK"] = "off"  # the device's own results, even if they are wrong
    os.environ["CLAVE_CACHE_DIR"] = "off"  # PoCL has its own cache; ours makes it compile every kernel once more
    os.environ.setdefault("POCL_CACHE_DIR", os.path.expanduser("~/.cache/pocl/kcache"))
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    quick_export.speed_up_export()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    warnings.simplefilter("ignore")
    while (job := connection.recv()) is not None:
        run_op(connection, options, *job)
        connection.send(("end",))


def run_op(connection: Any, options: Options, name: str, dtype: str, done: set[int], single: bool) -> None:
    """Runs all samples except those done: in batches, one program for each, or one by one if `single`."""
    try:
        made = samples.samples_of(name, dtype, options.limit)
    except Exception as e:  # any failure of torch's own sample functions
        connection.send(("done", {"sample": 0, "verdict": "skipped", "message": f"samples: {_line(e)}"}))
        return
    tasks = []
    for s in made:
        if s.index in done:
            continue
        task = _ask_torch(s)
        if isinstance(task, Task):
            tasks.append(task)
        else:
            connection.send(("done", task | {"sample": s.index, "call": s.describe()[:300]}))
    for batch in batches(tasks, options.baseline.listed((name, dtype))):
        run_batch(connection, options, name, dtype, batch, single)


@dataclasses.dataclass
class Task:
    """A sample and torch's result."""

    sample: samples.Sample
    want: list[Any]


def _ask_torch(s: samples.Sample) -> Task | dict[str, Any]:
    # On CPUs with AMX, torch uses oneDNN's products, which overflow to NaN in 8-bit floats; torch's own saturate.
    own = any(isinstance(t, torch.Tensor) and t.dtype in FLOAT8 for t in s.tensors)
    try:
        with torch.backends.mkldnn.flags(enabled=False) if own else contextlib.nullcontext():
            want = list(s.module(*(t.clone() for t in s.tensors)))
    except Exception as e:  # torch refuses the sample, so there is nothing to compare with
        return {"verdict": "skipped", "message": f"torch: {_line(e)}"}
    if any(isinstance(t, torch.Tensor) and t.dtype not in samples.NAMES for t in [*want, *s.tensors]):
        return {"verdict": "skipped", "message": "a dtype that clave does not have"}
    return Task(s, want)


def batches(tasks: list[Task], listed: set[int]) -> list[list[list[Task]]]:
    """Returns lists of up to BATCH groups; the tasks of a group share a program. A group with a sample that is listed
    as refused is alone, because it would fail its batch."""
    by_key: dict[str, list[Task]] = {}
    for t in tasks:
        by_key.setdefault(t.sample.key, []).append(t)
    is_alone = lambda group: any(t.sample.index in listed for t in group)
    alone = [[g] for g in by_key.values() if is_alone(g)]
    together = [g for g in by_key.values() if not is_alone(g)]
    return [together[i : i + BATCH] for i in range(0, len(together), BATCH)] + alone


def run_batch(connection: Any, options: Options, name: str, dtype: str, batch: Any, single: bool) -> None:
    """Runs a batch as one program, whose runs have one sample of each group; if it fails, in halves."""
    if len(batch) == 1:
        run_group(connection, options, name, dtype, batch[0])
        return
    begin = time.monotonic()
    records: list[Any] = []
    if not single:
        connection.send(("begin", None, ""))
        records = run_together(options, name, dtype, batch)
    share = (time.monotonic() - begin) / max(1, len(records))
    for sample, record in records:
        connection.send(("done", record | {"sample": sample.index, "call": sample.describe()[:300], "seconds": share}))
    if not records:
        for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
            run_batch(connection, options, name, dtype, half, single)


def run_group(connection: Any, options: Options, name: str, dtype: str, group: list[Task]) -> None:
    opened: Opened | None = None
    for task in group:
        s = task.sample
        call = s.describe()[:300]
        connection.send(("begin", s.index, call))
        begin = time.monotonic()
        opened = opened or open_session(options, name, export(options, name, dtype, [s]))
        record = run_alone(name, task, opened)
        seconds = time.monotonic() - begin
        connection.send(("done", record | {"sample": s.index, "call": call, "seconds": seconds}))


@dataclasses.dataclass
class Opened:
    """A session of an exported program, or the reason why there is none."""

    ops: list[str]
    session: Any = None
    verdict: str = ""
    message: str = ""


@functools.lru_cache(maxsize=1)
def device_of(spec: str, name: str) -> clave.Device:
    """Returns one device for all samples of an op, which share kernels. It has no fallback."""
    return clave.Device(spec, fallback=False)


def open_session(options: Options, name: str, exported: Exported) -> Opened:
    if exported.verdict:
        return Opened(exported.ops, None, exported.verdict, exported.message)
    try:
        return Opened(exported.ops, clave.Session(exported.program, device_of(options.device, name)))
    except errors.Error as e:
        return Opened(exported.ops, None, verdict_of(e), _line(e))


def verdict_of(e: errors.Error) -> str:
    return "unsupported" if e.code == errors.Code.UNSUPPORTED else "error"


def run_alone(name: str, task: Task, opened: Opened) -> dict[str, Any]:
    """Returns the record of one sample: its verdict, a message, the largest error in ulp, the ops of its graph."""
    if opened.verdict:
        return {"verdict": opened.verdict, "message": opened.message, "ops": opened.ops}
    try:
        ours, seconds = run_timed(opened.session, *task.sample.tensors)
    except errors.Error as e:
        device_of.cache_clear()  # it may be lost
        return {"verdict": verdict_of(e), "message": _line(e), "ops": opened.ops}
    record = judge(name, task, ours)
    if record["verdict"] == "right" and seconds > SLOW_S:
        message = f"{seconds:.1f} s of CPU time in the fastest of {RUNS} runs, at most {SLOW_S} expected"
        record |= {"verdict": "slow", "message": message}
    return record | {"ops": opened.ops, "cpu_s": round(seconds, 4)}


def run_timed(session: Any, *inputs: Any) -> tuple[list[Any], float]:
    """Returns the results of a run, and its CPU seconds: the minimum of RUNS if the first takes longer than SLOW_S."""
    best = math.inf
    for _ in range(RUNS):
        begin = time.process_time()
        results = list(session(*inputs))
        best = min(best, time.process_time() - begin)
        if best <= SLOW_S:
            break
    return results, best


def run_together(options: Options, name: str, dtype: str, batch: list[list[Task]]) -> list[Any]:
    """Returns (sample, record) of each sample, or [] if the batch cannot be exported or run, or is slow."""
    opened = open_session(options, name, export(options, name, dtype, [group[0].sample for group in batch]))
    records: list[Any] = []
    for turn in range(max(map(len, batch)) if opened.session else 0):
        now = [group[min(turn, len(group) - 1)] for group in batch]
        try:
            results, seconds = run_timed(opened.session, *(t.sample.tensors for t in now))
        except errors.Error:
            device_of.cache_clear()
            return []
        if seconds > SLOW_S:
            return []
        ran = {"ops": opened.ops, "cpu_s": round(seconds / len(batch), 4)}
        for i, task in enumerate(now):
            ours = results[: len(task.want)]
            del results[: len(task.want)]
            if turn < len(batch[i]):
                records.append((task.sample, judge(name, task, ours) | ran))
    return records


class Batch(torch.nn.Module):
    """Makes several calls: its inputs are their tensors, and it returns their results, flat."""

    def __init__(self, calls: list[samples.Call]) -> None:
        super().__init__()
        self.calls = torch.nn.ModuleList(calls)

    def forward(self, *groups: tuple[torch.Tensor, ...]) -> tuple[Any, ...]:
        return tuple(x for call, tensors in zip(self.calls, groups, strict=True) for x in call(*tensors))


def judge(name: str, task: Task, ours: list[Any]) -> dict[str, Any]:
    s, want = task.sample, task.want
    if scope.is_random(name):
        ours, want = map(_without_values, (ours, want))
    elif order.is_free(name, s):
        ours = order.canonical(name, s, ours, want)
    elif name in factors.VECTORS:
        ours = factors.canonical(name, ours, want)
    d = compare.compare(name, is_pointwise(name), ours, reference(name, s, want))
    return {"verdict": "wrong" if d.wrong else "right", "message": d.wrong, "ulp": round(d.ulp, 2)}


def _without_values(results: list[Any]) -> list[Any]:
    return [torch.zeros_like(t) if isinstance(t, torch.Tensor) else t for t in results]


def reference(name: str, s: samples.Sample, want: list[Any]) -> compare.Reference:
    """Returns torch's result and that of the same call in f64, if f64 is supported."""
    terms = max(1, sum(t.numel() for t in s.tensors))
    module, tensors = s.in_f64()
    exact = None
    if name in compare.EXACT:
        numbers = [x for x in s.module.leaves if isinstance(x, int | float)]
        exact = [compare.in_40_digits(compare.EXACT[name], s.tensors[0], numbers)]
    elif any(t.dtype in samples.LOW for t in want if isinstance(t, torch.Tensor)) and not scope.is_random(name):
        try:
            exact = list(module(*tensors))
        except Exception:  # if an op does not support f64, torch's own result is the only reference
            exact = None
    known = exact if exact is not None else want
    sums = not is_pointwise(name) or name in compare.COMPOSED
    size = compare.magnitude(module, tensors, known) if sums else 0.0
    return compare.Reference(want, exact, size, terms)


@functools.cache
def is_pointwise(name: str) -> bool:
    """True if each element of the result depends on one element of each operand."""
    info = samples.infos().get(name)
    if info is None:
        return False
    kinds = (core.UnaryUfuncInfo, core.BinaryUfuncInfo, core.ShapeFuncInfo)
    return isinstance(info, kinds)


def export(options: Options, name: str, dtype: str, calls: list[samples.Sample]) -> Exported:
    """Returns the program of one or several calls: from disk if the same sources exported it before."""
    key = "\n".join([name, dtype, "open" if options.open_sizes else "", *(s.key for s in calls)])
    stem = options.programs / hashlib.sha256(key.encode()).hexdigest()[:32]
    known, why = stem.with_suffix(".clv"), stem.with_suffix(".json")
    if why.exists():
        e = Exported(None, **json.loads(why.read_text()))
        e.program = None if e.verdict else clave.load(str(known))
        return e
    e = export_anew(calls, options.open_sizes)
    if e.program:
        e.program.save(str(known))
    part = stem.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps({"nodes": e.nodes, "verdict": e.verdict, "message": e.message}))
    part.rename(why)
    return e


def open_shapes(x: Any) -> Any:
    """Returns torch.export's dynamic_shapes of tensors or tuples of them: sizes are dynamic if the op allows it."""
    if isinstance(x, tuple):
        return tuple(map(open_shapes, x))
    return {axis: torch.export.Dim.AUTO for axis, n in enumerate(x.shape) if n > 1}


def export_anew(calls: list[samples.Sample], open_sizes: bool = False) -> Exported:
    """Exports like clave.export but without its passes, with which torch would compute what depends on no input."""
    if len(calls) == 1:
        module, tensors = calls[0].module, calls[0].tensors
    else:
        module, tensors = Batch([s.module for s in calls]), tuple(s.tensors for s in calls)
    try:
        shapes = (open_shapes(tensors),) if open_sizes and tensors else None
        captured = trace.capture(module.eval(), tensors, None, shapes, None)
    except errors.Error as e:
        cause = e.__cause__  # torch's own failure
        if cause is None:
            return Exported(verdict=verdict_of(e), message=_line(e))
        if is_ours(cause):
            return Exported(verdict="error", message=f"{_line(cause)} at {_place(cause)}")
        return Exported(verdict="unsupported", message=f"torch.export: {_line(cause)}")
    nodes = {f"captured {op}": op for op in graph_ops(captured).values()}
    try:
        decomposed = trace.decompose(captured)
        nodes |= graph_ops(decomposed)
        states = States({"forward": decomposed})
        builder = exporter.build({"forward": (decomposed, {})}, states)
        return Exported(Program(builder.finish(), [data for _, data in builder.constants]), nodes)
    except errors.Error as e:
        return Exported(None, nodes, verdict_of(e), _line(e))
    except Exception as e:  # a failure of the exporter
        return Exported(None, nodes, "error", f"{_line(e)} at {_place(e)}")


def is_ours(e: BaseException) -> bool:
    """True if an exception of the capture, or its cause, was raised by code of clave that torch.export called: a frame
    below torch's is in the package, or the innermost one in these tests."""
    chain: list[BaseException] = []
    while e and e not in chain:
        chain.append(e)
        e = e.__cause__ or e.__context__
    return any(_raised_by_us([f.filename for f in traceback.extract_tb(x.__traceback__)]) for x in chain)


def _raised_by_us(files: list[str]) -> bool:
    """Checks the files of a traceback's frames, outermost first."""
    inner = list(itertools.dropwhile(lambda f: not _is_torch(f), files))
    return bool(files) and (
        any(pathlib.Path(f).is_relative_to(PACKAGE) for f in inner)
        or pathlib.Path(files[-1]).is_relative_to(ROOT / "test")
    )


def _is_torch(file: str) -> bool:
    return pathlib.Path(file).is_relative_to(pathlib.Path(torch.__file__).parent)


def graph_ops(program: Any) -> dict[str, str]:
    """Returns the ops of a graph by the names of its nodes."""
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    return {n.name: trace.op_name(n.target) for g in graphs for n in g.nodes if n.op == "call_function"}


def _line(e: BaseException) -> str:
    text = next((line for line in str(e).splitlines() if line.strip()), "")
    return text[:300] if isinstance(e, errors.Error) else f"{type(e).__name__}: {text[:300]}"


def _place(e: BaseException) -> str:
    frame = traceback.extract_tb(e.__traceback__)[-1]
    return f"{pathlib.Path(frame.filename).name}:{frame.lineno}"


def fingerprint() -> str:
    """Returns a hash of the sources that determine a program."""
    h = hashlib.sha256(torch.__version__.encode())
    sources = [
        *PACKAGE.rglob("*.py"),
        ROOT / "serialize/schema.fbs",
        *(ROOT / "test/conformance" / name for name in ("extra.py", "samples.py", "worker.py")),
    ]
    for p in sorted(sources):
        h.update(p.read_bytes() if p.exists() else b"")
    return h.hexdigest()[:16]
