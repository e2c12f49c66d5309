"""Compiles random graphs. Prints each graph whose executable differs from a session in a bit or has compiler warnings,
and `N passed, N failed`.

    graphs.py --seed S --count N [--compiler CC] [--sanitize]

The graphs are those of test/graphs, at their export sizes. A graph with dynamic sizes is compiled once more with all of
them dynamic, for all of its sizes. Refused graphs are counted by reason.
"""

import argparse
import collections
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "graphs"), str(ROOT / "python")]

import quick_export
import run as graph_run
from beside import compare_graph, compare_sizes, inputs_of
from compiled import SAN, Builder, command, compare_carried
from execute import Failure, export
from generate import make_graph
from oracle import Unfit

import clave

MIN_COMPILED = 0.8  # share of the graphs


def carried_verdict(folder: pathlib.Path, inputs: list) -> str:
    """Returns "carried" or the difference, for a graph that is not written out as C."""
    r = command("compile", folder / "m.clv", "-o", folder / "m")
    try:
        assert r.returncode == 0, r.stderr
        compare_carried(folder / "m.clv", folder / "m", inputs)
    except clave.Error:
        return "unfit"
    except AssertionError as e:
        return str(e)
    return "carried"


def verdict(builder: Builder, seed: int, folder: pathlib.Path) -> str:
    """Returns "same", "carried", "unfit", "refused: WHY" or the difference."""
    graph = make_graph(seed)
    try:
        program, _ = export(graph)
    except (Unfit, Failure):
        return "unfit"
    found = compare_graph(builder, graph, program, folder)
    if found == "same":
        at_sizes = compare_sizes(builder, graph, folder)
        return found if at_sizes in ("fixed", "carried") else at_sizes
    return carried_verdict(folder, inputs_of(graph)) if found == "carried" else found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--compiler", default="gcc")
    parser.add_argument("--sanitize", action="store_true")
    args = parser.parse_args()
    quick_export.speed_up_export()
    builder = Builder(args.compiler, ("-O1", *SAN) if args.sanitize else ("-O0",))
    found: collections.Counter = collections.Counter()
    for seed in range(args.seed, args.seed + args.count):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="clave-compiled-"))
        said = graph_run.isolated(verdict, builder, seed, folder) or "crashed"
        shutil.rmtree(folder)
        kind = said if said in ("same", "carried", "unfit") else "refused" if said.startswith("refused") else "wrong"
        found[kind] += 1
        if kind in ("refused", "wrong"):
            print(f"graph {seed}: {said}")
    failed = found["wrong"] + (found["same"] + found["carried"] < MIN_COMPILED * (args.count - found["unfit"]))
    print(f"{dict(found)}\n{found['same'] + found['carried']} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
