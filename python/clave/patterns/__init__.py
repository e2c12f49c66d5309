"""Passes over torch's graph before it is lowered: what a model wrote out in parts becomes the whole op again.

`apply` changes the graph in place and counts what it found. Constants are folded first, so that patterns see numbers
and masks; each pattern is a row of `registry.PATTERNS`. A pattern applies only where nothing outside reads what it
covers and every attribute fits; a result may differ from torch's by the order of a sum, or by a 16-bit rounding of an
intermediate that is left out (attention, rope), as in torch's own fused kernels. Nothing is rounded that torch does not
round.
"""

from __future__ import annotations

from collections import Counter

from torch.export import ExportedProgram
from torch.fx import Graph, Node

from clave.patterns import activation, attention, norm, rope  # noqa: F401 (they register patterns)
from clave.patterns.calls import Match, NoMatch, call
from clave.patterns.fold import fold_casts, fold_constants, remove_copies
from clave.patterns.registry import PATTERNS
from clave.patterns.rewrite import erase_dead, replace
from clave.patterns.views import fold_views, keep_layouts


def apply(program: ExportedProgram, changed: set[str]) -> Counter[str]:
    """How often each pass and pattern applied, by name. changed: buffers that some method changes, so no constants."""
    graph = program.graph_module.graph
    counts: Counter[str] = Counter()
    keep_layouts(graph)
    counts["dead_code"] = erase_dead(graph)
    counts["copy"] = remove_copies(graph)
    counts["cast"] = fold_casts(graph)
    counts["constant"] = fold_constants(program, changed)
    counts["view"] = fold_views(graph)
    while found := _apply_patterns(graph):
        counts += found
    counts["view"] += fold_views(graph)
    counts["constant"] += fold_constants(program, changed)
    counts["dead_code"] += erase_dead(graph)
    return +counts


def _apply_patterns(graph: Graph) -> Counter[str]:
    """One walk from the results to the inputs: of two matches that overlap, the larger one is seen first."""
    counts: Counter[str] = Counter()
    for node in reversed(list(graph.nodes)):
        if node.meta.get("erased") or (c := call(node)) is None:
            continue
        for row in PATTERNS:
            if c.kind in row.kinds and _apply(node, row.find):
                counts[row.name] += 1
                break
    return counts


def _apply(node: Node, find: object) -> bool:
    match = Match(node, {node})
    try:
        write = find(match)  # type: ignore[operator]
    except NoMatch:
        return False
    if not match.closed():
        return False
    replace(node, write())
    return True
