"""Programs of torch.export with a changed graph."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram


def copied_graph(program: ExportedProgram) -> torch.fx.GraphModule:
    """A copy of the program's graph in which every node keeps its name, as the program's signature goes by names: torch
    gives a node that is called like one of Python's builtins ("input") another name in a copy."""
    module = copy.deepcopy(program.graph_module)
    for old, new in zip(program.graph_module.graph.nodes, module.graph.nodes, strict=True):
        new.name = old.name
    module.recompile()
    return module


def rebuilt(program: ExportedProgram, module: torch.fx.GraphModule, constants: Mapping[str, Any]) -> ExportedProgram:
    """A program of its own with that graph and those constants, all else as it is."""
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
