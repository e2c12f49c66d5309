"""What the methods of a program share: constants, stored once however often they appear, and state."""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputSpec, OutputSpec

from clave.builder import ProgramBuilder, Slot
from clave.errors import Code, Error, Unsupported
from clave.lowering.registry import Complex, dtype_of


def is_state_update(spec: OutputSpec) -> bool:
    return spec.kind.name in ("BUFFER_MUTATION", "PARAMETER_MUTATION")  # the latter: not in every torch


def changed_by(signature: ExportGraphSignature) -> set[str]:
    """The names of the buffers and parameters that a graph changes."""
    return {str(spec.target) for spec in signature.output_specs if is_state_update(spec)}


class Shared:
    """Constants and state of all methods. A buffer or parameter that any method changes is state in all of them, by its
    name."""

    def __init__(self, builder: ProgramBuilder, programs: dict[str, ExportedProgram]) -> None:
        self.builder = builder
        self.changed = {name for p in programs.values() for name in changed_by(p.graph_signature)}
        self.states: dict[str, Slot] = {}
        self._initial: dict[str, torch.Tensor] = {}
        self._by_storage: dict[Any, Slot] = {}
        self._by_content: dict[Any, Slot] = {}
        self._names: set[str] = set()
        self._kept: list[torch.Tensor] = []  # so that no address of a tensor in _by_storage is used again

    def tensor(self, program: ExportedProgram, spec: InputSpec) -> Slot | Complex:
        """The slot of a parameter, buffer or constant of a graph."""
        name = str(spec.target)
        data = program.state_dict.get(name)
        if data is None:
            data = program.constants[name]
        if name in self.changed:
            return self._state(name, data)
        return self.constant(data, name)

    def _state(self, name: str, data: torch.Tensor) -> Slot:
        if name not in self.states:
            # a copy: the module itself goes on changing its own
            initial = self.constant(data.clone(), f"{name}.initial") if bool(data.count_nonzero()) else None
            self.states[name] = Slot(_dtype(data, name), tuple(data.shape), "state", name)
            self.builder.state.append((self.states[name], initial))
            self._initial[name] = data
        first = self._initial[name]
        if first.shape != data.shape or first.dtype != data.dtype:
            a, b = (f"{t.dtype} {tuple(t.shape)}" for t in (data, first))
            raise Error(f"buffer {name!r} is {a} in one method and {b} in another")
        return self.states[name]

    def constant(self, data: torch.Tensor, name: str) -> Slot | Complex:
        """The slot of a tensor that never changes: that of an equal one if there is."""
        data = data.detach()
        if data.is_complex():
            return Complex(self.constant(torch.view_as_real(data.resolve_conj()), name))
        where = (data.data_ptr(), data.dtype, tuple(data.shape), data.stride(), data.device)
        if data.numel() and where in self._by_storage:
            return self._by_storage[where]
        slot = self._by_bytes(data, name)
        self._by_storage[where] = slot
        self._kept.append(data)
        return slot

    def _by_bytes(self, data: torch.Tensor, name: str) -> Slot:
        dtype = _dtype(data, name)
        data = data.cpu().contiguous()
        raw = data.reshape(-1).view(torch.uint8).numpy() if data.numel() else b""
        key = (dtype, tuple(data.shape), hashlib.blake2b(raw, digest_size=16).digest())
        if key not in self._by_content:
            self._by_content[key] = Slot(dtype, tuple(data.shape), "constant", self._unique(name))
            self.builder.constants.append((self._by_content[key], data))
        return self._by_content[key]

    def _unique(self, name: str) -> str:
        base, n = name, 1
        while name in self._names:
            n += 1
            name = f"{base}.{n}"
        self._names.add(name)
        return name


def _dtype(data: torch.Tensor, name: str) -> Any:
    if data.layout != torch.strided or data.is_quantized:
        raise Error(f"{name!r} is a sparse or quantised tensor, which is not supported", Code.UNSUPPORTED)
    try:
        return dtype_of(data.dtype)
    except Unsupported as e:
        raise Error(f"{name!r}: {e}", Code.UNSUPPORTED) from None
