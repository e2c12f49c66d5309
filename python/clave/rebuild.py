"""Makes programs of torch.export with a changed graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram


def copied_graph(program: ExportedProgram) -> torch.fx.GraphModule:
    """Returns a copy of the program's graph in which every node keeps its name, because the program's signature has
    these names. In a copy, torch renames a node that has the name of a Python builtin ("input")."""
    module = copy.deepcopy(program.graph_module)
    for old, new in zip(program.graph_module.graph.nodes, module.graph.nodes, strict=True):
        new.name = old.name
    module.recompile()
    return module


def rebuilt(program: ExportedProgram, module: torch.fx.GraphModule, constants: Mapping[str, Any]) -> ExportedProgram:
    """Returns a new program with the given graph and constants, and everything else of the program."""
    return ExportedProgram(
        module,
        module.graph,
        program.graph_signature,
        program.state_dict,
        program.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        dict(constants),
        verifiers=program.verifiers,
    )
