"""The constants and the state that the methods of a program share. Equal constants are stored once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputSpec, OutputKind, OutputSpec

from clave.builder import ProgramBuilder, Slot, unique
from clave.constants import fingerprint, same_bytes
from clave.encodings import Stored
from clave.errors import Code, Error, Unsupported
from clave.lowering.registry import Complex, dtype_of
from clave.private import is_fake


def is_state_update(spec: OutputSpec) -> bool:
    return spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


def _changed_by(signature: ExportGraphSignature) -> set[str]:
    """Returns the names of the buffers and parameters that a graph changes."""
    return {str(spec.target) for spec in signature.output_specs if is_state_update(spec)}


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Returns the parameters, buffers and constants of a graph by the names in its signature."""
    named = {str(s.target) for s in program.graph_signature.input_specs if s.target is not None}
    everything = {**program.constants, **program.state_dict}
    return {k: v for k, v in everything.items() if k in named and isinstance(v, torch.Tensor)}


def _where(data: torch.Tensor) -> Any:
    """Returns a key that identifies a tensor: its address, dtype, shape, strides and device."""
    if not data.numel() or data.layout != torch.strided or is_fake(data):
        return id(data)
    return (data.data_ptr(), data.dtype, tuple(data.shape), data.stride(), data.device)


def _extent(data: torch.Tensor) -> tuple[Any, int, int]:
    """Returns (memory, first byte, byte after the last)."""
    reach = sum((n - 1) * stride for n, stride in zip(data.shape, data.stride(), strict=True)) + 1
    start = data.storage_offset() * data.element_size()
    return data.untyped_storage().data_ptr(), start, start + reach * data.element_size()


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    if not a.numel() or not b.numel() or a.layout != torch.strided or is_fake(a) or is_fake(b):
        return False
    (memory_a, first_a, end_a), (memory_b, first_b, end_b) = _extent(a), _extent(b)
    return memory_a == memory_b and first_a < end_b and first_b < end_a


class States:
    """The tensors that any method changes. Such a tensor is state in all methods that have it, under any name: equally
    named buffers of two modules are two states, and a buffer of a module with two names is one state.

    exported: the methods that are graphs of torch.export, not modules. If they were saved and loaded, it is unknown
    which tensors they share, so two tensors with the same name raise Error.
    """

    def __init__(self, programs: dict[str, ExportedProgram], exported: Iterable[str] = ()) -> None:
        tensors = {method: _tensors(p) for method, p in programs.items()}
        self._changed: dict[Any, tuple[str, torch.Tensor]] = {}
        for method, p in programs.items():
            for name in sorted(_changed_by(p.graph_signature)):
                data = tensors[method][name]
                self._changed.setdefault(_where(data), (name, data))
        _check_names(tensors, {name for p in programs.values() for name in _changed_by(p.graph_signature)}, exported)
        for of_method in tensors.values():
            for name, data in of_method.items():
                self._check_memory(name, data)

    def __contains__(self, data: torch.Tensor) -> bool:
        return _where(data) in self._changed

    def _check_memory(self, name: str, data: torch.Tensor) -> None:
        for other, changed in self._changed.values():
            if _where(data) != _where(changed) and _overlap(data, changed):
                raise Error(
                    f"{name!r} and {other!r} share memory without being one tensor, and {other!r} is changed: make one "
                    "a copy, or compute it in forward",
                    Code.UNSUPPORTED,
                )


def _check_names(tensors: dict[str, dict[str, torch.Tensor]], changed: set[str], exported: Iterable[str]) -> None:
    for name in sorted(changed):
        owners = [method for method, of_method in tensors.items() if name in of_method]
        if len({_where(tensors[method][name]) for method in owners}) > 1 and set(owners) & set(exported):
            raise Error(
                f"buffer {name!r} is not one tensor in methods {', '.join(map(repr, owners))}, and graphs of "
                "torch.export do not tell if they should share it: pass the modules",
                Code.UNSUPPORTED,
            )


class Shared:
    """The constants and the state of all methods."""

    def __init__(self, builder: ProgramBuilder, states: States) -> None:
        self.builder = builder
        self.states = states
        self._state_slots: dict[Any, Slot] = {}
        self._state_names: set[str] = set()
        self._by_storage: dict[Any, Slot] = {}
        self._by_content: dict[Any, list[tuple[Slot, torch.Tensor]]] = {}
        self._kept: list[torch.Tensor] = []  # kept alive, so that no address in _by_storage is reused

    def tensor(self, program: ExportedProgram, spec: InputSpec) -> Slot | Complex:
        """Returns the slot of a parameter, buffer or constant of a graph."""
        name = str(spec.target)
        data = data_of(program, name)
        return self._state(name, data) if data in self.states else self.constant(data, name)

    def state(self, program: ExportedProgram, name: str) -> Slot:
        """Returns the slot of a tensor that the graph changes."""
        return self._state(name, data_of(program, name))

    def _state(self, name: str, data: torch.Tensor) -> Slot:
        if data.is_complex():
            dtype = str(data.dtype).removeprefix("torch.")
            raise Error(
                f"{name!r} is {dtype}: complex state is not supported, keep it as pairs of real numbers "
                "(torch.view_as_real)",
                Code.UNSUPPORTED,
            )
        where = _where(data)
        if where not in self._state_slots:
            name = unique(name, self._state_names)
            # a copy, because the module continues to change its own
            initial = self.constant(data.clone(), f"{name}.initial") if _holds_bits(data) else None
            self._state_slots[where] = Slot(_dtype(data, name), tuple(data.shape), "state", name)
            self.builder.state.append((self._state_slots[where], initial))
        return self._state_slots[where]

    def constant(self, data: torch.Tensor, name: str) -> Slot | Complex:
        """Returns the slot of a tensor that never changes. Equal tensors share a slot."""
        data = _with_elements(data.detach(), name)
        if data.is_complex():
            return Complex(self.constant(torch.view_as_real(data.resolve_conj()), name))
        where = _where(data)
        if data.numel() and where in self._by_storage:
            return self._by_storage[where]
        slot = self._by_bytes(data, name)
        self._by_storage[where] = slot
        self._kept.append(data)
        return slot

    def encoded(self, stored: Stored, dtype: torch.dtype, shape: tuple[int, ...], name: str) -> Slot:
        """Returns the slot of a weight (n, ...) that is stored as codes, by rows. Equal weights share a slot."""
        rows, own = torch.from_numpy(stored.rows), dtype_of(dtype)
        alike = self._by_content.setdefault((own, shape, repr(stored.encoding), fingerprint(rows)), [])
        for slot, known in alike:
            if same_bytes(known, rows):
                return slot
        slot = Slot(own, shape, "constant", name, encoding=stored.encoding)
        return self._add(slot, rows, alike)

    def _by_bytes(self, data: torch.Tensor, name: str) -> Slot:
        dtype = _dtype(data, name)
        data = data.cpu().contiguous()
        alike = self._by_content.setdefault((dtype, tuple(data.shape), fingerprint(data)), [])
        for slot, known in alike:
            if same_bytes(known, data):
                return slot
        return self._add(Slot(dtype, tuple(data.shape), "constant", name), data, alike)

    def _add(self, slot: Slot, data: torch.Tensor, alike: list[tuple[Slot, torch.Tensor]]) -> Slot:
        alike.append((slot, data))
        self.builder.constants.append((slot, data))
        return slot


def data_of(program: ExportedProgram, name: str) -> torch.Tensor:
    """Returns a parameter, buffer or constant of a graph by its name."""
    data = program.state_dict.get(name)
    return program.constants[name] if data is None else data


def _with_elements(data: torch.Tensor, name: str) -> torch.Tensor:
    """Returns the tensor. Raises Error if it has a shape but no elements."""
    if data.is_meta or is_fake(data):
        raise Error(
            f"{name!r} is a tensor without elements: expected a weight in memory, got one on the meta device or one "
            "that torch.export made while it traced",
            Code.UNSUPPORTED,
        )
    return data


def _holds_bits(data: torch.Tensor) -> bool:
    """True if a tensor has a bit that is not zero."""
    return bool(data.detach().contiguous().reshape(-1).view(torch.uint8).count_nonzero())


def _dtype(data: torch.Tensor, name: str) -> Any:
    if data.layout != torch.strided or data.is_quantized:
        raise Error(f"{name!r} is a sparse or quantised tensor, which is not supported", Code.UNSUPPORTED)
    try:
        return dtype_of(data.dtype)
    except Unsupported as e:
        raise Error(f"{name!r}: {e}", Code.UNSUPPORTED) from None
