"""Random graphs, run by clave and by torch: prints each graph that differs, shrunk, and `N passed, N failed`.

    run.py --seed S --count N [--device LIST] [--every K] [--compiled] [--jobs J] [--out DIR]

Graph n is made from the seed S + n alone; the graphs of cases.py run first. LIST has cpu, opencl (with kernels for
CPUs, for GPUs, or for GPUs with 64-bit indices, in turn), opencl/cpu, opencl/gpu, opencl/gpu+wide. --every K runs each
Kth graph on OpenCL. --compiled also writes each out as C, which gcc compiles and which must have a session's bits. A
failing graph is written to DIR/<seed> for test/replay.c, with the command that fails.
"""

import argparse
import collections
import logging
import multiprocessing as mp
import os
import pathlib
import sys
import tempfile
import time
import traceback
import warnings
from multiprocessing.connection import wait
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "compile"), str(ROOT / "python")]

for kind in (UserWarning, FutureWarning):  # torch's warnings about random graphs
    warnings.filterwarnings("ignore", category=kind)

import quick_export
import torch
from beside import compare_graph
from cases import CASES
from compiled import Builder
from execute import Failure, export
from generate import make_graph
from graph import Graph, describe
from optimized import attempt
from oracle import Unfit
from report import write
from shrink import shrink

CLASSES = ("cpu", "gpu", "gpu", "cpu", "gpu", "gpu,wide")
TIMEOUT = 300  # maximum seconds for one graph, on a loaded machine
MAX_SHRUNK = 5
MIN_SHARP, MAX_UNFIT = 0.85, 0.2  # shares of the graphs


def graph_of(seed: int | str) -> Graph:
    return CASES[seed] if isinstance(seed, str) else make_graph(seed)


def devices_for(args: argparse.Namespace, seed: int | str) -> list[str]:
    if isinstance(seed, str):
        return [d.replace("+", ",") if d != "opencl" else "opencl/gpu" for d in args.device.split(",")]
    chosen = []
    for d in args.device.split(","):
        if d == "opencl" and seed % args.every == 0:
            chosen.append(f"opencl/{CLASSES[seed // args.every % len(CLASSES)]}")
        elif d != "opencl":
            chosen.append(d.replace("+", ","))
    return chosen


def beside(graph: Graph, program: Any) -> None:
    """Compares the program as C, unless it is refused or carries the runtime; test/compile/graphs.py counts those."""
    with tempfile.TemporaryDirectory(prefix="clave-compiled-") as folder:
        found = compare_graph(Builder("gcc", ("-O0",), all_steps=True), graph, program, pathlib.Path(folder))
    if found not in ("same", "carried", "unfit") and not found.startswith("refused"):
        raise Failure("compiled", found[:2000])


def verdict(graph: Graph, devices: list[str], compiled: bool) -> tuple[str, str, tuple]:
    """Returns the kind ("sharp", "blunt", "unfit" or a kind of failure), a text (for passing graphs, the passes that
    applied), and the runs that failed."""
    try:
        sharp, passes = attempt(graph, devices, beside if compiled else None)
        return ("sharp" if sharp else "blunt"), ", ".join(passes), ()
    except Unfit as e:
        return "unfit", str(e), ()
    except Failure as e:
        return e.kind, e.text, e.runs


def work(seeds: list[int | str], args: argparse.Namespace, to: Any) -> None:
    for seed in seeds:
        to.send((seed, None))
        try:
            to.send((seed, verdict(graph_of(seed), devices_for(args, seed), args.compiled)))
        except Exception:
            to.send((seed, ("harness", traceback.format_exc(), ())))


class Workers:
    """Processes that share seeds. A process that crashes or hangs loses its current graph and is replaced."""

    def __init__(self, args: argparse.Namespace, jobs: int):
        self.args = args
        self.context = mp.get_context("fork")
        self.running: dict[Any, dict] = {}
        seeds = [*CASES, *range(args.seed, args.seed + args.count)]
        for j in range(jobs):
            self.start(seeds[j::jobs])

    def start(self, seeds: list[int | str]) -> None:
        if not seeds:
            return
        here, there = self.context.Pipe(duplex=False)
        p = self.context.Process(target=work, args=(seeds, self.args, there), daemon=True)
        p.start()
        there.close()
        self.running[here] = {"process": p, "left": seeds, "since": time.monotonic()}

    def results(self) -> Any:
        """Yields (seed, verdict) as they arrive."""
        while self.running:
            for pipe in wait(list(self.running), timeout=5):
                yield from self._receive(pipe)
            for w in list(self.running.values()):
                if time.monotonic() - w["since"] > TIMEOUT:
                    w["process"].kill()

    def _receive(self, pipe: Any) -> Any:
        w = self.running[pipe]
        try:
            seed, found = pipe.recv()
        except EOFError:
            del self.running[pipe]
            w["process"].join()
            if w["left"]:
                yield w["left"][0], ("crash", f"the process ended with {w['process'].exitcode}", ())
                self.start(w["left"][1:])
            return
        w["since"] = time.monotonic()
        if found:
            w["left"] = w["left"][1:]
            yield seed, found


def isolated(function: Any, *args: Any) -> Any:
    """Returns the function's result in a separate process; None if that crashes or hangs."""
    context = mp.get_context("fork")
    here, there = context.Pipe(duplex=False)
    p = context.Process(target=lambda: there.send(function(*args)), daemon=True)
    p.start()
    there.close()
    result = here.recv() if here.poll(TIMEOUT) and _has_more(here) else None
    if p.is_alive():
        p.join(1)
        p.kill()
    p.join()
    return result


def _has_more(pipe: Any) -> bool:
    try:
        pipe.poll()
    except EOFError:
        return False
    return True


def safely(graph: Graph, devices: list[str], compiled: bool) -> tuple[str, str, tuple]:
    try:
        return isolated(verdict, graph, devices, compiled) or ("crash", "the process ended", ())
    except EOFError:
        return "crash", "the process ended", ()


def explain(seed: int | str, found: tuple[str, str, tuple], args: argparse.Namespace) -> None:
    """Shrinks a failing graph, prints it and how to reproduce the failure."""
    kind, _, runs = found
    devices = [runs[0]] if runs else devices_for(args, seed)
    small = shrink(graph_of(seed), lambda g: safely(g, devices, args.compiled)[0] == kind)
    kind, text, runs = safely(small, devices, args.compiled)
    print(f"{describe(small)}\n{text}")
    folder = args.out / str(seed)
    try:
        print(isolated(write, small, Failure(kind, text, runs or (devices[0],)), folder), flush=True)
    except EOFError:
        print(f"no C reproduction: {folder} could not be written")


def explain_safely(seed: int | str, found: tuple[str, str, tuple], args: argparse.Namespace) -> None:
    """Reports a failure of this program, which loses only the shrunk graph."""
    if found[0] == "harness":
        return
    print(f"\n---- graph {seed}, made small", flush=True)
    try:
        explain(seed, found, args)
    except Exception:
        print(f"it could not be made small:\n{traceback.format_exc()}", flush=True)


def check(args: argparse.Namespace) -> tuple[collections.Counter, collections.Counter, list]:
    """Returns the number of graphs of each kind, the number of times each pass applied, and failures."""
    counts: collections.Counter = collections.Counter()
    passes: collections.Counter = collections.Counter()
    failures = []
    for seed, found in Workers(args, args.jobs).results():
        kind, text, _ = found
        counts[kind] += 1
        if args.verbose:
            print(f"{seed} {kind} {text[:200]}", flush=True)
        if kind in ("sharp", "blunt"):
            passes.update(filter(None, text.split(", ")))
        elif kind != "unfit":
            failures.append((seed, found))
            print(f"FAIL graph {seed}, {kind}: {text}", flush=True)
    return counts, passes, sorted(failures, key=str)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--device", default="cpu,opencl")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/graphs")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args()


def main() -> int:
    args = parse()
    begin = time.monotonic()
    torch.set_num_threads(1)
    quick_export.speed_up_export()
    logging.disable(logging.CRITICAL)
    export(make_graph(0))  # loads the modules that exports need, once for all processes
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("CLAVE_CACHE_DIR", cache)
        counts, passes, failures = check(args)
        for seed, found in [] if args.no_shrink else failures[:MAX_SHRUNK]:
            explain_safely(seed, found, args)
    passed = counts["sharp"] + counts["blunt"]
    print(f"seeds {args.seed} to {args.seed + args.count - 1}, {time.monotonic() - begin:.0f} s: {dict(counts)}")
    print(f"passes that applied: {dict(passes.most_common())}")
    for share, limit, what in (
        (counts["unfit"], MAX_UNFIT * args.count, "have no oracle"),
        (counts["blunt"], (1 - MIN_SHARP) * args.count, "would accept results that are 2 % larger"),
    ):
        if args.count >= 40 and share > limit:
            print(f"FAIL: {share} of {args.count} graphs {what}, at most {limit:.0f} should")
            failures.append((args.seed, what))
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
