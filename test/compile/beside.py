"""A random graph's program, written out and compiled, beside a session on the CPU backend."""

import pathlib
from typing import Any

from compiled import Builder, Carried, Refused, compare
from graph import Graph
from oracle import values_of

import clave


def inputs_of(graph: Graph) -> list[Any]:
    values = values_of(graph.arguments, graph.sizes[0], graph.seed)
    return [values[a.name] for a in graph.arguments]


def compare_graph(builder: Builder, graph: Graph, program: Any, folder: pathlib.Path) -> str:
    """ "same", "carried" where it is not written out, "unfit", "refused: WHY" or what is wrong."""
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
