"""Compares a random graph's program, written out as C and compiled, with a session on the CPU backend."""

import pathlib
import subprocess
from typing import Any

import numpy as np
from compiled import Builder, Carried, Refused, bits_of, compare, dims_of, emit, is_scalar, refusal, run, same_bits
from graph import Graph
from oracle import values_of

import clave


def inputs_of(graph: Graph) -> list[Any]:
    values = values_of(graph.arguments, graph.sizes[0], graph.seed)
    return [values[a.name] for a in graph.arguments]


def compare_graph(builder: Builder, graph: Graph, program: Any, folder: pathlib.Path) -> str:
    """Returns "same", "carried" if the program is not written out as C, "unfit", "refused: WHY" or the difference."""
    program.save(folder / "m.clv")
    try:
        compare(builder, folder / "m.clv", inputs_of(graph), folder / "c")
    except Carried:
        return "carried"
    except Refused as e:
        return f"refused: {str(e).split('; ')[0]}"
    except clave.Error:
        return "unfit"
    except AssertionError as e:
        return str(e)
    return "same"


def open_dims(exe: pathlib.Path, program: pathlib.Path, given: list[Any]) -> list[str]:
    """Returns --dim for each size of the executable, because no single file determines some sizes."""
    said = subprocess.run([exe, "--help"], capture_output=True, text=True, check=True).stdout
    words = dims_of(program, given)
    pairs = zip(words[::2], words[1::2], strict=True)
    return [w for pair in pairs if f"  size {pair[1].split('=')[0]}: " in said for w in pair]


def compare_sizes(builder: Builder, graph: Graph, folder: pathlib.Path) -> str:
    """Compiles m.clv in the folder, with all sizes dynamic, and runs each set of sizes of the graph. Returns "same",
    "fixed" if it has no dynamic sizes, "carried", or the difference. Both must refuse the same sizes."""
    program = folder / "m.clv"
    if not graph.sizes[0]:
        return "fixed"
    try:
        exe = builder.build(emit(program, folder / "open"))
    except Carried:
        return "carried"
    session = clave.Session(str(program), device="cpu")
    for k, sizes in enumerate(graph.sizes):
        values = values_of(graph.arguments, sizes, graph.seed + k)
        inputs = [values[a.name] for a in graph.arguments]
        given = [x if is_scalar(x) else bits_of(x) for x in inputs]
        try:
            session.reset()
            want = [np.asarray(w) for w in session.run(*inputs)]
        except clave.Error:
            n_outputs = len(session.program.methods["forward"].outputs)
            refusal(exe, given, n_outputs, *open_dims(exe, program, given))
            continue
        got = run(exe, given, want, *open_dims(exe, program, given))
        if not all(same_bits(a, b) for a, b in zip(got, want, strict=True)):
            return f"other bits than a session's at {sizes}"
    return "same"
