"""`ClaveBackend` turns the graphs that ExecuTorch delegates into one clave program. Each delegate is a method of it.

A delegate's payload has three lines: "clave 1", the program's key and the method. The program, in FlatBuffers, and its
constants are stored once in the .pte's named data, under keys that are hashes of their content.
"""

from __future__ import annotations

import hashlib
from typing import Any, final

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from clave import trace
from clave.constants import same_bytes
from clave.errors import Error
from clave.executorch.edge import Graph, in_torch
from clave.executorch.settings import Settings
from clave.exporter import lowered
from clave.places import nodes_of
from clave.program import Program
from clave.quiet import quiet
from clave.shared import data_of, is_state_update

ALIGNMENT = 64  # bytes; kernels read constants with this alignment fastest


@final
class ClaveBackend(BackendDetails):
    """The backend that a .pte names for clave's parts. ExecuTorch calls it; users need only `ClavePartitioner`."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """Makes a program of one graph. Raises UnsupportedOp if it has ops that clave cannot run."""
        return _lower({"forward": [edge_program]}, Settings.of(compile_specs))["forward"][0]

    @classmethod
    def preprocess_multimethod(
        cls, edge_programs: dict[str, list[ExportedProgram]], compile_specs: dict[str, list[list[CompileSpec]]]
    ) -> dict[str, list[PreprocessResult]]:
        """Makes one program of all graphs whose partitioners have the same settings."""
        results: dict[str, list[Any]] = {name: [None] * len(each) for name, each in edge_programs.items()}
        groups: dict[Settings, dict[str, list[int]]] = {}
        for name, specs in compile_specs.items():
            for i, spec in enumerate(specs):
                groups.setdefault(Settings.of(spec), {}).setdefault(name, []).append(i)
        for settings, group in groups.items():
            made = _lower({name: [edge_programs[name][i] for i in at] for name, at in group.items()}, settings)
            for name, at in group.items():
                for i, result in zip(at, made[name], strict=True):
                    results[name][i] = result
        return results


def _lower(programs: dict[str, list[ExportedProgram]], settings: Settings) -> dict[str, list[PreprocessResult]]:
    graphs = {(name, i): in_torch(p)[0] for name, each in programs.items() for i, p in enumerate(each)}
    for graph in graphs.values():
        trace.erase_dead(graph.graph_module.graph)
    names = {at: at[0] if at[1] == 0 else f"{at[0]}.{at[1]}" for at in graphs}
    if settings.share_mutable_buffers:
        _share_state(names, graphs)
    with quiet:
        program = lowered({names[at]: graph for at, graph in graphs.items()}, settings.quantize)
    store = NamedDataStore()
    key = _store(program, store, settings.external_data)
    data = store.get_named_data_store_output()
    results: dict[str, list[PreprocessResult]] = {name: [] for name in programs}
    for (name, i), graph in graphs.items():
        payload = f"clave 1\n{key}\n{names[name, i]}\n".encode()
        # The first delegate of each method carries the data. The .pte stores equal data once.
        results[name].append(PreprocessResult(payload, _handles(graph), data if i == 0 else None))
    return results


def _store(program: Program, store: NamedDataStore, external: str | None) -> str:
    """Adds the program and its constants to the store, names the constants by their keys, and returns the program's
    key."""
    from clave._generated.serialize import serialize

    schema = program.schema
    for constant, data in zip(schema.constants, program.stored(), strict=True):
        constant.name = f"{constant.name}-{_digest(data)}"
        if data:
            store.add_named_data(constant.name, data, ALIGNMENT, external)
    flat = bytes(serialize(schema))
    key = f"clave-{_digest(flat)}"
    store.add_named_data(key, flat, ALIGNMENT)
    return key


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def _handles(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Returns ExecuTorch's debug handles of the nodes by the names that profiling events have."""
    handles = {n.name: n.meta.get("debug_handle") for n in nodes_of(graph.graph_module)}
    return {name: h if isinstance(h, tuple) else (h,) for name, h in handles.items() if h is not None}


def _share_state(names: dict[Any, str], graphs: dict[Any, Graph]) -> None:
    """Makes each buffer that a method changes one tensor in all methods that have a buffer of its name.

    Raises Error if their dtypes, shapes or initial values differ.
    """
    changed = {str(o.target) for g in graphs.values() for o in g.graph_signature.output_specs if is_state_update(o)}
    first: dict[str, tuple[str, torch.Tensor]] = {}
    for at, graph in graphs.items():
        for name in changed & {str(i.target) for i in graph.graph_signature.input_specs}:
            own = data_of(graph, name)
            other, shared = first.setdefault(name, (names[at], own))
            if not _alike(own, shared):
                raise Error(
                    f"buffer {name!r} of methods {other!r} and {names[at]!r} cannot be shared: it is "
                    f"{_described(shared)} in the first and {_described(own)} in the second, "
                    "or their initial values differ"
                )
            (graph.state_dict if graph.state_dict.get(name) is not None else graph.constants)[name] = shared


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and same_bytes(a, b)


def _described(data: torch.Tensor) -> str:
    return f"{str(data.dtype).removeprefix('torch.')} {tuple(data.shape)}"
